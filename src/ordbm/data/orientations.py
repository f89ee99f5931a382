"""Ratings in any order, sorted by user and by item; out of core where memory is short.

Entries are dealt into buckets, runs of rows that are short enough to be sorted in memory, and each
bucket is sorted and appended. All that grows with the ratings is read and written from its
beginning to its end, so that it may as well lie in mapped files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.csr import CSR, position_kind, stable_order, with_transpose
from ordbm.data.repeats import pair_means, pair_order
from ordbm.data.scale import Levels, Scale
from ordbm.data.times import NO_TIMES
from ordbm.runtime.arrays import Codes, Mask, Numbers
from ordbm.runtime.interruption import safe_point
from ordbm.runtime.scratch import Scratch

_MOST_ROWS, _LEAST_ROWS = 2**20, 2**14  # in a bucket, which a processor's cache helps to sort
_BYTES_A_ROW = 400  # of `memory` for each row of a bucket: sorting takes a quarter of it
_AT_ONCE = 2**20  # rows dealt together
_MOST_BUCKETS = 2**16


@dataclass
class Unsorted:
    """Ratings in the order they came."""

    user: Codes  # (N,)
    item: Codes
    level: Levels
    value: NDArray[Any]  # (N,), or (0,) with levels
    times: Numbers = field(default_factory=lambda: NO_TIMES)  # (N,), or (0,) if not known
    context: Numbers = field(default_factory=lambda: np.empty((0, 0)))  # (N, C)
    row: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int32))  # (N,) if asked for

    def columns(self) -> list[NDArray[Any]]:
        return [getattr(self, name) for name in self.__dataclass_fields__]

    def clear(self) -> None:
        """Let go of all."""
        for name in self.__dataclass_fields__:
            setattr(self, name, np.empty(0, np.int32))

    def at(self, rows: Any) -> Unsorted:
        """Some of them; what is not known stays so."""
        return Unsorted(*(one[rows] if len(one) else one for one in self.columns()))


@dataclass
class Sorted:
    """Ratings by user, each pair once; no transpose yet."""

    rows: CSR
    times: Numbers
    context: Numbers
    n_duplicates: int
    repeats: NDArray[Any]  # the `row` of each that repeats a pair, if rows were given


def sorted_by_user(
    entries: Unsorted,
    n_users: int,
    n_items: int,
    scale: Scale,
    means: bool,
    scratch: Scratch,
) -> Sorted:
    """Rows by user and item; of a pair the last, by time and then as they came, or the mean.

    `entries` are emptied where they are many.
    """
    n, most = len(entries.user), _rows_in_memory(scratch)
    edges, begin, columns = np.array([0, n_users]), np.array([0, n]), entries.columns()
    if n > most:
        edges = _bucket_edges(_counts(entries.user, n_users), most)
        entries.clear()
        columns, begin = _dealt(columns, edges, scratch)
    out = Unsorted(*(scratch.room(one.shape, one.dtype) for one in columns))
    size = np.zeros(n_users, np.int64)
    at, again = 0, [np.zeros(0, np.int64)]
    for first, end, own in _buckets(edges, begin):
        part = Unsorted(*(one[own] if len(one) else one for one in columns))
        users = part.user - np.int32(first)
        order, repeats = pair_order(users, end - first, part.item, n_items, part.times)
        order = order.astype(np.intp)  # which each use would make of it otherwise
        part, users = part.at(order), users[order]
        if repeats.any():
            again.append(part.row[repeats] if len(part.row) else part.row)
            if means:
                part.level, part.value = pair_means(part.level, part.value, repeats, scale)
            last = ~np.append(repeats[1:], False)
            part, users = part.at(last), users[last]
        size[first:end] = np.bincount(users, minlength=end - first)
        into = slice(at, at + len(users))
        for target, source in zip(out.columns(), part.columns(), strict=True):
            if len(target):
                target[into] = source
        at = into.stop
    start = np.zeros(n_users + 1, np.int64)
    np.cumsum(size, out=start[1:])
    kept = Unsorted(*(one[:at] for one in out.columns()))
    rows = CSR(start, kept.item, kept.level, kept.value, np.zeros(0, position_kind(at)))
    return Sorted(rows, kept.times, kept.context, n - at, np.sort(np.concatenate(again)))


def both_orientations(rows: CSR, n_columns: int, scratch: Scratch) -> tuple[CSR, CSR]:
    """`rows` and its transpose, each knowing its twin positions in the other."""
    n, most = len(rows.column), _rows_in_memory(scratch)
    if n <= most:
        return with_transpose(rows, n_columns)
    kind = position_kind(n)
    counts = _counts(rows.column, n_columns)
    start = np.zeros(n_columns + 1, np.int64)
    np.cumsum(counts, out=start[1:])
    edges = _bucket_edges(counts, most)
    row = _Computed((n,), np.dtype(np.int32), lambda own: _rows_at(rows.start, own))
    position = _Computed(
        (n,), np.dtype(kind), lambda own: np.arange(own.start, own.stop, dtype=kind)
    )
    columns, begin = _dealt([rows.column, row, rows.level, rows.value, position], edges, scratch)
    out = CSR(
        start,
        scratch.room(n, np.int32),
        scratch.room(n, np.uint8),
        scratch.room(len(rows.value), rows.value.dtype),
        scratch.room(n, kind),
    )
    twins = _Inverse(n, most, kind, scratch)
    for first, end, own in _buckets(edges, begin):
        column, user, level, value, place = (one[own] if len(one) else one for one in columns)
        order = stable_order(column - np.int32(first), end - first).astype(np.intp)
        out.column[own], out.level[own], out.in_transpose[own] = (
            user[order], level[order], place[order],
        )  # fmt: skip
        if len(value):
            out.value[own] = value[order]
        twin = np.empty(len(order), kind)
        twin[order] = np.arange(own.start, own.stop, dtype=kind)
        twins.add(place, twin)
    del columns
    return rows._replace(in_transpose=twins.whole()), out


def kept_rows(rows: CSR, keep: Mask, scratch: Scratch) -> CSR:
    """Only the ratings of a mask, without transpose."""
    start = np.zeros(len(rows.start), np.int64)
    before = 0
    for own in _chunks(len(keep)):
        first, end = np.searchsorted(rows.start, (own.start, own.stop), side="right")
        kept = np.cumsum(keep[own])
        start[first:end] = before + kept[rows.start[first:end] - own.start - 1]
        before += int(kept[-1])
    return CSR(
        start,
        kept_of(rows.column, keep, before, scratch),
        kept_of(rows.level, keep, before, scratch),
        kept_of(rows.value, keep, before, scratch),
        rows.in_transpose[:0],
    )


def kept_of(array: NDArray[Any], keep: Mask, n_kept: int, scratch: Scratch) -> NDArray[Any]:
    """What a mask keeps of an array; of an empty one, nothing."""
    if not len(array):
        return array
    out = scratch.room((n_kept, *array.shape[1:]), array.dtype)
    at = 0
    for own in _chunks(len(array)):
        part = array[own][keep[own]]
        out[at : at + len(part)] = part
        at += len(part)
    return out


@dataclass
class _Computed:
    """A column that is made where it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    at: Callable[[slice], NDArray[Any]]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, own: slice) -> NDArray[Any]:
        return self.at(own)


class _Inverse:
    """The inverse of a permutation of 0..n-1, from parts with increasing positions."""

    def __init__(self, n: int, most: int, kind: Any, scratch: Scratch) -> None:
        self._edges = np.unique(np.append(np.arange(0, n, most), n))
        self._at = self._edges[:-1].copy()
        self._position, self._place = (scratch.room(n, kind) for _ in range(2))

    def add(self, position: NDArray[Any], place: NDArray[Any]) -> None:
        cuts = np.searchsorted(position, self._edges)
        for block in np.flatnonzero(np.diff(cuts)):
            own = slice(cuts[block], cuts[block + 1])
            into = slice(self._at[block], self._at[block] + own.stop - own.start)
            self._position[into], self._place[into] = position[own], place[own]
            self._at[block] = into.stop

    def whole(self) -> NDArray[Any]:
        for first, end in zip(self._edges[:-1], self._edges[1:], strict=True):
            sorted_ = np.empty(end - first, self._place.dtype)
            sorted_[self._position[first:end] - first] = self._place[first:end]
            self._place[first:end] = sorted_
        return self._place


def _dealt(
    columns: list[Any], edges: NDArray[np.int64], scratch: Scratch
) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
    """Columns in the order of buckets, within each as they came; and where each bucket begins.

    The bucket of an entry is that of its code in the first column. `columns` is emptied.
    """
    n, n_buckets = len(columns[0]), len(edges) - 1
    kind = np.min_scalar_type(n_buckets - 1)
    bucket_of = np.repeat(np.arange(n_buckets, dtype=kind), np.diff(edges))
    begin = np.zeros(n_buckets + 1, np.int64)
    for own in _chunks(n):
        begin[1:] += np.bincount(bucket_of[columns[0][own]], minlength=n_buckets)
    np.cumsum(begin, out=begin)
    out = [scratch.room(one.shape, one.dtype) for one in columns]
    at = begin[:-1].copy()
    for own in _chunks(n):
        safe_point()
        bucket = bucket_of[columns[0][own]]
        order = np.argsort(bucket, kind="stable")
        count = np.bincount(bucket, minlength=n_buckets)
        present = np.flatnonzero(count)
        ends = np.cumsum(count[present])
        for source, target in zip(columns, out, strict=True):
            if not len(source):
                continue
            part = source[own].take(order, axis=0)
            for one, size, end in zip(present, count[present], ends, strict=True):
                target[at[one] : at[one] + size] = part[end - size : end]
        at += count
    columns.clear()
    return out, begin


def _buckets(
    edges: NDArray[np.int64], begin: NDArray[np.int64]
) -> Iterator[tuple[int, int, slice]]:
    """Each bucket: its first row and the one behind its last, and where its entries are."""
    for bucket in range(len(edges) - 1):
        safe_point()
        yield int(edges[bucket]), int(edges[bucket + 1]), slice(begin[bucket], begin[bucket + 1])


def _bucket_edges(counts: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Runs of rows with at most `most` entries each, or a single row: where they begin, and R."""
    ends = np.cumsum(counts)
    n = int(ends[-1]) if len(ends) else 0
    most = max(most, -(-2 * n // _MOST_BUCKETS))
    edges = [0]
    while edges[-1] < len(counts):
        before = int(ends[edges[-1] - 1]) if edges[-1] else 0
        edges.append(max(edges[-1] + 1, int(np.searchsorted(ends, before + most, side="right"))))
    return np.array(edges if len(edges) > 1 else [0, 0], np.int64)


def _counts(codes: Codes, n_codes: int) -> NDArray[np.int64]:
    total = np.zeros(n_codes, np.int64)
    for own in _chunks(len(codes)):
        total += np.bincount(codes[own], minlength=n_codes)
    return total


def _rows_at(start: NDArray[np.int64], own: slice) -> NDArray[np.int32]:
    """The row of each of these positions."""
    first = int(np.searchsorted(start, own.start, side="right")) - 1
    last = int(np.searchsorted(start, own.stop, side="left"))
    place = np.clip(start[first : last + 1], own.start, own.stop)
    return np.repeat(np.arange(first, last, dtype=np.int32), place[1:] - place[:-1])


def _rows_in_memory(scratch: Scratch) -> int:
    return min(_MOST_ROWS, max(_LEAST_ROWS, scratch.memory // _BYTES_A_ROW))


def _chunks(n: int) -> Iterator[slice]:
    return (slice(first, min(first + _AT_ONCE, n)) for first in range(0, n, _AT_ONCE))
