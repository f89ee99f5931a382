"""Why the paper's effects differ here, as far as that can be shown without data: by enumeration."""

from itertools import product

import numpy as np
import pytest

from ordbm.model.features import features

LEVELS, ITEMS, UNITS = 4, 2, 2


def enumerated(bias, coupling, hidden_bias, pair=None):
    """P(r) of one user over all rating vectors, hidden units summed out one state at a time.

    bias (items, levels), coupling (items, levels, units), hidden_bias (units,), pair (levels,
    levels) for the two items.
    """
    ratings = list(product(range(LEVELS), repeat=ITEMS))
    weight = np.zeros(len(ratings))
    for place, levels in enumerate(ratings):
        for hidden in product((0, 1), repeat=UNITS):
            energy = -hidden_bias @ hidden
            for item, level in enumerate(levels):
                energy -= bias[item, level] + coupling[item, level] @ hidden
            if pair is not None:
                energy -= pair[levels]
            weight[place] += np.exp(-energy)
    return weight / weight.sum()


@pytest.mark.parametrize("n_levels", range(2, 11))
def test_the_ordinal_features_have_full_rank(n_levels):
    assert np.linalg.matrix_rank(features("ordinal", n_levels).single) == n_levels


def test_ordinal_and_categorical_machines_span_the_same_distributions():
    """Without links: W[s] = sum_a gamma_a F[s, a] can be solved for gamma, whatever W is."""
    random = np.random.default_rng(0)
    table = features("ordinal", LEVELS).single  # (n, A)
    solve = np.linalg.pinv(table)
    bias = random.normal(size=(ITEMS, LEVELS))
    coupling = random.normal(size=(ITEMS, LEVELS, UNITS))
    hidden_bias = random.normal(size=UNITS)
    beta = bias @ solve.T  # (items, A): ordinal parameters
    gamma = np.einsum("as,isk->iak", solve, coupling)
    ordinal = enumerated(beta @ table.T, np.einsum("sa,iak->isk", table, gamma), hidden_bias)
    np.testing.assert_allclose(ordinal, enumerated(bias, coupling, hidden_bias), rtol=1e-9)


@pytest.mark.parametrize("n_levels", range(3, 8))
def test_links_of_the_two_are_not_the_same_model(n_levels):
    """|s - s'| is no multiple of [s = s'] plus functions of one rating, but for two levels."""

    def interaction(table):  # what is left of it when row and column means are taken out
        return table - table.mean(0) - table.mean(1)[:, None] + table.mean()

    pairs = [interaction(features(kind, n_levels).pair[0]) for kind in ("ordinal", "categorical")]
    assert np.linalg.matrix_rank([one.ravel() for one in pairs]) == 2


def test_a_constant_on_an_items_potentials_moves_its_energy_and_no_probability():
    random = np.random.default_rng(1)
    bias = random.normal(size=(ITEMS, LEVELS))
    coupling = random.normal(size=(ITEMS, LEVELS, UNITS))
    hidden_bias = random.normal(size=UNITS)
    lifted = bias + np.array([[0.0], [3.0]])
    np.testing.assert_allclose(
        enumerated(lifted, coupling, hidden_bias),
        enumerated(bias, coupling, hidden_bias),
        rtol=1e-9,
    )

    def expected_energy(potential):
        q = np.exp(potential) / np.exp(potential).sum()
        return -q @ potential

    for item, constant in enumerate((0.0, 3.0)):
        moved = expected_energy(lifted[item]) - expected_energy(bias[item])
        assert moved == pytest.approx(-constant)


def test_only_steps_on_ordinal_features_move_that_constant():
    """Gradients of biases sum to zero over levels; spread by F F' they need not."""
    gradient = np.eye(LEVELS)[0] - np.eye(LEVELS)[1]  # a rating seen minus one sampled
    steps = {
        kind: features(kind, LEVELS).smoothing @ gradient for kind in ("categorical", "ordinal")
    }
    assert steps["categorical"].sum() == 0
    assert abs(steps["ordinal"].sum()) > 1
