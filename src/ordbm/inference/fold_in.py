"""Fold-in users: machines conditioned on a handful of ratings, without training them again.

On the user side a fold-in user's hidden units follow from the ratings. On the item side a user owns
parameters; a fold-in user's are fitted to the given ratings by maximum a posteriori, all else
fixed.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

from ordbm.data.csr import CSR, CSRPair, with_transpose
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.kernels.structures import padded
from ordbm.model.machine import Machine, Parameters, Side
from ordbm.model.neighbours import no_links
from ordbm.priors.fold_in_priors import CouplingPrior
from ordbm.priors.response_styles import BiasPrior
from ordbm.runtime.arrays import Array

_ITERATIONS = 1000  # of L-BFGS: far more than parameters that were learnt need


def fold_in_machine(
    conditioned: ConditionedMachine,
    items: Array,
    level: Array,
    value: Array,
    coupling_prior: CouplingPrior,
    bias_prior: BiasPrior,
) -> ConditionedMachine:
    """The machine conditioned on one new user, code 0, who gave `items` these levels (or values).

    The priors are those of users' own parameters in training.
    """
    order = np.argsort(items)
    n_items = conditioned.ratings.by_item.n_rows
    one_row = CSR(
        np.array([0, len(items)], np.int64),
        items[order].astype(np.int32),
        level[order].astype(np.uint8),
        value[order].astype(np.float32) if len(value) else value.astype(np.float32),
        np.zeros(0, np.int32),
    )
    ratings = CSRPair(*with_transpose(one_row, n_items))
    machine = conditioned.machine
    found = ConditionedMachine(
        Machine(machine.features, machine.level_bias, machine.user_side, None), ratings, 1
    )
    if machine.item_side is None:
        return found
    side = _fitted_side(conditioned, found, coupling_prior, bias_prior)
    joint = ConditionedMachine(
        Machine(machine.features, machine.level_bias, machine.user_side, side), ratings, 1
    )
    # The items' inputs with the fold-in user's ratings added; predictions leave those out again.
    own = side.parameters.coupling[0][one_row.level]
    if one_row.value.size:
        own = own * one_row.value[:, None]
    inputs = conditioned.item_input.copy()
    inputs[one_row.column] += own
    joint.__dict__["item_input"] = inputs
    return joint


def _fitted_side(
    conditioned: ConditionedMachine,
    user_part: ConditionedMachine,
    coupling_prior: CouplingPrior,
    bias_prior: BiasPrior,
) -> Side:
    """The item side with the fold-in user as its only column, fitted in feature space."""
    machine = conditioned.machine
    assert machine.item_side is not None
    trained = machine.item_side
    row = user_part.ratings.by_user
    n, d = len(machine.level_bias), trained.n_hidden
    table = machine.features.coupling * coupling_prior.unit  # (n, A)
    hidden_input = conditioned.item_input[row.column, :d].astype(np.float64)  # (m, d)
    nobody = np.zeros(len(row.column), np.int32)
    rest = user_part.pair_scores(nobody, row.column).astype(np.float64)  # (m, n)
    has_bias = bool(trained.parameters.rating_bias.size)
    typical = trained.unknown_bias.astype(np.float64)  # where the prior has somebody's bias
    typical_coupling, precision, _ = coupling_prior
    variance, axes = np.linalg.eigh(bias_prior.smoothing)
    bias_table = axes * np.sqrt(np.maximum(variance, 0.0))
    n_features = table.shape[1]

    def parts(free: Array) -> tuple[Array, Array]:
        gamma = free[: n_features * d].reshape(n_features, d)
        return gamma, free[n_features * d :] if has_bias else np.zeros(bias_table.shape[1])

    def loss(free: Array) -> tuple[float, Array]:
        gamma, beta = parts(free)
        value, coupling_gradient, bias_gradient = _log_likelihood(
            machine.features.is_gaussian,
            row,
            rest,
            hidden_input,
            typical_coupling + table @ gamma,
            typical + bias_table @ beta,
        )
        penalty = precision * (gamma**2).sum() + bias_prior.precision * (beta**2).sum()
        gradient = precision * gamma - table.T @ coupling_gradient
        bias_part = bias_prior.precision * beta - bias_table.T @ bias_gradient
        whole = [gradient.ravel(), bias_part] if has_bias else [gradient.ravel()]
        return 0.5 * penalty - value, np.concatenate(whole)

    start = np.zeros(n_features * d + has_bias * bias_table.shape[1])
    gamma, beta = parts(
        minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS}).x
    )
    coupling = np.zeros((1, n, padded(d)), machine.dtype)
    coupling[0, :, :d] = typical_coupling + table @ gamma
    bias = (typical + bias_table @ beta)[None] if has_bias else np.zeros((0, n))
    return Side(
        Parameters(
            trained.parameters.hidden_bias,
            bias.astype(machine.dtype),
            coupling,
            np.zeros((0, machine.features.n_pair), machine.dtype),
        ),
        d,
        no_links(1),
        trained.unknown_bias,
    )


def _log_likelihood(
    gaussian: bool, row: CSR, rest: Array, x: Array, coupling: Array, bias: Array
) -> tuple[float, Array, Array]:
    """log P of the fold-in user's ratings, each given the item's hidden units, and its gradients.

    `rest` (m, n) is what the user side says of each rating, `x` (m, d) the items' hidden input.
    """
    if gaussian:
        hidden = expit(x)
        error = row.value - rest[:, 0] - bias[0] - hidden @ coupling[0]
        return -0.5 * float(error @ error), (error @ hidden)[None], error.sum()[None]
    z = x[:, None, :] + coupling
    scores = log_softmax(rest + bias + np.logaddexp(0.0, z).sum(axis=2), axis=1)
    observed = np.arange(len(row.level)), row.level
    residual = -np.exp(scores)
    residual[observed] += 1.0
    return (
        float(scores[observed].sum()),
        np.einsum("ms,msk->sk", residual, expit(z)),
        residual.sum(axis=0),
    )
