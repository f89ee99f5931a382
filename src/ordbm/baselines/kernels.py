"""Compiled loops of the baselines."""

from __future__ import annotations

import numpy as np
from numba import njit

from ordbm.kernels.options import BUILDER, KERNEL
from ordbm.runtime.arrays import Array


@njit(**BUILDER)  # type: ignore[call-overload, untyped-decorator]
def neighbour_means(  # noqa: C901, PLR0912
    rows: Array,
    columns: Array,
    row_start: Array,
    rated: Array,
    deviation: Array,
    link_start: Array,
    neighbour: Array,
    edge: Array,
    similarity: Array,
    k: int,
    out: Array,
) -> None:
    """Σ s d / Σ s over the k columns most similar to each pair's column that its row rated.

    d is a rating's `deviation`, s > 0 the similarity; ties go to the lower column. NaN where the
    row has rated no neighbour of the column, and for row or column -1. Fastest where pairs of the
    same row follow each other.
    """
    nearest = np.empty(k)
    shift = np.empty(k)
    who = np.empty(k, np.int64)
    position = np.full(len(link_start) - 1, -1)  # of each column's rating in the current row
    current = -1
    for pair in range(len(rows)):
        row, column = rows[pair], columns[pair]
        out[pair] = np.nan
        if row < 0 or column < 0:
            continue
        if row != current:
            if current >= 0:
                for place in range(row_start[current], row_start[current + 1]):
                    position[rated[place]] = -1
            for place in range(row_start[row], row_start[row + 1]):
                position[rated[place]] = place
            current = row
        size = 0
        least = 0  # where the least similar of the nearest is
        for link in range(link_start[column], link_start[column + 1]):
            found = position[neighbour[link]]
            if found < 0:
                continue
            s = similarity[edge[link]]
            if size == k:
                if s <= nearest[least]:
                    continue
                place = least
            else:
                place = size
                size += 1
            nearest[place] = s
            shift[place] = deviation[found]
            who[place] = neighbour[link]
            if size == k:
                least = 0
                for other in range(1, k):
                    gap = nearest[other] - nearest[least]
                    if gap < 0 or (gap == 0 and who[other] > who[least]):
                        least = other
        total = 0.0
        weight = 0.0
        for place in range(size):
            total += nearest[place] * shift[place]
            weight += nearest[place]
        if size > 0:
            out[pair] = total / weight


@njit(**KERNEL)  # type: ignore[call-overload, untyped-decorator]
def factor_epoch(
    order: Array,
    users: Array,
    items: Array,
    target: Array,
    rate: float,
    decay: float,
    user_factors: Array,
    item_factors: Array,
    user_bias: Array,
    item_bias: Array,
    biases: bool,
) -> float:
    """One step down ½ (e² + decay · (‖p‖² + ‖q‖² + b² + c²)) for each rating in `order`.

    e = target − b − c − p·q with the user's b, p and the item's c, q. The sum of e² before the
    steps is returned.
    """
    loss = 0.0
    for position in order:
        u, i = users[position], items[position]
        mine, its = user_factors[u], item_factors[i]
        guess = 0.0
        for k in range(len(mine)):
            guess += mine[k] * its[k]
        if biases:
            guess += user_bias[u] + item_bias[i]
        error = target[position] - guess
        loss += error * error
        if biases:
            user_bias[u] += rate * (error - decay * user_bias[u])
            item_bias[i] += rate * (error - decay * item_bias[i])
        for k in range(len(mine)):
            p, q = mine[k], its[k]
            mine[k] = p + rate * (error * q - decay * p)
            its[k] = q + rate * (error * p - decay * q)
    return loss
