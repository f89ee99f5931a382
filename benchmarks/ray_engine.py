"""Seconds per epoch by workers of Ray on this machine, beside threads, and a cost model of them.

    python benchmarks/ray_engine.py [--data ../shared/data/netflix-3000.parquet] [--epochs 4]

Two machines: on two threads, and at two workers. One machine: on two threads, and its users shared
out over 1, 2 and 4 workers of one thread. The median of epochs after the first, learning alone.
Seconds of 1, 2 and 4 workers are fitted by

    rate N / min(W, cores) + wait (A + 3 B + 1) W

with A and B blocks of users and of items; the page has what it says of each, and of larger data on
named clusters, whose network is an assumption. Run it with nothing else on the machine.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from provenance import commit, cpu_model

import ordbm
from ordbm.engines.ray_core import RayCore
from ordbm.model.learners import PseudoLikelihood
from ordbm.runtime.cpus import usable_cpus
from ordbm.training.plan import cut_rows

RESULTS = Path(__file__).resolve().parent / "results"
HIDDEN, LEVELS = (50, 200), 5
TOLD: dict[str, Any] = {
    "hidden": HIDDEN, "item_links": 0, "presence": False, "context": False, "seed": 0,
}  # fmt: skip
NETWORK = 1e9  # bytes a second and node: 10 Gbit/s, less what protocols take
# Ratings, users, items; nodes, and cores of each.
CLUSTERS = (
    (1e9, 10e6, 100e3, 4, 16),
    (1e9, 10e6, 100e3, 16, 16),
    (100e9, 500e6, 1e6, 16, 64),
    (100e9, 500e6, 1e6, 128, 64),
)


def main() -> None:
    """Measure, fit, and write both files of results."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--data", default="../shared/data/netflix-3000.parquet")
    asked.add_argument("--epochs", type=int, default=4)
    asked.add_argument("--results", type=Path, default=RESULTS)
    given = asked.parse_args()
    known = given.data == "movielens-small"
    ratings = ordbm.load_dataset(given.data) if known else ordbm.read_ratings(given.data)
    rows: list[dict[str, Any]] = []
    for members, workers in ((2, 0), (1, 0), (2, 2), (1, 1), (1, 2), (1, 4)):
        seconds = measured(ratings, members, workers, given.epochs)
        rows.append({"members": members, "workers": workers, "seconds": seconds})
        print(json.dumps(rows[-1]), flush=True)
    found = {
        "commit": commit(), "cpu": cpu_model(), "cores": usable_cpus(),
        "data": Path(given.data).name, "ratings": len(ratings), "rows": rows,
        "blocks": blocks(ratings),
    }  # fmt: skip
    found["rate"], found["wait"] = fitted(found)
    (given.results / "ray.json").write_text(json.dumps(found, indent=1) + "\n")
    (given.results / "ray.md").write_text(page(found))


def measured(ratings: ordbm.Ratings, members: int, workers: int, epochs: int) -> float:
    """Seconds of an epoch at so many workers; at none on two threads of this process."""
    told = TOLD | {"members": members, "epochs": epochs}
    if not workers:
        model = ordbm.OrdinalBM(**told, threads=2).fit(ratings)
    else:
        engine = RayCore(cpus=workers)
        try:
            model = ordbm.OrdinalBM(**told, threads=1, engine="ray").fit(ratings)
        finally:
            engine.close()
    return median(record.seconds for record in model.history[1:])


def blocks(ratings: ordbm.Ratings) -> list[int]:
    """How many blocks users and items are cut into."""
    counts = [np.diff(rows.start) for rows in (ratings.by_user, ratings.by_item)]
    optimiser = PseudoLikelihood().optimiser
    return [
        cut_rows(counts[side], len(counts[1 - side]), optimiser, side).n_blocks for side in (0, 1)
    ]


def rounds(cut: list[int]) -> int:
    """Sums over all workers in an epoch."""
    return cut[0] + 3 * cut[1] + 1


def fitted(found: dict[str, Any]) -> tuple[float, float]:
    """Seconds of a rating and core, and of a sum for each worker, by least squares."""
    own = [row for row in found["rows"] if row["members"] == 1 and row["workers"]]
    design = [
        [found["ratings"] / min(row["workers"], found["cores"]),
         rounds(found["blocks"]) * row["workers"] * (row["workers"] > 1)]
        for row in own
    ]  # fmt: skip
    answer, *_ = np.linalg.lstsq(np.array(design), np.array([r["seconds"] for r in own]))
    return float(answer[0]), float(answer[1])


def expected(found: dict[str, Any], workers: int) -> float:
    """Seconds of an epoch here, by the model."""
    compute = found["rate"] * found["ratings"] / min(workers, found["cores"])
    return compute + found["wait"] * rounds(found["blocks"]) * workers * (workers > 1)


def sent(items: float, cut: list[int]) -> float:
    """Bytes that a worker sends in an epoch, at most: every block of users has all items."""
    user_units, item_units = (8 * -(-size // 8) for size in HIDDEN)
    per_item = 4 * (LEVELS * user_units + LEVELS)
    return cut[0] * items * per_item + 12 * items * item_units


def page(found: dict[str, Any]) -> str:
    """The results in words and tables."""
    by = {(row["members"], row["workers"]): row["seconds"] for row in found["rows"]}
    lines = [
        "# Learning on Ray",
        "",
        f"`python benchmarks/ray_engine.py` at {found['commit']}, {found['cpu']},",
        f"{found['cores']} cores; {found['data']}, {found['ratings']:,} ratings, hidden={HIDDEN},",
        f"{found['blocks'][0]} and {found['blocks'][1]} blocks of users and items.",
        "",
        "| machines | where | seconds an epoch | beside two threads | by the model |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (members, workers), seconds in by.items():
        where = f"{workers} workers" if workers else "2 threads"
        ratio = seconds / by[members, 0]
        told = f"{expected(found, workers):.2f}" if members == 1 and workers else ""
        lines.append(f"| {members} | {where} | {seconds:.2f} | {ratio:.2f} | {told} |")
    lines += [
        "",
        f"Fitted: {found['rate'] * 1e9:.0f} ns a rating and core, {found['wait'] * 1e3:.2f} ms a",
        "sum and worker.",
        "",
        "## Larger data: the model's, nothing measured",
        "",
        f"One machine. As many blocks, the same times, {NETWORK / 1e9:g} GB a second and node.",
        "",
        "| ratings | items | nodes x cores | computing, s | sums, s | network, s | GB a node |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    cut = found["blocks"]
    for ratings, _, items, nodes, cores in CLUSTERS:
        compute = found["rate"] * ratings / (nodes * cores)
        wait, n_bytes = found["wait"] * rounds(cut) * nodes, sent(items, cut)
        lines.append(
            f"| {ratings:.0e} | {items:,.0f} | {nodes} x {cores} | {compute:,.0f} | {wait:,.0f} | "
            f"{2 * n_bytes / NETWORK:,.0f} | {2 * n_bytes / 1e9:,.1f} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
