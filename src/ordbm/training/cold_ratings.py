"""Ratings as if nobody had rated their column: how likely they are, and its gradient.

A column is a user (kind 0) or an item (1); `chosen` are positions of ratings by column. Each counts
twice: beside all else that its row has rated, and as if its row had rated nothing too; if it is not
said what rows have then, only once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from ordbm.data.csr import CSRPair
from ordbm.kernels.feature_effects import cold_gradients
from ordbm.model.feature_effects import FeatureEffects
from ordbm.model.machine import Machine
from ordbm.model.side_scores import hidden_inputs
from ordbm.runtime.arrays import Array
from ordbm.runtime.threads import run_on_threads

LARGEST_COUPLING = 40.0  # |W| beyond this is cut, so that e^W is a float32


class ColdRatings(NamedTuple):
    """Some ratings by column of a side, and what is known of their rows."""

    start: Array  # (C + 1,)
    row: Array  # (m,) the place of each rating's row in the tables of rows
    level: Array  # (m,)
    n_warm: int  # rows by what they have rated; then come the same as if nothing
    rest: Array  # (rows, n) potentials without the column
    on: Array  # (rows, d) P(h = 1 | all that the row has rated)
    own: Array  # (C, n, d) e^W of the columns as they were learnt
    growth: Array  # (rows, n, D) e^V - 1

    @classmethod
    def of(
        cls,
        machine: Machine,
        ratings: CSRPair,
        kind: int,
        chosen: Array,
        cold_rows: FeatureEffects | None,
        threads: int,
        some: Array,
    ) -> ColdRatings:
        """Those at the `chosen` positions by user (kind 0) or item (1), which are the columns.

        `cold_rows` are the parameters that rows would have if they had rated nothing. `some` are
        the columns, in their order; all chosen ratings are theirs.
        """
        side, other = machine.sides[1 - kind], machine.sides[kind]
        columns, dtype, n = ratings[kind], machine.dtype, len(machine.level_bias)
        rows, row = np.unique(columns.column[chosen], return_inverse=True)
        rest = np.tile(machine.level_bias, (len(rows), 1))
        growth = np.zeros((len(rows), n, 0), dtype)
        own, on = np.zeros((len(some), n, 0), dtype), np.zeros((len(rows), 0), dtype)
        if other is not None:
            coupling = other.parameters.coupling[rows, :, : other.n_hidden]
            growth = np.expm1(np.clip(coupling, -LARGEST_COUPLING, LARGEST_COUPLING))
            if other.parameters.rating_bias.size:
                rest += other.parameters.rating_bias[rows]
        if side is not None:
            coupling = side.parameters.coupling[some, :, : side.n_hidden]
            own = np.exp(np.clip(coupling, -LARGEST_COUPLING, LARGEST_COUPLING))
            on = expit(hidden_inputs(side, ratings[1 - kind], threads)[rows, : side.n_hidden])
        start, level = _starts(columns.start, chosen, some), columns.level[chosen]
        if cold_rows is None:
            return cls(start, row, level, len(rows), rest, on, own, growth)
        bias, said, inputs = (part[rows] for part in cold_rows)
        rest = np.concatenate([rest, machine.level_bias + bias])
        on = np.concatenate([on, expit(inputs)])
        clipped = np.clip(said, -LARGEST_COUPLING, LARGEST_COUPLING)
        growth = np.concatenate([growth, np.expm1(clipped)])
        twice = np.stack([row, row + len(rows)], axis=1).ravel()
        return cls(2 * start, twice, np.repeat(level, 2), len(rows), rest, on, own, growth)


class ColdLogLikelihood:
    """The sum of log P over ratings as if nobody had rated their column, and its gradient."""

    def __init__(
        self,
        machine: Machine,
        ratings_of: CSRPair,
        kind: int,
        chosen: Array,
        cold_rows: FeatureEffects | None,
        threads: int,
        some: Array,
    ) -> None:
        ratings = ColdRatings.of(machine, ratings_of, kind, chosen, cold_rows, threads, some)
        self.ratings, self.threads, self.start = ratings, threads, ratings.start
        n_columns, n, d = ratings.own.shape
        dtype = ratings.rest.dtype
        self.gradient = FeatureEffects.zeros(n_columns, n, d, ratings.growth.shape[2], dtype)
        self._bound = np.searchsorted(
            ratings.start, np.linspace(0, len(ratings.row), threads + 1).astype(np.int64)
        )
        self._bound[0], self._bound[-1] = 0, n_columns

    def __call__(self, cold: FeatureEffects) -> float:
        """Of columns with these parameters; `gradient` is that by them."""
        told = self.ratings
        (n_columns, n, d), units, dtype = told.own.shape, told.growth.shape[2], told.rest.dtype
        objective = np.zeros(n_columns)

        def work(thread: int) -> None:
            room = tuple(np.empty(shape, dtype) for shape in ((n, d), d, n, units))
            cold_gradients(
                self._bound[thread], self._bound[thread + 1], told.start, told.row, told.level,
                told.n_warm, told.rest, told.on, told.own, told.growth, tuple(cold), room,
                tuple(self.gradient), objective,
            )  # fmt: skip

        run_on_threads(self.threads, work)
        return float(objective.sum())


class ColdSquares:
    """The same of a Gaussian machine, by the means of hidden units: -1/2 the squared residuals.

    A rating of column i by row u has, beside what u has rated, the mean

        rest_u + b_i + sum_k p_uk W_ik + sum_k sigmoid(y_ik) V_uk,    p_uk = P(h_k | other ratings).
    """

    def __init__(
        self,
        machine: Machine,
        ratings: CSRPair,
        kind: int,
        chosen: Array,
        cold_rows: FeatureEffects | None,
        threads: int,
        some: Array,
    ) -> None:
        side, other = machine.sides[1 - kind], machine.sides[kind]
        columns, dtype = ratings[kind], machine.dtype
        row, start = columns.column[chosen], _starts(columns.start, chosen, some)
        column = np.repeat(np.arange(len(some)), np.diff(start))
        value = columns.value[chosen]
        self._rest = value - machine.level_bias[0]
        self._on, self._pull = np.zeros((2, len(chosen), 0), dtype)
        if other is not None:
            self._pull = other.parameters.coupling[row, 0, : other.n_hidden]
            if other.parameters.rating_bias.size:
                self._rest = self._rest - other.parameters.rating_bias[row, 0]
        if side is not None:
            own = side.parameters.coupling[some[column], 0, : side.n_hidden]
            inputs = hidden_inputs(side, ratings[1 - kind], threads)[row, : side.n_hidden]
            self._on = expit(inputs - value[:, None] * own)
        d, units = self._on.shape[1], self._pull.shape[1]
        self.gradient = FeatureEffects.zeros(len(some), 1, d, units, dtype)
        self._column, self.start = column, start
        if cold_rows is not None:
            bias, said, cold_inputs = (part[row] for part in cold_rows)
            self._rest = np.append(self._rest, value - machine.level_bias[0] - bias[:, 0])
            self._on = np.concatenate([self._on, expit(cold_inputs)])
            self._pull = np.concatenate([self._pull, said[:, 0]])
            self._column, self.start = np.tile(column, 2), 2 * start
        order = np.argsort(self._column, kind="stable")
        self._sums = csr_array((np.ones(len(order), dtype), order, self.start), dtype=dtype)

    def __call__(self, cold: FeatureEffects) -> float:
        """Of columns with these parameters; `gradient` is that by them."""
        bias, coupling, inputs = cold
        at, on = self._column, expit(inputs)
        residual = self._rest - bias[at, 0] - np.einsum("qk,qk->q", self._on, coupling[at, 0])
        residual -= np.einsum("qk,qk->q", self._pull, on[at])
        by_bias, by_coupling, by_input = self.gradient
        by_bias[:, 0] = self._sums @ residual
        by_coupling[:, 0] = self._sums @ (residual[:, None] * self._on)
        by_input[:] = on * (1 - on) * (self._sums @ (residual[:, None] * self._pull))
        return -0.5 * float(np.square(residual, dtype=np.float64).sum())


def _starts(start: Array, chosen: Array, some: Array) -> Array:
    """Where the chosen ratings of each of some columns begin, (some + 1,)."""
    return np.searchsorted(chosen, np.append(start[some], start[-1]))
