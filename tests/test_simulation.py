"""Simulated ratings: drawn from the machine they come with, on pairs chosen as people choose."""

from itertools import product

import numpy as np
import pytest

import ordbm
import referee
from ordbm.errors import SettingsError
from ordbm.inference.distributions import LevelDistribution
from ordbm.model.machine import Machine, Side
from ordbm.model.neighbours import no_links
from ordbm.simulation import draw_ratings

COPIES = 6000


def copies(machine, n_users, n_items, n=COPIES):
    """n machines in one; users u, u + n_users, ... have nothing to do with each other."""

    def side(given, n_columns):
        if given is None:
            return None
        p = given.parameters
        many = p._replace(
            coupling=np.tile(p.coupling, (n, 1, 1)), rating_bias=np.tile(p.rating_bias, (n, 1))
        )
        return Side(many, given.n_hidden, no_links(n * n_columns), given.unknown_bias)

    return Machine(
        machine.features,
        machine.level_bias,
        side(machine.user_side, n_items),
        side(machine.item_side, n_users),
    )


@pytest.mark.parametrize("sides", referee.SIDES)
@pytest.mark.parametrize("kind", ["categorical", "ordinal"])
def test_draws_have_the_probabilities_of_the_machine(kind, sides):
    """All tables of five ratings on three levels, by summing over every hidden state."""
    rng = np.random.default_rng(3)
    n_users, n_items = 2, 3
    machine = referee.random_machine(
        rng, kind, sides, n_users=n_users, n_items=n_items, hidden=(2, 1), spread=0.5
    )
    pairs = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    tables = list(product(range(3), repeat=len(pairs)))
    weight = []
    for levels in tables:
        table = np.full((n_users, n_items), np.nan)
        table[tuple(np.transpose(pairs))] = levels
        weight.append(referee.log_weight(machine, table))
    truth = referee.softmax(np.array(weight))

    number = np.repeat(np.arange(COPIES), len(pairs))
    user, item = np.tile(np.transpose(pairs), COPIES)
    drawn = draw_ratings(
        copies(machine, n_users, n_items),
        (number * n_users + user).astype(np.int32),
        (number * n_items + item).astype(np.int32),
        rng,
        sweeps=40,
    ).reshape(COPIES, len(pairs))
    place = drawn @ 3 ** np.arange(len(pairs))[::-1]
    share = np.bincount(place, minlength=len(tables)) / COPIES
    # The expected squared distance of shares from probabilities is (1 - sum p^2) / n.
    assert np.sum((share - truth) ** 2) < 1.5 * (1 - np.sum(truth**2)) / COPIES
    for column in range(len(pairs)):
        marginal = np.bincount([levels[column] for levels in tables], truth)
        found = np.bincount(drawn[:, column], minlength=3) / COPIES
        assert np.abs(found - marginal).max() < 4 * 0.5 / np.sqrt(COPIES)


def test_gaussian_draws_have_the_moments_of_the_machine():
    """One user, two items, one hidden unit: a mixture of two normals with known moments."""
    rng = np.random.default_rng(5)
    machine = referee.random_machine(
        rng, "gaussian", "user", n_users=1, n_items=2, hidden=(1, 0), spread=0.7
    )
    weight, mean = [], []
    table = np.zeros((1, 2))
    for h in (0.0, 1.0):
        at = [
            referee.negative_energy(
                machine, table + step, np.full((1, 1, 1), h), np.zeros((1, 2, 0))
            )
            for step in ([[0, 0]], [[1, 0]], [[0, 1]])
        ]
        centre = np.array([at[1] - at[0] + 0.5, at[2] - at[0] + 0.5])[:, 0]
        mean.append(centre)
        weight.append(at[0][0] + centre @ centre / 2)
    weight = referee.softmax(np.array(weight))
    mean = np.array(mean)
    number = np.repeat(np.arange(COPIES), 2).astype(np.int32)
    item = np.arange(2 * COPIES, dtype=np.int32)
    drawn = draw_ratings(copies(machine, 1, 2), number, item, rng, 40).reshape(-1, 2)
    spread = np.einsum("m,mi,mj->ij", weight, mean, mean) + np.eye(2)
    np.testing.assert_allclose(drawn.mean(axis=0), weight @ mean, atol=0.08)
    np.testing.assert_allclose(drawn.T @ drawn / COPIES, spread, atol=0.15)


def test_simulated_ratings_are_what_was_asked_for():
    made = ordbm.simulate(n_users=50, n_items=30, n_ratings=600, levels=4, hidden=3, seed=1)
    ratings = made.ratings
    assert (len(ratings), ratings.n_users, ratings.n_items) == (600, 50, 30)
    assert ratings.scale == ordbm.RatingScale([1, 2, 3, 4])
    assert np.bincount(ratings.levels, minlength=4).min() > 20
    pairs = ratings.user_codes.astype(int) * 30 + ratings.item_codes
    assert (np.diff(pairs) > 0).all()
    assert made.machine.user_side.n_columns == 30
    assert made.machine.item_side.n_columns == 50


@pytest.mark.parametrize("sides", ["user", "item"])
def test_one_sided_and_continuous(sides):
    machine = ordbm.simulate(20, 10, 50, hidden=2, sides=sides).machine
    assert [side is not None for side in machine.sides] == [sides == "user", sides == "item"]
    made = ordbm.simulate(20, 10, 50, hidden=(2, 1), sides=sides, features="gaussian")
    assert made.ratings.is_continuous
    users = list(range(20))
    assert np.isfinite(made.distribution(users, [0] * 20).mean()).all()


def test_seeds():
    first, same, other = (ordbm.simulate(30, 20, 200, hidden=2, seed=seed) for seed in (1, 1, 2))
    for ours, theirs in zip(first.ratings.by_user, same.ratings.by_user, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(
        first.machine.user_side.parameters.coupling, same.machine.user_side.parameters.coupling
    )
    assert not np.array_equal(first.ratings.levels, other.ratings.levels)


def test_some_users_and_items_have_much_more_than_others():
    ratings = ordbm.simulate(400, 300, 8000, hidden=1, sweeps=1).ratings
    for rows in (ratings.by_user, ratings.by_item):
        counts = np.sort(np.diff(rows.start))
        top = counts[-len(counts) // 5 :].sum() / counts.sum()
        assert 0.35 < top < 0.9


def test_every_pair_may_be_rated():
    ratings = ordbm.simulate(7, 5, 35, hidden=1, sweeps=1).ratings
    assert np.diff(ratings.by_user.start).tolist() == [5] * 7
    assert len(ordbm.simulate(1, 1, 1, hidden=0).ratings) == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_users": 0}, "n_users=0"),
        ({"n_ratings": 10**7}, "500 users and 200 items make only 100,000 pairs"),
        ({"levels": 1}, "levels=1"),
        ({"levels": 101}, "at most 100"),
        ({"hidden": -1}, "hidden=-1"),
        ({"sides": "both"}, "sides='both'"),
        ({"features": "cubic"}, "features='cubic'"),
        ({"strength": -1}, "strength=-1"),
        ({"strength": float("nan")}, "strength=nan"),
        ({"seed": 1.5}, "seed=1.5"),
        ({"sweeps": 0}, "sweeps=0"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(SettingsError, match=words):
        ordbm.simulate(**settings)


def test_a_fitted_machine_finds_what_the_true_one_knows():
    """It beats level frequencies by far, and no prediction beats the truth."""
    made = ordbm.simulate(n_users=300, n_items=60, n_ratings=6000, hidden=2, seed=2)
    train, test = ordbm.hold_out(made.ratings, fraction=0.2, seed=0)
    model = ordbm.OrdinalBM(hidden=4, members=1, item_links=0, epochs=15, seed=0).fit(train)
    users = [test.users[code] for code in test.user_codes]
    items = [test.items[code] for code in test.item_codes]

    def log_loss(distribution):
        return -distribution.log_probability(test.levels).mean()

    shares = np.bincount(train.levels, minlength=5) / len(train)
    blind = log_loss(LevelDistribution(train.scale, np.tile(shares, (len(test), 1))))
    fitted = log_loss(model.distribution(users, items))
    truth = log_loss(made.distribution(users, items))
    assert truth < fitted < blind - 0.3 * (blind - truth)
