"""Parquet files: columns with names and types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ordbm.datasets.arrow_tables import (
    encoded_texts,
    table_columns,
    wanted_columns,
    with_time_column,
)
from ordbm.datasets.parquet_pages import ParquetPages
from ordbm.datasets.record_checks import Rules
from ordbm.datasets.sources import SourceFile
from ordbm.errors import RatingsError

PARQUET_MAGIC = b"PAR1"
_ROWS_AT_ONCE = 2**20
_AS_DICTIONARY = (0, 2, 8)  # encodings of text that Arrow can read as a dictionary
_WIDEST_NUMBER = 32  # bytes of a decimal


def parquet_columns(file: SourceFile, rules: Rules) -> tuple[list[Any], list[str] | None]:
    """Users, items and perhaps ratings and times; and the labels of an ordered rating column."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    buffer = pa.py_buffer(file.content)
    try:
        pages = ParquetPages(file.content, file.budget, file.label)  # before Arrow sees any of it
        source = parquet.ParquetFile(buffer)
        rules = with_time_column(rules, source.schema_arrow)
        wanted = wanted_columns(file, source.schema_arrow, rules.choices)
        leaves = _leaves(file, source.schema, wanted)
        texts, at_once = _how_to_read(source, leaves, pages, file.budget.most_bytes)
        source = parquet.ParquetFile(
            buffer, read_dictionary=texts, page_checksum_verification=True, pre_buffer=False
        )
        parts = []
        for part in source.iter_batches(at_once, columns=wanted):
            file.budget.add_rows(len(part), file.label)
            part.validate(full=True)
            parts.append(encoded_texts(part))
    except RatingsError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as problem:
        first = (str(problem).splitlines() or ["unreadable"])[0]
        raise RatingsError(f"{file.label} is not a whole parquet file: {first}") from problem
    return table_columns(file, parts, wanted, rules)


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
