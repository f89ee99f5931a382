"""How noisy ratings are, learnt for each user and item of a Gaussian machine."""

import numpy as np
import pytest

import ordbm
from ordbm import OrdinalBM, PseudoLikelihood, Ratings
from ordbm.training.noise import Noise

SHAPE = 60, 40


def noise_of(seed=0, row=None, column=None):
    """Noise of so many rated pairs, with residuals of these variances of rows and columns."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random(SHAPE) < 0.8)
    ratings = Ratings(user, item, rng.normal(size=len(user)), scale=ordbm.ContinuousScale(0, 1))
    rows = ratings.by_user
    noise = Noise(rows, np.bincount(rows.column, minlength=SHAPE[1]), np.float64)
    row = np.ones(SHAPE[0]) if row is None else row
    column = np.ones(SHAPE[1]) if column is None else column
    deviation = np.sqrt(row[rows.row] * column[rows.column])
    noise.residual[:] = deviation * rng.normal(size=len(deviation))
    return noise, deviation


def test_noise_starts_alike():
    noise, _ = noise_of()
    noise.begin_pass()
    np.testing.assert_allclose(noise.precision, 1.0)
    np.testing.assert_allclose(noise.column_weight, noise.column_count)


def test_precisions_are_inverse_variances_and_one_on_average():
    noise, _ = noise_of()
    noise.row[:] = np.linspace(0.5, 2.0, SHAPE[0])
    noise.column[:] = np.linspace(3.0, 1.0, SHAPE[1])
    noise.begin_pass()
    product = noise.precision * noise.row[noise.rows.row] * noise.column[noise.rows.column]
    np.testing.assert_allclose(product, product[0])
    np.testing.assert_allclose(noise.precision.mean(), 1.0)
    expected = [noise.precision[noise.rows.column == item].sum() for item in range(SHAPE[1])]
    np.testing.assert_allclose(noise.column_weight, expected)


def test_an_update_is_a_mean_drawn_to_one():
    noise, _ = noise_of()
    squared = noise.residual**2 / np.mean(noise.residual**2)
    noise.end_pass(7.0)
    mine = noise.rows.row == 3
    np.testing.assert_allclose(noise.row[3], (squared[mine].sum() + 7) / (mine.sum() + 7))
    mine = noise.rows.column == 5
    given_rows = squared[mine] / noise.row[noise.rows.row[mine]]
    np.testing.assert_allclose(noise.column[5], (given_rows.sum() + 7) / (mine.sum() + 7))


def test_variances_of_simulated_noise_are_found():
    row = np.repeat([0.25, 4.0], SHAPE[0] // 2)
    column = np.repeat([2.0, 0.5], SHAPE[1] // 2)
    noise, deviation = noise_of(row=row, column=column)
    for _ in range(5):
        noise.end_pass(1.0)
    noise.begin_pass()
    found = 1 / noise.precision
    np.testing.assert_allclose(
        np.corrcoef(np.log(found), 2 * np.log(deviation))[0, 1], 1, atol=0.05
    )


def test_nothing_left_unexplained_leaves_sound_precisions():
    noise, _ = noise_of()
    noise.residual[:] = 0
    for _ in range(3):
        noise.begin_pass()
        noise.end_pass(10.0)
    assert np.isfinite(noise.precision).all()
    assert (noise.precision > 0).all()


def test_without_a_weight_all_have_the_same_noise():
    noise, _ = noise_of(row=np.repeat([0.25, 4.0], SHAPE[0] // 2))
    noise.end_pass(0.0)
    noise.begin_pass()
    np.testing.assert_allclose(noise.precision, 1.0)


@pytest.fixture(scope="module")
def split():
    """Ratings by users of whom half are five times as noisy, and those held out."""
    rng = np.random.default_rng(3)
    user, item = np.nonzero(rng.random((200, 80)) < 0.5)
    taste, kind = rng.normal(size=(200, 2)), rng.normal(size=(80, 2))
    deviation = np.where(np.arange(200) % 2, 0.5, 2.5)[user]
    value = (taste[user] * kind[item]).sum(axis=1) + deviation * rng.normal(size=len(user))
    return ordbm.hold_out(Ratings(user, item, value, scale=ordbm.ContinuousScale.of(value)), 0.2)


def test_predictions_are_better_where_some_are_noisier(split):
    training, held = split
    users = [held.users[code] for code in held.user_codes]
    items = [held.items[code] for code in held.item_codes]
    quiet = np.array(users) % 2 == 1

    def error(weight):
        learner = PseudoLikelihood(noise_weight=weight)
        told = {"hidden": 10, "item_links": 0, "members": 1, "presence": False}
        model = OrdinalBM(**told, learner=learner).fit(training)
        return np.sqrt(np.mean((model.predict(users, items) - held.values)[quiet] ** 2))

    assert error(10.0) < 0.93 * error(0.0)
