"""One block, learnt in steps: hidden units, conditionals, what these ask, then all parameters.

The threads meet between steps and split each one by whole rows, columns or chunks of columns, so
that results are the same for any number of threads. Where an engine has other workers, what all
have summed is put together between the same steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ordbm.kernels.barrier import wait_for
from ordbm.kernels.conditional import gaussian_conditionals, level_conditionals
from ordbm.kernels.hidden import fill_hidden, gather_inputs, sum_inputs
from ordbm.kernels.links import fill_link_scores, sum_link_contrasts, sum_link_residuals
from ordbm.kernels.sampling import sample_rows
from ordbm.kernels.steps import (
    fill_contrast,
    gather_columns,
    step_columns,
    step_links,
    step_shared,
    sum_chunks,
    sum_shared,
)
from ordbm.kernels.structures import Block, Step, Tables, Team
from ordbm.model.learners import ContrastiveDivergence, PseudoLikelihood
from ordbm.runtime.arrays import Array
from ordbm.runtime.threads import share
from ordbm.training.blocks import LINK_CHUNKS

if TYPE_CHECKING:
    from ordbm.training.side_pass import SideTraining

_NOTHING = np.zeros(0, np.int32)


class Pass(NamedTuple):
    """What is the same for all blocks of one pass."""

    tables: Tables
    step: Step
    column_weight: Array  # (C,) for how many ratings those of a column count
    level_bias: Array
    level_velocity: Array
    scored: Array  # (N, n) what the other side says, or nothing
    epoch: int
    objective: Array  # of each chunk, or of each row if it is sampled
    n_ratings: int  # of all blocks of all workers

    def share(self, block: Block) -> Any:
        """Of all ratings, those in a block."""
        return self.level_bias.dtype.type(block.n_ratings / self.n_ratings)


def learn_block(side: SideTraining, now: Pass, number: int, team: Team) -> bool:
    """One thread's part of a block, by pseudo-likelihood. False if a thread is missing."""
    block, bounds, links = side.blocks[number], side.bounds[number], side.side.links
    work, (_, gradients, link_work, _) = side.row_work[team.thread], side.workspace
    rows_here = bounds.row[team.thread : team.thread + 2]
    if links.n_edges:
        fill_link_scores(
            *rows_here, block.row, block.row_shift, side.rows, links, side.parameters.link_weight,
            now.tables.pair, work, link_work.score,
        )  # fmt: skip
    if not (_fill_hidden(side, number, team) and _conditionals(side, now, number, team)):
        return False
    if links.n_edges:
        for chunk in range(*share(LINK_CHUNKS, team.thread, team.threads)):
            sum_link_residuals(
                *bounds.link_row[chunk : chunk + 2], block.row, block.row_shift, side.rows, links,
                now.tables.pair, link_work, work, gradients.link[chunk],
            )  # fmt: skip
    context = gradients.context
    if not sum_chunks(
        *share(len(block.row), team.thread, team.threads), gradients.chunk_context,
        len(block.chunk_column) - 1, context, team,
    ):  # fmt: skip
        return False
    if not _together(
        side, team, lambda: side.engine.add_rows(side.number, context[: len(block.row)])
    ):
        return False
    return _step(side, now, number, team, context, context[:0], context)


def contrast_block(side: SideTraining, now: Pass, number: int, team: Team) -> bool:
    """The same by samples."""
    assert isinstance(side.learner, ContrastiveDivergence)
    block, bounds, links = side.blocks[number], side.bounds[number], side.side.links
    work, (hidden, gradients, _, sample) = side.row_work[team.thread], side.workspace
    if not _fill_hidden(side, number, team):
        return False
    chain = side.learner.chain_length(now.epoch), side.seed, now.epoch
    sample_rows(
        *bounds.row[team.thread : team.thread + 2], block.row, block.row_slot, chain, side.rows,
        side.parameters, side.side.n_hidden, links, now.tables, now.level_bias, now.scored,
        side.score_of if now.scored.size else _NOTHING, hidden.on, gradients.context, sample, work,
        now.objective,
    )  # fmt: skip
    if not wait_for(team):
        return False
    fill_contrast(
        *bounds.column[team.thread : team.thread + 2], block.entries, side.rows.value,
        block.row_shift, hidden.on, gradients.context, sample, gradients,
    )  # fmt: skip
    if links.n_edges:
        for chunk in range(*share(LINK_CHUNKS, team.thread, team.threads)):
            sum_link_contrasts(
                *bounds.link_row[chunk : chunk + 2], block.row, block.row_shift, side.rows, links,
                now.tables.pair, sample, work, gradients.link[chunk],
            )  # fmt: skip
    if not wait_for(team):
        return False
    none = gradients.context[:0]
    return _step(side, now, number, team, hidden.on, gradients.context, none)


def _together(side: SideTraining, team: Team, sums: Callable[[], object]) -> bool:
    """Let one thread make the engine's `sums` while the others wait, if there is more than here."""
    if side.engine.is_whole:
        return True
    if not wait_for(team):
        return False
    if team.thread == 0:
        sums()
    return wait_for(team)


def _fill_hidden(side: SideTraining, number: int, team: Team) -> bool:
    """Hidden units of a block's rows, from what the ratings of each add to their inputs."""
    block, hidden = side.blocks[number], side.workspace.hidden
    n_chunks = len(block.chunk_column) - 1
    rows_here = side.bounds[number].row[team.thread : team.thread + 2]
    if not sum_inputs(
        *share(n_chunks, team.thread, team.threads), block.chunk_column, block.entries,
        side.rows.value, side.parameters.coupling, len(block.row), hidden.chunk_input, team,
    ):  # fmt: skip
        return False
    gather_inputs(*rows_here, n_chunks, hidden.chunk_input)
    inputs = hidden.chunk_input[0, : len(block.row)]
    if not _together(side, team, lambda: side.engine.add_rows(side.number, inputs)):
        return False
    return fill_hidden(*rows_here, side.parameters, side.side.n_hidden, hidden, team)


def _conditionals(side: SideTraining, now: Pass, number: int, team: Team) -> bool:
    """Gradients of log P(r_i | all other ratings), chunk by chunk of the block's columns."""
    assert isinstance(side.learner, PseudoLikelihood)
    block = side.blocks[number]
    hidden, gradients, link_work, _ = side.workspace
    exchanged = side.learner.other_side == "exact"
    chunks = share(len(block.chunk_column) - 1, team.thread, team.threads)
    objective = now.objective[side.objective_start[number] :]
    if side.rows.value.size:
        return gaussian_conditionals(
            *chunks, block.chunk_column, block.entries, side.rows.value, side.noise.precision,
            side.noise.residual, side.parameters, block.row_shift, hidden, link_work, now.scored,
            exchanged, now.level_bias, gradients, len(block.row), side.row_work[team.thread].sum,
            side.learner.leave_out, objective, team,
        )  # fmt: skip
    return level_conditionals(
        *chunks, block.chunk_column, block.entries, side.parameters, block.row_shift, hidden,
        link_work, now.scored, exchanged, now.level_bias, side.group, gradients, len(block.row),
        side.tiles[team.thread], objective, team,
    )  # fmt: skip


def _step(
    side: SideTraining, now: Pass, number: int, team: Team, plus: Array, minus: Array,
    context: Array,
) -> bool:  # fmt: skip
    """The last steps: those of what all columns share, of links, and of the columns."""
    block, own, gradients = side.blocks[number], side.parameters, side.workspace.gradients
    entries = block.entries
    columns_here = side.bounds[number].column[team.thread : team.thread + 2]
    if team.thread == 0:
        sum_shared(
            len(block.row), len(entries.column), plus, minus, gradients.bias,
            gradients.hidden_bias, gradients.level_bias,
        )  # fmt: skip
    if not side.engine.is_whole:
        if not gather_columns(*columns_here, entries, side.rows.value, context, gradients, team):
            return False
        context = context[:0]
        if not _together(side, team, lambda: _add_gradients(side, number)):
            return False
    if team.thread == 0:
        step_shared(
            block.n_rows, now.share(block), now.n_ratings, own, side.velocity,
            now.tables.bias_smoothing, now.level_bias, now.level_velocity, gradients.hidden_bias,
            gradients.level_bias, now.step,
        )  # fmt: skip
    if side.side.links.n_edges:
        step_links(
            *share(side.side.links.n_edges, team.thread, team.threads), gradients.link,
            now.share(block), block.n_rows, side.support, own.link_weight,
            side.velocity.link_weight, now.step,
        )  # fmt: skip
    return step_columns(
        *columns_here, entries, side.rows.value, context, side.column_count, now.column_weight,
        block.n_rows, own, side.velocity, now.tables, gradients, now.step, team,
    )  # fmt: skip


def _add_gradients(side: SideTraining, number: int) -> None:
    gradients, n_columns = side.workspace.gradients, len(side.blocks[number].entries.column)
    side.engine.add_shared(side.number, gradients.hidden_bias, gradients.level_bias, gradients.link)
    side.engine.add_columns(
        side.number, number, gradients.coupling[:n_columns], gradients.bias[:n_columns]
    )
