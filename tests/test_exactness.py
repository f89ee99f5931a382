"""Probabilities equal brute-force enumeration, for all 36 kinds of features, sides and links."""

import numpy as np
import pytest
from scipy.stats import norm

import referee
from ordbm.data.scale import ContinuousScale, RatingScale
from ordbm.data.standardiser import Standardiser
from ordbm.inference.conditioned import ConditionedMachine, softmax
from ordbm.inference.distributions import predicted_distribution

CLOSE = {"rtol": 1e-9, "atol": 1e-11}
ALL_PAIRS = np.array(list(np.ndindex(referee.N_USERS, referee.N_ITEMS)))
UNKNOWN_PAIRS = np.array([(-1, 0), (-1, 3), (0, -1), (2, -1), (-1, -1)])
STANDARD = Standardiser(3.1, 1.3)
STARS = RatingScale([1, 2, 3, 4, 5])
UNEVEN = RatingScale([0.5, 1, 2, 5])


def evidence_of(case, threads=1):
    return ConditionedMachine(case.machine, case.ratings, threads)


def scores(case, pairs, method="exact"):
    return evidence_of(case).pair_scores(pairs[:, 0], pairs[:, 1], method)


def prediction(case, pairs, scale, method="exact"):
    return predicted_distribution(
        evidence_of(case), scale, STANDARD, pairs[:, 0], pairs[:, 1], method
    )


def with_strangers(case):
    """The case with a user and an item more, at index -1, of which nothing is known."""
    table = np.full(np.add(case.table.shape, 1), np.nan)
    table[:-1, :-1] = case.table
    return referee.extended(case.machine), table


# Discrete machines


@pytest.mark.parametrize(("kind", "sides", "links"), referee.DISCRETE)
def test_levels_of_seen_and_unseen_pairs(kind, sides, links):
    case = referee.case(kind, sides, links)
    hidden = referee.configurations(case.machine, case.table)
    expected = [referee.conditional(case.machine, case.table, *pair, hidden) for pair in ALL_PAIRS]
    np.testing.assert_allclose(softmax(scores(case, ALL_PAIRS)), expected, **CLOSE)


@pytest.mark.parametrize(("kind", "sides", "links"), referee.DISCRETE)
def test_levels_of_strangers(kind, sides, links):
    case = referee.case(kind, sides, links, hidden=(1, 1))
    expected = [referee.conditional(*with_strangers(case), *pair) for pair in UNKNOWN_PAIRS]
    np.testing.assert_allclose(softmax(scores(case, UNKNOWN_PAIRS)), expected, **CLOSE)


@pytest.mark.parametrize(("kind", "sides", "links"), referee.DISCRETE)
def test_mean_field_is_equation_2(kind, sides, links):
    case = referee.case(kind, sides, links, hidden=(2, 1))
    for method, leave_out in (("mean_field", True), ("mean_field_with_own", False)):
        expected = [
            referee.softmax(
                referee.mean_field_scores(case.machine, case.table, *pair, leave_out=leave_out)
            )
            for pair in ALL_PAIRS
        ]
        np.testing.assert_allclose(softmax(scores(case, ALL_PAIRS, method)), expected, **CLOSE)


@pytest.mark.parametrize("n_levels", [1, 2, 7])
def test_any_number_of_levels(n_levels):
    rng = np.random.default_rng(n_levels)
    machine = referee.random_machine(rng, "ordinal", "joint", "both", n_levels=n_levels)
    table = referee.random_table(rng, gaussian=False, n_levels=n_levels)
    case = referee.Case(machine, referee.orientations(table, machine), table)
    hidden = referee.configurations(machine, table)
    expected = [referee.conditional(machine, table, *pair, hidden) for pair in ALL_PAIRS[::3]]
    np.testing.assert_allclose(softmax(scores(case, ALL_PAIRS[::3])), expected, **CLOSE)


@pytest.mark.parametrize("kind", referee.KINDS)
@pytest.mark.parametrize("sides", referee.SIDES)
def test_no_hidden_units(kind, sides):
    case = referee.case(kind, sides, "both", hidden=(0, 0))
    if kind == "gaussian":
        expected = [
            referee.mixture(case.machine, case.table, *pair)[1] * STANDARD.deviation + STANDARD.mean
            for pair in ALL_PAIRS
        ]
        found = prediction(case, ALL_PAIRS, ContinuousScale(0, 1)).mean()[:, None]
    else:
        expected = [referee.conditional(case.machine, case.table, *pair) for pair in ALL_PAIRS]
        found = softmax(scores(case, ALL_PAIRS))
    np.testing.assert_allclose(found, expected, **CLOSE)


# Gaussian machines


@pytest.mark.parametrize(("kind", "sides", "links"), referee.GAUSSIAN)
def test_gaussian_mean_and_deviation(kind, sides, links):
    case = referee.case(kind, sides, links)
    hidden = referee.configurations(case.machine, case.table)
    mean, deviation = [], []
    for pair in ALL_PAIRS:
        weight, means = referee.mixture(case.machine, case.table, *pair, hidden)
        mean.append(weight @ means)
        deviation.append(np.sqrt(1 + weight @ (means - mean[-1]) ** 2))
    found = prediction(case, ALL_PAIRS, ContinuousScale(STANDARD.mean, STANDARD.deviation))
    expected = STANDARD.mean + STANDARD.deviation * np.array(mean)
    np.testing.assert_allclose(found.mean(), expected, **CLOSE)
    np.testing.assert_allclose(found.deviation(), STANDARD.deviation * np.array(deviation), **CLOSE)


def masses(weight, means, scale):
    """The mixture's mass between the midpoints of the scale's levels."""
    middle = (scale.values[1:] + scale.values[:-1]) / 2
    edge = np.concatenate([[-np.inf], (middle - STANDARD.mean) / STANDARD.deviation, [np.inf]])
    return weight @ np.diff(norm.cdf(edge - means[:, None]))


@pytest.mark.parametrize("scale", [STARS, UNEVEN], ids=["stars", "uneven"])
@pytest.mark.parametrize(("kind", "sides", "links"), referee.GAUSSIAN)
def test_gaussian_mass_around_levels(kind, sides, links, scale):
    case = referee.case(kind, sides, links)
    hidden = referee.configurations(case.machine, case.table)
    expected = [
        masses(*referee.mixture(case.machine, case.table, *pair, hidden), scale)
        for pair in ALL_PAIRS
    ]
    np.testing.assert_allclose(
        prediction(case, ALL_PAIRS, scale).proba, expected, rtol=1e-7, atol=1e-9
    )


def test_gaussian_mass_on_a_scale_with_a_wide_gap():
    case = referee.case("gaussian", "joint", "both")
    scale = RatingScale([1, 2, 3, 40, 41])
    expected = [
        masses(*referee.mixture(case.machine, case.table, *pair), scale) for pair in ALL_PAIRS[:4]
    ]
    found = prediction(case, ALL_PAIRS[:4], scale).proba
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("spread", [2.0, 4.0])
def test_gaussian_moments_far_from_the_mean_field(spread):
    """Strong couplings put the exact mean up to 12 deviations away from the mean-field mean."""
    case = referee.case("gaussian", "joint", "both", spread=spread)
    hidden = referee.configurations(case.machine, case.table)
    mean, deviation = [], []
    for pair in ALL_PAIRS:
        weight, means = referee.mixture(case.machine, case.table, *pair, hidden)
        mean.append(weight @ means)
        deviation.append(np.sqrt(1 + weight @ (means - mean[-1]) ** 2))
    conditioned = evidence_of(case)
    found = predicted_distribution(
        conditioned, ContinuousScale(0, 1), Standardiser(0, 1), *ALL_PAIRS.T
    )
    np.testing.assert_allclose(found.mean(), mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.deviation(), deviation, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("kind", "sides", "links"), referee.GAUSSIAN)
def test_gaussian_mean_field_is_a_normal_around_mu(kind, sides, links):
    case = referee.case(kind, sides, links, hidden=(2, 1))
    mu = np.array(
        [referee.mean_field_scores(case.machine, case.table, *pair)[0] for pair in ALL_PAIRS]
    )
    found = prediction(case, ALL_PAIRS, ContinuousScale(0, 1), "mean_field")
    np.testing.assert_allclose(found.mean(), STANDARD.mean + STANDARD.deviation * mu, **CLOSE)
    np.testing.assert_allclose(found.deviation(), STANDARD.deviation, **CLOSE)
    expected = [masses(np.ones(1), np.array([m]), STARS) for m in mu]
    found = prediction(case, ALL_PAIRS, STARS, "mean_field").proba
    np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize(("kind", "sides", "links"), referee.GAUSSIAN)
def test_gaussian_strangers(kind, sides, links):
    case = referee.case(kind, sides, links, hidden=(1, 1))
    expected = [
        masses(*referee.mixture(*with_strangers(case), *pair), STARS) for pair in UNKNOWN_PAIRS
    ]
    found = prediction(case, UNKNOWN_PAIRS, STARS).proba
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


# Hidden units


@pytest.mark.parametrize(("kind", "sides", "links"), referee.COMBINATIONS)
def test_factors_and_free_energy(kind, sides, links):
    case = referee.case(kind, sides, links, hidden=(3, 1))
    conditioned = evidence_of(case)
    users, items = referee.hidden_posterior(case.machine, case.table)
    np.testing.assert_allclose(conditioned.user_factors(), users, **CLOSE)
    np.testing.assert_allclose(conditioned.item_factors(), items, **CLOSE)
    machine = referee.Machine(
        case.machine.features, case.machine.level_bias, case.machine.user_side, None
    )
    expected = [-referee.log_weight(machine, row[None]) for row in case.table]
    np.testing.assert_allclose(conditioned.user_free_energy(), expected, **CLOSE)


# What must not matter


@pytest.mark.parametrize(("kind", "sides", "links"), referee.COMBINATIONS)
def test_a_pairs_own_rating_moves_nothing(kind, sides, links):
    case = referee.case(kind, sides, links)
    for user, item in np.argwhere(~np.isnan(case.table)):
        pair = np.array([(user, item)])
        before = [scores(case, pair, method) for method in ("exact", "mean_field")]
        for rating in (0.0, 1.0, 2.0, np.nan):
            table = referee.with_rating(case.table, user, item, rating)
            changed = case._replace(table=table, ratings=referee.orientations(table, case.machine))
            after = [scores(changed, pair, method) for method in ("exact", "mean_field")]
            # The row's input is a sum from which the own rating is taken out again: to rounding.
            np.testing.assert_allclose(after, before, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", referee.KINDS)
def test_stored_width_of_hidden_units_does_not_matter(kind):
    found = []
    for lanes in (3, 8, 24):
        case = referee.case(kind, "joint", "both", hidden=(3, 3), lanes=lanes, seed=5)
        conditioned = evidence_of(case)
        result = [
            conditioned.user_factors(),
            conditioned.item_factors(),
            conditioned.user_free_energy(),
        ]
        if kind == "gaussian":
            result.append(prediction(case, ALL_PAIRS, STARS).proba)
        else:
            result.append(softmax(scores(case, ALL_PAIRS)))
        result.append(softmax(scores(case, ALL_PAIRS, "mean_field")))
        found.append(result)
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_allclose(two, one, **CLOSE)


@pytest.mark.parametrize("kind", referee.KINDS)
def test_order_of_pairs_and_threads_do_not_matter(kind):
    case = referee.case(kind, "joint", "both")
    pairs = np.concatenate([ALL_PAIRS, UNKNOWN_PAIRS])
    shuffled = np.random.default_rng(0).permutation(len(pairs))
    for method in ("exact", "mean_field", "mean_field_with_own", "sample"):
        one = evidence_of(case).pair_scores(pairs[:, 0], pairs[:, 1], method)
        three = evidence_of(case, 3).pair_scores(*pairs[shuffled].T, method)
        np.testing.assert_array_equal(three, one[shuffled])


# The referee's own short cuts


def test_energy_is_linear_in_the_hidden_units():
    case = referee.case("ordinal", "joint", "both", hidden=(1, 1))
    states = referee.configurations(case.machine, case.table)
    energy = referee.negative_energy(case.machine, case.table, *states)
    weight = np.random.default_rng(0).dirichlet(np.ones(len(energy)))
    soft = [np.tensordot(weight, state, 1)[None] for state in states]
    np.testing.assert_allclose(
        referee.negative_energy(case.machine, case.table, *soft), [weight @ energy]
    )


@pytest.mark.parametrize("sides", referee.SIDES)
def test_far_ratings_and_units_cancel(sides):
    case = referee.case("ordinal", sides, "both")
    whole = sum(
        np.log(referee.conditional(case.machine, case.table, u, i)[int(case.table[u, i])])
        for u, i in np.argwhere(~np.isnan(case.table))
    )
    short = referee.log_pseudo_likelihood(case.machine, case.table)
    np.testing.assert_allclose(short, whole, rtol=1e-12)
