"""Scores of ranked lists, one value per user: larger is better.

`hits` (users, positions) says which of the listed items are relevant, best first; a short list is
filled up with zeros. A user without relevant items has no recall and no nDCG: NaN, to be left out
of a mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ordbm.data.numeric_columns import finite_numbers
from ordbm.errors import RatingsError, SettingsError, offending_rows
from ordbm.metrics.array_checks import check_same_length, gain_table
from ordbm.runtime.arrays import Numbers
from ordbm.runtime.checks import check_count, float_of
from ordbm.runtime.printable import shown

HALF_LIFE = 5.0  # the paper's alpha


def precision(hits: Any, n: int) -> Numbers:
    """The share of relevant items among the first n; a list shorter than n is no excuse."""
    return _hits(hits, n).sum(axis=1) / n


def recall(hits: Any, n_relevant: Any, n: int) -> Numbers:
    """The share of the user's relevant items that are among the first n."""
    found = _hits(hits, n).sum(axis=1)
    return _ratio(found, _counts(n_relevant, found))


def ndcg(gains: Any, best: Any, n: int) -> Numbers:
    """DCG of the first n over the highest possible, DCG = Σ_p gain_p / log2(p + 1).

    `gains` (users, positions) are those of the listed items, zero or one for relevance or graded;
    `best` (users, any) those of all the user's relevant items, in any order, filled up with zeros.
    """
    check_count("n", n, least=1)
    listed = gain_table(gains, "gains")[:, :n]
    ideal = -np.sort(-gain_table(best, "best gains"), axis=1)[:, :n]
    check_same_length(gains=listed, best=ideal)
    discount = 1.0 / np.log2(np.arange(2.0, n + 2))
    return _ratio(listed @ discount[: listed.shape[1]], ideal @ discount[: ideal.shape[1]])


def reciprocal_rank(hits: Any) -> Numbers:
    """1 / position of the first relevant item, zero if none is listed."""
    found = _hits(hits, None)
    if not found.shape[1]:
        return np.zeros(len(found))
    return found.any(axis=1) / (found.argmax(axis=1) + 1.0)


def half_life_sums(
    hits: Any, n_relevant: Any, half_life: float = HALF_LIFE
) -> tuple[Numbers, Numbers]:
    """π_u = Σ_p 2^{−(p−1)/(α−1)} over hits, and π_u^max: all T_u relevant items on top (4.3).

    As in the paper the best possible is not cut at the length of the list.
    """
    if not 1 < float_of(half_life) < np.inf:
        raise SettingsError(f"half_life={shown(half_life)}: must be above 1")
    found = _hits(hits, None)
    count = _counts(n_relevant, found)
    decay = 2.0 ** (-1.0 / (half_life - 1.0))
    utility = found @ decay ** np.arange(found.shape[1])
    return utility, (1.0 - decay**count) / (1.0 - decay)


def half_life_utility(hits: Any, n_relevant: Any, half_life: float = HALF_LIFE) -> float:
    """100 Σ_u π_u / Σ_u π_u^max, the ranking utility of section 4.3."""
    utility, best = half_life_sums(hits, n_relevant, half_life)
    if not best.any():
        raise RatingsError("no user has relevant items: half-life utility is not defined")
    return float(100.0 * utility.sum() / best.sum())


def _hits(hits: Any, n: int | None) -> Numbers:
    if n is not None:
        check_count("n", n, least=1)
    table = gain_table(hits, "hits")
    bad = ((table != 0) & (table != 1)).any(axis=1)
    if bad.any():
        where = offending_rows(bad, values=table.tolist())
        raise RatingsError(f"hits must be 0 or 1, false or true: {where}")
    return table[:, :n]


def _counts(n_relevant: Any, rows: Numbers) -> Numbers:
    counts = finite_numbers(n_relevant, "counts")
    check_same_length(users=rows, counts=counts)
    if (counts < 0).any():
        where = offending_rows(counts < 0, count=counts)
        raise RatingsError(f"counts of relevant items must not be negative: {where}")
    return counts


def _ratio(value: Numbers, best: Numbers) -> Numbers:
    return np.divide(value, best, out=np.full(len(value), np.nan), where=best > 0)
