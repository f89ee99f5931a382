"""The curve from potentials to log-odds by which probabilities mean what they say."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ordbm.presence import CURVE, Array

CELLS = 10  # between two knots of the curve
STEEPNESS = 20.0  # precision of the prior by which rises at neighbouring knots are alike
HEIGHT = 1.0  # of that by which they are zero
LEAST_SLOPE = 0.1  # of the curve, so that it keeps the order
STEPS = 50  # of Newton's method


def cell_counts(potential: Array, rated: Array) -> Array:
    """How many pairs are in each narrow cell of the curve's potentials, and how many are rated.

    (2, cells); pairs beyond the ends are in the cells there.
    """
    size = CELLS * (len(CURVE) - 1) + 1
    step = (CURVE[1] - CURVE[0]) / CELLS
    cell = np.clip(np.rint((potential - CURVE[0]) / step).astype(np.int64), 0, size - 1)
    return np.array([np.bincount(cell, weight, size) for weight in (None, rated)])


def fitting_rise(counts: Array) -> Array:
    """What log-odds are above the potentials of CURVE, most likely by these `cell_counts`."""
    n_knots = len(CURVE)
    pairs, rated = counts
    place = np.arange(len(pairs)) / CELLS  # in knots
    potential = np.interp(place, np.arange(n_knots), CURVE)
    between = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(n_knots)))  # (cells, knots)
    change = np.diff(np.eye(n_knots), axis=0)
    precision = STEEPNESS * change.T @ change + HEIGHT * np.eye(n_knots)
    rise = np.zeros(n_knots)
    for _ in range(STEPS):
        proba = expit(potential + between @ rise)
        slope = between.T @ (pairs * proba - rated) + precision @ rise
        curvature = (between.T * (pairs * proba * (1 - proba))) @ between + precision
        step = np.clip(np.linalg.solve(curvature, slope), -1, 1)
        rise -= step
        if np.abs(step).max() < 1e-9:
            break
    least = LEAST_SLOPE * (CURVE - CURVE[0])
    found: Array = (np.maximum.accumulate(CURVE + rise - least) + least - CURVE).astype(np.float32)
    return found
