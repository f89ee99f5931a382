"""Scores of predictions, against the same figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ordbm.inference.distribution import LevelDistribution, NormalDistribution
from ordbm.metrics.ratings import scores
from ordbm.ratings import Ratings


def test_scores_of_levels() -> None:
    """MAE by the median, RMSE by the mean, log-loss of the level that was given."""
    ratings = Ratings(["a", "a", "b"], ["x", "y", "x"], [1, 3, 5], scale=[1, 3, 5])
    proba = np.array([[0.6, 0.3, 0.1], [0.3, 0.3, 0.4], [0.1, 0.2, 0.7]])
    found = scores(LevelDistribution(ratings.scale, proba), ratings)
    assert found["mae"] == pytest.approx(0)  # medians 1, 3, 5
    assert found["rmse"] == pytest.approx(np.sqrt((1.0**2 + 0.2**2 + 0.8**2) / 3))
    assert found["log_loss"] == pytest.approx(-np.log([0.6, 0.3, 0.7]).mean())
    worse = scores(LevelDistribution(ratings.scale, proba[::-1]), ratings)
    assert worse["mae"] == pytest.approx((4 + 0 + 4) / 3)


def test_scores_of_normals() -> None:
    ratings = Ratings(["a", "b"], ["x", "x"], [1.0, 2.0], scale="continuous")
    found = scores(
        NormalDistribution(ratings.scale, np.array([1.0, 4.0]), np.array([1.0, 2.0])), ratings
    )
    assert found["mae"] == pytest.approx(1)
    assert found["rmse"] == pytest.approx(np.sqrt(2))
    density = [np.exp(-0.5 * 0) / np.sqrt(2 * np.pi), np.exp(-0.5) / np.sqrt(8 * np.pi)]
    assert found["log_loss"] == pytest.approx(-np.log(density).mean())
