"""What is known of a pair and moves its prediction: terms of its two sides, on codes.

The pair's user and item have biases and couplings of their own; the user's other ratings and the
item's move the hidden units of these, and ratings of linked columns the pair itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.data.csr import CSR
from ordbm.data.scale import ContinuousScale, RatingScale
from ordbm.data.standardiser import Standardiser
from ordbm.errors import DivergedError
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.inference.distributions import REACH, cell_points, level_cells
from ordbm.kernels.explain import row_dots
from ordbm.model.machine import Side
from ordbm.runtime.arrays import Numbers

_MOST_POINTS = 2_000  # that hold a continuous rating's density, and between these
_SPACING = 0.1, 0.5  # deviations: as few as the points allow; the sum is exact up to rounding


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
    hidden_bias = side.unknown_hidden_bias
    if row >= 0:
        hidden_bias = side.parameters.hidden_bias.copy()
        if side.newcomers is not None and side.newcomer_input is not None:
            hidden_bias += side.newcomers.share[row] * side.newcomer_input
    return Terms(
        has_standing=bool(own.rating_bias.size) or d > 0,
        bias=own.rating_bias[column].astype(np.float64) if own.rating_bias.size else np.zeros(n),
        coupling=own.coupling[column, :, :d].astype(np.float64),
        hidden_bias=hidden_bias[:d].astype(np.float64),
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
    row_dots(rows.column[place], rows.level[place], value, side.parameters.coupling, flow, out)
    return out
