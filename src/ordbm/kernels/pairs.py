"""What one side says about the rating of any (row, column) pair, given the row's ratings."""

from numba import njit

from ordbm.kernels.hidden import add_mean_scores, add_softplus_scores, softplus
from ordbm.kernels.links import add_link_scores, mark_row
from ordbm.kernels.numerics import sigmoid, stream
from ordbm.kernels.options import INNER, KERNEL
from ordbm.kernels.sampling import draw_hidden

EXACT = 0  # hidden units summed out, the pair's own rating left out
MEAN = 1  # hidden units at their posterior means, the pair's own rating left out
MEAN_WITH_OWN = 2  # the same with the pair's own rating among the evidence, as in the paper
SAMPLE = 3  # hidden units drawn from their posterior, the own rating among the evidence


@njit(**INNER)
def rated_position(first, last, column, target):
    """Where a row rated `target`, or -1; its columns first..last are sorted."""
    end = last
    while first < last:
        middle = (first + last) // 2
        if column[middle] < target:
            first = middle + 1
        else:
            last = middle
    return first if first < end and column[first] == target else -1


@njit(**KERNEL)
def pair_scores(
    begin, end, row, column, hidden_input, rows, side, links, tables, how, seed, where, room, out,
):  # fmt: skip
    """out[p, s] = beta[i, s] + J(s) + what the hidden units say of level s, for pairs begin..end.

    `hidden_input` (R, d) is of the rows' own ratings. Row -1 has no ratings and column -1 no
    parameters. For a Gaussian machine out[p, 0] is the mean, and how = EXACT is taken as MEAN.
    `room` is (hidden (d,), input (d,), pull (B, n), found (most links,)).
    """
    hidden, x, pull, found = room
    d = side.hidden_bias.size
    gaussian = rows.value.size > 0
    current = -2
    for p in range(begin, end):
        score = out[p]
        score[:] = 0
        u = row[p]
        i = column[p]
        if i < 0:
            continue
        first = rows.start[u] if u >= 0 else 0
        last = rows.start[u + 1] if u >= 0 else 0
        if u != current:
            current = u
            if links.neighbour.size:
                mark_row(first, last, rows.column, where)
            if how >= MEAN_WITH_OWN:
                for k in range(d):
                    z = hidden_input[u, k] if u >= 0 else side.hidden_bias[k]
                    hidden[k] = sigmoid(z)
                if how == SAMPLE:
                    draw_hidden(stream(seed, 0, u + 1), hidden, hidden)
        if side.rating_bias.size:
            for s in range(score.size):
                score[s] += side.rating_bias[i, s]
        if links.neighbour.size:
            add_link_scores(
                i, where, first, last, 0, rows.level, rows.value, links, side.link_weight,
                tables.pair, found, pull, score,
            )  # fmt: skip
        weights = side.coupling[i]
        if how >= MEAN_WITH_OWN:
            add_mean_scores(hidden, weights, score)
            continue
        for k in range(d):
            x[k] = hidden_input[u, k] if u >= 0 else side.hidden_bias[k]
        own = rated_position(first, last, rows.column, i)
        if own >= 0:
            at_own = weights[rows.level[own]]
            amount = rows.value[own] if gaussian else x.dtype.type(1)
            for k in range(d):
                x[k] -= amount * at_own[k]
        if how == EXACT and not gaussian:
            add_softplus_scores(x, weights, score)
        else:
            for k in range(d):
                hidden[k] = sigmoid(x[k])
            add_mean_scores(hidden, weights, score)


@njit(**KERNEL)
def pair_densities(
    begin, end, row, column, hidden_input, rows, side, links, tables, grid, where, room, out,
):  # fmt: skip
    """out[p, g] += r (beta_i + J) + sum_k softplus(x_k + gamma_ik r) at r = grid[p, g] (A.2).

    A Gaussian machine's exact log density of the pair's rating, but for the shared -r^2/2.
    `room` is (input (d,), linear (1,), pull (B, 1), found (most links,)). The pair's own rating is
    left out.
    """
    x, linear, pull, found = room
    current = -2
    for p in range(begin, end):
        u = row[p]
        i = column[p]
        if i < 0:
            continue
        first = rows.start[u] if u >= 0 else 0
        last = rows.start[u + 1] if u >= 0 else 0
        if u != current:
            current = u
            if links.neighbour.size:
                mark_row(first, last, rows.column, where)
        linear[0] = side.rating_bias[i, 0] if side.rating_bias.size else 0
        if links.neighbour.size:
            add_link_scores(
                i, where, first, last, 0, rows.level, rows.value, links, side.link_weight,
                tables.pair, found, pull, linear,
            )  # fmt: skip
        weights = side.coupling[i, 0]
        own = rated_position(first, last, rows.column, i)
        amount = rows.value[own] if own >= 0 else x.dtype.type(0)
        for k in range(x.size):
            x[k] = hidden_input[u, k] if u >= 0 else side.hidden_bias[k]
            x[k] -= amount * weights[k]
        for g in range(grid.shape[1]):
            out[p, g] += grid[p, g] * linear[0] + softplus_line(x, weights, grid[p, g])


@njit(**INNER)
def softplus_line(x, weights, value):
    """sum_k log(1 + e^(x_k + w_k value))."""
    total = x.dtype.type(0)
    for k in range(x.size):
        total += softplus(x[k] + weights[k] * value)
    return total
