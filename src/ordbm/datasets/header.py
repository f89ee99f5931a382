"""Whether the first line of a text file has names of columns, and where each role's column is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ordbm.data.columns import (
    ColumnChoice,
    check_places,
    column_places,
    is_usual_name,
    quoted_names,
    role_options,
    usual_time_place,
)
from ordbm.data.numeric_columns import NUMBER
from ordbm.data.times import is_date, is_time
from ordbm.errors import RatingsError
from ordbm.runtime.printable import shown


class HeaderLine(NamedTuple):
    """Whether the first line has names, and where each role is."""

    has_names: bool
    places: list[int]


def header_of(
    first: Sequence[str],
    choices: Mapping[str, ColumnChoice],
    has_names: bool | None,
    is_rating: Callable[[str], bool],
    label: str,
) -> HeaderLine:
    """What the first line of a file says about its columns.

    It has names if a column is chosen by name, or if it names all roles as is usual, or if
    `has_names` says so; it is a rating if a field is a number or its third one is a rating.
    Otherwise it is an error: nobody can tell.
    """
    if len(first) < len(choices):
        raise RatingsError(
            f"{label}: the first line has {len(first)} field{'s' * (len(first) > 1)}, "
            f"{quoted_names(first)}; need {', '.join(choices)}"
        )
    if has_names is None:
        by_name = any(isinstance(choice, str) for choice in choices.values())
        has_names = by_name or _are_usual(first, choices)
        is_data = _is_data(first, choices, is_rating)
        # A line of names without numbers, of which every column is chosen by number, is no data.
        has_names = has_names or (None not in choices.values() and not is_data)
        if not has_names and not is_data:
            raise RatingsError(
                f"{label}: cannot tell the columns from the first line, {quoted_names(first)}: if "
                f"these are names, say {role_options(choices)}; if it is data, header=False"
            )
    if has_names:
        return HeaderLine(True, column_places(first, choices, f"{label}: "))
    places = []
    for number, (role, choice) in enumerate(choices.items()):
        if isinstance(choice, str):
            raise RatingsError(
                f"{role}={shown(choice)} needs a line of names: leave header=False out"
            )
        places.append(number if choice is None else choice)
    check_places(places, len(first), choices, f"{label}: ")
    return HeaderLine(False, places)


def time_place(header: HeaderLine, first: Sequence[str], second: Sequence[str]) -> int | None:
    """Where times are that nobody asked for; None if there are none.

    The name tells and the first value, or else the place of a date behind user, item and rating.
    """
    if header.has_names:
        place = usual_time_place(first, header.places)
        return place if place is not None and is_time(second[place]) else None
    alone = header.places == [0, 1, 2] and len(first) == 4
    return 3 if alone and is_date(first[3]) else None


def _are_usual(names: Sequence[str], choices: Mapping[str, ColumnChoice]) -> bool:
    return all(any(is_usual_name(name, role) for name in names) for role in choices)


def _is_data(
    first: Sequence[str], choices: Mapping[str, ColumnChoice], is_rating: Callable[[str], bool]
) -> bool:
    place = choices.get("rating", 2)
    place = 2 if place is None else place
    in_place = (
        "rating" in choices
        and isinstance(place, int)
        and 0 <= place < len(first)
        and is_rating(first[place])
    )
    return in_place or any(NUMBER.fullmatch(field.strip()) for field in first)
