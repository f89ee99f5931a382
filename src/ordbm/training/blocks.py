"""The room that a pass over blocks needs, and what part of a block each thread has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ordbm.kernels.conditional import TILE
from ordbm.kernels.structures import (
    LEVELS,
    Block,
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
from ordbm.runtime.scratch import IN_MEMORY, Scratch

CACHE_LINE = 64  # bytes
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


def parts(starts: Array, n: int) -> Array:
    """Where n parts of about the same length begin, (n + 1,), in a table with so many starts."""
    found = np.searchsorted(starts, starts[-1] * np.arange(n + 1) // n)
    found[-1] = len(starts) - 1  # what comes last may be of no length
    return found


def aligned(shape: Any, dtype: Any, value: float = 0.0, scratch: Scratch = IN_MEMORY) -> np.ndarray:
    """A new array that has its cache lines for itself.

    No vector of it lies on two, and threads that write to their own do not take lines from others.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = scratch.room(padded(size, CACHE_LINE) + CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % CACHE_LINE
    array = raw[first : first + size].view(dtype).reshape(shape)
    if value:
        array[...] = value
    return array


def workspace_for(
    blocks: Sequence[Block],
    n_levels: int,
    n_groups: int,
    n_hidden: int,
    links: Links,
    n_pair: int,
    dtype: Any,
    scratch: Scratch,
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
        Hidden(
            input=aligned((rows, d), dtype),
            on=aligned((rows, d), dtype),
            off=aligned((rows, d), dtype),
            chunk_input=aligned((chunks, rows, d), np.float64),
        ),
        Gradients(
            context=aligned((rows, d), dtype),
            chunk_context=aligned((0 if contrastive else chunks, rows, d), dtype),
            coupling=aligned((columns, n_groups, d), dtype, scratch=scratch),
            bias=aligned((columns, n_levels), dtype),
            hidden_bias=aligned(d, dtype),
            level_bias=aligned(n_levels, dtype),
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
        score=aligned(TILE, np.int64),
        safe=aligned((TILE, groups // LEVELS), np.uint8),
    )


def row_work_for(n_levels: int, n_hidden: int, links: Links, n_pair: int, dtype: Any) -> RowWork:
    """One thread's."""
    d = padded(n_hidden)
    return RowWork(
        total=aligned(d, np.float64),
        sum=aligned(d, dtype),
        potential=aligned(n_levels, dtype),
        pull=aligned((n_pair, n_levels), dtype),
        where=aligned(links.n_columns if links.n_edges else 1, np.int64, -1),
        found=link_room(links),
    )
