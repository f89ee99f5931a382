"""When ratings were given, in seconds since 1970 (UTC): from numbers, datetimes and ISO 8601 text.

Numbers are seconds; where the largest would be past the year 5000 they are milliseconds,
microseconds or nanoseconds. Times without a zone are UTC.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import Column, EncodedColumn, plain_column
from ordbm.data.numeric_columns import number_of
from ordbm.errors import RatingsError, offending_rows
from ordbm.runtime.arrays import Numbers

_FINER = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))  # from so large on, so many of them in a second
_EPOCH = np.datetime64(0, "s")
_LEAST_DATE = 1e8  # of 1973: a smaller number may be anything
NO_TIMES: Numbers = np.empty(0)


def times_in_seconds(times: Any, **beside: Any) -> Numbers:
    """The times of ratings in seconds, or an error naming the rows that have none.

    `beside` are further columns (`user=...`, `item=...`) to show in that message.
    """
    column: Any
    if isinstance(times, EncodedColumn):
        seconds, column = text_seconds(times.distinct)[times.codes], times
    else:
        column = plain_column(times, "times")
        seconds = _seconds(column)
    bad = ~np.isfinite(seconds)
    if bad.any():
        rows = offending_rows(bad, **beside, time=column)
        raise RatingsError(
            f"times must be numbers of seconds, datetimes or ISO 8601 text: {rows}; correct or "
            "drop these rows, or leave the times out (time=False of a file or a frame)"
        )
    return seconds


def one_time(time: Any) -> float:
    """One time in seconds, or an error."""
    return float(times_in_seconds([time])[0])


def text_seconds(texts: Sequence[str]) -> Numbers:
    """The time that each text is, in seconds; NaN for those that are none."""
    array = getattr(texts, "array", None)  # Arrow's: all at once
    if array is not None:
        import pyarrow as pa  # noqa: PLC0415

        try:
            return _in_seconds(array.cast(pa.float64()).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid:
            pass
    return _seconds(list(texts))


def is_time(value: Any) -> bool:
    """Whether a value can be a time: any number, a date, or ISO 8601 text."""
    return math.isfinite(_seconds([value])[0])


def is_date(value: Any) -> bool:
    """Whether a value without a name can hardly be anything but a time."""
    return is_time(value) and _seconds([value])[0] >= _LEAST_DATE


def plain_times(seconds: Numbers) -> NDArray[Any]:
    """The same as integers if all of them are."""
    whole = np.all(seconds == np.floor(seconds)) and np.abs(seconds).max(initial=0) < 2**53
    return seconds.astype(np.int64) if whole else seconds


def _seconds(column: Column) -> Numbers:
    """The seconds of each row, NaN where there is no time."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
        return _in_seconds(column.astype(np.float64))
    if isinstance(column, np.ndarray) and column.dtype.kind == "M":
        return since_epoch(column)
    numbers = np.fromiter(map(_number, column), np.float64, len(column))
    numbers = _in_seconds(numbers)
    for row in np.flatnonzero(np.isnan(numbers)).tolist():
        numbers[row] = _moment(column[row])
    return numbers


def _in_seconds(numbers: Numbers) -> Numbers:
    largest = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
    return numbers / parts_of_second(largest)


def parts_of_second(largest: float) -> float:
    """How many of the unit of times make a second, by the largest of all times."""
    return next((parts for least, parts in _FINER if largest >= least), 1.0)


def since_epoch(moments: NDArray[Any]) -> Numbers:
    """The seconds that NumPy's datetimes are since 1970."""
    return (moments - _EPOCH) / np.timedelta64(1, "s")


def _number(value: Any) -> float:
    """A number as it is, also as text; NaN for anything else."""
    if isinstance(value, str):
        return number_of(value)
    return float(value) if isinstance(value, Real) else math.nan


def _moment(value: Any) -> float:
    """A date, or the text of one, in seconds; NaN for anything else."""
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            return math.nan
    if isinstance(value, np.datetime64):
        return float(since_epoch(np.array([value]))[0])
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    if not isinstance(value, dt.datetime):
        return math.nan
    try:
        return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).timestamp()
    except (ValueError, OverflowError, AttributeError):  # pandas' NaT
        return math.nan
