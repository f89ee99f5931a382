"""The gradient of a column over one block, and the step that follows it at once.

A column belongs to one thread, which sums its slots in their order: the result does not depend on
the number of threads.
"""

from numba import njit

from ordbm.kernels.options import INNER
from ordbm.kernels.vector import add_context_rows, add_scaled


@njit(**INNER, inline="always")
def step_size(step, precision, curvature, count, block_rows):
    """rate / (precision + curvature c + per_row R)."""
    scale = precision + curvature * count + step.per_row * block_rows
    return step.rate / scale if scale > 0 else step.rate * 0


@njit(**INNER)
def move_bias(w, v, gradient, mean, smoothing, pull, momentum, rate):
    """v = momentum v + K g - pull (w - mean);  w += rate v, for the (n,) bias of one column."""
    for s in range(w.size):
        v[s] = momentum * v[s] - pull * (w[s] - mean[s])
        for other in range(w.size):
            v[s] += smoothing[s, other] * gradient[other, 0]
    for s in range(w.size):
        w[s] += rate * v[s]


@njit(**INNER, inline="always")
def add_context(entries, value, context, coupling):
    """d W[r_u] += v_u context_u for each of a column's entries: the rating as context of others."""
    if value.size:
        for q in range(entries.row.size):
            add_scaled(value[entries.position[q]], context[entries.row[q]], coupling[0])
    else:
        add_context_rows(entries.row, entries.level, context, coupling)


@njit(**INNER)
def contrastive_gradient(entries, value, row_shift, on, sample_on, sample, coupling, bias):
    """d W[s, k] = sum_u v_u [s = r_u] P(h_k | r_u) - v'_u [s = r'_u] P(h_k | r'_u) (section 2.2).

    Sum over a column's entries of data minus sample; `on` and `sample_on` (rows, d) are P(h | ..).
    """
    coupling[:] = 0
    bias[:] = 0
    one = coupling.dtype.type(1)
    for q in range(entries.row.size):
        position = entries.position[q]
        r = entries.row[q]
        slot = position - row_shift[r]
        given = value[position] if value.size else one
        sampled = sample.value[slot] if value.size else one
        level = entries.level[q]
        sampled_level = sample.level[slot]
        bias[level, 0] += given
        bias[sampled_level, 0] -= sampled
        add_scaled(given, on[r], coupling[level])
        add_scaled(-sampled, sample_on[r], coupling[sampled_level])


@njit(**INNER, inline="always")
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
