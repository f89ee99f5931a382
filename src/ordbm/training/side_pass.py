"""One side being learnt: its blocks, its velocities, and passes over them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ordbm.data.csr import CSR
from ordbm.kernels.conditional import gaussian_conditionals, level_conditionals
from ordbm.kernels.hidden import fill_hidden
from ordbm.kernels.links import (
    add_link_support,
    fill_link_scores,
    sum_link_contrasts,
    sum_link_residuals,
)
from ordbm.kernels.sampling import sample_rows
from ordbm.kernels.steps import fill_contrast, step_columns, step_links, step_shared
from ordbm.kernels.structures import Block, Entries, Step, Tables
from ordbm.model.learners import ContrastiveDivergence, Learner, PseudoLikelihood
from ordbm.model.machine import Parameters, Side
from ordbm.model.side_scores import hidden_inputs, link_room, side_scores
from ordbm.priors.counts import count_adaptive_precision
from ordbm.priors.resolved import expected_couplings
from ordbm.runtime.arrays import Array
from ordbm.runtime.threads import SpinBarrier, run_on_threads, share
from ordbm.training.blocks import (
    LINK_CHUNKS,
    cut_blocks,
    parts,
    row_work_for,
    score_table,
    tile_for,
    workspace_for,
)
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
    barrier: SpinBarrier
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
            self.learner.priors, self.column_count, self.side.n_hidden
        )
        step = step._replace(
            coupling_precision=level_bias.dtype.type(precision),
            bias_precision=level_bias.dtype.type(self.bias_precision),
        )
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.blocks))
        now = _Pass(
            self._tables_now(), step, level_bias, level_velocity, other, epoch,
            SpinBarrier(self.threads), np.zeros(self._objective_start[-1]),
        )  # fmt: skip

        def work(numbers: Array, thread: int) -> None:
            try:
                for number in numbers:
                    self._learn_block(now, int(number), thread)
            except threading.BrokenBarrierError:
                return  # another thread failed, and says why
            except BaseException:
                now.barrier.abort()
                raise

        turns = np.array_split(order, max(1, min(len(order), len(self.rows.column) // AT_ONCE)))
        for done, numbers in enumerate(turns, 1):
            run_on_threads(self.threads, partial(work, numbers))
            if self.tell is not None:
                self.tell(done / len(turns))
        if self.group.size:
            for level, group in enumerate(self.group):
                self.side.parameters.coupling[:, level] = self.parameters.coupling[:, group]
        return float(now.objective.sum())

    def _learn_block(self, now: _Pass, number: int, thread: int) -> None:
        """One thread's part of a block: hidden units, gradients, then a step of every column.

        The threads meet between these and split each one by whole rows, columns or chunks of
        columns, so that results are the same for any number of threads.
        """
        block = self.blocks[number]
        side, rows, links = self.parameters, self.rows, self.side.links
        hidden, gradients, link_work, sample = self.workspace
        work = self.row_work[thread]
        n_rows, entries = len(block.row), block.entries
        contrastive = isinstance(self.learner, ContrastiveDivergence)
        meet = now.barrier.wait
        first, last = parts(block.row_slot, self.threads)[thread : thread + 2]
        own_columns = parts(entries.column_entry, self.threads)[thread : thread + 2]

        fill_hidden(
            first, last, block.row, self.grouped_rows, side, self.side.n_hidden, work.total, hidden
        )
        if contrastive:
            sample_rows(
                first, last, block.row, block.row_slot, self._chain(now.epoch), rows, side,
                self.side.n_hidden, links, now.tables, now.level_bias, now.other, hidden.on,
                gradients.context, sample, work, now.objective,
            )  # fmt: skip
        elif links.n_edges:
            fill_link_scores(
                first, last, block.row, block.row_shift, rows, links, side.link_weight,
                now.tables.pair, work, link_work.score,
            )  # fmt: skip
        meet()
        if contrastive:
            fill_contrast(
                *own_columns, entries, rows.value, block.row_shift, hidden.on, gradients.context,
                sample, gradients,
            )  # fmt: skip
        else:
            self._conditionals(now, number, thread)
            meet()
            chunks = gradients.chunk_context[: len(block.chunk_column) - 1]
            begin, end = share(n_rows, thread, self.threads)
            np.sum(chunks[:, begin:end], axis=0, out=gradients.context[begin:end])
        self._link_gradients(now, block, thread)
        meet()
        if thread == 0:
            step_shared(
                n_rows, len(entries.column), now.share(entries, rows), len(rows.column), side,
                self.velocity, now.tables.bias_smoothing, now.level_bias, now.level_velocity,
                hidden.on if contrastive else gradients.context,
                gradients.context if contrastive else gradients.context[:0],
                gradients.bias, now.step, work.sum, work.level_gradient,
            )  # fmt: skip
        step_columns(
            *own_columns, entries, rows.value, gradients.context[: 0 if contrastive else None],
            self.column_count, n_rows, side, self.velocity, now.tables,
            gradients, now.step,
        )  # fmt: skip
        if links.n_edges:
            step_links(
                *share(links.n_edges, thread, self.threads), gradients.link,
                now.share(entries, rows), n_rows, self.support, side.link_weight,
                self.velocity.link_weight, now.step,
            )  # fmt: skip
        meet()

    def _conditionals(self, now: _Pass, number: int, thread: int) -> None:
        """Gradients of log P(r_i | all other ratings), chunk by chunk of the block's columns."""
        assert isinstance(self.learner, PseudoLikelihood)
        block, side = self.blocks[number], self.parameters
        hidden, gradients, link_work, _ = self.workspace
        own = self.scores if self.learner.other_side == "exact" else self.scores[:0]
        chunks = share(len(block.chunk_column) - 1, thread, self.threads)
        objective = now.objective[self._objective_start[number] :]
        if self.rows.value.size:
            gaussian_conditionals(
                *chunks, block.chunk_column, block.entries, self.rows.value, side,
                block.row_shift, hidden, link_work, own, now.other, now.level_bias, gradients,
                len(block.row), self.row_work[thread].sum, self.learner.leave_out, objective,
            )  # fmt: skip
        else:
            level_conditionals(
                *chunks, block.chunk_column, block.entries, side, block.row_shift, hidden,
                link_work, own, now.other, now.level_bias, self.group, gradients, len(block.row),
                self.tiles[thread], objective,
            )  # fmt: skip

    def _link_gradients(self, now: _Pass, block: Block, thread: int) -> None:
        """Gradients of all links, each chunk of the block's rows in a table of its own."""
        links = self.side.links
        if not links.n_edges:
            return
        _, gradients, link_work, sample = self.workspace
        bounds = parts(block.row_slot, LINK_CHUNKS)
        contrastive = isinstance(self.learner, ContrastiveDivergence)
        for chunk in range(*share(LINK_CHUNKS, thread, self.threads)):
            of_chunk = (bounds[chunk], bounds[chunk + 1], block.row, block.row_shift, self.rows)
            work, out = self.row_work[thread], gradients.link[chunk]
            if contrastive:
                sum_link_contrasts(*of_chunk, links, now.tables.pair, sample, work, out)
            else:
                sum_link_residuals(*of_chunk, links, now.tables.pair, link_work, work, out)

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
