"""How often each level was given."""

from __future__ import annotations

import numpy as np


def log_frequencies(levels: np.ndarray, n_levels: int) -> np.ndarray:
    """log of each level's share, half a rating added to each; zero for Gaussian ratings."""
    if n_levels == 1:
        return np.zeros(1)
    count = np.bincount(levels, minlength=n_levels) + 0.5
    shares: np.ndarray = np.log(count / count.sum())
    return shares
