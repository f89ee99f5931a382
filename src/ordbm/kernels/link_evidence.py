"""Evidence for links: gradient, spread and curvature of each pair's weight, over common raters.

For columns i < j the kernel sums over the rows that rated both, by walking, for each rating of
column i, the rest of its row. A pair of ratings is met once.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from ordbm.kernels.links import first_upper
from ordbm.kernels.options import KERNEL

EVIDENCE_SUMS = 4  # n, sum x, sum x^2, sum h


class Residuals(NamedTuple):
    """Ratings by row, and how each would feel a link to any other of its row."""

    start: np.ndarray  # (R + 1,) int64
    column: np.ndarray  # (N,) int32, ascending within a row
    level: np.ndarray  # (N,) uint8
    value: np.ndarray  # (N,), empty on a scale of levels
    felt: np.ndarray  # (N, n) sum_s D(s) f(s, l): residuals as a rating at level l feels them
    spread: np.ndarray  # (N, n) Var f(., l) under the conditional distribution
    column_start: np.ndarray  # (C + 1,) int64
    rater: np.ndarray  # (N,) int32, the rows of a column
    place: np.ndarray  # (N,) position of that rating in row order


class Partners(NamedTuple):
    """Room for what a column finds."""

    partner: np.ndarray  # (C,) int32
    support: np.ndarray  # (C,) int32
    gradient: np.ndarray  # (C,) float64: g + lambda sum h
    z: np.ndarray  # (C,) float64
    curvature: np.ndarray  # (C,) float64: sum h


@njit(**KERNEL)
def scan_column(i, side, links, weight, least, fewest, sums, touched, out):
    """Partners j > i with z^2 at least `least`, into `out`: (how many, of how many, positive ones).

    z = (sum x + lambda sum h) / sqrt(sum x^2), the score at lambda = 0, one step of Newton's from
    where the weight is, with x = felt_i(r_j) + felt_j(r_i) and h its variances. `sums` (C, 4) is
    zero, before and after; `touched` is (C,). Tested are pairs with `fewest` common rows.
    """
    start, column, level, value = side.start, side.column, side.level, side.value
    n_touched = 0
    for p in range(side.column_start[i], side.column_start[i + 1]):
        at = np.int64(side.place[p])
        own = level[at]
        own_value = value[at] if value.size else 1.0
        for other in range(at + 1, start[side.rater[p] + 1]):
            j = np.int64(column[other])
            theirs = level[other]
            their_value = value[other] if value.size else 1.0
            x = side.felt[at, theirs] * their_value + side.felt[other, own] * own_value
            h = (
                side.spread[at, theirs] * their_value * their_value
                + side.spread[other, own] * own_value * own_value
            )
            pair = sums[j]
            if pair[0] == 0:
                touched[n_touched] = j
                n_touched += 1
            pair[0] += 1
            pair[1] += x
            pair[2] += x * x
            pair[3] += h
    # The weight that the pair has already.
    for place in range(first_upper(i, links), links.start[i + 1]):
        j = links.neighbour[place]
        sums[j, 1] += weight[links.edge[place]] * sums[j, 3]
    count = tested = positive = 0
    for t in range(n_touched):
        j = touched[t]
        pair = sums[j]
        is_tested = pair[0] >= fewest and pair[2] > 0
        tested += is_tested
        positive += is_tested and pair[1] > 0
        if is_tested and pair[1] * pair[1] >= least * pair[2]:
            out.partner[count] = j
            out.support[count] = np.int32(pair[0])
            out.gradient[count] = pair[1]
            out.z[count] = pair[1] / np.sqrt(pair[2])
            out.curvature[count] = pair[3]
            count += 1
        for field in range(pair.size):
            pair[field] = 0
    return count, tested, positive
