"""Epoch time and first-fit compile time of this version beside another one, in one run.

    .venv/bin/python benchmarks/before_after.py --before OTHER/.venv/bin/python [--rounds 5]

`--before` is a Python that has the other version. The two take turns, each measurement in a process
of its own, so that a slow spell of the machine falls on both; a ratio is taken within its round,
and the median over rounds is reported. Writes `benchmarks/results/before-after.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from data import DEFAULT_ZIP, HERE, cached_split

MACHINES = {
    "joint, 20 + 20 hidden units": {"hidden": 20, "item_links": 0},
    "joint, 50 + 200 hidden units, 100 links": {"hidden": (50, 200), "item_links": 100},
}

EPOCHS = """
import json, sys
from statistics import median
import numpy as np
from ordbm import OrdinalBM, Ratings
with np.load(sys.argv[1]) as split:
    ratings = Ratings(split["train_user"], split["train_item"], split["train_rating"])
told = json.loads(sys.argv[2])
if isinstance(told["hidden"], list):
    told["hidden"] = tuple(told["hidden"])
model = OrdinalBM(epochs=6, members=1, presence=False, threads=2, **told).fit(ratings)
print(median(record.seconds for record in model.history[2:]))
"""

FIRST_FIT = """
import time
import numpy as np
from ordbm import OrdinalBM, Ratings
pairs = np.random.default_rng(0).permutation(5000)[:1500]
levels = np.random.default_rng(1).integers(1, 6, len(pairs))
started = time.perf_counter()
OrdinalBM().fit(Ratings(pairs // 50, pairs % 50, levels))
print(time.perf_counter() - started)
"""


def measured(python: str, program: str, *arguments: str, cache: str | None = None) -> float:
    """The number that a program prints; `cache` is a folder for compiled kernels."""
    environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    environment.pop("PYTHONPATH", None)
    command = [python, "-c", program, *arguments]
    result = subprocess.run(  # noqa: S603
        command, stdout=subprocess.PIPE, check=True, text=True, env=environment
    )
    return float(result.stdout)


def compile_seconds(python: str) -> float:
    """First fit less second fit of 1,500 ratings, no kernel compiled before the first."""
    with tempfile.TemporaryDirectory() as cache:
        first, second = (measured(python, FIRST_FIT, cache=cache) for _ in range(2))
    return first - second


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--before", required=True, help="a Python that has the other version")
    parser.add_argument("--data", type=Path, default=DEFAULT_ZIP)
    parser.add_argument("--rounds", type=int, default=5)
    told = parser.parse_args()
    split = str(cached_split(told.data, 0))
    kinds = {
        f"seconds an epoch: {name}": lambda python, machine=machine: measured(
            python, EPOCHS, split, json.dumps(machine)
        )
        for name, machine in MACHINES.items()
    }
    rows = []
    for name, measure in (*kinds.items(), ("compiling at the first fit, seconds", compile_seconds)):
        rounds = 3 if measure is compile_seconds else told.rounds
        if measure is not compile_seconds:
            for python in (told.before, sys.executable):
                measure(python)  # compiles
        pairs = []
        for number in range(rounds):
            print(f"{name}: round {number + 1} of {rounds}", file=sys.stderr)
            pairs.append((measure(told.before), measure(sys.executable)))
        before, now = (median(values) for values in zip(*pairs, strict=True))
        ratio = median(after / first for first, after in pairs)
        rows.append({"figure": name, "before": before, "now": now, "ratio": ratio, "rounds": pairs})
    folder = HERE / "results"
    (folder / "before-after.json").write_text(json.dumps(rows, indent=1) + "\n")
    lines = [
        "# Before and after",
        "",
        (
            "By `benchmarks/before_after.py`: two versions in turn, MovieLens 1M (80 %), two "
            "threads, one machine; medians, the ratio within a round."
        ),
        "",
        "| | before | now | ratio |",
        "| --- | --- | --- | --- |",
        *(
            f"| {row['figure']} | {row['before']:.3f} | {row['now']:.3f} | {row['ratio']:.2f} |"
            for row in rows
        ),
    ]
    (folder / "before-after.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
