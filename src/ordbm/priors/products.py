"""Products of tall tables, the same bits on any number of threads."""

from __future__ import annotations

import numpy as np

from ordbm.kernels.products import add_crossed, fill_multiplied
from ordbm.runtime.arrays import Array
from ordbm.runtime.threads import run_on_threads, share

COLUMNS_AT_ONCE = 16  # threads part a table at multiples of it, so that vectors end there too


def cross_product(x: Array, y: Array, threads: int = 1) -> Array:
    """x' y in float64, for tables (C, a) and (C, b)."""
    total = np.zeros((x.shape[1], y.shape[1]))
    parts = -(-y.shape[1] // COLUMNS_AT_ONCE)

    def work(thread: int) -> None:
        first, last = (COLUMNS_AT_ONCE * part for part in share(parts, thread, threads))
        add_crossed(x, y, first, min(last, y.shape[1]), total)

    run_on_threads(threads, work)
    return total


def table_product(x: Array, y: Array, threads: int = 1) -> Array:
    """x y in the type of x, for tables (C, a) and (a, b)."""
    out = np.empty((len(x), y.shape[1]), x.dtype)
    y = np.ascontiguousarray(y, x.dtype)
    run_on_threads(
        threads, lambda thread: fill_multiplied(x, y, *share(len(x), thread, threads), out)
    )
    return out
