"""P(r_i | all other ratings) of the ratings in a chunk of columns, and their gradient.

Both functions add, for every entry of the chunk's columns, the gradient of the column's coupling
and bias, and to `context` (rows, d) what the rating asks of its row's hidden units; they return the
chunk's log pseudo-likelihood. If `own_scores` has rows, the side's own scores are kept there for
the other side; `other_scores` are that side's, by its positions.

The hidden units are summed out by ratios. With p = P(h_k = 1 | r) of the row, level s instead of
the observed level r multiplies the row's weight by

    prod_k (1 - p_k) + p_k e^(W[i, s, k] - W[i, r, k])

and P(h_k = 1 | s, others) is the second term's share. The exponentials belong to a column, not to a
rating, and no term can overflow or cancel.
"""

import math

from numba import njit

from ordbm.kernels.links import add_link_scores
from ordbm.kernels.numerics import fast_exp, fast_log, sigmoid
from ordbm.kernels.options import KERNEL
from ordbm.kernels.vector import add_scaled, level_terms, multiply, spread_gradient

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_STEEPEST = 43.0  # |W| beyond this is cut, so that e^W e^-W' stays a float32
TILE = 16  # ratings taken together, so that their levels fill vectors
_SAFE = 1e30  # a product of ratios beyond this, or below its inverse, is summed by logarithms


@njit(**KERNEL)
def fill_level_exp(weights, up, down):
    """e^W and e^-W of one column, (n, d) each."""
    steepest = weights.dtype.type(_STEEPEST)
    w = weights.reshape(weights.size)
    flat_up = up.reshape(weights.size)
    flat_down = down.reshape(weights.size)
    for j in range(w.size):
        z = min(max(w[j], -steepest), steepest)
        flat_up[j] = fast_exp(z)
        flat_down[j] = fast_exp(-z)


@njit(**KERNEL)
def log_ratio(odds, rest, level):
    """sum_k log(rest_k + odds_k level_k), for products out of range."""
    total = odds.dtype.type(0)
    for k in range(odds.size):
        total += fast_log(rest[k] + odds[k] * level[k])
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
    zero = level_bias.dtype.type(0)
    one = level_bias.dtype.type(1)
    safe = level_bias.dtype.type(_SAFE)
    columns = plan.column[plan.first_column[block] : plan.first_column[block + 1]]
    column_entry = plan.column_entry[plan.first_column[block] : plan.first_column[block + 1]]
    entry_position = plan.entry_position[plan.first_entry[block] : plan.first_entry[block + 1]]
    entry_row = plan.entry_row[plan.first_entry[block] : plan.first_entry[block + 1]]
    block_row = plan.row[plan.first_row[block] : plan.first_row[block + 1]]
    begin = column_entry[first_place]
    end = column_entry[last_place] if last_place < columns.size else entry_position.size
    scores = room.scores
    ratio = room.ratio
    highest = room.highest
    tile_place = room.tile_place
    tile_row = room.tile_row
    tile_own = room.tile_own
    asked = room.asked
    objective = 0.0
    place = first_place - 1
    next_begin = begin
    for tile_begin in range(begin, end, TILE):
        count = min(TILE, end - tile_begin)
        table = -1
        for t in range(count):
            q = tile_begin + t
            new_column = q == next_begin
            if new_column:
                place += 1
                next_begin = column_entry[place + 1] if place + 1 < columns.size else end
                scratch.coupling_gradient[place] = 0
                scratch.bias_gradient[place] = 0
            if new_column or t == 0:
                table += 1
                fill_level_exp(
                    side.coupling[columns[place]], room.level_exp[0, table],
                    room.level_exp[1, table],
                )  # fmt: skip
            r = entry_row[q]
            own = rows.level[entry_position[q]]
            tile_place[t] = place
            tile_row[t] = r
            tile_own[t] = own
            up = room.level_exp[0, table]
            off = scratch.hidden_off[r]
            multiply(scratch.hidden_on[r], room.level_exp[1, table, own], room.odds)
            for s in range(n):
                scores[s, t] = zero
            ratio[own, t] = one
            # The n - 1 other levels without a branch on which they are: it would be mispredicted.
            for j in range(n - 1):
                s = j + (j >= own)
                product = level_terms(room.odds, off, up[s], room.mean[t, j])
                ratio[s, t] = product
                if not one / safe < product < safe:
                    ratio[s, t] = one
                    scores[s, t] = log_ratio(room.odds, off, up[s])
            if side.rating_bias.size:
                bias = side.rating_bias[columns[place]]
                for s in range(n):
                    scores[s, t] += bias[s]
            if links.neighbour.size:
                potential = room.potential
                potential[:] = 0
                add_link_scores(
                    columns[place], scratch.where[r], rows.start[block_row[r]],
                    rows.start[block_row[r] + 1], 0, rows.level, rows.value, links,
                    side.link_weight, tables.pair, room.pull, potential,
                )  # fmt: skip
                for s in range(n):
                    scores[s, t] += potential[s]
        for s in range(n):
            score = scores[s]
            factor = ratio[s]
            for t in range(TILE):
                score[t] += fast_log(factor[t])
        if own_scores.shape[0]:
            for t in range(count):
                kept = own_scores[entry_position[tile_begin + t]]
                for s in range(n):
                    kept[s] = scores[s, t]
        if other_scores.shape[0]:
            for t in range(count):
                other = other_scores[rows.twin[entry_position[tile_begin + t]]]
                for s in range(n):
                    scores[s, t] += other[s]
        for s in range(n):
            score = scores[s]
            bias_s = level_bias[s]
            for t in range(TILE):
                score[t] += bias_s
                highest[t] = score[t] if s == 0 else max(highest[t], score[t])
        for t in range(count):
            objective += scores[tile_own[t], t] - highest[t]
        total = room.tile_total
        for t in range(TILE):
            total[t] = 0
        for s in range(n):
            score = scores[s]
            for t in range(TILE):
                score[t] = fast_exp(score[t] - highest[t])
                total[t] += score[t]
        for t in range(TILE):
            highest[t] = -one / total[t]
            total[t] = fast_log(total[t])
        for s in range(n):
            score = scores[s]
            for t in range(TILE):
                score[t] *= highest[t]
        for t in range(count):
            objective -= total[t]
            r = tile_row[t]
            own = tile_own[t]
            gradient = scratch.coupling_gradient[tile_place[t]]
            bias_gradient = scratch.bias_gradient[tile_place[t]]
            scores[own, t] += one  # observed minus expected
            asked[:] = 0
            for s in range(n):
                bias_gradient[s, 0] += scores[s, t]
            for j in range(n - 1):
                s = j + (j >= own)
                spread_gradient(scores[s, t], room.mean[t, j], gradient[s], asked)
            # At its own level the rating is context for the row's other ratings only.
            add_scaled(-one, asked, gradient[own])
            add_scaled(scores[own, t], scratch.hidden_on[r], asked)
            add_scaled(one, asked, context[r])
            if links.neighbour.size:
                residual = scratch.residual[entry_position[tile_begin + t] - scratch.row_shift[r]]
                for s in range(n):
                    residual[s] = scores[s, t]
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
                row = plan.row[plan.first_row[block] + r]
                add_link_scores(
                    column, scratch.where[r], rows.start[row], rows.start[row + 1], 0, rows.level,
                    rows.value, links, side.link_weight, tables.pair, room.pull, mean,
                )  # fmt: skip
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
