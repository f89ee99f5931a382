"""Predicted distributions of ratings, and the single ratings read off them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ordbm.data.scale import ContinuousScale, RatingScale
from ordbm.data.standardiser import OwnUnits, Standardiser
from ordbm.errors import SettingsError
from ordbm.inference.conditioned import ConditionedMachine, Method, softmax
from ordbm.runtime.arrays import Codes, Numbers
from ordbm.runtime.printable import shown

Decode = Literal["mean", "median", "mode"]

_PAIRS_AT_ONCE = 50_000
_POINTS_AT_ONCE = 4_000_000
REACH = 10.0  # deviations beyond all means of a mixture that quadrature covers
_SPACING = 0.5  # of its points; the error of the sum over a normal density is then below 1e-30
_PIECE_POINTS = 12  # Gauss points in a piece of a level's cell
_PIECE = 2.5  # deviations wide, unless that makes more than _MOST_PIECES
_MOST_PIECES = 500


@dataclass(frozen=True, eq=False)
class LevelDistribution:
    """P(level) of each pair, `proba` (pairs, n), on a scale of ordered levels."""

    scale: RatingScale
    proba: Numbers

    def mean(self) -> Numbers:
        # Not a matrix product, whose last bits depend on how many pairs there are.
        return (self.proba * self.scale.values).sum(axis=1)

    def median(self) -> Numbers:
        """The lowest level with at least half of the mass at or below it."""
        below = np.cumsum(self.proba, axis=1)[:, :-1] < 0.5
        return self.scale.values[below.sum(axis=1)]

    def mode(self) -> Numbers:
        """The most probable level: the paper's MAP assignment."""
        return self.scale.values[self.proba.argmax(axis=1)]

    def deviation(self) -> Numbers:
        centred = self.scale.values - self.mean()[:, None]
        return np.sqrt((self.proba * centred**2).sum(axis=1))

    def confidence(self) -> Numbers:
        """P of the most probable level, the paper's measure of confidence."""
        return self.proba.max(axis=1)

    def log_probability(self, levels: Codes) -> Numbers:
        """log P of the given level of each pair."""
        return np.log(np.maximum(self.proba[np.arange(len(levels)), levels], 1e-300))


@dataclass(frozen=True, eq=False)
class NormalDistribution:
    """A normal distribution for each pair, on a continuous scale."""

    scale: ContinuousScale
    centre: Numbers
    spread: Numbers

    def mean(self) -> Numbers:
        return self.centre

    def median(self) -> Numbers:
        return self.centre

    def mode(self) -> Numbers:
        return self.centre

    def deviation(self) -> Numbers:
        return self.spread

    def confidence(self) -> Numbers:
        """P that the rating is within half of the scale's deviation of the mean."""
        return 2.0 * ndtr(0.5 * self.scale.deviation / self.spread) - 1.0

    def log_probability(self, values: Numbers) -> Numbers:
        """Log density at the given ratings."""
        z = (values - self.centre) / self.spread
        return -0.5 * z**2 - np.log(self.spread) - 0.5 * np.log(2.0 * np.pi)

    def quantile(self, q: float | Numbers) -> Numbers:
        return self.centre + self.spread * ndtri(q)

    def in_own_units(self, standardiser: Standardiser, own: OwnUnits) -> NormalDistribution:
        """The same, read in the unit of all, where each pair's user has their own."""
        mean, shift = standardiser.mean, standardiser.deviation * own.centre
        return NormalDistribution(
            self.scale, mean + shift + own.width * (self.centre - mean), own.width * self.spread
        )


RatingDistribution = LevelDistribution | NormalDistribution


def decode(distribution: RatingDistribution, how: Decode) -> Numbers:
    """One rating per pair: the distribution's mean, median or mode."""
    if how not in get_args(Decode):
        raise SettingsError(
            f"decode={shown(how)} is not known: use one of {', '.join(get_args(Decode))}"
        )
    rating: Numbers = getattr(distribution, how)()
    return rating


def check_known_method(method: str) -> None:
    """An error that names the methods there are, unless it is one of them."""
    if method not in get_args(Method):
        raise SettingsError(f"method={shown(method)} is not known: use 'exact' or 'mean_field'")


def predicted_distribution(
    conditioned: ConditionedMachine,
    scale: RatingScale | ContinuousScale,
    standardiser: Standardiser | None,
    users: Codes,
    items: Codes,
    method: Method = "exact",
) -> RatingDistribution:
    """The distribution of each pair's rating given all other ratings.

    "exact" sums the hidden units out; "mean_field" fixes them at their means (equation 2).
    `standardiser` is the Gaussian machine's unit; on levels, its mass around each level is given.
    """
    check_known_method(method)
    parts = [
        _block_figures(conditioned, scale, standardiser, users[first : first + _PAIRS_AT_ONCE],
              items[first : first + _PAIRS_AT_ONCE], method)
        for first in range(0, max(len(users), 1), _PAIRS_AT_ONCE)
    ]  # fmt: skip
    if isinstance(scale, RatingScale):
        return LevelDistribution(scale, np.concatenate(parts))
    whole = np.concatenate(parts)
    return NormalDistribution(scale, whole[:, 0], whole[:, 1])


def reordered(parts: Sequence[RatingDistribution], order: Codes) -> RatingDistribution:
    """Distributions of several pairs' ratings as one, in this order."""
    first = parts[0]
    if isinstance(first, LevelDistribution):
        proba = [part.proba for part in parts if isinstance(part, LevelDistribution)]
        return LevelDistribution(first.scale, np.concatenate(proba)[order])
    mean, deviation = (
        np.concatenate([getattr(part, name)() for part in parts])[order]
        for name in ("mean", "deviation")
    )
    return NormalDistribution(first.scale, mean, deviation)


def mixture(members: Sequence[RatingDistribution]) -> RatingDistribution:
    """The even mixture of several machines' distributions of the same pairs' ratings.

    On a continuous scale it is the normal distribution with the mixture's mean and deviation.
    """
    first = members[0]
    if len(members) == 1:
        return first
    if isinstance(first, LevelDistribution):
        proba = (found.proba for found in members if isinstance(found, LevelDistribution))
        return LevelDistribution(first.scale, _mean(proba))
    mean = _mean(found.mean() for found in members)
    variance = _mean(found.deviation() ** 2 + (found.mean() - mean) ** 2 for found in members)
    return NormalDistribution(first.scale, mean, np.sqrt(variance))


def _mean(arrays: Iterable[Numbers]) -> Numbers:
    found = list(arrays)
    total: Numbers = sum(found[1:], found[0].copy())
    return total / len(found)


def level_cells(scale: RatingScale, standardiser: Standardiser) -> Numbers:
    """Edges between levels in standard units, outermost at infinity: (n + 1,).

    Half-way between levels, or where the bins of a binned scale end.
    """
    values = scale.values
    between = (values[1:] + values[:-1]) / 2 if scale.edges is None else scale.edges[1:-1]
    return np.concatenate(
        [[-np.inf], (between - standardiser.mean) / standardiser.deviation, [np.inf]]
    )


class CellPoints(NamedTuple):
    """Quadrature points that know which level's cell they are in."""

    point: Numbers
    log_weight: Numbers
    cell: NDArray[np.int64]


def cell_points(edges: Numbers) -> CellPoints:
    """Gauss-Legendre points in pieces of the cells; open cells reach REACH deviations out."""
    inner = edges[1:-1] if len(edges) > 2 else np.zeros(1)
    ends = np.concatenate([[inner[0] - REACH], inner, [inner[-1] + REACH]])
    width = max(_PIECE, (ends[-1] - ends[0]) / _MOST_PIECES)
    pieces = np.concatenate(
        [
            np.linspace(low, high, int(np.ceil((high - low) / width)) + 1)[:-1]
            for low, high in pairwise(ends)
        ]
        + [ends[-1:]]
    )
    node, weight = np.polynomial.legendre.leggauss(_PIECE_POINTS)
    half = np.diff(pieces)[:, None] / 2
    point = (pieces[:-1, None] + half * (1 + node)).ravel()
    cell = np.searchsorted(edges[1:-1], point, side="right")
    return CellPoints(point, np.log(half * weight).ravel(), cell)


def _block_figures(
    conditioned: ConditionedMachine,
    scale: RatingScale | ContinuousScale,
    standardiser: Standardiser | None,
    users: Codes,
    items: Codes,
    method: Method,
) -> Numbers:
    """(pairs, n) probabilities, or (pairs, 2) mean and deviation on a continuous scale."""
    if standardiser is None:
        return softmax(conditioned.pair_scores(users, items, method))
    mean = conditioned.pair_scores(users, items, "mean_field")[:, 0].astype(np.float64)
    if isinstance(scale, RatingScale):
        edges = level_cells(scale, standardiser)
        if method == "mean_field":
            return np.diff(ndtr(edges - mean[:, None]), axis=1)
        return _in_blocks(_cell_masses(conditioned, edges), users, items)
    if method == "exact":
        found = _in_blocks(_moments(conditioned), users, items)
    else:
        found = np.stack([mean, np.ones_like(mean)], axis=1)
    return found * standardiser.deviation + [standardiser.mean, 0.0]


class _Quadrature(NamedTuple):
    """Points per pair, and what to make of the densities there."""

    n_points: int
    solve: Callable[[Codes, Codes], Numbers]


def _in_blocks(quadrature: _Quadrature, users: Codes, items: Codes) -> Numbers:
    size = max(1, _POINTS_AT_ONCE // quadrature.n_points)
    return np.concatenate(
        [
            quadrature.solve(users[first : first + size], items[first : first + size])
            for first in range(0, max(len(users), 1), size)
        ]
    )


def _moments(conditioned: ConditionedMachine) -> _Quadrature:
    """Mean and deviation of the exact density, (pairs, 2), by the trapezoidal rule.

    The density is a mixture of normals; no mean is further from the mean-field one than the sum of
    the pair's couplings.
    """
    widest = sum(
        float(np.abs(side.parameters.coupling[:, 0]).sum(axis=1).max(initial=0.0))
        for side in conditioned.machine.sides
        if side is not None
    )
    offset = np.arange(-REACH - widest, REACH + widest + _SPACING / 2, _SPACING)

    def solve(users: Codes, items: Codes) -> Numbers:
        centre = conditioned.pair_scores(users, items, "mean_field")[:, 0].astype(np.float64)
        grid = centre[:, None] + offset
        proba = softmax(conditioned.pair_log_densities(users, items, grid))
        mean = (proba * grid).sum(axis=1)
        deviation = np.sqrt((proba * (grid - mean[:, None]) ** 2).sum(axis=1))
        return np.stack([mean, deviation], axis=1)

    return _Quadrature(len(offset), solve)


def _cell_masses(conditioned: ConditionedMachine, edges: Numbers) -> _Quadrature:
    """Mass of the exact density in each level's cell, (pairs, n)."""
    points = cell_points(edges)

    def solve(users: Codes, items: Codes) -> Numbers:
        grid = np.broadcast_to(points.point, (len(users), len(points.point)))
        mass = softmax(conditioned.pair_log_densities(users, items, grid) + points.log_weight)
        levels = range(len(edges) - 1)
        return np.stack([mass[:, points.cell == level].sum(axis=1) for level in levels], axis=1)

    return _Quadrature(len(points.point), solve)
