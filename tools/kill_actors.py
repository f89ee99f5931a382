"""Kill actors of Ray at random moments of a fit, and compare what is learnt with what ought to be.

Half of the fits have whole machines at their workers, half have the users of one shared out. A row
for each kill goes to --rows at once; --page makes a page of them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import ordbm
from ordbm.engines.ray_core import RayCore

TOLD: dict[str, Any] = {
    "hidden": 8, "item_links": 10, "presence": False, "context": False, "epochs": 6, "threads": 1,
}  # fmt: skip
KINDS = {"whole machines": {"members": 2}, "users shared out": {"members": 1}}


def main() -> None:
    """Kill as often as asked, one fit after the other."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--kills", type=int, default=50)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--rows", type=Path, default=Path("build/actor-kills.jsonl"))
    asked.add_argument("--page", type=Path)
    given = asked.parse_args()
    engine = RayCore(cpus=2)
    try:
        _kill_many(given)
    finally:
        engine.close()
    if given.page:
        rows = [json.loads(line) for line in given.rows.read_text().splitlines()]
        given.page.write_text(page(rows))


def _kill_many(given: argparse.Namespace) -> None:
    ratings = ordbm.load_dataset("movielens-small")
    undisturbed = {}
    for kind, told in KINDS.items():
        fit(ratings, told)  # kernels are compiled
        began = time.monotonic()
        undisturbed[kind] = fit(ratings, told), time.monotonic() - began
    given.rows.parent.mkdir(parents=True, exist_ok=True)
    given.rows.write_text("")
    for number in range(given.kills):
        chance = random.Random(f"{given.seed} {number}")  # noqa: S311 -- no secret
        kind = list(KINDS)[number % len(KINDS)]
        expected, seconds = undisturbed[kind]
        done = threading.Event()
        killed: list[float] = []
        killer = threading.Thread(
            target=_kill_one, args=(chance.uniform(0, seconds), chance, done, killed)
        )
        killer.start()
        began = time.monotonic()
        found = fit(ratings, KINDS[kind])
        took = time.monotonic() - began
        done.set()
        killer.join()
        row = {
            "kind": kind, "same": same(expected, found), "killed_at": killed, "seconds": took,
            "undisturbed": seconds,
        }  # fmt: skip
        print(json.dumps(row), flush=True)
        with given.rows.open("a") as rows:
            rows.write(json.dumps(row) + "\n")


def fit(ratings: ordbm.Ratings, told: dict[str, Any]) -> ordbm.OrdinalBM:
    """A model learnt by two actors."""
    return ordbm.OrdinalBM(**TOLD | told, engine="ray").fit(ratings)


def same(one: ordbm.OrdinalBM, other: ordbm.OrdinalBM) -> bool:
    """Whether both have the same bits."""
    pairs = zip(_arrays(one), _arrays(other), strict=True)
    return one.history == other.history and all(np.array_equal(a, b) for a, b in pairs)


def _arrays(model: ordbm.OrdinalBM) -> list[Any]:
    sides = [side for one in model.machines for side in one.sides if side is not None]
    return [array for side in sides for array in side.parameters]


def _kill_one(
    after: float, chance: random.Random, done: threading.Event, killed: list[float]
) -> None:
    """Kill a worker of this process's Ray, when there is one and that time has passed."""
    began = time.monotonic()
    done.wait(after)
    while not done.wait(0.05):
        workers = [*_workers()]
        if workers:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
                killed.append(time.monotonic() - began)
                return


def _workers() -> list[int]:
    """Processes of workers below a raylet that is a child of this process."""
    parent, named = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            _, _, rest = (folder / "stat").read_text().rpartition(")")
            parent[int(folder.name)] = int(rest.split()[1])
            if (folder / "cmdline").read_text().startswith("ray::MemberGroup"):
                named.append(int(folder.name))
    return [one for one in named if parent.get(parent[one]) == os.getpid()]


def page(rows: list[dict[str, Any]]) -> str:
    """What came of the kills."""
    lines = [
        "# Actors that were killed",
        "",
        "`tools/kill_actors.py --page docs/results/actor-kills.md`: a worker is killed (SIGKILL)",
        "at a random moment of each fit of movielens-small over two actors, its start included;",
        "the parameters and the record of every epoch are compared, bit for bit, with those of an",
        "undisturbed fit.",
        "",
        "| | fits | with a worker killed | same bits |",
        "| --- | --- | --- | --- |",
    ]
    for kind in KINDS:
        own = [row for row in rows if row["kind"] == kind]
        hit = [row for row in own if row["killed_at"]]
        agree = sum(row["same"] for row in own)
        lines.append(f"| {kind} | {len(own)} | {len(hit)} | {agree} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
