"""One side being learnt: its plan, its velocities, and passes over its blocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ordbm.data.csr import CSR
from ordbm.kernels.barrier import new_barrier
from ordbm.kernels.links import add_link_support
from ordbm.kernels.passes import learn_blocks
from ordbm.kernels.structures import Tables, Team
from ordbm.model.learners import ContrastiveDivergence, Learner, PseudoLikelihood
from ordbm.model.machine import Parameters, Side
from ordbm.model.side_scores import hidden_inputs, link_room, side_scores
from ordbm.priors.counts import count_adaptive_precision
from ordbm.priors.resolved import expected_couplings
from ordbm.runtime.arrays import Array
from ordbm.runtime.threads import run_on_threads
from ordbm.training.blocks import plan_blocks, room_for, score_table
from ordbm.training.step_size import step_of

AT_ONCE = 1_000_000  # ratings scored at a time, or learnt before progress is told


class SideTraining:
    """Passes of one learner over one side. `scores` (N, n) is what this side tells the other.

    `tell`, if set, is given the share of a pass that is done, now and then.
    """

    tell: Callable[[float], object] | None = None

    def __init__(
        self,
        side: Side,
        rows: CSR,
        transposed: CSR,
        learner: Learner,
        tables: Tables,
        seed: int,
        threads: int,
        *,
        curvature: float = 1.0,
        bias_precision: float,
        co_occurrence: Array,
        scored: bool,
    ) -> None:
        self.side = side
        self.rows = rows
        self.learner = learner
        self.tables = tables
        self.threads = threads
        self.seed = seed
        self.curvature = curvature
        self.bias_precision = bias_precision
        self.co_occurrence = co_occurrence
        self.n_levels = len(tables.smoothing)
        dtype = side.parameters.coupling.dtype
        contrastive = isinstance(learner, ContrastiveDivergence)
        optimiser = learner.optimiser
        size = optimiser.ratings_per_block(len(rows.column), side.n_columns)
        self.plan = plan_blocks(rows, transposed, seed, optimiser.block_rows, size)
        self.room = room_for(
            self.plan,
            self.n_levels,
            side.n_hidden,
            side.links,
            len(tables.pair),
            dtype,
            threads,
            contrastive=contrastive,
        )
        self.velocity = Parameters(*(np.zeros_like(array) for array in side.parameters))
        self.column_count = np.diff(transposed.start)
        self.support = np.zeros(side.links.n_edges, np.int64)
        if side.links.n_edges:
            where = np.full(side.n_columns, -1, np.int64)
            found = link_room(side.links)
            add_link_support(rows.start, rows.column, side.links, where, found, self.support)
        self.scores = score_table(len(rows.column) if scored else 0, self.n_levels, dtype)

    def refresh_scores(self, method: str, epoch: int) -> None:
        """Fill `scores` from the parameters as they now are; draws are the epoch's own."""
        seed = int(np.random.default_rng((self.seed, epoch, 1)).integers(2**62))
        inputs = hidden_inputs(self.side, self.rows, self.threads)
        owner = self.rows.row
        for first in range(0, len(owner), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            self.scores[part] = side_scores(
                self.side, self.rows, inputs, owner[part], self.rows.column[part], self.tables,
                method, self.threads, seed,
            )  # fmt: skip

    def learn(self, epoch: int, level_bias: Array, level_velocity: Array, other: Array) -> float:
        """One pass over all blocks in a fresh order; the objective summed over ratings."""
        step = step_of(self.learner, epoch, self.curvature, level_bias.dtype)
        precision = count_adaptive_precision(
            self.learner.priors, self.column_count, self.side.n_hidden
        )
        step = step._replace(
            coupling_precision=level_bias.dtype.type(precision),
            bias_precision=level_bias.dtype.type(self.bias_precision),
        )
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.plan.first_row) - 1)
        leave_out = chain = None
        own = self.scores[:0]
        if isinstance(self.learner, ContrastiveDivergence):
            objective = np.zeros(self.rows.n_rows)
            chain = (self.learner.chain_length(epoch), self.seed, epoch)
        else:
            assert isinstance(self.learner, PseudoLikelihood)
            objective = np.zeros(self.plan.first_chunk[-1])
            if self.learner.other_side == "exact":
                own = self.scores
            if self.rows.value.size:
                leave_out = self.learner.leave_out
        team_barrier = new_barrier()
        tables = self._tables_now()

        def work(blocks: Array, thread: int) -> None:
            learn_blocks(
                Team(thread, self.threads, team_barrier), blocks, self.plan, self.rows,
                (self.column_count, self.support), self.side.parameters, self.side.n_hidden,
                self.velocity, self.side.links, tables, level_bias, level_velocity, (own, other),
                self.room.workspace, self.room.tiles[thread], self.room.work[thread], objective,
                step, leave_out, self.room.sample, chain,
            )  # fmt: skip

        parts = np.array_split(order, max(1, min(len(order), len(self.rows.column) // AT_ONCE)))
        for done, blocks in enumerate(parts, 1):
            run_on_threads(self.threads, partial(work, blocks))
            if self.tell is not None:
                self.tell(done / len(parts))
        return float(objective.sum())

    def _tables_now(self) -> Tables:
        """With the prior of couplings where all of them, as they are, and traits have it."""
        if not self.co_occurrence.size or not self.learner.priors.coupling_precision:
            return self.tables
        coupling = self.side.parameters.coupling
        mean = expected_couplings(coupling, self.co_occurrence, self.threads)
        return self.tables._replace(coupling_mean=mean)
