"""What a fit will cost, by sizes alone: memory, and time at the pace of this machine."""

from __future__ import annotations

import time
from functools import cache
from typing import NamedTuple

import numpy as np

from ordbm.data.ratings import Ratings
from ordbm.kernels.structures import padded
from ordbm.model.features import Features
from ordbm.model.learners import Learner, PseudoLikelihood
from ordbm.model.settings import Settings
from ordbm.runtime.memory import gigabytes
from ordbm.training.blocks import LINK_CHUNKS
from ordbm.training.lbfgs import MEMORY
from ordbm.training.plan import CHUNK_ENTRIES, MOST_CHUNKS

LIBRARIES = 200_000_000  # bytes of Python, NumPy, SciPy, Numba and compiled code
BY_RATING = 13  # bytes of a rating in its block: row, level, and its place on either side
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

    `advice` is on the scale of ratings, and empty where it serves as it is.
    """

    members: int
    hidden: tuple[int, int]
    memory: int
    seconds: float
    advice: str = ""

    def __str__(self) -> str:
        return f"about {duration(self.seconds)} and {gigabytes(self.memory)} of memory"


def fit_estimate(
    told: Settings, learner: Learner, table: Features, ratings: Ratings, threads: int
) -> FitEstimate:
    """Of these resolved settings on these ratings."""
    sides = _sides(told, learner, table, ratings)
    linked = _n_linked(told, ratings)
    members = told.members or 1
    learning = members * sum(_side_bytes(learner, one) for one in sides)
    presence = PAIR_COPIES * linked**2
    held = 2 * (BY_RATING - 4) * len(ratings) + 100 * (ratings.n_users + ratings.n_items)
    operations = told.epochs * members * sum(_operations(learner, one) for one in sides)
    passes = PASSES * told.presence_rules.iterations
    operations += PER_PRESENCE * passes * min(len(ratings) * linked, told.presence_budget)
    return FitEstimate(
        members,
        told.hidden_sizes,
        LIBRARIES + held + max(learning, presence + members * sum(one.kept for one in sides)),
        operations * pace() / threads,
        _advice(table, ratings),
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


class _SideSize(NamedTuple):
    n_ratings: int
    n_rows: int
    n_columns: int
    n_levels: int
    n_groups: int  # of levels, while it is learnt
    n_hidden: int  # in whole vectors
    n_links: int  # of a column, at most
    itemsize: int
    scored: bool

    @property
    def kept(self) -> int:
        """Bytes of its couplings."""
        return self.n_columns * self.n_levels * self.n_hidden * self.itemsize


def _sides(told: Settings, learner: Learner, table: Features, ratings: Ratings) -> list[_SideSize]:
    """Those that there are; a side is there for hidden units and biases, or for links alone."""
    shapes = (
        ("user", ratings.n_users, ratings.n_items, told.item_links),
        ("item", ratings.n_items, ratings.n_users, told.user_links),
    )
    found = [
        _SideSize(
            len(ratings),
            n_rows,
            n_columns,
            table.n_levels,
            table.n_groups if isinstance(learner, PseudoLikelihood) else table.n_levels,
            padded(n_hidden) if told.sides in (side, "joint") else 0,
            min(n_links, n_columns - 1),
            np.dtype(told.dtype).itemsize,
            scored=False,
        )
        for (side, n_rows, n_columns, n_links), n_hidden in zip(
            shapes, told.hidden_sizes, strict=True
        )
        if told.sides in (side, "joint") or n_links
    ]
    return [one._replace(scored=len(found) == 2) for one in found]


def _block_ratings(learner: Learner, side: _SideSize) -> int:
    """Ratings of a block, about."""
    found = learner.optimiser.ratings_per_block(side.n_ratings, side.n_columns)
    if found is not None:
        return found
    of_row = side.n_ratings / side.n_rows
    return max(1, int(of_row * (learner.optimiser.block_rows or 1)))


def _side_bytes(learner: Learner, side: _SideSize) -> int:
    """Of one machine: parameters, velocities, gradients, blocks, scores, and room to work."""
    block = _block_ratings(learner, side)
    rows = -(-block * side.n_rows // max(side.n_ratings, 1))
    chunks = min(MOST_CHUNKS, 1 + block // CHUNK_ENTRIES)
    copies: float = 3 + (learner.priors.co_occurrence > 0)
    if side.n_groups < side.n_levels:  # one of all levels, the others of groups
        copies = 1 + copies * side.n_groups / side.n_levels
    numbers = (
        rows * side.n_hidden * (4 + chunks)
        + side.n_columns * side.n_links * (2 + LINK_CHUNKS)
        + side.scored * side.n_ratings * side.n_levels
        + (side.n_links > 0) * block * side.n_levels * 3
    )
    return int(copies * side.kept) + side.itemsize * numbers + BY_RATING * side.n_ratings


def _operations(learner: Learner, side: _SideSize) -> float:
    """Of an epoch of one machine."""
    couplings = side.n_groups * side.n_hidden
    blocks = side.n_ratings / _block_ratings(learner, side)
    columns = min(side.n_columns, _block_ratings(learner, side))  # that a block touches, at most
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
