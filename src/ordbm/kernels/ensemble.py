"""What all machines of an ensemble say of pairs, in one pass and without an exponential per pair.

Hidden units are summed out by products (see `docs/design.md`): with p_k = P(h_k = 1 | ratings),

    sum_k softplus(x_k + W[s, k]) - softplus(x_k) = log prod_k (1 + p_k (e^W[s, k] - 1)),

in which e^W - 1, the growth of a column, is made once. People are rows of tables of their own,
items of others; the last row of each is of the unknown, code -1. M machines, n levels; the hidden
units of a user are d, those of an item D.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ordbm.kernels.hidden import row_input
from ordbm.kernels.links import find_linked, mark_row
from ordbm.kernels.numerics import fast_exp, fast_log
from ordbm.kernels.options import INNER, KERNEL
from ordbm.kernels.pairs import rated_position
from ordbm.kernels.structures import Floats

_IN_RANGE = 80.0  # a product of factors whose logarithms add up to less is a float32
_SMALLEST = 1e-37


class RatingsByPerson(NamedTuple):
    """Ratings on levels by person."""

    start: NDArray[np.int64]
    column: NDArray[np.int32]
    level: NDArray[np.uint8]


class PeopleTables(NamedTuple):
    """P people, as they are asked about."""

    on: Floats  # (P, M, d) P(h = 1 | their ratings)
    growth: Floats  # (P, M, n, D) e^V - 1 of the couplings they own
    reach: Floats  # (P, M) the most that couplings can move a score: sum_k max_s |V[s, k]|
    bias: Floats  # (P, M, n)
    rated: RatingsByPerson
    held: RatingsByPerson  # those of their ratings that the items' hidden units know,
    held_growth: Floats  # (P, M, n, D) with these couplings


class ItemTables(NamedTuple):
    """I items and the unknown one."""

    on: Floats  # (I + 1, M, D)
    growth: Floats  # (I + 1, M, n, d)
    reach: Floats  # (I + 1, M)
    bias: Floats  # (I + 1, M, n) potentials that all levels share included


class LinkTables(NamedTuple):
    """Links between items: the structure is all machines', the weights are by machine."""

    start: NDArray[np.int64]
    neighbour: NDArray[np.int32]
    edge: NDArray[np.int32]
    weight: Floats  # (E, M, B)
    pair: Floats  # (B, n, n)


class ScoreRoom(NamedTuple):
    """One thread's."""

    on: Floats  # (d,) without the pair's own rating
    item_on: Floats  # (D,)
    pull: Floats  # (M, B, n)
    where: NDArray[np.int64]  # (items,)
    found: NDArray[np.int64]  # (most links + 1,)


@njit(**INNER)
def product(on, growth):
    """prod_k 1 + p_k g_k."""
    one = on.dtype.type(1)
    total = one
    for k in range(on.size):
        total *= one + on[k] * growth[k]
    return total


@njit(**INNER)
def log_product(on, growth):
    """log prod_k 1 + p_k g_k where the product itself may be out of range."""
    total = on.dtype.type(0)
    one = on.dtype.type(1)
    for k in range(on.size):
        total += fast_log(max(one + on[k] * growth[k], on.dtype.type(_SMALLEST)))
    return total


@njit(**INNER)
def leave_out(on, growth, out):
    """P(h = 1) without a rating whose growth is given: p / (p + (1 - p) (1 + g))."""
    one = on.dtype.type(1)
    for k in range(on.size):
        out[k] = on[k] / (on[k] + (one - on[k]) * (one + growth[k]))


@njit(**INNER)
def sum_links(item, first, last, level, links, room):
    """pull[m, b, l] = sum of weights towards the person's linked ratings of level l; if any."""
    count = find_linked(
        links.start[item], links.start[item + 1], links.neighbour, room.where, first, last,
        room.found,
    )  # fmt: skip
    if count:
        room.pull[:] = 0
        for hit in range(count):
            place = room.found[hit]
            at = level[room.where[links.neighbour[place]]]
            weight = links.weight[links.edge[place]]
            for m in range(weight.shape[0]):
                for b in range(weight.shape[1]):
                    room.pull[m, b, at] += weight[m, b]
    return count > 0


@njit(**KERNEL)
def level_scores(begin, end, person, item, people, items, links, room, out):
    """out[q, m, s]: potential of level s for pair q by machine m, up to a constant per machine.

    A pair's own rating is left out on both sides. Pairs of one person follow each other.
    """
    n_machines, n = out.shape[1], out.shape[2]
    in_range = people.on.dtype.type(_IN_RANGE)
    has_links = links.neighbour.size > 0
    current = -1
    first = last = 0
    for q in range(begin, end):
        u = person[q]
        i = item[q]
        if u != current:
            current = u
            first = people.rated.start[u]
            last = people.rated.start[u + 1]
            if has_links:
                mark_row(first, last, people.rated.column, room.where)
        own = held = -1
        if i >= 0:
            own = rated_position(first, last, people.rated.column, i)
            held = rated_position(
                people.held.start[u], people.held.start[u + 1], people.held.column, i
            )
        linked = has_links and i >= 0 and sum_links(
            i, first, last, people.rated.level, links, room
        )  # fmt: skip
        for m in range(n_machines):
            on = people.on[u, m]
            growth = items.growth[i, m]
            item_on = items.on[i, m]
            if own >= 0:
                leave_out(on, growth[people.rated.level[own]], room.on)
                on = room.on
            if held >= 0:
                leave_out(item_on, people.held_growth[u, m, people.held.level[held]], room.item_on)
                item_on = room.item_on
            score = out[q, m]
            safe = people.reach[u, m] + items.reach[i, m] < in_range
            for s in range(n):
                score[s] = items.bias[i, m, s] + people.bias[u, m, s]
                if safe:
                    score[s] += fast_log(
                        product(on, growth[s]) * product(item_on, people.growth[u, m, s])
                    )
                else:
                    score[s] += log_product(on, growth[s])
                    score[s] += log_product(item_on, people.growth[u, m, s])
            if linked:
                for b in range(room.pull.shape[1]):
                    for level in range(n):
                        pull = room.pull[m, b, level]
                        if pull != 0:
                            for s in range(n):
                                score[s] += links.pair[b, s, level] * pull


@njit(**KERNEL)
def mean_probabilities(begin, end, scores, out):
    """out[q, s] = mean over machines of softmax over s of scores[q, m, s], summed in float64."""
    n_machines, n = scores.shape[1], scores.shape[2]
    for q in range(begin, end):
        for s in range(n):
            out[q, s] = 0
        for m in range(n_machines):
            score = scores[q, m]
            top = score[0]
            for s in range(1, n):
                top = max(top, score[s])
            total = 0.0
            for s in range(n):
                score[s] = fast_exp(score[s] - top)
                total += score[s]
            for s in range(n):
                out[q, s] += score[s] / (total * n_machines)


@njit(**KERNEL)
def listed_inputs(begin, end, listed, rows, hidden_bias, coupling, total, out):
    """x of the listed rows begin..end of a side, into out (listed, d)."""
    for place in range(begin, end):
        row = listed[place]
        row_input(
            rows.start[row], rows.start[row + 1], rows.column, rows.level, rows.value,
            hidden_bias, coupling, total, out[place],
        )  # fmt: skip
