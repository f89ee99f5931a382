"""What a column owns, moved by ratings that came or went, with all else fixed.

Items own columns of the user side, users those of the item side; both are the same here.

A column whose number of ratings has passed a power of 1.1, and is not large, is fitted to all of
them, as a fold-in user is: what all fits together cost grows with the number of ratings, not with
its square. Else its couplings stay, and its bias takes a step of learning's own size: with c
ratings now, and g(b) the sum of [s = level] - P(s) over those that came,

    b' = b + (K g(b) + precision (typical' - typical)) / (precision + curvature c),

where K is what smooths steps along the scale, and typical and typical' are where the numbers of
ratings before and after have its prior. What leaves takes the same step back: b is found from b'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from ordbm.data.csr import CSR, CSRPair
from ordbm.inference.conditioned import ConditionedMachine, softmax
from ordbm.inference.fold_in import Evidence, OwnPrior, fitted_own
from ordbm.model.machine import Machine, Side
from ordbm.runtime.arrays import Array, Codes, Numbers

SCORED_AT_ONCE = 4_096  # ratings whose scores are held
ROUNDS = 30  # in which a step back is found; each leaves a part of what the one before did


class ColumnRules(NamedTuple):
    """How the columns of one side move."""

    prior: OwnPrior
    bias_curvature: float
    typical: Array  # (C, n) where their numbers of ratings expect biases
    typical_change: Array  # (C, n) above what they expect without what comes or leaves
    couplings: Mapping[int, Array]  # (n, hidden units) that are expected of columns to be fitted


def step_biases(
    machine: Machine,
    ratings: CSRPair,
    number: int,
    places: Array,
    rules: ColumnRules,
    *,
    back: bool,
) -> None:
    """The biases of a side take the step of some of these ratings, at `places` by column.

    `back`: they are as they were after it, and become what they were before.
    """
    side = machine.sides[number]
    if side is None or not side.parameters.rating_bias.size or not len(places):
        return
    columns = ratings[1 - number]
    place = np.sort(places)
    column = np.searchsorted(columns.start, place, "right").astype(np.int32) - 1
    moved = np.unique(column)
    evidence = _evidence(machine, ratings, number, column, place)
    scores = evidence.rest + _hidden_scores(side, column, evidence)
    to = csr_array(
        (np.ones(len(place)), (np.searchsorted(moved, column), np.arange(len(place)))),
        shape=(len(moved), len(place)),
    )
    prior = rules.prior
    smoothing = prior.bias_root @ prior.bias_root.T
    scale = prior.bias_precision + rules.bias_curvature * columns.sizes_of(moved)[:, None]
    expected = prior.bias_precision * rules.typical_change[moved]
    bias = side.parameters.rating_bias

    def step(own: Numbers) -> Numbers:
        at = scores + own[np.searchsorted(moved, column)]
        if evidence.value.size:
            residual = evidence.value[:, None] - at
        else:
            residual = -softmax(at)
            residual[np.arange(len(residual)), evidence.level] += 1
        whole = np.asarray(to @ residual) @ smoothing + expected
        return np.divide(whole, scale, out=np.zeros_like(whole), where=scale > 0)

    own = bias[moved].astype(np.float64)
    bias[moved] = before_step(own, step) if back else own + step(own)


def before_step(own: Numbers, step: Callable[[Numbers], Numbers]) -> Numbers:
    """b with b + step(b) = own, row by row, as near as rounds that come nearer bring it."""
    found, last = own, np.full(len(own), np.inf)
    for _ in range(ROUNDS):
        again = own - step(found)
        apart = np.abs(again - found).max(axis=1)
        nearer = apart < last
        if not nearer.any():
            break
        found = np.where(nearer[:, None], again, found)
        last = np.where(nearer, apart, 0.0)
    return found


def fit_columns(
    machine: Machine, ratings: CSRPair, number: int, chosen: Codes, rules: ColumnRules
) -> None:
    """The chosen columns of a side are fitted to their ratings, around what is expected of them."""
    side = machine.sides[number]
    if side is None or not len(chosen):
        return
    columns, own, d = ratings[1 - number], side.parameters, side.n_hidden
    found = [
        fitted_own(
            rules.prior._replace(typical=rules.typical[column]), rules.couplings[column], evidence
        )
        for some in _in_parts(chosen, columns)
        for column, evidence in _each(machine, ratings, number, some)
    ]
    own.coupling[chosen, :, :d] = [one.coupling for one in found]
    if own.rating_bias.size:
        own.rating_bias[chosen] = [one.bias for one in found]


def _each(
    machine: Machine, ratings: CSRPair, number: int, some: Codes
) -> Iterator[tuple[int, Evidence]]:
    """What is known of the ratings of each of these columns."""
    columns = ratings[1 - number]
    place, size = columns.positions_of(some), columns.sizes_of(some)
    whole = _evidence(machine, ratings, number, np.repeat(some, size), place)
    for column, end, length in zip(some.tolist(), np.cumsum(size), size, strict=True):
        mine = slice(end - length, end)
        yield column, Evidence(*(part[mine] if part.size else part for part in whole))


def _evidence(
    machine: Machine, ratings: CSRPair, number: int, column: Codes, place: Array
) -> Evidence:
    """What is known of ratings at places by column, but for what the columns own."""
    side, columns = machine.sides[number], ratings[1 - number]
    assert side is not None
    row = columns.column[place]
    user, item = (column, row) if number else (row, column)
    sides = list(machine.sides)
    sides[number] = _links_alone(side)
    bare = Machine(machine.features, machine.level_bias, *sides)
    others = ConditionedMachine(bare, ratings, 1, (user, item))
    whole = ConditionedMachine(machine, ratings, 1, (user, item))
    inputs = (whole.item_input if number else whole.user_input)[row].astype(np.float64)
    said = side.parameters.coupling[column, columns.level[place]].astype(np.float64)
    value = columns.value[place] if columns.value.size else columns.value
    inputs -= said * value[:, None] if value.size else said
    return Evidence(
        columns.level[place],
        value.astype(np.float64),
        others.pair_scores(user, item).astype(np.float64),
        expit(inputs[:, : side.n_hidden]),
    )


def _hidden_scores(side: Side, column: Codes, evidence: Evidence) -> Numbers:
    """sum_k log(1 + p_k (e^W[s, k] - 1)) of each rating, (m, n); for a Gaussian one, p W."""
    out = np.empty_like(evidence.rest)
    for first in range(0, len(column), SCORED_AT_ONCE):
        part = slice(first, first + SCORED_AT_ONCE)
        own = side.parameters.coupling[column[part], :, : side.n_hidden].astype(np.float64)
        on = evidence.on[part, None]
        added = on * own if evidence.value.size else np.log1p(on * np.expm1(own))
        out[part] = added.sum(axis=2)
    return out


def _in_parts(columns: Codes, rows: CSR) -> Iterator[Codes]:
    """Columns with so many ratings together, or one."""
    part = np.cumsum(rows.sizes_of(columns)) // SCORED_AT_ONCE
    yield from np.split(columns, np.flatnonzero(np.diff(part)) + 1)


def _links_alone(side: Side) -> Side:
    """A side whose columns own nothing but their links."""
    own = side.parameters
    bare = own._replace(
        hidden_bias=own.hidden_bias[:0],
        rating_bias=own.rating_bias[:0],
        coupling=own.coupling[:, :, :0],
    )
    return Side(bare, 0, side.links, side.unknown_bias)
