"""The gradient of a column over one block, and the step that follows it at once.

A column belongs to one thread, which sums its slots in their order: the result does not depend on
the number of threads. What is given a `team` ends when all of it have come so far (see `barrier`).
"""

from numba import njit

from ordbm.kernels.barrier import meet
from ordbm.kernels.options import INNER, KERNEL
from ordbm.kernels.unit_rows import add_context_rows, move_coupling


@njit(**INNER)
def add_scaled(amount, source, target):
    """target_k += amount source_k."""
    for k in range(source.size):
        target[k] += amount * source[k]


@njit(inline="always")
def step_size(step, precision, curvature, count, block_rows):
    """rate / (precision + curvature c + per_row R)."""
    scale = precision + curvature * count + step.per_row * block_rows
    return step.rate / scale if scale > 0 else step.rate * 0


@njit(inline="always")
def move_bias(w, v, gradient, mean, smoothing, pull, momentum, rate):
    """v = momentum v + K g - pull (w - mean);  w += rate v, for the (n,) bias of one column."""
    for s in range(w.size):
        v[s] = momentum * v[s] - pull * (w[s] - mean[s])
    for other in range(w.size):  # K is symmetric: level by level whole rows of it are added
        add_scaled(gradient[other], smoothing[other], v)
    for s in range(w.size):
        w[s] += rate * v[s]


@njit(**KERNEL)
def fill_contrast(first, last, entries, value, row_shift, on, sample_on, sample, gradients):
    """d W[s, k] = sum_u v_u [s = r_u] P(h_k | r_u) - v'_u [s = r'_u] P(h_k | r'_u) (section 2.2).

    Data minus sample, for columns first..last; `on` and `sample_on` (rows, d) are P(h | ..).
    """
    one = on.dtype.type(1)
    for place in range(first, last):
        coupling = gradients.coupling[place]
        bias = gradients.bias[place]
        coupling[:] = 0
        bias[:] = 0
        for q in range(entries.column_entry[place], entries.column_entry[place + 1]):
            r = entries.row[q]
            slot = entries.position[q] - row_shift[r]
            given = value[entries.position[q]] if value.size else one
            sampled = sample.value[slot] if value.size else one
            level = entries.level[q]
            sampled_level = sample.level[slot]
            bias[level] += given
            bias[sampled_level] -= sampled
            add_scaled(given, on[r], coupling[level])
            add_scaled(-sampled, sample_on[r], coupling[sampled_level])


@njit(**KERNEL)
def sum_chunks(first, last, chunk_context, n_chunks, context, team):
    """context (rows, d) is the sum of the chunks', for rows first..last."""
    one = context.dtype.type(1)
    for r in range(first, last):
        for k in range(context.shape[1]):
            context[r, k] = 0
        for chunk in range(n_chunks):
            add_scaled(one, chunk_context[chunk, r], context[r])
    return meet(team.barrier, team.threads)


@njit(**INNER)
def gather_column(place, entries, value, context, gradient):
    """gradient (G, d) of a column += what the other ratings of its rows ask, times its values."""
    begin = entries.column_entry[place]
    end = entries.column_entry[place + 1]
    if value.size:
        for q in range(begin, end):
            add_scaled(value[entries.position[q]], context[entries.row[q]], gradient[0])
    else:
        add_context_rows(entries.row[begin:end], entries.group[begin:end], context, gradient)


@njit(**KERNEL)
def gather_columns(first, last, entries, value, context, gradients, team):
    """`gather_column` of the block's columns first..last."""
    for place in range(first, last):
        gather_column(place, entries, value, context, gradients.coupling[place])
    return meet(team.barrier, team.threads)


@njit(**KERNEL)
def step_columns(
    first, last, entries, value, context, counts, weights, n_rows, side, velocity, tables,
    gradients, step, team,
):  # fmt: skip
    """v = momentum v + K g - pull (w - mean);  w += rate v, of the block's columns first..last.

    `context` (rows, d) is what the other ratings of a row ask of its hidden units: each entry adds
    it, times its value, to the gradient of its level's group. It is empty if that has been done.

    `counts` (C,) is how many ratings each column has; the prior pulls by the share that is here.
    `weights` (C,) is how many they count for, in the curvature.
    """
    for place in range(first, last):
        gradient = gradients.coupling[place]
        if context.size:
            gather_column(place, entries, value, context, gradient)
        column = entries.column[place]
        count = counts[column]
        share = side.hidden_bias.dtype.type(entries.width[place] / count)
        weight = weights[column]
        rate = step_size(step, step.coupling_precision, step.coupling_curvature, weight, n_rows)
        move_coupling(
            side.coupling[column], velocity.coupling[column], gradient,
            tables.coupling_mean[column if len(tables.coupling_mean) > 1 else 0], tables.smoothing,
            step.coupling_precision * share, step.momentum, rate,
        )  # fmt: skip
        if side.rating_bias.size:
            rate = step_size(step, step.bias_precision, step.bias_curvature, weight, n_rows)
            move_bias(
                side.rating_bias[column], velocity.rating_bias[column], gradients.bias[place],
                tables.bias_mean[column], tables.bias_smoothing, step.bias_precision * share,
                step.momentum, rate,
            )  # fmt: skip
    return meet(team.barrier, team.threads)


@njit(**KERNEL)
def sum_shared(n_rows, n_columns, plus, minus, bias_gradient, hidden_bias, level_bias):
    """Gradients of what all columns share: hidden biases (d,) and the level potential (n,).

    The former is the sum over rows of plus - minus, (rows, d), where `minus` may be empty; the
    latter that of the columns' `bias_gradient`.
    """
    one = plus.dtype.type(1)
    hidden_bias[:] = 0
    for r in range(n_rows):
        add_scaled(one, plus[r], hidden_bias)
        if minus.size:
            add_scaled(-one, minus[r], hidden_bias)
    level_bias[:] = 0
    for place in range(n_columns):
        add_scaled(one, bias_gradient[place], level_bias)


@njit(**KERNEL)
def step_shared(
    n_rows, share, count, side, velocity, bias_smoothing, level_bias, level_velocity,
    hidden_gradient, level_gradient, step,
):  # fmt: skip
    """Step of the parameters that all columns share: hidden biases and the level potential."""
    rate = step_size(step, step.hidden_precision, step.hidden_curvature, count, n_rows)
    pull = step.hidden_precision * share
    for k in range(hidden_gradient.size):
        velocity.hidden_bias[k] = (
            step.momentum * velocity.hidden_bias[k]
            + hidden_gradient[k]
            - pull * side.hidden_bias[k]
        )
        side.hidden_bias[k] += rate * velocity.hidden_bias[k]
    if level_velocity.size:
        none = level_bias.dtype.type(0)
        rate = step_size(step, none, step.bias_curvature, count, n_rows)
        move_bias(
            level_bias, level_velocity, level_gradient, level_bias, bias_smoothing, none,
            step.momentum, rate,
        )  # fmt: skip


@njit(**KERNEL)
def step_links(first, last, gradient, share, block_rows, support, weight, velocity, step):
    """Sum the chunks' gradients of the edges first..last, (chunks, E, B), and step."""
    pull = step.link_precision * share
    for e in range(first, last):
        rate = step_size(step, step.link_precision, step.link_curvature, support[e], block_rows)
        for b in range(weight.shape[1]):
            total = gradient[0, e, b]
            for chunk in range(1, gradient.shape[0]):
                total += gradient[chunk, e, b]
            velocity[e, b] = step.momentum * velocity[e, b] + total - pull * weight[e, b]
            weight[e, b] += rate * velocity[e, b]
