"""Predictions in context: what a person's ratings of about that time tell beside the machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ordbm.data.context_columns import UNKNOWN
from ordbm.data.csr import CSR
from ordbm.inference.distributions import LevelDistribution
from ordbm.inference.factors import PrincipalAxes
from ordbm.kernels.context import TIME, context_means
from ordbm.model.context_links import N_FEATURES, ContextLinks, level_basis
from ordbm.runtime.arrays import Array, Codes, Numbers
from ordbm.runtime.threads import run_on_threads, share

if TYPE_CHECKING:
    from ordbm.inference.fitted import FittedModel
    from ordbm.inference.people import People

AXES = 32  # of what items have in common
RATINGS_AT_ONCE = 200_000  # of people whose ratings are looked at together


def context_forces(
    state: FittedModel,
    people: People,
    person: Codes,
    items: Codes,
    at: Numbers,
    links: ContextLinks,
) -> Array:
    """F of each pair, (pairs, K, N_FEATURES): mean residuals of a person's ratings near `at`.

    `at` (pairs, P) is the time and the other context of each question; UNKNOWN is near nothing.
    """
    out = np.zeros((len(items), len(links.scales), N_FEATURES))
    direction = state.kept("directions of items", lambda: _directions(state))
    at = np.where(at == UNKNOWN, -UNKNOWN, at)  # infinitely far from what is UNKNOWN there
    by_user, by_item = state.given
    for some, pairs in _parts(people.given, person, items):
        rows = people.given.rows_of(some)
        place = people.given_places[people.given.positions_of(some)]
        order = _orders(rows, place[:, TIME])
        residual = _residuals(state, people, np.repeat(some, np.diff(rows.start)), rows)
        found = np.zeros((len(pairs), *out.shape[1:]))
        number = np.searchsorted(some, person[pairs])
        asked = np.ascontiguousarray(items[pairs], np.int64), at[pairs]

        def work(
            thread: int,
            number: Array = number,
            asked: tuple[Array, Array] = asked,
            rows: CSR = rows,
            place: Array = place,
            order: Array = order,
            residual: Array = residual,
            found: Array = found,
        ) -> None:
            begin, end = share(len(number), thread, state.threads)
            context_means(
                begin, end, number, *asked, rows.start, rows.column, place, order, residual,
                direction, links.axes, links.scales, links.alike, links.shrinkage,
                by_user.start, by_user.column, by_item.start, by_item.column,
                np.empty(len(state.items), np.int64), np.empty(found.shape[:2]), found,
            )  # fmt: skip

        run_on_threads(state.threads, work)
        out[pairs] = found
    return out


def _directions(state: FittedModel) -> Array:
    """Where each item is from the middle of hidden space, of length one, (items, D).

    By its couplings to the hidden units that users own, as far as they grow with the level, along
    the AXES in which items vary most, of each machine and of all. Without such units none is alike.
    """
    v = level_basis(np.arange(state.machines[0].features.n_levels, dtype=np.float64))[:, 0]
    slopes = [
        np.einsum("cnd,n->cd", side.parameters.coupling[:, :, : side.n_hidden], v)
        for side in (machine.user_side for machine in state.machines)
        if side is not None and side.n_hidden
    ]
    if not slopes:
        return np.zeros((len(state.items), 0))

    def along_axes(rows: Array) -> Array:
        axes = PrincipalAxes.of(rows[state.rated_items], min(AXES, rows.shape[1]))
        return (rows - axes.mean) @ axes.direction

    place = along_axes(np.concatenate(list(map(along_axes, slopes)), axis=1))
    place[~state.rated_items] = 0.0
    length = np.linalg.norm(place, axis=1, keepdims=True)
    return place / np.maximum(length, 1e-300)


def _orders(rows: CSR, time: Numbers) -> Numbers:
    """How many of the person's ratings were given before each, those of the same time half, (N,).

    What is given now is not counted.
    """
    time = np.where(np.isnan(time), np.inf, time)
    person = np.repeat(np.arange(rows.n_rows), np.diff(rows.start))
    sequence = np.lexsort((time, person))
    new = np.ones(len(time) + 1, bool)
    new[1:-1] = (np.diff(person[sequence]) > 0) | (time[sequence][1:] > time[sequence][:-1])
    ends = np.flatnonzero(new)
    middle = np.repeat((ends[:-1] + ends[1:]) / 2, np.diff(ends))
    found = np.empty(len(time))
    found[sequence] = middle
    return found - rows.start[person]


def _parts(given: CSR, person: Codes, items: Codes) -> Iterator[tuple[Codes, Codes]]:
    """Known people, some at a time, and the pairs that are about them, item by item."""
    known = np.unique(person[person >= 0])
    end = np.cumsum(given.sizes_of(known))
    part = end // RATINGS_AT_ONCE
    order = np.argsort(person, kind="stable")
    for number in np.unique(part):
        some = known[part == number]
        first, last = np.searchsorted(person[order], [some[0], some[-1] + 1])
        pairs = order[first:last]
        yield some, pairs[np.argsort(items[pairs], kind="stable")]


def _residuals(state: FittedModel, people: People, person: Codes, rows: CSR) -> Numbers:
    """B(r_j) - E[B | all but j] of these people's ratings, (N, N_FEATURES)."""
    found = state.distribution(people, person.astype(np.int32), rows.column)
    assert isinstance(found, LevelDistribution)
    basis = level_basis(found.scale.values)
    return basis[rows.level] - found.proba @ basis
