"""Ratings as a machine reads them: levels, or standardised values for a Gaussian machine."""

from __future__ import annotations

import numpy as np

from ordbm.features import Standard
from ordbm.machine import Orientations
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


def _standardised(rows: Rows, ratings: Ratings, standard: Standard) -> Rows:
    scale = ratings.scale
    value = scale.values[rows.level] if isinstance(scale, RatingScale) else rows.value
    return rows._replace(
        level=np.zeros(len(rows.column), np.uint8),
        value=((value - standard.mean) / standard.deviation).astype(np.float32),
    )
