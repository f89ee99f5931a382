"""Parquet files: columns with names and types, of one file or of all in a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ordbm.datasets.arrow_tables import (
    encoded_texts,
    table_columns,
    wanted_columns,
    with_time_column,
)
from ordbm.datasets.limits import Budget
from ordbm.datasets.parquet_pages import ParquetPages
from ordbm.datasets.record_checks import Rules
from ordbm.datasets.stored_files import FileContent, StoredFile, check_keys
from ordbm.errors import RatingsError

MOST_ROWS_READ = 2**20
_AS_DICTIONARY = (0, 2, 8)  # encodings of text that Arrow can read as a dictionary
_WIDEST_NUMBER = 32  # bytes of a decimal
_READ_AT_ONCE = 2**20  # bytes of a stored column


class FileRows(NamedTuple):
    """Some rows of a file."""

    label: str
    first_row: int
    batch: Any


class ParquetDataset:
    """Parquet files of the same columns, each checked before Arrow sees any of it."""

    def __init__(
        self, label: str, files: Sequence[StoredFile], rules: Rules, budget: Budget
    ) -> None:
        self.label, self.files, self._budget = label, files, budget
        check_keys(list(files), label)
        self._key_kinds = _key_kinds(files)
        self.n_rows = 0
        for number, file in enumerate(files):
            with _whole(file.label):
                one = self._opened(file)
                if number == 0:
                    self.rules = with_time_column(rules, one.schema)
                    names = wanted_columns(file.label, one.schema, self.rules.choices)
                    self.wanted = names
                    self._first = one if len(files) == 1 else None
                    self.schema = one.schema
                by_name = dict(zip(self.rules.choices, self.wanted, strict=True))
                wanted_columns(file.label, one.schema, by_name)
            budget.add_rows(one.n_rows, file.label)
            self.n_rows += one.n_rows

    def parts(self, at_once: int = MOST_ROWS_READ) -> Iterator[FileRows]:
        """All rows, some at a time, as batches of the columns `wanted`, texts as dictionaries."""
        for file in self.files:
            with _whole(file.label):
                yield from self._parts_of(file, at_once)

    def _parts_of(self, file: StoredFile, at_once: int) -> Iterator[FileRows]:
        from pyarrow import parquet  # noqa: PLC0415

        one = self._first or self._opened(file)
        stored = [name for name in self.wanted if name not in one.keys]
        leaves = _leaves(file.label, one.source.schema, stored)
        texts, most = _how_to_read(one.source, leaves, one.pages, self._budget.most_bytes)
        source = parquet.ParquetFile(
            one.file,
            read_dictionary=texts,
            page_checksum_verification=True,
            pre_buffer=False,
            buffer_size=_READ_AT_ONCE,
        )
        first_row = 0
        for batch in source.iter_batches(min(most, at_once), columns=stored):
            if first_row + len(batch) > one.n_rows:
                raise ValueError("it has more rows than it says")
            batch.validate(full=True)
            found = encoded_texts(batch)
            yield FileRows(file.label, first_row, one.with_keys(found, self.wanted))
            first_row += len(batch)

    def _opened(self, file: StoredFile) -> _Opened:
        from pyarrow import parquet  # noqa: PLC0415

        content = file.open()
        pages = ParquetPages(FileContent(content, file.size), self._budget, file.label)
        source = parquet.ParquetFile(content)
        names = source.schema_arrow.names
        keys = {
            key: _typed(value, self._key_kinds[key])
            for key, value in file.keys.items()
            if key not in names
        }
        return _Opened(content, pages, source, keys)


class _Opened:
    """A file that has been opened; its folders' columns come after its own."""

    def __init__(self, file: Any, pages: ParquetPages, source: Any, keys: dict[str, Any]) -> None:
        self.file, self.pages, self.source, self.keys = file, pages, source, keys
        self.n_rows = pages.n_rows
        self.schema = source.schema_arrow
        for name, value in keys.items():
            self.schema = self.schema.append(_key_column(name, value, 1)[0])

    def with_keys(self, batch: Any, wanted: Sequence[str]) -> Any:
        """A batch with the columns of folders, in the order in which they are wanted."""
        import pyarrow as pa  # noqa: PLC0415

        if not self.keys:
            return batch.select(list(wanted))
        columns, schema = [], []
        for name in wanted:
            if name in self.keys:
                field, column = _key_column(name, self.keys[name], len(batch))
            else:
                field, column = batch.schema.field(name), batch.column(name)
            columns.append(column)
            schema.append(field)
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(schema))


def parquet_columns(dataset: ParquetDataset) -> tuple[list[Any], list[str] | None]:
    """Users, items and perhaps ratings and times; and the labels of an ordered rating column."""
    parts = [part.batch for part in dataset.parts()]
    return table_columns(dataset.label, parts, dataset.wanted, dataset.rules)


def _key_kinds(files: Sequence[StoredFile]) -> dict[str, type]:
    """What the values of each key can be read as in all folders: integers, numbers or text."""
    found: dict[str, type] = {}
    for key in files[0].keys:
        values = {file.keys[key] for file in files} - {None}
        found[key] = next(kind for kind in (int, float, str) if _all_are(kind, values))
    return found


def _all_are(kind: type, values: set[Any]) -> bool:
    if kind is str:
        return True
    try:
        return all(value == str(kind(value)) and len(value) < 19 for value in values)
    except ValueError:
        return False


def _typed(value: str | None, kind: type) -> Any:
    return None if value is None else kind(value)


def _key_column(name: str, value: Any, n: int) -> tuple[Any, Any]:
    """A column that is the same in all of `n` rows, with its type."""
    import pyarrow as pa  # noqa: PLC0415

    if value is None:
        column = pa.nulls(n, pa.int64())
    elif isinstance(value, str):
        column = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), n), [value])
    else:
        column = pa.repeat(pa.scalar(value), n)
    return pa.field(name, column.type), column


@contextmanager
def _whole(label: str) -> Iterator[None]:
    """Whatever a damaged file makes Arrow raise, as one clear error."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        yield
    except RatingsError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as problem:
        first = (str(problem).splitlines() or ["unreadable"])[0]
        raise RatingsError(f"{label} is not a whole parquet file: {first}") from problem


def _leaves(label: str, schema: Any, wanted: Sequence[str]) -> list[int]:
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
                        f"{label}: the column {leaf.path!r} holds lists or bytes, and goes "
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
    return texts, max(1, min(most_bytes // longest, MOST_ROWS_READ))
