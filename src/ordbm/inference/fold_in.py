"""Fold-in users: what people who gave some ratings own, without training the machines again.

On the user side their hidden units follow from the ratings. On the item side a user owns
parameters; those of somebody new are fitted to the given ratings by maximum a posteriori, all else
fixed. So are those of somebody known who says more, to all of their ratings; who says nothing new
keeps what they own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from ordbm.data.csr import CSR, CSRPair, stacked, with_transpose
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.kernels import fold_in as kernels
from ordbm.kernels.fold_in import ColumnData, ColumnPoint, ColumnRoom
from ordbm.kernels.structures import padded
from ordbm.model.feature_effects import KnownFeatures
from ordbm.model.machine import Machine, Newcomers, Parameters, Side
from ordbm.model.neighbours import no_links, side_by_side, star_links
from ordbm.priors.response_styles import BiasPrior
from ordbm.runtime.arrays import Array, Codes, Numbers


class Own(NamedTuple):
    """The parameters of the item side that a user owns."""

    coupling: Array  # (n, hidden units)
    bias: Array  # (n,); zeros if the side has none


class Evidence(NamedTuple):
    """Ratings that a user's own parameters are fitted to, and what else is known of each."""

    level: Array  # (m,)
    value: Array  # (m,) standardised; (0,) with levels
    rest: Array  # (m, n) what the user side says
    on: Array  # (m, hidden units) P(h = 1) of the items, the user's own ratings left out


class OwnPrior(NamedTuple):
    """Of what a user owns: couplings mean + root z, biases typical + bias root y."""

    root: Numbers  # (n, r)
    precision: float
    typical: Numbers  # (n,)
    bias_root: Numbers  # (n, R); R is 0 if the side has no biases
    bias_precision: float

    @classmethod
    def of(
        cls, machine: Machine, precision: float, unit: float, bias: BiasPrior, number: int = 1
    ) -> OwnPrior:
        """That of training, for a side of a machine: 0 is the user side, 1 the item side."""
        side = machine.sides[number]
        assert side is not None
        table = machine.features.coupling * unit
        has_bias = bool(side.parameters.rating_bias.size)
        return cls(
            _root(table @ table.T),
            precision,
            side.unknown_bias.astype(np.float64),
            _root(bias.smoothing) if has_bias else np.zeros((len(table), 0)),
            bias.precision,
        )


def fitted_own(prior: OwnPrior, mean: Array, evidence: Evidence) -> Own:
    """What a user owns given these ratings.

    `mean` (n, hidden units) is where the prior has their couplings.
    """
    mean = np.ascontiguousarray(mean, np.float64)
    gaussian = evidence.value.size > 0
    data = _data(prior, mean, evidence, gaussian)
    found = _solved(data) if gaussian else _fitted(data)
    return Own(mean + prior.root @ found.coupling, prior.typical + prior.bias_root @ found.bias)


class KnownUsers(NamedTuple):
    """Who they are, beside their ratings."""

    newcomers: Newcomers
    about: KnownFeatures | None  # what features say


def expected_of(
    prior: OwnPrior,
    mean: Array,
    known: KnownUsers,
    side: Side,
    member: int,
    user: int,
    count: int,
) -> tuple[OwnPrior, Array]:
    """The prior and the mean of what a user with so many ratings owns; -1 is somebody new.

    `prior` is that of newcomers without any. Of all, machines expect what features say.
    """
    if side.newcomer_bias is not None:
        share = known.newcomers.of_rows(np.array([user]), np.array([count])).share[0]
        prior = prior._replace(typical=prior.typical - (1 - share) * side.newcomer_bias)
    about = known.about
    if about is None or user < 0:
        return prior, mean
    if not about.unrated[user]:
        centre = about.centre_of(member, np.array([user]))[0]
        return prior._replace(typical=prior.typical + centre), mean
    said = about.effects[member].of(about.design[[user]])
    return prior._replace(typical=prior.typical + said.bias[0]), mean + said.coupling[0]


def _data(prior: OwnPrior, mean: Numbers, evidence: Evidence, gaussian: bool) -> ColumnData:
    return ColumnData(
        np.ascontiguousarray(evidence.on, np.float64),
        evidence.value if gaussian else np.ascontiguousarray(evidence.level, np.uint8),
        np.ascontiguousarray(evidence.rest, np.float64),
        mean,
        prior.root,
        np.float64(prior.precision),
        prior.typical,
        prior.bias_root,
        np.float64(prior.bias_precision),
    )


def _root(covariance: Array) -> Numbers:
    """R with R R' = covariance, (n, rank)."""
    variance, axes = np.linalg.eigh(covariance)
    kept = variance > 1e-12 * variance.max(initial=0.0)
    return np.ascontiguousarray(axes[:, kept] * np.sqrt(variance[kept]))


def _fitted(data: ColumnData) -> ColumnPoint:
    """The least of the loss, on levels."""
    d = data.on.shape[1]
    point = ColumnPoint(np.zeros((data.root.shape[1], d)), np.zeros(data.bias_root.shape[1]))
    kernels.fit_column(data, point, _room(data, point))
    return point


def _room(data: ColumnData, point: ColumnPoint) -> ColumnRoom:
    m, n = data.rest.shape
    d = data.on.shape[1]

    def empty() -> ColumnPoint:
        return ColumnPoint(np.zeros_like(point.coupling), np.zeros_like(point.bias))

    return ColumnRoom(
        np.empty((n, d)), np.empty((m, n, d)), np.empty((m, n)), np.empty((m, n)),
        np.empty((m, n)), np.empty((n, d)), np.empty((n, d)), *(empty() for _ in range(6)),
    )  # fmt: skip


def _normal_equations(data: ColumnData) -> tuple[Numbers, Numbers, Numbers, int]:
    """A Gaussian machine's ratings as a linear function of what the user owns."""
    d = data.on.shape[1]
    design = np.concatenate(
        [data.on * data.root[0], np.ones((len(data.on), 1)) * data.bias_root], 1
    )
    target = data.level - data.rest[:, 0] - data.typical[0] - data.on @ data.mean[0]
    precision = np.repeat([data.precision, data.bias_precision], [d, data.bias_root.shape[1]])
    return design, target, precision, d


def _solved(data: ColumnData) -> ColumnPoint:
    """The same for a Gaussian machine, whose loss is quadratic."""
    design, target, precision, d = _normal_equations(data)
    hessian = design.T @ design + np.diag(precision)
    found = np.linalg.lstsq(hessian, design.T @ target, rcond=None)[0]
    return ColumnPoint(found[None, :d], found[d:])


def fold_in_machine(
    conditioned: ConditionedMachine,
    row: CSR,
    prior: OwnPrior,
    mean: Array,
    known: int = -1,
) -> ConditionedMachine:
    """The machine conditioned on one person, code 0, with these ratings: somebody new, or `known`.

    `prior` and `mean` (n, hidden units) are of what users own.
    """
    trained = conditioned.machine.item_side
    assert trained is not None
    inputs, same = conditioned.item_input.copy(), False
    if known >= 0:
        had = conditioned.ratings.by_user.rows_of(np.array([known]))
        inputs[had.column] -= _said(trained.parameters.coupling[known], had)
        same = same_ratings(row, had)
    if same:
        own = own_of(trained, known)
    else:
        own = fitted_own(prior, mean, _evidence(conditioned, row, known, inputs))
    side = side_of([own], trained)
    # The items' inputs with the person's ratings added; predictions leave those out again.
    inputs[row.column] += _said(side.parameters.coupling[0], row)
    return _with_linked(conditioned, row, known, side, inputs)


def _with_linked(
    conditioned: ConditionedMachine, row: CSR, known: int, side: Side, inputs: Array
) -> ConditionedMachine:
    """A person with these ratings, code 0, who owns the one column of the item side.

    Beside them, if they are known, the users whom they are linked with, of whom only the ratings
    matter; `inputs` are those of items.
    """
    machine, ratings = conditioned.machine, conditioned.ratings
    assert machine.item_side is not None
    links, weight = machine.item_side.links, machine.item_side.parameters.link_weight
    at = slice(links.start[known], links.start[known + 1]) if known >= 0 else slice(0)
    others, edges = links.neighbour[at], links.edge[at]
    hidden_bias, bias, coupling, _ = side.parameters
    missing = len(others), *coupling.shape[1:]
    coupling = np.concatenate([coupling, np.zeros(missing, coupling.dtype)])
    if bias.size:
        bias = np.concatenate([bias, np.zeros(missing[:2], bias.dtype)])
    side = replace(
        side,
        parameters=Parameters(hidden_bias, bias, coupling, weight[edges]),
        links=star_links(links.similarity[edges]),
    )
    rows = stacked([row, ratings.by_user.rows_of(others)])
    users, count = np.append([known], others), np.diff(rows.start)
    user_side = machine.user_side and machine.user_side.of_rows(users, count)
    found = ConditionedMachine(
        Machine(machine.features, machine.level_bias, user_side, side),
        CSRPair(*with_transpose(rows, ratings.by_item.n_rows)),
        1,
    )
    found.__dict__["item_input"] = inputs
    return found


def together(
    conditioned: ConditionedMachine, people: Sequence[ConditionedMachine]
) -> ConditionedMachine:
    """One machine with all of these people, each of whom has one by `fold_in_machine`.

    The codes of each go on where those of the one before end. Items hear all of their ratings.
    """
    machine, n_items = conditioned.machine, conditioned.ratings.by_item.n_rows
    rows = stacked([one.ratings.by_user for one in people])
    sides = [one.machine.item_side for one in people]
    item_side = None
    if machine.item_side is not None:
        own = [side.parameters for side in sides if side is not None]
        item_side = replace(
            machine.item_side,
            parameters=Parameters(
                own[0].hidden_bias,
                *(
                    np.concatenate([getattr(one, name) for one in own])
                    for name in ("rating_bias", "coupling", "link_weight")
                ),
            ),
            links=side_by_side([side.links for side in sides if side is not None]),
        )
    user_side = machine.user_side
    if user_side is not None:
        own_rows = [side for one in people if (side := one.machine.user_side) is not None]
        inputs_of = [side.row_input for side in own_rows if side.row_input is not None]
        new = [side.newcomers for side in own_rows if side.newcomers is not None]
        user_side = replace(
            user_side,
            row_input=np.concatenate(inputs_of) if inputs_of else None,
            newcomers=Newcomers.together(new) if new else None,
        )
    found = ConditionedMachine(
        Machine(machine.features, machine.level_bias, user_side, item_side),
        CSRPair(*with_transpose(rows, n_items)),
        1,
    )
    if item_side is not None:
        inputs = conditioned.item_input
        heard = [one.item_input - inputs for one in people]
        found.__dict__["item_input"] = inputs + np.sum(heard, axis=0, dtype=inputs.dtype)
    return found


def user_part(conditioned: ConditionedMachine, rows: CSR, users: Codes) -> ConditionedMachine:
    """The user side alone, conditioned on these ratings, a row for each of `users` (-1 if new)."""
    machine = conditioned.machine
    user_side = machine.user_side and machine.user_side.of_rows(users, np.diff(rows.start))
    ratings = CSRPair(*with_transpose(rows, conditioned.ratings.by_item.n_rows))
    part = Machine(machine.features, machine.level_bias, user_side, None)
    return ConditionedMachine(part, ratings, 1)


def _said(coupling: Array, row: CSR) -> Array:
    """What a row's ratings add to the inputs of their items, (m, d)."""
    said = coupling[row.level]
    return said * row.value[:, None] if row.value.size else said


def _evidence(conditioned: ConditionedMachine, row: CSR, known: int, inputs: Array) -> Evidence:
    """A person's ratings as the item side sees them; `inputs` are without them."""
    trained = conditioned.machine.item_side
    assert trained is not None
    own = trained.parameters
    nothing = Side(
        Parameters(
            own.hidden_bias[:0], own.rating_bias[:0], own.coupling[:1, :, :0], own.link_weight
        ),
        0,
        no_links(1),
        trained.unknown_bias,
    )
    others = _with_linked(conditioned, row, known, nothing, inputs[:, :0])
    return Evidence(
        row.level,
        row.value.astype(np.float64),
        others.pair_scores(np.zeros(len(row.column), np.int32), row.column),
        expit(inputs[row.column, : trained.n_hidden].astype(np.float64)),
    )


def own_of(trained: Side, user: int) -> Own:
    """What a known user owns."""
    own = trained.parameters
    bias = own.rating_bias[user] if own.rating_bias.size else trained.unknown_bias
    return Own(
        own.coupling[user, :, : trained.n_hidden].astype(np.float64), bias.astype(np.float64)
    )


def same_ratings(one: CSR, other: CSR) -> bool:
    """Whether two rows are the same."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("column", "level", "value")
    )


def side_of(people: Sequence[Own], trained: Side) -> Side:
    """The item side with these people as its columns."""
    own = trained.parameters
    n, d, dtype = own.coupling.shape[1], trained.n_hidden, own.coupling.dtype
    coupling = np.zeros((len(people), n, padded(d)), dtype)
    bias = np.zeros((len(people) if own.rating_bias.size else 0, n), dtype)
    for place, one in enumerate(people):
        coupling[place, :, :d] = one.coupling
        if own.rating_bias.size:
            bias[place] = one.bias
    parameters = Parameters(own.hidden_bias, bias, coupling, own.link_weight[:0])
    links = no_links(len(people))
    return replace(trained, parameters=parameters, links=links, row_input=None, newcomers=None)
