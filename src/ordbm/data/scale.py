"""The scale a rating lives on: ordered levels, or the real line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import Column, plain_column
from ordbm.data.numeric_columns import check_not_tiny, finite_numbers
from ordbm.errors import RatingsError, offending_rows
from ordbm.runtime.arrays import Numbers
from ordbm.runtime.printable import printable, shown

_MOST_INFERRED_LEVELS = 100
MOST_LEVELS = 255  # a level is a uint8, and one code is left for "absent"
_TINY = 1e-290  # levels no further apart have no middle
_DIFFERENT = 1e-6  # numbers further apart than this, also relative to their size, are never one
_SAME = 1e-12  # relative: numbers no further apart are one, as 0.1 + 0.2 and 0.3
_ROUNDING = 1e-6  # relative: ratings stored as float32 still find their level

Levels = NDArray[np.uint8]


@dataclass(frozen=True)
class ContinuousScale:
    """Ratings are real numbers, with this mean and standard deviation."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Any) -> ContinuousScale:
        """The mean and deviation found in `values`; a deviation of zero becomes one."""
        numbers = finite_numbers(values)
        check_not_tiny(numbers)
        return cls(float(numbers.mean()), float(numbers.std()) or 1.0)

    @classmethod
    def of_many(cls, parts: Sequence[Numbers]) -> ContinuousScale:
        """The same of finite numbers in parts, none of which need fit in memory beside another."""
        if len(parts) == 1:
            return cls.of(parts[0])
        check_not_tiny(np.array([np.abs(part).max() for part in parts]))
        n = sum(map(len, parts))
        mean = sum(float(part.sum()) for part in parts) / n
        variance = sum(float(np.sum((part - mean) ** 2)) for part in parts) / n
        return cls(mean, variance**0.5 or 1.0)

    @property
    def is_continuous(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"continuous, mean {self.mean:.4g}, deviation {self.deviation:.4g}"


class RatingScale:
    """Ordered levels 0..n-1, each with a number (`values`) and perhaps a label (`labels`).

    `RatingScale([0.5, 1, 2, 5])` takes numbers, in any order and with any gaps;
    `RatingScale(["poor", "fair", "good"])` takes labels from lowest to highest, numbered 1..n.
    """

    values: Numbers
    labels: tuple[str, ...] | None
    edges: Numbers | None

    def __init__(self, levels: Iterable[float] | Iterable[str]) -> None:
        given = list(plain_column(levels, "levels"))
        if given and all(isinstance(level, str) for level in given):
            self._set(np.arange(1.0, len(given) + 1), labels=tuple(str(level) for level in given))
        else:
            self._set(np.sort(finite_numbers(given, "levels")))

    @classmethod
    def infer(cls, values: Any) -> RatingScale | ContinuousScale:
        """The levels found in `values`, gaps in a regular grid filled; continuous if over 100."""
        numbers = finite_numbers(values)
        if _is_boolean(values):
            return cls([0, 1])
        found = _distinct(numbers)
        if len(found) > _MOST_INFERRED_LEVELS:
            return ContinuousScale.of(numbers)
        grid = _regular_grid(found)
        return cls(found if grid is None or len(grid) > _MOST_INFERRED_LEVELS else grid)

    @classmethod
    def bins(cls, edges: Iterable[float]) -> RatingScale:
        """Continuous ratings gathered in bins [edges[b], edges[b + 1]), the last one closed.

        The number of a level is the middle of its bin.
        """
        found = finite_numbers(edges, "edges")
        if len(found) < 2 or not np.all(np.diff(found) > 0):
            raise RatingsError("bin edges must be at least two and strictly increasing")
        scale = cls.__new__(cls)
        scale._set((found[:-1] + found[1:]) / 2, edges=found)
        return scale

    def _set(
        self, values: Numbers, labels: tuple[str, ...] | None = None, edges: Numbers | None = None
    ) -> None:
        if not 1 <= len(values) <= MOST_LEVELS:
            raise RatingsError(
                f"a scale has 1 to {MOST_LEVELS} levels, got {len(values)}; for more, use "
                "RatingScale.bins(edges) or a continuous scale"
            )
        repeated = len(set(labels)) < len(labels) if labels else np.any(np.diff(values) <= _TINY)
        if repeated:
            raise RatingsError(
                f"the levels of a scale must be distinct, got {_abbreviated(labels or values)}; "
                "leave out those that repeat"
            )
        values.flags.writeable = False
        self.values, self.labels, self.edges = values, labels, edges

    @property
    def is_continuous(self) -> bool:
        return False

    @property
    def n_levels(self) -> int:
        return len(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RatingScale)
            and np.array_equal(self.values, other.values)
            and self.labels == other.labels
            and _same(self.edges, other.edges)
        )

    def __hash__(self) -> int:
        return hash((self.values.tobytes(), self.labels))

    def __str__(self) -> str:
        if self.labels:
            return f"{len(self)} levels: {' < '.join(map(printable, self.labels))}"
        if self.edges is not None:
            return f"{len(self)} bins with edges {_abbreviated(self.edges)}"
        return f"{len(self)} level{'s' * (len(self) > 1)}: {_abbreviated(self.values)}"

    def __repr__(self) -> str:
        if self.edges is not None:
            return f"RatingScale.bins([{_abbreviated(self.edges, len(self.edges))}])"
        levels = map(repr, self.labels) if self.labels else self.values
        return f"RatingScale([{_abbreviated(levels, len(self))}])"

    def codes(self, values: Any, **beside: Any) -> Levels:
        """The level of each rating, as uint8; a rating off the scale is an error naming its row.

        `beside` are further columns (`user=...`, `item=...`) to show in that message.
        """
        column = plain_column(values, "ratings")
        codes = self._found(column, beside)
        if len(codes) and codes.min() < 0:
            rows = offending_rows(codes < 0, **beside, rating=column)
            raise RatingsError(
                f"ratings off the scale ({self}): {rows}; correct or drop these ratings, or give "
                "a scale that has them (scale=[...])"
            )
        return codes.astype(np.uint8)

    def nearest(self, numbers: Numbers) -> Levels:
        """The level whose number is nearest to each of `numbers`; from halfway on, the higher."""
        middles = (self.values[:-1] + self.values[1:]) / 2
        slack = min(1e-9 * _magnitude(self.values), _ROUNDING * self._closest)
        return np.searchsorted(middles, numbers + slack, side="right").astype(np.uint8)

    def _found(self, column: Column, beside: dict[str, Any]) -> NDArray[np.int16]:
        """The level of each rating, -1 for those off the scale."""
        if self.labels is not None:
            return self._found_labels(column)
        numbers = finite_numbers(column, "ratings", **beside)
        if self.edges is not None:
            bin_of = np.searchsorted(self.edges[1:-1], numbers, side="right")
            inside = (numbers >= self.edges[0]) & (numbers <= self.edges[-1])
            return np.where(inside, bin_of, -1).astype(np.int16)
        place = self.nearest(numbers)
        inside = np.abs(self.values[place] - numbers) <= self._tolerance
        return np.where(inside, place, np.int16(-1))

    def _found_labels(self, column: Column) -> NDArray[np.int16]:
        assert self.labels is not None
        level_of = {label: level for level, label in enumerate(self.labels)}
        labels = column if isinstance(column, list) else column.tolist()
        return np.fromiter(
            (level_of.get(label, -1) if isinstance(label, str) else -1 for label in labels),
            np.int16,
            len(labels),
        )

    @property
    def _tolerance(self) -> float:
        return min(_ROUNDING * _magnitude(self.values), self._closest / 4)

    @property
    def _closest(self) -> float:
        """The distance of the two closest levels."""
        return float(np.diff(self.values).min(initial=np.inf))


Scale = RatingScale | ContinuousScale
ScaleLike = Scale | Literal["continuous"] | Iterable[float] | Iterable[str] | None


def given_scale(scale: ScaleLike) -> Scale | None:
    """The scale that was given; None if the ratings tell it: `None`, and `"continuous"`."""
    if scale is None or isinstance(scale, RatingScale | ContinuousScale):
        return scale
    if isinstance(scale, str):
        if scale != "continuous":
            raise RatingsError(f"scale must be levels or 'continuous', not {shown(scale)}")
        return None
    if not isinstance(scale, Iterable):
        raise RatingsError(
            f"scale={shown(scale)}: need all levels from lowest to highest, as in "
            "scale=[1, 2, 3, 4, 5], or 'continuous'"
        )
    return RatingScale(scale)


def scale_for(ratings: Column, scale: ScaleLike, **beside: Any) -> Scale:
    """The scale that was given, or the one found in the ratings.

    `beside` are further columns (`user=...`, `item=...`) to show where a rating is wrong.
    """
    given = given_scale(scale)
    if given is not None:
        return given
    numbers = finite_numbers(ratings, **beside)
    return ContinuousScale.of(numbers) if scale == "continuous" else RatingScale.infer(ratings)


def levels_and_values(ratings: Column, scale: Scale, **beside: Any) -> tuple[Levels, NDArray[Any]]:
    """The level and the value of each rating, as a `CSR` has them: values on a continuous scale."""
    if isinstance(scale, RatingScale):
        return scale.codes(ratings, **beside), np.empty(0, np.float32)
    value = finite_numbers(ratings, **beside)
    return np.zeros(len(value), np.uint8), value


def scale_from_text(text: str) -> ScaleLike:
    """A scale in one line: `1,2,3,4,5`, `poor,fair,good`, `bins:0,2.5,5` or `continuous`."""
    if text == "continuous":
        return "continuous"
    binned = text.startswith("bins:")
    levels = [level.strip() for level in text.removeprefix("bins:").split(",")]
    try:
        numbers = [float(level) for level in levels]
    except ValueError:
        if binned:
            raise RatingsError(f"scale {text}: the edges of bins must be numbers") from None
        return levels
    return RatingScale.bins(numbers) if binned else numbers


def _abbreviated(values: Iterable[Any], limit: int = 12) -> str:
    """`1, 2, 3, ..., 100`: values in words, the middle left out when there are many."""
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    if len(texts) > limit:
        texts = [*texts[: limit - 1], "...", texts[-1]]
    return ", ".join(texts)


def _is_boolean(values: Any) -> bool:
    column = plain_column(values)
    if isinstance(column, np.ndarray) and column.dtype != object:
        return column.dtype == bool
    return all(isinstance(value, (bool, np.bool_)) for value in column)


def _distinct(numbers: Numbers) -> Numbers:
    """The distinct numbers in increasing order, those apart by rounding alone taken as one."""
    found = np.unique(numbers)
    apart = np.diff(found, prepend=-np.inf) > _SAME * _magnitude(found)
    merged = np.flatnonzero(~apart)
    gap = found[merged] - found[merged - 1]
    lost = merged[(gap > _DIFFERENT) & (gap > _DIFFERENT * np.abs(found[merged]))]
    if len(lost):
        few = _abbreviated([float(found[lost[0] - 1]), float(found[lost[0]])])
        raise RatingsError(
            f"ratings {few} cannot be told apart beside one of {_magnitude(found):g}: correct or "
            "drop what is too large, or give the scale (scale=[...])"
        )
    distinct: Numbers = found[apart]
    return distinct


def _regular_grid(found: Numbers) -> Numbers | None:
    """The evenly spaced numbers that `found` is more than half of, or None."""
    if len(found) < 3:
        return None
    step = float(np.diff(found).min())
    steps = (found - found[0]) / step
    n_points = round(float(steps[-1])) + 1
    off_grid = np.abs(steps - np.round(steps)).max() > _ROUNDING * n_points
    if off_grid or len(found) <= n_points / 2:
        return None
    grid: Numbers = found[0] + np.arange(n_points) * (found[-1] - found[0]) / (n_points - 1)
    grid[np.round(steps).astype(int)] = found
    return grid


def _magnitude(values: Numbers) -> float:
    return float(np.abs(values).max()) or 1.0


def _same(left: Numbers | None, right: Numbers | None) -> bool:
    if left is None or right is None:
        return left is right
    return np.array_equal(left, right)


def level_values(scale: Scale) -> Numbers | None:
    """The number of each level; None on a continuous scale."""
    return scale.values if isinstance(scale, RatingScale) else None
