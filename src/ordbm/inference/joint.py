"""Joint prediction of several unseen ratings: of a user, of an item, or of any set of pairs.

With the hidden units summed out, a configuration s of the asked ratings has log-weight

    sum_q [b(s_q) + biases + links with given ratings] + sum over linked asked pairs
    + sum over their users and items of sum_k softplus(x_k + sum_q W[q, s_q, k])

So all asked ratings are nodes of the model, where a single prediction adds one node alone: each
node more changes the marginals of the others, and those of a joint are not the single predictions.

All configurations are enumerated when they are few; otherwise hidden units and ratings are drawn in
turn (Gibbs). Both give weighted configurations, so every question is asked the same way. A Gaussian
machine on a scale of levels is integrated over the levels' cells; on a continuous scale points
around the mean give exact moments, and draws give the probability of events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from ordbm.errors import SettingsError
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.inference.distributions import cell_points
from ordbm.inference.joint_question import Question, question_of
from ordbm.runtime.arrays import Codes, Numbers
from ordbm.runtime.interruption import safe_point

ENUMERATED = 20_000  # configurations; beyond, Gibbs
GAUSSIAN_POINTS = np.arange(-9.0, 9.5, 0.75)  # around the mean-field mean, in deviations
_INPUTS_AT_ONCE = 4_000_000  # of hidden units, in all configurations that are looked at together
BURN_IN = 200
CHAINS = 200


@dataclass(frozen=True, eq=False)
class JointDistribution:
    """Weighted configurations of the asked ratings.

    `values` (configurations, pairs) are the ratings in each configuration, `weight` its probability
    (one over their number if they are draws); `exact` says whether all were enumerated. All asked
    pairs are in the model at once, rated but unseen.
    """

    values: Numbers
    weight: Numbers
    exact: bool

    def __repr__(self) -> str:
        how = "enumerated" if self.exact else "drawn"
        return f"JointDistribution({self.values.shape[1]} ratings, {len(self.values):,} {how})"

    def mean(self) -> Numbers:
        """Expected rating of each pair."""
        return self.weight @ self.values

    def covariance(self) -> Numbers:
        """Covariance of the ratings, (pairs, pairs)."""
        centred = self.values - self.mean()
        return (centred * self.weight[:, None]).T @ centred

    def most_likely(self) -> Numbers:
        """The most probable configuration (the most frequent of the draws)."""
        distinct, place = np.unique(self.values, axis=0, return_inverse=True)
        mass = np.bincount(place.ravel(), self.weight)
        return distinct[mass.argmax()]

    def marginals(self, levels: Numbers) -> Numbers:
        """P of each of the `levels`, (pairs, levels), the other asked pairs summed out.

        Not what `predict_proba` says of the pairs one by one: there the others are no part of the
        model. Dependence between ratings is what the joint has beyond the product of these.
        """
        return np.stack([self.weight @ (self.values == level) for level in levels], axis=1)

    def probability(self, event: NDArray[np.bool_]) -> float:
        """P of an event given as a mask over `values`, such as (joint.values >= 4).all(axis=1)."""
        return float(self.weight[event].sum())


def joint_levels(
    conditioned: ConditionedMachine,
    users: Codes,
    items: Codes,
    *,
    edges: Numbers | None = None,
    limit: int = ENUMERATED,
    draws: int = 20_000,
    seed: int = 0,
) -> tuple[Numbers, Numbers, bool]:
    """(configurations, weights, exact): level numbers, or ratings in a Gaussian machine's unit.

    With `edges`, the cells of levels in that unit, a Gaussian machine answers in level numbers too.
    Enumerates up to `limit` configurations; beyond, draws `draws` configurations. Negative codes
    stand for the unknown, each number for somebody else.
    """
    pairs = list(zip(users.tolist(), items.tolist(), strict=True))
    if len(set(pairs)) < len(pairs):
        raise SettingsError("a pair is asked for more than once: ask for each pair once")
    if draws < 1:
        raise SettingsError(f"draws={draws}: need at least 1")
    if not pairs:
        return np.zeros((1, 0)), np.ones(1), True
    question = question_of(conditioned, users, items)
    if conditioned.machine.features.is_gaussian:
        return _gaussian_joint(question, edges, limit, draws, seed)
    if question.potential.shape[1] ** len(pairs) <= limit:
        config, weight = _enumerate(question)
        return config.T.astype(np.float64), weight, True
    return *_gibbs_levels(question, draws, seed), False


def ensemble_joint_levels(
    members: Sequence[ConditionedMachine],
    users: Codes,
    items: Codes,
    *,
    edges: Numbers | None = None,
    limit: int = ENUMERATED,
    draws: int = 20_000,
    seed: int = 0,
) -> tuple[Numbers, Numbers, bool]:
    """As `joint_levels` has it, of the even mixture of several machines; draws are shared out."""
    found = [
        joint_levels(
            conditioned, users, items, edges=edges, limit=limit,
            draws=-(-draws // len(members)), seed=seed + number,
        )
        for number, conditioned in enumerate(members)
    ]  # fmt: skip
    config, weight, exact = zip(*found, strict=True)
    if all(np.array_equal(config[0], other) for other in config[1:]):  # all levels enumerated
        return config[0], np.mean(weight, axis=0), all(exact)
    return np.concatenate(config), np.concatenate(weight) / len(members), all(exact)


def _enumerate(question: Question) -> tuple[NDArray[np.int64], Numbers]:
    """All configurations, (Q, configurations), and the probability of each."""
    n_pairs, n_states = question.potential.shape
    config = np.indices((n_states,) * n_pairs).reshape(n_pairs, -1)
    score = np.zeros(config.shape[1])
    for q in range(n_pairs):
        score += question.potential[q][config[q]]
    for q, other, table in question.linked:
        score += table[config[q], config[other]]
    for group in question.groups:
        size = max(1, _INPUTS_AT_ONCE // len(group.hidden_input))
        for first in range(0, len(score), size):
            part = slice(first, first + size)
            x = np.tile(group.hidden_input, (len(score[part]), 1))
            for place, q in enumerate(group.pairs):
                x += group.coupling[place][config[q, part]]
            score[part] += np.logaddexp(0.0, x).sum(axis=1)
    return config, np.exp(score - logsumexp(score))


def _gaussian_joint(
    question: Question, edges: Numbers | None, limit: int, draws: int, seed: int
) -> tuple[Numbers, Numbers, bool]:
    n_pairs = len(question.potential)
    precision = _precision(question)
    if edges is None:
        if len(GAUSSIAN_POINTS) ** n_pairs <= limit:
            state = _centre(question, precision)[:, None] + GAUSSIAN_POINTS
            config, weight = _at_states(question, state, np.zeros(len(GAUSSIAN_POINTS)))
            return np.take_along_axis(state, config, axis=1).T, weight, True
        return *_gibbs_gaussian(question, precision, draws, seed), False
    points = cell_points(edges)
    if len(points.point) ** n_pairs > limit:
        values, weight = _gibbs_gaussian(question, precision, draws, seed)
        return np.searchsorted(edges[1:-1], values, side="right").astype(float), weight, False
    state = np.tile(points.point, (n_pairs, 1))
    config, weight = _at_states(question, state, points.log_weight)
    n_levels = len(edges) - 1
    cell = np.ravel_multi_index(tuple(points.cell[config]), (n_levels,) * n_pairs)
    whole = np.bincount(cell, weight, n_levels**n_pairs).astype(np.float64)
    level = np.indices((n_levels,) * n_pairs).reshape(n_pairs, -1)
    return level.T.astype(np.float64), whole, True


def _centre(question: Question, precision: Numbers) -> Numbers:
    """Mean-field means of the asked ratings, (Q,)."""
    slope = question.potential[:, 0].copy()
    for group in question.groups:
        slope[group.pairs] += group.coupling[:, 0] @ expit(group.hidden_input)
    centre: Numbers = np.linalg.solve(precision, slope).astype(np.float64)
    return centre


def _at_states(
    question: Question, state: Numbers, log_weight: Numbers
) -> tuple[NDArray[np.int64], Numbers]:
    """All configurations of Gaussian ratings at weighted states (Q, S), and their probability."""
    return _enumerate(
        Question(
            question.potential * state - 0.5 * state**2 + log_weight,
            [
                group._replace(coupling=group.coupling * state[group.pairs][:, :, None])
                for group in question.groups
            ],
            [
                (q, other, weight * np.outer(state[q], state[other]))
                for q, other, weight in question.linked
            ],
        )
    )


def _gibbs_levels(question: Question, draws: int, seed: int) -> tuple[Numbers, Numbers]:
    """Gibbs over levels: CHAINS chains at once, from the pairs' own potentials."""
    rng = np.random.default_rng(seed)
    n_pairs = len(question.potential)
    chains = min(CHAINS, draws)
    level = np.stack(
        [_sample_states(rng, np.tile(p, (chains, 1))) for p in question.potential], axis=1
    )
    neighbours = _neighbour_tables(question)
    kept = []
    rounds = -(-draws // chains)
    for sweep in range(BURN_IN + rounds):
        safe_point()
        score = np.tile(question.potential, (chains, 1, 1))
        for group in question.groups:
            x = np.tile(group.hidden_input, (chains, 1))
            for place, q in enumerate(group.pairs):
                x += group.coupling[place][level[:, q]]
            hidden = (rng.random(x.shape) < expit(x)).astype(np.float64)
            for place, q in enumerate(group.pairs):
                score[:, q] += hidden @ group.coupling[place].T
        for q in range(n_pairs):
            own = score[:, q].copy()
            for other, table in neighbours[q]:
                own += table[level[:, other]]
            level[:, q] = _sample_states(rng, own)
        if sweep >= BURN_IN:
            kept.append(level.astype(np.float64))
    values = np.concatenate(kept)[:draws]
    return values, np.full(len(values), 1.0 / len(values))


def _neighbour_tables(question: Question) -> list[list[tuple[int, Numbers]]]:
    """For each pair, its linked asked pairs and their potential as (other state, own state)."""
    tables: list[list[tuple[int, Numbers]]] = [[] for _ in question.potential]
    for q, other, table in question.linked:
        tables[q].append((other, table.T))
        tables[other].append((q, table))
    return tables


def _sample_states(rng: np.random.Generator, score: Numbers) -> NDArray[np.int64]:
    """One state per row from softmax(score), by Gumbel's trick."""
    choice: NDArray[np.int64] = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
    return choice


def _precision(question: Question) -> Numbers:
    """Inverse covariance of Gaussian ratings given the hidden units, (Q, Q)."""
    precision = np.eye(len(question.potential))
    for q, other, weight in question.linked:
        precision[q, other] -= weight[0, 0]
        precision[other, q] -= weight[0, 0]
    if np.linalg.eigvalsh(precision).min() <= 0:
        raise SettingsError(
            "these ratings have no joint normal distribution: their links are too strong; "
            "ask for fewer linked items at once, or fit with a larger link precision"
        )
    return precision


def _gibbs_gaussian(
    question: Question, precision: Numbers, draws: int, seed: int
) -> tuple[Numbers, Numbers]:
    """Gibbs over real ratings, jointly normal given the hidden units."""
    rng = np.random.default_rng(seed)
    slope = question.potential[:, 0]
    chol = np.linalg.cholesky(np.linalg.inv(precision))
    chains = min(CHAINS, draws)
    value = np.tile(slope, (chains, 1))
    kept = []
    for sweep in range(BURN_IN + -(-draws // chains)):
        safe_point()
        linear = np.tile(slope, (chains, 1))
        for group in question.groups:
            weights = group.coupling[:, 0]
            x = group.hidden_input + value[:, group.pairs] @ weights
            hidden = (rng.random(x.shape) < expit(x)).astype(np.float64)
            linear[:, group.pairs] += hidden @ weights.T
        value = np.linalg.solve(precision, linear.T).T + rng.normal(size=value.shape) @ chol.T
        if sweep >= BURN_IN:
            kept.append(value.copy())
    values = np.concatenate(kept)[:draws]
    return values, np.full(len(values), 1.0 / len(values))
