"""Parquet files: columns with names and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import ColumnChoice, EncodedColumn, column_places, object_array
from ordbm.data.scale import RatingScale, Scale
from ordbm.datasets.delimited import encoded_column
from ordbm.datasets.parquet_pages import ParquetPages
from ordbm.datasets.sources import SourceFile
from ordbm.errors import RatingsError, offending_rows

PARQUET_MAGIC = b"PAR1"
_LARGEST_EXACT = 2**53
_ROWS_AT_ONCE = 2**20
_AS_DICTIONARY = (0, 2, 8)  # encodings of text that Arrow can read as a dictionary
_WIDEST_NUMBER = 32  # bytes of a decimal


def parquet_columns(
    file: SourceFile, choices: Mapping[str, ColumnChoice], scale: Scale | None
) -> tuple[list[Any], list[str] | None]:
    """Users, items and perhaps ratings; and the labels that an ordered rating column brings."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    buffer = pa.py_buffer(file.content)
    try:
        pages = ParquetPages(file.content, file.budget, file.label)  # before Arrow sees any of it
        source = parquet.ParquetFile(buffer)
        wanted = _wanted(file, source.schema_arrow, choices)
        leaves = _leaves(file, source.schema, wanted)
        texts, at_once = _how_to_read(source, leaves, pages, file.budget.most_bytes)
        source = parquet.ParquetFile(
            buffer, read_dictionary=texts, page_checksum_verification=True, pre_buffer=False
        )
        parts = []
        for part in source.iter_batches(at_once, columns=wanted):
            file.budget.add_rows(len(part), file.label)
            part.validate(full=True)
            parts.append(_encoded_texts(part))
    except RatingsError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as problem:
        first = (str(problem).splitlines() or ["unreadable"])[0]
        raise RatingsError(f"{file.label} is not a whole parquet file: {first}") from problem
    if not sum(map(len, parts)):
        raise RatingsError(f"{file.label} has no rows: need {', '.join(choices)}")
    table = pa.Table.from_batches(parts)
    del parts
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


def _wanted(file: SourceFile, schema: Any, choices: Mapping[str, ColumnChoice]) -> list[str]:
    """The names of the columns to read, which are of kinds that can be read."""
    names = list(schema.names)
    wanted = [names[place] for place in column_places(names, choices, f"{file.label}: ")]
    repeated = [name for name in wanted if names.count(name) > 1]
    if repeated:
        raise RatingsError(f"{file.label} has several columns {repeated[0]!r}: rename them")
    for role, name in zip(choices, wanted, strict=True):
        kind = _value_kind(schema.field(name).type)
        if not _is_usable(kind, role):
            needed = "ratings must be numbers or labels" if role == "rating" else _IDS_NEEDED
            raise RatingsError(f"{file.label}: the {role} column holds {kind}; {needed}")
    return wanted


_IDS_NEEDED = "ids must be integers or text"


def _value_kind(kind: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_usable(kind: Any, role: str) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or _is_text(kind):
        return True
    return role == "rating" and (pa.types.is_decimal(kind) or kind == pa.bool_())


def _leaves(file: SourceFile, schema: Any, wanted: Sequence[str]) -> list[int]:
    """The numbers of the stored columns that Arrow reads where `wanted` are asked for.

    These are also `user.name` where `user` is asked for.
    """
    found = []
    for number in range(len(schema)):
        leaf = schema.column(number)
        for name in wanted:
            if leaf.path == name or leaf.path.startswith(f"{name}."):
                found.append(number)
                wide = leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" and leaf.length > _WIDEST_NUMBER
                if leaf.max_repetition_level or wide:
                    raise RatingsError(
                        f"{file.label}: the column {leaf.path!r} holds lists or bytes, and goes "
                        f"with {name!r}: rename it"
                    )
    return found


def _how_to_read(
    source: Any, leaves: Sequence[int], pages: ParquetPages, most_bytes: int
) -> tuple[list[str], int]:
    """The columns of text to read as dictionaries, and how many rows at once.

    Text is never written out for every row: a dictionary of one long text and a million rows of it
    take a few bytes. Where Arrow cannot read a dictionary, the longest text there may be, a whole
    page, has to fit as often as there are rows at once.
    """
    import pyarrow as pa  # noqa: PLC0415

    texts, longest = [], 1
    schema = source.schema_arrow
    dictionaries = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    for number in leaves:
        leaf = source.schema.column(number)
        encodings: set[int | None] = set()
        largest = 1
        for page in pages.of_column(number):
            encodings.add(page.encoding)
            largest = max(largest, page.size)
        if leaf.physical_type != "BYTE_ARRAY" or leaf.path in dictionaries:
            continue
        if encodings <= {None, *_AS_DICTIONARY}:
            texts.append(leaf.path)
        else:
            longest = max(longest, largest)
    return texts, max(1, min(most_bytes // longest, _ROWS_AT_ONCE))


def _encoded_texts(part: Any) -> Any:
    """The rows with all columns of text as dictionaries."""
    import pyarrow as pa  # noqa: PLC0415

    columns = [
        column.cast(pa.string()).dictionary_encode() if _is_text(column.type) else column
        for column in part.columns
    ]
    return pa.RecordBatch.from_arrays(columns, part.schema.names)


def _texts(column: Any) -> EncodedColumn:
    import pyarrow as pa  # noqa: PLC0415

    return encoded_column(column.cast(pa.dictionary(pa.int32(), pa.string())))


def _ids(column: Any, label: str) -> NDArray[Any] | EncodedColumn:
    import pyarrow as pa  # noqa: PLC0415

    kind = _value_kind(column.type)
    if _is_text(kind):
        texts = _texts(column)
        empty = np.array([text == "" for text in texts.distinct])[texts.codes]
        if empty.any():
            raise RatingsError(f"{label} is empty in {offending_rows(empty)}; rows count from 0")
        return texts
    column = column.cast(kind)
    if pa.types.is_integer(kind):
        integers: NDArray[Any] = column.to_numpy()
        return integers if kind != pa.uint64() else object_array(integers.tolist())
    numbers = column.to_numpy().astype(np.float64)
    whole = (np.abs(numbers) < _LARGEST_EXACT) & (numbers == np.round(numbers))
    if whole.all():  # integers that met a missing value once
        return numbers.astype(np.int64)
    raise RatingsError(
        f"{label} holds numbers that are not integers: {offending_rows(~whole, id=numbers)}; "
        f"{_IDS_NEEDED}"
    )


def _ratings(column: Any, label: str) -> NDArray[Any]:  # noqa: ARG001
    import pyarrow as pa  # noqa: PLC0415

    kind = _value_kind(column.type)
    if _is_text(kind):
        return _texts(column).values
    numbers: NDArray[Any] = column.cast(
        pa.float64() if pa.types.is_decimal(kind) else kind
    ).to_numpy()
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
