"""How often each level was given."""

from __future__ import annotations

import numpy as np

from ordbm.data.csr import CSR
from ordbm.runtime.arrays import Array


def log_frequencies(levels: np.ndarray, n_levels: int) -> np.ndarray:
    """log of each level's share, half a rating added to each; zero for Gaussian ratings."""
    return log_shares(np.bincount(levels, minlength=n_levels))


def log_shares(count: Array) -> np.ndarray:
    """The same of levels that were given so often."""
    if len(count) == 1:
        return np.zeros(1)
    shares: np.ndarray = np.log((count + 0.5) / (count + 0.5).sum())
    return shares


def level_counts(columns: CSR, n_levels: int) -> Array:
    """How often each column was given each level, (C, n)."""
    cell = np.repeat(np.arange(columns.n_rows), np.diff(columns.start)) * n_levels + columns.level
    count = np.bincount(cell, minlength=columns.n_rows * n_levels)
    return count.reshape(columns.n_rows, n_levels)
