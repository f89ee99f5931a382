"""The distribution of a rating around a point prediction, learnt from left-out ratings.

On levels with numbers v_s, P(s | m) ∝ e^{b_s + t v_s}, where t is chosen such that the mean is m,
the point prediction. With b_s = −v_s² / 2σ² this is a normal distribution restricted to the levels;
b is learnt, for people give some levels (whole stars) more often than their neighbours (half
stars). On a continuous scale it is a normal distribution around m.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from ordbm.data.ratings import Ratings
from ordbm.data.scale import RatingScale, Scale
from ordbm.inference.distributions import LevelDistribution, NormalDistribution, RatingDistribution
from ordbm.runtime.arrays import Numbers

N_MEANS = 101
MARGIN = 0.01  # of the scale's width: how near a predicted mean may come to either end
PRIOR_RATINGS = 5.0  # that left-out residuals are joined by, of a quarter of the scale each
PRIOR_PRECISION = 1.0  # of b around the normal shape
NARROWEST = 0.2  # deviation, in average steps of the scale
MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class Spread:
    """Turns point predictions into distributions.

    `table` (means, levels) has the distributions whose means are evenly spaced from `low` to
    `high`; those between are mixtures of the two nearest, so that their means are exact.
    """

    scale: Scale
    deviation: float
    low: float
    high: float
    table: Numbers

    def around(self, points: Numbers) -> RatingDistribution:
        """The distributions with these means; on levels, clipped to `low` and `high`."""
        if not isinstance(self.scale, RatingScale):
            return NormalDistribution(self.scale, points, np.full(len(points), self.deviation))
        if len(self.table) == 1:
            return LevelDistribution(self.scale, np.repeat(self.table, len(points), axis=0))
        place = self._place(points)
        below = np.minimum(place.astype(np.int64), len(self.table) - 2)
        part = (place - below)[:, None]
        return LevelDistribution(
            self.scale, (1 - part) * self.table[below] + part * self.table[below + 1]
        )

    def _place(self, points: Numbers) -> Numbers:
        """Where on the table's rows each point is, 0 to its last row."""
        inside = np.clip(points, self.low, self.high)
        return (inside - self.low) / (self.high - self.low) * (len(self.table) - 1)


def learnt_spread(scale: Scale, points: Numbers, left_out: Ratings | None) -> Spread:
    """The spread of left-out ratings around their point predictions; a wide one without any."""
    error = points - left_out.values if left_out is not None else np.zeros(0)
    if not isinstance(scale, RatingScale):
        return Spread(scale, _deviation(error, scale.deviation), 0.0, 0.0, np.zeros((0, 0)))
    values = scale.values
    width = float(values[-1] - values[0])
    if len(values) == 1:
        return Spread(scale, 0.0, float(values[0]), float(values[0]), np.ones((1, 1)))
    low, high = float(values[0] + MARGIN * width), float(values[-1] - MARGIN * width)
    step = width / (len(values) - 1)
    deviation = max(_deviation(error, width / 4), NARROWEST * step)
    means = np.linspace(low, high, N_MEANS)
    start = -0.5 * ((values - values.mean()) / deviation) ** 2 + np.log(np.gradient(values))
    spread = Spread(scale, deviation, low, high, tilted_proba(start, values, means)[0])
    if left_out is None:
        return spread
    # Each left-out rating counts for the two nearest means.
    place = spread._place(points)
    below = np.minimum(place.astype(np.int64), N_MEANS - 2)
    part = place - below
    cell, shape = below * len(values) + left_out.levels, (N_MEANS, len(values))
    count = np.bincount(cell, 1 - part, N_MEANS * len(values))
    count += np.bincount(cell + len(values), part, N_MEANS * len(values))
    fit = minimize(
        shape_loss,
        start,
        args=(values, means, count.reshape(shape), start),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MOST_STEPS},
    )
    return Spread(scale, deviation, low, high, tilted_proba(fit.x, values, means)[0])


def shape_loss(
    b: Numbers, values: Numbers, means: Numbers, count: Numbers, prior: Numbers
) -> tuple[float, Numbers]:
    """−Σ count · log P(s | m) + ½ ‖b − prior‖², and its gradient in b.

    dt/db_s = −P(s) (v_s − m) / variance, because the mean stays m.
    """
    proba, log_proba = tilted_proba(b, values, means)
    centred = values - means[:, None]
    variance = (proba * centred**2).sum(axis=1)
    pull = (count * centred).sum(axis=1) / variance
    expected = proba * (count.sum(axis=1) + pull * centred.T).T
    loss = -(count * log_proba).sum() + 0.5 * PRIOR_PRECISION * ((b - prior) ** 2).sum()
    gradient = (expected - count).sum(axis=0) + PRIOR_PRECISION * (b - prior)
    return float(loss), gradient


def tilted_proba(b: Numbers, values: Numbers, means: Numbers) -> tuple[Numbers, Numbers]:
    """P(s | m) ∝ e^{b_s + t v_s} with each of these means, and its logarithm: (means, levels).

    t is found by Newton's method inside a bracket that shrinks with every step.
    """
    centred = (values - values.mean()) / (values[-1] - values[0])
    target = (means - values.mean()) / (values[-1] - values[0])
    t = np.zeros(len(means))
    # Even the steepest rise of b cannot hold the mean away from an end with t this large.
    reach = (np.ptp(b) + 50.0) / np.diff(centred).min()
    lower, upper = np.full(len(means), -reach), np.full(len(means), reach)
    while True:
        score = b + t[:, None] * centred
        score -= score.max(axis=1, keepdims=True)
        log_proba = score - np.log(np.exp(score).sum(axis=1, keepdims=True))
        proba = np.exp(log_proba)
        mean = proba @ centred
        gap = target - mean
        if np.abs(gap).max() < 1e-13 or (upper - lower).max() < 1e-13 * reach:
            return proba, log_proba
        lower, upper = np.where(gap > 0, t, lower), np.where(gap < 0, t, upper)
        variance = (proba * (centred - mean[:, None]) ** 2).sum(axis=1)
        step = t + gap / np.maximum(variance, 1e-300)
        t = np.where((step > lower) & (step < upper), step, (lower + upper) / 2)


def _deviation(error: Numbers, prior: float) -> float:
    """The root mean square of errors, with a few prior ones added so that it is never zero."""
    return float(
        np.sqrt((np.sum(error**2) + PRIOR_RATINGS * prior**2) / (len(error) + PRIOR_RATINGS))
    )
