"""Ratings as a machine reads them: levels, or standardised values for a Gaussian machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordbm.data.csr import CSR, CSRPair
from ordbm.data.numeric_columns import check_not_tiny
from ordbm.data.ratings import Ratings
from ordbm.data.scale import RatingScale, Scale
from ordbm.errors import RatingsError

LARGEST_RATING = 1e12  # in units of the deviation


def standardiser_of(ratings: Ratings, mean_weight: float | None = None) -> Standardiser:
    """The unit of a Gaussian machine: the ratings' mean and deviation.

    Given its hidden units a Gaussian rating has deviation one. With `mean_weight` the unit is what
    user and item means leave unexplained, so that this is the noise of the data; so many ratings
    like all others are added to those of each mean. Without it, as in the paper, the unit is the
    deviation of all ratings.
    """
    values = ratings.values.astype(np.float64)
    check_not_tiny(values)
    mean = float(values.mean())
    left = values - mean
    if mean_weight is not None:
        for codes, size in (
            (ratings.item_codes, ratings.n_items),
            (ratings.user_codes, ratings.n_users),
        ):
            count = np.bincount(codes, minlength=size)
            left = left - (np.bincount(codes, left, size) / (count + mean_weight))[codes]
    deviation = float(np.sqrt(np.mean(left**2)))
    rounding = 1e-9 * float(np.abs(values).max())
    return Standardiser(mean, deviation if deviation > rounding else max(1.0, rounding))


def machine_ratings(ratings: Ratings, standardiser: Standardiser | None) -> CSRPair:
    """Both orientations of the ratings, in the machine's terms."""
    given = CSRPair(ratings.by_user, ratings.by_item)
    return given if standardiser is None else standardised_pair(given, ratings.scale, standardiser)


def standardised_pair(given: CSRPair, scale: Scale, standardiser: Standardiser) -> CSRPair:
    """Both orientations of ratings, standardised."""
    return CSRPair(*(standardised(rows, scale, standardiser) for rows in given))


def standardised(given: CSR, scale: Scale, standardiser: Standardiser) -> CSR:
    """(rating - mean) / deviation of each rating, in single precision; all of level 0."""
    value = scale.values[given.level] if isinstance(scale, RatingScale) else given.value
    apart = (value - standardiser.mean) / standardiser.deviation
    far = np.abs(apart) > LARGEST_RATING
    if far.any():
        raise RatingsError(
            f"a rating of {value[far][0]:g} is too far from all that was learnt from, around "
            f"{standardiser.mean:g} with a deviation of {standardiser.deviation:g}: correct or "
            "drop it"
        )
    return given._replace(
        level=np.zeros(len(given.column), np.uint8), value=apart.astype(np.float32)
    )


class Standardiser(NamedTuple):
    """The unit of Gaussian ratings: (rating - mean) / deviation."""

    mean: float
    deviation: float
