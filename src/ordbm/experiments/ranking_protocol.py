"""Ranked lists of section 4.3: candidates are what the most similar users rated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from ordbm.data.ratings import Ratings
from ordbm.data.scale import Scale, level_values
from ordbm.inference.catalogue import USERS_IN_BLOCK, By, Catalogue
from ordbm.inference.top_n import top_columns
from ordbm.metrics.ranking import half_life_utility, precision, recall
from ordbm.model.presence import ConditionedPresence
from ordbm.recommend.candidates import SIMILAR_USERS, similar_rows
from ordbm.recommend.criteria import least_relevant
from ordbm.runtime.arrays import Array

Counts = NDArray[np.uint16]
Hits = NDArray[np.bool_]
ListScore = Callable[[NDArray[np.int32]], Array]  # of users: (users, items)

# What machines rank by, and its sign. The energy's expected decrease is -Delta E; section 2.4 calls
# Delta E itself the decrease, which read literally is the opposite order.
ORDERS: dict[str, tuple[By, int]] = {
    "energy": ("energy", 1),
    "energy as printed": ("energy", -1),
    "mean": ("mean", 1),
}


def neighbour_counts(train: Ratings) -> Counts:
    """How many of each user's most similar users rated each item, (users, items).

    Zero for what the user has rated: these are the candidates, and the baseline's scores.
    """
    by_user, by_item = train.by_user, train.by_item
    values = level_values(train.scale)
    count = np.zeros((train.n_users, train.n_items), np.uint16)
    for user, row in enumerate(count):
        for similar in similar_rows(by_user, by_item, user, values, SIMILAR_USERS):
            row[by_user.column[by_user.start[similar] : by_user.start[similar + 1]]] += 1
    count[train.user_codes, train.item_codes] = 0
    return count


def machine_score(catalogue: Catalogue, order: str, values: Array | None) -> ListScore:
    """What a machine ranks by, larger first, as a function of users."""
    by, sign = ORDERS[order]
    return lambda users: sign * catalogue.scores(users, by, values)


def presence_scores(
    catalogue: Catalogue, presence: ConditionedPresence | None, scale: Scale
) -> dict[str, ListScore]:
    """What a machine ranks by that has learnt which items get rated; nothing without that.

    By how likely an item is to be rated, and to be rated three quarters up the scale or higher.
    """
    if presence is None:
        return {}
    values = level_values(scale)
    assert values is not None
    liked = values >= least_relevant(scale, None)

    def log_liked(users: NDArray[np.int32]) -> Array:
        proba = catalogue.scores(users, "mean", liked)  # the mean of an indicator
        return log_expit(presence.log_odds(users)) + np.log(np.maximum(proba, 1e-12))

    return {"rated": presence.log_odds, "liked": log_liked}


def popularity_score(counts: Counts, seed: int) -> ListScore:
    """How many of the similar users rated an item, ties at random."""
    draw = np.random.default_rng(seed).random(counts.shape, np.float32)
    return lambda users: counts[users] + draw[users]


def list_hits(score: ListScore, counts: Counts, test: Ratings, n: int) -> Hits:
    """Which of the n candidates with the largest score are test items, (users, n)."""
    hits = np.zeros((test.n_users, n), bool)
    is_test = np.zeros((test.n_users, test.n_items), bool)
    is_test[test.user_codes, test.item_codes] = True
    for first in range(0, test.n_users, USERS_IN_BLOCK):
        users = np.arange(first, min(first + USERS_IN_BLOCK, test.n_users), dtype=np.int32)
        candidate = counts[users] > 0
        items = top_columns(np.where(candidate, score(users), -np.inf), n)
        hit = np.take_along_axis(is_test[users] & candidate, items, axis=1)
        hits[users, : hit.shape[1]] = hit
    return hits


def list_scores(hits: Hits, test: Ratings, lengths: tuple[int, ...]) -> dict[str, list[float]]:
    """Precision, recall and half-life utility at each length; every test item is relevant."""
    n_relevant = np.bincount(test.user_codes, minlength=test.n_users)
    asked = n_relevant > 0
    listed, count = hits[asked], n_relevant[asked]
    return {
        "precision": [float(precision(listed, n).mean()) for n in lengths],
        "recall": [float(recall(listed, count, n).mean()) for n in lengths],
        "utility": [half_life_utility(listed[:, :n], count) for n in lengths],
    }


def named_scores(lists: dict[str, dict[str, list[float]]], lengths: Any) -> dict[str, float]:
    """Every score of every order by a name such as "energy recall@10"."""
    return {
        f"{order} {score}@{length}": value
        for order, scores in lists.items()
        for score, values in scores.items()
        for length, value in zip(lengths, values, strict=True)
    }
