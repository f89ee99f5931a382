"""What every model of the ranking benchmark does: read ratings, fit, list items, write a file.

A script says how to fit, `fit(ratings, **settings) -> rank`, and calls `run`. `rank(seen, n)` gives
every user's n best items of the whole catalogue without those in `seen`, the user's training
ratings: item numbers (users, n), best first, −1 where a list has ended. A script is given training
ratings alone: which items are in the test would be half the answer.

The setting `least_share` is taken here: with it a model learns only from ratings of at least that
share of the way up the scale (0.75: 4 of 1 to 5), but what is listed leaves out all of `seen`. A
user of whom it then knows nothing gets the items that most users rated.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from protocol import RatingsPart, peak_gb, stopwatch, training

LENGTH = 100
USERS_AT_ONCE = 512

Rank = Callable[[RatingsPart, int], np.ndarray]
Fit = Callable[..., Rank]


def presence(ratings: RatingsPart) -> scipy.sparse.csr_matrix:
    """1 for each pair with a rating, (users, items)."""
    one = np.ones(len(ratings.user), np.float32)
    shape = ratings.n_users, ratings.n_items
    return scipy.sparse.csr_matrix((one, (ratings.user, ratings.item)), shape=shape)


def by_score(score: Callable[[np.ndarray], np.ndarray]) -> Rank:
    """Lists by `score(users)`, an array (users, items) of its own: larger is better."""

    def rank(seen: RatingsPart, n: int) -> np.ndarray:
        rated = presence(seen)
        lists = np.full((seen.n_users, n), -1, np.int32)
        for first in range(0, seen.n_users, USERS_AT_ONCE):
            users = np.arange(first, min(first + USERS_AT_ONCE, seen.n_users))
            scores = score(users)
            scores[rated[users].nonzero()] = -np.inf
            found = best(scores, n)
            lists[users, : found.shape[1]] = found
        return lists

    return rank


def best(scores: np.ndarray, n: int) -> np.ndarray:
    """The columns of the n largest scores of each row, best first, −1 for those at −∞."""
    n = min(n, scores.shape[1])
    found = np.sort(np.argpartition(-scores, n - 1, axis=1)[:, :n], axis=1)
    score = np.take_along_axis(scores, found, axis=1)
    order = np.argsort(-score, axis=1, kind="stable")
    found = np.where(np.isneginf(score), -1, found)
    return np.take_along_axis(found, order, axis=1)


def by_popularity(ratings: RatingsPart) -> Rank:
    """The items with the most ratings."""
    count = np.bincount(ratings.item, minlength=ratings.n_items).astype(np.float32)
    return by_score(lambda users: np.tile(count, (len(users), 1)))


def liked(ratings: RatingsPart, least_share: float) -> RatingsPart:
    """The ratings of at least that share of the way up the scale."""
    low, high = ratings.bounds
    return ratings.select(ratings.rating >= low + least_share * (high - low))


def check(lists: np.ndarray, seen: RatingsPart) -> None:
    """No list may have an item twice, or one that the user has rated already."""
    user, place = np.nonzero(lists >= 0)
    pair = user * seen.n_items + lists[user, place]
    if len(np.unique(pair)) < len(pair):
        raise ValueError("an item is listed twice for one user")
    if np.isin(pair, seen.user.astype(np.int64) * seen.n_items + seen.item).any():
        raise ValueError("an item is listed that the user has rated already")


def run(
    fit: Fit,
    packages: Sequence[str],
    warm_up: Fit | None = None,
    about: Callable[..., dict[str, Any]] | None = None,
) -> None:
    """Do what the command line asks for, and write lists, times and versions.

    `about(**settings)`, asked last, is what else the row should say; it may correct what is here.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("train", type=Path, help="training ratings (.npz)")
    parser.add_argument("out", type=Path, help="where the lists go (.npz)")
    parser.add_argument("--settings", type=json.loads, default={}, help="JSON")
    parser.add_argument(
        "--validate", action="store_true", help="learn without the validation ratings"
    )
    arguments = parser.parse_args()

    seen, validation = training(arguments.train)
    if arguments.validate:
        seen = seen.select(~validation)
    settings = dict(arguments.settings)
    least_share = settings.pop("least_share", None)
    ratings = seen if least_share is None else liked(seen, least_share)
    if warm_up is not None:
        warm_up(ratings, **settings)
    with stopwatch() as fitting:
        rank = fit(ratings, **settings)
    with stopwatch() as listing:
        lists = rank(seen, LENGTH)
    unknown = np.bincount(ratings.user, minlength=ratings.n_users) == 0
    if unknown.any():
        lists[unknown] = by_popularity(seen)(seen, LENGTH)[unknown]
    check(lists, seen)
    report = {
        "fit_seconds": fitting.wall,
        "fit_cpu_seconds": fitting.cpu,
        "list_seconds": listing.wall,
        "peak_gb": peak_gb(),
        "unknown_users": int(unknown.sum()),
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in (*packages, "scipy", "numpy")},
        },
        **(about(**settings) if about is not None else {}),
    }
    np.savez(arguments.out, lists=lists, report=json.dumps(report))
