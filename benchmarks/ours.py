"""ordbm's side of the speed benchmark: a function for each measured quantity, called by speed.py.

Every function takes the split and a number of threads, and returns the seconds of one measurement
(speed.py repeats and takes medians). Compilation is never timed: `warm_up` runs every kernel once
before the first measurement.

The machine is the issue's: joint, ordinal, d = d′ = 20, exact pseudo-likelihood, no links.
"""

from __future__ import annotations

import time
from functools import cache
from typing import NamedTuple

import numpy as np
from data import Split, scores
from numba import njit

from ordbm import OrdinalBM, Ratings
from ordbm.inference.catalogue import USERS_IN_BLOCK, Catalogue
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.kernels.numerics import fast_exp
from ordbm.kernels.options import KERNEL
from ordbm.model.learners import PseudoLikelihood
from ordbm.runtime.threads import run_on_threads
from ordbm.training.alternation import Trainer

N_HIDDEN = 20  # hidden units of each side: d = d′
N_LEVELS = 5
EPOCHS = 12  # of a whole training; fixed beforehand, not tuned
TIMED_EPOCHS = 10
IN_CACHE = 4096  # values exponentiated at a time for the floor


class Reached(NamedTuple):
    """What one whole training reached on the test set, and the wall clock it took."""

    seconds: float
    epochs: int
    log_loss: float
    mae_by_median: float
    rmse_by_mean: float


def exponentials_per_epoch(split: Split) -> int:
    """n · (d + d′) · N: one for each level, hidden unit of either side, and training rating."""
    return N_LEVELS * 2 * N_HIDDEN * len(split.train_rating)


def model_of(threads: int, epochs: int) -> OrdinalBM:
    """The machine that is measured."""
    return OrdinalBM(hidden=N_HIDDEN, item_links=0, epochs=epochs, members=1, threads=threads)


def ratings_of(split: Split) -> Ratings:
    """The training ratings, with ids as they come."""
    return Ratings(split.train_user, split.train_item, split.train_rating)


@cache
def _trained(split_sha256: str, threads: int) -> tuple[OrdinalBM, Trainer]:
    """A machine that is already training, and what trains it."""
    ratings = _RATINGS[split_sha256]
    model = model_of(threads, 2).fit(ratings)
    trainer = Trainer(
        model.machines[0], model.conditioned[0].ratings, PseudoLikelihood(), 0, threads
    )
    trainer.epoch(0)
    return model, trainer


_RATINGS: dict[str, Ratings] = {}


def warm_up(split: Split) -> None:
    """Compile and run once every kernel that is timed below."""
    _RATINGS[split.split_sha256] = ratings_of(split)
    epoch_seconds(split, 1)
    floor_seconds(split, 1)
    scoring_seconds(split, 1)


def epoch_seconds(split: Split, threads: int) -> float:
    """(a) Seconds of one training epoch: gradients and updates of both sides, all ratings.

    Of a machine that is already training: reading, sorting and allocating stay out, as they do for
    the peer, whose figure is also taken over TIMED_EPOCHS epochs in a row.
    """
    _, trainer = _trained(split.split_sha256, threads)
    started = time.perf_counter()
    for number in range(1, 1 + TIMED_EPOCHS):
        trainer.epoch(number)
    return (time.perf_counter() - started) / TIMED_EPOCHS


@njit(**KERNEL)
def _exponentials(values: np.ndarray, out: np.ndarray, rounds: int) -> None:
    for _ in range(rounds):
        for j in range(values.size):
            out[j] = fast_exp(values[j])


def floor_seconds(split: Split, threads: int) -> float:
    """(b) Seconds of `exponentials_per_epoch(split)` exponentials and nothing else.

    The same vectorised polynomial exponential as in the training kernels, over a block that stays
    in cache, on the same number of threads as the epoch it is compared with.
    """
    rounds = exponentials_per_epoch(split) // IN_CACHE // threads
    values = -np.linspace(0, 10, IN_CACHE, dtype=np.float32)
    started = time.perf_counter()
    run_on_threads(threads, lambda _: _exponentials(values, np.empty_like(values), rounds))
    return time.perf_counter() - started


def training(split: Split, threads: int) -> Reached:
    """(c) Wall clock of a whole training from the raw arrays, and its test scores.

    The epochs are fixed beforehand, and scoring the test ratings is not part of the time, as it is
    not for the peer.
    """
    started = time.perf_counter()
    model = model_of(threads, EPOCHS).fit(ratings_of(split))
    seconds = time.perf_counter() - started
    found = scores(model.predict_proba(split.test_user, split.test_item), split.test_rating)
    return Reached(
        seconds, EPOCHS, found["log_loss"], found["mae_by_median"], found["rmse_by_mean"]
    )


def scoring_seconds(split: Split, threads: int) -> float:
    """(d) Seconds to score all `n_users · n_items` pairs by mean-field with a trained machine.

    One score per pair (the expected rating), as the peer's `predict` gives; blocks of users, no
    matrix of all pairs; the hidden means are part of the time.
    """
    model, _ = _trained(split.split_sha256, threads)
    levels = np.arange(1.0, N_LEVELS + 1)
    users = np.arange(split.n_users)
    started = time.perf_counter()
    catalogue = Catalogue(
        ConditionedMachine(model.machines[0], model.conditioned[0].ratings, threads)
    )
    for first in range(0, split.n_users, USERS_IN_BLOCK):
        catalogue.scores(users[first : first + USERS_IN_BLOCK], "mean", levels)
    return time.perf_counter() - started
