"""Columns of Arrow tables, with names and types, as ids and ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import (
    ColumnChoice,
    EncodedColumn,
    column_places,
    is_context,
    object_array,
    usual_time_place,
)
from ordbm.data.ids import are_whole
from ordbm.data.scale import RatingScale, Scale
from ordbm.data.times import is_time
from ordbm.datasets.delimited import encoded_column
from ordbm.datasets.record_checks import Rules
from ordbm.errors import RatingsError, offending_rows

MISSING_ADVICE = {
    "rating": "; if that means 'not rated', say missing=nan",
    "time": "; to leave the times out, say time=False",
}


def table_columns(
    label: str, parts: Sequence[Any], wanted: Sequence[str], rules: Rules, first_row: int = 0
) -> tuple[list[Any], list[str] | None]:
    """Users, items and perhaps ratings and times; and the labels of an ordered rating column.

    `parts` are record batches of the columns `wanted`, with `encoded_texts`; `first_row` is the
    number of the first of their rows in the file.
    """
    import pyarrow as pa  # noqa: PLC0415

    if not sum(map(len, parts)):
        raise RatingsError(f"{label} has no rows: need {', '.join(rules.choices)}")
    table = pa.Table.from_batches(parts)
    if rules.missing.nothing and "rating" in rules.choices:
        rating = table[wanted[list(rules.choices).index("rating")]]
        rules.left_out.n_missing += rating.null_count
        table = table.filter(rating.is_valid())
    by_role = {role: table[name] for role, name in zip(rules.choices, wanted, strict=True)}
    if rules.time_if_found and "time" in by_role and not _begins_with_time(by_role["time"]):
        del by_role["time"]
    row = range(first_row, first_row + len(table))
    for role, column in by_role.items():
        if column.null_count and not is_context(role):
            missing = np.flatnonzero(column.is_null().to_numpy())
            advice = MISSING_ADVICE.get(role, "")
            raise RatingsError(
                f"{label}: the {role} is missing in {offending_rows(missing, row=row)}; rows count "
                f"from 0{advice}"
            )
    columns = [_values(role, column, label, row) for role, column in by_role.items()]
    return columns, _own_labels(by_role.get("rating"), rules.scale)


def wanted_columns(label: str, schema: Any, choices: Mapping[str, ColumnChoice]) -> list[str]:
    """The names of the columns to read, which are of kinds that can be read."""
    names = list(schema.names)
    wanted = [names[place] for place in column_places(names, choices, f"{label}: ")]
    repeated = [name for name in wanted if names.count(name) > 1]
    if repeated:
        raise RatingsError(f"{label} has several columns {repeated[0]!r}: rename them")
    for role, name in zip(choices, wanted, strict=True):
        kind = value_kind(schema.field(name).type)
        if not _is_usable(kind, role):
            needed = (
                "it must hold numbers or text"
                if is_context(role)
                else _NEEDED.get(role, IDS_NEEDED)
            )
            raise RatingsError(f"{label}: the {role} column holds {kind}; {needed}")
    return wanted


def with_time_column(rules: Rules, schema: Any) -> Rules:
    """The same rules, with times if no column was said to have them and one does by its name."""
    if not rules.time_if_found:
        return rules
    others = column_places(schema.names, rules.choices)
    place = usual_time_place(schema.names, others)
    if place is None or not _is_usable(value_kind(schema.field(place).type), "time"):
        return rules
    return rules.with_time(place)


IDS_NEEDED = "ids must be integers or text"
_NEEDED = {
    "rating": "ratings must be numbers or labels",
    "time": "times must be numbers of seconds, timestamps, dates or ISO 8601 text",
}


def value_kind(kind: Any) -> Any:
    """The type of a column's values, also where they are in a dictionary."""
    import pyarrow as pa  # noqa: PLC0415

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_usable(kind: Any, role: str) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or is_text(kind):
        return True
    if role == "time":
        return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))
    return (role == "rating" or is_context(role)) and (
        pa.types.is_decimal(kind) or kind == pa.bool_()
    )


def encoded_texts(part: Any) -> Any:
    """The rows with all columns of text as dictionaries."""
    import pyarrow as pa  # noqa: PLC0415

    columns = [
        column.cast(pa.string()).dictionary_encode() if is_text(column.type) else column
        for column in part.columns
    ]
    return pa.RecordBatch.from_arrays(columns, part.schema.names)


def _texts(column: Any) -> EncodedColumn:
    import pyarrow as pa  # noqa: PLC0415

    found = encoded_column(column.cast(pa.dictionary(pa.int32(), pa.string())))
    return EncodedColumn(list(found.distinct), found.codes)


def _values(role: str, column: Any, label: str, row: range) -> Any:
    if role == "rating":
        return _ratings(column)
    if is_context(role):
        return column.to_pylist()
    return _times(column) if role == "time" else _ids(column, f"{label}: the {role} column", row)


def _begins_with_time(column: Any) -> bool:
    first = column[0]
    return bool(first.is_valid and (not is_text(value_kind(column.type)) or is_time(first.as_py())))


def _times(column: Any) -> NDArray[Any] | EncodedColumn:
    kind = value_kind(column.type)
    if is_text(kind):
        return _texts(column)
    times: NDArray[Any] = column.cast(kind).to_numpy()
    return times


def _ids(column: Any, label: str, row: range) -> NDArray[Any] | EncodedColumn:
    import pyarrow as pa  # noqa: PLC0415

    kind = value_kind(column.type)
    if is_text(kind):
        texts = _texts(column)
        empty = np.array([text == "" for text in texts.distinct])[texts.codes]
        if empty.any():
            raise RatingsError(
                f"{label} is empty in {offending_rows(empty, row=row)}; rows count from 0"
            )
        return texts
    column = column.cast(kind)
    if pa.types.is_integer(kind):
        integers: NDArray[Any] = column.to_numpy()
        return integers if kind != pa.uint64() else object_array(integers.tolist())
    numbers = column.to_numpy().astype(np.float64)
    whole = are_whole(numbers)
    if whole.all():  # integers that met a missing value once
        return numbers.astype(np.int64)
    said = offending_rows(~whole, row=row, id=numbers)
    raise RatingsError(f"{label} holds numbers that are not integers: {said}; {IDS_NEEDED}")


def _ratings(column: Any) -> NDArray[Any]:
    import pyarrow as pa  # noqa: PLC0415

    kind = value_kind(column.type)
    if is_text(kind):
        return _texts(column).values
    numbers: NDArray[Any] = column.cast(
        pa.float64() if pa.types.is_decimal(kind) else kind
    ).to_numpy()
    return numbers


def _own_labels(column: Any, scale: Scale | None) -> list[str] | None:
    """The categories of an ordered categorical column, unless a scale is given."""
    if column is None or isinstance(scale, RatingScale) or not _is_ordered(column.type):
        return None
    return _labels(column.unify_dictionaries().chunk(0).dictionary)


def ordered_labels(array: Any) -> list[str] | None:
    """The same of an array."""
    return _labels(array.dictionary) if _is_ordered(array.type) else None


def _is_ordered(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    return bool(pa.types.is_dictionary(kind) and kind.ordered)


def _labels(dictionary: Any) -> list[str] | None:
    labels = dictionary.to_pylist()
    return labels if all(isinstance(label, str) for label in labels) else None


def is_text(kind: Any) -> bool:
    """Whether a type of Arrow is one of text."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or is_view(kind)


def is_view(kind: Any) -> bool:
    """Whether a type of Arrow is text that is kept once and pointed at."""
    import pyarrow as pa  # noqa: PLC0415

    known = getattr(pa.types, "is_string_view", None)
    return bool(known and known(kind))
