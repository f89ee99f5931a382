"""Products of tall tables.

Each number is summed in one order whatever the threads, as a library of linear algebra would not.
"""

from numba import njit

from ordbm.kernels.options import KERNEL

TOGETHER = 4  # rows whose products are added at once


@njit(**KERNEL)
def add_crossed(x, y, first, last, total):
    """total (a, b) += x' y, for x (C, a) and y (C, b); only columns first..last of y."""
    whole = len(x) - len(x) % TOGETHER
    for c in range(0, whole, TOGETHER):
        for a in range(x.shape[1]):
            x0, x1, x2, x3 = x[c, a], x[c + 1, a], x[c + 2, a], x[c + 3, a]
            for b in range(first, last):
                total[a, b] += (x0 * y[c, b] + x1 * y[c + 1, b]) + (
                    x2 * y[c + 2, b] + x3 * y[c + 3, b]
                )
    for c in range(whole, len(x)):
        for a in range(x.shape[1]):
            for b in range(first, last):
                total[a, b] += x[c, a] * y[c, b]


@njit(**KERNEL)
def fill_multiplied(x, y, first, last, out):
    """out[c] = x[c] y for the rows first..last, with x (C, a) and y (a, b)."""
    for c in range(first, last):
        for b in range(y.shape[1]):
            out[c, b] = 0
        for a in range(y.shape[0]):
            weight = x[c, a]
            for b in range(y.shape[1]):
                out[c, b] += weight * y[a, b]
