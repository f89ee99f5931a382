"""Ids as callers give them: one or several, in pairs or alone."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ordbm.data.ids import IdMap, is_missing, kind_of_id
from ordbm.errors import RatingsError, UnknownIdsWarning
from ordbm.runtime.printable import shown

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


def check_ids_of_type(strangers: Sequence[Any], known: IdMap, what: str) -> None:
    """An error if unknown ids are missing values, or known ones of another type: `"1"` for 1."""
    if any(map(is_missing, strangers)):
        value = next(filter(is_missing, strangers))
        raise RatingsError(f"{what} {shown(value)} is a missing value, not an id: leave it out")
    for value in _of_other_kinds(strangers, known):
        other = _other_type(value)
        if other is not None and other in known:
            raise RatingsError(f"{_type_in_words(value, known, what)}: give {reprlib.repr(other)}")


def warn_of_strangers(strangers: Sequence[Any], known: IdMap, what: str) -> None:
    """A warning where no id is known: by their type none can be, or none of several is."""
    odd = _of_other_kinds(strangers, known)
    if odd:
        said = f"{_type_in_words(odd[0], known, what)}: taken for a stranger"
    elif len(set(strangers)) > 1 and known.ids:
        some = ", ".join(map(reprlib.repr, known.ids[:3]))
        said = (
            f"none of these {len(set(strangers)):,} {what}s is in this model, whose {what}s are "
            f"{some}, ...: all are taken for strangers"
        )
    else:
        return
    warnings.warn(said, UnknownIdsWarning, stacklevel=4)


def _of_other_kinds(strangers: Sequence[Any], known: IdMap) -> list[Any]:
    """Those of a kind that no known id is of."""
    kinds = known.kinds
    return [value for value in strangers if _kind(value) not in kinds] if kinds else []


def _kind(value: Any) -> str:
    return kind_of_id(type(value))


def _type_in_words(value: Any, known: IdMap, what: str) -> str:
    kinds = " and ".join(sorted(known.kinds))
    kind = _kind(value).replace("numbers", "a number")
    return f"{what} {reprlib.repr(value)} is {kind}, and this model's {what}s are {kinds}"


def _other_type(value: Any) -> Any:
    """The same id as text, or as a number; None where there is no such form."""
    if isinstance(value, str):
        try:
            return int(value) if str(int(value)) == value else None
        except ValueError:
            return None
    return str(value) if isinstance(value, int | np.integer) else None


def listed_ids(ids: Ids) -> Any:
    """A sequence of ids, or None for a single id."""
    if isinstance(ids, str | bytes | tuple | frozenset) or not hasattr(ids, "__iter__"):
        return None
    return ids if hasattr(ids, "__len__") else list(ids)
