"""Blocks of rows for one side, and the room that a pass over them needs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ordbm.data.csr import CSR
from ordbm.kernels.conditional import TILE
from ordbm.kernels.plan import walk_columns
from ordbm.kernels.structures import (
    LEVELS,
    Block,
    Entries,
    Gradients,
    Hidden,
    LinkWork,
    RowWork,
    Sample,
    Tile,
    Workspace,
    padded,
)
from ordbm.model.neighbours import Links
from ordbm.model.side_scores import link_room
from ordbm.runtime.arrays import Array

CACHE_LINE = 64  # bytes
CHUNK_ENTRIES = 1024  # ratings that one thread takes at a time; fixed, so that sums are too
MOST_CHUNKS = 16  # of a block
LINK_CHUNKS = 8  # tables of link gradients that a block sums; fixed, so that sums are too


class Bounds(NamedTuple):
    """Where the parts of a block begin."""

    row: list[int]  # of each thread, and the end
    column: list[int]  # of each thread, and the end
    link_row: list[int]  # of rows whose links are summed in one table, and the end


def bounds_of(block: Block, threads: int) -> Bounds:
    """Parts of about as many ratings."""
    return Bounds(
        parts(block.row_slot, threads).tolist(),
        parts(block.entries.column_entry, threads).tolist(),
        parts(block.row_slot, LINK_CHUNKS).tolist(),
    )


def cut_blocks(
    rows: CSR,
    transposed: CSR,
    seed: int,
    group: Array,
    block_rows: int | None = None,
    block_ratings: int | None = None,
) -> list[Block]:
    """Rows that have ratings, shuffled once and cut into blocks of so many rows or ratings.

    `group` (n,) has each level's group.
    """
    size = np.diff(rows.start)
    order = np.random.default_rng(seed).permutation(len(size)).astype(np.int32)
    order = order[size[order] > 0]
    first_row = _block_starts(size[order], block_rows, block_ratings)
    n_blocks = len(first_row) - 1
    slot = np.concatenate([[0], np.cumsum(size[order])])
    first_entry = slot[first_row]
    block_of_row = np.zeros(len(size), np.int32)
    place_of_row = np.zeros(len(size), np.int32)
    block_of_row[order] = np.repeat(np.arange(n_blocks), np.diff(first_row))
    place_of_row[order] = np.arange(len(order)) - first_row[block_of_row[order]]
    entry_row = np.empty(len(rows.column), np.int32)
    position = np.empty(len(rows.column), transposed.in_transpose.dtype)
    column, column_entry = (np.zeros(0, np.int32) for _ in range(2))
    first_column = np.zeros(n_blocks + 1, np.int64)
    for _ in range(2):  # the columns of each block are counted, then entered
        place = first_column[:-1].copy()
        walk_columns(
            block_of_row, place_of_row, transposed.start, transposed.column,
            transposed.in_transpose, first_entry, first_entry[:-1].copy(), place,
            np.full(n_blocks, -1), entry_row, position, column, column_entry,
        )  # fmt: skip
        if not column.size:
            first_column = np.concatenate([[0], np.cumsum(place)])
            column, column_entry = (np.empty(first_column[-1], np.int32) for _ in range(2))
    blocks = []
    for block in range(n_blocks):
        of_rows = slice(first_row[block], first_row[block + 1])
        of_entries = slice(first_entry[block], first_entry[block + 1])
        of_columns = slice(first_column[block], first_column[block + 1])
        row_slot = slot[first_row[block] : first_row[block + 1] + 1] - first_entry[block]
        begins = np.append(column_entry[of_columns], row_slot[-1]).astype(np.int32)
        level = rows.level[position[of_entries]]
        entries = Entries(
            entry_row[of_entries],
            level,
            group[level],
            position[of_entries],
            rows.in_transpose[position[of_entries]],
            column[of_columns],
            begins,
        )
        shift = rows.start[order[of_rows]] - row_slot[:-1]
        blocks.append(Block(order[of_rows], row_slot, shift, entries, _chunks(begins)))
    return blocks


def parts(starts: Array, n: int) -> Array:
    """Where n parts of about the same length begin, (n + 1,), in a table with so many starts."""
    return np.searchsorted(starts, starts[-1] * np.arange(n + 1) // n)


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
    while len(chunks) < MOST_CHUNKS:
        place = int(np.searchsorted(begins, begins[chunks[-1]] + size))
        if place == len(begins):
            break
        chunks.append(place)
    return np.array([*chunks, len(begins)])


def aligned(shape: Any, dtype: Any, value: float = 0.0) -> np.ndarray:
    """A new array that has its cache lines for itself.

    No vector of it lies on two, and threads that write to their own do not take lines from others.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(padded(size, CACHE_LINE) + CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % CACHE_LINE
    array = raw[first : first + size].view(dtype).reshape(shape)
    if value:
        array[...] = value
    return array


def workspace_for(
    blocks: list[Block],
    n_levels: int,
    n_groups: int,
    n_hidden: int,
    links: Links,
    n_pair: int,
    dtype: Any,
    *,
    contrastive: bool,
) -> Workspace:
    """As much as the largest block needs."""
    d = padded(n_hidden)
    rows, slots, columns, chunks = (
        max((len(one) for one in sizes), default=0)
        for sizes in (
            [block.row for block in blocks],
            [block.entries.row for block in blocks],
            [block.entries.column for block in blocks],
            [block.chunk_column[1:] for block in blocks],
        )
    )
    link_slots = slots if links.n_edges and not contrastive else 0
    sampled = slots if contrastive else 0
    return Workspace(
        Hidden(*(aligned((rows, d), dtype) for _ in range(3))),
        Gradients(
            context=aligned((rows, d), dtype),
            chunk_context=aligned((0 if contrastive else chunks, rows, d), dtype),
            coupling=aligned((columns, n_groups, d), dtype),
            bias=aligned((columns, n_levels), dtype),
            link=aligned((LINK_CHUNKS, links.n_edges, n_pair), dtype),
        ),
        LinkWork(
            score=aligned((link_slots, n_levels), dtype),
            residual=aligned((link_slots, n_levels), dtype),
            felt=aligned((link_slots, n_pair, n_levels), dtype),
        ),
        Sample(np.zeros(sampled, np.uint8), aligned(sampled, dtype)),
    )


def tile_for(n_levels: int, n_groups: int, n_hidden: int, dtype: Any) -> Tile:
    """One thread's, on a discrete scale."""
    d = padded(n_hidden)
    whole, groups = padded(n_levels, LEVELS), padded(n_groups, LEVELS)
    scores = aligned((TILE, whole), dtype)
    return Tile(
        up=aligned((n_groups, d), dtype),
        down=aligned((n_groups, d), dtype),
        mean=aligned((TILE, n_groups, d), dtype),
        product=aligned((TILE, groups, LEVELS), dtype, 1.0),
        by_group=scores if n_groups == n_levels else aligned((TILE, groups), dtype),
        scores=scores,
        level_bias=aligned(whole, dtype),
        bias_gradient=aligned(whole, dtype),
        column=aligned(TILE, np.int64),
        slot=aligned(TILE, np.int64),
        safe=aligned((TILE, groups // LEVELS), np.uint8),
    )


def row_work_for(n_levels: int, n_hidden: int, links: Links, n_pair: int, dtype: Any) -> RowWork:
    """One thread's."""
    d = padded(n_hidden)
    return RowWork(
        total=aligned(d, np.float64),
        sum=aligned(d, dtype),
        potential=aligned(n_levels, dtype),
        level_gradient=aligned(n_levels, dtype),
        pull=aligned((n_pair, n_levels), dtype),
        where=aligned(links.n_columns if links.n_edges else 1, np.int64, -1),
        found=link_room(links),
    )


def score_table(n_ratings: int, n_levels: int, dtype: Any) -> np.ndarray:
    """Room for one side's scores of every rating at every level."""
    return aligned((n_ratings, n_levels), dtype)
