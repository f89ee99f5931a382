"""Level potentials of many users for the whole catalogue, and what ranking reads off them.

Potentials are (n, users, items): the inner loops run along items, so that they fill vectors.
"""

from numba import njit

from ordbm.kernels.numerics import fast_exp
from ordbm.kernels.options import KERNEL


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
