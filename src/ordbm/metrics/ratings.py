"""Scores of predicted distributions against ratings."""

from __future__ import annotations

import numpy as np

from ordbm.inference.distribution import LevelDistribution, RatingDistribution
from ordbm.ratings import Ratings


def scores(predicted: RatingDistribution, ratings: Ratings) -> dict[str, float]:
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
