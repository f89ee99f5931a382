"""What a fit will cost, by sizes alone: memory, and time at the pace of this machine."""

from __future__ import annotations

import time
from functools import cache
from typing import NamedTuple

import numpy as np

from ordbm.data.ratings import Ratings
from ordbm.model.features import Features
from ordbm.model.learners import Learner
from ordbm.model.settings import Settings
from ordbm.runtime.memory import gigabytes
from ordbm.training.lbfgs import MEMORY
from ordbm.training.needs import (
    LIBRARIES,
    SideSize,
    held_bytes,
    mapped_bytes,
    side_sizes,
    training_needs,
)

PAIR_COPIES = 4 * (20 + 2 * MEMORY)  # bytes of a pair of items while presence is learnt
# Operations, in those that `pace` times; fitted to whole fits on ML-1M, ML-100K, FilmTrust and
# movielens-small.
PER_COUPLING = 1.6  # of each level and hidden unit, for each rating
PER_STEP = 1.0  # of each coupling, for each level of the scale and each block
PER_LEVEL = 16.0  # of each level that shares its couplings, for each rating
PER_LINK = 33.0  # of each neighbour of a rating's column
PER_PRESENCE = 1.5  # of each rating with each linked item, in a pass
FEW_DIFFERENT = 20  # values, which are stars rather than measurements
PASSES = 2.2  # of an iteration: all is learnt twice, with some steps tried again


class FitEstimate(NamedTuple):
    """What a fit is expected to take: bytes at its peak, the process included, and seconds.

    `advice` is on the scale of ratings, and empty where it serves as it is. `on_disk` are bytes of
    what does not fit into memory and is read in turn from mapped files.
    """

    members: int
    hidden: tuple[int, int]
    memory: int
    seconds: float
    advice: str = ""
    on_disk: int = 0

    def __str__(self) -> str:
        files = f", {gigabytes(self.on_disk)} in mapped files" if self.on_disk else ""
        return f"about {duration(self.seconds)} and {gigabytes(self.memory)} of memory{files}"


def fit_estimate(
    told: Settings, learner: Learner, table: Features, ratings: Ratings, threads: int
) -> FitEstimate:
    """Of these resolved settings on these ratings."""
    sides = side_sizes(told, learner, table, ratings)
    linked = _n_linked(told, ratings)
    members = told.members or 1
    learning = sum(training_needs(told, learner, table, ratings))
    on_disk = mapped_bytes(told, learner, table, ratings)
    presence = PAIR_COPIES * linked**2
    operations = told.epochs * members * sum(_operations(learner, one) for one in sides)
    passes = PASSES * told.presence_rules.iterations
    operations += PER_PRESENCE * passes * min(len(ratings) * linked, told.presence_budget)
    return FitEstimate(
        members,
        told.hidden_sizes,
        LIBRARIES
        + held_bytes(ratings)
        + max(learning - on_disk, presence + members * sum(one.kept for one in sides)),
        operations * pace() / threads,
        _advice(table, ratings),
        on_disk,
    )


def _advice(table: Features, ratings: Ratings) -> str:
    """Scales that are worth a comparison: which one predicts best cannot be told beforehand."""
    if ratings.is_continuous:
        n_different = len(np.unique(ratings.values))
        if n_different <= FEW_DIFFERENT:
            return (
                f"continuous ratings with {n_different} different values: on levels, which they "
                "are taken as without scale='continuous', they are likely to be predicted better; "
                "compare both on held-out ratings"
            )
        return (
            "continuous ratings: if they are answers on a scale rather than measurements, bins of "
            "them may predict better; compare both on held-out ratings"
        )
    if table.n_groups < table.n_levels:
        return (
            f"{table.n_levels} levels, of which neighbours share couplings: bins of them cost "
            "less, and measurements may be better as a continuous scale; compare on held-out "
            "ratings"
        )
    return ""


def _operations(learner: Learner, side: SideSize) -> float:
    """Of an epoch of one machine."""
    couplings = side.n_groups * side.n_hidden
    blocks = side.n_ratings / side.block_ratings(learner)
    columns = min(side.n_columns, side.block_ratings(learner))  # that a block touches, at most
    return (
        PER_COUPLING * side.n_ratings * couplings
        + PER_STEP * blocks * columns * couplings * side.n_groups
        + PER_LEVEL * side.n_ratings * (side.n_levels - side.n_groups)
        + PER_LINK * side.n_ratings * side.n_links
    )


def _n_linked(told: Settings, ratings: Ratings) -> int:
    """Items between which presence has links."""
    if not told.presence:
        return 0
    rules = told.presence_rules
    often = np.diff(ratings.by_item.start) >= rules.least_linked
    return min(rules.most_linked, int(often.sum()))


@cache
def pace() -> float:
    """Seconds of a multiplication and a division in single precision, by NumPy, in the cache."""
    numbers = np.ones(4096, np.float32)
    room = np.empty_like(numbers)
    best = np.inf
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(10):
            np.multiply(numbers, numbers, out=room)
            np.divide(room, numbers, out=room)
        best = min(best, time.perf_counter() - started)
    return float(best) / (10 * numbers.size)


def duration(seconds: float) -> str:
    """A time in words, as well as it is known: `40 s`, `3 min`, `2.5 h`."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 100 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.2g} h"
