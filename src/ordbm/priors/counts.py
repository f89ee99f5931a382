"""What the number of ratings says of their levels, and of how much can be learnt from them."""

from __future__ import annotations

import numpy as np

from ordbm.data.level_counts import log_shares
from ordbm.model.learners import Priors
from ordbm.runtime.arrays import Array


def count_potentials(levels: Array, weight: float) -> tuple[Array, Array]:
    """What the number of a column's other ratings says of a level: potentials (columns, n).

    And that of a column of which nothing is known, (n,). `levels` (columns, n) is how often each
    column was given each level. Columns with few ratings are rated differently from those with
    many; each octave of counts has a potential of its own, its levels' log frequencies over those
    of all, as if `weight` more ratings in it were like all others. How often the unknown will be
    rated nobody can tell: their octave is all columns, each counting for the root of its ratings,
    halfway from a typical column to a typical rating's. Zero if weight is 0.
    """
    count, n_levels = levels.sum(axis=1), levels.shape[1]
    log2_bin = np.log2(np.maximum(count, 1)).astype(np.int64)
    if weight <= 0 or n_levels == 1:
        return np.zeros(levels.shape), np.zeros(n_levels)
    n_bins = int(log2_bin.max(initial=0)) + 1
    table = np.stack([np.bincount(log2_bin, of_level, n_bins) for of_level in levels.T], axis=1)
    of_all = (levels / np.sqrt(np.maximum(count, 1))[:, None]).sum(axis=0)
    table = np.concatenate([table, of_all[None]])
    shares = np.exp(log_shares(levels.sum(axis=0)))
    potential = np.log((table / shares + weight) / (table.sum(axis=1, keepdims=True) + weight))
    return potential[log2_bin], potential[-1]


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
