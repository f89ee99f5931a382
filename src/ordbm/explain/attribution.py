"""What moved one pair's prediction, and by how much: parts that add up, on codes.

Before anything is known of a pair a machine predicts what it would for any rating. The pair's user
and item, the user's other ratings and the item's then move its scores. All of them are let in
together, from none (t = 0) to all (t = 1), and each is charged with what it moves on the way
(Aumann-Shapley values, or integrated gradients). So parts add up to the whole change, equal ratings
have equal parts, and what is not coupled to the pair has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_expit, softmax

from ordbm.data.scale import ContinuousScale, RatingScale
from ordbm.errors import DivergedError
from ordbm.explain.pair_terms import Pair, Terms
from ordbm.inference.distributions import (
    LevelDistribution,
    NormalDistribution,
    RatingDistribution,
    mixture,
)
from ordbm.kernels import explain as kernels
from ordbm.runtime.arrays import Array, Numbers

_GAUSS = 32  # points in a piece of the way from none to all
_CLOSE = 1e-10  # a piece is halved until that changes no integral by more, relative to the largest
_MOST_INPUTS = 2e8  # of hidden units that are looked at, for some seconds; a piece also costs
_PIECE_COST = 1e5  # of them, and there are
_LEAST_ASKED = 32  # pieces at least: a usual pair takes about three
_APART = 1e-6  # relative to the largest: what may be left open in the end
_DEEPEST = 30  # halvings of a piece
_MOST_PIECES = 512
_STEEPEST = 600.0  # |W| beyond this is cut, so that e^W is a float64


class Units(NamedTuple):
    """A side's hidden units with the share t of its row's ratings, for several t."""

    t: Numbers  # (times,)
    on: Numbers  # (times, d) P(h_k = 1)
    off: Numbers  # (times, d) P(h_k = 0), which 1 - on would round away


class Way(NamedTuple):
    """One side's terms as they are let in."""

    terms: Terms
    grown: Numbers  # (P, d) e^W
    reach: float  # sum_k max |W|
    standing: Numbers  # (P,) what the side says without the row's ratings
    steady: Numbers  # (P,) what grows by t: that, and all links

    @classmethod
    def of(cls, terms: Terms) -> Way:
        grown = np.exp(np.clip(terms.coupling, -_STEEPEST, _STEEPEST))
        reach = float(np.abs(terms.coupling).max(axis=0, initial=0.0).sum())
        silent = cls(terms, grown, reach, terms.bias, terms.bias)
        hidden = silent.hidden_scores(silent.units(np.zeros(1)))[0]
        standing = terms.bias + hidden
        return cls(terms, grown, reach, standing, standing + terms.link.sum(axis=0))

    def units(self, t: Numbers) -> Units:
        """The hidden units at these shares."""
        size = len(t), len(self.terms.pull)
        found = Units(t, np.empty(size), np.empty(size))
        kernels.fill_units(t, self.terms.hidden_bias, self.terms.pull, found.on, found.off)
        return found

    def hidden_scores(self, units: Units) -> Numbers:
        """(times, P) what hidden units say."""
        terms, out = self.terms, np.zeros((len(units.t), len(self.grown)))
        kernels.add_hidden_scores(
            *units, terms.hidden_bias, terms.pull, terms.coupling, self.grown, self.reach, out
        )
        return out

    def scores(self, units: Units) -> Numbers:
        """(times, P) what the side says of the pair, less what its units say at first."""
        start = self.standing - self.terms.bias
        found: Numbers = np.multiply.outer(units.t, self.steady) + self.hidden_scores(units) - start
        return found

    def slopes(self, units: Units, slope: Numbers) -> Numbers:
        """(d,) the sum over times and points of `slope` times that by each unit's input."""
        terms, out = self.terms, np.zeros(len(self.terms.pull))
        kernels.add_hidden_slopes(
            *units, slope, terms.hidden_bias, terms.pull, terms.coupling, self.grown, self.reach,
            out,
        )  # fmt: skip
        return out


class Ways(NamedTuple):
    """A pair's potential before anything is known, and its sides' terms as they are let in."""

    potential: Numbers  # (P,)
    sides: list[Way]

    @classmethod
    def of(cls, pair: Pair) -> Ways:
        return cls(pair.potential, [Way.of(terms) for terms in pair.terms])

    def units(self, t: Numbers) -> list[Units]:
        """Those of each side."""
        return [side.units(t) for side in self.sides]

    def scores(self, units: Sequence[Units], n_times: int) -> Numbers:
        """(times, P) potential with the share of everything known that `units` have."""
        total = np.tile(self.potential, (n_times, 1))
        for side, own in zip(self.sides, units, strict=True):
            total += side.scores(own)
        return total

    def scores_at(self, t: Numbers) -> Numbers:
        """(times, P) potential with the share t (times,) of everything known."""
        return self.scores(self.units(t), len(t))


class Share(NamedTuple):
    """What one side's terms did: the column by itself, and each of the row's ratings."""

    standing: float
    features: float  # of the row
    taste: Numbers  # (m,), or (1,) of all together
    link: Numbers  # (l,)


class Attribution(NamedTuple):
    """`base` plus all shares is `final`."""

    base: float
    final: float
    user_share: Share | None
    item_share: Share | None


def distribution_of(
    members: Sequence[Pair], scale: RatingScale | ContinuousScale
) -> RatingDistribution:
    """The pair's predicted distribution, in double precision, averaged over machines."""
    return mixture([_distribution_of(pair, scale) for pair in members])


def _distribution_of(pair: Pair, scale: RatingScale | ContinuousScale) -> RatingDistribution:
    mass: Numbers = softmax(Ways.of(pair).scores_at(np.array([1.0]))[0])
    if isinstance(scale, RatingScale):
        proba: Numbers = np.bincount(pair.level, mass, len(scale)).astype(np.float64)
        return LevelDistribution(scale, proba[None])
    mean = mass @ pair.value
    deviation = np.sqrt(mass @ (pair.value - mean) ** 2)
    return NormalDistribution(scale, np.array([mean]), np.array([deviation]))


def attribution(
    members: Sequence[Pair], targets: Sequence[Array], *, each_rater: bool = True
) -> Attribution:
    """The shares in the log-odds of the points where a target is true, or in the mean of a target.

    `members` are the pair as several machines see it, each with its target; their probabilities
    are averaged. The change is the integral over t of d outcome / d scores times d scores / d t.
    Both factors are known, and the second is a sum over what is let in. Without `each_rater` the
    item's other ratings are one sum.
    """
    ways = [Ways.of(pair) for pair in members]
    none_and_all = np.array([0.0, 1.0])
    ends, _ = _outcome([way.scores_at(none_and_all) for way in ways], targets)
    inputs = _GAUSS * sum(terms.coupling.size for pair in members for terms in pair.terms)
    flow = _integral(
        lambda t, weight: _flow(ways, targets, t, weight),
        max(_LEAST_ASKED, _MOST_INPUTS / (inputs + _PIECE_COST)),
    )
    sizes = [
        size
        for pair in members
        for size in (len(pair.potential), *(len(terms.hidden_bias) for terms in pair.terms))
    ]
    parts = iter(np.split(flow, np.cumsum(sizes)[:-1]))
    shares: tuple[list[Share], list[Share]] = ([], [])
    for pair, way in zip(members, ways, strict=True):
        at_points = next(parts)
        sides = iter(way.sides)
        for terms, found in zip((pair.user_terms, pair.item_terms), shares, strict=True):
            if terms is not None:
                standing = float(next(sides).standing @ at_points)
                units = next(parts)
                whole = terms is pair.item_terms and not each_rater
                features = float(terms.features @ units)
                together = (terms.pull @ units)[None] - features
                taste = together if whole else terms.effects(units)
                found.append(Share(standing, features, taste, terms.link @ at_points))
    return Attribution(float(ends[0]), float(ends[1]), *map(_sum_shares, shares))


def _sum_shares(shares: list[Share]) -> Share | None:
    """Machines have the same ratings and links, so their shares add up one by one."""
    if not shares:
        return None
    return Share(*(sum(part) for part in zip(*shares, strict=True)))


def _outcome(scores: Sequence[Numbers], targets: Sequence[Array]) -> tuple[Numbers, list[Numbers]]:
    """The outcome of averaged probabilities, (times,), and its gradient for each machine's scores.

    d logit(mean p) is the mean of p (1 - p) d logit(p), over what p (1 - p) is of the mean p.
    """
    each = [_member_outcome(one, target) for one, target in zip(scores, targets, strict=True)]
    if len(each) == 1:
        return each[0][0], [each[0][1]]
    found = np.stack([outcome for outcome, _ in each])  # (members, times)
    weight = np.full(found.shape, 1.0 / len(each))
    if targets[0].dtype != bool:
        return found.mean(axis=0), [weight[0][:, None] * slope for _, slope in each]
    above, below = (_log_sum(log_expit(sign * found).T)[:, 0] for sign in (1, -1))
    weight = np.exp(log_expit(found) + log_expit(-found) - above - below) * len(each)
    return above - below, [
        own[:, None] * slope for own, (_, slope) in zip(weight, each, strict=True)
    ]


def _log_sum(scores: Numbers) -> Numbers:
    """log sum_p e^score of each row, (rows, 1)."""
    top = scores.max(axis=1, keepdims=True)
    found: Numbers = np.log(np.exp(scores - top).sum(axis=1, keepdims=True)) + top
    return found


def _member_outcome(scores: Numbers, target: Array) -> tuple[Numbers, Numbers]:
    """(times,) log-odds of a Boolean target or mean of a numeric one; (times, P) its gradient."""
    outcome, slope = np.empty(len(scores)), np.empty(scores.shape)
    fill = kernels.fill_log_odds if target.dtype == bool else kernels.fill_means
    fill(scores, target, outcome, slope)
    return outcome, slope


def _flow(
    members: Sequence[Ways], targets: Sequence[Array], t: Numbers, weight: Numbers
) -> Numbers:
    """Weighted sum over times of d outcome / d (score of each point, input of each unit)."""
    units = [pair.units(t) for pair in members]
    scores = [pair.scores(own, len(t)) for pair, own in zip(members, units, strict=True)]
    _, slopes = _outcome(scores, targets)
    parts = []
    for pair, of_sides, unweighted in zip(members, units, slopes, strict=True):
        slope = unweighted * weight[:, None]
        parts.append(slope.sum(axis=0))
        parts += [side.slopes(own, slope) for side, own in zip(pair.sides, of_sides, strict=True)]
    return np.concatenate(parts)


@cache
def _gauss_points() -> tuple[Numbers, Numbers]:
    """Nodes and weights on -1..1."""
    node, weight = np.polynomial.legendre.leggauss(_GAUSS)
    return node, weight


def _integral(weighted_sum: Callable[[Numbers, Numbers], Numbers], most_asked: float) -> Numbers:
    """Integral over 0..1 of a vector, by Gauss-Legendre pieces halved until nothing changes.

    About so many pieces are looked at, at most.

    SciPy's `quad_vec` gives the same and takes five times as long: it asks for one t at a time.
    """
    node, weight = _gauss_points()

    def piece(low: float, high: float) -> Numbers:
        half = (high - low) / 2
        return weighted_sum(low + half * (1 + node), half * weight)

    pieces = [(0.0, 1.0, piece(0.0, 1.0))]
    largest = np.abs(pieces[0][2]).max(initial=0.0)
    total = np.zeros_like(pieces[0][2])
    asked, gap = 1, 0.0
    for _ in range(_DEEPEST):
        halves, gap = [], 0.0
        for low, high, whole in pieces:
            middle = (low + high) / 2
            left, right = piece(low, middle), piece(middle, high)
            asked += 2
            change = np.abs(left + right - whole).max()
            if change <= _CLOSE * largest:
                total += left + right
            else:
                halves += [(low, middle, left), (middle, high, right)]
                gap += change
        pieces = halves
        if not pieces or len(pieces) > _MOST_PIECES or asked > most_asked:
            break
    if gap > _APART * largest:  # otherwise only rounding is in the way
        raise DivergedError(
            "what moved this prediction cannot be told apart: parameters are so large that this "
            "machine has diverged"
        )
    return total + np.sum([whole for _, _, whole in pieces], axis=0)
