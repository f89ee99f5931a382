"""Parquet files: columns with names and types."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import ColumnChoice, EncodedColumn, column_places, object_array
from ordbm.data.scale import RatingScale, Scale
from ordbm.datasets.delimited import encoded_column
from ordbm.datasets.sources import SourceFile
from ordbm.errors import RatingsError, offending_rows

PARQUET_MAGIC = b"PAR1"
_MOST_ROWS_PER_BYTE = 100  # distinct pairs of ids do not compress further
_LARGEST_EXACT = 2**53


def parquet_columns(
    file: SourceFile, choices: Mapping[str, ColumnChoice], scale: Scale | None
) -> tuple[list[Any], list[str] | None]:
    """Users, items and perhaps ratings; and the labels that an ordered rating column brings."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    try:
        source = parquet.ParquetFile(io.BytesIO(file.content), page_checksum_verification=True)
        names, n_rows = list(source.schema_arrow.names), source.metadata.num_rows
        wanted = _wanted(file, names, n_rows, choices)
        table = source.read(columns=wanted)
        table.validate(full=True)
    except RatingsError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as problem:
        first = (str(problem).splitlines() or ["unreadable"])[0]
        raise RatingsError(f"{file.label} is not a whole parquet file: {first}") from problem
    if not table.num_rows:
        raise RatingsError(f"{file.label} has no rows: need {', '.join(choices)}")
    by_role = {role: table[name] for role, name in zip(choices, wanted, strict=True)}
    for role, column in by_role.items():
        if column.null_count:
            missing = np.flatnonzero(column.is_null().to_numpy())
            raise RatingsError(
                f"{file.label}: the {role} is missing in {offending_rows(missing)}; rows count "
                "from 0"
            )
    columns = [
        (_ratings if role == "rating" else _ids)(column, f"{file.label}: the {role} column")
        for role, column in by_role.items()
    ]
    return columns, _own_labels(by_role.get("rating"), scale)


def _wanted(
    file: SourceFile, names: list[str], n_rows: int, choices: Mapping[str, ColumnChoice]
) -> list[str]:
    """The names of the columns to read."""
    if n_rows > _MOST_ROWS_PER_BYTE * len(file.content):
        raise RatingsError(
            f"{file.label} claims {n_rows:,} rows in {len(file.content):,} bytes: refused"
        )
    wanted = [names[place] for place in column_places(names, choices, f"{file.label}: ")]
    repeated = [name for name in wanted if names.count(name) > 1]
    if repeated:
        raise RatingsError(f"{file.label} has several columns {repeated[0]!r}: rename them")
    return wanted


def _ids(column: Any, label: str) -> NDArray[Any] | EncodedColumn:
    import pyarrow as pa  # noqa: PLC0415

    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_integer(kind):
        integers = column.to_numpy()
        return integers if kind != pa.uint64() else object_array(integers.tolist())
    if pa.types.is_floating(kind):
        numbers = column.to_numpy().astype(np.float64)
        whole = (np.abs(numbers) < _LARGEST_EXACT) & (numbers == np.round(numbers))
        if whole.all():  # integers that met a missing value once
            return numbers.astype(np.int64)
        raise RatingsError(
            f"{label} holds numbers that are not integers: {offending_rows(~whole, id=numbers)}; "
            "ids must be integers or text"
        )
    if _is_text(kind):
        texts = encoded_column(column.cast(pa.string()).dictionary_encode())
        if "" in texts.distinct:
            empty = texts.codes == texts.distinct.index("")
            raise RatingsError(f"{label} is empty in {offending_rows(empty)}; rows count from 0")
        return texts
    raise RatingsError(f"{label} holds {kind}; ids must be integers or text")


def _ratings(column: Any, label: str) -> NDArray[Any]:
    import pyarrow as pa  # noqa: PLC0415

    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif _is_text(kind):
        texts = encoded_column(column.cast(pa.string()).dictionary_encode())
        return texts.values
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or kind == pa.bool_()):
        raise RatingsError(f"{label} holds {kind}; ratings must be numbers or labels")
    numbers: NDArray[Any] = column.to_numpy()
    return numbers


def _own_labels(column: Any, scale: Scale | None) -> list[str] | None:
    """The categories of an ordered categorical column, unless a scale is given."""
    import pyarrow as pa  # noqa: PLC0415

    if column is None or isinstance(scale, RatingScale):
        return None
    if not pa.types.is_dictionary(column.type) or not column.type.ordered:
        return None
    labels = column.unify_dictionaries().chunk(0).dictionary.to_pylist()
    return labels if all(isinstance(label, str) for label in labels) else None


def _is_text(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_view(kind)


def _is_view(kind: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    known = getattr(pa.types, "is_string_view", None)
    return bool(known and known(kind))
