"""Pearson correlations of one row with all others, over what both rated.

`kernels.correlation` has the same formula for all pairs of columns: compiled, shrunk, and in single
precision, where it can pass over most pairs without a root.
"""

from __future__ import annotations

import numpy as np

from ordbm.model.neighbours import ROUNDING
from ordbm.runtime.arrays import Codes, Numbers


def group_correlations(
    group: Codes, x: Numbers, y: Numbers, n_groups: int
) -> tuple[Numbers, Numbers]:
    """r = (nΣxy − ΣxΣy) / √((nΣx² − (Σx)²)(nΣy² − (Σy)²)) of each group's pairs, and n: (groups,).

    Zero where it is undefined, and where it is zero but for rounding. Times n, all is exact for
    levels: equal correlations do tie. Far from zero, numbers are to be given less their mean.
    """
    n = np.bincount(group, minlength=n_groups).astype(np.float64)
    sx, sy, sxx, syy, sxy = (
        np.bincount(group, weight, n_groups) for weight in (x, y, x * x, y * y, x * y)
    )
    covariance = n * sxy - sx * sy
    variance = n * sxx - sx**2, n * syy - sy**2
    varied = (variance[0] > ROUNDING * n * sxx) & (variance[1] > ROUNDING * n * syy)
    varied &= np.abs(covariance) > ROUNDING * n * np.sqrt(sxx * syy)
    r = np.zeros(n_groups)
    r[varied] = covariance[varied] / np.sqrt(variance[0][varied] * variance[1][varied])
    return r, n
