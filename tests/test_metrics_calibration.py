"""Reliability against scikit-learn's calibration curve, by hand, and on calibrated draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from ordbm.data.scale import ContinuousScale, RatingScale
from ordbm.errors import OrdbmError
from ordbm.inference.distributions import LevelDistribution, NormalDistribution
from ordbm.metrics.calibration import (
    bin_sums,
    calibration_error,
    proba_at_least,
    reliability,
    thresholds,
)

seeds = st.integers(0, 2**32)


@given(seeds, st.integers(1, 20))
def test_the_curve_is_that_of_scikit_learn(seed, bins):
    random = np.random.default_rng(seed)
    probability = np.round(random.random(60), 2)  # some on the edges between bins
    happened = random.random(60) < probability**2
    happened[:2] = [False, True]  # scikit-learn wants both
    observed, predicted = calibration_curve(happened, probability, n_bins=bins)
    curve = reliability(probability, happened, bins=bins)
    np.testing.assert_allclose(curve.predicted, predicted)
    np.testing.assert_allclose(curve.observed, observed)
    assert curve.count.sum() == 60


def test_the_error_by_hand():
    """Bins of .2, .2 | .9, .9: one of two and two of two happen."""
    curve = reliability([0.2, 0.2, 0.9, 0.9], [0, 1, 1, 1], threshold=4)
    assert curve.label == "4"
    np.testing.assert_allclose(curve.predicted, [0.2, 0.9])
    np.testing.assert_allclose(curve.observed, [0.5, 1.0])
    assert curve.error == pytest.approx((2 * 0.3 + 2 * 0.1) / 4)
    right = reliability([1.0, 0.0], [True, False])
    assert right.error == 0
    assert calibration_error([curve, right]) == pytest.approx(curve.error / 2)
    assert calibration_error([]) == 0


def test_ratings_drawn_from_the_prediction_are_calibrated():
    random = np.random.default_rng(0)
    probability = random.random(100_000)
    happened = random.random(100_000) < probability
    assert reliability(probability, happened).error < 0.01
    assert reliability(np.sqrt(probability), happened).error > 0.1


def test_probabilities_of_levels_at_or_above_each_threshold():
    scale = RatingScale(["poor", "fair", "good"])
    values, labels = thresholds(scale)
    assert values.tolist() == [2, 3]
    assert labels == ["fair", "good"]
    found = proba_at_least(LevelDistribution(scale, np.array([[0.2, 0.3, 0.5]])))
    np.testing.assert_allclose(found, [[0.8, 0.5]])
    assert proba_at_least(LevelDistribution(RatingScale([1]), np.ones((2, 1)))).shape == (2, 0)


def test_probabilities_of_normals_at_or_above_each_threshold():
    scale = ContinuousScale(10.0, 2.0)
    values, _ = thresholds(scale)
    assert values[2] == pytest.approx(10)
    found = proba_at_least(NormalDistribution(scale, np.array([10.0]), np.array([2.0])))
    np.testing.assert_allclose(found, [[0.9, 0.75, 0.5, 0.25, 0.1]])


@given(seeds)
def test_sums_of_parts_add_up(seed):
    random = np.random.default_rng(seed)
    probability = random.random((30, 3))
    happened = random.random((30, 3)) < 0.5
    parts = bin_sums(probability[:11], happened[:11]) + bin_sums(probability[11:], happened[11:])
    np.testing.assert_allclose(parts, bin_sums(probability, happened))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: reliability([0.5, 1.2], [0, 1]), "between 0 and 1: row 1"),
        (lambda: reliability([0.5, -0.1], [0, 1]), "between 0 and 1: row 1"),
        (lambda: reliability([0.5, np.nan], [0, 1]), "finite numbers: row 1"),
        (lambda: reliability([0.5], [2]), "outcomes must be 0 or 1.*row 0"),
        (lambda: reliability([0.5], [0, 1]), "1 probabilities, 2 outcomes"),
        (lambda: reliability([], []), "no probabilities"),
        (lambda: reliability([0.5], [1], bins=0), "bins=0"),
    ],
)
def test_what_has_no_curve_is_an_error(ask, message):
    with pytest.raises(OrdbmError, match=message):
        ask()
