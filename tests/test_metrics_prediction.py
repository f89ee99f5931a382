"""Scores of predictions, against the same figures worked out by hand and by other libraries."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from ordbm.data.ratings import Ratings
from ordbm.data.scale import ContinuousScale, RatingScale
from ordbm.errors import OrdbmError, RatingsError
from ordbm.inference.distributions import LevelDistribution, NormalDistribution
from ordbm.metrics.array_checks import check_prediction
from ordbm.metrics.prediction import (
    log_loss,
    log_losses,
    losses,
    mae,
    normal_crps,
    ranked_probability_scores,
    rmse,
    rps,
    validation_scores,
)

seeds = st.integers(0, 2**32)


def scoringrules():
    """The library, which takes seconds to import: not in every process that collects tests."""
    return import_module("scoringrules")


def random_table(seed, n_rows=40, n_levels=5):
    random = np.random.default_rng(seed)
    proba = random.dirichlet(np.full(n_levels, 0.5), n_rows)
    return proba, random.integers(n_levels, size=n_rows)


def test_scores_of_levels() -> None:
    """MAE by the median, RMSE by the mean, log-loss of the level that was given."""
    ratings = Ratings(["a", "a", "b"], ["x", "y", "x"], [1, 3, 5], scale=[1, 3, 5])
    proba = np.array([[0.6, 0.3, 0.1], [0.3, 0.3, 0.4], [0.1, 0.2, 0.7]])
    found = validation_scores(LevelDistribution(ratings.scale, proba), ratings)
    assert found["mae"] == pytest.approx(0)  # medians 1, 3, 5
    assert found["rmse"] == pytest.approx(np.sqrt((1.0**2 + 0.2**2 + 0.8**2) / 3))
    assert found["log_loss"] == pytest.approx(-np.log([0.6, 0.3, 0.7]).mean())
    worse = validation_scores(LevelDistribution(ratings.scale, proba[::-1]), ratings)
    assert worse["mae"] == pytest.approx((4 + 0 + 4) / 3)


def test_the_median_has_at_least_half_at_or_below_it() -> None:
    proba = [[0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0.25, 0.125, 0.625], [0, 0.5, 0.5], [0, 0, 1]]
    found = LevelDistribution(RatingScale([1, 2, 4]), np.array(proba))
    assert found.median().tolist() == [1, 2, 4, 2, 4]


def test_what_was_held_impossible_has_a_finite_loss() -> None:
    found = LevelDistribution(RatingScale([1, 2]), np.array([[1.0, 0.0], [1.0, 0.0]]))
    assert found.log_probability(np.array([0, 1])).tolist() == [0.0, np.log(1e-300)]


def test_scores_of_normals() -> None:
    ratings = Ratings(["a", "b"], ["x", "x"], [1.0, 2.0], scale="continuous")
    found = validation_scores(
        NormalDistribution(ratings.scale, np.array([1.0, 4.0]), np.array([1.0, 2.0])), ratings
    )
    assert found["mae"] == pytest.approx(1)
    assert found["rmse"] == pytest.approx(np.sqrt(2))
    density = [np.exp(-0.5 * 0) / np.sqrt(2 * np.pi), np.exp(-0.5) / np.sqrt(8 * np.pi)]
    assert found["log_loss"] == pytest.approx(-np.log(density).mean())


@given(st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 2), min_size=1))
def test_errors_equal_those_of_scikit_learn(pairs):
    predicted, truth = map(list, zip(*pairs, strict=True))
    assert mae(predicted, truth) == pytest.approx(sk.mean_absolute_error(truth, predicted))
    assert rmse(predicted, truth) == pytest.approx(sk.root_mean_squared_error(truth, predicted))


@given(seeds, st.integers(2, 12))
def test_log_loss_equals_that_of_scikit_learn(seed, n_levels):
    proba, levels = random_table(seed, n_levels=n_levels)
    proba = 0.999 * proba + 0.001 / n_levels  # beyond where either library cuts off
    expected = sk.log_loss(levels, proba, labels=range(n_levels))
    assert log_loss(proba, levels) == pytest.approx(expected)


@given(seeds, st.integers(1, 12))
def test_rps_equals_that_of_scoringrules(seed, n_levels):
    proba, levels = random_table(seed, n_levels=n_levels)
    expected = scoringrules().rps_score(levels + 1, proba)
    np.testing.assert_allclose(ranked_probability_scores(proba, levels), expected, atol=1e-12)
    assert rps(proba, levels) == pytest.approx(expected.mean())


def test_rps_of_a_sure_prediction_is_its_distance_in_levels():
    np.testing.assert_allclose(
        ranked_probability_scores(np.eye(5), [0, 0, 0, 4, 4]), [0, 1, 2, 1, 0]
    )


@given(seeds)
def test_normal_crps_equals_that_of_scoringrules(seed):
    random = np.random.default_rng(seed)
    centre, spread, truth = random.normal(size=20), random.gamma(1, size=20), random.normal(size=20)
    expected = scoringrules().crps_normal(truth, centre, spread)
    np.testing.assert_allclose(normal_crps(centre, spread, truth), expected, atol=1e-12)


def test_a_level_ruled_out_costs_much_but_not_infinity():
    assert log_losses([[1.0, 0.0]], [1]) == pytest.approx(300 * np.log(10))


@given(seeds)
def test_all_losses_of_levels_agree_with_the_functions_on_arrays(seed):
    scale = RatingScale([0.5, 1, 2, 5])
    proba, levels = random_table(seed, n_levels=4)
    predicted, truth = LevelDistribution(scale, proba), scale.values[levels]
    found = {name: loss.mean() for name, loss in losses(predicted, truth).items()}
    assert found["mae_mean"] == pytest.approx(mae(predicted.mean(), truth))
    assert found["mae_median"] == pytest.approx(mae(predicted.median(), truth))
    assert found["mae_mode"] == pytest.approx(mae(predicted.mode(), truth))
    assert np.sqrt(found["rmse"]) == pytest.approx(rmse(predicted.mean(), truth))
    assert found["log_loss"] == pytest.approx(log_loss(proba, levels))
    assert found["rps"] == pytest.approx(rps(proba, levels))


def test_losses_of_normals():
    predicted = NormalDistribution(ContinuousScale(0.0, 1.0), np.array([1.0]), np.array([2.0]))
    found = losses(predicted, np.array([2.0]))
    assert found["mae_mean"] == found["mae_median"] == found["mae_mode"] == found["rmse"] == [1.0]
    assert found["log_loss"] == pytest.approx(0.125 + np.log(2) + np.log(2 * np.pi) / 2)
    assert found["rps"] == pytest.approx(scoringrules().crps_normal(2.0, 1.0, 2.0))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: mae([], []), "no predictions"),
        (lambda: mae([1, 2], [1]), "lengths differ: 2 predictions, 1 ratings"),
        (lambda: mae([1, np.nan], [1, 2]), r"predictions must be finite numbers: row 1"),
        (lambda: rmse([1], ["good"]), "ratings are text"),
        (lambda: mae(["4"], [4]), "predictions are text"),
        (lambda: log_loss([[0.5, 0.5]], [0, 1]), "1 probabilities, 2 levels"),
        (lambda: log_loss([[0.5, 0.5]], [2]), "whole numbers from 0 to 1: row 0"),
        (lambda: log_loss([[0.5, 0.5]], [0.5]), "whole numbers from 0 to 1: row 0"),
        (lambda: log_loss([[0.5, 0.5]], [-1]), "whole numbers from 0 to 1: row 0"),
        (lambda: rps([[1.5, -0.5]], [0]), "must not be negative: row 0"),
        (lambda: rps([[np.nan, 1]], [0]), "must be finite numbers: row 0"),
        (lambda: rps([[0.5, 0.5], [0.5, 0.4]], [0, 0]), "must sum to one: row 1"),
        (lambda: rps([[0.5, 0.50005], [0.5, 0.50015]], [0, 0]), "must sum to one: row 1"),
        (lambda: rps([0.5, 0.5], [0]), "need two dimensions"),
        (lambda: rps([[0.5, 0.5], [1]], [0, 0]), "must be a table of numbers"),
        (lambda: rps(np.zeros((0, 3)), []), "no probabilities"),
        (lambda: rps(np.zeros((1, 0)), [0]), "a column per level"),
        (lambda: normal_crps([0], [0], [0]), "deviations must be above zero: row 0"),
        (lambda: normal_crps([0, 0], [1], [0]), "2 means, 1 deviations, 1 ratings"),
    ],
)
def test_what_cannot_be_scored_is_an_error(ask, message):
    with pytest.raises(OrdbmError, match=message):
        ask()


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        (np.ones((2, 3)), "must give a LevelDistribution"),
        (LevelDistribution(RatingScale([1, 2]), np.full((3, 2), 0.5)), r"shape \(3, 2\)"),
        (LevelDistribution(RatingScale([1, 2, 3]), np.full((2, 2), 0.5)), "each of 3 levels"),
        (LevelDistribution(RatingScale([1, 2]), np.full((2, 2), np.nan)), "finite numbers: row 0"),
        (NormalDistribution(ContinuousScale(0, 1), np.zeros(3), np.ones(3)), "3 means"),
        (NormalDistribution(ContinuousScale(0, 1), np.zeros(2), np.zeros(2)), "above zero"),
        (NormalDistribution(ContinuousScale(0, 1), np.full(2, np.nan), np.ones(2)), "finite"),
    ],
)
def test_a_prediction_that_is_no_distribution_is_an_error(predicted, message):
    with pytest.raises(RatingsError, match=message):
        check_prediction(predicted, 2)
