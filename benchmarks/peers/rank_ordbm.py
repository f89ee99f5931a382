"""ordbm's lists, with the settings given and everything else as `OrdinalBM()` has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import rate_ordbm
from rank_protocol import LENGTH, Rank, RatingsPart, run

import ordbm


def fit(ratings: RatingsPart, by: Any = None, **settings: Any) -> Rank:
    """`OrdinalBM(**settings)`, its lists by `by`, or by its own choice."""
    train = ordbm.Ratings(ratings.user, ratings.item, ratings.rating, scale=ratings.values)
    model = ordbm.OrdinalBM(**settings).fit(train)
    how = {} if by is None else {"by": by}

    def rank(seen: RatingsPart, n: int) -> np.ndarray:
        lists = np.full((seen.n_users, n), -1, np.int32)
        for user, listed in model.recommend_all(n=n, **how).items():
            lists[user, : len(listed)] = [item for item, _ in listed]
        return lists

    return rank


def warm_up(ratings: RatingsPart, **settings: Any) -> Rank:
    """A small fit and its lists, so that compiling is not timed."""
    some = ratings.select(np.arange(min(rate_ordbm.WARM_UP, len(ratings.user))))
    rank = fit(some, **settings)
    rank(some, LENGTH)
    return rank


def about(by: Any = None, **settings: Any) -> dict[str, Any]:
    """All settings in force, and a checksum of the code."""
    return {**rate_ordbm.about(**settings), "by": by}


if __name__ == "__main__":
    run(fit, ["ordbm", "numba"], warm_up, about)
