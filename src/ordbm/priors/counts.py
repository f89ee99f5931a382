"""What the number of ratings says of their levels, and of how much can be learnt from them."""

from __future__ import annotations

import numpy as np

from ordbm.data.level_counts import log_shares
from ordbm.model.learners import Priors
from ordbm.runtime.arrays import Array


def count_potentials(levels: Array, weight: float) -> tuple[Array, Array]:
    """What the number of a column's other ratings says of a level: potentials (columns, n).

    And that of a column without ratings, (n,). `levels` (columns, n) is how often each column was
    given each level. Columns with few ratings are rated differently from those with many; each
    octave of counts has a potential of its own, its levels' log frequencies over those of all, as
    if `weight` more ratings in it were like all others. Zero if weight is 0.
    """
    count, n_levels = levels.sum(axis=1), levels.shape[1]
    log2_bin = np.log2(np.maximum(count, 1)).astype(np.int64)
    shares = np.exp(log_shares(levels.sum(axis=0)))
    n_bins = int(log2_bin.max(initial=0)) + 1
    potential = np.zeros((n_bins, n_levels))
    if weight > 0 and n_levels > 1:
        table = np.stack([np.bincount(log2_bin, of_level, n_bins) for of_level in levels.T], axis=1)
        total = table.sum(axis=1, keepdims=True)
        potential = np.log((table / shares + weight) / (total + weight))
    return potential[log2_bin], potential[0] if (count == 1).any() else np.zeros(n_levels)


def count_adaptive_precision(
    priors: Priors, column_counts: Array, n_hidden: int, tightness: float = 1.0
) -> float:
    """tau (1 + tightening lack) for couplings of columns with these counts to so many hidden units.

    Or `tightness` tau, if that is more.

    lack = (short - 1) / (scarcity - 1), from 0 to 1, where short = ratings_per_unit n_hidden /
    typical count. Couplings are fitted, not averaged over. Where there are many for few ratings
    they fit noise, and a tighter prior makes up for it. The typical count is the root of the mean
    square: between that of a column and that of a rating's column.
    """
    counts = np.asarray(column_counts, np.float64)
    n_rated = np.count_nonzero(counts)
    typical = np.sqrt((counts**2).sum() / max(n_rated, 1))
    short = priors.ratings_per_unit * n_hidden / max(typical, 1.0)
    lack = np.clip((short - 1.0) / (priors.scarcity - 1.0), 0.0, 1.0)
    return float(priors.coupling_precision * max(tightness, 1.0 + priors.tightening * lack))
