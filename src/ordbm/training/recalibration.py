"""The recalibration map from potentials to log-odds, by which probabilities mean what they say."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ordbm.model.presence import KNOTS
from ordbm.model.rules import PresenceRules
from ordbm.runtime.arrays import Array

STEPS = 50  # of Newton's method


def cell_counts(potential: Array, rated: Array, cells: int) -> Array:
    """How many pairs are in each cell of potentials, `cells` from knot to knot, and how many rated.

    (2, all cells); pairs beyond the ends are in the cells there.
    """
    size = cells * (len(KNOTS) - 1) + 1
    step = (KNOTS[1] - KNOTS[0]) / cells
    cell = np.clip(np.rint((potential - KNOTS[0]) / step).astype(np.int64), 0, size - 1)
    return np.array([np.bincount(cell, weight, size) for weight in (None, rated)])


def recalibration_map(counts: Array, rules: PresenceRules) -> Array:
    """rho(KNOTS), what log-odds are above potentials: most likely by `cell_counts`, and monotone.

    Maximum a posteriori by Newton's method; then the nearest map, each knot weighted by how well it
    is known, that rises by `least_slope` everywhere (isotonic regression).
    """
    n_knots = len(KNOTS)
    pairs, rated = counts
    place = np.arange(len(pairs)) / rules.cells  # in knots
    potential = np.interp(place, np.arange(n_knots), KNOTS)
    between = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(n_knots)))  # (cells, knots)
    change = np.diff(np.eye(n_knots), axis=0)
    precision = rules.smoothness * change.T @ change + rules.height * np.eye(n_knots)
    recalibration = np.zeros(n_knots)
    for _ in range(STEPS):
        proba = expit(potential + between @ recalibration)
        slope = between.T @ (pairs * proba - rated) + precision @ recalibration
        curvature = (between.T * (pairs * proba * (1 - proba))) @ between + precision
        step = np.clip(np.linalg.solve(curvature, slope), -1, 1)
        recalibration -= step
        if np.abs(step).max() < 1e-9:
            break
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - answers need not wait for it

    least = rules.least_slope * (KNOTS - KNOTS[0])
    rising = isotonic_regression(KNOTS + recalibration - least, weights=curvature.diagonal()).x
    found: Array = (rising + least - KNOTS).astype(np.float32)
    return found
