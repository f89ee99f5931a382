"""One side being learnt: its blocks, its velocities, and passes over them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ordbm.data.csr import CSR
from ordbm.kernels.barrier import break_barrier, new_barrier, wait_for
from ordbm.kernels.conditional import gaussian_conditionals, level_conditionals
from ordbm.kernels.hidden import fill_hidden
from ordbm.kernels.links import (
    add_link_support,
    fill_link_scores,
    sum_link_contrasts,
    sum_link_residuals,
)
from ordbm.kernels.sampling import sample_rows
from ordbm.kernels.steps import (
    fill_contrast,
    step_columns,
    step_links,
    step_shared,
    sum_chunks,
)
from ordbm.kernels.structures import Entries, Step, Tables, Team
from ordbm.model.learners import ContrastiveDivergence, Learner, PseudoLikelihood
from ordbm.model.machine import Parameters, Side
from ordbm.model.side_scores import hidden_inputs, link_room, side_scores
from ordbm.priors.counts import count_adaptive_precision
from ordbm.priors.resolved import expected_couplings
from ordbm.runtime.arrays import Array
from ordbm.runtime.interruption import safe_point
from ordbm.runtime.threads import run_on_threads, share
from ordbm.training.blocks import (
    LINK_CHUNKS,
    bounds_of,
    cut_blocks,
    row_work_for,
    score_table,
    tile_for,
    workspace_for,
)
from ordbm.training.noise import Noise
from ordbm.training.step_size import step_of

AT_ONCE = 1_000_000  # ratings scored at a time, or learnt before progress is told


class _Pass(NamedTuple):
    """What is the same for all blocks of one pass."""

    tables: Tables
    step: Step
    level_bias: Array
    level_velocity: Array
    other: Array  # (N, n) what the other side says, by its positions; or empty
    epoch: int
    objective: Array  # of each chunk, or of each row if it is sampled

    def share(self, entries: Entries, rows: CSR) -> Any:
        """Of all ratings, those in a block."""
        return self.level_bias.dtype.type(len(entries.row) / len(rows.column))


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
        group: Array,
        seed: int,
        threads: int,
        *,
        curvature: float = 1.0,
        tightness: float = 1.0,
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
        self.curvature, self.tightness = curvature, tightness
        self.bias_precision = bias_precision
        self.co_occurrence = co_occurrence
        self.n_levels, n_groups = len(tables.bias_smoothing), len(tables.smoothing)
        dtype = side.parameters.coupling.dtype
        self.group = group if n_groups < self.n_levels else group[:0]
        self.first_of_group = np.searchsorted(group, np.arange(n_groups))
        self.grouped_rows, self.parameters = rows, side.parameters
        if self.group.size:  # their couplings are taken from and given back to the side
            self.grouped_rows = rows._replace(level=group[rows.level])
            coupling = np.take(side.parameters.coupling, self.first_of_group, axis=1)
            self.parameters = side.parameters._replace(coupling=coupling)
        optimiser = learner.optimiser
        size = optimiser.ratings_per_block(len(rows.column), side.n_columns)
        self.blocks = cut_blocks(rows, transposed, seed, group, optimiser.block_rows, size)
        self.bounds = [bounds_of(block, threads) for block in self.blocks]
        n_pair = len(tables.pair)
        self.workspace = workspace_for(
            self.blocks,
            self.n_levels,
            n_groups,
            side.n_hidden,
            side.links,
            n_pair,
            dtype,
            contrastive=isinstance(learner, ContrastiveDivergence),
        )
        self.tiles = [
            tile_for(self.n_levels, n_groups, side.n_hidden, dtype) for _ in range(threads)
        ]
        self.row_work = [
            row_work_for(self.n_levels, side.n_hidden, side.links, n_pair, dtype)
            for _ in range(threads)
        ]
        chunks = [0, *(len(block.chunk_column) - 1 for block in self.blocks)]
        if isinstance(learner, ContrastiveDivergence):
            chunks = [rows.n_rows]
        self._objective_start = np.cumsum(chunks)  # of each block
        self.velocity = Parameters(*(np.zeros_like(array) for array in self.parameters))
        self.column_count = np.diff(transposed.start)
        self.noise = Noise(rows, self.column_count, dtype)
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
        if self.group.size:
            self.parameters.coupling[:] = self.side.parameters.coupling[:, self.first_of_group]
        step = step_of(self.learner, epoch, self.curvature, level_bias.dtype)
        precision = count_adaptive_precision(
            self.learner.priors, self.column_count, self.side.n_hidden, self.tightness
        )
        step = step._replace(
            coupling_precision=level_bias.dtype.type(precision),
            bias_precision=level_bias.dtype.type(self.bias_precision),
        )
        self.noise.begin_pass()
        contrastive = isinstance(self.learner, ContrastiveDivergence)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.blocks))
        now = _Pass(
            self._tables_now(), step, level_bias, level_velocity, other, epoch,
            np.zeros(self._objective_start[-1]),
        )  # fmt: skip
        barrier = new_barrier()

        def work(numbers: Array, thread: int) -> None:
            team = Team(thread, self.threads, barrier)
            learn = self._contrast if contrastive else self._learn_block
            try:
                for number in numbers:
                    safe_point()
                    if not learn(now, int(number), team):
                        return  # another thread failed, and says why
            except BaseException:
                break_barrier(barrier)
                raise

        turns = np.array_split(order, max(1, min(len(order), len(self.rows.column) // AT_ONCE)))
        for done, numbers in enumerate(turns, 1):
            run_on_threads(self.threads, partial(work, numbers))
            if self.tell is not None:
                self.tell(done / len(turns))
        if self.group.size:
            for level, group in enumerate(self.group):
                self.side.parameters.coupling[:, level] = self.parameters.coupling[:, group]
        self.noise.end_pass(self.learner.priors.noise_weight)
        return float(now.objective.sum())

    def _learn_block(self, now: _Pass, number: int, team: Team) -> bool:
        """One thread's part of a block: hidden units, gradients, then a step of every column.

        The threads meet between these and split each one by whole rows, columns or chunks of
        columns, so that results are the same for any number of threads. False if one is missing.
        """
        block, bounds, links = self.blocks[number], self.bounds[number], self.side.links
        work, (hidden, gradients, link_work, _) = self.row_work[team.thread], self.workspace
        rows_here = bounds.row[team.thread : team.thread + 2]
        if links.n_edges:
            fill_link_scores(
                *rows_here, block.row, block.row_shift, self.rows, links,
                self.parameters.link_weight, now.tables.pair, work, link_work.score,
            )  # fmt: skip
        if not fill_hidden(
            *rows_here, block.row, self.grouped_rows, self.parameters, self.side.n_hidden,
            work.total, hidden, team,
        ):  # fmt: skip
            return False
        if not self._conditionals(now, number, team):
            return False
        if links.n_edges:
            for chunk in range(*share(LINK_CHUNKS, team.thread, team.threads)):
                sum_link_residuals(
                    *bounds.link_row[chunk : chunk + 2], block.row, block.row_shift, self.rows,
                    links, now.tables.pair, link_work, work, gradients.link[chunk],
                )  # fmt: skip
        if not sum_chunks(
            *share(len(block.row), team.thread, team.threads), gradients.chunk_context,
            len(block.chunk_column) - 1, gradients.context, team,
        ):  # fmt: skip
            return False
        context = gradients.context
        return self._step(now, number, team, context, context[:0], context)

    def _contrast(self, now: _Pass, number: int, team: Team) -> bool:
        """The same by samples."""
        block, bounds, links = self.blocks[number], self.bounds[number], self.side.links
        work, (hidden, gradients, _, sample) = self.row_work[team.thread], self.workspace
        rows_here = bounds.row[team.thread : team.thread + 2]
        fill_hidden(
            *rows_here, block.row, self.grouped_rows, self.parameters, self.side.n_hidden,
            work.total, hidden, team._replace(threads=1),
        )  # fmt: skip
        sample_rows(
            *rows_here, block.row, block.row_slot, self._chain(now.epoch), self.rows,
            self.parameters, self.side.n_hidden, links, now.tables, now.level_bias, now.other,
            hidden.on, gradients.context, sample, work, now.objective,
        )  # fmt: skip
        if not wait_for(team):
            return False
        fill_contrast(
            *bounds.column[team.thread : team.thread + 2], block.entries, self.rows.value,
            block.row_shift, hidden.on, gradients.context, sample, gradients,
        )  # fmt: skip
        if links.n_edges:
            for chunk in range(*share(LINK_CHUNKS, team.thread, team.threads)):
                sum_link_contrasts(
                    *bounds.link_row[chunk : chunk + 2], block.row, block.row_shift, self.rows,
                    links, now.tables.pair, sample, work, gradients.link[chunk],
                )  # fmt: skip
        if not wait_for(team):
            return False
        none = gradients.context[:0]
        return self._step(now, number, team, hidden.on, gradients.context, none)

    def _step(
        self, now: _Pass, number: int, team: Team, plus: Array, minus: Array, context: Array
    ) -> bool:
        """The last phase: steps of what all columns share, of links, and of the columns."""
        block, side, gradients = self.blocks[number], self.parameters, self.workspace.gradients
        n_rows, entries, work = len(block.row), block.entries, self.row_work[team.thread]
        if team.thread == 0:
            step_shared(
                n_rows, len(entries.column), now.share(entries, self.rows), len(self.rows.column),
                side, self.velocity, now.tables.bias_smoothing, now.level_bias, now.level_velocity,
                plus, minus, gradients.bias, now.step, work.sum, work.level_gradient,
            )  # fmt: skip
        if self.side.links.n_edges:
            step_links(
                *share(self.side.links.n_edges, team.thread, team.threads), gradients.link,
                now.share(entries, self.rows), n_rows, self.support, side.link_weight,
                self.velocity.link_weight, now.step,
            )  # fmt: skip
        return step_columns(
            *self.bounds[number].column[team.thread : team.thread + 2], entries, self.rows.value,
            context, self.column_count, self.noise.column_weight, n_rows, side, self.velocity,
            now.tables, gradients, now.step, team,
        )  # fmt: skip

    def _conditionals(self, now: _Pass, number: int, team: Team) -> bool:
        """Gradients of log P(r_i | all other ratings), chunk by chunk of the block's columns."""
        assert isinstance(self.learner, PseudoLikelihood)
        block, side = self.blocks[number], self.parameters
        hidden, gradients, link_work, _ = self.workspace
        own = self.scores if self.learner.other_side == "exact" else self.scores[:0]
        chunks = share(len(block.chunk_column) - 1, team.thread, team.threads)
        objective = now.objective[self._objective_start[number] :]
        if self.rows.value.size:
            return gaussian_conditionals(
                *chunks, block.chunk_column, block.entries, self.rows.value, self.noise.precision,
                self.noise.residual, side, block.row_shift, hidden, link_work, own, now.other,
                now.level_bias, gradients, len(block.row), self.row_work[team.thread].sum,
                self.learner.leave_out, objective, team,
            )  # fmt: skip
        return level_conditionals(
            *chunks, block.chunk_column, block.entries, side, block.row_shift, hidden, link_work,
            own, now.other, now.level_bias, self.group, gradients, len(block.row),
            self.tiles[team.thread], objective, team,
        )  # fmt: skip

    def _chain(self, epoch: int) -> tuple[int, int, int]:
        """Steps of a Gibbs chain in this epoch, and what its random numbers are drawn by."""
        assert isinstance(self.learner, ContrastiveDivergence)
        return self.learner.chain_length(epoch), self.seed, epoch

    def _tables_now(self) -> Tables:
        """With the prior of couplings where all of them, as they are, and traits have it."""
        if not self.co_occurrence.size or not self.learner.priors.coupling_precision:
            return self.tables
        coupling = self.parameters.coupling
        mean = expected_couplings(coupling, self.co_occurrence, self.threads)
        return self.tables._replace(coupling_mean=mean)
