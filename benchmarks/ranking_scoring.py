"""The scorer of the ranking benchmark: the only place where held-out ratings are read.

Each measure is taken twice: with the held-out items that the user liked, rated three quarters of
the way up the scale or more (4 of 1 to 5), as the relevant ones, and with any held-out item.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from splits import Stored

from ordbm.data.scale import RatingScale
from ordbm.evaluation.evaluations import resampled_scores, score_from_ratio
from ordbm.evaluation.list_hits import ListHits, ranking_sums
from ordbm.metrics.bootstrap import percentile_interval
from ordbm.recommend.criteria import least_relevant

LENGTHS = (5, 10, 20, 100)
TUNED_FOR = ("liked.ndcg@10", "any.half_life_utility")  # the measures settings are chosen by


class HeldOut(NamedTuple):
    """What lists are scored by: held-out ratings, and how many users' ratings taught each item."""

    user: np.ndarray
    item: np.ndarray
    liked: np.ndarray
    popularity: np.ndarray  # (items,)


def held_out(stored: Stored, validate: bool) -> HeldOut:
    """The validation part of the training ratings, or the test ratings."""
    with np.load(stored.train) as train:
        known = ~train["validation"] if validate else np.ones(len(train["user"]), bool)
        popularity = np.bincount(train["item"][known], minlength=int(train["n_items"]))
        values = train["values"]
        user, item, level = (train[name][~known] for name in ("user", "item", "level"))
    if not validate:
        with np.load(stored.pairs) as pairs, np.load(stored.answers) as answers:
            user, item, level = pairs["user"], pairs["item"], answers["level"]
    liked = values[level] >= least_relevant(RatingScale(values), None)
    return HeldOut(user.astype(np.int64), item.astype(np.int64), liked, popularity)


def hits_of(lists: np.ndarray, answers: HeldOut, relevant: np.ndarray) -> ListHits:
    """Hits of the users who have relevant items."""
    n_items = len(answers.popularity)
    count = np.bincount(answers.user[relevant], minlength=len(lists))
    users = np.flatnonzero(count)
    pair = users[:, None] * n_items + lists[users]
    hits = np.isin(pair, (answers.user * n_items + answers.item)[relevant]) & (lists[users] >= 0)
    return ListHits(users, hits, count[users], {}, 0.0)


def novelty_sums(lists: np.ndarray, popularity: np.ndarray, n: int) -> Any:
    """−log2 of the share of users who rated an item, over a list's first n: mean per user, and 1.

    An item that nobody rated counts as rated by one.
    """
    listed = lists[:, :n] >= 0
    surprise = -np.log2(np.maximum(popularity, 1) / len(lists))[lists[:, :n]]
    return (surprise * listed).sum(axis=1) / np.maximum(listed.sum(axis=1), 1), np.ones(len(lists))


def scores(
    lists: np.ndarray, answers: HeldOut, resamples: int
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """All figures, and the intervals of those that are ratios of sums over users.

    `lists` (users, positions) are item numbers, −1 where a list has ended.
    """
    tested = np.unique(answers.user)
    groups = {
        f"{name}.": ranking_sums(hits_of(lists, answers, relevant), LENGTHS)
        for name, relevant in (("liked", answers.liked), ("any", np.ones_like(answers.liked)))
    }
    groups[""] = {
        f"novelty@{n}": novelty_sums(lists[tested], answers.popularity, n) for n in LENGTHS
    }
    figures, intervals = {}, {}
    for prefix, sums in groups.items():
        for name, (total, weight) in sums.items():
            figures[prefix + name] = float(score_from_ratio(name, total.sum() / weight.sum()))
        if resamples:
            for name, samples in resampled_scores(sums, resamples, seed=0).items():
                intervals[prefix + name] = percentile_interval(samples)
    for n in LENGTHS:
        listed = np.unique(lists[tested, :n])
        figures[f"coverage@{n}"] = float((listed >= 0).sum() / len(answers.popularity))
    return figures, intervals
