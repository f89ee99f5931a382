"""One side being learnt: its blocks, its velocities, and passes over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np

from ordbm.data.csr import CSR
from ordbm.kernels.barrier import break_barrier, new_barrier
from ordbm.kernels.links import add_link_support
from ordbm.kernels.plan import reorder
from ordbm.kernels.structures import Block, Tables, Team
from ordbm.model.learners import ContrastiveDivergence, Learner
from ordbm.model.machine import Parameters, Side
from ordbm.model.side_scores import hidden_inputs, link_room, side_scores
from ordbm.priors.counts import count_adaptive_precision
from ordbm.priors.resolved import expected_couplings
from ordbm.runtime.arrays import Array
from ordbm.runtime.interruption import safe_point
from ordbm.runtime.scratch import IN_MEMORY, Scratch
from ordbm.runtime.threads import run_on_threads
from ordbm.training.block_steps import Pass, contrast_block, learn_block
from ordbm.training.blocks import bounds_of, row_work_for, tile_for, workspace_for
from ordbm.training.engine import LOCAL, Engine
from ordbm.training.noise import Noise
from ordbm.training.step_size import step_of

AT_ONCE = 1_000_000  # ratings scored at a time, or learnt before progress is told


class SideTraining:
    """Passes of one learner over the blocks of one side.

    `tell`, if set, is given the share of a pass that is done, now and then.
    """

    tell: Callable[[float], object] | None = None

    def __init__(
        self,
        side: Side,
        rows: CSR,
        column_count: Array,
        blocks: Sequence[Block],
        order: Array,
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
        number: int = 0,
        engine: Engine = LOCAL,
        scratch: Scratch = IN_MEMORY,
        counts_of_all: Array | None = None,
    ) -> None:
        """`rows` are the side's ratings, `column_count` is (C,).

        `blocks` are the plan's, with columns by their place in `order`; a sampling learner, that
        walks rows, has them in their own order. `number` is 0 for the user side and 1 for the item
        side; `engine` knows of other workers with other users, and `counts_of_all` are those of all
        columns, wherever they are.
        """
        self.side = side
        self.number, self.engine = number, engine
        self.rows = rows
        self.learner = learner
        few = len(tables.coupling_mean) == 1
        self.tables = tables._replace(
            bias_mean=tables.bias_mean[order],
            coupling_mean=tables.coupling_mean if few else tables.coupling_mean[order],
        )
        self.threads = threads
        self.seed = seed
        self.curvature, self.tightness = curvature, tightness
        self.bias_precision = bias_precision
        self.co_occurrence = co_occurrence[order]
        self.n_levels, n_groups = len(tables.bias_smoothing), len(tables.smoothing)
        dtype = side.parameters.coupling.dtype
        self.group = group if n_groups < self.n_levels else group[:0]
        self.first_of_group = np.searchsorted(group, np.arange(n_groups))
        self.parameters = side.parameters
        if self.group.size:  # their couplings are learnt
            coupling = np.empty_like(side.parameters.coupling[:, : len(self.first_of_group)])
            self.parameters = side.parameters._replace(coupling=coupling)
        self.blocks = blocks
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
            scratch,
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
        self.objective_start = np.cumsum(chunks)  # of each block
        self.velocity = Parameters(
            *(scratch.room(array.shape, array.dtype) for array in self.parameters)
        )
        self.order = order
        self.column_count = column_count[order]
        self.counts_of_all = self.column_count if counts_of_all is None else counts_of_all
        self.noise = Noise(rows, column_count, dtype)
        self.support = np.zeros(side.links.n_edges, np.int64)
        if side.links.n_edges:
            where = np.full(side.n_columns, -1, np.int64)
            found = link_room(side.links)
            add_link_support(rows.start, rows.column, side.links, where, found, self.support)
            engine.add_counts(number, self.support)

    @cached_property
    def score_of(self) -> Array:
        """Where each position's scores are."""
        place = np.empty(len(self.rows.column), self.rows.in_transpose.dtype)
        for block in self.blocks:
            entries = block.entries
            turn = np.arange(entries.first, entries.first + len(entries.row))
            place[entries.position] = entries.score if entries.score.size else turn
        return place

    def fill_scores(self, method: str, epoch: int, scored: Array) -> None:
        """What the side says as it now is, into (N, n); draws are the epoch's own."""
        seed = int(np.random.default_rng((self.seed, epoch, 1)).integers(2**62))
        inputs = hidden_inputs(self.side, self.rows, self.threads)
        owner = self.rows.row
        for first in range(0, len(owner), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            scored[self.score_of[part]] = side_scores(
                self.side, self.rows, inputs, owner[part], self.rows.column[part], self.tables,
                method, self.threads, seed,
            )  # fmt: skip

    def learn(self, epoch: int, level_bias: Array, level_velocity: Array, scored: Array) -> float:
        """One pass over all blocks in a fresh order; the objective summed over ratings.

        `scored` (N, n) is what the other side says of each rating, and may be empty. With exact
        scores what this side says of it comes in its place.
        """
        self._take_columns()
        try:
            return self._learn(epoch, level_bias, level_velocity, scored)
        finally:
            self._give_columns_back()

    def _take_columns(self) -> None:
        """Put the parameters of columns into the order in which they are learnt."""
        own = self.side.parameters
        _reorder(own.rating_bias, self.order)
        if not self.group.size:
            _reorder(own.coupling, self.order)
        for group, level in enumerate(self.first_of_group if self.group.size else ()):
            self.parameters.coupling[:, group] = own.coupling[self.order, level]

    def _give_columns_back(self) -> None:
        """Undo that."""
        own = self.side.parameters
        place = np.argsort(self.order)
        _reorder(own.rating_bias, place)
        if not self.group.size:
            _reorder(own.coupling, place)
        for level, group in enumerate(self.group):
            own.coupling[:, level] = self.parameters.coupling[place, group]

    def _learn(self, epoch: int, level_bias: Array, level_velocity: Array, scored: Array) -> float:
        step = step_of(self.learner, epoch, self.curvature, level_bias.dtype)
        precision = count_adaptive_precision(
            self.learner.priors, self.counts_of_all, self.side.n_hidden, self.tightness
        )
        step = step._replace(
            coupling_precision=level_bias.dtype.type(precision),
            bias_precision=level_bias.dtype.type(self.bias_precision),
        )
        self.noise.begin_pass()
        contrastive = isinstance(self.learner, ContrastiveDivergence)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.blocks))
        now = Pass(
            self._tables_now(), step, self.noise.column_weight[self.order], level_bias,
            level_velocity, scored, epoch,
            np.zeros(self.objective_start[-1]), sum(block.n_ratings for block in self.blocks),
        )  # fmt: skip
        barrier = new_barrier()

        def work(numbers: Array, thread: int) -> None:
            team = Team(thread, self.threads, barrier)
            learn = contrast_block if contrastive else learn_block
            try:
                for number in numbers:
                    safe_point()
                    if not learn(self, now, int(number), team):
                        return  # another thread failed, and says why
            except BaseException:
                break_barrier(barrier)
                raise

        turns = np.array_split(order, max(1, min(len(order), len(self.rows.column) // AT_ONCE)))
        for done, numbers in enumerate(turns, 1):
            run_on_threads(self.threads, partial(work, numbers))
            if self.tell is not None:
                self.tell(done / len(turns))
        self.noise.end_pass(self.learner.priors.noise_weight)
        return float(now.objective.sum())

    def _tables_now(self) -> Tables:
        """With the prior of couplings where all of them, as they are, and traits have it."""
        if not self.co_occurrence.size or not self.learner.priors.coupling_precision:
            return self.tables
        mean = expected_couplings(
            self.parameters.coupling, self.co_occurrence, self.threads,
            partial(self.engine.add_directions, self.number),
        )  # fmt: skip
        return self.tables._replace(coupling_mean=mean)


def _reorder(table: Array, order: Array) -> None:
    """table[order], in place, unless it is empty."""
    if table.size:
        flat = table.reshape(len(table), -1)
        reorder(flat, order, flat[0].copy(), np.zeros(len(table), bool))
