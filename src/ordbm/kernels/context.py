"""What somebody's other ratings, each by how near its context is, say of a rating's context.

A context is a row of numbers beside a rating: its time, and numbers or codes of categories. Two
ratings hang together by kappa(a, b) = e^(-|a - b| / scale) along one of them or, at scale zero, as
far as a = b. Along ORDER the distance is how many of the person's ratings were given in between.
"""

import math

import numpy as np
from numba import njit

from ordbm.kernels.options import INNER, KERNEL

ANY_ITEMS, LIKE_ITEMS, RATED_TOGETHER = 0, 1, 2  # among which
TIME, ORDER, FIRST_COLUMN = 0, 1, 2  # axes; places have no column of ORDER: it follows from TIME


@njit(**INNER)
def earlier(a, b):
    """How far a time is before another: half if it is the same."""
    if a < b:
        return 1.0
    return 0.5 if a == b else 0.0


@njit(**INNER)
def likeness(direction, one, other):
    """max(0, cosine)^4 of two items' directions; 0 of an item that is not known, -1."""
    cosine = 0.0
    if one >= 0:
        for d in range(direction.shape[1]):
            cosine += direction[one, d] * direction[other, d]
    square = max(0.0, cosine) * cosine
    return square * square


@njit(**INNER)
def count_together(item, user_start, user_column, item_start, item_column, together):
    """together[j] = how many have rated both item and j, (items,)."""
    together[:] = 0
    for place in range(item_start[item], item_start[item + 1]):
        user = item_column[place]
        for other in range(user_start[user], user_start[user + 1]):
            together[user_column[other]] += 1


@njit(**INNER)
def share_together(item, other, together, item_start):
    """(n_ij / sqrt(n_i n_j))^4 of how many have rated both items and each."""
    both = together[other]
    if item < 0 or both == 0:
        return 0.0
    one_size = item_start[item + 1] - item_start[item]
    other_size = item_start[other + 1] - item_start[other]
    square = both / one_size * (both / other_size)
    return square * square


@njit(**KERNEL)
def context_means(
    begin, end, person, item, at, start, column, place, order, residual, direction, axes, scales,
    alike, shrinkage, user_start, user_column, item_start, item_column, together, total, out,
):  # fmt: skip
    """out[p, k, f] = sum_j kappa_k(at_p, place_j) residual[j, f] / (c_k + sum_j kappa_k).

    j runs over the ratings of the pair's person but the pair's own; kappa_k is times the likeness
    of both items where `alike[k]` is LIKE_ITEMS, and how often they were rated together where it is
    RATED_TOGETHER: that is counted anew, from the ratings learnt from, wherever the item is another
    than that of the pair before, so pairs come item by item. `at` (pairs, P) and `place` (N, P)
    have the time and then other columns; NaN is here and now, and what is infinitely far is not
    known. `order` (N,) is how many of the person's ratings were given before, those of the same
    time half. `residual` (N, F), `direction` (items, D) rows of length one, `out` (pairs, K, F),
    and room: `total` (pairs, K), `together` (items,).
    """
    counts = False
    for k in range(scales.size):
        counts = counts or alike[k] == RATED_TOGETHER
    for p in range(begin, end):
        out[p] = 0
        for k in range(scales.size):
            total[p, k] = shrinkage[k]
        if counts and item[p] >= 0 and (p == begin or item[p] != item[p - 1]):
            count_together(item[p], user_start, user_column, item_start, item_column, together)
        first, last = start[person[p]], start[person[p] + 1]
        own = -1
        asked_order = 0.0
        for j in range(first, last):
            if column[j] == item[p]:
                own = j
            else:
                asked_order += earlier(place[j, TIME], at[p, TIME])
        for j in range(first, last):
            if j == own:
                continue
            like = likeness(direction, item[p], column[j])
            often = share_together(item[p], column[j], together, item_start) if counts else 0.0
            between = abs(at[p, TIME] - place[j, TIME])
            if between < math.inf:
                own_earlier = earlier(place[own, TIME], place[j, TIME]) if own >= 0 else 0.0
                between = abs(asked_order - (order[j] - own_earlier))
            for k in range(scales.size):
                apart = between
                if axes[k] != ORDER:
                    where = TIME if axes[k] == TIME else axes[k] - 1
                    apart = abs(at[p, where] - place[j, where])
                if np.isnan(apart):
                    near = 1.0
                elif scales[k] > 0:
                    near = math.exp(-apart / scales[k])
                else:
                    near = 1.0 if apart == 0 else 0.0
                if alike[k] == LIKE_ITEMS:
                    near *= like
                elif alike[k] == RATED_TOGETHER:
                    near *= often
                total[p, k] += near
                for f in range(residual.shape[1]):
                    out[p, k, f] += near * residual[j, f]
        for k in range(scales.size):
            for f in range(residual.shape[1]):
                out[p, k, f] /= total[p, k]
