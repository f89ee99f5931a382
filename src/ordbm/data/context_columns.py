"""Columns of context beside ratings: numbers, which are near or far, or categories, which are not.

A column of numbers stays as it is; of anything else each distinct value, as text, is a category.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from ordbm.data.columns import EncodedColumn, plain_column
from ordbm.data.ids import is_missing
from ordbm.data.numeric_columns import LARGEST_NUMBER, number_of
from ordbm.data.rating_tables import named_columns
from ordbm.errors import RatingsError, SettingsError, offending_rows
from ordbm.runtime.arrays import Codes, Mask, Numbers
from ordbm.runtime.printable import shown

UNKNOWN = np.inf  # so far from everything that nothing is near
_ROLES = ("user", "item", "rating", "time")


@dataclass(frozen=True, eq=False)
class ContextColumns:
    """What is known beside each rating: a number, or the code of a category."""

    names: tuple[str, ...]
    categories: tuple[tuple[str, ...] | None, ...]  # of each column; None for numbers
    values: Numbers  # (N, C), UNKNOWN where it is

    def __bool__(self) -> bool:
        return bool(self.names)

    def at(self, rows: Any) -> ContextColumns:
        """The same of some rows only."""
        return ContextColumns(self.names, self.categories, self.values[rows]) if self else self

    def with_values(self, values: Numbers) -> ContextColumns:
        """The same columns of other ratings."""
        return replace(self, values=values) if self else self

    def column(self, name: str) -> list[Any]:
        """The values of a column as they were given; None where unknown."""
        place = self.names.index(name)
        categories, values = self.categories[place], self.values[:, place].tolist()
        known = [value != UNKNOWN for value in values]
        if categories is None:
            return [value if there else None for value, there in zip(values, known, strict=True)]
        return [
            categories[int(value)] if there else None
            for value, there in zip(values, known, strict=True)
        ]

    def with_more(self, other: ContextColumns, n_rows: int) -> tuple[ContextColumns, Numbers]:
        """These with the new categories of `other` too, and its values in them, (rows, C)."""
        said = {name: other.column(name) for name in other.names}
        kinds = []
        for name, categories in zip(self.names, self.categories, strict=True):
            given = (_text(value) for value in said.get(name, ()) if value is not None)
            new = set(given) - set(categories or ())
            kinds.append(None if categories is None else (*categories, *sorted(new)))
        grown = replace(self, categories=tuple(kinds))
        return grown, grown.encoded(said, n_rows)

    def encoded(self, said: Mapping[str, Any], n_rows: int) -> Numbers:
        """Values said by column, one for all rows or one for each, as (rows, C).

        A category that is not known here is like none that is.
        """
        strange = [name for name in said if name not in self.names]
        if strange:
            known = f"has {', '.join(map(shown, self.names))}" if self else "has learnt from none"
            raise SettingsError(f"context has no column {shown(strange[0])}: this model {known}")
        out = np.full((n_rows, len(self.names)), UNKNOWN)
        for place, (name, categories) in enumerate(zip(self.names, self.categories, strict=True)):
            if name not in said:
                continue
            given = said[name]
            alone = isinstance(given, str | bytes) or np.ndim(given) == 0
            column = _Distinct.of([given] if alone else given, name)
            if len(column.codes) not in (1, n_rows):
                raise SettingsError(
                    f"context {shown(name)} has {len(column.codes):,} values for {n_rows:,} "
                    "pairs: give one, or all"
                )
            if categories is None:
                found = column.numbers
                if found is None:
                    raise RatingsError(column.not_numbers())
            else:
                code = {category: number for number, category in enumerate(categories)}
                found = np.array([code.get(text, UNKNOWN) for text in column.texts], np.float64)
            found = np.where(column.absent, UNKNOWN, found)
            out[:, place] = found[column.codes]
        return out


NO_CONTEXT = ContextColumns((), (), np.empty((0, 0)))


def context_places(times: Numbers, columns: Numbers, n_rows: int) -> Numbers:
    """Times and other columns of context beside each other, (rows, 1 + C); UNKNOWN if not told."""
    out = np.full((n_rows, 1 + columns.shape[1]), UNKNOWN)
    if len(times):
        out[:, 0] = times
    if len(columns):
        out[:, 1:] = columns
    return out


def context_columns(table: Any, n_rows: int) -> ContextColumns:
    """The columns of a table {name: column}, or frame, of which each row is beside a rating."""
    columns = named_columns(table)
    names, kinds, values = [], [], []
    for name, given in columns.items():
        if not isinstance(name, str) or name in _ROLES:
            raise RatingsError(
                f"a context column is called {shown(name)}: give it a name of its own, a text "
                f"other than {', '.join(_ROLES)}"
            )
        column = _Distinct.of(given, name)
        if len(column.codes) != n_rows:
            raise RatingsError(
                f"lengths differ: {n_rows:,} ratings, {len(column.codes):,} values of context "
                f"{shown(name)}: give one for each"
            )
        found, categories = column.numbers, None
        if found is None:
            categories = tuple(sorted(set(column.texts[~column.absent].tolist())))
            found = np.searchsorted(np.array(categories, object), column.texts).astype(np.float64)
        names.append(name)
        kinds.append(categories)
        values.append(np.where(column.absent, UNKNOWN, found)[column.codes])
    if not names:
        return NO_CONTEXT
    return ContextColumns(tuple(names), tuple(kinds), np.stack(values, axis=1))


@dataclass(frozen=True, eq=False)
class _Distinct:
    """The distinct values of a column, and which of them each row has."""

    name: str
    values: Sequence[Any]
    codes: Codes
    absent: Mask  # of each value

    @classmethod
    def of(cls, given: Any, name: str) -> _Distinct:
        if isinstance(given, EncodedColumn):
            values, codes = list(given.distinct), given.codes
        else:
            column = plain_column(given, f"context {shown(name)}")
            place: dict[Any, int] = {}
            plain = column.tolist() if isinstance(column, np.ndarray) else column
            try:
                codes = np.array([place.setdefault((type(v), v), len(place)) for v in plain], int)
            except TypeError:
                raise RatingsError(
                    f"context {shown(name)} has values that are not plain: give numbers or texts"
                ) from None
            values = [value for _, value in place]
        absent = [not v.strip() if isinstance(v, str) else is_missing(v) for v in values]
        return cls(name, values, codes, np.array(absent, bool))

    @property
    def texts(self) -> Any:
        """Each value as text, (values,) objects."""
        return np.array([_text(value) for value in self.values], object)

    @property
    def numbers(self) -> Numbers | None:
        """Each value as a number, NaN where it is absent; None if they are not numbers."""
        numbers = np.array([_number(value) for value in self.values], np.float64)
        if (np.isnan(numbers) & ~self.absent).any():
            return None
        large = np.abs(numbers) > LARGEST_NUMBER
        if large.any():
            raise RatingsError(
                f"context {shown(self.name)} must be finite numbers below {LARGEST_NUMBER:g}: "
                f"{offending_rows(large[self.codes], **self._beside)}; correct these rows, or "
                "give None for what is not known"
            )
        return numbers

    def not_numbers(self) -> str:
        bad = np.isnan([_number(value) for value in self.values]) & ~self.absent
        return (
            f"context {shown(self.name)} is a number in this model: "
            f"{offending_rows(bad[self.codes], **self._beside)}; give numbers"
        )

    @property
    def _beside(self) -> dict[str, Any]:
        return {self.name: EncodedColumn(self.values, self.codes)}


def _text(value: Any) -> str:
    """A category as text; whole numbers without a point."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _number(value: Any) -> float:
    """The number that a value is; NaN for anything else, a truth value too."""
    if isinstance(value, bool):
        return math.nan
    if isinstance(value, str):
        return number_of(value)
    return float(value) if isinstance(value, Real) else math.nan
