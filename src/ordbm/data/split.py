"""Ratings split into a part to learn from and a part to test on, at random or by time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ordbm.data.ratings import Ratings, as_ratings
from ordbm.errors import SettingsError
from ordbm.runtime.arrays import Codes, Numbers
from ordbm.runtime.checks import check_count, float_of
from ordbm.runtime.printable import shown

HoldOutBy = Literal["user", "item", "rating", "time", "user_time"]


def hold_out(
    ratings: Any,
    fraction: float = 0.2,
    seed: int = 0,
    by: HoldOutBy = "user",
) -> tuple[Ratings, Ratings]:
    """(train, test): of each user's n ratings, round(fraction · n) go to test (halves to even).

    `ratings` are `Ratings`, or a table that they can be made of; so for the splits that follow.

    `by="item"` does the same for each item, `by="rating"` for all ratings at once. They are drawn
    at random; `by="time"` takes the latest of all ratings, and `by="user_time"` the latest of each
    user's, the seed deciding between ratings of one time only.
    """
    ratings = as_ratings(ratings)
    if not 0 <= float_of(fraction) <= 1:
        raise SettingsError(f"fraction must be a number between 0 and 1, not {shown(fraction)}")
    owner = _owners(ratings, by)
    n_test = np.round(fraction * np.bincount(owner)).astype(np.int64)
    recency = -ratings.times if by in ("time", "user_time") else None
    return _parts(ratings, _rank(owner, seed, recency) < n_test[owner])


def given_n(ratings: Any, n: int, seed: int = 0) -> tuple[Ratings, Ratings]:
    """(train, test): n of each user's ratings (all, if there are fewer) stay in train."""
    ratings = as_ratings(ratings)
    check_count("n", n)
    return _parts(ratings, _rank(ratings.user_codes, seed) >= n)


def k_fold(ratings: Any, folds: int = 5, seed: int = 0) -> Iterator[tuple[Ratings, Ratings]]:
    """Each (train, test) of `folds`: every rating is in one test part, every user spread evenly.

    The folds differ in size by one rating at most.
    """
    ratings = as_ratings(ratings)
    check_count("folds", folds, least=2)
    check_count("seed", seed)
    if folds > len(ratings):
        raise SettingsError(
            f"folds={folds} is more than there are ratings ({len(ratings):,}), and each fold "
            "needs one: use fewer folds"
        )
    owner = ratings.user_codes
    random = np.random.default_rng([seed, 1])
    # Ratings are dealt round the folds, user after user in a random order: each begins where the
    # one before ended, so that no fold is empty.
    order = random.permutation(ratings.n_users)
    dealt = np.bincount(owner, minlength=ratings.n_users)[order]
    first = np.empty(ratings.n_users, np.int64)
    first[order] = np.cumsum(dealt) - dealt
    fold = (_rank(owner, seed) + first[owner]) % folds
    return (_parts(ratings, fold == test) for test in range(folds))


def _parts(ratings: Ratings, is_test: NDArray[np.bool_]) -> tuple[Ratings, Ratings]:
    return ratings.select(~is_test), ratings.select(is_test)


def _owners(ratings: Ratings, by: str) -> Codes:
    if by not in get_args(HoldOutBy):
        raise SettingsError(f"by must be one of {', '.join(get_args(HoldOutBy))}, not {shown(by)}")
    if by in ("time", "user_time") and not ratings.has_times:
        raise SettingsError(f"by={by!r} needs times, and these ratings have none: give times=")
    if by in ("user", "user_time"):
        return ratings.user_codes
    if by == "item":
        return ratings.item_codes
    return np.zeros(len(ratings), np.int32)


def _rank(owner: Codes, seed: int, first: Numbers | None = None) -> NDArray[np.int64]:
    """The place of each rating among its owner's by `first`; ties, or all, in a random order."""
    check_count("seed", seed)
    draw = np.random.default_rng(seed).random(len(owner))
    order = np.lexsort((draw, owner) if first is None else (draw, first, owner))
    count = np.bincount(owner)
    begin = np.cumsum(count) - count
    rank = np.empty(len(owner), np.int64)
    rank[order] = np.arange(len(owner)) - begin[owner[order]]
    return rank
