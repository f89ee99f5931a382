"""The Gibbs sampler's long-run distribution is the machine's, and long chains give its gradient.

Many users with the same ratings are one pass of contrastive divergence with as many independent
chains; what the pass drew is read from its workspace. Every test here is statistical with a fixed
seed, so it either always passes or always fails; over seeds, each would raise a false alarm with a
probability below 1e-6 (chi-square tests: p < 1e-6; z-tests: |z| < 6 for at most 100 numbers). The
chains take STEPS steps; the machines are weak enough that what they remember of their start is far
below the errors of sampling.
"""

from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

import referee
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.model.learners import ContrastiveDivergence
from ordbm.training.alternation import Trainer

STEPS = 60
COPIES = 20_000
WIDEST = 6.0  # of |z|
FALSE_ALARM = 1e-6
LEARNER = ContrastiveDivergence(
    rate=1.0, block_rows=referee.ONE_BLOCK, shared_potential=True, steps=STEPS
)


def sampled(machine, rows, other=None):
    """One pass over COPIES of the given users' ratings: the machine after it, and what it drew.

    The samples are (COPIES times users, items), NaN where a user has no rating; `other` (items, n)
    are scores that the other side adds.
    """
    table = np.tile(rows, (COPIES, 1))
    ratings = referee.orientations(table, machine)
    moved = referee.copied(machine)
    trainer = Trainer(moved, ratings, LEARNER, seed=7)
    training = trainer.sides[0]
    scores = trainer.scored
    if other is not None:
        scores = np.empty((len(ratings.by_user.column), len(other[0])))
        scores[training.score_of] = other[ratings.by_user.column]
    training.learn(0, moved.level_bias, trainer.level_velocity, scores)
    (block,), sample = training.blocks, training.workspace.sample
    drawn = sample.value if machine.features.is_gaussian else sample.level
    found = np.full(table.shape, np.nan)
    for row, slot in zip(block.row, block.row_slot[:-1], strict=True):
        seen = np.flatnonzero(~np.isnan(table[row]))
        found[row, seen] = drawn[slot : slot + len(seen)]
    return moved, found


def fillings(row, n_levels):
    """Every way to give levels to the items that a user rated, as tables of one user."""
    seen = np.flatnonzero(~np.isnan(row))
    for levels in product(range(n_levels), repeat=len(seen)):
        filled = np.full((1, len(row)), np.nan)
        filled[0, seen] = levels
        yield filled


def probabilities(machine, row, other=None):
    """(tables, P) of all fillings of a user's ratings, by enumeration."""
    tables = list(fillings(row, machine.features.n_levels))
    hidden = referee.configurations(machine, tables[0])
    weight = np.array([referee.log_weight(machine, table, hidden) for table in tables])
    if other is not None:
        for number, table in enumerate(tables):
            for item in np.flatnonzero(~np.isnan(row)):
                weight[number] += other[item, int(table[0, item])]
    return tables, referee.softmax(weight)


def chi_square_tail(count, proba):
    """P(a chi-square this large), with states expected fewer than 20 times taken as one."""
    expected = count.sum() * proba
    state = np.where(expected < 20, 0, 1 + np.arange(len(count)))
    seen = np.bincount(state, count)
    expected = np.bincount(state, expected)
    seen, expected = seen[expected > 0], expected[expected > 0]
    assert len(expected) > 15
    return chi2.sf(((seen - expected) ** 2 / expected).sum(), len(expected) - 1)


def discrete_machine(kind, links):
    spread = 0.6 if kind == "categorical" else 0.3
    return referee.random_machine(np.random.default_rng(11), kind, "user", links, spread=spread)


@pytest.mark.parametrize("other_side", [False, True])
@pytest.mark.parametrize("links", ["none", "items"])
@pytest.mark.parametrize("kind", ["categorical", "ordinal"])
def test_sampled_levels_follow_the_machine(kind, links, other_side):
    """Chi-square over all 27 states of a user's three ratings, one from each of 20,000 chains."""
    machine = discrete_machine(kind, links)
    row = np.array([2.0, 0.0, np.nan, 1.0])
    other = np.random.default_rng(3).normal(0, 0.5, (4, 3)) if other_side else None
    _, drawn = sampled(machine, row[None], other)
    tables, expected = probabilities(machine, row, other)
    state = (drawn[:, [0, 1, 3]] @ [9, 3, 1]).astype(int)
    count = np.bincount(state, minlength=27)
    assert len(tables) == 27
    assert chi_square_tail(count, expected) > FALSE_ALARM
    # The test has power: it would notice a machine without its couplings, or without its links.
    plain = discrete_machine(kind, links)
    (plain.user_side.parameters.link_weight if links == "items" else plain.level_bias)[:] = 0
    _, wrong = probabilities(plain, row, other)
    assert chi_square_tail(count, wrong) < FALSE_ALARM


def gaussian_machine(links):
    return referee.random_machine(
        np.random.default_rng(13), "gaussian", "user", links, spread=0.6, link_spread=0.2
    )


def normal_mixture(machine, n_items):
    """(weights, means (states, items), covariance, states) of a user who rated all items.

    Given the hidden units, -E = c + b r - r A r / 2 with A = I - links.
    """
    p, d = machine.user_side.parameters, machine.user_side.n_hidden
    A = np.eye(n_items)
    for i, j, edge in referee.edges(machine.user_side.links):
        A[i, j] = A[j, i] = -p.link_weight[edge, 0]
    assert np.linalg.eigvalsh(A).min() > 0.3
    states = np.array(list(product((0.0, 1.0), repeat=d)))
    b = machine.level_bias[0] + p.rating_bias[:, 0] + states @ p.coupling[:, 0, :d].T
    means = b @ np.linalg.inv(A)
    weight = referee.softmax(states @ p.hidden_bias[:d] + 0.5 * (b * means).sum(axis=1))
    return weight, means, np.linalg.inv(A), states


@pytest.mark.parametrize("links", ["none", "items"])
def test_sampled_gaussian_ratings_follow_the_machine(links):
    """z-tests of the four means and ten second moments, over 20,000 chains."""
    machine = gaussian_machine(links)
    _, drawn = sampled(machine, np.array([[1.0, -0.5, 0.25, 2.0]]))
    weight, means, covariance, _ = normal_mixture(machine, 4)
    first = drawn.mean(axis=0) - weight @ means
    assert np.abs(first / (drawn.std(axis=0) / np.sqrt(COPIES))).max() < WIDEST
    expected = covariance + np.einsum("m,mi,mj->ij", weight, means, means)
    products = np.einsum("ui,uj->uij", drawn, drawn)
    second = products.mean(axis=0) - expected
    assert np.abs(second / (products.std(axis=0) / np.sqrt(COPIES))).max() < WIDEST


# Long chains give the likelihood's gradient


def statistics(machine, table):
    """d(-E)/d parameter of one user's ratings with P(h | ratings), in the order of `gradient`."""
    n, d = machine.features.n_levels, machine.user_side.n_hidden
    hidden = referee.hidden_posterior(machine, table)[0][0]
    n_items = table.shape[1]
    coupling, bias = np.zeros((n_items, n, d)), np.zeros((n_items, n))
    links = np.zeros(machine.user_side.parameters.link_weight.shape)
    for item in np.flatnonzero(~np.isnan(table[0])):
        level = int(table[0, item])
        coupling[item, level] = hidden
        bias[item, level] = 1
    for i, j, edge in referee.edges(machine.user_side.links):
        if not np.isnan(table[0, [i, j]]).any():
            links[edge] = machine.features.pair[:, int(table[0, i]), int(table[0, j])]
    parts = hidden, bias, coupling, links, bias.sum(axis=0)
    return np.concatenate([part.ravel() for part in parts])


def gradient(machine, moved):
    """The summed gradient that a pass followed; steps in level space are K g."""
    before, after = machine.user_side.parameters, moved.user_side.parameters
    d = machine.user_side.n_hidden
    unsmoothed = np.linalg.inv(machine.features.smoothing)
    delta = [b - a for a, b in zip(before, after, strict=True)]
    parts = (
        delta[0][:d],
        delta[1] @ unsmoothed,
        np.einsum("st,ctk->csk", unsmoothed, delta[2][:, :, :d]),
        delta[3],
        unsmoothed @ (moved.level_bias - machine.level_bias),
    )
    return np.concatenate([part.ravel() for part in parts])


USERS = np.array([[2.0, 0.0, np.nan, 1.0], [0.0, 1.0, 2.0, np.nan]])


@pytest.mark.parametrize("kind", ["categorical", "ordinal"])
def test_long_chains_give_the_gradient_of_the_likelihood(kind):
    """Within 6 standard errors (from enumeration) of E_data - E_model, for all 57 parameters."""
    machine = discrete_machine(kind, "items")
    moved, _ = sampled(machine, USERS)
    expected, variance = 0.0, 0.0
    for user in USERS:
        tables, proba = probabilities(machine, user)
        value = np.array([statistics(machine, table) for table in tables])
        mean = proba @ value
        expected = expected + statistics(machine, user[None]) - mean
        variance = variance + proba @ (value - mean) ** 2
    # rate / rows times the sum over all users is half the mean over a pair of copies
    found = 2 * gradient(machine, moved)
    error = np.sqrt(variance / COPIES)
    assert np.all(np.abs(found - expected) <= WIDEST * error + 1e-9)
    assert np.abs(expected).max() > 30 * error.max()  # there is a direction to find


def test_the_expected_gradient_is_that_of_the_likelihood():
    """E_data - E_model, by which the test above judges, against finite differences of log P."""
    machine = discrete_machine("categorical", "items")
    user = USERS[0]
    tables, proba = probabilities(machine, user)
    value = np.array([statistics(machine, table) for table in tables])
    expected = statistics(machine, user[None]) - proba @ value
    observed = next(k for k, t in enumerate(tables) if np.array_equal(t[0], user, equal_nan=True))
    p = machine.user_side.parameters
    found = []
    for array in (p.hidden_bias[:2], p.rating_bias, p.coupling[:, :, :2], p.link_weight):
        for index in np.ndindex(array.shape):
            kept = array[index]
            ends = []
            for step in (1e-5, -1e-5):
                array[index] = kept + step
                ends.append(np.log(probabilities(machine, user)[1][observed]))
            array[index] = kept
            found.append((ends[0] - ends[1]) / 2e-5)
    np.testing.assert_allclose(found, expected[:-3], atol=1e-8)


def test_long_chains_give_the_gaussian_gradient():
    """Within 6 standard errors for all 19 parameters; errors from the spread of the samples."""
    machine = gaussian_machine("items")
    row = np.array([[1.0, -0.5, 0.25, 2.0]])
    moved, drawn = sampled(machine, row)
    weight, means, covariance, states = normal_mixture(machine, 4)
    hidden = referee.hidden_posterior(machine, row)[0][0]
    ends = [(i, j) for i, j, _ in referee.edges(machine.user_side.links)]
    second = covariance + np.einsum("m,mi,mj->ij", weight, means, means)
    mean = weight @ means
    expected = np.concatenate([
        hidden - weight @ states,
        row[0] - mean,
        (row[0][:, None] * hidden - np.einsum("m,mi,mk->ik", weight, means, states)).ravel(),
        [row[0, i] * row[0, j] - second[i, j] for i, j in ends],
        [(row[0] - mean).sum()],
    ])  # fmt: skip
    p = machine.user_side.parameters
    on = 1 / (1 + np.exp(-(p.hidden_bias[:2] + drawn @ p.coupling[:, 0, :2])))
    spread = np.concatenate([
        on.std(axis=0),
        drawn.std(axis=0),
        np.einsum("ui,uk->uik", drawn, on).std(axis=0).ravel(),
        [(drawn[:, i] * drawn[:, j]).std() for i, j in ends],
        [drawn.sum(axis=1).std()],
    ])  # fmt: skip
    error = spread / np.sqrt(COPIES)
    found = gradient(machine, moved)
    assert np.all(np.abs(found - expected) <= WIDEST * error)
    assert np.abs(expected).max() > 30 * error.max()


# The other side's hidden units, drawn


def test_sampled_scores_are_of_one_hidden_state_per_row_and_have_the_right_mean():
    """The mean of 3,000 draws is within 6 standard errors of the posterior mean's scores."""
    case = referee.case("ordinal", "user", "items", seed=2)
    pairs = np.array(list(np.ndindex(case.table.shape)))
    conditioned = ConditionedMachine(case.machine, case.ratings, 1)
    draws = np.array(
        [conditioned.pair_scores(*pairs.T, "sample", seed) for seed in range(3000)]
    ).reshape(3000, *case.table.shape, -1)
    expected = conditioned.pair_scores(*pairs.T, "mean_field_with_own").reshape(draws.shape[1:])
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - expected) <= WIDEST * error + 1e-12)
    W = case.machine.user_side.parameters.coupling[:, :, :2]
    offset = expected - np.einsum("uk,isk->uis", conditioned.user_factors(), W)
    possible = np.einsum("hk,isk->his", np.array(list(product((0, 1), repeat=2))), W)
    far = np.abs((draws - offset)[:, :, None] - possible).max(axis=(-2, -1))  # draw, user, state
    assert np.all(far.min(axis=-1) < 1e-9)
