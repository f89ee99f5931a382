"""Scores of predicted ratings and distributions against the ratings that were given.

Smaller is better throughout. Plurals give one value per rating, the short names their mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ordbm.data.numeric_columns import finite_numbers
from ordbm.data.ratings import Ratings
from ordbm.inference.distributions import LevelDistribution, RatingDistribution
from ordbm.metrics.array_checks import (
    check_same_length,
    level_codes,
    positive_column,
    probability_table,
)
from ordbm.runtime.arrays import Numbers

_LEAST_PROBABILITY = 1e-300  # a level ruled out costs 690, not infinity


def mae(predicted: Any, truth: Any) -> float:
    """Mean absolute error of predicted ratings, in the ratings' unit."""
    return float(np.abs(_errors(predicted, truth)).mean())


def rmse(predicted: Any, truth: Any) -> float:
    """Root of the mean squared error of predicted ratings, in the ratings' unit."""
    return float(np.sqrt(np.mean(_errors(predicted, truth) ** 2)))


def log_losses(proba: Any, levels: Any) -> Numbers:
    """-log P(level) of each rating; `proba` (N, n), `levels` (N,) counted from zero."""
    table, codes = _table_and_levels(proba, levels)
    return -np.log(np.maximum(table[np.arange(len(codes)), codes], _LEAST_PROBABILITY))


def log_loss(proba: Any, levels: Any) -> float:
    """The mean of -log P(level): see `log_losses`."""
    return float(log_losses(proba, levels).mean())


def ranked_probability_scores(proba: Any, levels: Any) -> Numbers:
    """Σ_t (P(level ≤ t) − [level ≤ t])² of each rating, over the n − 1 inner thresholds.

    Not divided by n − 1: a prediction that puts all on one level scores its distance in levels, so
    the mean compares with an absolute error where levels are one apart.
    """
    table, codes = _table_and_levels(proba, levels)
    below = np.cumsum(table, axis=1)[:, :-1]
    below -= codes[:, None] <= np.arange(table.shape[1] - 1)
    return np.einsum("ij,ij->i", below, below)


def rps(proba: Any, levels: Any) -> float:
    """The mean ranked probability score: see `ranked_probability_scores`."""
    return float(ranked_probability_scores(proba, levels).mean())


def normal_crps(centre: Any, spread: Any, truth: Any) -> Numbers:
    """∫ (P(rating ≤ x) − [truth ≤ x])² dx of each normal prediction, in the ratings' unit.

    = σ (z (2Φ(z) − 1) + 2φ(z) − 1/√π), z = (truth − μ) / σ (Gneiting and Raftery, 2007): the ranked
    probability score of a continuous scale.
    """
    mean, deviation = finite_numbers(centre, "means"), positive_column(spread, "deviations")
    values = finite_numbers(truth)
    check_same_length(means=mean, deviations=deviation, ratings=values)
    z = (values - mean) / deviation
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return deviation * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))


def losses(predicted: RatingDistribution, truth: Numbers) -> dict[str, Numbers]:
    """Every loss of each rating: |error| of mean, median and mode, error², log-loss and RPS.

    `truth` are numbers on the prediction's scale. On a continuous scale the log-loss is of the
    density, and the CRPS takes the place of the RPS.
    """
    error = predicted.mean() - truth
    if isinstance(predicted, LevelDistribution):
        levels = predicted.scale.nearest(truth)
        surprise = log_losses(predicted.proba, levels)
        ranked = ranked_probability_scores(predicted.proba, levels)
    else:
        surprise = -predicted.log_probability(truth)
        ranked = normal_crps(predicted.centre, predicted.spread, truth)
    return {
        "mae_mean": np.abs(error),
        "mae_median": np.abs(predicted.median() - truth),
        "mae_mode": np.abs(predicted.mode() - truth),
        "rmse": error**2,
        "log_loss": surprise,
        "rps": ranked,
    }


def validation_scores(predicted: RatingDistribution, ratings: Ratings) -> dict[str, float]:
    """Mean log-loss, RMSE of the mean, MAE of the median: smaller is better."""
    truth = ratings.values.astype(np.float64)
    if isinstance(predicted, LevelDistribution):
        log_probability = predicted.log_probability(ratings.levels)
    else:
        log_probability = predicted.log_probability(truth)
    return {
        "log_loss": float(-log_probability.mean()),
        "rmse": float(np.sqrt(np.mean((predicted.mean() - truth) ** 2))),
        "mae": float(np.abs(predicted.median() - truth).mean()),
    }


def _errors(predicted: Any, truth: Any) -> Numbers:
    found, values = finite_numbers(predicted, "predictions"), finite_numbers(truth)
    check_same_length(predictions=found, ratings=values)
    return found - values


def _table_and_levels(proba: Any, levels: Any) -> tuple[Numbers, NDArray[np.int64]]:
    table = probability_table(proba)
    codes = level_codes(levels, table.shape[1])
    check_same_length(probabilities=table, levels=codes)
    return table, codes
