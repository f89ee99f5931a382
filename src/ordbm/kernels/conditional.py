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
from ordbm.kernels.vector import (
    add_levels,
    add_residual,
    clear,
    fill_level_exp,
    level_residual,
    level_terms,
    log_products,
    prefetch,
    spread_residual,
    store_levels,
)

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
TILE = 16  # ratings taken through each stage together, so that the processor can overlap them
_AHEAD = 16  # how many ratings before its turn the scores of a rating are fetched
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
    columns = plan.column[plan.first_column[block] : plan.first_column[block + 1]]
    column_entry = plan.column_entry[plan.first_column[block] : plan.first_column[block + 1]]
    entry_position = plan.entry_position[plan.first_entry[block] : plan.first_entry[block + 1]]
    entry_row = plan.entry_row[plan.first_entry[block] : plan.first_entry[block + 1]]
    begin = column_entry[first_place]
    end = column_entry[last_place] if last_place < columns.size else entry_position.size
    tile_place = room.tile_place
    tile_own = room.tile_own
    bias = room.level_bias
    bias[:] = _NOWHERE
    for s in range(n):
        bias[s] = level_bias[s]
    objective = 0.0
    place = first_place - 1
    next_begin = begin
    for tile_begin in range(begin, end, TILE):
        count = min(TILE, end - tile_begin)
        for t in range(count):
            q = tile_begin + t
            if q == next_begin:
                place += 1
                next_begin = column_entry[place + 1] if place + 1 < columns.size else end
                clear(scratch.coupling_gradient[place])
                scratch.bias_gradient[place] = 0
                fill_level_exp(side.coupling[columns[place]], room.up, room.down)
            later = entry_position[min(q + 2 * _AHEAD, end - 1)]
            prefetch(rows.twin, later)
            prefetch(rows.level, later)
            later = entry_position[min(q + _AHEAD, end - 1)]
            if own_scores.shape[0]:
                prefetch(own_scores, later)
            if other_scores.shape[0]:
                prefetch(other_scores, rows.twin[later])
            r = entry_row[q]
            tile_place[t] = place
            tile_own[t] = rows.level[entry_position[q]]
            level_terms(
                scratch.hidden_on[r], scratch.hidden_off[r], room.down, room.up, tile_own[t],
                room.mean[t], room.product[t],
            )  # fmt: skip
        # Each stage is a loop of its own: the processor overlaps the ratings of a short loop.
        for t in range(count):
            if not log_products(room.product[t], room.scores[t]):
                weights = side.coupling[columns[tile_place[t]]]
                r = entry_row[tile_begin + t]
                for s in range(n):
                    room.scores[t, s] = log_ratio(
                        scratch.hidden_on[r], scratch.hidden_off[r], weights[s],
                        weights[tile_own[t]],
                    )  # fmt: skip
        for t in range(count):
            position = entry_position[tile_begin + t]
            column = columns[tile_place[t]]
            scores = room.scores[t]
            if side.rating_bias.size:
                add_levels(side.rating_bias[column], scores)
            if links.neighbour.size:
                shift = scratch.row_shift[entry_row[tile_begin + t]]
                add_levels(scratch.link_score[position - shift], scores)
            if own_scores.shape[0]:
                store_levels(scores, own_scores[position])
            if other_scores.shape[0]:
                add_levels(other_scores[rows.twin[position]], scores)
        total = 1.0
        for t in range(count):
            own = tile_own[t]
            observed = room.scores[t, own] + bias[own]
            highest, share = level_residual(room.scores[t], bias, own)
            objective += observed - highest
            total *= share
        objective -= math.log(total)
        for t in range(count):
            r = entry_row[tile_begin + t]
            add_residual(room.scores[t], scratch.bias_gradient[tile_place[t]])
            spread_residual(
                room.scores[t], room.mean[t], scratch.hidden_on[r], tile_own[t],
                scratch.coupling_gradient[tile_place[t]], context[r],
            )  # fmt: skip
            if links.neighbour.size:
                slot = entry_position[tile_begin + t] - scratch.row_shift[r]
                store_levels(room.scores[t], scratch.residual[slot])
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
                mean[0] += other_scores[rows.twin[position], 0]
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
