"""Features of ratings as tables over the levels of a scale (section 2.1).

A feature vector f_a(s) is a row of the table `single`, so a parameter per feature is the same as a
parameter per level, `W[s] = sum_a gamma_a F[s, a]`, whose steps are smoothed by `F F'`. Categorical
and ordinal machines are then one machine with two tables; a Gaussian machine has a single level
whose weight is the standardised rating.

On a long scale neighbouring levels share their couplings, `W[s] = W[group of s]`: couplings are
smooth along a scale, and groups of it tell hidden units as much at a fraction of the cost. Biases
and links know every level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from ordbm.errors import SettingsError
from ordbm.model.settings import FeatureKind
from ordbm.runtime.printable import shown


@dataclass(frozen=True, eq=False)
class Features:
    """The features of one rating, `single` (n, A), and of a pair of ratings, `pair` (B, n, n).

    `group` (n,) is the group of each level, 0 to G - 1 and never falling, and `of_group` (G, A')
    are the features that couplings have.
    """

    kind: FeatureKind
    single: NDArray[np.float64]
    pair: NDArray[np.float64]
    group: NDArray[np.uint8]
    of_group: NDArray[np.float64]

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

    def tightness(self, n_hidden: int) -> float:
        """Precision of the prior of couplings, relative to that of a level's.

        For the same reason: what all units together may say of a mean beforehand, n_hidden over the
        precision, must not grow with their number.
        """
        return max(1.0, n_hidden / 8) if self.is_gaussian else 1.0

    @property
    def link_tightness(self) -> float:
        """The same of links: measured, by products of Gaussian ratings ("dense continuous")."""
        return 10.0 if self.is_gaussian else 1.0

    @property
    def n_pair(self) -> int:
        return len(self.pair)

    @property
    def n_groups(self) -> int:
        """Levels that couplings tell apart."""
        return len(self.of_group)

    @property
    def coupling(self) -> NDArray[np.float64]:
        """The features that couplings have at each level, (n, A')."""
        table: NDArray[np.float64] = self.of_group[self.group]
        return table

    @property
    def smoothing(self) -> NDArray[np.float64]:
        """F F', (n, n): a step on feature parameters, seen in level space."""
        table: NDArray[np.float64] = self.single @ self.single.T
        return table


def features(kind: FeatureKind, n_levels: int, n_groups: int | None = None) -> Features:
    """The paper's features for a scale of `n_levels` levels.

    With `n_groups`, ordinal couplings are those of a scale of so many levels, each of which stands
    for a run of neighbours; otherwise every level has its own.
    """
    if kind not in get_args(FeatureKind):
        raise SettingsError(
            f"features={shown(kind)} is not known: use one of {', '.join(get_args(FeatureKind))}"
        )
    if kind == "gaussian":
        one = np.ones((1, 1))
        return Features(kind, one, one[None], np.zeros(1, np.uint8), one)
    level = np.arange(n_levels, dtype=np.float64)
    if kind == "categorical":
        table = np.eye(n_levels)
        return Features(kind, table, table[None], level.astype(np.uint8), table)
    n_groups = n_levels if n_groups is None else min(n_groups, n_levels)
    group = (level * n_groups // n_levels).astype(np.uint8)
    distance = np.abs(level[:, None] - level)[None]
    return Features(kind, ordinal_table(n_levels), distance, group, ordinal_table(n_groups))


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
