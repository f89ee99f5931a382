"""One pass of learning over the blocks of a side.

A pass runs on every thread at once. For each block: the rows' hidden units; the conditionals of
their ratings (pseudo-likelihood) or samples of them (contrastive divergence); sums over the rows;
then a step of every column that the block touches. The threads meet between these phases and split
each one by whole rows, columns or chunks of columns, so results are the same for any number of
threads.

What a machine does not use is None (`sample`, `leave_out`), and Numba then leaves the branches that
would use it out: only the machine at hand is compiled.
"""

from numba import njit

from ordbm.kernels.barrier import meet
from ordbm.kernels.conditional import gaussian_conditionals, level_conditionals
from ordbm.kernels.hidden import row_input
from ordbm.kernels.links import add_link_gradient, add_link_scores, mark_row
from ordbm.kernels.numerics import sigmoid, stream
from ordbm.kernels.options import INNER, KERNEL
from ordbm.kernels.sampling import gibbs_row
from ordbm.kernels.steps import (
    add_context,
    contrastive_gradient,
    move_bias,
    step_links,
    step_size,
)
from ordbm.kernels.structures import Entries
from ordbm.kernels.vector import add_scaled, move_coupling

LINK_CHUNKS = 8  # tables of link gradients that a block sums; fixed, so that sums are too
_SURE = 60.0  # the largest |x_k| that makes a difference in float32


@njit(**INNER)
def share_begin(starts, total, part, parts):
    """The first place whose start is in the `part`-th of `parts` equal shares of `total`."""
    first = 0
    last = starts.size
    if part == parts:
        return last
    target = total * part // parts
    while first < last:
        middle = (first + last) // 2
        if starts[middle] < target:
            first = middle + 1
        else:
            last = middle
    return first


@njit(**INNER, inline="always")
def fill_hidden(begin, stop, row, row_slot, rows, side, n_hidden, row_shift, hidden, work):
    """P(h_k = 1 | r) of the block's rows from begin to stop; padding units are never on."""
    steepest = side.hidden_bias.dtype.type(_SURE if side.hidden_bias.itemsize == 4 else 10 * _SURE)
    for r in range(begin, stop):
        first = rows.start[row[r]]
        row_shift[r] = first - row_slot[r]
        x = hidden.input[r]
        row_input(
            first, rows.start[row[r] + 1], rows.column, rows.level, rows.value, side.hidden_bias,
            side.coupling, work.total, x,
        )  # fmt: skip
        on = hidden.on[r]
        off = hidden.off[r]
        for k in range(x.size):
            # Beyond this a unit is as good as fixed, and what it asks would be denormal, so slow.
            z = min(max(x[k], -steepest), steepest)
            on[k] = sigmoid(z)
            off[k] = sigmoid(-z)
        for k in range(n_hidden, x.size):
            on[k] = 0
            off[k] = 1


@njit(**INNER, inline="always")
def fill_link_scores(begin, stop, row, rows, row_shift, links, link_weight, pair, score, work):
    """J(s) of every rating of the block's rows from begin to stop, into score (slots, n)."""
    for r in range(begin, stop):
        first = rows.start[row[r]]
        last = rows.start[row[r] + 1]
        mark_row(first, last, rows.column, work.where)
        for position in range(first, last):
            out = score[position - row_shift[r]]
            out[:] = 0
            add_link_scores(
                rows.column[position], work.where, first, last, 0, rows.level, rows.value, links,
                link_weight, pair, work.found, work.pull, out,
            )  # fmt: skip


@njit(**INNER)
def step_shared(
    n_rows, n_columns, share, count, side, velocity, bias_smoothing, level_bias, level_velocity,
    on, gradients, step, sample, work,
):  # fmt: skip
    """Step of the parameters that all columns share: hidden biases and the level potential."""
    one = level_bias.dtype.type(1)
    gradient = work.sum
    gradient[:] = 0
    for r in range(n_rows):
        if sample is None:
            add_scaled(one, gradients.context[r], gradient)
        else:
            add_scaled(one, on[r], gradient)
            add_scaled(-one, gradients.context[r], gradient)
    rate = step_size(step, step.hidden_precision, step.hidden_curvature, count, n_rows)
    pull = step.hidden_precision * share
    for k in range(gradient.size):
        velocity.hidden_bias[k] = (
            step.momentum * velocity.hidden_bias[k] + gradient[k] - pull * side.hidden_bias[k]
        )
        side.hidden_bias[k] += rate * velocity.hidden_bias[k]
    if level_velocity.size:
        total = work.level_gradient
        total[:] = 0
        for place in range(n_columns):
            for s in range(level_bias.size):
                total[s, 0] += gradients.bias[place, s, 0]
        none = level_bias.dtype.type(0)
        rate = step_size(step, none, step.bias_curvature, count, n_rows)
        move_bias(
            level_bias, level_velocity, total, level_bias, bias_smoothing, none, step.momentum, rate
        )


@njit(**INNER, inline="always")
def step_column(column, entries, count, n_rows, side, velocity, tables, step, coupling, bias):
    """Step of one column by its gradients, `coupling` (n, d) and `bias` (n, 1)."""
    share = side.hidden_bias.dtype.type(entries / count)
    rate = step_size(step, step.coupling_precision, step.coupling_curvature, count, n_rows)
    move_coupling(
        side.coupling[column], velocity.coupling[column], coupling,
        tables.coupling_mean[column if len(tables.coupling_mean) > 1 else 0], tables.smoothing,
        step.coupling_precision * share, step.momentum, rate,
    )  # fmt: skip
    if side.rating_bias.size:
        rate = step_size(step, step.bias_precision, step.bias_curvature, count, n_rows)
        move_bias(
            side.rating_bias[column], velocity.rating_bias[column], bias, tables.bias_mean[column],
            tables.bias_smoothing, step.bias_precision * share, step.momentum, rate,
        )  # fmt: skip


@njit(**KERNEL)
def learn_blocks(
    team, order, plan, rows, counts, side, n_hidden, velocity, links, tables, level_bias,
    level_velocity, scores, workspace, tile, work, objective, step, leave_out, sample, chain,
):  # fmt: skip
    """One step of every column of each block in `order`, along the gradient of an objective.

    Pseudo-likelihood, sum_i log P(r_i | all other ratings) (A.1, A.2), without a `sample`: on a
    discrete scale if `leave_out` is None. `objective` (chunks in all,) receives each chunk's part.

    Contrastive divergence, data minus the reconstruction of a Gibbs chain (section 2.2), with a
    `sample` to draw into and `chain` = (steps, seed, epoch). `objective` (rows,) receives
    log P(observed ratings | one draw of the hidden units).

    `counts` is (ratings of each column, rows that rated both ends of each link); `scores` is what
    this side is to keep for the other, and what that one has kept.
    """
    thread, threads, barrier = team
    column_count, support = counts
    row_shift, hidden, gradients, link_work = workspace
    linked = links.neighbour.size > 0
    count = rows.column.size
    one = level_bias.dtype.type(1)
    for block in order:
        row = plan.row[plan.first_row[block] : plan.first_row[block + 1]]
        row_slot = plan.row_slot[plan.first_row[block] : plan.first_row[block + 1]]
        columns = plan.column[plan.first_column[block] : plan.first_column[block + 1]]
        column_entry = plan.column_entry[plan.first_column[block] : plan.first_column[block + 1]]
        first_entry = plan.first_entry[block]
        last_entry = plan.first_entry[block + 1]
        entries = Entries(
            plan.entry_row[first_entry:last_entry],
            plan.entry_level[first_entry:last_entry],
            plan.entry_position[first_entry:last_entry],
            plan.entry_in_transpose[first_entry:last_entry],
        )
        n_rows = row.size
        n_entries = last_entry - first_entry
        share = level_bias.dtype.type(n_entries / count)
        first_row = share_begin(row_slot, n_entries, thread, threads)
        last_row = share_begin(row_slot, n_entries, thread + 1, threads)
        first_place = share_begin(column_entry, n_entries, thread, threads)
        last_place = share_begin(column_entry, n_entries, thread + 1, threads)

        fill_hidden(
            first_row, last_row, row, row_slot, rows, side, n_hidden, row_shift, hidden, work
        )
        if linked and sample is None:
            fill_link_scores(
                first_row, last_row, row, rows, row_shift, links, side.link_weight, tables.pair,
                link_work.score, work,
            )  # fmt: skip
        meet(barrier, threads)

        if sample is None:
            chunk_column = plan.chunk_column[plan.first_chunk[block] : plan.first_chunk[block + 1]]
            n_chunks = chunk_column.size
            for chunk in range(n_chunks * thread // threads, n_chunks * (thread + 1) // threads):
                context = gradients.chunk_context[chunk, :n_rows]
                context[:] = 0
                last = chunk_column[chunk + 1] if chunk + 1 < n_chunks else columns.size
                if leave_out is None:
                    found = level_conditionals(
                        columns, column_entry, chunk_column[chunk], last, entries, side, row_shift,
                        hidden, link_work, scores, level_bias, gradients.coupling, gradients.bias,
                        context, tile,
                    )  # fmt: skip
                else:
                    found = gaussian_conditionals(
                        columns, column_entry, chunk_column[chunk], last, entries, rows.value, side,
                        row_shift, hidden, link_work, scores, level_bias, gradients.coupling,
                        gradients.bias, context, work, leave_out,
                    )  # fmt: skip
                objective[plan.first_chunk[block] + chunk] = found
        else:
            steps, seed, epoch = chain
            for r in range(first_row, last_row):
                first = rows.start[row[r]]
                last = rows.start[row[r] + 1]
                if linked:
                    mark_row(first, last, rows.column, work.where)
                slots = slice(row_slot[r], row_slot[r] + last - first)
                _, objective[row[r]] = gibbs_row(
                    stream(seed, epoch, row[r]), steps, hidden.on[r], first, last, work.where,
                    rows, side, links, tables, level_bias, scores[1], sample.level[slots],
                    sample.value[slots], gradients.context[r], work,
                )  # fmt: skip
                gradients.context[r, n_hidden:] = 0
        meet(barrier, threads)

        if sample is None:
            for r in range(n_rows * thread // threads, n_rows * (thread + 1) // threads):
                whole = gradients.context[r]
                whole[:] = 0
                for chunk in range(plan.first_chunk[block + 1] - plan.first_chunk[block]):
                    add_scaled(one, gradients.chunk_context[chunk, r], whole)
        if linked:  # each chunk of the block's rows in a table of its own
            for chunk in range(
                LINK_CHUNKS * thread // threads, LINK_CHUNKS * (thread + 1) // threads
            ):
                gradient = gradients.link[chunk]
                gradient[:] = 0
                for r in range(
                    share_begin(row_slot, n_entries, chunk, LINK_CHUNKS),
                    share_begin(row_slot, n_entries, chunk + 1, LINK_CHUNKS),
                ):
                    add_link_gradient(
                        rows.start[row[r]], rows.start[row[r] + 1], row_shift[r], rows, links,
                        tables.pair, link_work, sample, work, gradient,
                    )  # fmt: skip
        meet(barrier, threads)

        for place in range(first_place, last_place):
            first = column_entry[place]
            last = column_entry[place + 1] if place + 1 < columns.size else n_entries
            of_column = Entries(
                entries.row[first:last],
                entries.level[first:last],
                entries.position[first:last],
                entries.in_transpose[first:last],
            )
            if sample is None:
                add_context(of_column, rows.value, gradients.context, gradients.coupling[place])
            else:
                contrastive_gradient(
                    of_column, rows.value, row_shift, hidden.on, gradients.context, sample,
                    gradients.coupling[place], gradients.bias[place],
                )  # fmt: skip
            step_column(
                columns[place], last - first, column_count[columns[place]], n_rows, side, velocity,
                tables, step, gradients.coupling[place], gradients.bias[place],
            )  # fmt: skip
        if linked:
            step_links(
                support.size * thread // threads, support.size * (thread + 1) // threads,
                gradients.link, share, n_rows, support, side.link_weight, velocity.link_weight,
                step,
            )  # fmt: skip
        if sample is not None:
            meet(barrier, threads)  # the level potential's gradient is of all columns
        if thread == 0:
            step_shared(
                n_rows, columns.size, share, count, side, velocity, tables.bias_smoothing,
                level_bias, level_velocity, hidden.on, gradients, step, sample, work,
            )  # fmt: skip
        meet(barrier, threads)
