"""Users shared out over workers: what each has of the ratings, and of the plan for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ordbm.data.csr import CSRPair, with_transpose
from ordbm.engines.interface import Seat
from ordbm.kernels.structures import Block
from ordbm.model.machine import Machine
from ordbm.model.neighbours import no_links
from ordbm.runtime.arrays import Array
from ordbm.training.engine import ITEM_SIDE, USER_SIDE
from ordbm.training.plan import Cut, for_all_workers


class Shard(NamedTuple):
    """Users first to last of all, and what a plan for all needs to be known of the others."""

    first: int
    last: int
    counts: tuple[Array, Array]  # ratings of each user and of each item, of all
    # Potentials by counts and that of the unknown, of all items and of these users.
    by_count: tuple[tuple[Array, Array], tuple[Array, Array]]

    @property
    def users(self) -> slice:
        return slice(self.first, self.last)

    def own_cut(self, cut: Cut) -> Cut:
        """The blocks of all users with these alone, by their numbers here."""
        own = (cut.row >= self.first) & (cut.row < self.last)
        total = np.concatenate([[0], np.cumsum(own)])
        return Cut(cut.row[own] - np.int32(self.first), total[cut.first])

    def blocks_of_all(
        self,
        blocks: list[list[Block]],
        cuts: Sequence[Cut | None],
        engine: SummedAtSeat,
    ) -> list[list[Block]]:
        """Blocks of the ratings that are here, with the sizes and columns that all have together.

        Workers add up how often each item, by its place in the plan, is in each block of users.
        """
        n_items = len(self.counts[ITEM_SIDE])
        sizes = [
            [] if cut is None else _sizes(cut, count)
            for cut, count in zip(cuts, self.counts, strict=True)
        ]
        width = np.zeros((len(blocks[USER_SIDE]), n_items), np.int64)
        for table, block in zip(width, blocks[USER_SIDE], strict=True):
            table[block.entries.column] = block.entries.width
        if blocks[USER_SIDE]:
            engine.add_counts(USER_SIDE, width)
        for_users = []
        for block, table, size in zip(blocks[USER_SIDE], width, sizes[USER_SIDE], strict=True):
            columns = np.flatnonzero(table)
            for_users.append(for_all_workers(block, columns, table[columns], *size))
        for_items = [
            for_all_workers(block, block.entries.column, block.entries.width, *size)
            for block, size in zip(blocks[ITEM_SIDE], sizes[ITEM_SIDE], strict=True)
        ]
        return [for_users, for_items]


class SummedAtSeat:
    """Sums over the workers of a meeting."""

    is_whole = False

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._shared: list[Array] = []

    def add_counts(self, side: int, counts: Array) -> None:
        """Of items; users are here with all of theirs."""
        if side == USER_SIDE:
            self._seat.add([counts])

    def add_rows(self, side: int, table: Array) -> None:
        """Of items; users are here with all of theirs."""
        if side == ITEM_SIDE:
            self._seat.add([table])

    def add_shared(self, side: int, hidden_bias: Array, level_bias: Array, link: Array) -> None:
        """With the columns, which come next; an item's hidden units ask all workers the same."""
        self._shared = [level_bias]
        if side == USER_SIDE:
            self._shared += [hidden_bias, link]

    def add_columns(self, side: int, block: int, coupling: Array, bias: Array) -> None:  # noqa: ARG002
        """Of items, and what is shared."""
        if side == USER_SIDE:
            self._shared += [coupling, bias]
        self._seat.add(self._shared)
        self._shared = []

    def add_directions(self, side: int, by_direction: Array) -> None:
        """What couplings of all users say of each trait; items' couplings are all here."""
        if side == ITEM_SIDE:
            self._seat.add([by_direction])


def bounds_of_shards(ratings: CSRPair, n: int) -> list[tuple[int, int]]:
    """First and last user of n shards with about as many ratings each."""
    start = ratings.by_user.start
    bounds = np.searchsorted(start, start[-1] * np.arange(n + 1) // n).tolist()
    bounds[-1] = len(start) - 1
    return list(pairwise(bounds))


def ratings_of(ratings: CSRPair, first: int, last: int) -> CSRPair:
    """Those of users first to last, who are numbered from 0."""
    own = ratings.by_user.rows_of(np.arange(first, last))
    return CSRPair(*with_transpose(own, ratings.by_item.n_rows))


def machine_of(machine: Machine, first: int, last: int) -> Machine:
    """The machine with what users first to last own of it."""
    side = machine.item_side
    if side is None or last - first == side.n_columns:
        return machine
    own = side.parameters
    own = own._replace(rating_bias=own.rating_bias[first:last], coupling=own.coupling[first:last])
    return replace(machine, item_side=replace(side, parameters=own, links=no_links(last - first)))


def _sizes(cut: Cut, count: Array) -> list[tuple[int, int]]:
    """Rows and ratings of each block."""
    total = np.concatenate([[0], np.cumsum(count[cut.row])])
    return [
        (int(last - first), int(total[last] - total[first])) for first, last in pairwise(cut.first)
    ]
