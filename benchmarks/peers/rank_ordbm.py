"""ordbm's lists, with the settings given and everything else as `OrdinalBM()` has it.

One machine is listed by several scores, the setting `by`: it is learnt once and kept.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import rate_ordbm
from kept import kept
from protocol import peak_gb
from rank_protocol import LENGTH, Rank, RatingsPart, run

import ordbm
from ordbm.recommend.criteria import Energy, LongTail, Mixture, Rated

_fit: dict[str, Any] = {}  # what learning the machine took


def score_of(by: Any, entropy: float | None, long_tail: float | None) -> Any:
    """The score of this name; or the log-odds of being rated, less shares of the rating's entropy
    and of the log of the item's popularity.
    """
    if entropy is None or long_tail is None:
        return by
    return LongTail(Mixture((Rated(), 1 - entropy), (Energy(), entropy)), long_tail)


def fit(
    ratings: RatingsPart,
    by: Any = None,
    entropy: float | None = None,
    long_tail: float | None = None,
    **settings: Any,
) -> Rank:
    """`OrdinalBM(**settings)`, its lists by `score_of`, or by its own choice."""
    name = name_of(ratings, settings)
    model, took = kept(name, settings, lambda: learnt(ratings, settings))
    _fit.update(took)
    return lists_of(model, score_of(by, entropy, long_tail))


def name_of(ratings: RatingsPart, settings: dict[str, Any]) -> str:
    """A name for the machine that has these settings and learns from these ratings."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for column in (ratings.user, ratings.item, ratings.level, ratings.values):
        digest.update(column.tobytes())
    return f"ranking/{digest.hexdigest()[:16]}"


def learnt(ratings: RatingsPart, settings: dict[str, Any]) -> ordbm.OrdinalBM:
    """The fitted machine."""
    train = ordbm.Ratings(ratings.user, ratings.item, ratings.rating, scale=ratings.values)
    return rate_ordbm.model_of(settings).fit(train)


def lists_of(model: ordbm.OrdinalBM, by: Any) -> Rank:
    """The machine's lists by a score."""

    def rank(seen: RatingsPart, n: int) -> np.ndarray:
        lists = np.full((seen.n_users, n), -1, np.int32)
        for user, listed in model.recommend_lists(n=n, by=by).items():
            lists[user, : len(listed)] = [item for item, _ in listed]
        return lists

    return rank


def warm_up(
    ratings: RatingsPart,
    by: Any = None,
    entropy: float | None = None,
    long_tail: float | None = None,
    **settings: Any,
) -> Rank:
    """A small fit and its lists, so that compiling is not timed."""
    some = ratings.select(np.arange(min(rate_ordbm.WARM_UP, len(ratings.user))))
    rank = lists_of(learnt(some, settings), score_of(by, entropy, long_tail))
    rank(some, LENGTH)
    return rank


def about(
    by: Any = None, entropy: float | None = None, long_tail: float | None = None, **settings: Any
) -> dict[str, Any]:
    """All settings in force, and the machine with what its fit took."""
    peak = max(_fit["peak_gb"], peak_gb())
    score = repr(score_of(by, entropy, long_tail))
    return {**rate_ordbm.about(**settings), "by": score, **_fit, "peak_gb": peak}


if __name__ == "__main__":
    run(fit, ["ordbm", "numba"], warm_up, about)
