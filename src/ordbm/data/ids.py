"""Ids of any hashable kind, converted once, at the edge, into 0..n-1."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, repeat
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import Column, EncodedColumn, plain_column
from ordbm.errors import RatingsError, offending_rows
from ordbm.runtime.arrays import Codes

_NEVER_MISSING = {int, str, bytes, tuple, bool}
_LARGEST_EXACT = 2**53
_INT64 = range(-(2**63), 2**63)
_APART = {str, bytes, float, bool}  # their hashes are salted, or shared by sixteen at the most
MOST_ALIKE = 100  # distinct ids of one hash


@dataclass(frozen=True, eq=False, repr=False)
class IdMap:
    """A frozen one-to-one map between ids and the codes 0..n-1.

    Ids are equal when Python says so: `5`, `np.int64(5)` and `5.0` are one id, `5` and `"5"` two.
    """

    given: Sequence[Hashable] | NDArray[np.int64]  # an array as long as nobody asks for objects

    @classmethod
    def of(cls, ids: Any, name: str = "ids") -> tuple[IdMap, Codes]:
        """The map of all distinct `ids`, in order of first appearance, and the code of each."""
        if isinstance(ids, EncodedColumn):
            known, code = cls.of(ids.distinct, name)  # which may repeat, or not be there at all
            order, codes = _factorised_integers(code[ids.codes])
            return known.at(order), codes
        column = plain_column(ids, name)
        if _is_integer_array(column) and len(column):
            distinct, codes = _factorised_integers(column.astype(np.int64, copy=False))
            return cls(distinct), codes
        return _factorised(_python_values(column), name)

    @cached_property
    def ids(self) -> tuple[Hashable, ...]:
        """All ids, in the order of their codes."""
        return tuple(self.given.tolist() if isinstance(self.given, np.ndarray) else self.given)

    def codes(self, ids: Any, name: str = "ids") -> Codes:
        """The code of each of `ids`, -1 for the unknown and the missing."""
        column = plain_column(ids, name)
        if _is_integer_array(column) and len(column) > len(self) and self._sorted_integers:
            return _positions(column.astype(np.int64, copy=False), *self._sorted_integers)
        values = _python_values(column)
        table = self._table
        try:
            return np.fromiter(map(table.get, values, repeat(-1)), np.int32, len(values))
        except TypeError:
            raise _unhashable(values, name) from None

    def values(self, codes: Codes) -> Column:
        """The id of each code: an array where all are integers."""
        if isinstance(self.given, np.ndarray):
            return self.given[codes]
        return list(map(self.ids.__getitem__, codes.tolist()))

    def with_more(self, others: IdMap) -> tuple[IdMap, Codes]:
        """The map with what `others` has beside, and the code in it of each of theirs."""
        codes = self.codes(others.given)
        new = np.flatnonzero(codes < 0)
        if not len(new):
            return self, codes
        codes[new] = len(self) + np.arange(len(new), dtype=np.int32)
        arrays = [ids for ids in (self.given, others.given) if isinstance(ids, np.ndarray)]
        if len(arrays) == 2:
            return IdMap(np.concatenate([arrays[0], arrays[1][new]])), codes
        return IdMap((*self.ids, *(others.ids[place] for place in new))), codes

    def __len__(self) -> int:
        return len(self.given)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.ids)

    def __getitem__(self, code: int) -> Hashable:
        return self.ids[code]

    def __eq__(self, other: object) -> bool:
        return self.ids == other.ids if isinstance(other, IdMap) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.ids)

    def __contains__(self, value: object) -> bool:
        return value in self._table

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.ids[:3]))
        return f"IdMap({len(self):,} ids: {shown}{', ...' if len(self) > 3 else ''})"

    def at(self, codes: Codes) -> IdMap:
        """The map of the ids at `codes`, in that order."""
        if isinstance(self.given, np.ndarray):
            return IdMap(self.given[codes])
        return IdMap(tuple(map(self.given.__getitem__, codes.tolist())))

    @cached_property
    def _table(self) -> dict[Hashable, int]:
        check_hashes(self.ids)
        table = dict(zip(self.ids, range(len(self)), strict=True))
        if len(table) < len(self):
            raise RatingsError("ids of an IdMap must be distinct; make one with IdMap.of(ids)")
        return table

    @cached_property
    def kinds(self) -> frozenset[str]:
        """What kinds of ids there are, in words."""
        return frozenset(map(kind_of_id, set(map(type, self.ids))))

    @cached_property
    def _sorted_integers(self) -> tuple[NDArray[np.int64], Codes] | None:
        """All ids in increasing order and their codes, if they are all 64-bit integers."""
        integers = self.given
        try:
            if not isinstance(integers, np.ndarray):
                if not self.ids or any(type(value) is not int for value in self.ids):
                    return None
                integers = np.array(self.ids, np.int64)
        except OverflowError:
            return None
        order = np.argsort(integers).astype(np.int32)
        return integers[order], order


def kind_of_id(kind: type) -> str:
    """Ids of a type, in words; numbers of all types are one kind, as they may be equal."""
    if issubclass(kind, int | float | np.number | np.bool_):
        return "numbers"
    return "text" if issubclass(kind, str) else kind.__name__


def integral_ids(column: Column) -> Column:
    """`column`, of integers where it was of floats that are all whole: ids that met a missing value
    once, as in frames. Beyond 2^53 floats are no longer one for each integer, and stay.
    """
    if not isinstance(column, np.ndarray) or column.dtype.kind != "f":
        return column
    return column.astype(np.int64) if are_whole(column).all() else column


def are_whole(numbers: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of these floats are whole numbers, each the only one that it may stand for."""
    whole: NDArray[np.bool_] = (np.abs(numbers) < _LARGEST_EXACT) & (numbers == np.round(numbers))
    return whole


def _is_integer_array(column: Column) -> TypeGuard[NDArray[Any]]:
    """Whether every value fits 64 signed bits, by type."""
    return isinstance(column, np.ndarray) and (
        column.dtype.kind == "i" or (column.dtype.kind == "u" and column.dtype.itemsize < 8)
    )


def _python_values(column: Column) -> list[Any]:
    """`column` as a list of Python values; dates and durations stay NumPy scalars (no loss)."""
    if isinstance(column, list):
        return column
    if column.dtype.kind in "mM":
        return list(column)
    values: list[Any] = column.tolist()
    return values


def _python_value(value: Any) -> Hashable:
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":
        item: Hashable = value.item()
        return item
    plain: Hashable = value
    return plain


def _factorised(values: list[Any], name: str) -> tuple[IdMap, Codes]:
    """The map of the distinct `values` by first appearance, and the code of each.

    Not by Arrow, whose columns are of one type: `1`, `"a"` and tuples may be ids of one map, and
    `5` and `5.0` are one id.
    """
    table: defaultdict[Any, int] = defaultdict(count().__next__)
    check_hashes(values, name)
    try:
        codes = np.fromiter(map(table.__getitem__, values), np.int32, len(values))
    except TypeError:
        raise _unhashable(values, name) from None
    if set(map(type, table)) <= _NEVER_MISSING:
        return IdMap(tuple(table)), codes
    if any(map(is_missing, table)):
        bad = [row for row, value in enumerate(values) if is_missing(value)]
        raise RatingsError(
            f"{name} must not be missing: {offending_rows(bad, id=values)}; "
            "drop these rows or give them an id"
        )
    return IdMap(tuple(map(_python_value, table))), codes


def check_hashes(values: Collection[Any], name: str = "ids") -> None:
    """An error if so many ids have one hash that a table of them would take for ever.

    Python's hash of an integer is its rest by 2^61 - 1, so that anybody can make integers beyond 64
    bits that all have one; of those within, sixteen have it at the most.
    """
    kinds = set(map(type, values)) - _APART
    if not kinds:
        return
    if kinds == {int}:
        doubtful = [value for value in values if type(value) is int and value not in _INT64]
    else:
        doubtful = [value for value in values if type(value) in kinds and _is_hashable(value)]
    apart = {_shown(value): value for value in doubtful}
    alike = Counter(map(hash, apart.values())).most_common(1)
    if alike and alike[0][1] > MOST_ALIKE:
        raise RatingsError(
            f"{alike[0][1]:,} {name} have one hash, as integers beyond 64 bits may be made to: "
            "give them as text, with a letter before each number"
        )


def _shown(value: Any) -> Any:
    """What tells a value from others: its text, or itself where Python writes none."""
    try:
        return repr(value)
    except (ValueError, RecursionError):  # too many digits, too deeply nested
        return id(value)


def _unhashable(values: list[Any], name: str) -> RatingsError:
    bad = [row for row, value in enumerate(values) if not _is_hashable(value)]
    return RatingsError(
        f"{name} must be hashable: {offending_rows(bad, id=values)}; "
        "turn them into numbers, strings or tuples"
    )


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def is_missing(value: Any) -> bool:
    """None, NaN, NaT, or a value that does not say whether it equals itself (`pandas.NA`)."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124
    except (TypeError, ValueError, ArithmeticError):
        return True


def _factorised_integers(values: NDArray[Any]) -> tuple[NDArray[Any], Codes]:
    """Distinct integers by first appearance, and each value's place among them."""
    import pyarrow as pa  # noqa: PLC0415

    encoded = pa.array(values).dictionary_encode()
    pa.default_memory_pool().release_unused()  # the table of many distinct ones is large
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy()


def _positions(values: NDArray[np.int64], ordered: NDArray[np.int64], codes: Codes) -> Codes:
    """The code of each value, found by bisection among the `ordered` ids; -1 if not there."""
    place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: Codes = np.where(ordered[place] == values, codes[place], np.int32(-1))
    return found
