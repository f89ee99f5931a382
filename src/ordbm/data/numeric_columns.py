"""Columns of numbers, checked: what is text, missing or too large is an error naming its rows."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from ordbm.data.columns import Column, plain_column
from ordbm.errors import RatingsError, offending_rows
from ordbm.runtime.arrays import Numbers

LARGEST_NUMBER = 1e150  # sums of squares of larger numbers would overflow
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)


def number_of(text: str) -> float:
    """The number that a text is, whatever spaces are around it; NaN if it is none."""
    plain = text.strip(" ")
    return float(plain) if NUMBER.fullmatch(plain) else math.nan


def finite_numbers(values: Any, name: str = "ratings", **beside: Any) -> Numbers:
    """`values` as float64, or an error naming the rows that are text, missing or too large."""
    column = plain_column(values, name)
    if not len(column):
        raise RatingsError(f"no {name}: need at least one")
    numbers = _as_float(column)
    if numbers is None:
        raise RatingsError(_not_numbers(column, name, beside))
    cells = {**beside, _singular(name): column}
    bad = ~np.isfinite(numbers)
    if bad.any():
        raise RatingsError(
            f"{name} must be finite numbers: {offending_rows(bad, **cells)}; correct or drop "
            "these rows"
        )
    large = np.abs(numbers) > LARGEST_NUMBER
    if large.any():
        raise RatingsError(
            f"{name} beyond {LARGEST_NUMBER:g} are too large, their deviation would overflow: "
            f"{offending_rows(large, **cells)}; correct these rows, or divide all {name} by one "
            "number"
        )
    return numbers


def check_not_tiny(numbers: Numbers) -> None:
    """An error if the squares of ratings vanish, and their deviation with them."""
    largest = float(np.abs(numbers).max(initial=0))
    if 0 < largest < 1 / LARGEST_NUMBER:
        raise RatingsError(
            f"ratings of at most {largest:g} are too small, their deviation would vanish: multiply "
            "all ratings by one number"
        )


def _as_float(column: Column) -> Numbers | None:
    """`column` as float64 with NaN for None; None if something in it is not a real number."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        return None
    numbers = np.empty(len(column))
    try:
        for row, value in enumerate(column):
            numbers[row] = np.nan if value is None else _number(value)
    except (TypeError, ValueError):
        return None
    except OverflowError:
        numbers[row:] = np.inf
    return numbers


def _number(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError
    return float(value)


def _not_numbers(column: Column, name: str, beside: dict[str, Any]) -> str:
    bad = [row for row in range(len(column)) if _as_float([column[row]]) is None]
    where = offending_rows(bad, **beside, **{_singular(name): column})
    if not all(isinstance(column[row], str) for row in bad):
        return f"{name} must be real numbers: {where}; correct or drop these rows"
    if all(_reads_as_number(column[row]) for row in bad):
        return f"{name} are text, not numbers: {where}; convert them with float() first"
    if name != "ratings":
        return f"{name} are text, not numbers: {where}; give numbers only"
    return (
        f"{name} are text, not numbers: {where}; if they are labels, give them from lowest to "
        'highest, as in scale=["poor", "fair", "good"]'
    )


def _singular(name: str) -> str:
    return name.removesuffix("s")


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
