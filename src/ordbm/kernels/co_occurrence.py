"""Sums of a table's rows over ratings."""

from numba import njit

from ordbm.kernels.options import KERNEL


@njit(**KERNEL)
def fill_row_sums(start, column, weight, table, first, last, out):
    """out[r] = weight[r] times the sum of table[c] over the row's columns c, rows first..last."""
    for r in range(first, last):
        for b in range(table.shape[1]):
            out[r, b] = 0
        for position in range(start[r], start[r + 1]):
            c = column[position]
            for b in range(table.shape[1]):
                out[r, b] += table[c, b]
        for b in range(table.shape[1]):
            out[r, b] *= weight[r]
