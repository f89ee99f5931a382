"""What somebody's other ratings, each by how near its context is, say of a rating's context.

The context of a rating is a number beside it: its time, or the code of a category. Two ratings hang
together by kappa(a, b) = e^(-|a - b| / scale), or, at scale zero, as far as a = b.
"""

import math

import numpy as np
from numba import njit

from ordbm.kernels.options import KERNEL


@njit(**KERNEL)
def context_means(
    begin, end, person, item, at, start, column, place, residual, scales, shrinkage, out
):  # fmt: skip
    """out[p, k, f] = sum_j kappa_k(at_p, place_j) residual[j, f] / (c + sum_j kappa_k).

    j runs over the ratings of the pair's person but the pair's own; a place of NaN is here and now.
    `residual` (N, F), `out` (pairs, K, F).
    """
    for p in range(begin, end):
        out[p] = 0
        for k in range(scales.size):
            total = shrinkage
            for j in range(start[person[p]], start[person[p] + 1]):
                if column[j] == item[p]:
                    continue
                apart = abs(at[p] - place[j])
                if np.isnan(apart):
                    near = 1.0
                elif scales[k] > 0:
                    near = math.exp(-apart / scales[k])
                else:
                    near = 1.0 if apart == 0 else 0.0
                total += near
                for f in range(residual.shape[1]):
                    out[p, k, f] += near * residual[j, f]
            for f in range(residual.shape[1]):
                out[p, k, f] /= total
