"""Asked pairs of a joint prediction in the form that enumeration and Gibbs sampling read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordbm.data.csr import CSR
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.model.machine import Side
from ordbm.model.neighbours import Links
from ordbm.runtime.arrays import Array, Codes, Numbers


class AskedRow(NamedTuple):
    """The asked pairs of one row of one side: its hidden input and their couplings."""

    pairs: Codes  # which of the asked pairs
    hidden_input: Numbers  # (d,) without the asked ratings
    coupling: Numbers  # (pairs, S, d)


class Question(NamedTuple):
    """Asked pairs in the form all solvers read. Q pairs with S states each.

    The states are the levels of the machine's tables; a Gaussian machine has a single one, whose
    terms are those of a rating of one.
    """

    potential: Numbers  # (Q, S) what does not depend on other asked pairs
    groups: list[AskedRow]
    linked: list[tuple[int, int, Numbers]]  # (q, q', (S, S)) between asked pairs


def question_of(conditioned: ConditionedMachine, users: Codes, items: Codes) -> Question:
    """The potentials of asked pairs, given the ratings that are not asked for."""
    machine = conditioned.machine
    potential = np.tile(machine.level_bias.astype(np.float64), (len(users), 1))
    groups: list[AskedRow] = []
    linked: list[tuple[int, int, Numbers]] = []
    pair = machine.features.pair
    for side, ratings, inputs, rows, columns in (
        (machine.user_side, conditioned.ratings.by_user, conditioned.user_input, users, items),
        (machine.item_side, conditioned.ratings.by_item, conditioned.item_input, items, users),
    ):
        if side is not None:
            potential += _side_potential(side, ratings, rows, columns, pair)
            groups += _groups(side, ratings, inputs, rows, columns)
            linked += _linked(side, rows, columns, pair)
    return Question(potential, groups, linked)


def _side_potential(side: Side, ratings: CSR, rows: Codes, columns: Codes, pair: Array) -> Numbers:
    """Biases, and links with given ratings, (Q, S)."""
    asked = set(zip(rows.tolist(), columns.tolist(), strict=True))
    parameters = side.parameters
    potential = np.zeros((len(rows), pair.shape[1]))
    for q, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        if column < 0:
            potential[q] += side.unknown_bias
        elif parameters.rating_bias.size:
            potential[q] += parameters.rating_bias[column]
        for neighbour, edge in _neighbours(side.links, column):
            position = _position(ratings, row, neighbour)
            if position >= 0 and (row, neighbour) not in asked:
                by_level = np.tensordot(parameters.link_weight[edge].astype(np.float64), pair, 1)
                potential[q] += _amount(ratings, position) * by_level[:, ratings.level[position]]
    return potential


def _groups(side: Side, ratings: CSR, inputs: Array, rows: Codes, columns: Codes) -> list[AskedRow]:
    d = side.n_hidden
    groups = []
    for row in np.unique(rows).tolist():
        pairs = np.flatnonzero((rows == row) & (columns >= 0))
        if not len(pairs) or not d:
            continue
        coupling = side.parameters.coupling[columns[pairs], :, :d].astype(np.float64)
        own = inputs[row] if row >= 0 else side.unknown_hidden_bias
        own = own[:d].astype(np.float64)
        for column, by_level in zip(columns[pairs].tolist(), coupling, strict=True):
            position = _position(ratings, row, column)
            if position >= 0:
                own -= _amount(ratings, position) * by_level[ratings.level[position]]
        groups.append(AskedRow(pairs, own, coupling))
    return groups


def _linked(side: Side, rows: Codes, columns: Codes, pair: Array) -> list[tuple[int, int, Numbers]]:
    """Pairs of asked ratings in one row whose columns are linked, and their joint potential."""
    found = []
    for q, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        for neighbour, edge in _neighbours(side.links, column):
            for other in np.flatnonzero((rows == row) & (columns == neighbour)).tolist():
                if other > q:
                    weight = side.parameters.link_weight[edge].astype(np.float64)
                    found.append((q, other, np.tensordot(weight, pair, 1)))
    return found


def _neighbours(links: Links, column: int) -> list[tuple[int, int]]:
    if column < 0:
        return []
    part = slice(links.start[column], links.start[column + 1])
    return list(zip(links.neighbour[part].tolist(), links.edge[part].tolist(), strict=True))


def _amount(rows: CSR, position: int) -> float:
    return float(rows.value[position]) if rows.value.size else 1.0


def _position(rows: CSR, row: int, column: int) -> int:
    """Where a row rated a column, or -1."""
    if row < 0:
        return -1
    part = rows.column[rows.start[row] : rows.start[row + 1]]
    place = int(np.searchsorted(part, column))
    found = place < len(part) and part[place] == column
    return int(rows.start[row]) + place if found else -1
