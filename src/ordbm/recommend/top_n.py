"""The best n of each row of scores, without what was rated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ordbm.inference.catalogue import By, Catalogue
from ordbm.runtime.arrays import Array, Codes


def top(
    catalogues: Sequence[Catalogue],
    users: Codes,
    n: int,
    by: By,
    values: Array | None = None,
    allowed: NDArray[np.bool_] | None = None,
) -> Iterator[tuple[int, Codes, Array]]:
    """(user, items, scores), best first, of the items each user has not rated.

    Scores are averaged over the catalogues of several machines. `allowed` (items,) or (users,
    items) says which items may appear. Ties go to the item that came first.
    """
    by_user = catalogues[0].conditioned.ratings.by_user
    size = catalogues[0].users_at_once
    for first in range(0, len(users), size):
        block = users[first : first + size]
        scores = catalogues[0].scores(block, by, values)
        for other in catalogues[1:]:
            scores += other.scores(block, by, values)
        scores /= len(catalogues)
        if allowed is not None:
            may = allowed if allowed.ndim == 1 else allowed[first : first + size]
            scores = np.where(may, scores, -np.inf)
        for place, user in enumerate(block):
            scores[place, by_user.column[by_user.start[user] : by_user.start[user + 1]]] = -np.inf
        for user, items, score in zip(block, best(scores, n), scores, strict=True):
            listed = items[np.isfinite(score[items])]
            yield int(user), listed, score[listed]


def best(scores: Array, n: int) -> Codes:
    """The columns of the n largest scores of each row, best first; ties to the first column."""
    n = min(n, scores.shape[1])
    if n == 0:
        return np.zeros((len(scores), 0), np.int64)
    # The n-th largest value is a threshold; a stable sort of what reaches it settles ties.
    threshold = -np.partition(-scores, n - 1, axis=1)[:, n - 1 : n]
    found = np.empty((len(scores), n), np.int64)
    for row, (score, least) in enumerate(zip(scores, threshold, strict=True)):
        reaching = np.flatnonzero(score >= least)
        found[row] = reaching[np.argsort(-score[reaching], kind="stable")[:n]]
    return found
