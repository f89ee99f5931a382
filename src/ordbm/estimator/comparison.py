"""Candidates compared on ratings held out of the training ratings, rating by rating.

What one candidate loses on a held-out rating is set beside what another loses on the same. The
standard error of the mean difference is that of users, as what one user's ratings say hangs
together. A candidate that is clearly worse in some folds is not looked at in the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ordbm.data.ratings import Ratings
from ordbm.data.split import k_fold
from ordbm.runtime.arrays import Array

CLEARLY = 1.0  # standard errors by which what is worse in some folds needs no others

Candidate = TypeVar("Candidate", bound=Hashable)


class PairedDifference(NamedTuple):
    """What a candidate loses beside another."""

    loss: float  # mean of its own
    rise: float  # mean, over the other's
    error: float  # standard error of the rise, by users


class Comparison(Generic[Candidate]):
    """What each of the held-out ratings loses by each candidate; a fit is asked for once.

    `lost(training, held_out, candidate)` is the loss of each rating of a fold. Folds are so many
    of `folds` as hold `wanted` ratings, `most` at most.
    """

    def __init__(
        self,
        ratings: Ratings,
        lost: Callable[[Ratings, Ratings, Candidate], Array],
        *,
        folds: int,
        wanted: int,
        most: int,
        seed: int,
    ) -> None:
        self._lost = lost
        held_out = max(len(ratings) // folds, 1)
        count = min(max(-(-wanted // held_out), 1), most)
        parts = list(k_fold(ratings, min(folds, len(ratings)), seed))[:count]
        self.folds = [one for one in parts if len(one[0]) and len(one[1])]
        self.user = np.concatenate([held.user_codes for _, held in self.folds])
        self._losses: dict[Candidate, list[Array]] = {}

    def losses(self, candidate: Candidate, count: int | None = None) -> list[Array]:
        """The loss of each held-out rating in so many folds at least; in all if not said."""
        known = self._losses.setdefault(candidate, [])
        known.extend(self._lost(*fold, candidate) for fold in self.folds[len(known) : count])
        return known

    def best(self) -> Candidate:
        """Of the candidates looked at in all folds, the one that loses least."""
        whole = (one for one, lost in self._losses.items() if len(lost) == len(self.folds))
        return min(whole, key=lambda one: float(np.concatenate(self._losses[one]).mean()))

    def difference(self, candidate: Candidate, beside: Candidate) -> PairedDifference:
        """By how much more it loses, in all folds unless some show that it is clearly worse."""
        for count in range(1, len(self.folds) + 1):
            lost, other = (
                np.concatenate(self.losses(one, count)[:count]) for one in (candidate, beside)
            )
            rise, error = mean_by_users(lost - other, self.user[: len(lost)])
            if rise > CLEARLY * error:
                break
        return PairedDifference(float(lost.mean()), rise, error)


def mean_by_users(difference: Array, user: Array) -> tuple[float, float]:
    """The mean and its standard error; what one user's ratings say hangs together."""
    mean = float(difference.mean())
    total = np.bincount(user, difference - mean)
    return mean, float(np.sqrt(np.sum(total**2)) / len(user))
