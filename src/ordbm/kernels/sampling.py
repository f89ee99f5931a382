"""Gibbs sampling of a row: hidden units given ratings, ratings given these and each other."""

import math

from numba import njit

from ordbm.kernels.hidden import add_mean_scores, hidden_mean
from ordbm.kernels.links import add_link_scores, mark_row
from ordbm.kernels.numerics import normal, stream, uniform
from ordbm.kernels.options import INNER, KERNEL


@njit(**INNER)
def draw_hidden(state, mean, out):
    """h_k ~ Bernoulli(mean_k); the next random state."""
    for k in range(mean.size):
        state, u = uniform(state)
        out[k] = 1 if u < mean[k] else 0
    return state


@njit(**INNER)
def draw_level(state, potential):
    """(next state, s ~ softmax(potential), log sum exp potential)."""
    highest = potential[0]
    for s in range(1, potential.size):
        highest = max(highest, potential[s])
    total = 0.0
    for s in range(potential.size):
        total += math.exp(potential[s] - highest)
    state, u = uniform(state)
    target = u * total
    cumulative = 0.0
    level = potential.size - 1
    for s in range(potential.size):
        cumulative += math.exp(potential[s] - highest)
        if target < cumulative:
            level = s
            break
    return state, level, highest + math.log(total)


@njit(**INNER)
def sweep_ratings(
    state, hidden, first, last, where, rows, side, links, tables, level_bias, scored, score_of,
    level, value, potential, pull, found,
):  # fmt: skip
    """Draw every rating of a row in turn from P(r_i | h, the row's other ratings as they now are).

    Without links the ratings are independent given h and one sweep is an exact draw. Returns the
    next random state and the log-probability of the observed ratings at their turns.
    """
    observed = 0.0
    for position in range(first, last):
        place = position - first
        column = rows.column[position]
        for s in range(potential.size):
            potential[s] = level_bias[s]
        add_mean_scores(hidden, side.coupling[column], potential)
        if side.rating_bias.size:
            for s in range(potential.size):
                potential[s] += side.rating_bias[column, s]
        if scored.shape[0]:
            for s in range(potential.size):
                potential[s] += scored[score_of[position], s]
        if links.neighbour.size:
            add_link_scores(
                column, where, first, last, first, level, value, links, side.link_weight,
                tables.pair, found, pull, potential,
            )  # fmt: skip
        if rows.value.size:
            error = rows.value[position] - potential[0]
            observed -= 0.5 * (error * error + math.log(2.0 * math.pi))
            state, z = normal(state)
            value[place] = potential[0] + z
        else:
            state, s, normaliser = draw_level(state, potential)
            observed += potential[rows.level[position]] - normaliser
            level[place] = s
    return state, observed


@njit(**INNER)
def gibbs_row(
    state, steps, hidden, first, last, where, rows, side, links, tables, level_bias, scored,
    score_of, level, value, mean, row_work,
):  # fmt: skip
    """`steps` steps of h | r, r | h from the observed ratings: sampled ratings, P(h | sample).

    `hidden` is P(h | observed); `level` and `value` receive the sample, `mean` P(h | sample).
    Returns the next random state and the observed ratings' log-probability given the first h.
    """
    d = hidden.size
    work = row_work.sum
    total = row_work.total
    for position in range(first, last):
        level[position - first] = rows.level[position]
        if rows.value.size:
            value[position - first] = rows.value[position]
    for k in range(d):
        mean[k] = hidden[k]
    objective = 0.0
    for step in range(steps):
        state = draw_hidden(state, mean, work)
        state, observed = sweep_ratings(
            state, work, first, last, where, rows, side, links, tables, level_bias, scored,
            score_of, level, value, row_work.potential, row_work.pull, row_work.found,
        )  # fmt: skip
        if step == 0:
            objective = observed
        for k in range(d):
            total[k] = side.hidden_bias[k]
        for position in range(first, last):
            place = position - first
            weights = side.coupling[rows.column[position], level[place]]
            amount = value[place] if rows.value.size else level_bias.dtype.type(1)
            for k in range(d):
                total[k] += amount * weights[k]
        for k in range(d):
            work[k] = total[k]
        hidden_mean(work, mean)
    return state, objective


@njit(**KERNEL)
def sample_rows(
    first, last, row, row_slot, chain, rows, side, n_hidden, links, tables, level_bias,
    scored, score_of, on, sample_on, sample, work, objective,
):  # fmt: skip
    """A Gibbs chain from the observed ratings, for each of the block's rows first..last.

    `chain` is (steps, seed, epoch). Into `sample` and `sample_on` (rows, d), P(h | sample); `on` is
    P(h | observed). The other side says scored[score_of[p]] of position p. `objective` (rows of the
    side,) receives log P(observed | the first h).
    """
    steps, seed, epoch = chain
    for r in range(first, last):
        begin = rows.start[row[r]]
        end = rows.start[row[r] + 1]
        if links.neighbour.size:
            mark_row(begin, end, rows.column, work.where)
        slot = row_slot[r]
        _, objective[row[r]] = gibbs_row(
            stream(seed, epoch, row[r]), steps, on[r], begin, end, work.where, rows, side, links,
            tables, level_bias, scored, score_of, sample.level[slot : slot + end - begin],
            sample.value[slot : slot + (end - begin if rows.value.size else 0)], sample_on[r], work,
        )  # fmt: skip
        for k in range(n_hidden, on.shape[1]):
            sample_on[r, k] = 0
