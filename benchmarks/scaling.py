"""Time per epoch and per rating, and peak memory, by the number of ratings; and a full training.

    benchmarks/scaling [--sizes 1,5,all] [--data ../shared/data/netflix-3000.parquet]
                       [--whole-sizes 50,all] [--whole ../shared/data/netflix-all.parquet] [--again]

Samples of the Netflix subset, and of all its ratings, are of whole users, so that rows keep their
length; a smaller sample is part of a larger one. Presence and links between items are left out;
with --full a machine of 100 links is trained to the end on the subset. Each training is a process
of its own. A finished one is a row of `benchmarks/results/scaling.jsonl`; starting again goes on
with those that are missing. `scaling.md` and `scaling.svg` are written from the rows after each.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accuracy import FILES, RESULTS, Row, stored_rows, told
from data import CACHE, HERE, sha256
from provenance import commit, cpu_model
from pyarrow import parquet
from scaling_report import draw, page

MACHINE = {"sides": "joint", "hidden": 20, "members": 1, "seed": 0, "presence": False}
EPOCHS = 5  # the first is told apart: it also prepares the training
FULL_EPOCHS = 20
WHOLE = "all"


class Run(NamedTuple):
    """A training: of a sample, or of all ratings."""

    source: Path
    size: str  # millions of ratings, or all
    sample_seed: int
    threads: int | None
    item_links: int = 0
    epochs: int = EPOCHS

    @property
    def settings(self) -> dict[str, Any]:
        return {
            **MACHINE, "item_links": self.item_links, "epochs": self.epochs,
            "threads": self.threads,
        }  # fmt: skip

    def is_of(self, row: Row) -> bool:
        same = row["data"], row["size"], row["sample_seed"], row["settings"]
        return same == (self.source.stem, self.size, self.sample_seed, self.settings)


def sample(digest: str, run: Run) -> Path:
    """Where the ratings of a run are: users drawn at random until there are enough ratings."""
    source = run.source
    if run.size == WHOLE:
        return source
    name = f"{source.stem}-{digest[:8]}-{run.size}M-seed{run.sample_seed}.parquet"
    target = CACHE / "samples" / name
    if not target.exists():
        table = parquet.read_table(source)
        _, user, counts = np.unique(
            table["user"].to_numpy(), return_inverse=True, return_counts=True
        )
        order = np.random.default_rng(run.sample_seed).permutation(len(counts))
        enough = 1 + np.searchsorted(np.cumsum(counts[order]), 1e6 * float(run.size))
        drawn = np.zeros(len(counts), bool)
        drawn[order[:enough]] = True
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.tmp")
        parquet.write_table(table.filter(drawn[user]), partial)
        partial.replace(target)  # in one step: a run that is stopped leaves no half-written sample
    return target


def row_of(run: Run, digest: str) -> Row:
    """Train, and say how it was made."""
    load = os.getloadavg()[0]
    data = sample(digest, run)
    script = str(HERE / "scaling_fit.py")
    command = [sys.executable, script, str(data), json.dumps(run.settings)]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603
    options = ["--sizes", run.size, "--seed", str(run.sample_seed), "--data", run.source.name]
    options += ["--threads", str(run.threads)] if run.threads else []
    return {
        "data": run.source.stem,
        "size": run.size,
        "sample_seed": run.sample_seed,
        "settings": run.settings,
        **json.loads(found.stdout),
        "file_sha256": digest,
        "command": shlex.join(["benchmarks/scaling", *options]),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load": round(load, 2),
    }


def expected_seconds(run: Run, rows: Sequence[Row]) -> float | None:
    """By the largest finished training with as many links, in proportion to ratings and epochs."""
    known = [row for row in rows if row["settings"]["item_links"] == run.item_links]
    if not known:
        return None
    nearest = max(known, key=lambda row: row["ratings"])
    n_all = parquet.ParquetFile(run.source).metadata.num_rows
    size = n_all if run.size == WHOLE else 1e6 * float(run.size)
    epoch = float(np.median(nearest["epoch_seconds"]))
    once = nearest["read_seconds"] + nearest["links_seconds"]
    return (once + run.epochs * epoch) * size / nearest["ratings"]


def store(rows: Sequence[Row], path: Path) -> None:
    """Write the rows, in order, and the page and the plot of them."""

    def place(row: Row) -> tuple[int, int, int]:
        return row["ratings"], row["settings"]["epochs"], row["settings"]["item_links"]

    rows = sorted(rows, key=place)
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text("".join(json.dumps(row) + "\n" for row in rows))
    partial.replace(path)
    short = [row for row in rows if row["settings"]["epochs"] == EPOCHS]
    full = [row for row in rows if row["settings"]["epochs"] == FULL_EPOCHS]
    path.with_suffix(".md").write_text(page(short, full))
    draw(short, path.with_suffix(".svg"))


def main() -> None:
    """Run what is missing and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, sizes, file in (
        ("", "1,5,all", "netflix-3000.parquet"),
        ("whole-", "50,all", "netflix-all.parquet"),
    ):
        parser.add_argument(
            f"--{name}sizes",
            type=lambda text: text.split(",") if text else [],
            default=sizes.split(","),
            help=f"millions of ratings, or all (default: {sizes})",
        )
        option = f"--{name or 'data-'}"[:-1]
        parser.add_argument(option, type=Path, default=FILES / file, help="Netflix ratings")
    parser.add_argument("--seed", type=int, default=0, help="of the samples")
    parser.add_argument("--threads", type=int, default=None, help="all cores unless given")
    parser.add_argument(
        "--full", action="store_true", help="also a training to the end, with links"
    )
    parser.add_argument("--again", action="store_true", help="also what there is a row of")
    parser.add_argument("--results", type=Path, default=RESULTS / "scaling.jsonl")
    arguments = parser.parse_args()
    asked = ((arguments.data, arguments.sizes), (arguments.whole, arguments.whole_sizes))
    runs = [
        Run(source, size, arguments.seed, arguments.threads)
        for source, sizes in asked
        for size in sizes
    ]
    if arguments.full:
        runs.append(Run(arguments.data, WHOLE, arguments.seed, arguments.threads, 100, FULL_EPOCHS))
    for source in {run.source for run in runs}:
        if not source.exists():
            parser.error(f"no {source}: say where the Netflix ratings are with --data and --whole")
    digests = {source: sha256(source) for source in {run.source for run in runs}}

    rows = stored_rows(arguments.results)
    wanted = [
        run
        for run in runs
        if arguments.again
        or not any(run.is_of(row) and row["file_sha256"] == digests[run.source] for row in rows)
    ]
    for number, run in enumerate(wanted):
        times = [expected_seconds(one, rows) for one in wanted[number:]]
        left = None if None in times else sum(filter(None, times))
        print(
            f"[{number + 1}/{len(wanted)}] {run.source.stem}, {run.size} million ratings, "
            f"{run.item_links} links, {run.epochs} epochs: expected {told(times[0])}, "
            f"left {told(left)}",
            flush=True,
        )
        row = row_of(run, digests[run.source])
        print(f"  fit {told(row['fit_seconds'])}  {row['peak_gb']:.2f} GB", flush=True)
        rows = [one for one in rows if not run.is_of(one)] + [row]
        store(rows, arguments.results)
    if rows:
        store(rows, arguments.results)
    print(arguments.results.with_suffix(".md"))


if __name__ == "__main__":
    main()
