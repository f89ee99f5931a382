"""Models that predict one number for a pair, and how they come by a distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ordbm.baselines.base import Baseline, Learnt, Watch
from ordbm.baselines.spread import Spread, learnt_spread
from ordbm.data.ratings import Ratings
from ordbm.data.split import hold_out
from ordbm.inference.distributions import RatingDistribution
from ordbm.runtime.arrays import Codes, Numbers

LEFT_OUT = 0.1
LEFT_OUT_SEED = 0


class Points(ABC):
    """Point predictions. Code -1 is an unknown user or item."""

    @abstractmethod
    def at(self, users: Codes, items: Codes) -> Numbers:
        """The prediction of each pair, on the scale's numbers but not clipped to it."""

    @abstractmethod
    def of_all_items(self, users: Codes) -> Numbers:
        """The predictions of these users for every item, (users, items)."""

    @abstractmethod
    def fold_in(self, items: Codes, values: Numbers) -> Points:
        """The same for somebody new, who is user 0 and gave these ratings."""


class PointModel(Baseline):
    """A model of point predictions, with the spread of ratings around them learnt beside it.

    The spread is that of a tenth of the ratings around predictions learnt without them, for
    residuals of ratings learnt from are too small. The mean of a pair's distribution is its point
    prediction; on levels it is clipped to within a hundredth of the scale's width of its ends.
    """

    @abstractmethod
    def _points(self, ratings: Ratings) -> Points:
        """The point predictions that these ratings teach."""

    def _learn(self, ratings: Ratings, watch: Watch) -> Learnt:  # noqa: ARG002
        inner, left_out = inner_split(ratings)
        points = self._points(inner) if left_out is not None else None
        return PointLearnt(self._points(ratings), spread_of(points, ratings, left_out))


@dataclass(frozen=True, eq=False)
class PointLearnt(Learnt):
    """Point predictions and the spread around them."""

    points: Points
    spread: Spread

    def distribution(self, users: Codes, items: Codes) -> RatingDistribution:
        return self.spread.around(self.points.at(users, items))

    def scores(self, users: Codes) -> Numbers:
        return self.points.of_all_items(users)

    def fold_in(self, items: Codes, values: Numbers) -> PointLearnt:
        return PointLearnt(self.points.fold_in(items, values), self.spread)


def inner_split(ratings: Ratings) -> tuple[Ratings, Ratings | None]:
    """Most ratings, and the others to learn the spread from; None if there are too few."""
    inner, left_out = hold_out(ratings, LEFT_OUT, LEFT_OUT_SEED, by="rating")
    return inner, left_out if len(left_out) else None


def spread_of(points: Points | None, ratings: Ratings, left_out: Ratings | None) -> Spread:
    """The spread around points that were learnt without the ratings left out."""
    if points is None or left_out is None:
        return learnt_spread(ratings.scale, np.zeros(0), None)
    found = points.at(left_out.user_codes, left_out.item_codes)
    return learnt_spread(ratings.scale, found, left_out)
