"""Values that stand where there is no rating: `missing=0`, `missing=["NA", -1]`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import Column
from ordbm.data.ids import is_missing
from ordbm.data.numeric_columns import number_of
from ordbm.errors import SettingsError
from ordbm.runtime.arrays import Mask
from ordbm.runtime.checks import float_of
from ordbm.runtime.printable import shown


@dataclass(frozen=True)
class NotRated:
    """Numbers and texts that mean "not rated"; NaN stands for None, NaN and the empty text."""

    numbers: frozenset[float] = frozenset()
    texts: frozenset[str] = frozenset()
    nothing: bool = False

    @classmethod
    def of(cls, missing: Any) -> NotRated:
        """`missing` as callers give it: None for nothing, a value, or several in a list."""
        if missing is None:
            return cls()
        alone = isinstance(missing, str | Real) or not isinstance(missing, Iterable)
        values = [missing] if alone else list(missing)
        wrong = [value for value in values if not isinstance(value, str | Real)]
        if wrong:
            raise SettingsError(
                f"missing={shown(wrong[0])}: give a number or a text that means 'not rated', as in "
                "missing=0, or several in a list"
            )
        numbers = [float_of(+value) for value in values if not isinstance(value, str)]  # +True is 1
        return cls(
            frozenset(number for number in numbers if not math.isnan(number)),
            frozenset(value.strip() for value in values if isinstance(value, str)),
            any(map(math.isnan, numbers)),
        )

    def __bool__(self) -> bool:
        return bool(self.numbers or self.texts or self.nothing)

    def has_text(self, text: str) -> bool:
        """Whether a field of a file means that there is no rating."""
        plain = text.strip()
        if not plain:
            return self.nothing or plain in self.texts
        return plain in self.texts or (bool(self.numbers) and number_of(plain) in self.numbers)

    def mask(self, column: Column) -> Mask:
        """Which values mean that there is no rating, (rows,)."""
        if not self:
            return np.zeros(len(column), bool)
        if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
            found: NDArray[Any] = np.isin(column.astype(np.float64), list(self.numbers))
            if self.nothing and column.dtype.kind == "f":
                found |= np.isnan(column)
            return found
        return np.fromiter(map(self._has, column), bool, len(column))

    def _has(self, value: Any) -> bool:
        if isinstance(value, str):
            return self.has_text(value)
        if isinstance(value, Real):
            number = float(value)
            return self.nothing if math.isnan(number) else number in self.numbers
        return self.nothing and is_missing(value)
