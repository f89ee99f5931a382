"""Ratings as a machine reads them: levels, or standardised values for a Gaussian machine."""

from __future__ import annotations

import numpy as np

from ordbm.features import Standard
from ordbm.machine import Array, Orientations
from ordbm.ratings import Ratings
from ordbm.rows import Rows
from ordbm.scale import RatingScale

SHRINKAGE = 10.0  # ratings' worth of the overall mean added to a user's or item's own mean


def standard_of(ratings: Ratings, residual: bool) -> Standard:
    """The unit of a Gaussian machine: the ratings' mean and deviation.

    Given its hidden units a Gaussian rating has deviation one. With `residual` the unit is what
    user and item means leave unexplained, so that this is the noise of the data; without, as in the
    paper, it is the deviation of all ratings.
    """
    values = ratings.values.astype(np.float64)
    mean = float(values.mean())
    left = values - mean
    if residual:
        for codes, size in (
            (ratings.item_codes, ratings.n_items),
            (ratings.user_codes, ratings.n_users),
        ):
            count = np.bincount(codes, minlength=size)
            left = left - (np.bincount(codes, left, size) / (count + SHRINKAGE))[codes]
    deviation = float(np.sqrt(np.mean(left**2)))
    rounding = 1e-9 * float(np.abs(values).max())
    return Standard(mean, deviation if deviation > rounding else 1.0)


def encoded(ratings: Ratings, standard: Standard | None) -> Orientations:
    """Both orientations of the ratings, in the machine's terms."""
    if standard is None:
        return Orientations(ratings.by_user, ratings.by_item)
    return Orientations(
        *(_standardised(rows, ratings, standard) for rows in (ratings.by_user, ratings.by_item))
    )


def log_frequencies(levels: np.ndarray, n_levels: int) -> np.ndarray:
    """log of each level's share, half a rating added to each; zero for Gaussian ratings."""
    if n_levels == 1:
        return np.zeros(1)
    count = np.bincount(levels, minlength=n_levels) + 0.5
    shares: np.ndarray = np.log(count / count.sum())
    return shares


def count_potentials(columns: Rows, n_levels: int, weight: float) -> tuple[Array, Array]:
    """What the number of a column's other ratings says of a level: potentials (columns, n).

    And that of a column without ratings, (n,). Columns with few ratings are rated differently from
    those with many; each octave of counts has a potential of its own, its levels' log frequencies
    over those of all, as if `weight` more ratings in it were like all others. Zero if weight is 0.
    """
    count = np.diff(columns.start)
    octave = np.log2(np.maximum(count, 1)).astype(np.int64)
    shares = np.exp(log_frequencies(columns.level, n_levels))
    n_octaves = int(octave.max(initial=0)) + 1
    potential = np.zeros((n_octaves, n_levels))
    if weight > 0 and n_levels > 1:
        cell = np.repeat(octave, count) * n_levels + columns.level
        table = np.bincount(cell, minlength=potential.size).reshape(potential.shape)
        total = table.sum(axis=1, keepdims=True)
        potential = np.log((table / shares + weight) / (total + weight))
    return potential[octave], potential[0] if (count == 1).any() else np.zeros(n_levels)


def _standardised(rows: Rows, ratings: Ratings, standard: Standard) -> Rows:
    scale = ratings.scale
    value = scale.values[rows.level] if isinstance(scale, RatingScale) else rows.value
    return rows._replace(
        level=np.zeros(len(rows.column), np.uint8),
        value=((value - standard.mean) / standard.deviation).astype(np.float32),
    )
