"""The scorer of the accuracy benchmark: the only place where test ratings are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

LEAST = 1e-12  # probability counted for a level that a model holds impossible


def scores(prediction: np.ndarray, answers: Path) -> dict[str, float | None]:
    """MAE, RMSE and, for probabilities (pairs, levels), log-loss.

    MAE is of the median level, or of the level nearest to a predicted number; RMSE is of the mean,
    within the scale.
    """
    with np.load(answers) as stored:
        level, values = stored["level"], stored["values"]
    rating = values[level]
    if prediction.ndim == 2:
        if prediction.shape[1] != len(values) or np.abs(prediction.sum(axis=1) - 1).max() > 1e-3:
            raise ValueError("need one probability per level, and rows that sum to one")
        mean = prediction @ values
        median = values[(np.cumsum(prediction, axis=1)[:, :-1] < 0.5).sum(axis=1)]
        likelihood = prediction[np.arange(len(level)), level]
        log_loss = float(-np.log(np.maximum(likelihood, LEAST)).mean())
    else:
        mean, log_loss = prediction, None
        between = (values[1:] + values[:-1]) / 2
        median = values[np.searchsorted(between, mean)]
    return {
        "mae": float(np.abs(median - rating).mean()),
        "rmse": float(np.sqrt(((np.clip(mean, values[0], values[-1]) - rating) ** 2).mean())),
        "log_loss": log_loss,
    }
