"""The overall mean with a deviation for each user and each item."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ordbm.baselines.points import PointModel, Points
from ordbm.data.csr import CSR
from ordbm.data.ratings import Ratings
from ordbm.runtime.arrays import Codes, Numbers
from ordbm.runtime.checks import check_finite_amount

MOST_SWEEPS = 100
SETTLED = 1e-9  # of the ratings' deviation: a sweep that moves less is the last


class Bias(PointModel):
    """mean + user's deviation + item's deviation, the least squares of

    Σ (r − mean − b_u − b_i)² + damping · (Σ b_u² + Σ b_i²).

    A deviation learnt from n ratings is thus drawn towards zero as if `damping` more ratings had
    none. The mean of a pair's distribution is this prediction clipped to the scale (`PointModel`).
    """

    def __init__(self, damping: float = 5.0) -> None:
        check_finite_amount("damping", damping)
        super().__init__(damping=damping)

    def _points(self, ratings: Ratings) -> BiasPoints:
        return bias_points(ratings, self._params["damping"])


@dataclass(frozen=True, eq=False)
class BiasPoints(Points):
    """mean + user[u] + item[i]; the last user and item are the unknown, with zero."""

    mean: float
    user: Numbers
    item: Numbers
    damping: float

    def at(self, users: Codes, items: Codes) -> Numbers:
        return self.mean + self.user[users] + self.item[items]

    def of_all_items(self, users: Codes) -> Numbers:
        return self.mean + self.user[users, None] + self.item[:-1]

    def fold_in(self, items: Codes, values: Numbers) -> BiasPoints:
        left = values - self.mean - self.item[items]
        own = damped_means(np.zeros(len(items), np.int64), left, 1, self.damping)
        return replace(self, user=own)


def bias_points(ratings: Ratings, damping: float) -> BiasPoints:
    """The deviations, by sweeps over items and users in turn until they stay."""
    mean = float(ratings.values.mean())
    away = ratings.values - mean
    # A user's mean of what is left is the mean of all less the mean of the items' deviations.
    user_mean = damped_means(ratings.user_codes, away, ratings.n_users, damping)
    item_mean = damped_means(ratings.item_codes, away, ratings.n_items, damping)
    per_user = _averaging(ratings.by_user, ratings.n_items, damping)
    per_item = _averaging(ratings.by_item, ratings.n_users, damping)
    of_user, of_item = np.zeros(ratings.n_users), np.zeros(ratings.n_items)
    for _ in range(MOST_SWEEPS):
        before = of_user
        of_item = item_mean[:-1] - per_item @ of_user
        of_user = user_mean[:-1] - per_user @ of_item
        if np.abs(of_user - before).max() <= SETTLED * float(away.std()):
            break
    return BiasPoints(mean, np.append(of_user, 0.0), np.append(of_item, 0.0), damping)


def _averaging(rows: CSR, n_columns: int, damping: float) -> csr_array:
    """The matrix that takes numbers of the columns to damped means of each row, (rows, columns)."""
    count = np.diff(rows.start)
    share = np.repeat(1.0 / np.maximum(count + damping, 1e-300), count)
    return csr_array((share, rows.column, rows.start), shape=(rows.n_rows, n_columns))


def damped_means(codes: NDArray[np.integer], values: Numbers, size: int, damping: float) -> Numbers:
    """Σ values / (count + damping) of groups 0..size-1, and a zero for the unknown."""
    total = np.bincount(codes, values, size + 1)
    count = np.bincount(codes, minlength=size + 1) + damping
    means: Numbers = np.divide(total, count, out=np.zeros(size + 1), where=count > 0)
    return means
