"""Links between the ratings of one person, as strong as their contexts are near: of one evening.

With F[k, f] the mean over somebody's other ratings j of B_f(r_j) - E[B_f | all but j], each by
kappa_k of the two contexts (`kernels.context`),

    P(s | context) ~ P(s) exp(sum_{k, f} weight[k, f] F[k, f] B_f(s)),      B(s) = (v, v^2),

where P and E are what the machines say without it, and v is the standardised number of a level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ordbm.runtime.arrays import Array, Numbers

# A minute, ten minutes, two hours, a day: what any of them is good for is learnt.
SCALES = (60.0, 600.0, 7200.0, 86400.0)
SHRINKAGE = 5.0  # of as many ratings without residual every mean is also one
N_FEATURES = 2


@dataclass(frozen=True, eq=False)
class ContextLinks:
    """Kernels by their scales in seconds, and what each is good for."""

    scales: Numbers  # (K,)
    shrinkage: float
    weight: Numbers  # (K, N_FEATURES)

    def in_context(self, proba: Numbers, force: Array, basis: Numbers) -> Numbers:
        """P(s | context) of each pair, (pairs, n), from P(s) and F (pairs, K, N_FEATURES)."""
        tilt = np.einsum("pkf,kf,sf->ps", force, self.weight, basis)
        found = proba * np.exp(tilt - tilt.max(axis=1, keepdims=True))
        found /= found.sum(axis=1, keepdims=True)
        return found


def level_basis(values: Numbers) -> Numbers:
    """B(s) = (v, v^2) of each level, (n, N_FEATURES); v has mean 0 and deviation 1 over levels."""
    v = (values - values.mean()) / (values.std() or 1.0)
    return np.stack([v, v * v], axis=1)
