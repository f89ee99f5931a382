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

from ordbm.kernels.options import INNER, KERNEL

EXACT_KERNEL = {**KERNEL, "fastmath": False}  # equal correlations are ties: sums as written
EXACT_INNER = {**INNER, "fastmath": False}
FIELDS = 6  # n, Σx, Σy, Σx², Σy², Σxy


class ScoredRatings(NamedTuple):
    """One set of ratings by row, and where the ratings of each column stand in it."""

    start: np.ndarray  # (R + 1,) int64
    column: np.ndarray  # (N,) int32, ascending within a row
    score: np.ndarray  # (N,) uint8 grid positions if packed, else centred floats
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
    shift: np.ndarray  # (6,) uint64, of each field
    mask: np.ndarray  # (6,) uint64
    capacity: int  # co-ratings a word can hold
    middle: int  # grid position that scores are centred on
    lift: int  # added to each product, so that no field is ever negative


class Best(NamedTuple):
    """For each column a list of partners, the best first."""

    start: np.ndarray  # (C + 1,) int64, room of each column
    size: np.ndarray  # (C,) int32
    least: np.ndarray  # (C,) float32: what a newcomer must reach, zero while there is room
    similarity: np.ndarray  # float32
    support: np.ndarray  # int32
    partner: np.ndarray  # int32


@njit(**EXACT_INNER)
def keep(best, owner, partner, similarity, support):
    """Put a partner into the owner's list, by (similarity, support, lower column), if it has room.

    Lists are short and few partners enter them, so that each is put in its place at once.
    """
    first = best.start[owner]
    end = best.start[owner + 1]
    at = first + best.size[owner]
    while at > first:
        other = at - 1
        if similarity != best.similarity[other]:
            above = similarity > best.similarity[other]
        elif support != best.support[other]:
            above = support > best.support[other]
        else:
            above = partner < best.partner[other]
        if not above:
            break
        if at < end:
            best.similarity[at] = best.similarity[other]
            best.support[at] = best.support[other]
            best.partner[at] = best.partner[other]
        at = other
    if at == end:
        return
    best.similarity[at] = similarity
    best.support[at] = support
    best.partner[at] = partner
    if first + best.size[owner] < end:
        best.size[owner] += 1
    if first + best.size[owner] == end:
        best.least[owner] = best.similarity[end - 1]


@njit(**EXACT_INNER)
def offer(i, j, sums, rule, best):
    """Keep i and j, whose `sums` (6,) are given, as partners of each other if they are similar.

    r = (nΣxy − ΣxΣy) / √((nΣx² − (Σx)²)(nΣy² − (Σy)²)), times n / (n + shrinkage)

    Not where it is undefined, not positive, or below what both have by more than rounding. In
    float32, so that correlations equal but for rounding are ties; sums of whole numbers are exact.
    """
    n, sx, sy, sxx, syy, sxy = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
    covariance = n * sxy - sx * sy
    if n < rule.min_support or covariance <= 0:
        return
    variance_x = n * sxx - sx * sx
    variance_y = n * syy - sy * sy
    tolerance = rule.tolerance
    if variance_x <= tolerance * n * sxx or variance_y <= tolerance * n * syy:
        return
    square = covariance * covariance
    if tolerance > 0 and square <= tolerance * n * sxx * tolerance * n * syy:
        return
    weight = n / (n + rule.shrinkage)
    product = variance_x * variance_y
    least = min(best.least[i], best.least[j])
    if square * weight * weight < 0.99999 * least * least * product:  # spares most pairs the root
        return
    similarity = np.float32(min(covariance / np.sqrt(product), 1.0) * weight)
    for turn in range(2):
        owner = j if turn else i
        if similarity > 0 and similarity >= best.least[owner]:
            keep(best, owner, i + j - owner, similarity, np.int64(n))


@njit(**EXACT_KERNEL)
def scan_directly(side, first, last, sums, touched, rule, best):
    """Offer the pairs of columns first..last; cost in proportion to the co-ratings met.

    `sums` (C, 6) is zero, before and after; `touched` is (C,).
    """
    start, column, score, place, rater = side.start, side.column, side.score, side.place, side.rater
    for i in range(first, last):
        n_touched = 0
        for p in range(side.column_start[i], side.column_start[i + 1]):
            q = np.int64(place[p])
            x = score[q]
            for other in range(q + 1, start[rater[p] + 1]):
                j = np.int64(column[other])
                y = score[other]
                pair = sums[j]
                if pair[0] == 0:
                    touched[n_touched] = j
                    n_touched += 1
                pair[0] += 1
                pair[1] += x
                pair[2] += y
                pair[3] += x * x
                pair[4] += y * y
                pair[5] += x * y
        for t in range(n_touched):
            j = np.int64(touched[t])
            offer(i, j, sums[j], rule, best)
            for field in range(FIELDS):
                sums[j, field] = 0


@njit(inline="always")
def add_words(side, first, last, table, words):
    """Add the co-ratings of ratings first..last of a column to the words (C,) of its partners."""
    start, column, score, place, rater = side.start, side.column, side.score, side.place, side.rater
    for p in range(first, last):
        q = np.int64(place[p])
        x = score[q]
        for other in range(q + 1, start[rater[p] + 1]):
            words[np.uint32(column[other])] += table[x, score[other]]


@njit(inline="always")
def empty_words(first, words, packing, sums):
    """Add the fields of the words (C,) from `first` on to sums (C, 6), centred; words are zero."""
    middle, lift, shift, mask = packing.middle, packing.lift, packing.shift, packing.mask
    for j in range(first, words.size):
        word = words[j]
        if word == 0:
            continue
        n = np.int64((word >> shift[0]) & mask[0])
        sums[j, 0] += n
        sums[j, 1] += np.int64((word >> shift[1]) & mask[1]) - middle * n
        sums[j, 2] += np.int64((word >> shift[2]) & mask[2]) - middle * n
        sums[j, 3] += np.int64((word >> shift[3]) & mask[3])
        sums[j, 4] += np.int64((word >> shift[4]) & mask[4])
        sums[j, 5] += np.int64((word >> shift[5]) & mask[5]) - lift * n
        words[j] = 0


@njit(**EXACT_KERNEL)
def scan_packed(side, first, last, packing, words, sums, rule, best):
    """Offer the pairs of columns first..last, whose scores are whole numbers.

    Six sums make a word; words (C,) are emptied into `sums` (C, 6) before they spill, and all later
    columns are swept. Both are zero, before and after.
    """
    for i in range(first, last):
        end = side.column_start[i + 1]
        for begin in range(side.column_start[i], end, packing.capacity):
            add_words(side, begin, min(begin + packing.capacity, end), packing.table, words)
            empty_words(i + 1, words, packing, sums)
        for j in range(i + 1, words.size):
            if sums[j, 0] > 0:
                offer(i, j, sums[j], rule, best)
                for field in range(FIELDS):
                    sums[j, field] = 0


@njit(**EXACT_KERNEL)
def merge(into, other):
    """Keep the better of two sets of lists."""
    for owner in range(other.size.size):
        root = other.start[owner]
        for at in range(root, root + other.size[owner]):
            keep(
                into, owner, np.int64(other.partner[at]), other.similarity[at],
                np.int64(other.support[at]),
            )  # fmt: skip
