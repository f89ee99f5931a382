"""Which column is the user, the item, the rating: as told, or by the names that are usual."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ordbm.data.ratings import is_usual
from ordbm.datasets.texts import NUMBER
from ordbm.errors import RatingsError

Told = str | int | None  # a column's name, its number from 0, or nothing


class Heading(NamedTuple):
    """Whether the first line has names, and where each role is."""

    header: bool
    places: list[int]


def heading_of(
    first: Sequence[str],
    told: Mapping[str, Told],
    header: bool | None,
    is_rating: Callable[[str], bool],
    label: str,
) -> Heading:
    """What the first line of a file says about its columns.

    It has names if a column is told by name, or if it names all roles as is usual, or if
    `header=True`; it is a rating if a field is a number or its third one is a rating. Otherwise it
    cannot be told.
    """
    if len(first) < len(told):
        raise RatingsError(
            f"{label}: the first line has {len(first)} field{'s' * (len(first) > 1)}, "
            f"{_quoted(first)}; need {', '.join(told)}"
        )
    if header is None:
        header = any(isinstance(name, str) for name in told.values()) or _are_usual(first, told)
        # A line of names without numbers, of which every column is told by number, is no data.
        header = header or (None not in told.values() and not _is_data(first, told, is_rating))
        if not header and not _is_data(first, told, is_rating):
            raise RatingsError(
                f"{label}: cannot tell the columns from the first line, {_quoted(first)}: if these "
                f"are names, say {_options(told)}; if it is data, header=False"
            )
    if header:
        return Heading(True, named_places(first, told, label))
    places = []
    for number, (role, name) in enumerate(told.items()):
        if isinstance(name, str):
            raise RatingsError(f"{role}={name!r} needs a line of names: leave header=False out")
        places.append(number if name is None else name)
    return Heading(False, _checked(places, first, told, label))


def named_places(names: Sequence[str], told: Mapping[str, Told], label: str) -> list[int]:
    """Where each role is among named columns."""
    taken = {name for name in told.values() if name is not None}
    places = []
    for role, name in told.items():
        if isinstance(name, str):
            found = [place for place, other in enumerate(names) if other.strip() == name.strip()]
        elif name is not None:
            found = [name]
        else:
            found = [
                place
                for place, other in enumerate(names)
                if is_usual(other, role) and not {other, place} & taken
            ]
        if len(found) > 1:
            raise RatingsError(
                f"{label}: columns {_quoted([names[place] for place in found])} could all be the "
                f"{role}: say which with {role}= (a name, or a number from 0)"
            )
        if not found:
            what = f"no column {name!r}" if name else f"cannot tell which column is the {role}"
            raise RatingsError(
                f"{label}: {what}; the columns are {_quoted(names)}: say which with {role}="
            )
        places.append(found[0])
    return _checked(places, names, told, label)


def _checked(
    places: list[int], names: Sequence[str], told: Mapping[str, Told], label: str
) -> list[int]:
    for role, place in zip(told, places, strict=True):
        if isinstance(place, bool) or not 0 <= place < len(names):
            raise RatingsError(
                f"{label}: {role}={place!r} is not a column: there are {len(names)}, numbered "
                "from 0"
            )
    if len(set(places)) < len(places):
        roles = ", ".join(f"{role}={place}" for role, place in zip(told, places, strict=True))
        raise RatingsError(
            f"{label}: one column cannot be two things ({roles}): say {_options(told)}"
        )
    return places


def _are_usual(names: Sequence[str], told: Mapping[str, Told]) -> bool:
    return all(any(is_usual(name, role) for name in names) for role in told)


def _is_data(
    first: Sequence[str], told: Mapping[str, Told], is_rating: Callable[[str], bool]
) -> bool:
    place = told.get("rating", 2)
    place = 2 if place is None else place
    in_place = (
        "rating" in told
        and isinstance(place, int)
        and 0 <= place < len(first)
        and is_rating(first[place])
    )
    return in_place or any(NUMBER.fullmatch(field.strip()) for field in first)


def _quoted(names: Sequence[str]) -> str:
    shown = [repr(name) if len(name) <= 40 else repr(name[:37] + "...") for name in names[:12]]
    return ", ".join(shown) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")


def _options(told: Mapping[str, Told]) -> str:
    return ", ".join(f"{role}=" for role in told)
