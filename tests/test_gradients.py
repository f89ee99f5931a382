"""The steps of learning equal finite differences of the objective, for every parameter block.

A pass over one block with no prior, no momentum and `per_row=1` moves level parameters by
rate / rows times K g, where g is the gradient and K = F F' the smoothing of the features (for the
biases that users own, that of their prior); hidden biases and links move by g itself. So what a
pass did gives its gradient to full precision.
"""

import numpy as np
import pytest
from scipy.special import expit

import referee
from ordbm.model.learners import PseudoLikelihood
from ordbm.model.rules import EmbeddingRules
from ordbm.priors.co_occurrence import co_occurrence_embedding
from ordbm.priors.resolved import ResolvedPriors
from ordbm.priors.response_styles import BiasPrior
from ordbm.training.alternation import Trainer

CLOSE = {"rtol": 1e-6, "atol": 1e-8}
NOTHING = {
    f"{block}_{term}": 0.0
    for block in ("coupling", "bias", "hidden", "link")
    for term in ("precision", "curvature")
}
PLAIN = {
    "rate": 1.0,
    "decay": 1.0,
    "momentum": 0.0,
    "per_row": 1.0,
    "block_rows": referee.ONE_BLOCK,
    "shared_potential": True,
    "unit_smoothing": False,
    **NOTHING,
}
BLOCKS = ("hidden_bias", "rating_bias", "coupling", "link_weight")
SIDE_NAMES = ("user_side", "item_side")


def gradient_case(kind, sides, links, seed=1, **settings):
    return referee.case(kind, sides, links, hidden=(2, 2), seed=seed, **settings)


def user_prior(machine):
    """A prior of users' own biases that has a shape of its own, and no weight."""
    n = len(machine.level_bias)
    return BiasPrior(0.7 * machine.features.smoothing + np.diag(np.linspace(0.1, 0.4, n)), 0.0)


def present(machine):
    """Numbers of the sides that the machine has."""
    return [number for number, side in enumerate(machine.sides) if side is not None]


def after_pass(case, number, learner, other_scores=None, noise=None):
    """(machine, objective, training, scores) after one pass over side `number` alone.

    `other_scores` are those of the other side's positions, scores what the pass leaves.
    `noise` are the variances of its rows' and of its columns' ratings.
    """
    machine = referee.copied(case.machine)
    priors = ResolvedPriors(
        user_prior(machine), co_occurrence_embedding(case.ratings, 0, EmbeddingRules())
    )
    trainer = Trainer(machine, case.ratings, learner, priors=priors)
    numbers = present(machine)
    training = trainer.sides[numbers.index(number)]
    if noise is not None:
        training.noise.row[:], training.noise.column[:] = noise
    scored = trainer.scored
    if other_scores is not None:
        scored = np.empty_like(other_scores)
        scored[training.score_of] = other_scores[case.ratings[number].in_transpose]
    elif len(numbers) == 2:
        trainer.sides[1 - number].fill_scores(learner.other_side, 0, scored)
    objective = training.learn(0, machine.level_bias, trainer.level_velocity, scored)
    return machine, objective, training, scored


def moves(case, number, learner, other_scores=None, noise=None):
    """What one pass of a PLAIN learner added to each block, as K g; and its objective."""
    machine, objective, training, _ = after_pass(case, number, learner, other_scores, noise)
    (block,) = training.blocks
    n_rows = len(block.row)
    before, after = case.machine.sides[number], machine.sides[number]
    d = before.n_hidden
    assert not after.parameters.coupling[:, :, d:].any()
    assert not after.parameters.hidden_bias[d:].any()
    found = {
        name: (getattr(after.parameters, name) - getattr(before.parameters, name)) * n_rows
        for name in BLOCKS
    }
    found["hidden_bias"] = found["hidden_bias"][:d]
    found["coupling"] = found["coupling"][:, :, :d]
    found["level_bias"] = (machine.level_bias - case.machine.level_bias) * n_rows
    return found, objective


def expected_moves(case, number, objective):
    """K times the finite differences of objective(machine), for each block of one side."""
    machine = referee.copied(case.machine)
    side = machine.sides[number]
    p, d = side.parameters, side.n_hidden
    K, shared = machine.features.smoothing, machine.features.coupling
    bias_K = user_prior(machine).smoothing if number == 1 else K

    def slope(array):
        return referee.finite_differences(lambda: objective(machine), array)

    return {
        "hidden_bias": slope(p.hidden_bias[:d]),
        "rating_bias": slope(p.rating_bias) @ bias_K,
        "coupling": np.einsum("st,ctk->csk", shared @ shared.T, slope(p.coupling[:, :, :d])),
        "link_weight": slope(p.link_weight),
        "level_bias": bias_K @ slope(machine.level_bias),
    }


def assert_same_moves(found, expected):
    assert found.keys() == expected.keys()
    for name, move in expected.items():
        np.testing.assert_allclose(found[name], move, err_msg=name, **CLOSE)
        assert move.size == 0 or np.abs(move).max() > 1e-4, f"{name} has nothing to compare"


# Discrete ratings: the exact pseudo-likelihood (A.1), one-sided and joint


@pytest.mark.parametrize("links", ["none", "both"])
@pytest.mark.parametrize("sides", referee.SIDES)
@pytest.mark.parametrize("kind", ["categorical", "ordinal"])
def test_pseudo_likelihood(kind, sides, links):
    case = gradient_case(kind, sides, links)

    def objective(machine):
        return referee.log_pseudo_likelihood(machine, case.table)

    for number in present(case.machine):
        found, value = moves(case, number, PseudoLikelihood(**PLAIN))
        np.testing.assert_allclose(value, objective(case.machine), rtol=1e-10)
        assert_same_moves(found, expected_moves(case, number, objective))


@pytest.mark.parametrize("links", ["none", "both"])
@pytest.mark.parametrize("sides", referee.SIDES)
@pytest.mark.parametrize(("n_levels", "n_groups"), [(3, 2), (5, 2), (4, 1)])
def test_levels_of_a_group_move_together(n_levels, n_groups, sides, links):
    """The gradient of shared couplings; biases and links know every level of a group."""
    case = gradient_case("ordinal", sides, links, n_levels=n_levels, n_groups=n_groups, spread=0.2)

    def objective(machine):
        return referee.log_pseudo_likelihood(machine, case.table)

    for number in present(case.machine):
        found, value = moves(case, number, PseudoLikelihood(**PLAIN))
        np.testing.assert_allclose(value, objective(case.machine), rtol=1e-10)
        expected = expected_moves(case, number, objective)
        if n_groups == 1:  # the same for every level: hidden units say nothing of it
            for name in ("coupling", "hidden_bias"):
                np.testing.assert_allclose(found.pop(name), expected.pop(name), atol=1e-8)
        assert_same_moves(found, expected)
        group = case.machine.features.group
        first = np.searchsorted(group, group)  # of each level's group
        coupling = found.get("coupling", np.zeros((0, n_levels, 0)))
        np.testing.assert_array_equal(coupling, coupling[:, first])


def test_steps_are_plain_gradient_steps_on_the_feature_parameters():
    """W = F gamma: the step in level space is F times the gradient step on gamma."""
    case = gradient_case("ordinal", "user", "none")
    F = case.machine.features.single
    found, _ = moves(case, 0, PseudoLikelihood(**PLAIN))
    machine = referee.copied(case.machine)
    p = machine.user_side.parameters
    bias, coupling = p.rating_bias.copy(), p.coupling.copy()
    gamma = np.zeros((len(coupling), F.shape[1], 2))
    beta = np.zeros((len(bias), F.shape[1]))

    def objective():
        p.rating_bias[:] = bias + beta @ F.T
        p.coupling[:, :, :2] = coupling[:, :, :2] + np.einsum("sa,cak->csk", F, gamma)
        return referee.log_pseudo_likelihood(machine, case.table)

    step = referee.finite_differences(objective, gamma)
    np.testing.assert_allclose(found["coupling"], np.einsum("sa,cak->csk", F, step), **CLOSE)
    step = referee.finite_differences(objective, beta)
    np.testing.assert_allclose(found["rating_bias"], step @ F.T, **CLOSE)


@pytest.mark.parametrize(("sides", "number"), [("user", 0), ("item", 1)])
def test_the_other_side_enters_as_a_fixed_table(sides, number):
    """sum log softmax(own + other + level bias), for any table `other`."""
    case = gradient_case("ordinal", sides, "items" if number == 0 else "users", seed=3)
    rows, across = case.ratings[number], case.ratings[1 - number]
    other = np.random.default_rng(0).normal(size=(len(rows.column), referee.N_LEVELS))
    other_of = np.full((*case.table.shape, referee.N_LEVELS), np.nan)
    for position, (a, b) in enumerate(zip(across.row, across.column, strict=True)):
        user, item = (b, a) if number == 0 else (a, b)
        other_of[user, item] = other[position]

    def objective(machine):
        total = 0.0
        for u, i in np.argwhere(~np.isnan(case.table)):
            hidden = referee.configurations(machine, case.table, [u], [i])
            own = np.log(referee.conditional(machine, case.table, u, i, hidden))
            total += np.log(referee.softmax(own + other_of[u, i])[int(case.table[u, i])])
        return total

    found, value = moves(case, number, PseudoLikelihood(**PLAIN), other)
    np.testing.assert_allclose(value, objective(case.machine), rtol=1e-10)
    assert_same_moves(found, expected_moves(case, number, objective))


@pytest.mark.parametrize("kind", referee.KINDS)
def test_a_pass_leaves_its_sides_scores(kind):
    """The scores that a pass keeps for the other side are those made afresh, up to a constant."""
    case = gradient_case(kind, "joint", "both")
    for number in (0, 1):
        learner = PseudoLikelihood(**PLAIN)
        fresh = Trainer(referee.copied(case.machine), case.ratings, learner)
        fresh.sides[number].fill_scores("exact", 0, fresh.scored)
        *_, scored = after_pass(case, number, learner)
        difference = scored - fresh.scored
        if kind != "gaussian":
            difference -= difference[:, :1]
        np.testing.assert_allclose(difference, 0, atol=1e-12)


def test_an_epoch_reports_the_objective_per_rating():
    case = gradient_case("ordinal", "joint", "both")
    still = PseudoLikelihood(**{**PLAIN, "rate": 1e-12})
    trainer = Trainer(referee.copied(case.machine), case.ratings, still)
    expected = referee.log_pseudo_likelihood(case.machine, case.table) / trainer.n_ratings
    np.testing.assert_allclose([trainer.epoch(0), trainer.epoch(1)], expected, rtol=1e-9)


# Gaussian ratings: mean-field pseudo-likelihood (A.2)


def mean_field_objective(machine, table, *, leave_out, precision=None):
    """sum log N(r; mu, 1 / precision), hidden units at their posterior means with or without r."""
    total = 0.0
    precision = np.ones_like(table) if precision is None else precision
    for user, item in np.argwhere(~np.isnan(table)):
        mu = machine.level_bias[0]
        for side, ratings, row, column in (
            (machine.user_side, table, user, item),
            (machine.item_side, table.T, item, user),
        ):
            if side is not None:
                mu += side_mean(side, ratings[row], column, leave_out=leave_out)
        weight = precision[user, item]
        total -= 0.5 * weight * (table[user, item] - mu) ** 2 + 0.5 * np.log(2 * np.pi / weight)
    return total


def side_mean(side, of_row, column, *, leave_out):
    """beta_i + sum_k P(h_k) gamma_ik + sum_j lambda_ij r_j of one side."""
    hidden_bias, bias, coupling, weight = side.parameters
    known = np.nan_to_num(of_row)  # a rating that is not there adds nothing
    x = hidden_bias + known @ coupling[:, 0]
    if leave_out:
        x = x - known[column] * coupling[column, 0]
    mu = expit(x) @ coupling[column, 0] + (bias[column, 0] if len(bias) else 0.0)
    for i, j, edge in referee.edges(side.links):
        if column in {i, j}:
            mu += weight[edge, 0] * known[j if column == i else i]
    return mu


def gaussian_learner(*, leave_out):
    other = "exact" if leave_out else "mean_field_with_own"
    return PseudoLikelihood(**PLAIN, leave_out=leave_out, other_side=other)


@pytest.mark.parametrize("leave_out", [True, False])
@pytest.mark.parametrize("links", ["none", "both"])
@pytest.mark.parametrize("sides", referee.SIDES)
def test_gaussian_mean_field_pseudo_likelihood(sides, links, leave_out):
    case = gradient_case("gaussian", sides, links)

    def objective(machine):
        return mean_field_objective(machine, case.table, leave_out=leave_out)

    for number in present(case.machine):
        found, value = moves(case, number, gaussian_learner(leave_out=leave_out))
        np.testing.assert_allclose(value, objective(case.machine), rtol=1e-10)
        assert_same_moves(found, expected_moves(case, number, objective))


@pytest.mark.parametrize("leave_out", [True, False])
@pytest.mark.parametrize("sides", referee.SIDES)
def test_noisy_ratings_count_for_less(sides, leave_out):
    case = gradient_case("gaussian", sides, "both")
    of_user, of_item = (np.random.default_rng(4).uniform(0.3, 3, n) for n in case.table.shape)
    precision = 1 / np.multiply.outer(of_user, of_item)
    precision /= precision[~np.isnan(case.table)].mean()

    def objective(machine):
        return mean_field_objective(machine, case.table, leave_out=leave_out, precision=precision)

    for number in present(case.machine):
        noise = (of_item, of_user) if number else (of_user, of_item)
        found, value = moves(case, number, gaussian_learner(leave_out=leave_out), noise=noise)
        np.testing.assert_allclose(value, objective(case.machine), rtol=1e-10)
        assert_same_moves(found, expected_moves(case, number, objective))


@pytest.mark.parametrize("leave_out", [True, False])
def test_gaussian_objective_is_that_of_the_energy(leave_out):
    case = gradient_case("gaussian", "joint", "both")
    expected = 0.0
    for user, item in np.argwhere(~np.isnan(case.table)):
        mu = referee.mean_field_scores(case.machine, case.table, user, item, leave_out=leave_out)
        expected -= 0.5 * (case.table[user, item] - mu[0]) ** 2 + 0.5 * np.log(2 * np.pi)
    found = mean_field_objective(case.machine, case.table, leave_out=leave_out)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_erratum_the_papers_gaussian_gradient_lacks_a_factor():
    """A.2 steps by P A for alpha_k, P (eps_i + P r_i A) for gamma_ik, A = sum_j eps_j gamma_jk.

    The derivative of P is P (1 - P): the printed formulas do not match the objective, ours do.
    """
    case = gradient_case("gaussian", "user", "none")
    side = case.machine.user_side
    gamma = side.parameters.coupling[:, 0, :2]
    alpha, coupling = np.zeros(2), np.zeros_like(gamma)
    right_alpha, right_coupling = np.zeros(2), np.zeros_like(gamma)
    for of_row in case.table:
        known = np.nan_to_num(of_row)
        P = expit(side.parameters.hidden_bias[:2] + known @ gamma)
        mu = case.machine.level_bias[0] + side.parameters.rating_bias[:, 0] + gamma @ P
        error = np.where(np.isnan(of_row), 0.0, of_row - mu)
        asked = error @ gamma
        alpha += P * asked
        coupling += P * (error[:, None] + P * known[:, None] * asked)
        right_alpha += P * (1 - P) * asked
        right_coupling += P * (error[:, None] + (1 - P) * known[:, None] * asked)

    found, _ = moves(case, 0, gaussian_learner(leave_out=False))
    np.testing.assert_allclose(found["hidden_bias"], right_alpha, **CLOSE)
    np.testing.assert_allclose(found["coupling"][:, 0], right_coupling, **CLOSE)
    assert np.abs(alpha - right_alpha).max() > 0.05
    assert np.abs(coupling - right_coupling).max() > 0.05


# Steps


@pytest.mark.parametrize("ratings_per_unit", [0.0, 1.75])
def test_steps_know_counts_priors_and_momentum(ratings_per_unit):
    """v = momentum v + K g - tau w; w += rate / (tau + kappa c) v, c the ratings of a column.

    The couplings' tau grows with what a typical column lacks of what its units need.
    """
    case = gradient_case("ordinal", "user", "items")
    settings = {
        "coupling_precision": 3.0, "coupling_curvature": 0.5, "bias_precision": 2.0,
        "bias_curvature": 0.25, "hidden_precision": 1.5, "hidden_curvature": 0.1,
        "link_precision": 4.0, "link_curvature": 0.75, "ratings_per_unit": ratings_per_unit,
        "count_weight": 0.0,
    }  # fmt: skip
    learner = PseudoLikelihood(
        **{**PLAIN, **settings, "per_row": 0.0, "rate": 0.3, "decay": 0.8, "momentum": 0.6}
    )
    machine = referee.copied(case.machine)
    trainer = Trainer(machine, case.ratings, learner)
    rated = ~np.isnan(case.table)
    count = rated.sum(axis=0)
    total = rated.sum()
    ends = [(i, j) for i, j, _ in referee.edges(machine.user_side.links)]
    together = np.array([(rated[:, i] & rated[:, j]).sum() for i, j in ends])
    typical = np.sqrt((count**2).mean())
    full = ratings_per_unit * machine.user_side.n_hidden
    assert count.all()
    assert not full or typical < full < 4 * typical
    tau = 3.0 * (1 + PseudoLikelihood().tightening * (full / typical - 1) / 3) if full else 3.0
    scale = {  # tau + kappa c, and tau
        "coupling": (tau + 0.5 * count[:, None, None], tau),
        "rating_bias": (2.0 + 0.25 * count[:, None], 2.0),
        "hidden_bias": (1.5 + 0.1 * total, 1.5),
        "link_weight": (4.0 + 0.75 * together[:, None], 4.0),
        "level_bias": (0.25 * total, 0.0),
    }
    velocity = dict.fromkeys(scale, 0.0)
    for epoch in range(3):
        now = case._replace(machine=referee.copied(machine))
        pushes, _ = moves(now, 0, PseudoLikelihood(**PLAIN))
        trainer.epoch(epoch)
        for name, (whole, precision) in scale.items():
            before = _block(now.machine, name)
            velocity[name] = 0.6 * velocity[name] + pushes[name] - precision * before
            expected = before + 0.3 * 0.8**epoch / whole * velocity[name]
            np.testing.assert_allclose(_block(machine, name), expected, err_msg=name, rtol=1e-9)


def _block(machine, name):
    if name == "level_bias":
        return machine.level_bias.copy()
    array = getattr(machine.user_side.parameters, name)
    d = machine.user_side.n_hidden
    return array[..., :d].copy() if name in {"coupling", "hidden_bias"} else array.copy()


@pytest.mark.parametrize("kind", ["ordinal", "gaussian"])
@pytest.mark.parametrize("block_rows", [1, 6])
def test_blocks_add_up_to_the_whole(kind, block_rows):
    """With steps that go to zero, an epoch over many blocks is one over a single block."""
    rng = np.random.default_rng(5)
    machine = referee.random_machine(
        rng, kind, "joint", "both", hidden=(3, 2), n_users=20, n_items=15,
        item_pairs=[(0, 3), (2, 7), (7, 14)], user_pairs=[(0, 1), (0, 19), (5, 6)],
        spread=0.3, link_spread=0.1,
    )  # fmt: skip
    table = referee.random_table(rng, gaussian=kind == "gaussian", n_users=20, n_items=15)
    table[4] = np.nan  # a user without ratings
    case = referee.Case(machine, referee.orientations(table, machine), table)
    by_count = {name: 1.0 for name in NOTHING if name.endswith("curvature")}
    found = []
    for rows in (referee.ONE_BLOCK, block_rows):
        settings = {**PLAIN, **by_count, "block_rows": rows, "per_row": 0.0, "rate": 1e-6}
        learner = PseudoLikelihood(**settings)
        moved, objective, training, _ = after_pass(case, 0, learner)
        assert (len(training.blocks) > 2) == (rows == block_rows)
        after, before = moved.user_side.parameters, machine.user_side.parameters
        blocks_moved = [1e6 * (a - b).ravel() for a, b in zip(after, before, strict=True)]
        blocks_moved.append(1e6 * (moved.level_bias - machine.level_bias))
        found.append((objective, np.concatenate(blocks_moved)))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-4)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-3, atol=1e-4)
    assert np.abs(found[0][1]).max() > 0.1
