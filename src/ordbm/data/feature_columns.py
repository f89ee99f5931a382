"""What is known of users or items, as numbers: columns of a table, encoded once and for all.

A column of numbers is standardised, with four hinges at its quintiles beside it, so that what it
says need not be a straight line. Of text and of lists (genres, tags; or text split by "|") every
value that at least two have is an indicator. A missing value is the mean. The first feature is 1
wherever anything is known.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ordbm.data.feature_tables import FeatureTable
from ordbm.data.ids import IdMap, is_missing
from ordbm.data.numeric_columns import number_of
from ordbm.errors import LeftOutWarning, RatingsError
from ordbm.runtime.arrays import Array, Mask, Numbers
from ordbm.runtime.printable import shown

SEPARATOR = "|"
HINGES = 4  # hinges of a column of numbers
MOST_VALUES = 1_000  # of a column, the most common ones
LEAST_SHARED = 2  # ids that have a value
FEW = 10  # ids of which nothing can be said
DISTINCT = 0.8  # of the ids have a value of their own: it says who they are, not what they are like
SAME = 0.99  # a correlation with mean ratings that no feature has


class NumberColumn(NamedTuple):
    """(x - mean) / scale, and how far that is above each knot."""

    name: str
    mean: float
    scale: float
    knots: tuple[float, ...]

    @property
    def width(self) -> int:
        return 1 + len(self.knots)

    def encoded(self, values: Sequence[Any]) -> Numbers:
        """(ids, width); NaN where the value is missing."""
        x = (_numbers(values) - self.mean) / self.scale
        return np.stack([x, *(np.maximum(x - knot, 0.0) for knot in self.knots)], axis=1)


class ValueColumn(NamedTuple):
    """An indicator of each value, of which one may have several."""

    name: str
    values: tuple[str, ...]

    @property
    def width(self) -> int:
        return len(self.values)

    def encoded(self, values: Sequence[Any]) -> Numbers:
        """(ids, width); NaN where the value is missing."""
        place = {value: number for number, value in enumerate(self.values)}
        out = np.zeros((len(values), len(place)))
        for row, value in enumerate(values):
            if _is_absent(value):
                out[row] = np.nan
                continue
            for part in _parts(value):
                if part in place:
                    out[row, place[part]] = 1.0
        return out


class FeatureEncoder(NamedTuple):
    """How the columns of a table become features; `mean` (q - 1,) is that of those with ratings."""

    columns: tuple[NumberColumn | ValueColumn, ...]
    mean: Numbers

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def group(self) -> Array:
        """The column that each feature is of, from 1 on; 0 for the constant, (q,)."""
        width = [1, *(column.width for column in self.columns)]
        return np.repeat(np.arange(len(width)), width)

    def encoded(self, table: Mapping[str, Sequence[Any]], n_rows: int) -> Array:
        """Features of each row of a table, (rows, q). Columns that it lacks are missing values."""
        nothing = [None] * n_rows
        parts = [column.encoded(table.get(column.name, nothing)) for column in self.columns]
        features = np.concatenate([np.zeros((n_rows, 0)), *parts], axis=1) - self.mean
        features[np.isnan(features)] = 0.0
        return np.concatenate([np.ones((n_rows, 1)), features], axis=1).astype(np.float32)


def fitted_encoder(
    table: FeatureTable, kind: str, has_ratings: Mask, mean_rating: Numbers
) -> FeatureEncoder:
    """How to encode such a table. What it is made of are the ids that have ratings.

    `has_ratings` (ids,) says which; `mean_rating` is that of each. Columns that say nothing, or who
    it is, or the rating, are an error.
    """
    what = f"{kind}_features"
    found: list[NumberColumn | ValueColumn] = []
    useless: dict[str, str] = {}
    for name, values in table.columns.items():
        present = [not _is_absent(value) for value in values]
        seen = [value for value, has, here in zip(values, has_ratings, present, strict=True)
                if has and here]  # fmt: skip
        _check_finite(values, name, what, table.ids)
        if not seen:
            useless[name] = "all missing where there are ratings"
        elif _are_numbers(values):
            _check_not_rating(values, name, what, has_ratings, mean_rating)
            numbers = _numbers(seen)
            if np.ptp(numbers) == 0:
                useless[name] = "constant"
            elif _numbers_ids(values, table.ids):
                useless[name] = "an id in disguise"
            else:
                found.append(_number_column(name, numbers))
        else:
            count = Counter(part for value in seen for part in dict.fromkeys(_parts(value)))
            if len(count) >= FEW and sum(n == 1 for n in count.values()) > DISTINCT * len(seen):
                useless[name] = "an id in disguise, nearly every value being there once"
                continue
            kept = [
                value
                for value, n in count.most_common(MOST_VALUES)
                if LEAST_SHARED <= n < len(seen)
            ]
            if kept:
                found.append(ValueColumn(name, tuple(sorted(kept))))
            else:
                useless[name] = "constant, or without a value that two share"
    if useless:
        said = "; ".join(f"column {shown(name)} is {why}" for name, why in useless.items())
        raise RatingsError(f"{what}: {said}: leave such columns out")
    encoder = FeatureEncoder(tuple(found), np.zeros(sum(column.width for column in found)))
    parts = [column.encoded(table.columns[column.name]) for column in found]
    rated = np.concatenate(parts, axis=1)[has_ratings]
    return encoder._replace(mean=np.nanmean(rated, axis=0))


def encoded_like(encoder: FeatureEncoder, table: FeatureTable, kind: str) -> Array:
    """Features of a table that came after learning, (ids, q), by the columns that were learnt."""
    what = f"{kind}_features"
    lacking = [name for name in encoder.names if name not in table.columns]
    if lacking:
        raise RatingsError(
            f"{what} lacks {', '.join(map(shown, lacking))}, which the model was learnt with: give "
            "all columns, with None for what is not known"
        )
    odd = {name: "not learnt with" for name in table.columns if name not in encoder.names}
    for column in encoder.columns:
        values = table.columns[column.name]
        if isinstance(column, NumberColumn):
            _check_finite(values, column.name, what, table.ids)
            _check_numbers(values, column.name, what, table.ids)
            continue
        for value, known in zip(values, table.ids, strict=True):
            parts = [] if _is_absent(value) else _parts(value)
            if parts and not set(parts) & set(column.values):
                odd[column.name] = f"{shown(parts[0])} of {shown(known)}, which is new"
    if odd:
        said = "; ".join(f"{shown(name)} ({why})" for name, why in odd.items())
        warnings.warn(f"{what}: left out {said}", LeftOutWarning, stacklevel=6)
    return encoder.encoded(table.columns, len(table.ids))


def _number_column(name: str, numbers: Numbers) -> NumberColumn:
    mean, scale = float(numbers.mean()), float(numbers.std())
    cuts = np.quantile((numbers - mean) / scale, np.linspace(0, 1, HINGES + 2)[1:-1])
    inner = np.unique(cuts[(cuts > (numbers.min() - mean) / scale)])
    return NumberColumn(name, mean, scale, tuple(inner.tolist()) if len(inner) > 1 else ())


def _is_absent(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return not _is_several(value) and is_missing(value)


def _is_several(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def _parts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(SEPARATOR) if part.strip()]
    return [str(part) for part in value] if _is_several(value) else [str(value)]


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(_is_number(value) for value in values if not _is_absent(value))


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return not math.isnan(number_of(value))
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _numbers(values: Sequence[Any]) -> Numbers:
    """As float64; NaN where missing."""
    return np.array(
        [
            np.nan if _is_absent(value)
            else number_of(value) if isinstance(value, str)
            else float(value)
            for value in values
        ]
    )  # fmt: skip


def _check_numbers(values: Sequence[Any], name: str, what: str, ids: IdMap) -> None:
    for row, value in enumerate(values):
        if not _is_absent(value) and not _is_number(value):
            raise RatingsError(
                f"{what}: column {shown(name)} is {shown(value)} for {shown(ids[row])} (row {row}) "
                "and was learnt as numbers: give a number, or None for what is not known"
            )


def _check_finite(values: Sequence[Any], name: str, what: str, ids: IdMap) -> None:
    for row, value in enumerate(values):
        number = number_of(value) if isinstance(value, str) else value
        if isinstance(number, float | np.floating) and math.isinf(number):
            raise RatingsError(
                f"{what}: column {shown(name)} is {value} for {shown(ids[row])} (row {row}): give "
                "finite numbers, or None for what is not known"
            )


def _check_not_rating(
    values: Sequence[Any], name: str, what: str, has_ratings: Mask, mean_rating: Numbers
) -> None:
    """An error if the column follows the mean ratings of the ids as nothing else does."""
    x = _numbers(values)
    both = has_ratings & ~np.isnan(x)
    if both.sum() < FEW or np.ptp(x[both]) == 0 or np.ptp(mean_rating[both]) == 0:
        return
    if abs(np.corrcoef(x[both], mean_rating[both])[0, 1]) > SAME:
        raise RatingsError(
            f"{what}: column {shown(name)} is the rating itself (its correlation with mean ratings "
            f"is above {SAME}): leave it out, it will not be there for anybody new"
        )


def _numbers_ids(values: Sequence[Any], ids: IdMap) -> bool:
    """Whether a column counts through the ids, one by one."""
    x = _numbers(values)
    if len(x) < FEW or np.isnan(x).any() or len(np.unique(x)) < len(x) or (x % 1 != 0).any():
        return False
    key = np.arange(len(x))
    if all(isinstance(value, int) for value in ids.ids):
        key = np.array(ids.ids, np.float64)
    order = np.argsort(key, kind="stable")
    steps = np.diff(x[order])
    return bool((steps > 0).all() or (steps < 0).all())
