"""Features of ratings as tables over the levels of a scale (section 2.1).

A feature vector f_a(s) is a row of the table `single`, so a parameter per feature is the same as a
parameter per level, `W[s] = sum_a gamma_a F[s, a]`, whose steps are smoothed by `F F'`. Categorical
and ordinal machines are then one machine with two tables; a Gaussian machine has a single level
whose weight is the standardised rating.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from ordbm.errors import SettingsError
from ordbm.model.settings import FeatureKind


@dataclass(frozen=True, eq=False)
class Features:
    """The features of one rating, `single` (n, A), and of a pair of ratings, `pair` (B, n, n)."""

    kind: FeatureKind
    single: NDArray[np.float64]
    pair: NDArray[np.float64]

    @property
    def n_levels(self) -> int:
        """Rows of the tables: the scale's levels, or one for Gaussian ratings."""
        return len(self.single)

    @property
    def is_gaussian(self) -> bool:
        return self.kind == "gaussian"

    def curvature(self, n_hidden: int) -> float:
        """Second derivative of a rating's log-probability, relative to that of a level's share.

        All hidden units move a Gaussian mean together, which nothing bounds: with many of them,
        each must take a smaller step.
        """
        return max(5.0, n_hidden / 5) if self.is_gaussian else 1.0

    @property
    def n_pair(self) -> int:
        return len(self.pair)

    @property
    def smoothing(self) -> NDArray[np.float64]:
        """F F', (n, n): a step on feature parameters, seen in level space."""
        table: NDArray[np.float64] = self.single @ self.single.T
        return table


def features(kind: FeatureKind, n_levels: int) -> Features:
    """The paper's features for a scale of `n_levels` levels."""
    if kind not in get_args(FeatureKind):
        raise SettingsError(
            f"features={kind!r} is not known: use one of {', '.join(get_args(FeatureKind))}"
        )
    if kind == "gaussian":
        return Features(kind, np.ones((1, 1)), np.ones((1, 1, 1)))
    level = np.arange(n_levels, dtype=np.float64)
    if kind == "categorical":
        return Features(kind, np.eye(n_levels), np.eye(n_levels)[None])
    return Features(kind, ordinal_table(n_levels), np.abs(level[:, None] - level)[None])


def ordinal_table(n_levels: int) -> NDArray[np.float64]:
    """f_down_t(s) = (t - s) [t < s] and f_up_t(s) = (t - s) [t > s], as columns.

    The two that vanish at every level (down at the top, up at the bottom) are left out; a scale of
    one level has a single constant feature.
    """
    if n_levels == 1:
        return np.ones((1, 1))
    level = np.arange(n_levels, dtype=np.float64)
    difference = level - level[:, None]  # [s, t] = t - s
    down = np.minimum(difference, 0)[:, :-1]
    up = np.maximum(difference, 0)[:, 1:]
    return np.concatenate([down, up], axis=1)
