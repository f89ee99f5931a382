"""Simulate ratings from a known machine, fit by pseudo-likelihood, and find the machine again.

Ratings are drawn by the Gibbs sampler that test_sampling judges; fits start from nothing. What is
asked for are bands: errors that are small, and that shrink as the data grow.
"""

import numpy as np
import pytest

import referee
from ordbm.inference.conditioned import ConditionedMachine, softmax
from ordbm.model.features import features
from ordbm.model.learners import ContrastiveDivergence, PseudoLikelihood
from ordbm.model.machine import Machine, new_side
from ordbm.training.alternation import Trainer

N_ITEMS, N_LEVELS = 12, 4
LINK_SPREAD = {"categorical": 0.4, "ordinal": 0.2, "gaussian": 0.15}
PAIRS = [(i, j) for i in range(N_ITEMS) for j in (i + 1, i + 5) if j < N_ITEMS]


def simulated(machine, n_users, seed):
    """Ratings of about 80% of the items, drawn jointly from a user-sided machine: a table."""
    rng = np.random.default_rng(seed)
    gaussian = machine.features.is_gaussian
    start = referee.random_table(
        rng, gaussian=gaussian, n_users=n_users, n_items=N_ITEMS, n_levels=N_LEVELS, rated=0.8
    )
    learner = ContrastiveDivergence(block_rows=referee.ONE_BLOCK, steps=50)
    trainer = Trainer(referee.copied(machine), referee.orientations(start, machine), learner, seed)
    (training,) = trainer.sides
    training.learn(0, machine.level_bias.copy(), np.zeros(0), trainer.scored)
    drawn = training.workspace.sample.value if gaussian else training.workspace.sample.level
    table = np.full_like(start, np.nan)
    (block,) = training.blocks
    for row, slot in zip(block.row, block.row_slot[:-1], strict=True):
        seen = np.flatnonzero(~np.isnan(start[row]))
        table[row, seen] = drawn[slot : slot + len(seen)]
    return table.astype(np.float32).astype(float)


def fitted(kind, table, *, hidden, pairs=(), epochs, **settings):
    """A machine learnt from the table alone."""
    machine = features(kind, N_LEVELS)
    side = new_side(
        machine, referee.linked(pairs, N_ITEMS), hidden, has_bias=True, spread=0.1,
        rng=np.random.default_rng(1), dtype=np.float64,
    )  # fmt: skip
    fit = Machine(machine, np.zeros(machine.n_levels), side, None)
    learner = PseudoLikelihood(block_rows=400, **settings)
    trainer = Trainer(fit, referee.orientations(table, fit), learner)
    for epoch in range(epochs):
        trainer.epoch(epoch)
    return fit


def mean_divergence(true, fit, table):
    """KL(true || fit) of P(rating | the user's other ratings), averaged over all pairs."""
    users, items = np.array(list(np.ndindex(table.shape))).T
    p, q = (
        softmax(
            ConditionedMachine(machine, referee.orientations(table, machine), 1).pair_scores(
                users, items
            )
        )
        for machine in (true, fit)
    )
    return (p * np.log(p / q)).sum(axis=1).mean()


def two_sided_units(kind, spread):
    """A machine with two hidden units that are about as often on as off, so that both show."""
    rng = np.random.default_rng(4)
    true = referee.random_machine(
        rng, kind, "user", hidden=(2, 0), n_items=N_ITEMS, n_levels=N_LEVELS, spread=spread
    )
    p = true.user_side.parameters
    p.coupling[:] -= p.coupling.mean(axis=1, keepdims=True)
    p.rating_bias[:] = 0.3 * p.rating_bias - 0.5 * p.coupling.sum(axis=2)
    p.hidden_bias[:] = 0
    true.level_bias[:] *= 0.3
    return true


@pytest.mark.parametrize(("kind", "spread"), [("categorical", 1.5), ("ordinal", 0.6)])
def test_hidden_units_are_recovered_in_what_they_predict(kind, spread):
    """The fit leaves a small part of what a machine without hidden units gets wrong."""
    true = two_sided_units(kind, spread)
    unseen = simulated(true, 200, seed=100)
    weak = {"coupling_precision": 0.5, "bias_precision": 0.5, "decay": 0.97}
    left = []
    for n_users in (300, 3000):
        table = simulated(true, n_users, seed=n_users)
        fit = fitted(kind, table, hidden=2, epochs=60, **weak)
        left.append(mean_divergence(true, fit, unseen))
    without = mean_divergence(true, fitted(kind, table, hidden=0, epochs=20, **weak), unseen)
    assert left[1] < 0.1 * without
    assert left[1] < 0.5 * left[0] < 0.5 * without


@pytest.mark.parametrize("kind", referee.KINDS)
def test_links_are_recovered(kind):
    """Without hidden units the pseudo-likelihood is concave and its maximum consistent."""
    rng = np.random.default_rng(6)
    true = referee.random_machine(
        rng, kind, "user", "items", hidden=(0, 0), n_items=N_ITEMS, n_levels=N_LEVELS,
        item_pairs=PAIRS, spread=0.4, link_spread=LINK_SPREAD[kind],
    )  # fmt: skip
    weight = true.user_side.parameters.link_weight
    error = []
    for n_users in (400, 6000):
        table = simulated(true, n_users, seed=n_users)
        fit = fitted(
            kind, table, hidden=0, pairs=PAIRS, epochs=100, decay=0.985, link_precision=1.0,
            link_curvature=2.0 if kind == "gaussian" else 0.5, bias_precision=0.1,
            bias_curvature=1.0 if kind == "gaussian" else 0.2,
        )  # fmt: skip
        found = fit.user_side.parameters.link_weight
        error.append(np.sqrt(np.mean((found - weight) ** 2)))
    assert error[1] < 0.2 * weight.std()
    assert error[1] < 0.5 * error[0]
