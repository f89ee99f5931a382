"""What a training takes in memory, by sizes alone, and where its arrays are to be."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ordbm.data.ratings import Ratings
from ordbm.errors import CostError
from ordbm.kernels.structures import padded
from ordbm.model.features import Features
from ordbm.model.learners import Learner, PseudoLikelihood
from ordbm.model.settings import Settings
from ordbm.runtime.memory import bytes_of, gigabytes
from ordbm.runtime.scratch import Scratch, is_mapped
from ordbm.training.blocks import LINK_CHUNKS
from ordbm.training.plan import CHUNK_ENTRIES, MOST_CHUNKS

LIBRARIES = 200_000_000  # bytes of Python, NumPy, SciPy, Numba and compiled code
RATING = 18  # bytes of a rating as it was given: column, level and transposed, on either side
PLACED = 9  # bytes of a rating in its block: row, level, place among scores; 4 more for a position
BLOCK_COLUMN = 12  # bytes of a column in a block
_LEAST = 2**20  # bytes


class SideSize(NamedTuple):
    """A side that is learnt."""

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

    def block_ratings(self, learner: Learner) -> int:
        """Ratings of a block, about."""
        found = learner.optimiser.ratings_per_block(self.n_ratings, self.n_columns)
        if found is not None:
            return found
        of_row = self.n_ratings / self.n_rows
        return max(1, int(of_row * (learner.optimiser.block_rows or 1)))


class Needs(NamedTuple):
    """Bytes: what must be in memory, and what is read and written in turn and may be in files."""

    fixed: int
    in_turn: int

    def __add__(self, other: Needs) -> Needs:  # type: ignore[override]
        return Needs(self.fixed + other.fixed, self.in_turn + other.in_turn)


def side_sizes(
    told: Settings, learner: Learner, table: Features, ratings: Ratings
) -> list[SideSize]:
    """Those that there are; a side is there for hidden units and biases, or for links alone."""
    shapes = (
        ("user", ratings.n_users, ratings.n_items, told.item_links),
        ("item", ratings.n_items, ratings.n_users, told.user_links),
    )
    found = [
        SideSize(
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


def member_needs(learner: Learner, side: SideSize) -> Needs:
    """Of one side of one machine."""
    block = side.block_ratings(learner)
    blocks = -(-side.n_ratings // max(block, 1))
    rows = -(-block * side.n_rows // max(side.n_ratings, 1))
    chunks = min(MOST_CHUNKS, 1 + block // CHUNK_ENTRIES)
    of_groups = side.kept * side.n_groups / side.n_levels
    copies = (side.n_groups < side.n_levels) + (learner.priors.co_occurrence > 0)
    numbers = (
        rows * side.n_hidden * (4 + chunks)
        + side.n_columns * side.n_links * (2 + LINK_CHUNKS)
        + (side.n_links > 0) * block * side.n_levels * 3
    )
    fixed = (
        side.kept
        + copies * of_groups
        + side.itemsize * numbers
        + 8 * rows * side.n_hidden * chunks
        + BLOCK_COLUMN * blocks * min(side.n_columns, block)
    )
    by_rating = PLACED + 4 * (side.n_links > 0)
    if side.scored:  # half of the table that both sides share
        by_rating += side.n_levels * side.itemsize // 2
    return Needs(int(fixed), int(2 * of_groups) + by_rating * side.n_ratings)


def training_needs(told: Settings, learner: Learner, table: Features, ratings: Ratings) -> Needs:
    """Of all machines, without the ratings and the process."""
    found = Needs(0, 0)
    for side in side_sizes(told, learner, table, ratings):
        found += member_needs(learner, side)
    members = int(told.members or 1)
    return Needs(members * found.fixed, members * found.in_turn)


def held_bytes(ratings: Ratings) -> int:
    """Of the ratings as they are, in memory."""
    of_ratings = 0 if is_mapped(ratings.by_user.column) else RATING * len(ratings)
    return of_ratings + 100 * (ratings.n_users + ratings.n_items)


def training_room(
    told: Settings, learner: Learner, table: Features, ratings: Ratings
) -> tuple[Scratch, bool]:
    """Where what is read in turn is to be, and whether machines learn one after the other.

    An error if what must be in memory does not fit, with settings that would.
    """
    there_is = _left_of(told, ratings)
    needs = training_needs(told, learner, table, ratings)
    if needs.fixed + _LEAST > there_is:
        base = LIBRARIES + held_bytes(ratings)
        raise CostError(
            f"hidden={told.hidden_sizes} and members={told.members} would take at least "
            f"{gigabytes(base + needs.fixed)} of memory, and there are {gigabytes(base + there_is)}"
            f"{' by memory=' if told.memory is not None else ''}: "
            f"{_remedy(told, learner, table, ratings, there_is)}"
        )
    return Scratch(there_is - needs.fixed), sum(needs) > there_is


def mapped_bytes(told: Settings, learner: Learner, table: Features, ratings: Ratings) -> int:
    """Bytes that would be in files."""
    needs = training_needs(told, learner, table, ratings)
    return max(0, min(needs.in_turn, sum(needs) - _left_of(told, ratings)))


def _left_of(told: Settings, ratings: Ratings) -> int:
    """Bytes that learning may take beside what is there already."""
    allowed = bytes_of(told.memory)
    return allowed if told.memory is None else allowed - LIBRARIES - held_bytes(ratings)


def _remedy(
    told: Settings, learner: Learner, table: Features, ratings: Ratings, there_is: int
) -> str:
    members, hidden = told.members or 1, told.hidden_sizes
    while members > 1 or max(hidden) > 1:
        if members > 1:
            members //= 2
        else:
            hidden = (max(1, hidden[0] // 2), max(1, hidden[1] // 2))
        fewer = replace(told, members=members, hidden=hidden)
        if training_needs(fewer, learner, table, ratings).fixed + _LEAST <= there_is:
            return f"hidden={hidden} and members={members} would fit"
    return "fewer users, items or links would fit"
