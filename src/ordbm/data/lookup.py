"""Ids as callers give them: one or several, in pairs or alone."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ordbm.data.ids import IdMap
from ordbm.errors import RatingsError

Ids = Any


def aligned_pairs(users: Ids, items: Ids) -> tuple[Sequence[Any], Sequence[Any]]:
    """Users and items of equal length; a single id stands for as many as needed."""
    users, items = _plain(users), _plain(items)
    user_list, item_list = listed_ids(users), listed_ids(items)
    if user_list is None and item_list is None:
        return [users], [items]
    if user_list is None:
        return [users] * len(item_list), item_list
    if item_list is None:
        return user_list, [items] * len(user_list)
    if len(user_list) != len(item_list):
        raise RatingsError(
            f"{len(user_list)} users and {len(item_list)} items: pairs need as many of both, or a "
            "single id on one side"
        )
    return user_list, item_list


def several(ids: Ids) -> Any:
    """A sequence of ids; a single id is the only one."""
    listed = listed_ids(_plain(ids))
    return [_plain(ids)] if listed is None else listed


def _plain(ids: Ids) -> Ids:
    """An id in an array without dimensions is that id."""
    return ids.item() if isinstance(ids, np.ndarray) and ids.ndim == 0 else ids


def check_not_several(value: Any, known: IdMap) -> None:
    """An error if an unknown id is a tuple of known ones: a tuple is one id."""
    if isinstance(value, tuple) and any(member in known for member in value):
        raise RatingsError(
            f"{reprlib.repr(value)} is one id, a tuple, and not known: give several in a list"
        )


def listed_ids(ids: Ids) -> Any:
    """A sequence of ids, or None for a single id."""
    if isinstance(ids, str | bytes | tuple | frozenset) or not hasattr(ids, "__iter__"):
        return None
    return ids if hasattr(ids, "__len__") else list(ids)
