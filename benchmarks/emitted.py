"""What each loop that spells out LLVM gives: an epoch with a plain twin in its place.

    .venv/bin/python benchmarks/emitted.py [--rounds 9] [--only level_terms,add_levels]
                                           [--machines 20]

A twin is the same loop in plain Python, compiled by Numba. Versions take turns epoch by epoch, one
process each, on one thread. The time of a kernel is the least over the rounds, block by block, so
that spells in which the machine does something else fall out; an epoch is the sum of its kernels.
`--machines` takes those whose name begins so. Writes `benchmarks/results/emitted.json` and `.md`
after each machine; what is there of others stays.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import plain_twins
from data import DEFAULT_ZIP, HERE, cached_split

from ordbm import OrdinalBM, Ratings
from ordbm.training import ensemble, side_pass

MACHINES = {
    "20 + 20 hidden units": {"hidden": [20, 20], "item_links": 0},
    "50 + 200 hidden units, 100 links": {"hidden": [50, 200], "item_links": 100},
}
TWINS = {  # of each function, the modules that call it
    "level_terms": "conditional",
    "log_products": "conditional",
    "level_residual": "conditional",
    "spread_residual": "conditional",
    "add_levels": "conditional",
}
KERNELS = (
    "fill_hidden", "fill_link_scores", "level_conditionals", "sum_link_residuals", "step_shared",
    "step_columns", "step_links",
)  # fmt: skip


def learn(split: str, machine: dict[str, Any], plain: list[str]) -> None:
    """Child: an epoch for each line that comes in; out go each kernel's seconds by block."""
    for name in plain:
        setattr(sys.modules[f"ordbm.kernels.{TWINS[name]}"], name, getattr(plain_twins, name))
    seconds: dict[str, float] = {}
    block = [""]

    def timed(name: str) -> None:
        kernel = getattr(side_pass, name)

        def call(*arguments: Any) -> None:
            started = time.perf_counter()
            kernel(*arguments)
            key = f"{name}|{block[0]}"
            seconds[key] = seconds.get(key, 0.0) + time.perf_counter() - started

        setattr(side_pass, name, call)

    for name in KERNELS:
        timed(name)
    learn_block = side_pass.SideTraining._learn_block
    epoch = ensemble.Ensemble.epoch

    def named_block(side: Any, now: Any, number: int, thread: int) -> None:
        block[0] = f"{side.seed}.{number}"
        learn_block(side, now, number, thread)

    def in_turn(self: Any, number: int, tell: Any = None) -> float:
        if not sys.stdin.readline():
            raise SystemExit
        seconds.clear()
        objective = epoch(self, number, tell)
        print(json.dumps({"objective": objective, "seconds": seconds}), flush=True)
        return objective

    side_pass.SideTraining._learn_block = named_block
    ensemble.Ensemble.epoch = in_turn
    with np.load(split) as data:
        ratings = Ratings(data["train_user"], data["train_item"], data["train_rating"])
    machine = {**machine, "hidden": tuple(machine["hidden"])}
    OrdinalBM(epochs=10_000, members=1, presence=False, threads=1, **machine).fit(ratings)


def versions(only: list[str]) -> Iterator[tuple[str, ...]]:
    """The functions to take a twin of, none first."""
    yield ()
    yield from ((name,) for name in only)
    if len(only) > 1:
        yield tuple(only)


def measured(
    split: str, machine: dict[str, Any], rounds: int, plain: list[tuple[str, ...]]
) -> list:
    """For each version the seconds of each kernel in an epoch, and the last objective."""
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for names in plain:
            told = json.dumps([split, machine, list(names)])
            environment = os.environ | {"NUMBA_CACHE_DIR": f"{folder}/{len(children)}"}
            children.append(
                subprocess.Popen(  # noqa: S603
                    [sys.executable, __file__, "--child", told],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env=environment,
                )
            )
        least: list[dict[str, float]] = [{} for _ in children]
        objective = [0.0] * len(children)
        for number in range(rounds + 1):  # the first compiles
            print(f"round {number} of {rounds}", file=sys.stderr)
            for here, child in enumerate(children):
                child.stdin.write("epoch\n")
                child.stdin.flush()
                answer = json.loads(child.stdout.readline())
                objective[here] = answer["objective"]
                for key, value in answer["seconds"].items():
                    least[here][key] = min(least[here].get(key, value), value)
        for child in children:
            child.stdin.close()
            child.wait()
    found = []
    for names, times, last in zip(plain, least, objective, strict=True):
        kernels: dict[str, float] = defaultdict(float)
        for key, value in times.items():
            kernels[key.split("|")[0]] += value
        found.append({"plain": list(names), "objective": last, "seconds": dict(kernels)})
    return found


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, default=DEFAULT_ZIP)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default=",".join(TWINS))
    parser.add_argument("--machines", default="", help="those whose name begins so")
    told = parser.parse_args()
    if told.child:
        learn(*json.loads(told.child))
        return
    split = str(cached_split(told.data, 0))
    plain = list(versions(told.only.split(",")))
    stored = HERE / "results" / "emitted.json"
    results = json.loads(stored.read_text()) if stored.exists() else {}
    for name, machine in MACHINES.items():
        if name.startswith(told.machines):
            results[name] = measured(split, machine, told.rounds, plain)
            stored.write_text(json.dumps(results, indent=1) + "\n")
            stored.with_suffix(".md").write_text(page_of(results))
    print(page_of(results))


def page_of(results: dict[str, Any]) -> str:
    """The table: a row for each version, two columns for each machine."""
    lines = [
        "# Loops that spell out LLVM",
        "",
        (
            "By `benchmarks/emitted.py`: MovieLens 1M (80 %), one thread, each loop replaced by a "
            "plain twin, all versions in turn; the kernels' time of an epoch as a multiple of what "
            "it is with all loops emitted, and the objective at the end."
        ),
        "",
        "| plain | " + " | ".join(f"{name}: time | objective" for name in results) + " |",
        "| --- |" + " --- | --- |" * len(results),
    ]
    by_version: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for name, rows in results.items():
        none = sum(rows[0]["seconds"].values())
        for row in rows:
            share = sum(row["seconds"].values()) / none
            by_version[tuple(row["plain"])][name] = f"{share:.2f} | {row['objective']:.4f}"
    for names, cells in by_version.items():
        shown = ", ".join(n if n in TWINS else f"{n} (plain since)" for n in names) or "none"
        shown = "all of these" if set(TWINS) <= set(names) else shown
        lines.append(f"| {shown} | " + " | ".join(cells.get(one, " | ") for one in results) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
