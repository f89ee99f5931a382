"""Level potentials of many users for the whole catalogue, and what ranking reads off them.

Potentials are (n, users, items): the inner loops run along items, so that they fill vectors.
"""

from typing import NamedTuple

from numba import njit

from ordbm.kernels.numerics import fast_exp
from ordbm.kernels.options import INNER, KERNEL
from ordbm.kernels.structures import Floats


class ItemRoom(NamedTuple):
    """One thread's, for T items."""

    on: Floats  # (D, T)
    growth: Floats  # (n, d, T)
    weight: Floats  # (n, T)
    product: Floats  # (T,)
    total: Floats
    gained: Floats


@njit(**KERNEL)
def add_row_links(user, first, last, column, level, value, links, weight, pair, out):
    """out[s, user, i] += J(s): each rating of the row reaches the columns linked to its own."""
    one = out.dtype.type(1)
    for position in range(first, last):
        j = column[position]
        amount = value[position] if value.size else one
        for place in range(links.start[j], links.start[j + 1]):
            i = links.neighbour[place]
            for b in range(pair.shape[0]):
                w = weight[links.edge[place], b] * amount
                for s in range(out.shape[0]):
                    out[s, user, i] += w * pair[b, s, level[position]]


@njit(**KERNEL)
def add_column_links(user, own, start, column, level, value, links, weight, pair, out):
    """The same for links between users: each linked user's ratings reach the items they rate.

    `own` is the user's code; start, column, level, value are the ratings by user.
    """
    one = out.dtype.type(1)
    for place in range(links.start[own], links.start[own + 1]):
        other = links.neighbour[place]
        for position in range(start[other], start[other + 1]):
            amount = value[position] if value.size else one
            for b in range(pair.shape[0]):
                w = weight[links.edge[place], b] * amount
                for s in range(out.shape[0]):
                    out[s, user, column[position]] += w * pair[b, s, level[position]]


@njit(**KERNEL)
def expectations(begin, end, potential, reward, room, out):
    """out[u, i] = sum_s Q(s) reward[s], or of the potential itself if `reward` is empty.

    Q = softmax of the potentials; with the potential as reward this is -Delta E (section 2.4).
    `room` is (3, items).
    """
    n = potential.shape[0]
    size = potential.shape[2]
    highest = room[0]
    total = room[1]
    gained = room[2]
    for u in range(begin, end):
        first = potential[0, u]
        for i in range(size):
            highest[i] = first[i]
            total[i] = 0
            gained[i] = 0
        for s in range(1, n):
            score = potential[s, u]
            for i in range(size):
                highest[i] = max(highest[i], score[i])
        for s in range(n):
            score = potential[s, u]
            if reward.size:
                amount = reward[s]
                for i in range(size):
                    e = fast_exp(score[i] - highest[i])
                    total[i] += e
                    gained[i] += e * amount
            else:
                for i in range(size):
                    e = fast_exp(score[i] - highest[i])
                    total[i] += e
                    gained[i] += e * score[i]
        row = out[u]
        for i in range(size):
            row[i] = gained[i] / total[i]


@njit(**KERNEL)
def mean_ratings(begin, end, people, items, reward, room, out):
    """out[u, i] = mean over machines of sum_s P(s) reward[s], as `ensemble` has it, for all items.

    P(s) ~ e^(bias of the item) e^(bias of the person) prod_k (1 + p_k g_sk) prod_k (1 + q_k G_sk):
    without logarithms, links and what pairs leave out, to single precision. Items are taken some at
    a time, and laid so that the inner loops run along them.
    """
    n_machines, n = people.bias.shape[1], people.bias.shape[2]
    n_items = out.shape[1]
    most = room.total.size
    one = out.dtype.type(1)
    each = one / out.dtype.type(n_machines)
    for first in range(0, n_items, most):
        size = min(most, n_items - first)
        for m in range(n_machines):
            for t in range(size):
                i = first + t
                for k in range(room.on.shape[0]):
                    room.on[k, t] = items.on[i, m, k]
                for s in range(n):
                    room.weight[s, t] = fast_exp(items.bias[i, m, s])
                    for k in range(room.growth.shape[1]):
                        room.growth[s, k, t] = items.growth[i, m, s, k]
            for u in range(begin, end):
                on = people.on[u, m]
                for t in range(size):
                    room.total[t] = 0
                    room.gained[t] = 0
                for s in range(n):
                    weight = fast_exp(people.bias[u, m, s])
                    product = room.product
                    for t in range(size):
                        product[t] = room.weight[s, t] * weight
                    multiply(on, room.growth[s], product, size)
                    multiply(people.growth[u, m, s], room.on, product, size)
                    for t in range(size):
                        room.total[t] += product[t]
                        room.gained[t] += product[t] * reward[s]
                for t in range(size):
                    mean = room.gained[t] / room.total[t] * each
                    out[u, first + t] = mean if m == 0 else out[u, first + t] + mean


@njit(**INNER)
def multiply(amount, table, product, size):
    """product[t] *= prod_k 1 + amount[k] table[k, t]; k in fours, as units are padded."""
    one = product.dtype.type(1)
    for k in range(0, amount.size, 4):
        a, b, c, d = amount[k], amount[k + 1], amount[k + 2], amount[k + 3]
        first, second, third, fourth = table[k], table[k + 1], table[k + 2], table[k + 3]
        for t in range(size):
            product[t] *= (
                (one + a * first[t])
                * (one + b * second[t])
                * (one + c * third[t])
                * (one + d * fourth[t])
            )


@njit(**KERNEL)
def largest(begin, end, scores, best, out):
    """out[u] = the columns of the largest scores of row u, best first; ties to the first column.

    `best` has room for as many scores.
    """
    n = out.shape[1]
    for u in range(begin, end):
        row, found = scores[u], out[u]
        count = 0
        for i in range(row.size):
            score = row[i]
            if count == n and not score > best[n - 1]:
                continue
            place = min(count, n - 1)
            count = min(count + 1, n)
            while place > 0 and score > best[place - 1]:
                best[place] = best[place - 1]
                found[place] = found[place - 1]
                place -= 1
            best[place] = score
            found[place] = i
