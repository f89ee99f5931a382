"""How sure a score is: the spread of its values over samples of users drawn with replacement.

Every score here is a ratio of sums over users (errors and ratings, utilities and the best
possible), so a resample is a vector of how often each user was drawn, and all scores share it:
differences between models on the same users are paired of themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ordbm.errors import RatingsError, SettingsError
from ordbm.runtime.arrays import Numbers
from ordbm.runtime.checks import check_count
from ordbm.runtime.printable import shown

RESAMPLES = 1000
_LEVEL = 0.95
_DRAWS_AT_ONCE = 4_000_000


def resampled_ratios(
    totals: Any, weights: Any, resamples: int = RESAMPLES, seed: int = 0
) -> Numbers:
    """Σ_u total / Σ_u weight in each resample of users, (resamples, scores).

    `totals` and `weights` are (users, scores); for a mean over users all weights are one. NaN
    where a resample has no weight.
    """
    check_count("resamples", resamples, least=1)
    check_count("seed", seed)
    parts = _columns(totals, "totals"), _columns(weights, "weights")
    if parts[0].shape != parts[1].shape:
        raise RatingsError(
            f"totals have shape {parts[0].shape} and weights {parts[1].shape}: they must be alike"
        )
    columns = np.hstack(parts)
    sums = np.empty((resamples, columns.shape[1]))
    random = np.random.default_rng(seed)
    n_users = len(columns)
    size = max(1, _DRAWS_AT_ONCE // n_users)
    for first in range(0, resamples, size):
        n = min(size, resamples - first)
        draws = random.integers(n_users, size=(n, n_users)) + n_users * np.arange(n)[:, None]
        times = np.bincount(draws.ravel(), minlength=n * n_users).reshape(n, n_users)
        sums[first : first + n] = times.astype(np.float64) @ columns
    total, weight = np.hsplit(sums, 2)
    return np.divide(total, weight, out=np.full(total.shape, np.nan), where=weight > 0)


def percentile_interval(samples: Any, level: float = _LEVEL) -> tuple[float, float]:
    """The percentile interval of resampled values (resamples,), those that are NaN left out."""
    if not 0 < level < 1:
        raise SettingsError(f"level={shown(level)}: must be between 0 and 1")
    values = np.asarray(samples, np.float64)
    values = values[~np.isnan(values)]
    if not len(values):
        raise RatingsError("no resampled values: an interval needs at least one")
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _columns(values: Any, name: str) -> Numbers:
    table = np.asarray(values, np.float64)
    if table.ndim != 2 or not table.size:
        raise RatingsError(f"{name} must be (users, scores), got an array of shape {table.shape}")
    if not np.isfinite(table).all():
        raise RatingsError(f"{name} must be finite numbers: use 0 where a user has no value")
    return table
