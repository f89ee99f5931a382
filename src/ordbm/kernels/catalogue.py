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


@njit(**KERNEL)
def add_probabilities(
    begin, end, users, items, ratings, level_bias, user_side, item_side, pair, seen, room, out
):
    """out[p, c, s] += Q(s) of user p's c-th item, which the user has not rated; none if below zero.

    `user_side` is (hidden means of these users, bias, coupling, links, weights by neighbour),
    `item_side` (bias, coupling, hidden means of all items); what is not there is empty. `seen` has
    0 for every item, before and after: a user's ratings are there as 1 + level, so that weights can
    be summed up by level without a branch. `room` is (1 + pair features, 1 + n).
    """
    row = room[0]
    none = level_bias.dtype.type(0)  # a plain 0 would make sums double precision, and slow
    hidden, bias, coupling, links, link_weight = user_side
    own_bias, own_coupling, item_hidden = item_side
    n = out.shape[2]
    linked = link_weight.size > 0
    for p in range(begin, end):
        u = users[p]
        if linked:
            for position in range(ratings.start[u], ratings.start[u + 1]):
                seen[ratings.column[position]] = 1 + ratings.level[position]
        for c in range(items.shape[1]):
            i = items[p, c]
            if i < 0:
                continue
            for s in range(n):
                total = level_bias[s]
                if bias.size:
                    total += bias[i, s]
                if own_bias.size:
                    total += own_bias[u, s]
                if hidden.size:
                    theirs = hidden[p]
                    weight = coupling[i, s]
                    part = none
                    for k in range(theirs.size):
                        part += theirs[k] * weight[k]
                    total += part
                if item_hidden.size:
                    theirs = item_hidden[i]
                    weight = own_coupling[u, s]
                    part = none
                    for k in range(theirs.size):
                        part += theirs[k] * weight[k]
                    total += part
                row[s] = total
            if linked:
                for b in range(pair.shape[0]):
                    total_at = room[1 + b]
                    for level in range(n + 1):
                        total_at[level] = none
                    for place in range(links.start[i], links.start[i + 1]):
                        total_at[seen[links.neighbour[place]]] += link_weight[place, b]
                    for level in range(n):
                        for s in range(n):
                            row[s] += total_at[1 + level] * pair[b, s, level]
            highest = row[0]
            for s in range(1, n):
                highest = max(highest, row[s])
            total = none
            for s in range(n):
                row[s] = fast_exp(row[s] - highest)
                total += row[s]
            for s in range(n):
                out[p, c, s] += row[s] / total
        if linked:
            for position in range(ratings.start[u], ratings.start[u + 1]):
                seen[ratings.column[position]] = 0
