"""One pass of learning over the blocks of a side.

A pass runs on every thread at once. For each block: the rows' hidden units; the conditionals of
their ratings (pseudo-likelihood) or samples of them (contrastive divergence); sums over the rows;
then a step of every column that the block touches. The threads meet between these phases and split
each one by whole rows, columns or chunks of columns, so results are the same for any number of
threads.
"""

from numba import njit

from ordbm.kernels.barrier import meet
from ordbm.kernels.conditional import gaussian_conditionals, level_conditionals
from ordbm.kernels.hidden import row_input
from ordbm.kernels.links import add_link_gradient, add_link_scores, mark_row
from ordbm.kernels.numerics import sigmoid, stream
from ordbm.kernels.options import KERNEL
from ordbm.kernels.sampling import gibbs_row
from ordbm.kernels.steps import (
    add_context,
    contrastive_gradient,
    move_bias,
    step_links,
    step_size,
)
from ordbm.kernels.vector import add_scaled, move_coupling

LINK_CHUNKS = 8  # tables of link gradients that a block sums; fixed, so that sums are too
_SURE = 60.0  # the largest |x_k| that makes a difference in float32


@njit(**KERNEL)
def share_begin(starts, first, last, total, thread, threads):
    """The first of the entries first..last whose start is in this thread's share of `total`."""
    if thread == threads:
        return last
    target = total * thread // threads
    while first < last:
        middle = (first + last) // 2
        if starts[middle] < target:
            first = middle + 1
        else:
            last = middle
    return first


@njit(**KERNEL)
def fill_rows(thread, threads, block, plan, rows, side, n_hidden, links, tables, scratch, room):
    """Phase 1: hidden units and link scores of the block's rows; padding units are never on."""
    steepest = side.hidden_bias.dtype.type(_SURE if side.hidden_bias.itemsize == 4 else 10 * _SURE)
    base = plan.first_row[block]
    end = plan.first_row[block + 1]
    entries = plan.first_entry[block + 1] - plan.first_entry[block]
    begin = share_begin(plan.row_slot, base, end, entries, thread, threads)
    stop = share_begin(plan.row_slot, base, end, entries, thread + 1, threads)
    for place in range(begin, stop):
        r = place - base
        row = plan.row[place]
        first = rows.start[row]
        last = rows.start[row + 1]
        x = scratch.hidden_input[r]
        row_input(
            first, last, rows.column, rows.level, rows.value, side.hidden_bias, side.coupling,
            room.total, x,
        )  # fmt: skip
        on = scratch.hidden_on[r]
        off = scratch.hidden_off[r]
        for k in range(x.size):
            # Beyond this a unit is as good as fixed, and what it asks would be denormal, so slow.
            z = min(max(x[k], -steepest), steepest)
            on[k] = sigmoid(z)
            off[k] = sigmoid(-z)
        for k in range(n_hidden, x.size):
            on[k] = 0
            off[k] = 1
        scratch.row_shift[r] = first - plan.row_slot[place]
        if scratch.link_score.shape[0]:
            mark_row(first, last, rows.column, room.where)
            for position in range(first, last):
                score = scratch.link_score[position - scratch.row_shift[r]]
                score[:] = 0
                add_link_scores(
                    rows.column[position], room.where, first, last, 0, rows.level, rows.value,
                    links, side.link_weight, tables.pair, room.found, room.pull, score,
                )  # fmt: skip


@njit(**KERNEL)
def step_shared(
    block, plan, count, side, velocity, tables, level_bias, level_velocity, scratch, step,
    contrastive, room,
):  # fmt: skip
    """Step of the parameters that all columns share: hidden biases and the level potential."""
    n_rows = plan.first_row[block + 1] - plan.first_row[block]
    n_entries = plan.first_entry[block + 1] - plan.first_entry[block]
    n_columns = plan.first_column[block + 1] - plan.first_column[block]
    one = level_bias.dtype.type(1)
    gradient = room.asked
    gradient[:] = 0
    for r in range(n_rows):
        if contrastive:
            add_scaled(one, scratch.hidden_on[r], gradient)
            add_scaled(-one, scratch.context[r], gradient)
        else:
            add_scaled(one, scratch.context[r], gradient)
    rate = step_size(step, step.hidden_precision, step.hidden_curvature, count, n_rows)
    pull = step.hidden_precision * level_bias.dtype.type(n_entries / count)
    for k in range(gradient.size):
        velocity.hidden_bias[k] = (
            step.momentum * velocity.hidden_bias[k] + gradient[k] - pull * side.hidden_bias[k]
        )
        side.hidden_bias[k] += rate * velocity.hidden_bias[k]
    if level_velocity.size:
        total = room.level_gradient
        total[:] = 0
        for place in range(n_columns):
            for s in range(level_bias.size):
                total[s, 0] += scratch.bias_gradient[place, s, 0]
        rate = step_size(step, level_bias.dtype.type(0), step.bias_curvature, count, n_rows)
        move_bias(
            level_bias, level_velocity, total, level_bias, tables.bias_smoothing,
            level_bias.dtype.type(0), step.momentum, rate,
        )  # fmt: skip


@njit(**KERNEL)
def step_columns(
    thread, threads, block, plan, rows, column_count, side, velocity, links, support, tables,
    scratch, step, contrastive, room,
):  # fmt: skip
    """The last phase: gradient and step of the columns that the block touches."""
    base = plan.first_column[block]
    end = plan.first_column[block + 1]
    first_entry = plan.first_entry[block]
    entries = plan.first_entry[block + 1] - first_entry
    block_row = plan.row[plan.first_row[block] : plan.first_row[block + 1]]
    begin = share_begin(plan.column_entry, base, end, entries, thread, threads)
    stop = share_begin(plan.column_entry, base, end, entries, thread + 1, threads)
    for place in range(begin, stop):
        column = plan.column[place]
        first = first_entry + plan.column_entry[place]
        last = first_entry + (plan.column_entry[place + 1] if place + 1 < end else entries)
        entry = plan.entry_position[first:last]
        entry_row = plan.entry_row[first:last]
        coupling_gradient = scratch.coupling_gradient[place - base]
        bias_gradient = scratch.bias_gradient[place - base]
        if not contrastive:
            add_context(
                entry, entry_row, plan.entry_level[first:last], rows, scratch, coupling_gradient
            )
        count = column_count[column]
        share = side.hidden_bias.dtype.type((last - first) / count)
        rate = step_size(
            step, step.coupling_precision, step.coupling_curvature, count, block_row.size
        )
        move_coupling(
            side.coupling[column], velocity.coupling[column], coupling_gradient,
            tables.coupling_mean[column if len(tables.coupling_mean) > 1 else 0], tables.smoothing,
            step.coupling_precision * share, step.momentum, rate,
        )  # fmt: skip
        if side.rating_bias.size:
            rate = step_size(step, step.bias_precision, step.bias_curvature, count, block_row.size)
            move_bias(
                side.rating_bias[column], velocity.rating_bias[column], bias_gradient,
                tables.bias_mean[column], tables.bias_smoothing, step.bias_precision * share,
                step.momentum, rate,
            )  # fmt: skip
    if links.neighbour.size:
        n_edges = support.size
        step_links(
            n_edges * thread // threads, n_edges * (thread + 1) // threads, scratch.link_gradient,
            side.link_weight.dtype.type(entries / rows.column.size), block_row.size, support,
            side.link_weight, velocity.link_weight, step,
        )  # fmt: skip


@njit(**KERNEL)
def sum_link_gradients(
    thread, threads, block, plan, rows, links, tables, scratch, contrastive, room
):
    """Gradients of all edges, each chunk of the block's rows in a table of its own."""
    base = plan.first_row[block]
    end = plan.first_row[block + 1]
    entries = plan.first_entry[block + 1] - plan.first_entry[block]
    first_chunk = LINK_CHUNKS * thread // threads
    for chunk in range(first_chunk, LINK_CHUNKS * (thread + 1) // threads):
        gradient = scratch.link_gradient[chunk]
        gradient[:] = 0
        begin = share_begin(plan.row_slot, base, end, entries, chunk, LINK_CHUNKS)
        stop = share_begin(plan.row_slot, base, end, entries, chunk + 1, LINK_CHUNKS)
        for place in range(begin, stop):
            row = plan.row[place]
            add_link_gradient(
                rows.start[row], rows.start[row + 1], scratch.row_shift[place - base], rows, links,
                tables.pair, scratch, contrastive, room, gradient,
            )  # fmt: skip


@njit(**KERNEL)
def pseudo_likelihood_pass(
    thread, threads, room, barrier, order, plan, rows, column_count, side, n_hidden, velocity,
    links, support, tables, level_bias, level_velocity, other_scores, own_scores, scratch,
    chunk_objective, step, leave_out,
):  # fmt: skip
    """Maximise sum_i log P(r_i | all other ratings) over the blocks in `order` (A.1, A.2).

    `chunk_objective` (chunks in all,) receives each chunk's part of the objective.
    """
    one = level_bias.dtype.type(1)
    for block in order:
        fill_rows(thread, threads, block, plan, rows, side, n_hidden, links, tables, scratch, room)
        meet(barrier, threads)
        n_rows = plan.first_row[block + 1] - plan.first_row[block]
        n_columns = plan.first_column[block + 1] - plan.first_column[block]
        first_chunk = plan.first_chunk[block]
        n_chunks = plan.first_chunk[block + 1] - first_chunk
        for chunk in range(n_chunks * thread // threads, n_chunks * (thread + 1) // threads):
            context = scratch.chunk_context[chunk, :n_rows]
            context[:] = 0
            first = plan.chunk_column[first_chunk + chunk]
            last = plan.chunk_column[first_chunk + chunk + 1] if chunk + 1 < n_chunks else n_columns
            if rows.value.size:
                chunk_objective[first_chunk + chunk] = gaussian_conditionals(
                    block, first, last, plan, rows, side, links, tables, level_bias, other_scores,
                    own_scores, scratch, context, room, leave_out,
                )  # fmt: skip
            else:
                chunk_objective[first_chunk + chunk] = level_conditionals(
                    block, first, last, plan, rows, side, links, tables, level_bias, other_scores,
                    own_scores, scratch, context, room,
                )  # fmt: skip
        meet(barrier, threads)
        for r in range(n_rows * thread // threads, n_rows * (thread + 1) // threads):
            whole = scratch.context[r]
            whole[:] = 0
            for chunk in range(n_chunks):
                add_scaled(one, scratch.chunk_context[chunk, r], whole)
        if links.neighbour.size:
            sum_link_gradients(
                thread, threads, block, plan, rows, links, tables, scratch, False, room
            )
        meet(barrier, threads)
        if thread == 0:
            step_shared(
                block, plan, rows.column.size, side, velocity, tables, level_bias, level_velocity,
                scratch, step, False, room,
            )  # fmt: skip
        step_columns(
            thread, threads, block, plan, rows, column_count, side, velocity, links, support,
            tables, scratch, step, False, room,
        )  # fmt: skip
        meet(barrier, threads)


@njit(**KERNEL)
def contrastive_divergence_pass(
    thread, threads, room, barrier, order, plan, rows, column_count, side, n_hidden, velocity,
    links, support, tables, level_bias, level_velocity, other_scores, scratch, row_objective,
    step, steps, seed, epoch,
):  # fmt: skip
    """Follow data minus `steps`-step reconstruction over the blocks in `order` (section 2.2).

    `row_objective` (rows,) receives log P(observed ratings | one draw of the hidden units).
    """
    for block in order:
        fill_rows(thread, threads, block, plan, rows, side, n_hidden, links, tables, scratch, room)
        meet(barrier, threads)
        base = plan.first_row[block]
        end = plan.first_row[block + 1]
        entries = plan.first_entry[block + 1] - plan.first_entry[block]
        begin = share_begin(plan.row_slot, base, end, entries, thread, threads)
        stop = share_begin(plan.row_slot, base, end, entries, thread + 1, threads)
        for place in range(begin, stop):
            r = place - base
            row = plan.row[place]
            first = rows.start[row]
            last = rows.start[row + 1]
            slot = plan.row_slot[place]
            level = scratch.sample_level[slot : slot + last - first]
            value = scratch.sample_value[slot : slot + (last - first if rows.value.size else 0)]
            if links.neighbour.size:
                mark_row(first, last, rows.column, room.where)
            _, row_objective[row] = gibbs_row(
                stream(seed, epoch, row), steps, scratch.hidden_on[r], first, last,
                room.where, rows, side, links, tables,
                level_bias, other_scores, level, value, scratch.context[r], room,
            )  # fmt: skip
            for k in range(n_hidden, side.hidden_bias.size):
                scratch.context[r, k] = 0
        meet(barrier, threads)
        begin = share_begin(
            plan.column_entry, plan.first_column[block], plan.first_column[block + 1], entries,
            thread, threads,
        )  # fmt: skip
        stop = share_begin(
            plan.column_entry, plan.first_column[block], plan.first_column[block + 1], entries,
            thread + 1, threads,
        )  # fmt: skip
        first_entry = plan.first_entry[block]
        for place in range(begin, stop):
            first = first_entry + plan.column_entry[place]
            last = plan.first_entry[block + 1]
            if place + 1 < plan.first_column[block + 1]:
                last = first_entry + plan.column_entry[place + 1]
            contrastive_gradient(
                plan.entry_position[first:last], plan.entry_row[first:last], rows, scratch,
                scratch.coupling_gradient[place - plan.first_column[block]],
                scratch.bias_gradient[place - plan.first_column[block]],
            )  # fmt: skip
        if links.neighbour.size:
            sum_link_gradients(
                thread, threads, block, plan, rows, links, tables, scratch, True, room
            )
        meet(barrier, threads)
        if thread == 0:
            step_shared(
                block, plan, rows.column.size, side, velocity, tables, level_bias, level_velocity,
                scratch, step, True, room,
            )  # fmt: skip
        step_columns(
            thread, threads, block, plan, rows, column_count, side, velocity, links, support,
            tables, scratch, step, True, room,
        )  # fmt: skip
        meet(barrier, threads)
