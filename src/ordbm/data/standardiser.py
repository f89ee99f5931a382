"""Ratings as a machine reads them: levels, or standardised values for a Gaussian machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordbm.data.csr import CSR, CSRPair
from ordbm.data.numeric_columns import check_not_tiny
from ordbm.data.ratings import Ratings
from ordbm.data.scale import RatingScale, Scale
from ordbm.errors import RatingsError
from ordbm.runtime.arrays import Codes, Numbers

LARGEST_RATING = 1e12  # in units of the deviation
MOST_WEIGHT = 1e6  # ratings by which a user's mean is drawn to that of all


class Standardiser(NamedTuple):
    """The unit of Gaussian ratings: z = (rating - mean) / deviation.

    With a `weight` each user has a unit of their own, (z - centre) / width. The centre is the mean
    of the user's c ratings and of `mean_weight` zeros; the width is (v / variance)^(share / 2),
    with v the mean square of z - centre over them and `weight` times `variance`. Somebody without
    ratings has the unit of all.
    """

    mean: float
    deviation: float
    weight: float = 0.0
    share: float = 0.0
    variance: float = 1.0
    mean_weight: float = 0.0

    def of_users(self, rows: CSR) -> OwnUnits:
        """The units of the users whose ratings on the scale are `rows`."""
        if not self.weight:
            return OwnUnits(np.zeros(rows.n_rows), np.ones(rows.n_rows))
        z = (np.asarray(rows.value, np.float64) - self.mean) / self.deviation
        n_rated = np.diff(rows.start)
        centre = np.bincount(rows.row, z, rows.n_rows) / np.maximum(n_rated + self.mean_weight, 1.0)
        count = n_rated + self.weight
        squared = np.bincount(rows.row, (z - centre[rows.row]) ** 2, rows.n_rows)
        spread = (squared + self.weight * self.variance) / count / self.variance
        return OwnUnits(centre, spread ** (self.share / 2))

    def of_user(self, row: CSR) -> Standardiser:
        """The unit of one of them."""
        (centre,), (width,) = self.of_users(row)
        return Standardiser(
            self.mean + self.deviation * float(centre), self.deviation * float(width)
        )


class OwnUnits(NamedTuple):
    """Of each user, in the unit of all; user -1 has this one."""

    centre: Numbers  # (users,)
    width: Numbers  # (users,)

    def of(self, users: Codes) -> OwnUnits:
        """Those of some users."""
        return OwnUnits(np.append(self.centre, 0.0)[users], np.append(self.width, 1.0)[users])


def standardiser_of(
    ratings: Ratings, mean_weight: float | None = None, own_weight: float = 0.0
) -> Standardiser:
    """The unit of a Gaussian machine: the ratings' mean and deviation.

    Given its hidden units a Gaussian rating has deviation one. With `mean_weight` the unit is what
    user and item means leave unexplained, so that this is the noise of the data; so many ratings
    like all others are added to those of each mean. Without it, as in the paper, the unit is the
    deviation of all ratings.

    With `own_weight` every user of a continuous scale has a unit of their own, its width drawn to
    that of all as by so many ratings, its centre as by those that the spread of users' means asks
    for. How widely somebody's ratings spread may be their use of the scale, or
    noise: the share of the former is read off from how much further the ratings of those who spread
    more follow the items' means.
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
    unit = Standardiser(mean, deviation if deviation > rounding else max(1.0, rounding))
    return _with_own(unit, ratings, own_weight) if own_weight and ratings.is_continuous else unit


def _with_own(unit: Standardiser, ratings: Ratings, weight: float) -> Standardiser:
    """The same with units of users' own, whose widths are to the power of `share`.

    It is that of y = (1 + share (width - 1)) x + width noise by least squares, where x is the mean
    of the item's y = z - centre, and the width is that of what x leaves unexplained.
    """
    rows = ratings.by_user
    z = (rows.value - unit.mean) / unit.deviation
    raters = np.bincount(rows.column, minlength=ratings.n_items) + weight
    of_item = (np.bincount(rows.column, z, ratings.n_items) / raters)[rows.column]
    mean_weight = _noise_by_spread(z - of_item, rows)
    count = np.diff(rows.start)
    y = z - (np.bincount(rows.row, z, rows.n_rows) / np.maximum(count + mean_weight, 1.0))[rows.row]
    count = count + weight
    x = (np.bincount(rows.column, y, ratings.n_items) / raters)[rows.column]
    left = (y - x) ** 2
    typical = float(left.mean()) or 1.0
    squared = np.bincount(rows.row, left, rows.n_rows)
    width = np.sqrt((squared + weight * typical) / count / typical)[rows.row]
    wider = (width - 1) * x / width
    norm = max(float(np.sum(wider**2)), float(np.finfo(np.float64).tiny))
    share = float(np.sum(wider * (y - x) / width)) / norm
    return unit._replace(
        weight=weight,
        share=min(1.0, max(0.0, share)),
        variance=float(np.mean(y**2)) or 1.0,
        mean_weight=mean_weight,
    )


def _noise_by_spread(values: Numbers, rows: CSR) -> float:
    """The variance within rows over that of their means, by an analysis of variance."""
    count = np.diff(rows.start)
    mean = np.bincount(rows.row, values, rows.n_rows) / np.maximum(count, 1)
    within = float(np.sum((values - mean[rows.row]) ** 2))
    within /= max(len(values) - int((count > 0).sum()), 1)
    between = float(np.sum(count * (mean - values.mean()) ** 2))
    between -= (int((count > 0).sum()) - 1) * within
    between /= max(len(values) - float(np.sum(count.astype(float) ** 2)) / len(values), 1.0)
    return MOST_WEIGHT if between * MOST_WEIGHT <= within else within / between


def machine_ratings(ratings: Ratings, standardiser: Standardiser | None) -> CSRPair:
    """Both orientations of the ratings, in the machine's terms."""
    given = CSRPair(ratings.by_user, ratings.by_item)
    return given if standardiser is None else standardised_pair(given, ratings.scale, standardiser)


def standardised_pair(given: CSRPair, scale: Scale, standardiser: Standardiser) -> CSRPair:
    """Both orientations of ratings, standardised."""
    by_user, by_item = given
    own = standardiser.of_users(by_user)
    return CSRPair(
        _standardised(by_user, scale, standardiser, own.of(by_user.row)),
        _standardised(by_item, scale, standardiser, own.of(by_item.column)),
    )


def standardised(given: CSR, scale: Scale, standardiser: Standardiser) -> CSR:
    """Ratings of users, a row each, in their units and in single precision; all of level 0."""
    own = standardiser.of_users(given)
    return _standardised(given, scale, standardiser, own.of(given.row))


def _standardised(given: CSR, scale: Scale, standardiser: Standardiser, own: OwnUnits) -> CSR:
    value = scale.values[given.level] if isinstance(scale, RatingScale) else given.value
    apart = (value - standardiser.mean) / standardiser.deviation
    far = np.abs(apart) > LARGEST_RATING
    if far.any():
        raise RatingsError(
            f"a rating of {value[far][0]:g} is too far from all that was learnt from, around "
            f"{standardiser.mean:g} with a deviation of {standardiser.deviation:g}: correct or "
            "drop it"
        )
    apart = (apart - own.centre) / own.width
    return given._replace(
        level=np.zeros(len(given.column), np.uint8), value=apart.astype(np.float32)
    )
