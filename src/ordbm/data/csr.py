"""One orientation of the ratings: by user, or by item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ordbm.runtime.arrays import Codes

_LONGEST_INT32 = 2**31 - 1
_FEW = 64  # insertions up to which copying pieces is quicker than a mask of all


class CSR(NamedTuple):
    """Ratings of R rows in compressed form; row r owns positions start[r] to start[r + 1].

    Discrete scales leave `value` empty; continuous ones leave `level` zero. Values as given are
    float64, for they may be large and close together; once standardised, float32. `in_transpose`
    is the position of the same rating in the transpose; (0,) where only learning would need it.
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
            self.level[place] if self.level.size else self.level,
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


def places_for(rows: CSR, row: Codes, column: Codes) -> NDArray[np.int64]:
    """Where each of these pairs stands, or would stand, among the positions of its row."""
    chosen, number = np.unique(row, return_inverse=True)
    held, size = rows.column[rows.positions_of(chosen)], rows.sizes_of(chosen)
    width = int(max(held.max(initial=0), column.max(initial=0))) + 1
    key = np.repeat(np.arange(len(chosen)) * width, size) + held
    within = np.searchsorted(key, number * width + column) - (np.cumsum(size) - size)[number]
    place: NDArray[np.int64] = rows.start[row] + within
    return place


def with_more(
    rows: CSR, row: Codes, column: Codes, level: NDArray[np.uint8], value: NDArray[Any]
) -> tuple[CSR, NDArray[np.int64]]:
    """Rows with new pairs, in the order of (row, column), and where these are; no transpose."""
    before = places_for(rows, row, column)
    count = np.cumsum(np.bincount(row, minlength=rows.n_rows))
    start = rows.start.copy()
    start[1:] += count
    found = CSR(
        start,
        spliced(rows.column, before, column),
        spliced(rows.level, before, level),
        spliced(rows.value, before, value) if len(value) else rows.value,
        rows.in_transpose[:0],
    )
    return found, before + np.arange(len(before))


def without_places(rows: CSR, places: NDArray[np.int64]) -> CSR:
    """Rows without what stands at these places; no transpose."""
    start = rows.start - np.searchsorted(np.sort(places), rows.start)
    return CSR(
        start,
        np.delete(rows.column, places),
        np.delete(rows.level, places),
        np.delete(rows.value, places) if len(rows.value) else rows.value,
        rows.in_transpose[:0],
    )


def spliced(array: NDArray[Any], before: NDArray[np.int64], more: NDArray[Any]) -> NDArray[Any]:
    """`more` put in before these places, which do not decrease."""
    if len(before) > _FEW:
        return np.insert(array, before, more, axis=0)
    pieces = np.split(array, before)
    found = np.empty((len(array) + len(more), *array.shape[1:]), array.dtype)
    found[before + np.arange(len(more))] = more
    for number, piece in enumerate(pieces):
        end = before[number] if number < len(before) else len(array)
        found[end - len(piece) + number : end + number] = piece
    return found


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


def position_kind(n: int) -> type[np.signedinteger[Any]]:
    """The type of positions among n ratings."""
    return np.int32 if n <= _LONGEST_INT32 else np.int64


def _positions(n: int) -> NDArray[Any]:
    return np.arange(n, dtype=position_kind(n))


class CSRPair(NamedTuple):
    """The ratings a machine reads, by user and by item; `[side]` is that side's."""

    by_user: CSR
    by_item: CSR
