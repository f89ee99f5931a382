"""Everybody's lists as a frame, a row per line, or as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ordbm.data.frames import Backend, frame_of
from ordbm.data.ids import IdMap
from ordbm.recommend.recommendation import Ranked


def list_dict(
    items: IdMap, users: Sequence[Any], lists: Iterable[Ranked]
) -> dict[Any, list[tuple[Any, float]]]:
    """{user: [(item, score), …]}."""
    return {
        user: [
            (items[item], score)
            for item, score in zip(one.items.tolist(), one.score.tolist(), strict=True)
        ]
        for user, one in zip(users, lists, strict=True)
    }


def list_frame(
    items: IdMap, users: Sequence[Any], lists: Iterable[Ranked], backend: Backend | None
) -> Any:
    """Columns user, rank (from 1), item, score, mean, confidence and, with presence, p_rated."""
    ranked = list(lists)
    length = np.array([len(one.items) for one in ranked], np.int64)
    columns: dict[str, Any] = {
        "user": [user for user, n in zip(users, length, strict=True) for _ in range(n)],
        "rank": np.concatenate([np.arange(1, n + 1) for n in length] or [np.zeros(0, np.int64)]),
        "item": [items[code] for one in ranked for code in one.items.tolist()],
    }
    names = {"score": "score", "mean": "mean", "confidence": "confidence", "rated": "p_rated"}
    for field, name in names.items():
        parts = [getattr(one, field) for one in ranked]
        if all(part is not None for part in parts):
            columns[name] = np.concatenate([np.zeros(0), *parts])
    return frame_of(columns, backend)
