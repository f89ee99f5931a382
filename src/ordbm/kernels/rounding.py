"""Tables of parameters as whole numbers of a quantum, and back; see `model.rounding`.

A whole number z is kept as 2 z, or -2 z - 1 if it is negative, in bytes, the lowest first, each
byte of all numbers in a plane of its own: the high ones hardly vary, and pack well.
"""

import numpy as np
from numba import njit

from ordbm.kernels.options import KERNEL

LINE = 16  # numbers of a line of the cache


@njit(**KERNEL)
def round_columns(begin, end, table, axes, quantum, out):
    """out[j, c, k] = table[c, :, k] along axis j, in quanta; columns begin..end."""
    n = axes.shape[0]
    for c in range(begin, end):
        for j in range(n):
            for k in range(out.shape[2]):
                along = 0.0
                for s in range(n):
                    along += axes[s, j] * table[c, s, k]
                out[j, c, k] = np.rint(along / quantum)


@njit(**KERNEL)
def restore_columns(begin, end, whole, axes, quantum, out):
    """The inverse of `round_columns`."""
    n = axes.shape[0]
    for c in range(begin, end):
        for s in range(n):
            row = out[c, s]
            for k in range(whole.shape[2]):
                row[k] = 0
            for j in range(n):
                amount = out.dtype.type(axes[s, j] * quantum)
                for k in range(whole.shape[2]):
                    row[k] += amount * whole[j, c, k]


@njit(**KERNEL)
def split_planes(number, out):
    """out[p, i] = byte p of number[i]."""
    for p in range(out.shape[0]):
        for i in range(number.size):
            z = number[i]
            out[p, i] = (((z << 1) ^ (z >> 31)) >> (8 * p)) & 0xFF


@njit(**KERNEL)
def join_plane(begin, end, plane, p, n_planes, out):
    """The inverse of `split_planes`, plane by plane: columns begin..end of plane (n, C, d)."""
    place = np.int32(8 * p)
    for j in range(plane.shape[0]):
        for c in range(begin, end):
            row = out[j, c - begin]
            for k in range(row.size):
                known = row[k] if p else np.int32(0)
                row[k] = known | (np.int32(plane[j, c, k]) << place)
            if p == n_planes - 1:
                for k in range(row.size):
                    row[k] = ((row[k] >> 1) & 0x7FFFFFFF) ^ -(row[k] & 1)


@njit(**KERNEL)
def fill_symmetric(upper, out):
    """out[i, j] = out[j, i] = the entries above the diagonal, row after row."""
    size = out.shape[0]
    for first in range(0, size, LINE):
        last = min(first + LINE, size)
        for j in range(last):  # below the diagonal, column by column, where they are side by side
            place = j * size - j * (j + 1) // 2 - j - 1
            for i in range(max(first, j + 1), last):
                out[i, j] = upper[place + i]
        for i in range(first, last):
            place = i * size - i * (i + 1) // 2 - i - 1
            out[i, i] = 0
            for j in range(i + 1, size):
                out[i, j] = upper[place + j]
