"""Everybody's lists as a frame, a row per line, or as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.frames import Backend, frame_of
from ordbm.data.ids import IdMap
from ordbm.recommend.recommendation import Ranked


def list_dict(
    items: IdMap, users: Sequence[Any] | NDArray[Any], lists: Iterable[Ranked]
) -> dict[Any, list[tuple[Any, float]]]:
    """{user: [(item, score), …]}."""
    asked = users.tolist() if isinstance(users, np.ndarray) else users
    return {
        user: [
            (items[item], score)
            for item, score in zip(one.items.tolist(), one.score.tolist(), strict=True)
        ]
        for user, one in zip(asked, lists, strict=True)
    }


def list_frame(
    items: IdMap,
    users: Sequence[Any] | NDArray[Any],
    lists: Iterable[Ranked],
    backend: Backend | None,
) -> Any:
    """Columns user, rank (from 1), item, score, mean, confidence and, with presence, p_rated."""
    ranked = list(lists)
    length = np.array([len(one.items) for one in ranked], np.int64)
    listed = np.concatenate([one.items for one in ranked] or [np.zeros(0, np.int64)])
    columns: dict[str, Any] = {
        "user": _repeated(users, length),
        "rank": np.arange(1, len(listed) + 1) - np.repeat(np.cumsum(length) - length, length),
        "item": items.values(listed),
    }
    names = {"score": "score", "mean": "mean", "confidence": "confidence", "rated": "p_rated"}
    for field, name in names.items():
        parts = [getattr(one, field) for one in ranked]
        if all(part is not None for part in parts):
            columns[name] = np.concatenate([np.zeros(0), *parts])
    return frame_of(columns, backend)


def _repeated(users: Sequence[Any] | NDArray[Any], length: Any) -> Any:
    """Each user as often as the list is long."""
    if isinstance(users, np.ndarray):
        return np.repeat(users, length)
    return [user for user, n in zip(users, length, strict=True) for _ in range(n)]
