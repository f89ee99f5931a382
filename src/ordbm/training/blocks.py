"""Blocks of rows for one side, and the room that a pass over them needs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ordbm.data.csr import CSR
from ordbm.kernels.conditional import TILE
from ordbm.kernels.passes import LINK_CHUNKS
from ordbm.kernels.plan import walk_columns
from ordbm.kernels.structures import (
    LEVELS,
    Gradients,
    Hidden,
    LinkWork,
    Plan,
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


def plan_blocks(
    rows: CSR,
    transposed: CSR,
    seed: int,
    block_rows: int | None = None,
    block_ratings: int | None = None,
) -> Plan:
    """Rows that have ratings, shuffled once and cut into blocks of so many rows or ratings."""
    size = np.diff(rows.start)
    order = np.random.default_rng(seed).permutation(len(size)).astype(np.int32)
    order = order[size[order] > 0]
    first_row = _block_starts(size[order], block_rows, block_ratings)
    first_entry = np.concatenate([[0], np.cumsum(size[order])])
    block = np.repeat(np.arange(len(first_row) - 1), np.diff(first_row))
    row_slot = (first_entry[:-1] - first_entry[first_row[block]]).astype(np.int32)
    block_of_row = np.zeros(len(size), np.int32)
    place_of_row = np.zeros(len(size), np.int32)
    block_of_row[order] = block
    place_of_row[order] = np.arange(len(order)) - first_row[block]
    first_entry = first_entry[first_row]
    entry_row = np.empty(first_entry[-1], np.int32)
    entry_position = np.empty(first_entry[-1], transposed.in_transpose.dtype)
    first_column, column, column_entry = (np.zeros(0, np.int32) for _ in range(3))
    first_place = np.zeros(len(first_row) - 1, np.int64)
    for _ in range(2):  # the columns of each block are counted, then entered
        place = first_place.copy()
        walk_columns(
            block_of_row, place_of_row, transposed.start, transposed.column,
            transposed.in_transpose, first_entry[:-1].copy(), place, np.full(len(place), -1),
            entry_row, entry_position, column, column_entry, first_entry,
        )  # fmt: skip
        if not column.size:
            first_column = np.concatenate([[0], np.cumsum(place)])
            first_place = first_column[:-1]
            column, column_entry = (np.empty(first_column[-1], np.int32) for _ in range(2))
    first_chunk, chunk_column = _chunks(first_entry, first_column, column_entry)
    return Plan(
        first_row=first_row,
        row=order,
        row_slot=row_slot,
        first_entry=first_entry,
        entry_row=entry_row,
        entry_level=rows.level[entry_position],
        entry_position=entry_position,
        entry_in_transpose=rows.in_transpose[entry_position],
        first_column=first_column,
        column=column,
        column_entry=column_entry,
        first_chunk=first_chunk,
        chunk_column=chunk_column,
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


def _chunks(first_entry: Array, first_column: Array, column_entry: Array) -> tuple[Array, Array]:
    """(first_chunk, chunk_column): a block's columns in at most MOST_CHUNKS like runs."""
    first_chunk = [0]
    chunk_column: list[int] = []
    for block, entries in enumerate(np.diff(first_entry)):
        size = max(CHUNK_ENTRIES, -(-entries // MOST_CHUNKS))
        begins = column_entry[first_column[block] : first_column[block + 1]]
        place = 0
        while place < len(begins) and len(chunk_column) - first_chunk[-1] < MOST_CHUNKS:
            chunk_column.append(place)
            place = int(np.searchsorted(begins, begins[place] + size))
        first_chunk.append(len(chunk_column))
    return np.array(first_chunk, np.int64), np.array(chunk_column, np.int32)


def aligned(shape: Any, dtype: Any, value: float = 0.0) -> np.ndarray:
    """A new array that begins on a cache line, so that no vector of it lies on two."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % CACHE_LINE
    array = raw[first : first + size].view(dtype).reshape(shape)
    if value:
        array[...] = value
    return array


class Room(NamedTuple):
    """Everything that a pass over the blocks of a plan writes to besides parameters."""

    workspace: Workspace  # shared by the threads
    tiles: list[Tile]  # of each thread
    work: list[RowWork]  # of each thread
    sample: Sample | None  # contrastive divergence


def room_for(
    plan: Plan,
    n_levels: int,
    n_hidden: int,
    links: Links,
    n_pair: int,
    dtype: Any,
    threads: int,
    *,
    contrastive: bool,
) -> Room:
    """As much as the largest block of `plan` needs."""
    d = padded(n_hidden)
    rows = _most(plan.first_row)
    slots = _most(plan.first_entry)
    columns = _most(plan.first_column)
    chunks = 0 if contrastive else _most(plan.first_chunk)
    link_slots = slots if links.n_edges and not contrastive else 0
    workspace = Workspace(
        np.zeros(rows, np.int64),
        Hidden(*(aligned((rows, d), dtype) for _ in range(3))),
        Gradients(
            context=aligned((rows, d), dtype),
            chunk_context=aligned((chunks, rows, d), dtype),
            coupling=aligned((columns, n_levels, d), dtype),
            bias=aligned((columns, n_levels, 1), dtype),
            link=aligned((LINK_CHUNKS, links.n_edges, n_pair), dtype),
        ),
        LinkWork(
            score=aligned((link_slots, n_levels), dtype),
            residual=aligned((link_slots, n_levels), dtype),
            felt=aligned((link_slots, n_pair, n_levels), dtype),
        ),
    )
    sample = Sample(np.zeros(slots, np.uint8), aligned(slots, dtype)) if contrastive else None
    return Room(
        workspace,
        [_tile(n_levels, d, dtype) for _ in range(threads)],
        [_row_work(n_levels, d, links, n_pair, dtype) for _ in range(threads)],
        sample,
    )


def _tile(n_levels: int, d: int, dtype: Any) -> Tile:
    whole = padded(n_levels, LEVELS)
    return Tile(
        up=aligned((n_levels, d), dtype),
        down=aligned((n_levels, d), dtype),
        mean=aligned((TILE, n_levels, d), dtype),
        product=aligned((TILE, whole, LEVELS), dtype, 1.0),
        scores=aligned((TILE, whole), dtype),
        level_bias=aligned(whole, dtype),
        index=np.zeros((3, TILE), np.int64),
        safe=np.zeros((TILE, whole // LEVELS), np.uint8),
    )


def _row_work(n_levels: int, d: int, links: Links, n_pair: int, dtype: Any) -> RowWork:
    return RowWork(
        total=np.zeros(d),
        sum=aligned(d, dtype),
        potential=aligned(n_levels, dtype),
        level_gradient=aligned((n_levels, 1), dtype),
        pull=aligned((n_pair, n_levels), dtype),
        where=np.full(links.n_columns if links.n_edges else 1, -1, np.int64),
        found=link_room(links),
    )


def score_table(n_ratings: int, n_levels: int, dtype: Any) -> np.ndarray:
    """Room for one side's scores of every rating at every level."""
    return aligned((n_ratings, n_levels), dtype)


def _most(starts: Any) -> int:
    return int(np.diff(starts).max(initial=0))
