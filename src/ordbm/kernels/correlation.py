"""Co-rated sums of pairs of columns, and the best partners of every column.

For columns i < j the kernels gather n, Σx, Σy, Σx², Σy², Σxy over the rows that rated both (x in
column i, y in column j) by walking, for each rating of column i, the rest of its row. Each pair of
ratings is met once.

A kernel runs over a block of columns in one thread and writes only to its own accumulators and to
the `Best` it is given. What the merged `Best` holds does not depend on how the columns were shared
out: the best partners are those of a strict order (similarity, support, lower column).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

FIELDS = 6  # n, Σx, Σy, Σx², Σy², Σxy


class Side(NamedTuple):
    """One set of ratings by row, and where the ratings of each column stand in it."""

    start: np.ndarray  # (R + 1,) int64
    column: np.ndarray  # (N,) int32, ascending within a row
    score: np.ndarray  # (N,) uint8 grid positions, or float64
    column_start: np.ndarray  # (C + 1,) int64
    rater: np.ndarray  # (N,) int32, the rows of a column
    place: np.ndarray  # (N,) position of that rating in row order


class Rule(NamedTuple):
    """Which pairs count, and how much."""

    shrinkage: float
    min_support: int
    tolerance: float  # sums that cancel to less than this part of their terms are zero


class Packing(NamedTuple):
    """Six sums in one unsigned 64-bit word; `table[x, y]` is what one co-rating adds to it."""

    table: np.ndarray  # (w + 1, w + 1) uint64
    shift: tuple[np.uint64, ...]  # of each field
    mask: tuple[np.uint64, ...]
    capacity: int  # co-ratings a word can hold
    middle: int  # grid position that scores are centred on
    lift: int  # added to each product, so that no field is ever negative


class Best(NamedTuple):
    """For each column a heap, the worst kept partner first."""

    start: np.ndarray  # (C + 1,) int64, room of each column
    size: np.ndarray  # (C,) int32
    least: np.ndarray  # (C,) float32: what a newcomer must reach, zero while there is room
    similarity: np.ndarray  # float32
    support: np.ndarray  # int32
    partner: np.ndarray  # int32


@njit(nogil=True, cache=True)
def better(similarity, support, partner, than_similarity, than_support, than_partner):
    """Whether one partner ranks above another."""
    if similarity != than_similarity:
        return similarity > than_similarity
    if support != than_support:
        return support > than_support
    return partner < than_partner


@njit(nogil=True, cache=True)
def keep(best, owner, partner, similarity, support):
    """Put a partner into the owner's heap if it is among the best so far."""
    first, last = best.start[owner], best.start[owner + 1]
    heap_similarity = best.similarity[first:last]
    heap_support = best.support[first:last]
    heap_partner = best.partner[first:last]
    room, size = last - first, np.int64(best.size[owner])
    if size < room:  # rise from the end
        at = size
        size += 1
        best.size[owner] = size
        while at > 0:
            up = (at - 1) >> 1
            if better(
                similarity,
                support,
                partner,
                heap_similarity[up],
                heap_support[up],
                heap_partner[up],
            ):
                break
            heap_similarity[at] = heap_similarity[up]
            heap_support[at] = heap_support[up]
            heap_partner[at] = heap_partner[up]
            at = up
    elif room == 0 or not better(
        similarity, support, partner, heap_similarity[0], heap_support[0], heap_partner[0]
    ):
        return
    else:  # take the place of the worst, and sink
        at = 0
        while True:
            down = 2 * at + 1
            if down >= size:
                break
            if down + 1 < size and better(
                heap_similarity[down],
                heap_support[down],
                heap_partner[down],
                heap_similarity[down + 1],
                heap_support[down + 1],
                heap_partner[down + 1],
            ):
                down += 1
            if better(
                heap_similarity[down],
                heap_support[down],
                heap_partner[down],
                similarity,
                support,
                partner,
            ):
                break
            heap_similarity[at] = heap_similarity[down]
            heap_support[at] = heap_support[down]
            heap_partner[at] = heap_partner[down]
            at = down
    heap_similarity[at] = similarity
    heap_support[at] = support
    heap_partner[at] = partner
    if size == room:
        best.least[owner] = heap_similarity[0]


@njit(nogil=True, cache=True)
def shrunk_correlation(n, sx, sy, sxx, syy, sxy, least, shrinkage, min_support, tolerance):
    """r = (nΣxy − ΣxΣy) / √((nΣx² − (Σx)²)(nΣy² − (Σy)²)), times n / (n + shrinkage).

    Zero where it is undefined, not positive, or below `least` by more than rounding. In float32, so
    that correlations equal but for rounding are ties; sums of whole numbers are exact.
    """
    covariance = n * sxy - sx * sy
    if n < min_support or covariance <= 0:
        return np.float32(0.0)
    variance_x = n * sxx - sx * sx
    variance_y = n * syy - sy * sy
    if variance_x <= tolerance * n * sxx or variance_y <= tolerance * n * syy:
        return np.float32(0.0)
    square = float(covariance) * float(covariance)
    if tolerance > 0 and square <= tolerance * n * sxx * tolerance * n * syy:
        return np.float32(0.0)
    weight = n / (n + shrinkage)
    product = float(variance_x) * float(variance_y)
    if square * weight * weight < 0.99999 * least * least * product:  # spares most pairs the root
        return np.float32(0.0)
    return np.float32(min(covariance / np.sqrt(product), 1.0) * weight)


@njit(nogil=True, cache=True)
def column_work(side, i):
    """Co-rated pairs of column i with later columns."""
    work = 0
    for p in range(side.column_start[i], side.column_start[i + 1]):
        work += side.start[side.rater[p] + 1] - side.place[p] - 1
    return work


@njit(nogil=True, cache=True)
def scan_directly(side, i, middle, sums, touched, rule, best):
    """Offer column i's pairs, gathered in `sums` (C, 6); cost in proportion to the pairs met."""
    start, column, score, place, rater = side.start, side.column, side.score, side.place, side.rater
    shrinkage, min_support, tolerance = rule.shrinkage, rule.min_support, rule.tolerance
    least = best.least
    n_touched = 0
    for p in range(side.column_start[i], side.column_start[i + 1]):
        q = np.int64(place[p])
        x = score[q] - middle
        for other in range(q + 1, start[rater[p] + 1]):
            j = np.uint32(column[other])
            y = score[other] - middle
            if sums[j, 0] == 0:
                touched[n_touched] = j
                n_touched += 1
            sums[j, 0] += 1
            sums[j, 1] += x
            sums[j, 2] += y
            sums[j, 3] += x * x
            sums[j, 4] += y * y
            sums[j, 5] += x * y
    for t in range(n_touched):
        j = touched[t]
        n = np.int64(sums[j, 0])
        similarity = shrunk_correlation(
            n,
            sums[j, 1],
            sums[j, 2],
            sums[j, 3],
            sums[j, 4],
            sums[j, 5],
            min(least[i], least[j]),
            shrinkage,
            min_support,
            tolerance,
        )
        if similarity > 0:
            if similarity >= least[i]:
                keep(best, i, j, similarity, n)
            if similarity >= least[j]:
                keep(best, j, i, similarity, n)
        sums[j] = 0


@njit(nogil=True, cache=True)
def add_words(side, first, last, table, words):
    """Add the co-ratings of ratings first..last of a column to the words (C,) of its partners."""
    start, column, score, place, rater = side.start, side.column, side.score, side.place, side.rater
    for p in range(first, last):
        q = np.int64(place[p])
        x = score[q]
        for other in range(q + 1, start[rater[p] + 1]):
            words[np.uint32(column[other])] += table[x, score[other]]


@njit(nogil=True, cache=True)
def empty_words(words, packing, sums):
    """Add the fields of words (J,) to sums (6, J), centred; leave the words zero."""
    middle, lift = packing.middle, packing.lift
    s0, s1, s2, s3, s4, s5 = packing.shift
    m0, m1, m2, m3, m4, m5 = packing.mask
    for j in range(len(words)):
        word = words[j]
        n = np.int64((word >> s0) & m0)
        sums[0, j] += n
        sums[1, j] += np.int64((word >> s1) & m1) - middle * n
        sums[2, j] += np.int64((word >> s2) & m2) - middle * n
        sums[3, j] += np.int64((word >> s3) & m3)
        sums[4, j] += np.int64((word >> s4) & m4)
        sums[5, j] += np.int64((word >> s5) & m5) - lift * n
        words[j] = 0


@njit(nogil=True, cache=True)
def scan_packed(side, i, packing, words, sums, rule, best):
    """Offer column i's pairs, six sums to a word, emptied into `sums` (6, C) before they spill."""
    shrinkage, min_support, tolerance = rule.shrinkage, rule.min_support, rule.tolerance
    least = best.least
    end = side.column_start[i + 1]
    later = sums[:, i + 1 :]
    for first in range(side.column_start[i], end, packing.capacity):
        add_words(side, first, min(first + packing.capacity, end), packing.table, words)
        empty_words(words[i + 1 :], packing, later)
    for j in range(i + 1, len(words)):
        n = sums[0, j]
        similarity = shrunk_correlation(
            n,
            sums[1, j],
            sums[2, j],
            sums[3, j],
            sums[4, j],
            sums[5, j],
            min(least[i], least[j]),
            shrinkage,
            min_support,
            tolerance,
        )
        if similarity > 0:
            if similarity >= least[i]:
                keep(best, i, j, similarity, n)
            if similarity >= least[j]:
                keep(best, j, i, similarity, n)
    later[:] = 0


@njit(nogil=True, cache=True)
def scan_whole_numbers(side, first, last, packing, rule, best):
    """Offer the pairs of columns first..last, scores on a grid of whole numbers: exact sums."""
    n_columns = len(side.column_start) - 1
    words = np.zeros(n_columns, np.uint64)
    dense = np.zeros((FIELDS, n_columns), np.int64)
    sparse = np.zeros((n_columns, FIELDS), np.int64)
    touched = np.empty(n_columns, np.int32)
    for i in range(first, last):
        # Packing sweeps over all later columns; with fewer pairs than those, it does not pay.
        if packing.capacity > 0 and column_work(side, i) > n_columns - i:
            scan_packed(side, i, packing, words, dense, rule, best)
        else:
            scan_directly(side, i, packing.middle, sparse, touched, rule, best)


@njit(nogil=True, cache=True)
def scan_reals(side, first, last, rule, best):
    """Offer the pairs of columns first..last, scores real numbers."""
    n_columns = len(side.column_start) - 1
    sums = np.zeros((n_columns, FIELDS), np.float64)
    touched = np.empty(n_columns, np.int32)
    for i in range(first, last):
        scan_directly(side, i, 0.0, sums, touched, rule, best)


@njit(nogil=True, cache=True)
def merge(into, other):
    """Keep the better of two sets of heaps."""
    for owner in range(len(other.size)):
        root = other.start[owner]
        for at in range(root, root + other.size[owner]):
            keep(into, owner, other.partner[at], other.similarity[at], other.support[at])


@njit(nogil=True, cache=True)
def both_ways(low, high, start, neighbour, edge):
    """Fill the adjacency of edges sorted by (low, high): lower neighbours first, then higher."""
    cursor = start[:-1].copy()
    for e in range(len(low)):
        at = cursor[high[e]]
        neighbour[at], edge[at] = low[e], e
        cursor[high[e]] += 1
    for e in range(len(low)):
        at = cursor[low[e]]
        neighbour[at], edge[at] = high[e], e
        cursor[low[e]] += 1
