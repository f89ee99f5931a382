"""Times of ratings that come in parts, as Arrow arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ordbm.data.encoded_parts import EncodedParts
from ordbm.data.times import (
    NO_TIMES,
    parts_of_second,
    since_epoch,
    text_seconds,
    times_in_seconds,
)
from ordbm.runtime.arrays import Numbers
from ordbm.runtime.scratch import Scratch

_AT_ONCE = 2**20


class TimeParts:
    """Times that come in parts, as Arrow arrays of one kind."""

    def __init__(self, n_rows: int, scratch: Scratch) -> None:
        self._n, self._scratch = n_rows, scratch
        self._seconds = NO_TIMES
        self._texts: EncodedParts | None = None
        self._may_be_finer = False  # numbers, whose unit the largest of all tells
        self.n_rows = 0

    def check(self, array: Any, beside: Mapping[str, Any]) -> None:
        """An error that names rows unless all of these are times."""
        if _is_text(array):
            encoded = array if hasattr(array, "dictionary") else array.dictionary_encode()
            if not np.isfinite(text_seconds(encoded.dictionary.to_pylist())).all():
                times_in_seconds(array.to_pylist(), **beside)
        else:
            times_in_seconds(array.to_numpy(zero_copy_only=False), **beside)

    def add(self, array: Any) -> None:
        """Rows that follow."""
        rows = slice(self.n_rows, self.n_rows + len(array))
        self.n_rows = rows.stop
        if _is_text(array):
            if self._texts is None:
                self._texts = EncodedParts(self._n, self._scratch)
            self._texts.add(array)
            return
        if not len(self._seconds):
            self._seconds = self._scratch.room(self._n)
        numbers = array.to_numpy(zero_copy_only=False)
        if numbers.dtype.kind == "M":
            self._seconds[rows] = since_epoch(numbers)
        else:
            self._may_be_finer = True
            self._seconds[rows] = numbers

    def whole(self) -> Numbers:
        """The times of all rows, in seconds."""
        if self._texts is not None:
            values, codes = self._texts.whole()
            moments = text_seconds(values.to_pylist())
            self._seconds = self._scratch.room(self.n_rows)
            for own in _chunks(self.n_rows):
                self._seconds[own] = moments[codes[own]]
        seconds = self._seconds[: self.n_rows]
        if self._may_be_finer:
            largest = max(float(np.abs(seconds[own]).max()) for own in _chunks(self.n_rows))
            parts = parts_of_second(largest)
            for own in _chunks(self.n_rows) if parts != 1.0 else ():
                seconds[own] /= parts
        return seconds


def _is_text(array: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _chunks(n: int) -> Iterator[slice]:
    return (slice(first, min(first + _AT_ONCE, n)) for first in range(0, n, _AT_ONCE))
