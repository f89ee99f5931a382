"""Whether probabilities mean what they say: of what is given 70 %, do 70 % come true?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ordbm.data.numeric_columns import finite_numbers
from ordbm.data.scale import RatingScale, Scale
from ordbm.errors import RatingsError, offending_rows
from ordbm.inference.distributions import LevelDistribution, RatingDistribution
from ordbm.metrics.array_checks import check_same_length, probability_column
from ordbm.runtime.arrays import Numbers
from ordbm.runtime.checks import check_count

BINS = 10
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)  # of a continuous scale, taken as normal: its thresholds


@dataclass(frozen=True, eq=False)
class Reliability:
    """The reliability curve of P(rating ≥ threshold): one value per bin that has predictions."""

    threshold: float  # the number on the scale
    label: str  # the threshold in words: "4", or the level's label
    predicted: Numbers  # mean predicted probability in the bin
    observed: Numbers  # share of its ratings at or above the threshold
    count: NDArray[np.int64]  # ratings in the bin

    @property
    def error(self) -> float:
        """Expected calibration error: mean over ratings of |predicted − observed| of their bin."""
        return float(np.abs(self.predicted - self.observed) @ self.count / self.count.sum())

    def to_dict(self) -> dict[str, Any]:
        return {
            "threshold": self.threshold,
            "label": self.label,
            "error": self.error,
            "predicted": self.predicted.tolist(),
            "observed": self.observed.tolist(),
            "count": self.count.tolist(),
        }


def calibration_error(curves: list[Reliability]) -> float:
    """The mean over thresholds of their calibration errors; zero where there is none."""
    return float(np.mean([curve.error for curve in curves])) if curves else 0.0


def reliability(
    probability: Any, happened: Any, threshold: float = 1.0, label: str = "", bins: int = BINS
) -> Reliability:
    """The curve of one event: its predicted probabilities (N,) and whether it happened (N,).

    Bins are of equal width, and those without predictions are left out.
    """
    check_count("bins", bins, least=1)
    predicted, observed = probability_column(probability), finite_numbers(happened, "outcomes")
    check_same_length(probabilities=predicted, outcomes=observed)
    bad = (observed != 0) & (observed != 1)
    if bad.any():
        where = offending_rows(bad, outcome=observed)
        raise RatingsError(f"outcomes must be 0 or 1, false or true: {where}")
    sums = bin_sums(predicted[:, None], observed[:, None], bins)[0]
    return curve_of(sums, threshold, label or f"{threshold:.15g}")


def bin_sums(probability: Numbers, happened: NDArray[Any], bins: int = BINS) -> Numbers:
    """(events, 3, bins): count, summed probability and outcomes, of arrays (N, events).

    Sums of parts of the ratings add up to those of the whole.
    """
    inner = np.linspace(0.0, 1.0, bins + 1)[1:-1]
    sums = np.zeros((probability.shape[1], 3, bins))
    for event, found in enumerate(sums):
        column = probability[:, event]
        place = np.searchsorted(inner, column)
        for row, weight in enumerate((None, column, happened[:, event])):
            found[row] = np.bincount(place, weight, bins)
    return sums


def curve_of(sums: Numbers, threshold: float, label: str) -> Reliability:
    """The curve of an event from its `bin_sums`, (3, bins)."""
    count, predicted, observed = sums[:, sums[0] > 0]
    return Reliability(
        threshold, label, predicted / count, observed / count, count.astype(np.int64)
    )


def thresholds(scale: Scale) -> tuple[Numbers, list[str]]:
    """The numbers t of the events "rating ≥ t", and their names.

    Every level but the lowest; on a continuous scale its quantiles at QUANTILES.
    """
    if isinstance(scale, RatingScale):
        values = scale.values[1:]
        return values, list((scale.labels or [f"{value:.15g}" for value in scale.values])[1:])
    values = scale.mean + scale.deviation * ndtri(np.array(QUANTILES))
    return values, [f"{value:.4g}" for value in values]


def proba_at_least(predicted: RatingDistribution) -> Numbers:
    """P(rating ≥ t) of each pair for the `thresholds` of its scale, (pairs, thresholds)."""
    if isinstance(predicted, LevelDistribution):
        return np.cumsum(predicted.proba[:, :0:-1], axis=1)[:, ::-1]
    above = predicted.centre[:, None] - thresholds(predicted.scale)[0]
    return ndtr(above / predicted.spread[:, None])
