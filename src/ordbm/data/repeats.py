"""Pairs that were rated more than once: found, put in the order of time, and averaged."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.data.csr import stable_order
from ordbm.data.scale import Levels, RatingScale, Scale
from ordbm.errors import offending_rows
from ordbm.runtime.arrays import Codes, Mask, Numbers


class PairOrder(NamedTuple):
    """Rows by user and item, those of one pair by time and then as they came."""

    order: NDArray[Any]
    repeats: Mask  # the same pair as the position before


def pair_order(users: Codes, n_users: int, items: Codes, n_items: int, times: Numbers) -> PairOrder:
    """The order of rows, from codes and, if they are known, times."""
    order = stable_order(users, n_users)
    if not _are_in_order(users[order], items[order]):  # as they are where rows came by item
        order = stable_order(items, n_items)
        order = order[stable_order(users[order], n_users)]
    users, items = users[order], items[order]
    repeats = np.zeros(len(order), bool)
    np.logical_and(users[1:] == users[:-1], items[1:] == items[:-1], out=repeats[1:])
    if len(times) and repeats.any():
        again = np.flatnonzero(repeats | np.append(repeats[1:], False))
        pair = np.cumsum(~repeats)[again]
        rows = order[again]
        order[again] = rows[np.lexsort((times[rows], pair))]
    return PairOrder(order, repeats)


def _are_in_order(users: Codes, items: Codes) -> bool:
    """Whether items do not decrease within each user."""
    return bool(((items[1:] >= items[:-1]) | (users[1:] != users[:-1])).all())


def pair_means(
    level: Levels, value: NDArray[Any], repeats: Mask, scale: Scale
) -> tuple[Levels, NDArray[Any]]:
    """Each rating replaced by the mean over its (user, item) pair."""
    pair = np.cumsum(~repeats) - 1
    numbers = scale.values[level] if isinstance(scale, RatingScale) else value
    mean = (np.bincount(pair, numbers) / np.bincount(pair))[pair]
    if isinstance(scale, RatingScale):
        return scale.nearest(mean), value
    return level, mean


def repeated_rows(rows: NDArray[Any], beside: dict[str, Any]) -> str:
    """Which pairs were rated again, and what to do about it."""
    return (
        f"pairs rated more than once, again in {offending_rows(rows, **beside)}; drop them, or "
        "choose duplicates='last' or 'mean'"
    )
