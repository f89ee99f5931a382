"""Predictions in context: what a person's ratings of about that time tell beside the machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ordbm.data.csr import CSR
from ordbm.inference.distributions import LevelDistribution
from ordbm.kernels.context import context_means
from ordbm.model.context_links import N_FEATURES, level_basis
from ordbm.runtime.arrays import Array, Codes, Numbers
from ordbm.runtime.threads import run_on_threads, share

if TYPE_CHECKING:
    from ordbm.inference.fitted import FittedModel
    from ordbm.inference.people import People

RATINGS_AT_ONCE = 200_000  # of people whose ratings are looked at together


def context_forces(
    state: FittedModel,
    people: People,
    person: Codes,
    items: Codes,
    at: Numbers,
    scales: Numbers,
    shrinkage: float,
) -> Array:
    """F of each pair, (pairs, K, N_FEATURES): mean residuals of a person's ratings near `at`."""
    out = np.zeros((len(items), len(scales), N_FEATURES))
    for some, pairs in _parts(people.given, person):
        rows = people.given.rows_of(some)
        place = people.given_times[people.given.positions_of(some)]
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
            residual: Array = residual,
            found: Array = found,
        ) -> None:
            begin, end = share(len(number), thread, state.threads)
            context_means(
                begin, end, number, *asked, rows.start, rows.column, place, residual, scales,
                shrinkage, found,
            )  # fmt: skip

        run_on_threads(state.threads, work)
        out[pairs] = found
    return out


def _parts(given: CSR, person: Codes) -> Iterator[tuple[Codes, Codes]]:
    """Known people, some at a time, and the pairs that are about them."""
    known = np.unique(person[person >= 0])
    end = np.cumsum(given.sizes_of(known))
    part = end // RATINGS_AT_ONCE
    order = np.argsort(person, kind="stable")
    for number in np.unique(part):
        some = known[part == number]
        first, last = np.searchsorted(person[order], [some[0], some[-1] + 1])
        yield some, order[first:last]


def _residuals(state: FittedModel, people: People, person: Codes, rows: CSR) -> Numbers:
    """B(r_j) - E[B | all but j] of these people's ratings, (N, N_FEATURES)."""
    found = state.distribution(people, person.astype(np.int32), rows.column)
    assert isinstance(found, LevelDistribution)
    basis = level_basis(found.scale.values)
    return basis[rows.level] - found.proba @ basis
