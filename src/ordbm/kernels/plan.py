"""Blocks of rows, and the ratings of each block grouped by column."""

import numpy as np
from numba import njit

from ordbm.kernels.options import BUILDER

CHUNK_ENTRIES = 1024  # what one thread takes at a time; fixed, so that sums are too
MOST_CHUNKS = 16


@njit(**BUILDER)
def block_ends(order, start, block_rows, block_ratings):
    """The end of each block in `order`: at most block_rows rows, about block_ratings ratings."""
    ends = np.empty(order.size + 1, np.int64)
    n_blocks = 0
    rows = 0
    ratings = 0
    for place in range(order.size):
        rows += 1
        ratings += start[order[place] + 1] - start[order[place]]
        if rows >= block_rows or ratings >= block_ratings:
            ends[n_blocks] = place + 1
            n_blocks += 1
            rows = 0
            ratings = 0
    if rows > 0:
        ends[n_blocks] = order.size
        n_blocks += 1
    return ends[:n_blocks]


@njit(**BUILDER)
def entries_by_column(block_of_row, place_of_row, first_entry, start, column, in_transpose):
    """(entry_row, entry_position, first_column, column, column_entry): a walk over the transpose.

    start, column and twin are the transposed ratings: for each column, its rows and positions.
    """
    n_blocks = first_entry.size - 1
    entry_row = np.empty(in_transpose.size, np.int32)
    entry_position = np.empty(in_transpose.size, in_transpose.dtype)
    fill = first_entry[:-1].copy()
    touched = np.zeros(n_blocks + 1, np.int64)
    last = np.full(n_blocks, -1, np.int64)
    for c in range(start.size - 1):
        for place in range(start[c], start[c + 1]):
            block = block_of_row[column[place]]
            entry_row[fill[block]] = place_of_row[column[place]]
            entry_position[fill[block]] = in_transpose[place]
            fill[block] += 1
            if last[block] != c:
                last[block] = c
                touched[block + 1] += 1
    first_column = np.cumsum(touched)
    columns = np.empty(first_column[-1], np.int32)
    column_entry = np.empty(first_column[-1], np.int32)
    fill = first_entry[:-1].copy()
    write = first_column[:-1].copy()
    last[:] = -1
    for c in range(start.size - 1):
        for place in range(start[c], start[c + 1]):
            block = block_of_row[column[place]]
            if last[block] != c:
                last[block] = c
                columns[write[block]] = c
                column_entry[write[block]] = fill[block] - first_entry[block]
                write[block] += 1
            fill[block] += 1
    return entry_row, entry_position, first_column, columns, column_entry


@njit(**BUILDER)
def chunks_of_columns(first_entry, first_column, column_entry):
    """(first_chunk, chunk_column): a block's columns in at most MOST_CHUNKS like runs."""
    n_blocks = first_entry.size - 1
    first_chunk = np.zeros(n_blocks + 1, np.int64)
    chunk_column = np.empty(n_blocks * MOST_CHUNKS, np.int32)
    chunk = 0
    for block in range(n_blocks):
        entries = first_entry[block + 1] - first_entry[block]
        size = max(CHUNK_ENTRIES, -(-entries // MOST_CHUNKS))
        due = 0
        for place in range(first_column[block], first_column[block + 1]):
            if column_entry[place] >= due and chunk - first_chunk[block] < MOST_CHUNKS:
                chunk_column[chunk] = place - first_column[block]
                chunk += 1
                due = column_entry[place] + size
        first_chunk[block + 1] = chunk
    return first_chunk, chunk_column[:chunk].copy()
