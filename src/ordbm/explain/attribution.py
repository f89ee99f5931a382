"""What moved one pair's prediction, and by how much: parts that add up, on codes.

Before anything is known of a pair a machine predicts what it would for any rating. The pair's user
and item, the user's other ratings and the item's then move its scores. All of them are let in
together, from none (t = 0) to all (t = 1), and each is charged with what it moves on the way
(Aumann-Shapley values, or integrated gradients). So parts add up to the whole change, equal ratings
have equal parts, and what is not coupled to the pair has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, softmax

from ordbm.data.csr import CSR
from ordbm.data.scale import ContinuousScale, RatingScale
from ordbm.data.standardiser import Standardiser
from ordbm.errors import DivergedError
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.inference.distributions import (
    REACH,
    LevelDistribution,
    NormalDistribution,
    RatingDistribution,
    cell_points,
    level_cells,
    mixture,
)
from ordbm.kernels import explain as kernels
from ordbm.model.machine import Side
from ordbm.runtime.arrays import Array, Numbers

_MOST_POINTS = 2_000  # that hold a continuous rating's density, and between these
_SPACING = 0.1, 0.5  # deviations: as few as the points allow; the sum is exact up to rounding
_GAUSS = 32  # points in a piece of the way from none to all
_CLOSE = 1e-10  # a piece is halved until that changes no integral by more, relative to the largest
_MOST_INPUTS = 2e8  # of hidden units that are looked at, for some seconds; a piece also costs
_PIECE_COST = 1e5  # of them, and there are
_LEAST_ASKED = 32  # pieces at least: a usual pair takes about three
_APART = 1e-6  # relative to the largest: what may be left open in the end
_DEEPEST = 30  # halvings of a piece
_MOST_PIECES = 512
_STEEPEST = 600.0  # |W| beyond this is cut, so that e^W is a float64


class Terms(NamedTuple):
    """What one side says of a pair, its row's m other ratings one by one; P points or levels."""

    has_standing: bool
    bias: Numbers  # (P,) of the pair's column
    coupling: Numbers  # (P, d) of the pair's column
    hidden_bias: Numbers  # (d,)
    place: NDArray[np.int64]  # (m,) positions of the other ratings in the side's rows
    features: Numbers  # (d,) what is known of the row adds to the input of the hidden units,
    pull: Numbers  # (d,) and that with all of its ratings
    effects: Callable[[Numbers], Numbers]  # (m,) of each, given those of the hidden units (d,)
    linked: NDArray[np.int64]  # (l,) which of them are linked to the column
    link: Numbers  # (l, P) what those say through their links


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
        hidden = silent.hidden_scores(np.zeros(1))[0]
        standing = terms.bias + hidden
        return cls(terms, grown, reach, standing, standing + terms.link.sum(axis=0))

    def hidden_scores(self, t: Numbers) -> Numbers:
        """(times, P) what hidden units say with the share t of the row's ratings."""
        terms, out = self.terms, np.zeros((len(t), len(self.grown)))
        room = np.empty(len(terms.pull)), np.empty(len(terms.pull))
        kernels.add_hidden_scores(
            t, terms.hidden_bias, terms.pull, terms.coupling, self.grown, self.reach, room, out
        )
        return out

    def scores(self, t: Numbers) -> Numbers:
        """(times, P) what the side says of the pair, less what its units say at first."""
        start = self.standing - self.terms.bias
        found: Numbers = np.multiply.outer(t, self.steady) + self.hidden_scores(t) - start
        return found

    def slopes(self, t: Numbers, slope: Numbers) -> Numbers:
        """(d,) the sum over times and points of `slope` times that by each unit's input."""
        terms, out = self.terms, np.zeros(len(self.terms.pull))
        room = np.empty(len(out)), np.empty(len(out))
        kernels.add_hidden_slopes(
            t,
            slope,
            terms.hidden_bias,
            terms.pull,
            terms.coupling,
            self.grown,
            self.reach,
            room,
            out,
        )
        return out


class Pair(NamedTuple):
    """A pair's rating: the points it can take, their potential before anything is known, terms.

    On a discrete machine the points are the levels. A Gaussian machine's rating is held at points
    of the real line, each of which belongs to a level if the scale has any.
    """

    potential: Numbers  # (P,)
    level: NDArray[np.int64]  # (P,)
    value: Numbers  # (P,) the rating there
    user_terms: Terms | None
    item_terms: Terms | None

    @property
    def terms(self) -> list[Terms]:
        return [terms for terms in (self.user_terms, self.item_terms) if terms is not None]


class Ways(NamedTuple):
    """A pair's potential before anything is known, and its sides' terms as they are let in."""

    potential: Numbers  # (P,)
    sides: list[Way]

    @classmethod
    def of(cls, pair: Pair) -> Ways:
        return cls(pair.potential, [Way.of(terms) for terms in pair.terms])

    def scores(self, t: Numbers) -> Numbers:
        """(times, P) potential with the share t (times,) of everything known."""
        total = np.tile(self.potential, (len(t), 1))
        for side in self.sides:
            total += side.scores(t)
        return total


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


def pair_of(
    trained: ConditionedMachine,
    person: ConditionedMachine,
    user: int,
    item: int,
    scale: RatingScale | ContinuousScale,
    standardiser: Standardiser | None,
) -> Pair:
    """The pair that `predicted_distribution` predicts, its own rating left out; -1 is the unknown.

    `person` has the user's ratings and parameters: `trained`, or that of a fold-in user.
    """
    machine, ratings = trained.machine, trained.ratings
    pair = machine.features.pair
    terms: list[Terms | None] = [None, None]
    if machine.user_side is not None and item >= 0:
        side, own = machine.user_side, person.machine.user_side
        assert own is not None
        terms[0] = _terms(side, item, own, person.ratings.by_user, user, item, pair)
    if machine.item_side is not None and user >= 0:
        own = person.machine.item_side
        assert own is not None
        left_out = user if person is trained else -1
        terms[1] = _terms(own, user, machine.item_side, ratings.by_item, item, left_out, pair)
    level_bias = machine.level_bias.astype(np.float64)
    for one, column in zip(machine.sides, (item, user), strict=True):
        if one is not None and column < 0:
            level_bias = level_bias + one.unknown_bias
    if standardiser is None:
        assert isinstance(scale, RatingScale)
        return Pair(level_bias, np.arange(len(scale)), scale.values, *terms)
    if isinstance(scale, RatingScale):
        point, log_weight, level = cell_points(level_cells(scale, standardiser))
    else:
        point = _grid(level_bias[0], [found for found in terms if found is not None])
        log_weight, level = np.zeros_like(point), np.zeros(len(point), np.int64)
    return Pair(
        log_weight + point * level_bias[0] - 0.5 * point**2,
        level,
        standardiser.mean + standardiser.deviation * point,
        *(found and _at_points(found, point) for found in terms),
    )


def distribution_of(
    members: Sequence[Pair], scale: RatingScale | ContinuousScale
) -> RatingDistribution:
    """The pair's predicted distribution, in double precision, averaged over machines."""
    return mixture([_distribution_of(pair, scale) for pair in members])


def _distribution_of(pair: Pair, scale: RatingScale | ContinuousScale) -> RatingDistribution:
    mass: Numbers = softmax(Ways.of(pair).scores(np.array([1.0]))[0])
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
    ends, _ = _outcome(ways, targets, np.array([0.0, 1.0]))
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


def _terms(
    owner: Side, column: int, side: Side, rows: CSR, row: int, left_out: int, pair: Numbers
) -> Terms:
    """Terms of `owner`'s column, with the row's ratings of `side`'s other columns."""
    own = owner.parameters
    d = side.n_hidden
    place = np.arange(rows.start[row], rows.start[row + 1]) if row >= 0 else np.zeros(0, np.int64)
    place = place[rows.column[place] != left_out]
    other, level = rows.column[place], rows.level[place]
    value = rows.value[place].astype(np.float64) if rows.value.size else np.ones(len(place))
    ends = slice(owner.links.start[column], owner.links.start[column + 1])
    _, linked, met = np.intersect1d(other, owner.links.neighbour[ends], return_indices=True)
    weight = own.link_weight[owner.links.edge[ends][met]].astype(np.float64)
    link = np.einsum("lb,bsl->ls", weight, pair[:, :, level[linked]]) * value[linked, None]
    n = own.coupling.shape[1]
    features = np.zeros(d)
    if side.row_input is not None and row >= 0:
        features = side.row_input[row, :d].astype(np.float64)
    return Terms(
        has_standing=bool(own.rating_bias.size) or d > 0,
        bias=own.rating_bias[column].astype(np.float64) if own.rating_bias.size else np.zeros(n),
        coupling=own.coupling[column, :, :d].astype(np.float64),
        hidden_bias=side.parameters.hidden_bias[:d].astype(np.float64),
        place=place,
        features=features,
        pull=features + _pull(side, rows, place),
        effects=partial(_effects, side, rows, place),
        linked=linked,
        link=link,
    )


def _at_points(terms: Terms, point: Numbers) -> Terms:
    """A Gaussian machine's terms, linear in the rating, at points of the real line."""
    return terms._replace(
        bias=terms.bias * point,
        coupling=terms.coupling * point[:, None],
        link=terms.link * point,
    )


def _grid(centre: float, terms: list[Terms]) -> Numbers:
    """Points as far from the centre as any of the terms can move a mean, and REACH further."""
    moved = sum(
        float(np.abs(part).sum()) for one in terms for part in (one.bias, one.coupling, one.link)
    )
    span = 2 * (moved + REACH)
    finest, coarsest = _SPACING
    if span > _MOST_POINTS * coarsest:
        raise DivergedError(
            f"parameters that move a mean by {moved:.3g} deviations cannot be explained: this "
            "machine has diverged"
        )
    spacing = max(finest, span / _MOST_POINTS)
    return np.arange(centre - span / 2, centre + span / 2 + spacing, spacing)


def _pull(side: Side, rows: CSR, place: NDArray[np.int64]) -> Numbers:
    """What the ratings at these positions add to the input of the hidden units, (d,)."""
    d = side.n_hidden
    weights = side.parameters.coupling[rows.column[place], rows.level[place], :d]
    if rows.value.size:
        return rows.value[place].astype(np.float64) @ weights
    return weights.sum(axis=0, dtype=np.float64)


def _effects(side: Side, rows: CSR, place: NDArray[np.int64], flow: Numbers) -> Numbers:
    """Of each of the ratings at these positions, given those of the hidden units."""
    out = np.empty(len(place))
    value = rows.value[place].astype(np.float64) if rows.value.size else np.zeros(0)
    kernels.row_dots(
        rows.column[place], rows.level[place], value, side.parameters.coupling, flow, out
    )
    return out


def _outcome(
    members: Sequence[Ways], targets: Sequence[Array], t: Numbers
) -> tuple[Numbers, list[Numbers]]:
    """The outcome of averaged probabilities, (times,), and its gradient for each machine's scores.

    d logit(mean p) is the mean of p (1 - p) d logit(p), over what p (1 - p) is of the mean p.
    """
    each = [
        _member_outcome(pair.scores(t), target)
        for pair, target in zip(members, targets, strict=True)
    ]
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
    if target.dtype == bool:
        above, below = (_log_sum(scores[:, kept]) for kept in (target, ~target))
        share = np.exp(scores - np.where(target, above, below))
        return (above - below)[:, 0], np.where(target, share, -share)
    mass = softmax(scores, axis=1)
    mean = mass @ target
    return mean, mass * (target - mean[:, None])


def _flow(
    members: Sequence[Ways], targets: Sequence[Array], t: Numbers, weight: Numbers
) -> Numbers:
    """Weighted sum over times of d outcome / d (score of each point, input of each unit)."""
    _, slopes = _outcome(members, targets, t)
    parts = []
    for pair, unweighted in zip(members, slopes, strict=True):
        slope = unweighted * weight[:, None]
        parts.append(slope.sum(axis=0))
        parts += [side.slopes(t, slope) for side in pair.sides]
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
