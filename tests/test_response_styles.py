"""How users vary on a scale: likelihood, covariance found again, and the prior made of it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax

import ordbm
from ordbm.data.standardiser import machine_ratings
from ordbm.kernels.response_styles import add_level_use
from ordbm.model.features import features
from ordbm.model.learners import Priors
from ordbm.model.rules import ResponseStyleRules
from ordbm.priors.response_styles import bias_prior, response_style_covariance

RULES = ResponseStyleRules()


def smoothing(n):
    table = features("ordinal", n).smoothing
    return table / np.trace(table) * n


def centred(table):
    centre = np.eye(len(table)) - 1 / len(table)
    return centre @ table @ centre


def simulated(covariance, n_users, per_user, seed=0):
    """Orientations of ratings by users whose own potentials have this covariance."""
    rng = np.random.default_rng(seed)
    n, n_items = len(covariance), 60
    own = rng.multivariate_normal(np.zeros(n), covariance, n_users)
    item_bias = rng.normal(0, 0.5, (n_items, 1)) * (np.arange(n) - (n - 1) / 2)
    user = np.repeat(np.arange(n_users), per_user)
    item = np.concatenate([rng.permutation(n_items)[:per_user] for _ in range(n_users)])
    noise = rng.gumbel(size=(len(user), n))
    level = (own[user] + item_bias[item] + noise).argmax(axis=1)
    return machine_ratings(ordbm.Ratings(user, item, level, scale=range(n)), None)


def test_gradient_and_information_are_derivatives_of_the_log_likelihood():
    rng = np.random.default_rng(1)
    ratings = simulated(np.eye(4), n_users=5, per_user=7)
    rows = ratings.by_user
    potential = rng.normal(size=(ratings.by_item.n_rows, 4))
    people = np.array([3, 1])
    own = rng.normal(size=(2, 4))

    def log_likelihood(person, own):
        place = slice(rows.start[people[person]], rows.start[people[person] + 1])
        scores = log_softmax(potential[rows.column[place]] + own, axis=1)
        return scores[np.arange(len(scores)), rows.level[place]].sum()

    gradient, information = np.zeros((2, 4)), np.zeros((2, 4, 4))
    add_level_use(
        people, rows.start, rows.column, rows.level, potential, own, np.empty(4), gradient,
        information,
    )  # fmt: skip
    step = 1e-4 * np.eye(4)
    for person in range(2):
        slopes = [
            (log_likelihood(person, own[person] + h) - log_likelihood(person, own[person] - h))
            / 2e-4
            for h in step
        ]
        np.testing.assert_allclose(gradient[person], slopes, atol=1e-7)
        curves = [
            [
                log_likelihood(person, own[person] + g + h)
                - log_likelihood(person, own[person] + g - h)
                - log_likelihood(person, own[person] - g + h)
                + log_likelihood(person, own[person] - g - h)
                for h in step
            ]
            for g in step
        ]
        np.testing.assert_allclose(information[person], -np.array(curves) / 4e-8, atol=1e-5)


def test_the_covariance_of_habits_is_found_again():
    """Whole stars or not, besides mild and strict: two directions, and nothing in the others."""
    n = 6
    whole = np.resize([1.0, -1.0], n) / np.sqrt(n)
    line = np.arange(n) - (n - 1) / 2
    line -= whole * (whole @ line)
    line /= np.linalg.norm(line)
    true = 6.0 * np.outer(whole, whole) + 1.5 * np.outer(line, line)
    found = centred(response_style_covariance(simulated(true, 2000, 40), smoothing(n), RULES))
    assert found @ whole @ whole == pytest.approx(6.0, rel=0.2)
    assert found @ line @ line == pytest.approx(1.5, rel=0.35)  # items' shares take a part of it
    assert np.linalg.eigvalsh(found)[-3] < 0.1


def test_the_order_of_users_does_not_matter():
    ratings = simulated(np.eye(5), 80, 12)
    frame = [(u, i, s) for u, i, s in zip(
        ratings.by_user.row, ratings.by_user.column, ratings.by_user.level, strict=True
    )]  # fmt: skip
    users, items, levels = np.array(frame).T
    turned = machine_ratings(ordbm.Ratings(79 - users, items, levels, scale=range(5)), None)
    np.testing.assert_allclose(
        response_style_covariance(ratings, smoothing(5), RULES),
        response_style_covariance(turned, smoothing(5), RULES),
        rtol=1e-9,
    )


def test_some_people_speak_for_all():
    ratings = simulated(np.eye(5), 1500, 20)
    whole = response_style_covariance(ratings, smoothing(5), RULES)
    fewer = replace(RULES, most_people=500)
    some = response_style_covariance(ratings, smoothing(5), fewer)
    assert not np.array_equal(some, whole)
    np.testing.assert_allclose(some, whole, atol=0.25)
    one = replace(RULES, most_work=1)  # less than one person: one is looked at
    guess = (smoothing(5) + np.eye(5)) / 4
    found = response_style_covariance(ratings, smoothing(5), one)
    np.testing.assert_allclose(found, guess, atol=0.5)


@pytest.mark.parametrize("levels", [[0], [4, 4, 4], [0, 4, 2]])
def test_a_single_user_gives_a_covariance(levels):
    ratings = machine_ratings(
        ordbm.Ratings(["a"] * len(levels), range(len(levels)), levels, scale=range(5)), None
    )
    assert np.linalg.eigvalsh(response_style_covariance(ratings, smoothing(5), RULES))[0] > 0


def test_the_prior_is_order_and_habits_in_their_shares():
    ratings = simulated(np.eye(5), 100, 10)
    table = smoothing(5)
    prior = bias_prior(ratings, table, Priors(bias_precision=2.0, response_style_share=0.3))
    expected = centred(0.7 / 2.0 * table + 0.3 * response_style_covariance(ratings, table, RULES))
    np.testing.assert_allclose(prior.smoothing / prior.precision, expected, atol=1e-12)
    assert np.linalg.eigvalsh(prior.smoothing)[-1] == pytest.approx(RULES.steepest)


@pytest.mark.parametrize(
    ("precision", "n", "learnt"), [(2.0, 5, False), (0.0, 5, True), (2.0, 1, True)]
)
def test_habits_that_are_not_learnt_are_alike_on_all_levels(precision, n, learnt):
    """Nor is there anything to learn them for without a prior, or with a single level."""
    ratings = simulated(np.eye(n), 20, 5)
    told = {"bias_precision": precision, "response_style_share": 0.3}
    priors = Priors(**told, learn_response_styles=learnt)
    prior = bias_prior(ratings, smoothing(n), priors)
    assert prior.precision == precision
    np.testing.assert_allclose(prior.smoothing, 0.7 * smoothing(n) + 0.3 * np.eye(n))


def test_newcomers_are_met_with_the_habits_that_were_seen():
    """Among people who give whole stars or all alike, a few whole stars tell which it is."""
    rng = np.random.default_rng(3)
    user = np.repeat(np.arange(200), 20)
    item = np.concatenate([rng.permutation(50)[:20] for _ in range(200)])
    level = rng.integers(0, 8, len(user))
    level[user % 2 == 0] |= 1
    ratings = ordbm.Ratings(user, item, (level + 1) / 2)
    given = {0: 2.0, 1: 4.0, 2: 1.0, 3: 3.0}
    halves = []
    for learn_response_styles in (False, True):
        learner = ordbm.PseudoLikelihood(learn_response_styles=learn_response_styles)
        model = ordbm.OrdinalBM(learner=learner, hidden=2, members=1, presence=False).fit(ratings)
        proba = model.predict_proba(items=np.arange(4, 50), ratings=given)
        halves.append(proba[:, ::2].sum(axis=1).mean())
    assert halves[1] < halves[0] / 1.5 < 0.25
