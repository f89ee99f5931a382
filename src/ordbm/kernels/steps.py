"""The gradient of a column over one block, and the step that follows it at once.

A column belongs to one thread, which sums its slots in their order: the result does not depend on
the number of threads.
"""

from numba import njit

from ordbm.kernels.links import add_residual_gradient, first_upper
from ordbm.kernels.options import KERNEL
from ordbm.kernels.vector import add_scaled


@njit(**KERNEL)
def step_size(step, precision, curvature, count, block_rows):
    """rate / (precision + curvature c + per_row R)."""
    scale = precision + curvature * count + step.per_row * block_rows
    return step.rate / scale if scale > 0 else step.rate * 0


@njit(**KERNEL)
def move_bias(w, v, gradient, smoothing, pull, momentum, rate):
    """v = momentum v + K g - pull w;  w += rate v, for the (n,) bias of one column."""
    for s in range(w.size):
        v[s] = momentum * v[s] - pull * w[s]
        for other in range(w.size):
            v[s] += smoothing[s, other] * gradient[other, 0]
    for s in range(w.size):
        w[s] += rate * v[s]


@njit(**KERNEL)
def add_context(entry, entry_row, rows, scratch, coupling):
    """d W[r_u] += v_u context_u for each of a column's entries: the rating as context of others."""
    one = coupling.dtype.type(1)
    for q in range(entry.size):
        amount = rows.value[entry[q]] if rows.value.size else one
        add_scaled(amount, scratch.context[entry_row[q]], coupling[rows.level[entry[q]]])


@njit(**KERNEL)
def contrastive_gradient(entry, entry_row, rows, scratch, coupling, bias):
    """Sum over a column's entries of data minus sample (section 2.2).

    d W[s, k] = sum_u v_u [s = r_u] P(h_k | r_u) - v'_u [s = r'_u] P(h_k | r'_u)
    """
    coupling[:] = 0
    bias[:] = 0
    one = coupling.dtype.type(1)
    for q in range(entry.size):
        position = entry[q]
        r = entry_row[q]
        slot = position - scratch.row_shift[r]
        value = rows.value[position] if rows.value.size else one
        sampled = scratch.sample_value[slot] if rows.value.size else one
        level = rows.level[position]
        sampled_level = scratch.sample_level[slot]
        bias[level, 0] += value
        bias[sampled_level, 0] -= sampled
        add_scaled(value, scratch.hidden_on[r], coupling[level])
        add_scaled(-sampled, scratch.context[r], coupling[sampled_level])


@njit(**KERNEL)
def step_links(
    column, entry, entry_row, block_row, rows, scratch, contrastive, links, support, tables,
    weight, velocity, step, room,
):  # fmt: skip
    """Gradient and step of the edges that `column` owns: those to columns above it."""
    upper = first_upper(column, links)
    size = links.start[column + 1] - upper
    n_features = weight.shape[1]
    gradient = room.link_gradient[:size]
    seen = room.link_seen[:size]
    gradient[:] = 0
    seen[:] = 0
    one = weight.dtype.type(1)
    for q in range(entry.size):
        r = entry_row[q]
        first = rows.start[block_row[r]]
        last = rows.start[block_row[r] + 1]
        shift = scratch.row_shift[r]
        where = scratch.where[r]
        position = entry[q]
        slot = position - shift
        level = rows.level[position]
        value = rows.value[position] if rows.value.size else one
        for edge in range(size):
            found = where[links.neighbour[upper + edge]]
            if first <= found < last:
                seen[edge] += 1
                other = found - shift
                other_value = rows.value[found] if rows.value.size else one
                if contrastive:
                    now = scratch.sample_value[slot] if rows.value.size else one
                    other_now = scratch.sample_value[other] if rows.value.size else one
                    for b in range(n_features):
                        pair = tables.pair[b]
                        data = pair[level, rows.level[found]] * value * other_value
                        gradient[edge, b] += (
                            data
                            - now
                            * other_now
                            * (pair[scratch.sample_level[slot], scratch.sample_level[other]])
                        )
                else:
                    add_residual_gradient(
                        scratch.residual[slot], scratch.residual[other], level, value,
                        rows.level[found], other_value, tables.pair, gradient[edge],
                    )  # fmt: skip
    for edge in range(size):
        if seen[edge]:
            e = links.edge[upper + edge]
            rate = step_size(
                step, step.link_precision, step.link_curvature, support[e], block_row.size
            )
            pull = step.link_precision * weight.dtype.type(seen[edge] / support[e])
            for b in range(n_features):
                velocity[e, b] = (
                    step.momentum * velocity[e, b] + gradient[edge, b] - pull * weight[e, b]
                )
                weight[e, b] += rate * velocity[e, b]


@njit(**KERNEL)
def add_link_support(start, column, links, where, support):
    """support[e] += how many rows rated both ends of edge e; `where` (C,) starts at -1."""
    for row in range(start.size - 1):
        for position in range(start[row], start[row + 1]):
            where[column[position]] = position
        for position in range(start[row], start[row + 1]):
            i = column[position]
            for place in range(first_upper(i, links), links.start[i + 1]):
                found = where[links.neighbour[place]]
                if start[row] <= found < start[row + 1]:
                    support[links.edge[place]] += 1
