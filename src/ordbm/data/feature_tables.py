"""Tables of what is known of users or items, as callers give them: a row for each id."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from ordbm.data.columns import is_usual_name
from ordbm.data.ids import IdMap, check_hashes, is_missing
from ordbm.data.lookup import check_ids_of_type
from ordbm.data.rating_tables import named_columns
from ordbm.errors import SHOWN_ROWS, RatingsError
from ordbm.runtime.printable import shown


class FeatureTable(NamedTuple):
    """Columns of a table by name, a row for each id."""

    ids: IdMap
    columns: dict[str, list[Any]]


def feature_table(table: Any, kind: str, known: IdMap, *, may_be_new: bool = False) -> FeatureTable:
    """The table of features of users or items (`kind`), keyed by a column called like ids.

    That is `kind`, or a usual name of it, or else the first column. `known` are the ids of ratings;
    some must be among them unless all `may_be_new`.
    """
    what = f"{kind}_features"
    columns = named_columns(table)
    names = list(columns)
    keys = [name for name in names if name == kind] or [
        name for name in names if is_usual_name(name, kind)
    ]
    if not names:
        raise RatingsError(f"{what} has no columns: give a frame of an id and what is known of it")
    key = (keys or names)[0]
    plain = {str(name): _values(values) for name, values in columns.items()}
    given = [_plain_id(value) for value in plain.pop(str(key))]
    for name, values in plain.items():
        if len(values) != len(given):
            raise RatingsError(
                f"{what}: column {shown(name)} has {len(values):,} values for {len(given):,} ids"
            )
    missing = [row for row, value in enumerate(given) if is_missing(value)]
    if missing:
        raise RatingsError(f"{what}: row {missing[0]} has no {kind}: leave it out")
    check_hashes(given, f"ids of {what}")
    if not plain:
        raise RatingsError(f"{what} has only the column {shown(key)}: nothing is known of them")
    twice = [value for value, count in Counter(given).items() if count > 1]
    if twice:
        rows = [row for row, value in enumerate(given) if value == twice[0]][:2]
        raise RatingsError(
            f"{what}: {kind} {shown(twice[0])} is there more than once (rows {rows[0]} and "
            f"{rows[1]}): give one row for each"
        )
    ids, _ = IdMap.of(given)
    strangers = [value for value in ids if value not in known]
    if not may_be_new and known.ids and len(strangers) == len(ids):
        some = ", ".join(map(shown, given[:SHOWN_ROWS]))
        raise RatingsError(
            f"{what}: none of its {len(given):,} ids ({some}, …; column {shown(key)}) has ratings, "
            f"whose {kind}s are {', '.join(map(shown, known.ids[:SHOWN_ROWS]))}, …: give the same "
            "ids, of the same type"
        )
    check_ids_of_type(strangers, known, kind)
    return FeatureTable(ids, plain)


def _values(column: Any) -> list[Any]:
    if isinstance(column, nw.Series):
        return column.to_list()
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def _plain_id(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value
