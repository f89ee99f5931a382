"""How often each level was given: by all, to an item, or by a user. And popularity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ordbm.baselines.base import Baseline, Learnt, Watch
from ordbm.data.level_counts import log_frequencies
from ordbm.data.ratings import Ratings
from ordbm.data.scale import ContinuousScale, RatingScale, Scale
from ordbm.inference.distributions import LevelDistribution, NormalDistribution, RatingDistribution
from ordbm.runtime.arrays import Codes, Numbers
from ordbm.runtime.checks import check_finite_amount

Group = Literal["all", "user", "item"]


class LevelFrequencies(Baseline):
    """The share of each level among all ratings (on a continuous scale: mean and deviation).

    It knows nothing of items: its lists are in the order in which items first appeared.
    """

    _group: Group = "all"

    def __init__(self) -> None:
        super().__init__()

    def _learn(self, ratings: Ratings, watch: Watch) -> Frequencies:  # noqa: ARG002
        population = _population(ratings)
        count = np.bincount(ratings.item_codes, minlength=ratings.n_items)
        weight = float(self._params.get("weight", 0.0))
        found = Frequencies(
            ratings.scale, self._group, population[None], population, weight, count, False
        )
        if self._group == "all":
            return found
        by_user = self._group == "user"
        codes = ratings.user_codes if by_user else ratings.item_codes
        size = ratings.n_users if by_user else ratings.n_items
        return replace(found, table=found.smoothed(codes, ratings.values, size))


class _Smoothed(LevelFrequencies):
    """Frequencies of a group with `weight` ratings of the population's added."""

    def __init__(self, weight: float = 5.0) -> None:
        check_finite_amount("weight", weight)
        Baseline.__init__(self, weight=weight)


class ItemFrequencies(_Smoothed):
    """The share of each level among an item's ratings, with `weight` ratings of all added."""

    _group = "item"


class UserFrequencies(_Smoothed):
    """The share of each level among a user's ratings, with `weight` ratings of all added.

    It knows nothing of items: its lists are in the order in which items first appeared.
    """

    _group = "user"


class Popularity(ItemFrequencies):
    """Items ranked by how many ratings they have; the rating predicted is `ItemFrequencies`'."""

    def _learn(self, ratings: Ratings, watch: Watch) -> Frequencies:
        return replace(super()._learn(ratings, watch), by_count=True)


@dataclass(frozen=True, eq=False)
class Frequencies(Learnt):
    """Level shares, or mean and variance on a continuous scale, by group.

    `table` has a row for each user or item and a last one, the population's, for the unknown.
    """

    scale: Scale
    group: Group
    table: Numbers
    population: Numbers
    weight: float
    count: Any  # ratings of each item
    by_count: bool

    def smoothed(self, codes: Any, values: Numbers, size: int) -> Numbers:
        """Rows of `table` for groups 0..size-1 with these ratings, and one for the unknown."""
        prior = self.population
        count = np.bincount(codes, minlength=size + 1).astype(np.float64)
        total = np.maximum(count + self.weight, np.finfo(float).tiny)
        if isinstance(self.scale, RatingScale):
            n = len(self.scale)
            cell = codes.astype(np.int64) * n + self.scale.nearest(values)
            levels = np.bincount(cell, minlength=(size + 1) * n).reshape(size + 1, n)
            table = (levels + self.weight * prior) / total[:, None]
        else:
            away = values - prior[0]
            mean = np.bincount(codes, away, size + 1) / total
            square = np.bincount(codes, (away - mean[codes]) ** 2, size + 1)
            # The prior's own distance from the mean is part of the mixture's variance.
            variance = (square + self.weight * (prior[1] + mean**2)) / total
            # Without prior ratings a group of equal ratings has no variance to learn.
            variance = np.where(variance > 0, variance, prior[1])
            table = np.stack([prior[0] + mean, variance], axis=1)
        table[count + self.weight == 0] = prior
        table[-1] = prior
        return table

    def distribution(self, users: Codes, items: Codes) -> RatingDistribution:
        codes = {"user": users, "item": items, "all": np.zeros(len(users), np.int32)}[self.group]
        found = self.table[codes]
        if isinstance(self.scale, RatingScale):
            return LevelDistribution(self.scale, found)
        return NormalDistribution(self.scale, found[:, 0], np.sqrt(found[:, 1]))

    def scores(self, users: Codes) -> Numbers:
        n_items = len(self.count)
        if self.by_count:
            score = self.count.astype(np.float64)
        elif self.group == "item":
            items = np.arange(n_items, dtype=np.int32)
            score = self.distribution(items, items).mean()
        else:
            return np.tile(self.distribution(users, users).mean()[:, None], (1, n_items))
        return np.tile(score, (len(users), 1))

    def fold_in(self, items: Codes, values: Numbers) -> Frequencies:
        if self.group != "user":
            return self
        return replace(self, table=self.smoothed(np.zeros(len(items), np.int64), values, 1))


def _population(ratings: Ratings) -> Numbers:
    """The share of each level, half a rating added to each; or mean and variance."""
    if isinstance(ratings.scale, ContinuousScale):
        values = ratings.values
        return np.array([values.mean(), values.var() or ratings.scale.deviation**2])
    if len(ratings.scale) == 1:
        return np.ones(1)
    return np.exp(log_frequencies(ratings.levels, len(ratings.scale)))
