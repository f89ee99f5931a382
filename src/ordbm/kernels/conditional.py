"""P(r_i | all other ratings) of the ratings in chunks of columns, and their gradient.

A chunk c has the block's columns chunk_column[c] to chunk_column[c + 1]. Both functions sum, over
the entries of these, the gradient of the column's coupling and bias, and in the chunk's `context`
(rows, d) what the ratings ask of their rows' hidden units. If `own_scores` has rows, the side's own
scores are kept there for the other side; `other_scores` are that side's, by its positions.

The hidden units are summed out by ratios. With p = P(h_k = 1 | r) of the row, level s instead of
the observed level r multiplies the row's weight by

    prod_k (1 - p_k) + p_k e^(W[i, s, k] - W[i, r, k])

and P(h_k = 1 | s, others) is the second term's share. The exponentials belong to a column, not to a
rating, and no term can cancel.
"""

import math

from numba import njit

from ordbm.kernels.numerics import sigmoid
from ordbm.kernels.options import INNER, KERNEL
from ordbm.kernels.stages import (
    add_levels,
    add_to_levels,
    fill_level_exp,
    level_residual,
    level_terms,
    log_products,
    spread_residual,
    store_levels,
)
from ordbm.kernels.structures import LEVELS
from ordbm.kernels.vector import fill, prefetch

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
TILE = 16  # ratings taken through each stage together, so that the processor can overlap them
_NOWHERE = -1e30  # the potential of levels that only fill a vector


@njit(**INNER)
def log_ratio(on, off, level, own):
    """sum_k log(off_k + on_k e^(W_sk - W_rk)), for products out of range."""
    total = 0.0
    for k in range(on.size):
        total += math.log(off[k] + on[k] * math.exp(level[k] - own[k]))
    return total


@njit(**KERNEL)
def level_conditionals(
    first_chunk, last_chunk, chunk_column, entries, side, row_shift, hidden, link_work, own_scores,
    other_scores, level_bias, gradients, n_rows, tile, objective,
):  # fmt: skip
    """log P(s) = b[s] + beta[i, s] + J(s) + other(s) + sum_k log(ratio to level r) - log Z (A.1).

    Discrete ratings, exactly; each chunk's log pseudo-likelihood goes to objective[chunk].
    """
    n = level_bias.size
    one = level_bias.dtype.type(1)
    columns = entries.column
    bias = tile.level_bias
    for s in range(bias.size):
        bias[s] = level_bias[s] if s < n else _NOWHERE
    for chunk in range(first_chunk, last_chunk):
        context = gradients.chunk_context[chunk]
        for r in range(n_rows):
            fill(context[r], one * 0)
        total_log = 0.0
        place = chunk_column[chunk] - 1
        begin = entries.column_entry[chunk_column[chunk]]
        end = entries.column_entry[chunk_column[chunk + 1]]
        next_begin = begin
        for tile_begin in range(begin, end, TILE):
            tile_end = min(tile_begin + TILE, end)
            count = tile_end - tile_begin
            even = count + count % 2
            position = entries.position[tile_begin:tile_end]
            in_transpose = entries.in_transpose[tile_begin:tile_end]
            row = entries.row[tile_begin:tile_end]
            level = entries.level[tile_begin:tile_end]
            tile_place = tile.index[0, :count]
            tile_column = tile.index[1, :count]
            tile_slot = tile.index[2, :count]
            scores = tile.scores[:count]
            mean = tile.mean[:count]
            product = tile.product[:count]
            for q in range(tile_end, min(tile_end + TILE, end)):
                if own_scores.size:
                    prefetch(own_scores, entries.position[q])
                if other_scores.size:
                    prefetch(other_scores, entries.in_transpose[q])
            # Each stage is a loop of its own: the processor overlaps the ratings of a short loop.
            fill(product, one)
            t = 0
            while t < count:
                if tile_begin + t == next_begin:
                    place += 1
                    next_begin = entries.column_entry[place + 1]
                    fill(gradients.coupling[place], one * 0)
                    for s in range(n):
                        gradients.bias[place, s, 0] = 0
                    fill_level_exp(side.coupling[columns[place]], tile.up, tile.down)
                stop = min(count, next_begin - tile_begin)
                level_terms(
                    row[t:stop], level[t:stop], hidden.on, hidden.off, tile.down, tile.up,
                    mean[t:stop], product[t:stop],
                )  # fmt: skip
                for u in range(t, stop):
                    tile_place[u] = place
                    tile_column[u] = columns[place]
                t = stop
            if not log_products(tile.product[:even], tile.scores[:even], tile.safe[:even]):
                for t in range(count):
                    weights = side.coupling[tile_column[t]]
                    for s in range(n):
                        if not (tile.safe[t, s // LEVELS] >> (s % LEVELS)) & 1:
                            scores[t, s] = log_ratio(
                                hidden.on[row[t]], hidden.off[row[t]], weights[s], weights[level[t]]
                            )
            if side.rating_bias.size:
                add_levels(tile_column, side.rating_bias, scores)
            if link_work.score.size:
                for t in range(count):
                    tile_slot[t] = position[t] - row_shift[row[t]]
                add_levels(tile_slot, link_work.score, scores)
            if own_scores.size:
                store_levels(scores, position, own_scores)
            if other_scores.size:
                add_levels(in_transpose, other_scores, scores)
            gap, total = level_residual(scores, bias, level)
            total_log += gap - math.log(total)
            add_to_levels(scores, tile_place, gradients.bias)
            spread_residual(
                scores, mean, row, level, tile_place, hidden.on, gradients.coupling, context
            )
            if link_work.score.size:
                store_levels(scores, tile_slot, link_work.residual)
        objective[chunk] = total_log


@njit(**KERNEL)
def gaussian_conditionals(
    first_chunk, last_chunk, chunk_column, entries, value, side, row_shift, hidden, link_work,
    own_scores, other_scores, level_bias, gradients, n_rows, p, leave_out, objective,
):  # fmt: skip
    """log N(r; mu, 1), mu_i = beta_i + J + sum_k p_k gamma_ik + other (A.2).

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
            gradients.bias[place, 0, 0] = 0
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
                if own_scores.size:
                    own_scores[position, 0] = mean
                if other_scores.size:
                    mean += other_scores[entries.in_transpose[q], 0]
                error = rating - level_bias[0] - mean
                total_log -= 0.5 * error * error + _HALF_LOG_2PI
                gradients.bias[place, 0, 0] += error
                for k in range(d):
                    asked = error * weights[k] * p[k] * (one - p[k])
                    context[r, k] += asked
                    gradient[k] += error * p[k]
                    if leave_out:
                        gradient[k] -= rating * asked
                if link_work.score.size:
                    link_work.residual[position - row_shift[r], 0] = error
        objective[chunk] = total_log
