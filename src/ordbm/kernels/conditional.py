"""P(r_i | all other ratings) of the ratings in a chunk of columns, and their gradient.

Both functions add, for every entry of the chunk's columns, the gradient of the column's coupling
and bias, and to `context` (rows, d) what the rating asks of its row's hidden units; they return the
chunk's log pseudo-likelihood. If `own_scores` has rows, the side's own scores are kept there for
the other side; `other_scores` are that side's, by its positions.

The hidden units are summed out by ratios. With p = P(h_k = 1 | r) of the row, level s instead of
the observed level r multiplies the row's weight by

    prod_k (1 - p_k) + p_k e^(W[i, s, k] - W[i, r, k])

and P(h_k = 1 | s, others) is the second term's share. The exponentials belong to a column, not to a
rating, and no term can cancel.
"""

import math

from numba import njit

from ordbm.kernels.numerics import sigmoid
from ordbm.kernels.options import KERNEL
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


@njit(**KERNEL)
def log_ratio(on, off, level, own):
    """sum_k log(off_k + on_k e^(W_sk - W_rk)), for products out of range."""
    total = 0.0
    for k in range(on.size):
        total += math.log(off[k] + on[k] * math.exp(level[k] - own[k]))
    return total


@njit(**KERNEL)
def level_conditionals(
    block, first_place, last_place, plan, rows, side, links, tables, level_bias, other_scores,
    own_scores, scratch, context, room,
):  # fmt: skip
    """Discrete ratings, exactly (A.1).

    log P(s) = b[s] + beta[i, s] + J(s) + other(s) + sum_k log(ratio to the observed level) - log Z
    """
    n = level_bias.size
    one = level_bias.dtype.type(1)
    columns = plan.column[plan.first_column[block] : plan.first_column[block + 1]]
    column_entry = plan.column_entry[plan.first_column[block] : plan.first_column[block + 1]]
    entries = slice(plan.first_entry[block], plan.first_entry[block + 1])
    entry_position = plan.entry_position[entries]
    entry_in_transpose = plan.entry_in_transpose[entries]
    entry_row = plan.entry_row[entries]
    entry_level = plan.entry_level[entries]
    begin = column_entry[first_place]
    end = column_entry[last_place] if last_place < columns.size else entry_position.size
    bias = room.level_bias
    bias[:] = _NOWHERE
    for s in range(n):
        bias[s] = level_bias[s]
    objective = 0.0
    place = first_place - 1
    next_begin = begin
    for tile_begin in range(begin, end, TILE):
        tile_end = min(tile_begin + TILE, end)
        count = tile_end - tile_begin
        even = count + count % 2
        position = entry_position[tile_begin:tile_end]
        in_transpose = entry_in_transpose[tile_begin:tile_end]
        row = entry_row[tile_begin:tile_end]
        level = entry_level[tile_begin:tile_end]
        tile_place = room.tile_place[:count]
        tile_column = room.tile_column[:count]
        tile_slot = room.tile_slot[:count]
        scores = room.scores[:count]
        mean = room.mean[:count]
        product = room.product[:count]
        for q in range(tile_end, min(tile_end + TILE, end)):
            if own_scores.shape[0]:
                prefetch(own_scores, entry_position[q])
            if other_scores.shape[0]:
                prefetch(other_scores, entry_in_transpose[q])
        # Each stage is a loop of its own: the processor overlaps the ratings of a short loop.
        fill(product, one)
        t = 0
        while t < count:
            if tile_begin + t == next_begin:
                place += 1
                next_begin = column_entry[place + 1] if place + 1 < columns.size else end
                fill(scratch.coupling_gradient[place], one * 0)
                scratch.bias_gradient[place] = 0
                fill_level_exp(side.coupling[columns[place]], room.up, room.down)
            stop = min(count, next_begin - tile_begin)
            level_terms(
                row[t:stop], level[t:stop], scratch.hidden_on, scratch.hidden_off, room.down,
                room.up, mean[t:stop], product[t:stop],
            )  # fmt: skip
            for u in range(t, stop):
                tile_place[u] = place
                tile_column[u] = columns[place]
            t = stop
        if not log_products(room.product[:even], room.scores[:even], room.safe[:even]):
            for t in range(count):
                weights = side.coupling[tile_column[t]]
                for s in range(n):
                    if not (room.safe[t, s // LEVELS] >> (s % LEVELS)) & 1:
                        scores[t, s] = log_ratio(
                            scratch.hidden_on[row[t]], scratch.hidden_off[row[t]], weights[s],
                            weights[level[t]],
                        )  # fmt: skip
        if side.rating_bias.size:
            add_levels(tile_column, side.rating_bias, scores)
        if links.neighbour.size:
            for t in range(count):
                tile_slot[t] = position[t] - scratch.row_shift[row[t]]
            add_levels(tile_slot, scratch.link_score, scores)
        if own_scores.shape[0]:
            store_levels(scores, position, own_scores)
        if other_scores.shape[0]:
            add_levels(in_transpose, other_scores, scores)
        gap, total = level_residual(scores, bias, level)
        objective += gap - math.log(total)
        add_to_levels(scores, tile_place, scratch.bias_gradient)
        spread_residual(
            scores, mean, row, level, tile_place, scratch.hidden_on, scratch.coupling_gradient,
            context,
        )  # fmt: skip
        if links.neighbour.size:
            store_levels(scores, tile_slot, scratch.residual)
    return objective


@njit(**KERNEL)
def gaussian_conditionals(
    block, first_place, last_place, plan, rows, side, links, tables, level_bias, other_scores,
    own_scores, scratch, context, room, leave_out,
):  # fmt: skip
    """Gaussian ratings with mean-field hidden units (A.2): log N(r; mu, 1).

    mu_i = beta_i + J + sum_k p_k gamma_ik + other, with p_k = P(h_k | r) as in the paper, or, with
    `leave_out`, P(h_k | r without r_i), so that a rating does not help to predict itself.
    """
    d = side.hidden_bias.size
    one = level_bias.dtype.type(1)
    base = plan.first_entry[block]
    n_entries = plan.first_entry[block + 1] - base
    n_places = plan.first_column[block + 1] - plan.first_column[block]
    mean = room.potential
    p = room.odds
    objective = 0.0
    for place in range(first_place, last_place):
        column = plan.column[plan.first_column[block] + place]
        weights = side.coupling[column, 0]
        gradient = scratch.coupling_gradient[place, 0]
        gradient[:] = 0
        scratch.bias_gradient[place] = 0
        begin = plan.column_entry[plan.first_column[block] + place]
        end = n_entries
        if place + 1 < n_places:
            end = plan.column_entry[plan.first_column[block] + place + 1]
        for q in range(begin, end):
            position = plan.entry_position[base + q]
            r = plan.entry_row[base + q]
            value = rows.value[position]
            x = scratch.hidden_input[r]
            on = scratch.hidden_on[r]
            mean[0] = side.rating_bias[column, 0] if side.rating_bias.size else one * 0
            for k in range(d):
                # Units that only fill a vector are off, and stay off.
                p[k] = sigmoid(x[k] - value * weights[k]) if leave_out and on[k] > 0 else on[k]
                mean[0] += p[k] * weights[k]
            if links.neighbour.size:
                mean[0] += scratch.link_score[position - scratch.row_shift[r], 0]
            if own_scores.shape[0]:
                own_scores[position, 0] = mean[0]
            if other_scores.shape[0]:
                mean[0] += other_scores[plan.entry_in_transpose[base + q], 0]
            error = value - level_bias[0] - mean[0]
            objective -= 0.5 * error * error + _HALF_LOG_2PI
            scratch.bias_gradient[place, 0, 0] += error
            for k in range(d):
                asked = error * weights[k] * p[k] * (one - p[k])
                context[r, k] += asked
                gradient[k] += error * p[k]
                if leave_out:
                    gradient[k] -= value * asked
            if links.neighbour.size:
                scratch.residual[position - scratch.row_shift[r], 0] = error
    return objective
