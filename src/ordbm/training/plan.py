"""Where ratings are while a machine learns: blocks of rows on both sides, and their tiles.

A side's rows are cut into blocks. What a block of users has with a block of items is a tile: on
either side a block's entries come by the blocks of the other side and then by column, so that a
tile's are together on both. Columns go by their place in that order. Scores lie in the order of the
side that is laid out first; the other one reaches them tile by tile, each of which a processor's
cache can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.data.csr import CSR, CSRPair
from ordbm.kernels.plan import turn_tiles, walk_columns
from ordbm.kernels.structures import Block, Entries
from ordbm.model.learners import Optimiser
from ordbm.runtime.arrays import Array
from ordbm.runtime.scratch import Scratch

CHUNK_ENTRIES = 1024  # ratings that one thread takes at a time; fixed, so that sums are too
MOST_CHUNKS = 16  # of a block


class Cut(NamedTuple):
    """A side's rows in blocks: block b has row[first[b] : first[b + 1]], which rise."""

    row: NDArray[np.int32]
    first: NDArray[np.int64]  # (blocks + 1,)

    @property
    def n_blocks(self) -> int:
        return len(self.first) - 1

    def order(self, n_rows: int) -> Array:
        """All rows: those in blocks as they come there, then the others."""
        others = np.ones(n_rows, bool)
        others[self.row] = False
        return np.concatenate([self.row, np.flatnonzero(others).astype(np.int32)])

    def whereabouts(self, n_rows: int) -> tuple[Array, Array]:
        """The block of each row, -1 if it is in none, and its place there."""
        block, place = np.full(n_rows, -1, np.int32), np.zeros(n_rows, np.int32)
        block[self.row] = np.repeat(np.arange(self.n_blocks, dtype=np.int32), np.diff(self.first))
        place[self.row] = np.arange(len(self.row)) - self.first[block[self.row]]
        return block, place


def cut_rows(size: Array, n_columns: int, optimiser: Optimiser, seed: int) -> Cut:
    """Rows that have ratings, so many each, shuffled once and cut into blocks."""
    order = np.random.default_rng(seed).permutation(len(size)).astype(np.int32)
    order = order[size[order] > 0]
    n_ratings = optimiser.ratings_per_block(int(size.sum()), n_columns)
    first = _block_starts(size[order], optimiser.block_rows, n_ratings)
    for begin, end in pairwise(first):
        order[begin:end].sort()
    return Cut(order, first)


def uncut(n_rows: int) -> Cut:
    """All rows in one block."""
    return Cut(np.arange(n_rows, dtype=np.int32), np.array([0, n_rows]))


class _Layout(NamedTuple):
    """A side's entries, and the columns of its blocks, all in a row."""

    row: Array
    level: Array
    position: Array
    score: Array
    first_entry: Array  # (blocks + 1,)
    column: Array
    column_entry: Array  # from the first entry of the column's block on
    first_column: Array  # (blocks + 1,)


def lay_out(
    ratings: CSRPair,
    cuts: Sequence[Cut | None],
    group: Array,
    scratch: Scratch,
    with_position: Sequence[bool] = (True, True),
    *,
    in_place: bool = True,
) -> list[list[Block]]:
    """The blocks of the user side and of the item side; none of a side that has no cut.

    Columns go by their place in the order of the other side's cut, or, unless `in_place`, by
    number. `group` (n,) has each level's group. An entry's position is left out where nobody asks
    for it.
    """
    blocks: list[list[Block]] = [[], []]
    lead = 0 if cuts[0] is not None else 1
    cut, other = cuts[lead], cuts[1 - lead]
    if cut is None:
        return blocks
    rows, transposed = ratings[lead], ratings[1 - lead]
    needed = with_position[lead], other is not None and with_position[1 - lead]
    across = other or uncut(transposed.n_rows)
    layout, origin = _walked(rows, transposed, cut, across, scratch, needed)
    blocks[lead] = _blocks(layout, rows, cut, group, None if in_place else across.row)
    if other is not None:
        turned = _turned(layout, origin, transposed, cut, other, scratch)
        blocks[1 - lead] = _blocks(turned, transposed, other, group, None if in_place else cut.row)
    return blocks


def _walked(
    rows: CSR, transposed: CSR, cut: Cut, across: Cut, scratch: Scratch, needed: tuple[bool, bool]
) -> tuple[_Layout, Array]:
    """The blocks of rows, and where among the transposed ratings each entry comes from."""
    n, kind = len(rows.column), transposed.in_transpose.dtype
    first_entry = _first_entries(rows, cut)
    block_of_row, place_of_row = cut.whereabouts(rows.n_rows)
    row, level = scratch.room(n, np.int32), scratch.room(n, np.uint8)
    position, origin = (scratch.room(n if wanted else 0, kind) for wanted in needed)
    column, column_entry = (np.zeros(0, np.int32) for _ in range(2))
    first_column = np.zeros(cut.n_blocks + 1, np.int64)
    for _ in range(2):  # the columns of each block are counted, then entered
        place = first_column[:-1].copy()
        walk_columns(
            across.row, block_of_row, place_of_row, transposed.start, transposed.column,
            transposed.level, transposed.in_transpose, first_entry, first_entry[:-1].copy(), place,
            np.full(cut.n_blocks, -1), row, level, position, origin, column, column_entry,
        )  # fmt: skip
        if not column.size:
            first_column = np.concatenate([[0], np.cumsum(place)])
            column, column_entry = (np.empty(first_column[-1], np.int32) for _ in range(2))
    none = np.zeros(0, kind)
    found = _Layout(row, level, position, none, first_entry, column, column_entry, first_column)
    return found, origin


def _turned(
    layout: _Layout, origin: Array, rows: CSR, across: Cut, cut: Cut, scratch: Scratch
) -> _Layout:
    """The blocks of the other side: of `rows`, whose columns are in the blocks `across`."""
    n, kind = len(layout.row), rows.in_transpose.dtype
    first_entry = _first_entries(rows, cut)
    in_block = np.repeat(np.arange(across.n_blocks), np.diff(layout.first_column))
    begins = np.append(layout.column_entry + layout.first_entry[in_block], n)
    block_of_column = np.searchsorted(cut.first, layout.column, "right") - 1
    of_tile = in_block * cut.n_blocks + block_of_column  # rises
    tiles = np.arange(across.n_blocks)[:, None] * cut.n_blocks + np.arange(cut.n_blocks + 1)
    tile_column = np.searchsorted(of_tile, tiles)
    row, level = scratch.room(n, np.int32), scratch.room(n, np.uint8)
    position, score = scratch.room(len(origin), kind), scratch.room(n, kind)
    room = np.empty(int(np.diff(across.first).max(initial=0)), np.int64)
    column, column_entry = (np.zeros(0, np.int32) for _ in range(2))
    first_column = np.zeros(cut.n_blocks + 1, np.int64)
    for _ in range(2):
        place = first_column[:-1].copy()
        turn_tiles(
            across.first, cut.first[:-1], layout.column, begins, tile_column, layout.row,
            layout.level, origin, first_entry[:-1], place, room, row, level, position, score,
            column, column_entry,
        )  # fmt: skip
        if not column.size:
            first_column = np.concatenate([[0], np.cumsum(place)])
            column, column_entry = (np.empty(first_column[-1], np.int32) for _ in range(2))
    return _Layout(row, level, position, score, first_entry, column, column_entry, first_column)


def _first_entries(rows: CSR, cut: Cut) -> Array:
    """Where the entries of each block begin, and the end."""
    total = np.concatenate([[0], np.cumsum(np.diff(rows.start)[cut.row])])
    return total[cut.first]


def _blocks(
    layout: _Layout, rows: CSR, cut: Cut, group: Array, number: Array | None
) -> list[Block]:
    is_own = len(group) == 0 or np.array_equal(group, np.arange(len(group)))
    of_level = layout.level if is_own else group[layout.level]
    blocks = []
    for block in range(cut.n_blocks):
        first, last = layout.first_entry[block : block + 2]
        of_columns = slice(*layout.first_column[block : block + 2])
        row = cut.row[cut.first[block] : cut.first[block + 1]]
        row_slot = np.concatenate([[0], np.cumsum(np.diff(rows.start)[row])])
        column = layout.column[of_columns]
        begins = np.append(layout.column_entry[of_columns], last - first).astype(np.int32)
        entries = Entries(
            layout.row[first:last],
            layout.level[first:last],
            of_level[first:last],
            layout.position[first:last],
            layout.score[first:last],
            first,
            column if number is None else number[column],
            begins,
            np.diff(begins),
        )
        shift = rows.start[row] - row_slot[:-1]
        chunks = _chunks(begins)
        blocks.append(Block(row, row_slot, shift, entries, chunks, len(row), int(last - first)))
    return blocks


def for_all_workers(
    block: Block, columns: Array, width: Array, n_rows: int, n_ratings: int
) -> Block:
    """A worker's part of a block of all: its `columns`, so wide, and how many rows and ratings."""
    entries = block.entries
    begins = entries.column_entry[np.searchsorted(entries.column, np.append(columns, 2**31 - 1))]
    entries = entries._replace(
        column=columns.astype(np.int32), column_entry=begins, width=width.astype(np.int32)
    )
    return block._replace(
        entries=entries, chunk_column=_chunks(begins), n_rows=n_rows, n_ratings=n_ratings
    )


def _block_starts(size: Array, block_rows: int | None, block_ratings: int | None) -> Array:
    """Where blocks of rows with so many ratings each begin, and the end of the last.

    A block ends with the row that brings it to `block_rows` rows or `block_ratings` ratings.
    """
    total = np.concatenate([[0], np.cumsum(size)])
    starts = [0]
    while starts[-1] < len(size):
        end = len(size)
        if block_rows:
            end = min(end, starts[-1] + block_rows)
        if block_ratings:
            reached = np.searchsorted(total, total[starts[-1]] + block_ratings)
            end = min(end, int(reached))
        starts.append(end)
    return np.array(starts, np.int64)


def _chunks(column_entry: Array) -> Array:
    """The first column of each chunk, and the end: at most MOST_CHUNKS like runs of columns."""
    size = max(CHUNK_ENTRIES, -(-int(column_entry[-1]) // MOST_CHUNKS))
    begins = column_entry[:-1]
    chunks = [0]
    while len(chunks) < MOST_CHUNKS and len(begins):
        place = int(np.searchsorted(begins, begins[chunks[-1]] + size))
        if place == len(begins):
            break
        chunks.append(place)
    return np.array([*chunks, len(begins)])
