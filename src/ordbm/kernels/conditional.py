"""P(r_i | all other ratings) of the ratings in chunks of columns, and their gradient.

A chunk c has the block's columns chunk_column[c] to chunk_column[c + 1]. Both functions sum, over
the entries of these, the gradient of the column's coupling and bias, and in the chunk's `context`
(rows, d) what the ratings ask of their rows' hidden units. `scored`, if it has rows, is what the
other side says of each rating; if `exchanged`, what this side says of it is left there instead.

The hidden units are summed out by ratios. With p = P(h_k = 1 | r) of the row, level s instead of
the observed level r multiplies the row's weight by

    prod_k (1 - p_k) + p_k e^(W[i, s, k] - W[i, r, k])

and P(h_k = 1 | s, others) is the second term's share. The exponentials belong to a column, not to a
rating, and no term can cancel. Levels of one group have one coupling, so one ratio.
"""

import math

from numba import njit

from ordbm.kernels.barrier import meet
from ordbm.kernels.numerics import fast_exp, sigmoid
from ordbm.kernels.options import INNER, KERNEL
from ordbm.kernels.stages import (
    add_levels,
    exchange_levels,
    level_residual,
    level_terms,
    log_products,
    spread_residual,
    store_levels,
)
from ordbm.kernels.structures import LEVELS

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
TILE = 16  # ratings of a column taken through each stage together
_STEEPEST = 43.0  # |W| beyond this is cut, so that e^W e^-W' stays a float32
_NOWHERE = -1e30  # the potential of levels that only fill a vector


@njit(**INNER)
def log_ratio(on, off, level, own):
    """sum_k log(off_k + on_k e^(W_sk - W_rk)), for products out of range."""
    total = 0.0
    for k in range(on.size):
        total += math.log(off[k] + on[k] * math.exp(level[k] - own[k]))
    return total


@njit(**INNER)
def fill_level_exp(weights, up, down):
    """up = e^W and down = e^-W of one column, (G, d) each."""
    steepest = weights.dtype.type(_STEEPEST)
    one = weights.dtype.type(1)
    for s in range(weights.shape[0]):
        for k in range(weights.shape[1]):
            up[s, k] = fast_exp(min(max(weights[s, k], -steepest), steepest))
            down[s, k] = one / up[s, k]


@njit(**INNER)
def spread_groups(by_group, group, scores):
    """scores[t, s] = by_group[t, group of s]."""
    for t in range(scores.shape[0]):
        for s in range(group.size):
            scores[t, s] = by_group[t, group[s]]


@njit(**INNER)
def sum_groups(scores, group, by_group):
    """by_group[t, g] = the sum of scores[t, s] over levels s of group g."""
    for t in range(scores.shape[0]):
        for g in range(by_group.shape[1]):
            by_group[t, g] = 0
        for s in range(group.size):
            by_group[t, group[s]] += scores[t, s]


@njit(**KERNEL)
def level_conditionals(
    first_chunk, last_chunk, chunk_column, entries, side, row_shift, hidden, link_work, scored,
    exchanged, level_bias, level_group, gradients, n_rows, tile, objective, team,
):  # fmt: skip
    """log P(s) = b[s] + beta[i, s] + J(s) + other(s) + sum_k log(ratio to level r) - log Z (A.1).

    Discrete ratings, exactly; each chunk's log pseudo-likelihood goes to objective[chunk].
    `level_group` (n,) has each level's group, and nothing if every level is one.
    """
    n = level_bias.size
    bias = tile.level_bias
    for s in range(bias.size):
        bias[s] = level_bias[s] if s < n else _NOWHERE
    for chunk in range(first_chunk, last_chunk):
        context = gradients.chunk_context[chunk]
        for r in range(n_rows):
            for k in range(context.shape[1]):
                context[r, k] = 0
        total_log = 0.0
        for place in range(chunk_column[chunk], chunk_column[chunk + 1]):
            column = entries.column[place]
            weights = side.coupling[column]
            gradient = gradients.coupling[place]
            for s in range(tile.bias_gradient.size):
                tile.bias_gradient[s] = 0
            for g in range(gradient.shape[0]):
                for k in range(gradient.shape[1]):
                    gradient[g, k] = 0
            fill_level_exp(weights, tile.up, tile.down)
            for t in range(TILE):
                tile.column[t] = column
            end = entries.column_entry[place + 1]
            for begin in range(entries.column_entry[place], end, TILE):
                # Each stage is a loop of its own: the processor overlaps ratings of a short loop.
                count = min(TILE, end - begin)
                even = count + count % 2
                row = entries.row[begin : begin + count]
                level = entries.level[begin : begin + count]
                group = entries.group[begin : begin + count]
                slot = tile.slot[:count]
                at_score = tile.score[:count]
                scores = tile.scores[:count]
                by_group = tile.by_group[:count]
                mean = tile.mean[:count]
                level_terms(
                    row, group, hidden.on, hidden.off, tile.down, tile.up, mean,
                    tile.product[:count],
                )  # fmt: skip
                if not log_products(tile.product[:even], tile.by_group[:even], tile.safe[:even]):
                    for t in range(count):
                        for g in range(gradient.shape[0]):
                            if not (tile.safe[t, g // LEVELS] >> (g % LEVELS)) & 1:
                                by_group[t, g] = log_ratio(
                                    hidden.on[row[t]], hidden.off[row[t]], weights[g],
                                    weights[group[t]],
                                )  # fmt: skip
                if level_group.size:
                    spread_groups(by_group, level_group, scores)
                if side.rating_bias.size:
                    add_levels(tile.column[:count], side.rating_bias, scores)
                if link_work.score.size:
                    for t in range(count):
                        slot[t] = entries.position[begin + t] - row_shift[row[t]]
                    add_levels(slot, link_work.score, scores)
                if scored.size:
                    for t in range(count):
                        turn = entries.first + begin + t
                        at_score[t] = entries.score[begin + t] if entries.score.size else turn
                    if exchanged:
                        exchange_levels(scores, at_score, scored)
                    else:
                        add_levels(at_score, scored, scores)
                gap, total = level_residual(scores, bias, level, tile.bias_gradient)
                total_log += gap - math.log(total)
                if level_group.size:
                    sum_groups(scores, level_group, by_group)
                spread_residual(by_group, mean, row, group, hidden.on, gradient, context)
                if link_work.score.size:
                    store_levels(scores, slot, link_work.residual)
            for s in range(n):
                gradients.bias[place, s] = tile.bias_gradient[s]
        objective[chunk] = total_log
    return meet(team.barrier, team.threads)


@njit(**KERNEL)
def gaussian_conditionals(
    first_chunk, last_chunk, chunk_column, entries, value, precision, residual, side, row_shift,
    hidden, link_work, scored, exchanged, level_bias, gradients, n_rows, p, leave_out,
    objective, team,
):  # fmt: skip
    """log N(r; mu, 1 / precision), mu_i = beta_i + J + sum_k p_k gamma_ik + other (A.2).

    Gaussian ratings with mean-field hidden units: p_k = P(h_k | r) as in the paper, or, with
    `leave_out`, P(h_k | r without r_i), so that a rating does not help to predict itself.
    """
    d = side.hidden_bias.size
    one = level_bias.dtype.type(1)
    for chunk in range(first_chunk, last_chunk):
        context = gradients.chunk_context[chunk]
        for r in range(n_rows):
            context[r] = 0
        total_log = 0.0
        for place in range(chunk_column[chunk], chunk_column[chunk + 1]):
            column = entries.column[place]
            weights = side.coupling[column, 0]
            gradient = gradients.coupling[place, 0]
            gradient[:] = 0
            gradients.bias[place, 0] = 0
            for q in range(entries.column_entry[place], entries.column_entry[place + 1]):
                position = entries.position[q]
                r = entries.row[q]
                rating = value[position]
                x = hidden.input[r]
                on = hidden.on[r]
                mean = side.rating_bias[column, 0] if side.rating_bias.size else one * 0
                for k in range(d):
                    # Units that only fill a vector are off, and stay off.
                    p[k] = sigmoid(x[k] - rating * weights[k]) if leave_out and on[k] > 0 else on[k]
                    mean += p[k] * weights[k]
                if link_work.score.size:
                    mean += link_work.score[position - row_shift[r], 0]
                if scored.size:
                    at = entries.score[q] if entries.score.size else entries.first + q
                    said = scored[at, 0]
                    if exchanged:
                        scored[at, 0] = mean
                    mean += said
                residual[position] = rating - level_bias[0] - mean
                error = precision[position] * residual[position]
                total_log -= 0.5 * (error * residual[position] - math.log(precision[position]))
                total_log -= _HALF_LOG_2PI
                gradients.bias[place, 0] += error
                for k in range(d):
                    asked = error * weights[k] * p[k] * (one - p[k])
                    context[r, k] += asked
                    gradient[k] += error * p[k]
                    if leave_out:
                        gradient[k] -= rating * asked
                if link_work.score.size:
                    link_work.residual[position - row_shift[r], 0] = error
        objective[chunk] = total_log
    return meet(team.barrier, team.threads)
