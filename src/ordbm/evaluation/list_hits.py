"""Recommended lists against the relevant ones of the test ratings."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.data.ratings import Ratings
from ordbm.errors import RatingsError, SettingsError
from ordbm.evaluation.protocols import RankingModel, check_method
from ordbm.metrics.ranking import half_life_sums, ndcg, precision, recall, reciprocal_rank
from ordbm.runtime.arrays import Numbers
from ordbm.runtime.checks import check_count
from ordbm.runtime.printable import shown

_USERS_AT_ONCE = 5_000


class ListHits(NamedTuple):
    """Hits in recommended lists; users are codes of the test ratings."""

    users: NDArray[np.int64]  # who had relevant test items and got a list
    hits: NDArray[np.bool_]  # (users, positions)
    n_relevant: NDArray[np.int64]  # (users,)
    unranked: dict[str, int]
    seconds: float


def list_lengths(lists: Any) -> list[int]:
    """The lengths of lists asked for, in increasing order."""
    several = isinstance(lists, Iterable) and not isinstance(lists, str)
    lengths: list[Any] = list(lists) if several else [lists]
    if not lengths:
        raise SettingsError("lists=[]: give one length or more, as in lists=10, or None for none")
    for length in lengths:
        check_count("lists", length, least=1)
    return sorted({int(length) for length in lengths})


def recommended_hits(
    model: RankingModel,
    test: Ratings,
    relevant: NDArray[np.bool_],
    n: int,
    by: str | None,
    known_users: NDArray[np.bool_] | None,
) -> ListHits:
    """Lists of n for all users who have relevant test ratings, `relevant` (N,), and are known.

    The model is told the users alone. Test items that it cannot list count as missed.
    """
    name = "recommend_lists"
    if not hasattr(model, name) and hasattr(model, "recommend_all"):
        name = "recommend_all"
    check_method(model, name, "ranking")
    lists = getattr(model, name)
    if by is not None and "by" not in signature(lists).parameters:
        raise SettingsError(f"by={shown(by)}: {type(model).__name__} ranks in its own way only")
    count = np.bincount(test.user_codes[relevant], minlength=test.n_users)
    with_test = np.bincount(test.user_codes, minlength=test.n_users) > 0
    asked = count > 0 if known_users is None else (count > 0) & known_users
    users = np.flatnonzero(asked)
    wanted = _pair(test.user_codes[relevant], test.item_codes[relevant], test)
    how = {} if by is None else {"by": by}
    answered = np.zeros(len(users), bool)
    hits = np.zeros((len(users), n), bool)
    seconds = 0.0
    for first in range(0, len(users), _USERS_AT_ONCE):
        some = users[first : first + _USERS_AT_ONCE]
        ids = [test.users[code] for code in some.tolist()]
        started = time.perf_counter()
        found = lists(ids, n, **how)
        seconds += time.perf_counter() - started
        lines = [[item for item, _ in found.get(user, ())[:n]] for user in ids]
        answered[first : first + len(some)] = [user in found for user in ids]
        row = np.repeat(np.arange(len(some)), [len(line) for line in lines])
        place = np.concatenate([np.arange(len(line)) for line in lines]).astype(np.int64)
        item = test.items.codes([item for line in lines for item in line]).astype(np.int64)
        pair = _pair(some[row], item, test)
        hit = (item >= 0) & _is_among(pair, wanted)
        if len(np.unique(pair[hit])) < np.count_nonzero(hit):
            raise RatingsError("the model lists an item twice for one user")
        hits[first + row[hit], place[hit]] = True
    unranked = {
        "without_relevant": int(np.count_nonzero(with_test & (count == 0))),
        "unknown": int(np.count_nonzero(count) - np.count_nonzero(answered)),
    }
    return ListHits(users[answered], hits[answered], count[users][answered], unranked, seconds)


def ranking_sums(found: ListHits, lengths: Sequence[int]) -> dict[str, tuple[Numbers, Numbers]]:
    """(total, weight) of each ranking score for each of the listed users."""
    hits, n_relevant = found.hits, found.n_relevant
    one = np.ones(len(hits))
    sums = {}
    for n in lengths:
        best = np.arange(n) < n_relevant[:, None]
        sums[f"precision@{n}"] = precision(hits, n), one
        sums[f"recall@{n}"] = recall(hits, n_relevant, n), one
        sums[f"ndcg@{n}"] = ndcg(hits, best, n), one
    sums["mrr"] = reciprocal_rank(hits), one
    sums["half_life_utility"] = half_life_sums(hits, n_relevant)
    return sums


def _pair(users: NDArray[Any], items: NDArray[Any], test: Ratings) -> NDArray[np.int64]:
    """One number for each (user, item)."""
    return users.astype(np.int64) * test.n_items + items


def _is_among(values: NDArray[np.int64], ordered: NDArray[np.int64]) -> NDArray[np.bool_]:
    place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return ordered[place] == values
