"""Columns as callers give them, and which of them is the user, the item and the rating.

A role's column is the one the caller names or numbers; otherwise the only one with a usual name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from ordbm.errors import RatingsError
from ordbm.runtime.arrays import Codes
from ordbm.runtime.printable import shown

Column = list[Any] | NDArray[Any]
ColumnChoice = str | int | None  # a column's name, its number from 0, or None: by its usual name
TimeChoice = ColumnChoice | Literal[False]  # False: there are no times, whatever columns are called

# As they are once case, spaces and signs are gone: `user_id`, `userId` and `User-ID` are `userid`.
USUAL_NAMES = {
    "user": "user userid uid userno customer customerid reviewer reviewerid member memberid rater "
    "raterid person personid username",
    "item": "item itemid iid itemno movie movieid film filmid product productid asin book bookid "
    "isbn business businessid song songid track trackid artist artistid game gameid joke jokeid "
    "recipe recipeid article articleid anime animeid",
    "rating": "rating ratings star stars score scores overall grade bookrating userrating "
    "reviewscore reviewrating",
    # The likeliest first, for there may be several: text and number of one moment.
    "time": "timestamp unixtimestamp unixtime unixreviewtime time datetime ratedat createdat "
    "ratingtime ratingtimestamp date ratingdate reviewdate reviewtime",
}
_CONTEXT = "context"
_TEXTS_AT_ONCE = 2**12


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """A dictionary-encoded column: row r holds `distinct[codes[r]]`.

    Work on a column is work on its distinct values: a million ratings are of a few thousand items.
    """

    distinct: Any  # a list, or an array
    codes: Codes  # (rows,)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> Any:
        return self.distinct[self.codes[row]]

    @property
    def values(self) -> NDArray[Any]:
        """The value of each row, (rows,)."""
        if isinstance(self.distinct, np.ndarray):
            return self.distinct[self.codes]
        return object_array(self.distinct)[self.codes]


class ArrowTexts(Sequence[str]):
    """The texts of an Arrow array, some at a time: Python's would take ten times the memory."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, place: Any) -> Any:
        found = self.array[place]
        return found.to_pylist() if isinstance(place, slice) else found.as_py()

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _TEXTS_AT_ONCE):
            yield from self[first : first + _TEXTS_AT_ONCE]


def at_rows(column: Any, rows: NDArray[np.integer]) -> Any:
    """`column`, a list, an array or encoded, at these rows."""
    if isinstance(column, EncodedColumn):
        return EncodedColumn(column.distinct, column.codes[rows])
    return [column[row] for row in rows] if isinstance(column, list) else column[rows]


def plain_column(values: Any, name: str = "ids") -> Column:
    """`values` as a 1-D NumPy array if they come from one or from a frame, otherwise as a list.

    A list is left alone: NumPy would turn large integers into floats and strip NULs from strings.
    """
    if isinstance(values, (str, bytes)):
        raise RatingsError(f"{name}: got one string, need a sequence; wrap it in a list")
    if isinstance(values, list):
        return values
    if not isinstance(values, np.ndarray):
        values = nw.from_native(values, series_only=True, allow_series=True, pass_through=True)
    if isinstance(values, nw.Series):
        values = values.to_numpy()
    elif isinstance(values, np.ma.MaskedArray):
        mask, values = np.ma.getmaskarray(values), values.data.astype(object)
        values[mask] = None
    elif not hasattr(values, "__array__"):
        try:
            return list(values)
        except TypeError:
            kind = type(values).__name__
            raise RatingsError(f"{name}: need a sequence, got {kind}") from None
    array = np.asarray(values)
    if array.ndim == 0:
        raise RatingsError(f"{name}: need a sequence, got one value ({array}); wrap it in a list")
    if array.ndim != 1:
        raise RatingsError(f"{name}: need one dimension, got an array of shape {array.shape}")
    return array


def object_array(values: Sequence[Any]) -> NDArray[np.object_]:
    """An array of these very objects: NumPy would cut NULs off text, and round large integers."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def is_usual_name(name: object, role: str) -> bool:
    """Whether columns of users, items, ratings or times (`role`) often have this name."""
    return _plain(name) in USUAL_NAMES[role].split()


def context_role(name: str) -> str:
    """The role of a column of context, beside "user", "item", "rating" and "time"."""
    return f"{_CONTEXT} {name}"


def context_names(context: Any) -> tuple[str, ...]:
    """The names of columns, if `context` is one or several such; else none."""
    if isinstance(context, str):
        return (context,)
    are_names = isinstance(context, list | tuple) and all(isinstance(n, str) for n in context)
    return tuple(context) if are_names else ()


def is_context(role: str) -> bool:
    """Whether a role is that of a column of context."""
    return role.startswith(f"{_CONTEXT} ")


def usual_time_place(names: Sequence[Any], others: Sequence[int]) -> int | None:
    """Where the column is that by its name says when ratings were given; None if there is none."""
    plain = ["" if place in others else _plain(name) for place, name in enumerate(names)]
    return next((plain.index(name) for name in USUAL_NAMES["time"].split() if name in plain), None)


def _plain(name: object) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower()) if isinstance(name, str) else ""


def column_places(
    names: Sequence[Any], choices: Mapping[str, ColumnChoice], label: str = ""
) -> list[int]:
    """Where the column of each role is among the columns `names`; `label` begins errors."""
    chosen = {choice for choice in choices.values() if choice is not None}
    places = []
    for role, choice in choices.items():
        if isinstance(choice, str):
            found = [place for place, name in enumerate(names) if _bare(name) == choice.strip()]
        elif choice is not None:
            found = [choice]
        else:
            found = [
                place
                for place, name in enumerate(names)
                if is_usual_name(name, role) and not {name, place} & chosen
            ]
        if len(found) > 1:
            raise RatingsError(
                f"{label}columns {quoted_names([names[place] for place in found])} could all be "
                f"the {role}: say which with {role}= (a name, or a number from 0)"
            )
        if not found:
            what = (
                f"no column {shown(choice)}"
                if choice
                else f"cannot tell which column is the {role}"
            )
            raise RatingsError(
                f"{label}{what}; the columns are {quoted_names(names)}: say which with {role}="
            )
        places.append(found[0])
    check_places(places, len(names), choices, label)
    return places


def check_places(
    places: Sequence[int], n_columns: int, choices: Mapping[str, ColumnChoice], label: str
) -> None:
    """An error unless each role has a column of its own that is there."""
    for role, place in zip(choices, places, strict=True):
        if isinstance(place, bool) or not 0 <= place < n_columns:
            raise RatingsError(
                f"{label}{role}={shown(place)} is not a column: there are {n_columns}, numbered "
                "from 0"
            )
    if len(set(places)) < len(places):
        roles = ", ".join(f"{role}={place}" for role, place in zip(choices, places, strict=True))
        raise RatingsError(
            f"{label}one column cannot be two things ({roles}): say {role_options(choices)}"
        )


def quoted_names(names: Sequence[Any]) -> str:
    """`'user', 'item', ... (17 in all)`"""
    short = [name if len(str(name)) <= 40 else f"{str(name)[:37]}..." for name in names[:12]]
    return ", ".join(map(repr, short)) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")


def role_options(choices: Mapping[str, ColumnChoice]) -> str:
    """`user=, item=, rating=`"""
    return ", ".join(f"{role}=" for role in choices)


def _bare(name: Any) -> Any:
    return name.strip() if isinstance(name, str) else name
