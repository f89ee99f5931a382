"""What one side of a machine says: hidden input of its rows, and scores of (row, column) pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ordbm.data.csr import CSR
from ordbm.kernels import ensemble, pairs
from ordbm.kernels.hidden import rows_input
from ordbm.kernels.structures import Tables
from ordbm.model.machine import Side
from ordbm.model.neighbours import Links
from ordbm.runtime.arrays import Array, Codes
from ordbm.runtime.threads import run_on_threads, share

HOW = {
    "exact": pairs.EXACT,
    "mean_field": pairs.MEAN,
    "mean_field_with_own": pairs.MEAN_WITH_OWN,
    "sample": pairs.SAMPLE,
}


def side_scores(
    side: Side,
    ratings: CSR,
    inputs: Array,
    rows: Codes,
    columns: Codes,
    tables: Tables,
    method: str,
    threads: int,
    seed: int = 0,
) -> Array:
    """One side's scores of (row, column) pairs, (pairs, n); see `kernels.pairs.pair_scores`."""
    dtype = side.parameters.coupling.dtype
    n_levels = side.parameters.coupling.shape[1]
    run = _sorted_runs(rows)
    row = np.ascontiguousarray(rows[run], np.int32)
    column = np.ascontiguousarray(columns[run], np.int32)
    out = np.empty((len(run), n_levels), dtype)
    own = side.parameters._replace(hidden_bias=side.unknown_hidden_bias)
    d = own.hidden_bias.size

    def work(thread: int) -> None:
        begin, end = share(len(row), thread, threads)
        room = (
            np.empty(d, dtype),
            np.empty(d, dtype),
            np.empty((len(tables.pair), n_levels), dtype),
            link_room(side.links),
        )
        pairs.pair_scores(
            begin, end, row, column, inputs, ratings, own, side.links,
            tables, HOW[method], seed, _where(side), room, out,
        )  # fmt: skip

    run_on_threads(threads, work)
    scores = np.empty_like(out)
    scores[run] = out
    return scores


def hidden_inputs(side: Side, ratings: CSR, threads: int, listed: Codes | None = None) -> Array:
    """x of every row of a side, (R, d); of the `listed` rows if only these are asked for."""
    own = side.parameters
    out = np.empty((ratings.n_rows, own.hidden_bias.size), own.coupling.dtype)
    if listed is not None:
        listed = np.unique(listed[listed >= 0])
        out[listed] = inputs_of_rows(side, ratings, listed)
        return out

    def work(thread: int) -> None:
        begin, end = share(ratings.n_rows, thread, threads)
        rows_input(
            begin, end, ratings, own.hidden_bias, own.coupling, np.empty(out.shape[1]), out
        )  # fmt: skip

    run_on_threads(threads, work)
    side.add_row_inputs(out)
    return out


def inputs_of_rows(side: Side, ratings: CSR, listed: Array) -> Array:
    """x of these rows, (listed, d)."""
    own = side.parameters
    out = np.empty((len(listed), own.hidden_bias.size), own.coupling.dtype)
    ensemble.listed_inputs(
        0, len(listed), listed, ratings, own.hidden_bias, own.coupling, np.empty(out.shape[1]), out
    )
    side.add_row_inputs(out, listed)
    return out


def side_log_densities(
    side: Side,
    ratings: CSR,
    inputs: Array,
    rows: Codes,
    columns: Codes,
    tables: Tables,
    grid: Array,
    threads: int,
) -> Array:
    """One side's log density of Gaussian ratings at `grid` (pairs, points), but for -r^2 / 2."""
    dtype = side.parameters.coupling.dtype
    run = _sorted_runs(rows)
    row = np.ascontiguousarray(rows[run], np.int32)
    column = np.ascontiguousarray(columns[run], np.int32)
    points = np.ascontiguousarray(grid[run], dtype)
    out = np.zeros(points.shape, dtype)
    own = side.parameters._replace(hidden_bias=side.unknown_hidden_bias)

    def work(thread: int) -> None:
        begin, end = share(len(row), thread, threads)
        room = (
            np.empty(side.parameters.hidden_bias.size, dtype),
            np.empty(1, dtype),
            np.empty((len(tables.pair), 1), dtype),
            link_room(side.links),
        )
        pairs.pair_densities(
            begin, end, row, column, inputs, ratings, own, side.links, tables, points,
            _where(side), room, out,
        )  # fmt: skip

    run_on_threads(threads, work)
    densities = np.empty_like(out)
    densities[run] = out
    return densities


def _sorted_runs(rows: Codes) -> Codes:
    """An order in which pairs of one row follow each other: its table is then made once."""
    if len(rows) < 2 or bool(np.all(rows[1:] >= rows[:-1])):
        return np.arange(len(rows))
    return np.argsort(rows, kind="stable")


def link_room(links: Links) -> NDArray[np.int64]:
    """Room for the linked ratings of one column: one more than it can have."""
    return np.empty(int(np.diff(links.start).max(initial=0)) + 1, np.int64)


def _where(side: Side) -> NDArray[np.int64]:
    return np.full(side.n_columns if side.links.n_edges else 1, -1, np.int64)
