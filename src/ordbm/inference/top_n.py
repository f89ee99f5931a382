"""The best n of each row of scores, without what was rated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ordbm.kernels import catalogue
from ordbm.runtime.arrays import Array, Codes, Mask


def unseen_scores(scores: Array, allowed: Mask, rated: Iterable[Codes]) -> Array:
    """Scores (users, items), -inf where an item is not allowed or among what the user rated."""
    unseen: Array = np.where(allowed, scores, -np.inf)
    for row, items in zip(unseen, rated, strict=True):
        row[items] = -np.inf
    return unseen


def top_lists(scores: Array, n: int) -> Iterator[tuple[Codes, Array]]:
    """The columns and the scores of each row's n largest, best first; -inf is in no list."""
    for row, columns in zip(scores, top_columns(scores, n), strict=True):
        listed = columns[np.isfinite(row[columns])]
        yield listed, row[listed]


def top_columns(scores: Array, n: int) -> Codes:
    """The columns of the n largest scores of each row, best first; ties to the first column."""
    found = np.empty((len(scores), min(n, scores.shape[1])), np.int64)
    if found.size:
        best = np.empty(found.shape[1], scores.dtype)
        catalogue.largest(0, len(scores), np.ascontiguousarray(scores), best, found)
    return found
