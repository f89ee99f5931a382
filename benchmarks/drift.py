"""What a model that has grown has lost against one learnt anew, by how far it has drifted.

    benchmarks/drift [--data ml-100k,ml-latest-small-2016,filmtrust] [--seeds 3]

The last tenth of the ratings, by time or in a random order, is predicted by a machine learnt from
all others, and by machines learnt from the first of these, which took in the rest in batches of a
fiftieth. Each is a row of `benchmarks/results/drift.jsonl`; starting again goes on. `drift.md` says
what is lost at each drift, which is what `ordbm inspect` advises by.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from provenance import commit, cpu_model

import ordbm

HERE = Path(__file__).resolve().parent
FILES = HERE.parent.parent / "shared" / "data"
ONE: dict[str, Any] = {"members": 1, "presence": False, "context": False, "threads": 1}
DRIFTS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
TEST, BATCH = 0.1, 0.02
Row = dict[str, Any]


def in_order(ratings: ordbm.Ratings, order: str, seed: int) -> np.ndarray:
    """Positions, as they came or in a random order."""
    random = np.random.default_rng(seed).permutation(len(ratings))
    if order == "random":
        return random
    return random[np.argsort(ratings.times[random], kind="stable")]


def loss(model: ordbm.OrdinalBM, test: ordbm.Ratings) -> dict[str, float]:
    """Log-loss and RMSE of test ratings."""
    scores = ordbm.evaluate(model, test, bootstrap=0).scores
    return {name: scores[name] for name in ("log_loss", "rmse")}


def lost(ratings: ordbm.Ratings, order: str, seed: int) -> dict[str, Any]:
    """Scores of a machine learnt from everything, and of those that grew."""
    place = in_order(ratings, order, seed)
    n = round((1 - TEST) * len(ratings))
    test = ratings.select(place[n:])

    def learnt(count: int) -> tuple[ordbm.OrdinalBM, float]:
        started = time.process_time()
        model = ordbm.OrdinalBM(seed=seed, **ONE).fit(ratings.select(place[:count]))
        return model, time.process_time() - started

    model, seconds = learnt(n)
    found: dict[str, Any] = {"anew": loss(model, test), "seconds": seconds, "grown": {}}
    for drift in DRIFTS:
        begin = round(n / (1 + drift))
        model, _ = learnt(begin)
        started = time.process_time()
        for part in np.array_split(place[begin:n], max(1, round((n - begin) / (BATCH * n)))):
            model.partial_fit(ratings.select(part))
        grown = {"drift": model.growth.drift, "seconds": time.process_time() - started}
        found["grown"][str(drift)] = loss(model, test) | grown
    return found


def page(rows: list[Row]) -> str:
    """What is lost at each drift."""
    lines = ["# What is lost by growing", "", "Written by `benchmarks/drift`.", ""]
    lines += ["Log-loss above that of a machine learnt anew, mean over seeds:", ""]
    lines += ["| drift | " + " | ".join(f"{drift:g}" for drift in DRIFTS) + " |"]
    lines += ["| --- |" + " ---: |" * len(DRIFTS)]
    every = []
    for data, order in sorted({(row["data"], row["order"]) for row in rows}):
        mine = [row for row in rows if (row["data"], row["order"]) == (data, order)]
        gap = [
            [row["grown"][str(d)]["log_loss"] - row["anew"]["log_loss"] for d in DRIFTS]
            for row in mine
        ]
        every.append(np.mean(gap, axis=0))
        lines.append(f"| {data}, {order} | {_figures(every[-1])} |")
    lines += [f"| mean | {_figures(np.mean(every, axis=0))} |", ""]
    lines.append(f"Commit {rows[-1]['commit']}, {rows[-1]['cpu']}.")
    return "\n".join(lines) + "\n"


def _figures(values: np.ndarray) -> str:
    return " | ".join(f"{value:+.4f}" for value in values)


def main() -> None:
    """Measure what is missing and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-100k,ml-latest-small-2016,filmtrust")
    parser.add_argument("--seeds", default=3, type=int)
    parser.add_argument("--minutes", default=1e6, type=float, help="after which nothing is begun")
    parser.add_argument("--files", type=Path, default=FILES, help="folder of the data files")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "drift.jsonl")
    told = parser.parse_args()
    warnings.simplefilter("ignore", ordbm.errors.UnknownIdsWarning)
    results: Path = told.results
    rows: list[Row] = []
    if results.exists():
        rows = [json.loads(line) for line in results.read_text().splitlines()]
    end = time.monotonic() + 60 * told.minutes
    for seed in range(told.seeds):
        for data in told.data.split(","):
            path = told.files / f"{data}.zip"
            if not path.exists():
                parser.error(f"no {path}: say where the data files are with --files")
            ratings = ordbm.read_ratings(path)
            for order in ("time", "random") if ratings.has_times else ("random",):
                what = {"data": data, "order": order, "seed": seed}
                if time.monotonic() > end or any(what.items() <= row.items() for row in rows):
                    continue
                print(json.dumps(what), flush=True)
                rows.append(
                    what | lost(ratings, order, seed) | {"commit": commit(), "cpu": cpu_model()}
                )
                results.write_text("".join(json.dumps(row) + "\n" for row in rows))
                results.with_suffix(".md").write_text(page(rows))
    print(results.with_suffix(".md"))


if __name__ == "__main__":
    main()
