"""What each loop that spells out LLVM gives: an epoch with a plain twin in its place.

    .venv/bin/python benchmarks/emitted.py [--rounds 9] [--only level_terms,add_levels]
                                           [--machines 20]

A twin is the same loop in plain Python, compiled by Numba. Versions take turns epoch by epoch, one
process each, on one thread. The time of a block is the least over the rounds, so that spells in
which the machine does something else fall out; an epoch is the sum of its blocks.
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
    "store_levels": "conditional",
    "exchange_levels": "conditional",
    "add_coupling_rows": "hidden",
    "add_context_rows": "steps",
    "move_coupling": "steps",
}
SMALL = (
    "store_levels",
    "exchange_levels",
    "add_coupling_rows",
    "add_context_rows",
    "move_coupling",
)


def learn(split: str, machine: dict[str, Any], plain: list[str]) -> None:
    """Child: an epoch for each line that comes in; out go the seconds of its blocks."""
    for name in plain:
        setattr(sys.modules[f"ordbm.kernels.{TWINS[name]}"], name, getattr(plain_twins, name))
    seconds: dict[str, float] = {}
    learn_block = side_pass.learn_block
    epoch = ensemble.Ensemble.epoch

    def timed_block(side: Any, now: Any, number: int, team: Any) -> bool:
        started = time.perf_counter()
        done = learn_block(side, now, number, team)
        seconds[f"{side.seed}.{number}"] = time.perf_counter() - started
        return done

    def in_turn(self: Any, number: int, tell: Any = None) -> float:
        if not sys.stdin.readline():
            raise SystemExit
        seconds.clear()
        objective = epoch(self, number, tell)
        print(json.dumps({"objective": objective, "seconds": seconds}), flush=True)
        return objective

    side_pass.learn_block = timed_block
    ensemble.Ensemble.epoch = in_turn
    with np.load(split) as data:
        ratings = Ratings(data["train_user"], data["train_item"], data["train_rating"])
    machine = {**machine, "hidden": tuple(machine["hidden"])}
    OrdinalBM(epochs=10_000, members=1, presence=False, threads=1, **machine).fit(ratings)


def versions(only: list[str]) -> Iterator[tuple[str, ...]]:
    """The functions to take a twin of, none first."""
    yield ()
    yield from ((name,) for name in only)
    for names in (SMALL, tuple(only)):
        if len(names) > 1 and set(names) <= set(only):
            yield names


def measured(
    split: str, machine: dict[str, Any], rounds: int, plain: list[tuple[str, ...]]
) -> list:
    """For each version the seconds of an epoch's blocks, and the last objective."""
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
    return [
        {"plain": list(names), "objective": last, "seconds": sum(times.values())}
        for names, times, last in zip(plain, least, objective, strict=True)
    ]


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
            "plain twin, all versions in turn; the time of an epoch as a multiple of what "
            "it is with all loops emitted, and the objective at the end."
        ),
        "",
        "| plain | " + " | ".join(f"{name}: time | objective" for name in results) + " |",
        "| --- |" + " --- | --- |" * len(results),
    ]
    by_version: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for name, rows in results.items():
        for row in rows:
            share = row["seconds"] / rows[0]["seconds"]
            by_version[tuple(row["plain"])][name] = f"{share:.2f} | {row['objective']:.4f}"
    for names, cells in by_version.items():
        shown = "all of these" if set(TWINS) <= set(names) else ", ".join(names) or "none"
        lines.append(f"| {shown} | " + " | ".join(cells.get(one, " | ") for one in results) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
