"""Columns that come in parts: the distinct values, and which of them each row has.

Work is on distinct values, in Arrow and NumPy: no Python object is made for a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import ArrowTexts
from ordbm.data.ids import IdMap
from ordbm.data.numeric_columns import finite_numbers
from ordbm.data.scale import (
    ContinuousScale,
    Levels,
    RatingScale,
    Scale,
    ScaleLike,
    given_scale,
    levels_and_values,
)
from ordbm.runtime.arrays import Codes
from ordbm.runtime.scratch import Scratch

_MOST_PENDING = 2**20  # distinct values of parts, before they are made one with those known
_MOST_RATINGS = 256  # distinct ones, each a byte
_AT_ONCE = 2**20
_LONGEST_TABLE = 2**24


class EncodedParts:
    """Values numbered by first appearance; `add` takes Arrow arrays, plain or as dictionaries."""

    def __init__(self, n_rows: int, scratch: Scratch) -> None:
        self._codes = scratch.room(n_rows, np.int32)
        self._integers: _NearIntegers | None = _NearIntegers()  # as long as all are such
        self._known: Any = None  # all distinct values so far, but for those pending
        self._pending: list[tuple[slice, Any]] = []  # rows whose codes are of values of their own
        self._n_pending = 0
        self.n_rows = 0

    def add(self, array: Any) -> None:
        """Rows that follow; what is null is a value, too."""
        import pyarrow as pa  # noqa: PLC0415

        if self._integers is not None:
            codes = self._integers.codes(array)
            if codes is not None:
                self._codes[self._rows(len(array))] = codes
                return
            self._known = self._integers.distinct() if self.n_rows else None
            self._integers = None
        if pa.types.is_dictionary(array.type) and not array.null_count:
            present = array.indices.dictionary_encode()  # it may hold more, in another order
            values, codes = array.dictionary.take(present.dictionary), present.indices
        else:
            plain = array.cast(_value_type(array.type))
            encoded = plain.dictionary_encode(null_encoding="encode")
            values, codes = encoded.dictionary, encoded.indices
        rows = self._rows(len(array))
        self._codes[rows] = codes.to_numpy()
        self._pending.append((rows, _common(values)))
        self._n_pending += len(values)
        if self._n_pending > max(_MOST_PENDING, 0 if self._known is None else len(self._known)):
            self._join()

    def whole(self) -> tuple[Any, Codes]:
        """The distinct values as an Arrow array, and the code of each row."""
        if self._integers is not None:
            return self._integers.distinct(), self._codes[: self.n_rows]
        self._join()
        return self._known, self._codes[: self.n_rows]

    def id_map(self) -> tuple[IdMap, Codes]:
        """The same as ids."""
        import pyarrow as pa  # noqa: PLC0415

        values, codes = self.whole()
        if pa.types.is_integer(values.type):
            return IdMap(values.to_numpy()), codes
        if pa.types.is_decimal(values.type):
            return IdMap(tuple(map(int, values.to_pylist()))), codes
        return IdMap(ArrowTexts(values)), codes

    def _rows(self, n: int) -> slice:
        """The next `n` rows."""
        self.n_rows += n
        return slice(self.n_rows - n, self.n_rows)

    def _join(self) -> None:
        import pyarrow as pa  # noqa: PLC0415

        if not self._pending:
            return
        parts = [values for _, values in self._pending]
        if self._known is not None:
            parts.insert(0, self._known)
        if any(pa.types.is_decimal(one.type) for one in parts):
            parts = [one.cast(pa.decimal128(20, 0)) for one in parts]
        joined = pa.concat_arrays(parts).dictionary_encode(null_encoding="encode")
        code = joined.indices.to_numpy()
        at = 0 if self._known is None else len(self._known)
        for rows, values in self._pending:
            own = code[at : at + len(values)]
            self._codes[rows] = own[self._codes[rows]]
            at += len(values)
        self._known = joined.dictionary
        self._pending, self._n_pending = [], 0
        pa.default_memory_pool().release_unused()


class _NearIntegers:
    """Codes of integers that are near enough to each other for a table of all between them."""

    def __init__(self) -> None:
        self._lowest = self._highest = 0
        self._table = np.zeros(0, np.int32)  # code + 1, or 0 if there is none, from the lowest on
        self._parts: list[NDArray[np.int64]] = []
        self._n_distinct = 0

    def codes(self, array: Any) -> Codes | None:
        """The code of each; None if they are not integers, or too far from each other."""
        import pyarrow as pa  # noqa: PLC0415

        if not pa.types.is_integer(array.type) or array.null_count or not len(array):
            return None
        values = array.to_numpy()
        if not self._reaches(int(values.min()), int(values.max())):
            return None
        place = values.astype(np.int64) - self._lowest
        codes = self._table.take(place)
        new = place[codes == 0]
        if len(new):
            distinct = pa.array(new).dictionary_encode().dictionary.to_numpy()
            first = self._n_distinct + 1
            self._n_distinct += len(distinct)
            self._table[distinct] = np.arange(first, self._n_distinct + 1, dtype=np.int32)
            self._parts.append(distinct + self._lowest)
            codes = self._table.take(place)
        return codes - np.int32(1)

    def distinct(self) -> Any:
        """All integers, in the order of their codes."""
        import pyarrow as pa  # noqa: PLC0415

        return pa.array(np.concatenate(self._parts))

    def _reaches(self, low: int, high: int) -> bool:
        """Have a table from `low` to `high` and of all before, if it is not too long."""
        if self._parts:
            low, high = min(low, self._lowest), max(high, self._highest)
        if high - low >= _LONGEST_TABLE or low < -(2**62) or high >= 2**62:
            return False
        before = self._lowest - low if self._parts else 0
        if before or high - low >= len(self._table):
            table = np.zeros(min(_LONGEST_TABLE, 2 * (high - low + 1)), np.int32)
            if self._parts:
                used = self._highest - self._lowest + 1
                table[before : before + used] = self._table[:used]
            self._table = table
        self._lowest, self._highest = low, high
        return True


class RatingParts:
    """Ratings in parts: a byte each as long as few are distinct, numbers otherwise."""

    def __init__(self, n_rows: int, scratch: Scratch) -> None:
        self._n, self._scratch = n_rows, scratch
        self._codes = scratch.room(n_rows, np.uint8)
        self._place: dict[Any, int] = {}  # of each distinct value
        self._numbers: NDArray[np.float64] | None = None
        self._all_true_or_false = True
        self.n_rows = 0

    def add(self, array: Any) -> None:
        """Rows that follow, none of them null; what is wrong with them has been found."""
        import pyarrow as pa  # noqa: PLC0415

        rows = slice(self.n_rows, self.n_rows + len(array))
        self.n_rows = rows.stop
        self._all_true_or_false &= array.type == pa.bool_()
        if self._numbers is None:
            encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
            distinct = encoded.dictionary
            if len(self._place) + len(distinct) <= _MOST_RATINGS or self._are_few(distinct):
                values = distinct.to_pylist()
                places = [self._place.setdefault(value, len(self._place)) for value in values]
                self._codes[rows] = np.array(places, np.uint8)[encoded.indices.to_numpy()]
                return
            self._widen(rows.start)
        assert self._numbers is not None
        self._numbers[rows] = finite_numbers(plain_numbers(array))

    def _are_few(self, distinct: Any) -> bool:
        """Whether there is a byte for each value with these, too."""
        return (
            len(distinct) <= _MOST_RATINGS
            and len(self._place.keys() | set(distinct.to_pylist())) <= _MOST_RATINGS
        )

    def whole(self, scale: ScaleLike) -> tuple[Scale, Levels, NDArray[Any]]:
        """The scale, given or found; the level of each row; and its value on a continuous one."""
        return self._on(given_scale(scale) or self._found(scale))

    def _found(self, scale: ScaleLike) -> Scale:
        """The scale that the ratings tell."""
        if scale != "continuous":
            distinct = self._distinct()
            if self._numbers is not None:
                parts = [np.unique(self._numbers[own]) for own in _chunks(self.n_rows)]
                distinct = np.unique(np.concatenate(parts))
            found = RatingScale.infer(distinct)
            if isinstance(found, RatingScale):
                return found
        self._widen(self.n_rows)
        assert self._numbers is not None
        return ContinuousScale.of_many([self._numbers[own] for own in _chunks(self.n_rows)])

    def _on(self, scale: Scale) -> tuple[Scale, Levels, NDArray[Any]]:
        n = self.n_rows
        nothing = np.empty(0, np.float32)
        if isinstance(scale, ContinuousScale):
            self._widen(n)
            assert self._numbers is not None
            return scale, self._scratch.room(n, np.uint8), self._numbers[:n]
        if self._numbers is None:
            level = levels_and_values(self._distinct(), scale)[0]
            for own in _chunks(n):
                self._codes[own] = level[self._codes[own]]
            return scale, self._codes[:n], nothing
        levels = self._scratch.room(n, np.uint8)
        for own in _chunks(n):
            levels[own] = scale.codes(self._numbers[own])
        return scale, levels, nothing

    def _distinct(self) -> Any:
        values = list(self._place)
        if any(isinstance(value, str) for value in values):
            return values
        return np.array(values, bool if self._all_true_or_false else np.float64)

    def _widen(self, n_rows: int) -> None:
        """Have the numbers of the rows so far, not their codes."""
        if self._numbers is not None:
            return
        values = np.asarray(finite_numbers(self._distinct()))
        self._numbers = self._scratch.room(self._n, np.float64)
        for own in _chunks(n_rows):
            self._numbers[own] = values[self._codes[own]]
        self._codes = np.empty(0, np.uint8)


def plain_numbers(array: Any) -> NDArray[Any]:
    """Numbers of Arrow as an array."""
    import pyarrow as pa  # noqa: PLC0415

    kind = _value_type(array.type)
    array = array.cast(pa.float64() if pa.types.is_decimal(kind) else kind)
    numbers: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers


def _value_type(kind: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _common(values: Any) -> Any:
    """Distinct values in the type that those of other parts have, too."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_integer(values.type):
        try:
            return values.cast(pa.int64())
        except pa.ArrowInvalid:  # beyond 63 bits
            return values.cast(pa.decimal128(20, 0))
    if pa.types.is_string(values.type):
        return values.cast(pa.large_string())  # whose texts together may be longer than 2 GB
    return values


def _chunks(n: int) -> Any:
    return (slice(first, min(first + _AT_ONCE, n)) for first in range(0, n, _AT_ONCE))
