"""What nearness in context is good for, learnt from ratings that a machine has not seen."""

from __future__ import annotations

import numpy as np

from ordbm.runtime.arrays import Array, Codes, Numbers

PRECISION = 10.0  # of the prior of weights around zero: little beside some thousand ratings
TRIAL_RATINGS = 1_000_000  # that the trial machine learns from, at most
HELD_OUT = 0.1
_STEPS = 30


def context_weights(proba: Numbers, basis: Numbers, force: Array, level: Codes) -> Numbers:
    """argmax_w sum_i log P(level_i | context; w) - PRECISION / 2 |w|^2, (K, F), by Newton's method.

    It is concave: a logistic regression with log P(s) as its offset.
    """
    n_pairs, n_kernels, n_features = force.shape
    offset = np.log(np.maximum(proba, 1e-300))
    weight = np.zeros((n_kernels, n_features))

    def objective(weight: Numbers) -> tuple[float, Numbers]:
        score = offset + np.einsum("pkf,kf,sf->ps", force, weight, basis)
        score -= score.max(axis=1, keepdims=True)
        chance = np.exp(score)
        total = chance.sum(axis=1, keepdims=True)
        log_likelihood = (score[np.arange(n_pairs), level] - np.log(total[:, 0])).sum()
        return float(log_likelihood - PRECISION / 2 * (weight**2).sum()), chance / total

    value, chance = objective(weight)
    for _ in range(_STEPS):
        mean = chance @ basis
        gradient = np.einsum("pkf,pf->kf", force, basis[level] - mean) - PRECISION * weight
        spread = np.einsum("ps,sf,sg->pfg", chance, basis, basis)
        spread -= mean[:, :, None] * mean[:, None, :]
        curvature = np.einsum("pkf,plg,pfg->kflg", force, force, spread, optimize=True)
        curvature = curvature.reshape(weight.size, -1) + PRECISION * np.eye(weight.size)
        step = np.linalg.solve(curvature, gradient.ravel()).reshape(weight.shape)
        size = 1.0
        while True:
            new_value, new_chance = objective(weight + size * step)
            if new_value >= value or size < 1e-6:
                break
            size /= 2
        if new_value < value:
            break
        gained, value, chance, weight = (
            new_value - value,
            new_value,
            new_chance,
            weight + size * step,
        )
        if gained < 1e-9 * abs(value):
            break
    return weight
