"""One orientation of the ratings: by user, or by item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ordbm.runtime.arrays import Codes

_LONGEST_INT32 = 2**31 - 1


class CSR(NamedTuple):
    """Ratings of R rows in compressed form; row r owns positions start[r] to start[r + 1].

    Discrete scales leave `value` empty; continuous ones leave `level` zero. Values as given are
    float64, for they may be large and close together; once standardised, float32. `in_transpose`
    is the position of the same rating in the transpose.
    """

    start: NDArray[np.int64]  # (R + 1,)
    column: Codes  # (N,) int32, increasing within a row
    level: NDArray[np.uint8]  # (N,)
    value: NDArray[Any]  # (N,) float64, or float32 if standardised; (0,) float32 with levels
    in_transpose: NDArray[Any]  # (N,) int32, or int64 from 2**31 ratings on

    @property
    def n_rows(self) -> int:
        return len(self.start) - 1

    @property
    def row(self) -> NDArray[np.int32]:
        """The row of each position, (N,)."""
        return np.repeat(np.arange(self.n_rows, dtype=np.int32), np.diff(self.start))

    def columns_of(self, row: int) -> Codes:
        """The columns that a row rated."""
        return self.column[self.start[row] : self.start[row + 1]]

    def positions_of(self, rows: Codes) -> NDArray[np.int64]:
        """The positions of the ratings of these rows, one row after the other."""
        begin, size = self.start[rows], self.sizes_of(rows)
        end = np.cumsum(size)
        return np.arange(end[-1] if len(end) else 0) + np.repeat(begin - end + size, size)

    def sizes_of(self, rows: Codes) -> NDArray[np.int64]:
        """How many ratings each of these rows has."""
        return self.start[np.asarray(rows, np.int64) + 1] - self.start[rows]

    def rows_of(self, chosen: Codes) -> CSR:
        """The ratings of these rows, one after the other, without transpose; -1 has none."""
        known = chosen >= 0
        size = np.where(known, self.sizes_of(np.where(known, chosen, 0)), 0)
        place = self.positions_of(chosen[known])
        return CSR(
            np.concatenate([[0], np.cumsum(size)]).astype(np.int64),
            self.column[place],
            self.level[place],
            self.value[place] if self.value.size else self.value,
            np.zeros(0, np.int32),
        )


def stacked(parts: Sequence[CSR]) -> CSR:
    """The rows of all parts below each other, without transpose."""
    size = np.concatenate([np.diff(part.start) for part in parts])
    return CSR(
        np.concatenate([[0], np.cumsum(size)]).astype(np.int64),
        np.concatenate([part.column for part in parts]),
        np.concatenate([part.level for part in parts]),
        np.concatenate([part.value for part in parts]),
        np.zeros(0, np.int32),
    )


def transpose(rows: CSR, n_columns: int) -> CSR:
    """The same ratings with rows and columns swapped, in one counting sort."""
    position = _positions(len(rows.column))
    flipped = csr_array(
        (position, rows.column, rows.start.astype(position.dtype)),
        shape=(rows.n_rows, n_columns),
    ).tocsc()
    order = flipped.data
    return CSR(
        start=flipped.indptr.astype(np.int64),
        column=flipped.indices.astype(np.int32, copy=False),
        level=rows.level[order],
        value=rows.value[order] if len(rows.value) else rows.value,
        in_transpose=order,
    )


def with_transpose(rows: CSR, n_columns: int) -> tuple[CSR, CSR]:
    """`rows` and its transpose, each knowing its twin positions in the other."""
    other = transpose(rows, n_columns)
    in_transpose = np.empty_like(other.in_transpose)
    in_transpose[other.in_transpose] = _positions(len(in_transpose))
    return rows._replace(in_transpose=in_transpose), other


def stable_order(keys: Codes, n_keys: int) -> NDArray[Any]:
    """Positions that put `keys` (in 0..n_keys-1) in increasing order, ties as they came; O(N)."""
    position = _positions(len(keys))
    start = np.array([0, len(keys)], position.dtype)
    order: NDArray[Any] = csr_array((position, keys, start), shape=(1, n_keys)).tocsc().data
    return order


def starts(sorted_keys: Codes, n_keys: int) -> NDArray[np.int64]:
    """Where each key's run begins in `sorted_keys`, and the end: (n_keys + 1,)."""
    start = np.zeros(n_keys + 1, np.int64)
    np.cumsum(np.bincount(sorted_keys, minlength=n_keys), out=start[1:])
    return start


def _positions(n: int) -> NDArray[Any]:
    return np.arange(n, dtype=np.int32 if n <= _LONGEST_INT32 else np.int64)


class CSRPair(NamedTuple):
    """The ratings a machine reads, by user and by item; `[side]` is that side's."""

    by_user: CSR
    by_item: CSR
