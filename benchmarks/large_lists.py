"""How long large data takes to read, and lists of ten for all its users.

Parameters are drawn, not learnt: what takes the time is the same. Processor seconds are those of
all threads; memory is the process's peak at the end of each step, its own (`anonymous`) pages and
those of mapped files together.

    .venv/bin/python benchmarks/large_lists.py --data ../shared/data/netflix-all.parquet
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from dataclasses import replace

import numpy as np

import ordbm
from ordbm.batch import recommend_dataset
from ordbm.data.csr import CSRPair
from ordbm.inference.fitted import FittedModel
from ordbm.model.neighbours import no_links

HIDDEN, SPREAD = 20, 0.15


def drawn_model(ratings: ordbm.Ratings, threads: int) -> ordbm.OrdinalBM:
    """A machine with drawn couplings over these ratings, in place of one over a few."""
    rng = np.random.default_rng(0)
    few = ordbm.Ratings(*rng.integers(0, 40, (2, 400)), rng.integers(0, 5, 400))
    model = ordbm.OrdinalBM(
        hidden=HIDDEN, members=1, epochs=1, presence=False, context=False, threads=threads
    ).fit(few)
    machine, sides = model.machines[0], []
    for side, size in zip(machine.sides, (ratings.n_items, ratings.n_users), strict=True):
        own = side.parameters
        coupling = rng.normal(0, SPREAD, (size, *own.coupling.shape[1:])).astype(np.float32)
        bias = rng.normal(0, SPREAD, (size, *own.rating_bias.shape[1:])).astype(np.float32)
        drawn = own._replace(coupling=coupling, rating_bias=bias, link_weight=own.link_weight[:0])
        sides.append(replace(side, parameters=drawn, links=no_links(size)))
    whole = replace(machine, user_side=sides[0], item_side=sides[1])
    pair = CSRPair(ratings.by_user, ratings.by_item)
    model._fitted = FittedModel(
        ratings.users, ratings.items, ratings.scale, None, [whole], pair, threads
    )
    return model


def main() -> None:
    """Read, draw a model, list."""
    options = argparse.ArgumentParser()
    options.add_argument("--data", required=True)
    options.add_argument("--memory", default=None)
    options.add_argument("--threads", type=int, default=2)
    told = options.parse_args()
    began = time.perf_counter(), time.process_time()

    def say(what: str) -> None:
        nonlocal began
        now = time.perf_counter(), time.process_time()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        took = f"{now[0] - began[0]:7.1f} s, {now[1] - began[1]:7.1f} s of processor"
        print(f"{what:<24}{took}, peak {peak:5.2f} GB", flush=True)
        began = now

    ratings = ordbm.read_ratings(told.data, memory=told.memory)
    say("read")
    print(ratings, flush=True)
    model = drawn_model(ratings, told.threads)
    say("a model drawn")
    folder = tempfile.mkdtemp()
    try:
        done = recommend_dataset(model, folder)
        say(f"{done.rows:,} lines of lists")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
