"""What people are like on a scale: how users' own level potentials vary, seen in the ratings.

Some give whole stars only, some like the ends of the scale. The order of the levels says nothing of
it, and it differs from data to data, so it is learnt: a user's potentials are normal around zero,
and their covariance is found by expectation maximisation, each user's posterior being taken as
normal at its mode. Only items' level shares stand beside them, no hidden units.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordbm.data.csr import CSR, CSRPair
from ordbm.data.level_counts import log_frequencies
from ordbm.kernels.response_styles import add_level_use
from ordbm.model.learners import Priors
from ordbm.model.rules import ResponseStyleRules
from ordbm.runtime.arrays import Array


class BiasPrior(NamedTuple):
    """Normal, with the covariance smoothing / precision; steps follow `smoothing`."""

    smoothing: Array  # (n, n)
    precision: float


def bias_prior(
    ratings: CSRPair,
    smoothing: Array,
    priors: Priors,
    *,
    owned: bool = True,
) -> BiasPrior:
    """The prior of users' own biases, of which `response_style_share` knows no order of levels.

    It is how people were seen to vary or, if that is not learnt or users own no biases, alike on
    every level. The rest follows the order, smoothing / precision.
    """
    n, share, precision = len(smoothing), priors.response_style_share, priors.bias_precision
    learnt = owned and priors.learn_response_styles
    if not learnt or share == 0 or precision == 0 or n == 1:
        return BiasPrior((1 - share) * smoothing + share * np.eye(n), precision)
    rules = priors.response_styles
    centred = np.eye(n) - 1 / n  # the same for all levels says nothing
    order = (1 - share) / precision * smoothing
    seen = response_style_covariance(ratings, smoothing, rules)
    covariance = centred @ (order + share * seen) @ centred
    unit = rules.steepest / float(np.linalg.eigvalsh(covariance)[-1])
    return BiasPrior(unit * covariance, unit)


def response_style_covariance(
    ratings: CSRPair, smoothing: Array, rules: ResponseStyleRules
) -> Array:
    """The covariance (n, n) of users' own level potentials."""
    n = len(smoothing)
    rows = ratings.by_user
    people = _people(rows, n, rules)
    potential = _item_potentials(ratings.by_item, n, rules.share_weight)
    guess = (smoothing + np.eye(n)) * rules.guess_variance
    weight = rules.guess_weight * n
    covariance = guess
    own = np.zeros((len(people), n))
    room = np.zeros(n)
    for _ in range(rules.rounds):
        inverse = np.linalg.inv(covariance)
        gradient, information = np.zeros_like(own), np.zeros((len(people), n, n))
        add_level_use(
            people, rows.start, rows.column, rows.level, potential, own, room, gradient,
            information,
        )  # fmt: skip
        posterior = np.linalg.inv(information + inverse)
        step = np.einsum("pst,pt->ps", posterior, gradient - own @ inverse)
        own += np.clip(step, -rules.longest_step, rules.longest_step)
        seen = np.einsum("ps,pt->st", own, own) + posterior.sum(axis=0)
        covariance = (seen + weight * guess) / (len(people) + weight)
    return covariance


def _people(rows: CSR, n_levels: int, rules: ResponseStyleRules) -> Array:
    """Rows with ratings: all, or so many evenly spaced ones that they are soon looked at."""
    count = np.diff(rows.start)
    rated = np.flatnonzero(count)
    work = int(count.sum()) * n_levels**2
    most = min(rules.most_people, int(len(rated) * rules.most_work / max(work, 1)))
    if len(rated) <= most:
        return rated
    return rated[np.linspace(0, len(rated) - 1, max(most, 1)).astype(np.int64)]


def _item_potentials(by_item: CSR, n_levels: int, weight: float) -> Array:
    """log of each item's level shares, (items, n)."""
    count = np.diff(by_item.start)
    cell = np.repeat(np.arange(len(count)), count) * n_levels + by_item.level
    table = np.bincount(cell, minlength=len(count) * n_levels).reshape(len(count), n_levels)
    all_shares = np.exp(log_frequencies(by_item.level, n_levels))
    potential: Array = np.log((table + weight * all_shares) / (count[:, None] + weight))
    return potential
