"""Which items get rated: kernels, enumeration, sampled gradients, learning, somebody new.

The referee's table is (users, items) of True where there is a rating; a user's presences are a
Boltzmann machine of its own with

    -E = sum over items i rated (b_i + c_u) + g sum over pairs i < j rated s_ij

for each pair of user and item, with the g of what else the user has rated.
"""

from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit

import referee
from newcomers import row_of
from ordbm import OrdinalBM, Ratings
from ordbm.data.csr import CSR, starts
from ordbm.data.ids import IdMap
from ordbm.data.scale import RatingScale
from ordbm.errors import SettingsError
from ordbm.inference.fitted import FittedModel
from ordbm.model import presence as presences
from ordbm.model.presence import (
    KNOTS,
    ConditionedPresence,
    Presence,
    fold_in_presence,
    linked_rows,
)
from ordbm.model.rules import PresenceRules
from ordbm.training import presence_learning as learning
from ordbm.training.presence_learning import PresenceLoss, learn_presence, user_blocks
from ordbm.training.recalibration import cell_counts, recalibration_map

RULES = PresenceRules()


def somebody(conditioned, items):
    """Presence of somebody new who rated these items."""
    return fold_in_presence(conditioned, row_of(list(items)), np.array([-1]))


CLOSE = {"rtol": 2e-5, "atol": 2e-5}  # single precision, and a fast exp
TINY = {
    "hidden": 2,
    "members": 1,
    "item_links": 3,
    "link_support": 2,
    "epochs": 1,
    "presence_precision": 5.0,
}


# -- the referee ----------------------------------------------------------------------------------


class Case(NamedTuple):
    presence: Presence
    rated: np.ndarray  # (users, items)


def rows_of(rated):
    user, item = np.nonzero(rated)
    return CSR(
        starts(user.astype(np.int32), len(rated)),
        item.astype(np.int32),
        np.zeros(len(item), np.uint8),
        np.zeros(0, np.float32),
        np.zeros(0, np.int32),
    )


def symmetric(rng, size, spread=0.7):
    upper = np.triu(rng.normal(0, spread, (size, size)), 1)
    return (upper + upper.T).astype(np.float32)


def random_case(linked, n_users=9, n_items=13, seed=0, share=0.5):
    """Random parameters; the first user has rated nothing, the last everything."""
    rng = np.random.default_rng(seed)
    linked = np.array(linked, np.int32)
    presence = Presence(
        item_bias=rng.normal(-0.5, 1, n_items).astype(np.float32),
        user_bias=rng.normal(0, 1, n_users).astype(np.float32),
        linked=linked,
        weight=symmetric(rng, len(linked)),
        typical_degree=4.0,
        unknown_bias=-3.0,
        user_precision=1.0,
    )
    rated = rng.random((n_users, n_items)) < share
    rated[0], rated[-1] = False, True
    return Case(presence, rated)


RISE = np.random.default_rng(3).normal(0, 0.1, len(KNOTS)).astype(np.float32)
LINKED = {"all": range(13), "some": [1, 2, 4, 5, 7, 8, 11], "one": [3], "none": []}


@pytest.fixture(params=LINKED.values(), ids=LINKED)
def case(request):
    return random_case(request.param)


def evidence_of(case, threads=1):
    return ConditionedPresence(case.presence, rows_of(case.rated), threads)


def everybody(case):
    return np.arange(len(case.rated), dtype=np.int32)


def whole_weight(presence):
    """Links between all items, (items, items); zero where there is none."""
    weight = np.zeros((len(presence.item_bias),) * 2)
    weight[np.ix_(presence.linked, presence.linked)] = presence.weight
    return weight


def gains(presence, rated):
    """Degree normalisation by the number of items rated, along the last axis."""
    return np.sqrt(presence.typical_degree / np.maximum(rated.sum(axis=-1), 1))


def plain_log_odds(weight, bias, user_bias, gain, rated):
    """(users, items); weight is (items rated, items asked for)."""
    return user_bias[:, None] + bias + gain[:, None] * (rated @ weight)


def case_log_odds(case):
    """(users, items), each scaled by the number of the user's other ratings."""
    presence, rated = case
    others = rated[:, None, :] & ~np.eye(rated.shape[1], dtype=bool)
    scale = gains(presence, others)
    bias = presence.item_bias.astype(float) + presence.user_bias.astype(float)[:, None]
    return bias + scale * (rated @ whole_weight(presence))


def plain_loss(weight, bias, user_bias, gain, rated, times=1.0):
    """-log pseudo-likelihood of all presences and absences; `times` is (users, items)."""
    odds = plain_log_odds(weight, bias, user_bias, gain, rated)
    return (times * (np.logaddexp(0, odds) - rated * odds)).sum()


# -- log-odds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_log_odds(case, threads):
    found = evidence_of(case, threads).log_odds(everybody(case))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, case_log_odds(case), **CLOSE)


def test_users_may_come_in_any_order_and_again(case):
    conditioned = evidence_of(case, 2)
    users = np.random.default_rng(1).integers(-1, len(case.rated), 25).astype(np.int32)
    expected = np.concatenate([conditioned.log_odds(everybody(case)), [case.presence.item_bias]])
    np.testing.assert_array_equal(conditioned.log_odds(users), expected[users])
    assert conditioned.log_odds(users[:0]).shape == (0, 13)


@pytest.mark.parametrize("threads", [1, 3])
def test_log_odds_of_pairs(case, threads, monkeypatch):
    monkeypatch.setattr(presences, "PAIRS_TO_SHARE", 1)
    rng = np.random.default_rng(2)
    users, items = rng.integers(-1, 9, 200), rng.integers(-1, 13, 200)
    users, items = users.astype(np.int32), items.astype(np.int32)
    found = evidence_of(case, threads).pair_log_odds(users, items)
    assert found.dtype == np.float32
    presence = case.presence
    odds = np.full((10, 14), presence.unknown_bias)  # strangers at index -1
    odds[:9, :13] = case_log_odds(case)
    odds[9, :13] = presence.item_bias
    odds[:9, 13] += presence.user_bias
    np.testing.assert_allclose(found, odds[users, items], **CLOSE)
    raised = evidence_of(case._replace(presence=replace(presence, recalibration=RISE)))
    odds[:9] += np.interp(odds[:9], KNOTS, RISE) * (case.rated.sum(axis=1, keepdims=True) > 0)
    found = raised.pair_log_odds(users, items)
    np.testing.assert_allclose(found, odds[users, items], **CLOSE)
    assert len(evidence_of(case).pair_log_odds(users[:0], items[:0])) == 0


@pytest.mark.parametrize("recalibration", [np.zeros_like(KNOTS), RISE], ids=["plain", "mapped"])
def test_a_pairs_own_rating_never_enters(case, recalibration):
    """Neither through links nor through the number of ratings, nor as the only rating there is."""
    presence = replace(case.presence, recalibration=recalibration)
    rated = case.rated.copy()
    rated[1] = np.arange(rated.shape[1]) == 2
    odds = ConditionedPresence(presence, rows_of(rated), 1).log_odds(everybody(case))
    for user, item in np.argwhere(rated):
        less = rated.copy()
        less[user, item] = False
        without = ConditionedPresence(presence, rows_of(less), 1).log_odds(everybody(case))
        np.testing.assert_allclose(odds[user, item], without[user, item], **CLOSE)
    user, item = np.argwhere(np.ones_like(rated)).T.astype(np.int32)
    pairs = ConditionedPresence(presence, rows_of(rated), 1).pair_log_odds(user, item)
    np.testing.assert_allclose(pairs, odds.ravel(), **CLOSE)


# -- the curve ------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_log_odds_rise_along_the_curve(case, threads):
    """Those of everybody who has rated something; nothing is known of how others differ."""
    scale = np.float32(8)  # beyond the ends of the curve too
    presence = replace(
        case.presence,
        item_bias=scale * case.presence.item_bias,
        weight=scale * case.presence.weight,
    )
    plain = evidence_of(case._replace(presence=presence)).log_odds(everybody(case))
    assert plain.min() < KNOTS[0]
    assert plain.max() > KNOTS[-1]
    raised = case._replace(presence=replace(presence, recalibration=RISE))
    conditioned = evidence_of(raised, threads)
    expected = plain + np.interp(plain, KNOTS, RISE) * case.rated.any(axis=1)[:, None]
    np.testing.assert_allclose(conditioned.log_odds(everybody(case)), expected, **CLOSE)
    np.testing.assert_array_equal(conditioned.potential(everybody(case)), plain)
    stranger = np.array([-1], np.int32)
    np.testing.assert_array_equal(conditioned.log_odds(stranger), [presence.item_bias])
    assert somebody(conditioned, range(3)).user_bias == pytest.approx(
        somebody(evidence_of(case._replace(presence=presence)), range(3)).user_bias
    )


def test_the_curve_is_recovered():
    """Potentials drawn together by a known curve are stretched to what they were."""
    rng = np.random.default_rng(4)
    odds = rng.normal(-2, 2, 400_000)
    potential = 0.7 * odds + 0.2
    recalibration = recalibration_map(
        cell_counts(potential, rng.random(len(odds)) < expit(odds), RULES.cells), RULES
    )
    seen = (KNOTS > -4) & (KNOTS < 2)
    np.testing.assert_allclose((KNOTS + recalibration)[seen], (KNOTS[seen] - 0.2) / 0.7, atol=0.15)


def test_the_curve_without_pairs_is_straight():
    np.testing.assert_array_equal(recalibration_map(cell_counts(*np.zeros((2, 0)), 10), RULES), 0)


def test_the_curve_always_rises():
    """Even if the less likely are rated and the more likely are not."""
    potential = np.repeat([-6.0, -2.0, 1.0, 30.0], 1000)
    recalibration = recalibration_map(cell_counts(potential, potential < 0, RULES.cells), RULES)
    assert np.diff(KNOTS + recalibration).min() > 0.04
    assert np.abs(recalibration).max() > 1


def test_the_curve_is_the_most_likely_one_made_to_rise():
    """By another minimiser; where it would fall, each knot counts by the curvature there."""
    rng = np.random.default_rng(2)
    potential = rng.uniform(-7, 1, 4000)
    rated = rng.random(4000) < expit(np.where(potential < -3, -1.0, potential - 2.0))
    counts = cell_counts(potential, rated, RULES.cells)
    place = np.arange(counts.shape[1]) / RULES.cells
    between = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(len(KNOTS))))
    at = between @ KNOTS
    change = np.diff(np.eye(len(KNOTS)), axis=0)
    precision = RULES.smoothness * change.T @ change + RULES.height * np.eye(len(KNOTS))

    def loss(rise):
        z = at + between @ rise
        slope = between.T @ (counts[0] * expit(z) - counts[1]) + precision @ rise
        value = counts[0] @ np.logaddexp(0, z) - counts[1] @ z + rise @ precision @ rise / 2
        return value, slope

    best = minimize(loss, np.zeros(len(KNOTS)), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    even = np.eye(len(KNOTS)) * 1e-5
    curvature = [(loss(best + e)[1] - loss(best - e)[1]) @ e / (2 * 1e-10) for e in even]
    least = RULES.least_slope * (KNOTS - KNOTS[0])
    expected = isotonic_regression(KNOTS + best - least, weights=curvature).x + least - KNOTS
    assert np.abs(expected - best).max() > 0.1  # it does fall somewhere
    np.testing.assert_allclose(recalibration_map(counts, RULES), expected, atol=1e-4)


def test_pairs_are_counted_once():
    rng = np.random.default_rng(6)
    potential, rated = rng.normal(-3, 6, 5000), rng.random(5000) < 0.3
    assert cell_counts(potential, rated, 10).sum(axis=1).tolist() == [5000, rated.sum()]


def test_newcomers_are_told_what_is_so(known):
    """Strong priors draw probabilities together; the curve is of people not seen before."""
    rated = known[2]
    found = learnt(rated[:1500], precision=500.0)

    def error(presence):
        conditioned = ConditionedPresence(presence, rows_of(rated[:1500]), 1)
        odds = [
            somebody(conditioned, np.flatnonzero(one)).log_odds(np.zeros(1, np.int32))[0]
            for one in rated[1500:]
        ]
        proba = expit(np.array(odds, float)).ravel()
        place = (proba * 20).astype(int)
        excess = np.bincount(place, proba - rated[1500:].ravel(), 20)
        return np.abs(excess).sum() / len(proba)

    straight = error(replace(found, recalibration=np.zeros_like(KNOTS)))
    assert error(found) < 0.4 * straight
    assert straight > 0.02


def test_the_curve_is_of_people_not_seen_before(known):
    """Every tenth by how much they rated; what is asked about them is learnt from the others."""
    rated = known[2][:95].copy()
    rated[[3, 50]] = False  # who rated nothing is nobody
    rows, degree = rows_of(rated), rated.sum(axis=1)
    rules = PresenceRules(least_linked=3, most_unseen=6)  # 93 people: every sixteenth
    found = learnt(rated, rules, precision=2.0)
    unseen = np.argsort(degree, kind="stable")[2:][8::16]
    assert len(unseen) == 6
    others = rated.copy()
    others[unseen] = False
    conditioned = ConditionedPresence(learnt(others, rules, precision=2.0), rows_of(others), 1)
    counts = np.zeros((2, rules.cells * (len(KNOTS) - 1) + 1))
    for user in unseen:
        alone = somebody(conditioned, np.flatnonzero(rated[user]))
        potential = alone.potential(np.zeros(1, np.int32))[0]
        counts += cell_counts(potential, rated[user], rules.cells)
    np.testing.assert_array_equal(found.recalibration, recalibration_map(counts, rules))
    assert np.abs(found.recalibration).max() > 0.1
    assert rows.n_rows == len(found.user_bias)


def test_the_precision_of_links_follows_the_number_of_users(known):
    rated = known[2][:130].copy()
    rated[:5] = False  # who rated nothing is nobody: 125 are left, whose cube root is 5
    by_rule = learnt(rated, PresenceRules(precision=3.0), precision=None)
    told = learnt(rated, precision=15.0)
    np.testing.assert_array_equal(by_rule.weight, told.weight)
    assert not np.array_equal(by_rule.weight, learnt(rated, precision=16.0).weight)


# -- enumeration ----------------------------------------------------------------------------------


def states(n_items):
    """All sets of items, (2^items, items), in the order of their binary numbers."""
    return np.arange(2**n_items)[:, None] >> np.arange(n_items) & 1


def presence_energy(presence, user, gain):
    """The energy of each set of items that a user may have rated, (2^items,)."""
    x = states(len(presence.item_bias))
    weight = np.triu(whole_weight(presence), 1)
    own = presence.item_bias.astype(float) + presence.user_bias[user]
    return -(x @ own) - gain * np.einsum("xi,ij,xj->x", x, weight, x)


def enumerated_rated(presence, rated):
    """P(rated | all else the user has rated), (users, items), from the energies of all sets."""
    found = np.zeros(rated.shape)
    for user in range(len(rated)):
        here = int(rated[user] @ 2 ** np.arange(rated.shape[1]))
        for item in range(rated.shape[1]):
            gain = gains(presence, np.delete(rated[user], item))
            mass = np.exp(-presence_energy(presence, user, gain))
            present, absent = mass[here | 1 << item], mass[here & ~(1 << item)]
            found[user, item] = present / (present + absent)
    return found


@pytest.mark.parametrize("linked", [range(8), [0, 3, 4, 6], []], ids=["all", "some", "none"])
def test_log_odds_are_those_of_the_enumerated_machine(linked):
    case = random_case(linked, n_users=6, n_items=8)
    found = expit(evidence_of(case).log_odds(everybody(case)).astype(float))
    np.testing.assert_allclose(found, enumerated_rated(*case), rtol=1e-5)


@pytest.mark.parametrize("kind", ["ordinal", "categorical"])
def test_absent_and_all_levels_by_enumeration(kind):
    """One state more than levels: *absent*, of energy 0, beside levels that share the rest."""
    machine, ratings, table = referee.case(kind, "joint", "both")
    n_users, n_items = table.shape
    presence = random_case([0, 1, 3], n_users, n_items).presence
    model = OrdinalBM(kind)
    model._fitted = FittedModel(
        IdMap(range(n_users)), IdMap(range(n_items)), RatingScale([1, 2, 3]), None, [machine],
        ratings, 1, presence=presence,
    )  # fmt: skip
    hidden = referee.configurations(machine, table)
    rated = enumerated_rated(presence, ~np.isnan(table))
    for user, item in np.ndindex(table.shape):
        levels = referee.conditional(machine, table, user, item, hidden)
        odds = np.log(rated[user, item]) - np.log1p(-rated[user, item])
        energy = np.concatenate([[0.0], -(odds + np.log(levels))])
        expected = np.exp(-energy) / np.exp(-energy).sum()
        present = model.rated_proba(user, item)
        found = np.concatenate([1 - present, present * model.predict_proba(user, item)[0]])
        assert found.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


# -- the loss and its gradient --------------------------------------------------------------------


def loss_case(seed=0, n_users=24, n_items=6):
    """(loss, parameters in single precision, the same for the referee, gains, presences)."""
    case = random_case(range(n_items), n_users, n_items, seed)
    rng = np.random.default_rng(seed + 1)
    weight = rng.normal(0, 0.5, (n_items, n_items)).astype(np.float32)  # each end by itself
    parameters = weight, case.presence.item_bias, case.presence.user_bias
    gain = gains(case.presence, case.rated).astype(np.float32)
    loss = PresenceLoss(rows_of(case.rated), n_items, gain, 1)
    return loss, parameters, [value.astype(float) for value in parameters], gain, case.rated


@pytest.mark.parametrize("threads", [1, 3])
def test_loss_and_gradient_by_finite_differences(threads):
    loss, parameters, plain, gain, rated = loss_case()
    loss.threads = threads

    def expected():
        return plain_loss(*plain, gain.astype(float), rated)

    value, *gradient = loss(*parameters)
    assert value == pytest.approx(expected(), rel=1e-5)
    for found, array in zip(gradient, plain, strict=True):
        slope = referee.finite_differences(expected, array, step=1e-4)
        assert np.abs(slope).max() > 0.1
        np.testing.assert_allclose(found, slope, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("far", [-200.0, -30.0, 30.0, 200.0])
def test_loss_far_from_even_odds(far):
    loss, (weight, bias, user_bias), plain, gain, rated = loss_case()
    bias, plain[1] = bias + np.float32(far), plain[1] + far
    value, *gradient = loss(weight, bias, user_bias)
    assert value == pytest.approx(plain_loss(*plain, gain.astype(float), rated), rel=1e-5)
    residual = expit(plain_log_odds(*plain, gain, rated)) - rated
    np.testing.assert_allclose(gradient[1], residual.sum(axis=0), **CLOSE)
    np.testing.assert_allclose(gradient[2], residual.sum(axis=1), **CLOSE)


def test_blocks_of_users_change_nothing(monkeypatch):
    loss, parameters, *_ = loss_case()
    assert len(user_blocks(24, 6)) == 1
    whole = loss(*parameters)
    monkeypatch.setattr(learning, "LOG_ODDS_BYTES", 5 * 4 * 6)  # five users
    assert [(block.start, block.stop) for block in user_blocks(24, 6)] == [
        (0, 5), (5, 10), (10, 15), (15, 20), (20, 24),
    ]  # fmt: skip
    for found, expected in zip(loss(*parameters), whole, strict=True):
        np.testing.assert_allclose(found, expected, **CLOSE)


# -- some of the users ----------------------------------------------------------------------------


def test_as_many_users_as_the_budget_allows_drawn_by_the_seed():
    rated = np.random.default_rng(0).random((3000, 8)) < 0.3
    rows, total = rows_of(rated), rated.sum()
    assert learning._some_users(rows, total, 0).tolist() == list(range(3000))
    first, again, other = (learning._some_users(rows, total / 3, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (np.diff(first) > 0).all()
    assert len(np.intersect1d(first, other)) < 0.5 * len(first)
    for some in (first, other):
        assert total / 3 - 8 < rated[some].sum() <= total / 3
        # Whoever they are and whatever they rated, they are drawn alike.
        np.testing.assert_allclose(rated[some].mean(axis=0), rated.mean(axis=0), atol=0.08)
        assert some.mean() == pytest.approx(1500, abs=150)


def test_hardly_any_budget_leaves_a_few_users():
    rows = rows_of(np.ones((300, 3), bool))
    assert len(learning._some_users(rows, 0, 0)) == learning.FEWEST_USERS
    assert len(learning._some_users(rows_of(np.ones((7, 3), bool)), 0, 0)) == 7


# -- learning -------------------------------------------------------------------------------------


def learnt(rated, rules=RULES, **told):
    options = {"precision": 5.0, "budget": 1e9, "seed": 0, "threads": 1, "tell": lambda _: None}
    return learn_presence(rows_of(rated), rated.shape[1], rules=rules, **options | told)


def drawn(weight, bias, n_users, sweeps=40, seed=0):
    """Presences of users by Gibbs sampling from the machine with these links and a gain of one."""
    rng = np.random.default_rng(seed)
    rated = rng.random((n_users, len(bias))) < 0.5
    for _ in range(sweeps):
        for item in range(len(bias)):
            rated[:, item] = rng.random(n_users) < expit(bias[item] + rated @ weight[item])
    return rated


@pytest.fixture(scope="module")
def known():
    """A machine of 20 items and the presences of 3,000 users; 0–1–2 is a chain."""
    rng = np.random.default_rng(5)
    weight = np.zeros((20, 20))
    weight[0, 1] = weight[1, 2] = 2.0
    for i, j in rng.permutation([*combinations(range(3, 20), 2)])[:20]:
        weight[i, j] = rng.choice([-1.2, 1.2])
    weight += weight.T
    bias = rng.uniform(-1.5, -0.5, 20)
    return weight, bias, drawn(weight, bias, 3000)


def test_links_are_recovered(known, monkeypatch):
    """With the gain they were drawn with, in size; users have no bias of their own there."""
    weight, bias, rated = known
    monkeypatch.setattr(Presence, "degree_scale", lambda _, count: np.ones(len(count), np.float32))
    rules = PresenceRules(iterations=60, user_precision=1e4)
    found = learnt(rated, rules, precision=1.0)
    np.testing.assert_allclose(found.weight, weight, atol=0.4)
    assert np.abs(found.weight - weight).mean() < 0.1
    assert np.abs(found.item_bias - bias).mean() < 0.2


def test_the_pattern_of_links_is_recovered(known):
    weight, _, rated = known
    found = learnt(rated).weight
    assert found[weight > 0].min() > found[weight == 0].max()
    assert found[weight < 0].max() < found[weight == 0].min()
    # Items 0 and 2 are often rated together, but only by way of item 1.
    assert np.corrcoef(rated.T)[0, 2] > 0.15
    assert found[0, 2] < 0.3 * min(found[0, 1], found[1, 2])


def test_links_are_symmetric_and_never_with_oneself(known):
    found = learnt(known[2][:300])
    np.testing.assert_array_equal(found.weight, found.weight.T)
    assert not found.weight.diagonal().any()
    assert np.abs(found.weight).max() > 0.1


def test_a_minimum_is_reached(known):
    """With many steps the penalised loss has no slope left, by the referee's own differences."""
    rated = known[2][:60, :8]
    rated = rated[rated.any(axis=1)]  # those without ratings have no say
    precision = 3.0

    def slope_of(found, array):
        weight, bias, user_bias = (
            np.array(value, float) for value in (found.weight, found.item_bias, found.user_bias)
        )
        upper = np.triu(weight)  # a link is one parameter

        def value():
            weight = upper + upper.T
            return (
                plain_loss(weight, bias, user_bias, gains(found, rated), rated)
                + precision / 2 * (upper**2).sum()
                + RULES.user_precision / 2 * (user_bias**2).sum()
            )

        parameters = {"weight": upper, "item_bias": bias, "user_bias": user_bias}
        slope = referee.finite_differences(value, parameters[array], step=1e-4)
        return np.triu(slope, 1) if array == "weight" else slope

    for iterations in (0, 100):
        rules = PresenceRules(iterations=iterations, levellings=0)
        found = learnt(rated, rules, precision=precision)
        assert len(found.linked) == rated.shape[1]
        for array in ("weight", "item_bias", "user_bias"):
            slope = np.abs(slope_of(found, array)).max()
            assert slope > 0.5 if iterations == 0 else slope < 0.01


def test_biases_are_levelled(known):
    """Items are expected to be rated as often as they were, though the descent has ended early."""
    rated = known[2]

    def excess(levellings):
        rules = PresenceRules(iterations=2, levellings=levellings)
        conditioned = ConditionedPresence(learnt(rated, rules), rows_of(rated), 1)
        expected = expit(conditioned.potential(np.arange(len(rated))).astype(np.float64))
        return np.abs(expected.sum(axis=0) - rated.sum(axis=0)).max()

    assert excess(8) < 0.2 * excess(0)


def test_levelled_users_and_items_by_hand():
    """sum sigmoid(z + c) + precision c is what a user rated; then b += log(count / expected)."""
    rng = np.random.default_rng(1)
    rated = rng.random((40, 5)) < 0.4
    rated[0], rated[1] = False, True
    weight = np.triu(rng.normal(0, 0.5, (5, 5)), 1)
    weight = (weight + weight.T).astype(np.float32)
    bias = rng.normal(0, 1, 5).astype(np.float32)
    scale = rng.uniform(0.5, 2, 40).astype(np.float32)
    user_bias = rng.normal(0, 1, 40).astype(np.float32)
    rules = PresenceRules(levellings=1, user_precision=0.7)
    found = learning._level_biases(rows_of(rated), scale, weight, bias, user_bias, rules, 2)
    odds = (rated @ weight.astype(float)) * scale[:, None] + bias + user_bias[:, None]
    proba = expit(odds)
    np.testing.assert_allclose(proba.sum(axis=1) + 0.7 * user_bias, rated.sum(axis=1), atol=1e-3)
    np.testing.assert_allclose(
        found - bias, np.log(rated.sum(axis=0) / proba.sum(axis=0)), atol=1e-4
    )


def test_a_stronger_prior_draws_links_to_zero(known):
    rated = known[2][:500]
    size = [np.abs(learnt(rated, precision=p).weight).sum() for p in (1.0, 30.0, 1e6)]
    assert size[0] > 1.5 * size[1] > 100 * size[2]


@pytest.mark.parametrize("budget", [1e9, 20_000])
def test_threads_change_no_bit(known, budget, monkeypatch):
    monkeypatch.setattr(learning, "LOG_ODDS_BYTES", 50 * 4 * 20)
    rated = known[2][:501]
    found = [learnt(rated, threads=threads, budget=budget) for threads in (1, 2, 3)]
    for other in found[1:]:
        for name in ("item_bias", "user_bias", "linked", "weight"):
            assert getattr(other, name).tobytes() == getattr(found[0], name).tobytes()
        assert (other.typical_degree, other.unknown_bias) == (
            found[0].typical_degree,
            found[0].unknown_bias,
        )


def test_links_of_some_users_are_nearly_those_of_all(known):
    """Another seed draws others; biases are everybody's: all are expected as often as they were."""
    rated = known[2]
    work = rated.sum() * rated.shape[1]
    exact, half, other = (
        learnt(rated, budget=share * work, seed=seed)
        for share, seed in ((1, 0), (0.5, 0), (0.5, 1))
    )
    for found in (half, other):
        assert np.corrcoef(found.weight.ravel(), exact.weight.ravel())[0, 1] > 0.95
        assert np.abs(found.weight - exact.weight).max() > 0.01
        expected = ConditionedPresence(found, rows_of(rated), 1).potential(np.arange(len(rated)))
        np.testing.assert_allclose(expit(expected).sum(axis=0), rated.sum(axis=0), rtol=0.1)
        assert np.corrcoef(found.user_bias, exact.user_bias)[0, 1] > 0.99
    assert np.abs(half.weight - other.weight).max() > 0.01


@pytest.mark.parametrize("budget", [0.0, 1.0])
def test_hardly_any_budget(known, budget):
    found = learnt(known[2][:200], budget=budget)
    odds = ConditionedPresence(found, rows_of(known[2][:200]), 1).log_odds(np.arange(200))
    assert np.isfinite(odds).all()


def test_rarely_rated_items_have_no_links(known):
    rated = np.concatenate([known[2][:100, :8], np.zeros((100, 3), bool)], axis=1)
    rated[: RULES.least_linked, 8] = True
    rated[: RULES.least_linked - 1, 9] = True
    found = learnt(rated)
    assert found.linked.tolist() == list(range(9))
    # Those without links are expected to be rated as often as they were.
    for item, count in ((9, RULES.least_linked - 1), (10, 0)):
        expected = expit(found.user_bias.astype(np.float64) + found.item_bias[item]).sum()
        assert expected == pytest.approx((count + 0.5) * 100 / 101, rel=1e-5)
    assert found.item_bias[10] == pytest.approx(found.unknown_bias, rel=1e-5)
    potential = ConditionedPresence(found, rows_of(rated), 1).potential(np.arange(100))
    np.testing.assert_allclose(potential[:, 9] - found.user_bias, found.item_bias[9], **CLOSE)


def test_only_so_many_items_have_links(known):
    rated = known[2][:300]
    found = learnt(rated, PresenceRules(most_linked=5))
    assert found.linked.tolist() == sorted(np.argsort(-rated.sum(axis=0), kind="stable")[:5])
    assert found.weight.shape == (5, 5)


def odd_tables():
    some = np.random.default_rng(0).random((30, 6)) < 0.5
    some[0] = True
    yield "no item is linked", some[:8]
    yield "one rating", np.ones((1, 1), bool)
    yield "one user", np.ones((1, 12), bool)
    yield "one item", np.ones((30, 1), bool)
    yield "one item, some users", some[:, :1]
    without = np.concatenate([some, np.zeros((30, 1), bool)], axis=1)
    without[3], without[4] = False, False
    without[3, 6] = True
    yield "a user without linked ratings, one without any", without
    yield "everything rated by everybody", np.ones((20, 5), bool)


ODD = dict(odd_tables())


@pytest.mark.parametrize("precision", [0.0, 5.0])
@pytest.mark.parametrize("budget", [0.0, 1e9])
@pytest.mark.parametrize("rated", ODD.values(), ids=ODD)
def test_odd_tables(rated, budget, precision):
    found = learnt(rated, budget=budget, precision=precision)
    enough = rated.sum(axis=0) >= RULES.least_linked
    assert found.linked.tolist() == np.flatnonzero(enough).tolist()
    users = np.arange(-1, len(rated))
    odds = ConditionedPresence(found, rows_of(rated), 2).log_odds(users)
    assert np.isfinite(odds).all()
    assert np.abs(odds).max() < 50
    if rated.all() and enough.all():
        assert (odds[1:] > 0).all()


def test_progress_is_told(known):
    told = []
    learnt(known[2][:50], tell=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(told) > 3


# -- in a model -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pairs():
    """Users, items and ratings of 60 users and 14 items, the last of them rarely rated."""
    rng = np.random.default_rng(6)
    share = np.linspace(0.8, 0.05, 14)
    user, item = np.nonzero(rng.random((60, 14)) < share)
    return user, item, rng.integers(1, 6, len(user))


def all_pairs(users, items):
    return [user for user in users for _ in items], [item for _ in users for item in items]


@pytest.fixture(scope="module")
def model(pairs):
    return OrdinalBM(**TINY).fit(Ratings(*pairs))


def test_labels_and_order_do_not_matter(model, pairs):
    user, item, rating = pairs
    rng = np.random.default_rng(7)
    order = rng.permutation(len(user))
    names = [f"user {number}" for number in rng.permutation(60)]
    titles = [(number, "title") for number in rng.permutation(14).tolist()]
    other = OrdinalBM(**TINY).fit(
        Ratings(
            [names[user[place]] for place in order],
            [titles[item[place]] for place in order],
            rating[order],
        )
    )

    def potential(model, users, items):
        """Who is left out for the curve depends on the order."""
        proba = model.rated_proba(*all_pairs(users, items))
        return referee.potential_of(proba, model._state.presence.recalibration)

    expected = potential(model, range(60), range(14))
    np.testing.assert_allclose(potential(other, names, titles), expected, rtol=1e-3, atol=2e-3)
    assert expected.std() > 1


def test_ratings_themselves_do_not_matter(model, pairs):
    """Only who rated what: not the features, and not the scale."""
    user, item, rating = pairs
    expected = model.rated_proba(*all_pairs(range(60), range(14)))
    noise = np.random.default_rng(8).random(len(user))
    for told, ratings in (
        ({"features": "gaussian"}, Ratings(*pairs)),
        ({"features": "categorical", "sides": "user"}, Ratings(user, item, 6 - rating)),
        ({}, Ratings(user, item, rating + noise, "continuous")),
    ):
        other = OrdinalBM(**TINY | told).fit(ratings)
        found = other.rated_proba(*all_pairs(range(60), range(14)))
        assert found.tobytes() == expected.tobytes()
        assert len(other.recommend(3, n=4)) == 4


def test_strangers_have_probabilities(model):
    nobody, nothing = model.rated_proba([-1] * 14, range(14)), model.rated_proba(3, -1)
    presence, items = model._state.presence, model._state.items.codes(range(14))
    np.testing.assert_allclose(nobody, expit(presence.item_bias[items]), rtol=1e-5)
    potential = presence.unknown_bias + presence.user_bias[3]
    raised = potential + np.interp(potential, KNOTS, presence.recalibration)
    assert nothing[0] == pytest.approx(expit(raised), rel=1e-5)
    assert nothing[0] != pytest.approx(expit(potential), rel=1e-3)  # as if there were no map
    both = model.rated_proba(-1, -1)[0]
    assert both == pytest.approx(expit(presence.unknown_bias), rel=1e-5)
    assert 0 < both < nobody.min()


def test_probabilities_are_about_as_large_as_shares(model, pairs):
    """Expected and observed counts: of all, of each item, and of users by how much they rate."""
    user, item, _ = pairs
    found = model.rated_proba(*all_pairs(range(60), range(14))).reshape(60, 14)
    assert found.sum() == pytest.approx(len(user), rel=0.03)
    np.testing.assert_allclose(found.sum(axis=0), np.bincount(item, minlength=14), atol=3)
    assert np.corrcoef(found.sum(axis=1), np.bincount(user, minlength=60))[0, 1] > 0.9


def test_a_model_without_presence_says_what_to_do(pairs):
    model = OrdinalBM(**TINY, presence=False).fit(Ratings(*pairs))
    with pytest.raises(SettingsError, match=r"fit OrdinalBM\(presence=True\)"):
        model.rated_proba(1, 1)


@pytest.mark.parametrize("wrong", [1, "yes", 0.5])
def test_presence_is_true_or_false(wrong):
    with pytest.raises(SettingsError, match=f"presence={wrong!r}: use True or False"):
        OrdinalBM(presence=wrong)


@pytest.mark.parametrize("name", ["presence_precision", "presence_budget"])
@pytest.mark.parametrize("wrong", [-1, "many", float("nan")])
def test_amounts_are_numbers(name, wrong):
    with pytest.raises(SettingsError, match=f"{name}={wrong!r}: must be a number, 0 or more"):
        OrdinalBM(**{name: wrong})


# -- somebody new ---------------------------------------------------------------------------------


def test_same_ratings_same_log_odds_up_to_the_bias(case):
    known = evidence_of(case)
    for user, row in enumerate(case.rated):
        items = np.random.default_rng(user).permutation(np.flatnonzero(row))  # in any order
        found = somebody(known, items)
        mine = found.log_odds(np.zeros(1, np.int32))[0] - found.user_bias[0]
        own = known.log_odds(np.array([user]))[0] - case.presence.user_bias[user]
        np.testing.assert_allclose(mine, own, **CLOSE)
        for item in range(13):
            expected = [
                (other, pytest.approx(added, abs=1e-5))
                for other, added in known.reasons(user, item, 4)
            ]
            assert found.reasons(0, item, 4) == expected


def test_somebody_new_is_expected_to_rate_as_many_as_they_did(case):
    for user, row in enumerate(case.rated):
        found = somebody(evidence_of(case), np.flatnonzero(row))
        bias = found.user_bias[0]
        odds = found.log_odds(np.zeros(1, np.int32))[0].astype(float)
        count, expected, before = row.sum(), expit(odds).sum(), expit(odds - bias).sum()
        if user == 0:
            assert bias == 0
            continue
        # The bias is the most probable one: there the prior and what is missing are in balance.
        assert expected + RULES.user_precision * bias == pytest.approx(count, abs=1e-3)
        assert abs(expected - count) < abs(before - count)
        assert (bias > 0) == (before < count)


def test_somebody_new_without_ratings_is_a_stranger(case):
    found = somebody(evidence_of(case), [])
    np.testing.assert_array_equal(found.log_odds(np.zeros(1, np.int32))[0], case.presence.item_bias)
    assert found.reasons(0, 3, 5) == []


def test_ratings_of_linked_items_alone(case):
    rows = linked_rows(rows_of(case.rated), case.presence.linked, 13)
    user, place = np.nonzero(case.rated[:, case.presence.linked])
    np.testing.assert_array_equal(rows.row, user)
    np.testing.assert_array_equal(rows.column, place)
