"""Blocks of rows for one side, and the room that a pass over them needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ordbm.data.csr import CSR
from ordbm.kernels.conditional import TILE
from ordbm.kernels.passes import LINK_CHUNKS
from ordbm.kernels.plan import block_ends, chunks_of_columns, entries_by_column
from ordbm.kernels.structures import LEVELS, Plan, Room, Scratch, padded
from ordbm.model.neighbours import Links
from ordbm.model.side_scores import link_room

CACHE_LINE = 64  # bytes
LARGEST = np.iinfo(np.int64).max


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
    ends = block_ends(order, rows.start, block_rows or LARGEST, block_ratings or LARGEST)
    first_row = np.concatenate([[0], ends])
    first_entry = np.concatenate([[0], np.cumsum(size[order])])
    block = np.repeat(np.arange(len(ends)), np.diff(first_row))
    row_slot = (first_entry[:-1] - first_entry[first_row[block]]).astype(np.int32)
    block_of_row = np.zeros(len(size), np.int32)
    place_of_row = np.zeros(len(size), np.int32)
    block_of_row[order] = block
    place_of_row[order] = np.arange(len(order)) - first_row[block]
    first_entry = first_entry[first_row]
    entry_row, entry_position, first_column, column, column_entry = entries_by_column(
        block_of_row,
        place_of_row,
        first_entry,
        transposed.start,
        transposed.column,
        transposed.in_transpose,
    )
    first_chunk, chunk_column = chunks_of_columns(first_entry, first_column, column_entry)
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


def aligned(shape: Any, dtype: Any, value: float = 0.0) -> np.ndarray:
    """A new array that begins on a cache line, so that no vector of it lies on two."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % CACHE_LINE
    array = raw[first : first + size].view(dtype).reshape(shape)
    if value:
        array[...] = value
    return array


def scratch_for(
    plan: Plan,
    n_levels: int,
    n_hidden: int,
    links: Links,
    n_pair: int,
    dtype: Any,
    contrastive: bool,
) -> Scratch:
    """Room for the largest block of `plan`."""
    d = padded(n_hidden)
    rows = _most(plan.first_row)
    slots = _most(plan.first_entry)
    columns = _most(plan.first_column)
    linked = links.n_edges > 0
    return Scratch(
        hidden_input=aligned((rows, d), dtype),
        hidden_on=aligned((rows, d), dtype),
        hidden_off=aligned((rows, d), dtype),
        context=aligned((rows, d), dtype),
        chunk_context=aligned((0 if contrastive else _most(plan.first_chunk), rows, d), dtype),
        coupling_gradient=aligned((columns, n_levels, d), dtype),
        bias_gradient=aligned((columns, n_levels, 1), dtype),
        row_shift=np.zeros(rows, np.int64),
        residual=aligned((slots if linked and not contrastive else 0, n_levels), dtype),
        sample_level=np.zeros(slots if contrastive else 0, np.uint8),
        sample_value=aligned(slots if contrastive else 0, dtype),
        link_score=aligned((slots if linked and not contrastive else 0, n_levels), dtype),
        link_residual=aligned(
            (slots if linked and not contrastive else 0, n_pair, n_levels), dtype
        ),
        link_gradient=aligned((LINK_CHUNKS, links.n_edges, n_pair), dtype),
    )


def room_for(n_levels: int, n_hidden: int, links: Links, n_pair: int, dtype: Any) -> Room:
    """Working room of one thread."""
    d = padded(n_hidden)
    return Room(
        total=np.zeros(d),
        up=aligned((n_levels, d), dtype),
        down=aligned((n_levels, d), dtype),
        odds=aligned(d, dtype),
        mean=aligned((TILE, n_levels, d), dtype),
        product=aligned((TILE, padded(n_levels, LEVELS), LEVELS), dtype, 1.0),
        scores=aligned((TILE, padded(n_levels, LEVELS)), dtype),
        level_bias=aligned(padded(n_levels, LEVELS), dtype),
        tile_place=np.zeros(TILE, np.int64),
        tile_column=np.zeros(TILE, np.int64),
        tile_slot=np.zeros(TILE, np.int64),
        safe=np.zeros((TILE, padded(n_levels, LEVELS) // LEVELS), np.uint8),
        asked=aligned(d, dtype),
        potential=aligned(n_levels, dtype),
        pull=aligned((n_pair, n_levels), dtype),
        level_gradient=aligned((n_levels, 1), dtype),
        where=np.full(links.n_columns if links.n_edges else 1, -1, np.int64),
        found=link_room(links),
    )


def score_table(n_ratings: int, n_levels: int, dtype: Any) -> np.ndarray:
    """Room for one side's scores of every rating at every level."""
    return aligned((n_ratings, n_levels), dtype)


def _most(starts: Any) -> int:
    return int(np.diff(starts).max(initial=0))
