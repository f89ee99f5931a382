"""Links between the ratings of one person, as strong as their contexts are near: of one evening.

With F[k, f] the mean over somebody's other ratings j of B_f(r_j) - E[B_f | all but j], each by
kappa_k of the two contexts (`kernels.context`),

    P(s | context) ~ P(s) exp(sum_{k, f} weight[k, f] F[k, f] B_f(s)),      B(s) = (v, v^2),

where P and E are what the machines say without it, and v is the standardised number of a level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ordbm.data.context_columns import UNKNOWN, ContextColumns
from ordbm.kernels.context import (
    ANY_ITEMS,
    FIRST_COLUMN,
    LIKE_ITEMS,
    ORDER,
    RATED_TOGETHER,
    TIME,
)
from ordbm.runtime.arrays import Array, Numbers

# What any of them is good for is learnt.
SECONDS = (60.0, 600.0, 7200.0, 86400.0)  # a minute, ten minutes, two hours, a day
EVER = 1e9
SECONDS_ALIKE = (600.0, 7200.0, 86400.0, EVER)  # among items that are alike
SECONDS_TOGETHER = (600.0, 7200.0, EVER)  # among items that the same people rated
RATINGS_BETWEEN = (1.0, 3.0, 10.0, 30.0, 100.0)
DEVIATIONS = (0.1, 0.5, 2.0)  # of a column of numbers
# Of as many ratings without residual every mean is also one; few items are much alike.
SHRINKAGE = {ANY_ITEMS: 5.0, LIKE_ITEMS: 1.0, RATED_TOGETHER: 0.03}
N_FEATURES = 2


@dataclass(frozen=True, eq=False)
class ContextLinks:
    """Kernels by their axes and scales, and what each is good for."""

    axes: Array  # (K,) of `kernels.context`
    scales: Numbers  # (K,) seconds, ratings, or the units of a column; 0 for categories
    alike: Array  # (K,) of `kernels.context`: only as far as the items are
    shrinkage: Numbers  # (K,)
    weight: Numbers  # (K, N_FEATURES)

    def in_context(self, proba: Numbers, force: Array, basis: Numbers) -> Numbers:
        """P(s | context) of each pair, (pairs, n), from P(s) and F (pairs, K, N_FEATURES)."""
        tilt = np.einsum("pkf,kf,sf->ps", force, self.weight, basis)
        found = proba * np.exp(tilt - tilt.max(axis=1, keepdims=True))
        found /= found.sum(axis=1, keepdims=True)
        return found


def links_to_learn(has_times: bool, context: ContextColumns) -> ContextLinks:
    """All kernels that such ratings can have, good for nothing yet."""
    kernels: list[tuple[int, float, int]] = []
    if has_times:
        kernels += [(TIME, scale, ANY_ITEMS) for scale in SECONDS]
        kernels += [(ORDER, scale, ANY_ITEMS) for scale in RATINGS_BETWEEN]
        kernels += [(TIME, scale, LIKE_ITEMS) for scale in SECONDS_ALIKE]
        kernels += [(TIME, scale, RATED_TOGETHER) for scale in SECONDS_TOGETHER]
    for place, categories in enumerate(context.categories):
        axis, values = FIRST_COLUMN + place, context.values[:, place]
        spread = 0.0 if categories is not None else float(values[values != UNKNOWN].std())
        for share in DEVIATIONS if spread else (0.0,):
            kernels += [(axis, share * spread, alike) for alike in SHRINKAGE]
    axes, scales, alike = (np.array(column) for column in zip(*kernels, strict=True))
    weight = np.zeros((len(kernels), N_FEATURES))
    shrinkage = np.array([SHRINKAGE[one] for one in alike.tolist()])
    return ContextLinks(axes, scales, alike, shrinkage, weight)


def level_basis(values: Numbers) -> Numbers:
    """B(s) = (v, v^2) of each level, (n, N_FEATURES); v has mean 0 and deviation 1 over levels."""
    v = (values - values.mean()) / (values.std() or 1.0)
    return np.stack([v, v * v], axis=1)
