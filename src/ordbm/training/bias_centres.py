"""Where features expect the biases of what has ratings, learnt with the machine.

    b_i ~ N(m_i + a + x_i B, K / tau),    B_j ~ N(0, v_g K / tau),

with m_i by the number of ratings, and features j of column g of the table. Biases follow the exact
gradients of their side, around this centre; given them, what maximises the joint posterior is

    (a, B) = (X'X + 1 / v)^-1 X'(b - m).

How far a column of the table is trusted, v_g, is the sum of the squares of its effects over the
number of them that the ratings determine (MacKay's fixed point of the evidence). A column that says
nothing is soon not heard at all.
"""

from __future__ import annotations

import numpy as np

from ordbm.model.feature_effects import FeaturesTold
from ordbm.model.rules import FeatureRules
from ordbm.priors.products import cross_product
from ordbm.runtime.arrays import Array, Numbers

LEAST_VARIANCE = 1e-5  # of the largest of K; what is smaller is rounding


class BiasCentres:
    """Of the columns of one side."""

    def __init__(
        self,
        told: FeaturesTold,
        count: Array,  # (C,) ratings of each
        smoothing: Array,  # (n, n) K
        precision: float,  # tau
        curvature: float,  # of a bias in units of K, per rating
        rules: FeatureRules,
    ) -> None:
        self.design = told.design
        self._rated = (count > 0) & (told.design[:, 0] > 0)
        self._features = np.ascontiguousarray(told.design[self._rated], np.float64)
        self._group = told.encoder.group
        self.variance: Numbers = np.full(self._group.max(), rules.centre)  # v
        self.effects = np.zeros((told.design.shape[1], len(smoothing)))  # B; none of the constant
        self._least = rules.least_centre
        self._square = cross_product(self._features, self._features)
        scale, axes = np.linalg.eigh(smoothing.astype(np.float64))
        kept = scale > LEAST_VARIANCE * scale[-1]
        self._axes = axes[:, kept] * np.sqrt(precision / scale[kept])  # whiten by K / tau
        seen = curvature * count[self._rated, None] * scale[kept]
        told_of = seen / (seen + precision)  # how far ratings tell a column's own bias, by axis
        self._information = [
            cross_product(self._features * share[:, None], self._features) for share in told_of.T
        ]

    def learn(self, own: Array) -> None:
        """From biases beside what their numbers of ratings say, (C, n), as they are."""
        by_level = cross_product(self._features, np.ascontiguousarray(own[self._rated], np.float64))
        found = self._solved(by_level)
        self._trust_anew(found)
        self.effects[1:] = self._solved(by_level)[1:]

    def centre(self) -> Array:
        """x B of all columns, (C, n)."""
        return np.einsum("cq,qn->cn", self.design, self.effects, optimize=False)

    def _solved(self, by_level: Numbers) -> Numbers:
        """(X'X + 1 / v)^-1 X'(b - m), (q, n), zero for features that are not heard."""
        heard, held = self._heard()
        found = np.zeros_like(by_level)
        found[heard] = np.linalg.solve(
            self._square[np.ix_(heard, heard)] + np.diag(held), by_level[heard]
        )
        return found

    def _heard(self) -> tuple[Array, Numbers]:
        """Which features are heard, and 1 / v of each; the constant is free."""
        variance = np.concatenate([[np.inf], self.variance])[self._group]
        heard = np.flatnonzero(variance)
        return heard, 1 / variance[heard]

    def _trust_anew(self, found: Numbers) -> None:
        heard, held = self._heard()
        determined = np.zeros(len(heard))
        for information in self._information:
            posterior = np.linalg.pinv(information[np.ix_(heard, heard)] + np.diag(held))
            determined += 1 - held * np.diag(posterior)
        square = ((found @ self._axes) ** 2).sum(axis=1)[heard]
        n = 1 + len(self.variance)
        squares, numbers = (
            np.bincount(self._group[heard], of, n)[1:] for of in (square, determined)
        )
        variance = squares / np.maximum(numbers, 1e-9)
        self.variance[:] = np.where(variance > self._least, variance, 0.0)
