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
from ordbm.runtime.arrays import Array

MOST_PEOPLE = 1_000  # looked at, evenly spaced among all
MOST_WORK = 20_000_000  # ratings looked at, times levels squared
ROUNDS = 10  # of expectation maximisation, each with a Newton step from where the last one ended
LONGEST_STEP = 1.0  # of a potential
SHARE_WEIGHT = 20.0  # ratings by which an item's level shares are drawn to those of all
GUESS_WEIGHT = 2  # people per level who are thought to be like the first guess
STEEPEST = 2.0  # variance that a step may follow, in units of the precision


class BiasPrior(NamedTuple):
    """Normal, with the covariance smoothing / precision; steps follow `smoothing`."""

    smoothing: Array  # (n, n)
    precision: float


def bias_prior(
    ratings: CSRPair,
    smoothing: Array,
    precision: float,
    response_style_share: float,
    *,
    learnt: bool = True,
) -> BiasPrior:
    """The prior of users' own biases, of which `response_style_share` knows no order of levels.

    It is how people were seen to vary or, if not `learnt`, alike on every level. The rest follows
    the order, smoothing / precision.
    """
    n = len(smoothing)
    if not learnt or response_style_share == 0 or precision == 0 or n == 1:
        return BiasPrior(
            (1 - response_style_share) * smoothing + response_style_share * np.eye(n), precision
        )
    centred = np.eye(n) - 1 / n  # the same for all levels says nothing
    order = (1 - response_style_share) / precision * smoothing
    covariance = (
        centred
        @ (order + response_style_share * response_style_covariance(ratings, smoothing))
        @ centred
    )
    steepest = float(np.linalg.eigvalsh(covariance)[-1])
    return BiasPrior(STEEPEST / steepest * covariance, STEEPEST / steepest)


def response_style_covariance(ratings: CSRPair, smoothing: Array) -> Array:
    """The covariance (n, n) of users' own level potentials."""
    n = len(smoothing)
    rows = ratings.by_user
    people = _people(rows, n)
    potential = _item_potentials(ratings.by_item, n)
    guess = (smoothing + np.eye(n)) / 4
    weight = GUESS_WEIGHT * n
    covariance = guess
    own = np.zeros((len(people), n))
    room = np.zeros(n)
    for _ in range(ROUNDS):
        inverse = np.linalg.inv(covariance)
        gradient, information = np.zeros_like(own), np.zeros((len(people), n, n))
        add_level_use(
            people, rows.start, rows.column, rows.level, potential, own, room, gradient,
            information,
        )  # fmt: skip
        posterior = np.linalg.inv(information + inverse)
        step = np.einsum("pst,pt->ps", posterior, gradient - own @ inverse)
        own += np.clip(step, -LONGEST_STEP, LONGEST_STEP)
        seen = np.einsum("ps,pt->st", own, own) + posterior.sum(axis=0)
        covariance = (seen + weight * guess) / (len(people) + weight)
    return covariance


def _people(rows: CSR, n_levels: int) -> Array:
    """Rows with ratings: all, or so many evenly spaced ones that they are soon looked at."""
    count = np.diff(rows.start)
    rated = np.flatnonzero(count)
    work = int(count.sum()) * n_levels**2
    most = min(MOST_PEOPLE, int(len(rated) * MOST_WORK / max(work, 1)))
    if len(rated) <= most:
        return rated
    return rated[np.linspace(0, len(rated) - 1, max(most, 1)).astype(np.int64)]


def _item_potentials(by_item: CSR, n_levels: int) -> Array:
    """log of each item's level shares, (items, n)."""
    count = np.diff(by_item.start)
    cell = np.repeat(np.arange(len(count)), count) * n_levels + by_item.level
    table = np.bincount(cell, minlength=len(count) * n_levels).reshape(len(count), n_levels)
    all_shares = np.exp(log_frequencies(by_item.level, n_levels))
    potential: Array = np.log((table + SHARE_WEIGHT * all_shares) / (count[:, None] + SHARE_WEIGHT))
    return potential
