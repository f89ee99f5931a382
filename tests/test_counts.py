"""Priors that know how often a column is rated: the potentials, and where they enter."""

from __future__ import annotations

import numpy as np
import pytest

import ordbm
from ordbm.data.csr import CSR
from ordbm.data.level_counts import level_counts
from ordbm.priors.counts import count_potentials

TINY = {"hidden": 3, "members": 2, "item_links": 4, "epochs": 6}


def rows_of(*levels):
    """A row for each list of levels, over columns 0, 1, …."""
    count = [len(row) for row in levels]
    return CSR(
        np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
        np.concatenate([np.arange(n) for n in count]).astype(np.int32),
        np.concatenate(levels).astype(np.uint8),
        np.zeros(0, np.float32),
        np.zeros(0, np.int32),
    )


def potentials(rows, n_levels, weight):
    return count_potentials(level_counts(rows, n_levels), weight)


@pytest.fixture(scope="module")
def ratings():
    """What few have rated is rated low: ten items rated by all, sixty by one user each."""
    rng = np.random.default_rng(0)
    users, items, values = [], [], []
    for user in range(60):
        for item in range(10):
            users.append(user)
            items.append(item)
            values.append(rng.choice([3, 4, 5]))
        users.append(user)
        items.append(100 + user)
        values.append(rng.choice([1, 2]))
    return ordbm.Ratings(users, items, values, scale=[1, 2, 3, 4, 5])


@pytest.fixture(scope="module")
def model(ratings):
    return ordbm.OrdinalBM(**TINY).fit(ratings)


def test_each_octave_of_counts_has_its_own_potential():
    rows = rows_of([0], [0], [1, 1], [0, 1, 1], [0, 1, 1, 1, 1])
    found, unknown = potentials(rows, 2, 4.0)
    share = np.array([4.5, 8.5]) / 13  # half a rating added to each level

    def expected(*count):
        seen = np.array(count)
        return np.log((seen / share + 4.0) / (seen.sum() + 4.0))

    np.testing.assert_allclose(found[0], expected(2, 0))
    np.testing.assert_allclose(found[2], expected(1, 4))
    np.testing.assert_allclose(found[4], expected(1, 4))
    np.testing.assert_array_equal(found[2], found[3])
    # Each column counts for the root of its ratings.
    seen = 2 * np.array([1.0, 0.0]) + np.sqrt(2) * np.array([0.0, 1.0])
    seen = seen + np.sqrt(3) * np.array([1, 2]) / 3 + np.sqrt(5) * np.array([1, 4]) / 5
    np.testing.assert_allclose(unknown, np.log((seen / share + 4.0) / (seen.sum() + 4.0)))


def test_without_weight_or_levels_nothing_is_said():
    rows = rows_of([0, 0], [1, 1, 1])
    assert not any(found.any() for found in potentials(rows, 2, 0.0))
    assert not any(found.any() for found in potentials(rows_of([0], [0, 0]), 1, 4.0))


def test_where_all_are_rated_alike_the_unknown_are_too():
    rows = rows_of(*[[0, 1, 1, 2]] * 6)
    np.testing.assert_allclose(potentials(rows, 3, 20.0)[1], 0, atol=0.02)


def test_a_large_weight_says_little():
    rows = rows_of([0], [0], [1, 1], [0, 1, 1])
    strong, weak = (np.abs(potentials(rows, 2, weight)[0]).max() for weight in (1.0, 1e6))
    assert weak < 1e-4 < strong


def test_an_unknown_item_is_between_those_rated_once_and_a_typical_rating(model):
    once, often = model.predict(0, [100, 0])
    assert once + 0.3 < model.predict(0, -1)[0] < often - 0.3


def test_joint_predictions_and_explanations_know_it_too(model):
    proba = model.predict_proba([0], [-1])[0]
    joint = model.predict_joint(0, [-1])
    levels = model.scale.values
    np.testing.assert_allclose(joint.marginals(levels)[0], proba, atol=1e-6)
    told = model.explain(0, -1, threshold=3)
    assert told.final == pytest.approx(np.log(proba[2:].sum() / proba[:2].sum()), abs=1e-5)
    assert told.base + sum(part.effect for part in told.parts) == pytest.approx(told.final)


def test_a_file_keeps_it(model, tmp_path):
    model.save(tmp_path / "m")
    again = ordbm.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba([0], [-1]), model.predict_proba([0], [-1]))


def test_columns_start_at_their_prior_and_are_drawn_to_it(ratings):
    """With a prior that does not move, biases are the potentials by count."""
    fixed = ordbm.PseudoLikelihood(bias_precision=1e6, shared_potential=True)
    model = ordbm.OrdinalBM(**TINY | {"members": 1}, learner=fixed).fit(ratings)
    by_item, _ = potentials(ratings.by_item, 5, fixed.count_weight)
    found = model.machines[0].user_side.parameters.rating_bias
    np.testing.assert_allclose(found, by_item, atol=1e-3)
    assert np.ptp(by_item[:, 0]) > 1


@pytest.mark.parametrize("name", ["count_weight", "ratings_per_unit"])
@pytest.mark.parametrize("wrong", [-1.0, float("nan"), "2"])
def test_what_is_no_weight_is_refused(name, wrong):
    with pytest.raises(ordbm.errors.SettingsError, match=name):
        ordbm.PseudoLikelihood(**{name: wrong})
