"""Continuous ratings in units of each user's own."""

import warnings

import numpy as np
import pytest

import ordbm
from ordbm import OrdinalBM, PseudoLikelihood, Ratings
from ordbm.data.standardiser import Standardiser, machine_ratings, standardiser_of

N_USERS, N_ITEMS = 60, 25
SMALL = {"hidden": (3, 4), "members": 2, "epochs": 3, "presence": False, "threads": 1}


def rated(seed=0, scales=True, noises=False, n_users=N_USERS):
    """Ratings of users whose scale, or whose noise, is their own."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, N_ITEMS)) < 0.7)
    width = np.exp(rng.normal(0, 0.5, n_users))[user]
    liked = rng.normal(size=N_ITEMS)[item]
    noise = rng.normal(size=len(user)) * (width if noises else 1.0)
    value = (
        50 + 3 * rng.normal(size=n_users)[user] + 4 * (liked + noise) * (width if scales else 1.0)
    )
    return Ratings(user, item, value, scale=ordbm.ContinuousScale.of(value))


@pytest.fixture(scope="module")
def ratings():
    return rated()


@pytest.fixture(scope="module")
def model(ratings):
    return OrdinalBM(**SMALL).fit(ratings)


def test_units_are_drawn_to_those_of_all(ratings):
    unit = Standardiser(50.0, 4.0, weight=7.0, share=0.6, variance=1.7, mean_weight=3.0)
    own = unit.of_users(ratings.by_user)
    z = (ratings.by_user.value - 50) / 4
    mine = z[ratings.by_user.row == 5]
    centre = mine.sum() / (len(mine) + 3)
    spread = (((mine - centre) ** 2).sum() + 7 * 1.7) / (len(mine) + 7) / 1.7
    np.testing.assert_allclose(own.centre[5], centre)
    np.testing.assert_allclose(own.width[5], spread**0.3)
    of_one = unit.of_user(ratings.by_user.rows_of(np.array([5])))
    np.testing.assert_allclose(of_one[:2], [50 + 4 * centre, 4 * spread**0.3])
    assert unit.of_user(ratings.by_user.rows_of(np.array([-1])))[:2] == (50.0, 4.0)


def test_both_orientations_are_in_the_users_units(ratings):
    unit = standardiser_of(ratings, 10.0, 10.0)
    pair = machine_ratings(ratings, unit)
    own = unit.of_users(ratings.by_user)
    for rows, given, user in (
        (pair.by_user, ratings.by_user, ratings.by_user.row),
        (pair.by_item, ratings.by_item, ratings.by_item.column),
    ):
        read = own.centre[user] + own.width[user] * rows.value
        back = unit.mean + unit.deviation * read
        np.testing.assert_allclose(back, given.value, rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_scales_are_told_from_noise(seed):
    scales = standardiser_of(rated(seed, n_users=400), 10.0, 10.0)
    noises = standardiser_of(rated(seed, scales=False, noises=True, n_users=400), 10.0, 10.0)
    assert scales.share > 0.6
    assert noises.share < 0.4


def test_levels_and_a_weight_of_zero_leave_all_users_one_unit(ratings):
    levels = Ratings([1, 1, 2], ["a", "b", "a"], [1, 2, 3], scale=[1, 2, 3])
    assert standardiser_of(levels, 10.0, 10.0).weight == 0
    assert standardiser_of(ratings, 10.0).weight == 0
    own = standardiser_of(ratings, 10.0).of_users(ratings.by_user)
    assert not own.centre.any()
    assert (own.width == 1).all()


def test_equal_ratings_have_a_unit():
    same = Ratings([1, 1, 2], ["a", "b", "a"], [7.0, 7.0, 7.0], scale="continuous")
    unit = standardiser_of(same, 10.0, 10.0)
    assert np.isfinite(list(unit)).all()
    assert np.isfinite(machine_ratings(same, unit).by_item.value).all()


def test_a_scaled_and_shifted_user_is_told_what_the_others_are(ratings):
    """Ratings in other units give the same predictions in these units."""
    users = np.array(ratings.users)[ratings.user_codes]
    items = np.array(ratings.items)[ratings.item_codes]
    moved = 100 - 0.25 * ratings.values
    other = Ratings(users, items, -moved, scale=ordbm.ContinuousScale.of(-moved))
    one, two = (OrdinalBM(**SMALL).fit(each) for each in (ratings, other))
    np.testing.assert_allclose(
        one.predict(users, items) * 0.25 - 100, two.predict(users, items), rtol=1e-3
    )


def test_somebody_new_is_read_as_a_user_with_these_ratings(model, ratings):
    """Of one unit with a known user: what the two are told differs by learnt parameters alone."""
    mine = ratings.by_user.rows_of(np.array([3]))
    given = {ratings.items[column]: v for column, v in zip(mine.column, mine.value, strict=True)}
    wide = {item: 50 + 20 * (value - 50) for item, value in given.items()}
    few = list(ratings.items)[:8]
    deviation = [
        model.distribution(items=few, ratings=each).deviation().mean() for each in (given, wide)
    ]
    assert deviation[1] > 1.5 * deviation[0]


def test_every_verb_says_the_same(model, ratings):
    user, item = ratings.users[2], ratings.items[4]
    found = model.distribution([user], [item])
    said = model.explain(user, item)
    np.testing.assert_allclose(said.distribution.mean(), found.mean(), rtol=1e-3)
    joint = model.predict_joint([user], [item], draws=4000)
    mean = float(joint.mean()[0])
    assert abs(mean - found.mean()[0]) < 0.15 * found.deviation()[0]


def test_units_are_in_the_file(model, ratings, tmp_path):
    users, items = list(ratings.users)[:9], list(ratings.items)[:9]
    model.save(tmp_path / "m.ordbm")
    loaded = ordbm.load(tmp_path / "m.ordbm")
    assert loaded._state.standardiser == model._state.standardiser
    np.testing.assert_allclose(loaded.predict(users, items), model.predict(users, items), rtol=1e-4)


def test_own_scales_are_learnt_from():
    """Held-out ratings of people with scales of their own are predicted better."""
    train, test = ordbm.hold_out(rated(4, n_users=300), 0.2, seed=0)
    users = [test.users[code] for code in test.user_codes]
    items = [test.items[code] for code in test.item_codes]
    error = []
    for weight in (10.0, 0.0):
        learner = PseudoLikelihood(own_unit_weight=weight)
        told = {**SMALL, "hidden": (5, 10), "members": 1, "epochs": 10}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = OrdinalBM(**told, learner=learner).fit(train)
        error.append(np.sqrt(np.mean((fitted.predict(users, items) - test.values) ** 2)))
    assert error[0] < error[1]
