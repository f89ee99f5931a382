"""Feather and other files of Arrow's own form (IPC): messages, counted before they are unpacked.

A file lists its messages at the end, and may list one of them a million times; as often it counts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ordbm.datasets.arrow_tables import (
    encoded_texts,
    is_view,
    table_columns,
    wanted_columns,
    with_time_column,
)
from ordbm.datasets.record_checks import Rules
from ordbm.datasets.sources import SourceFile
from ordbm.errors import RatingsError

FEATHER_MAGIC = b"ARROW1"  # also at the end
STREAM_MAGIC = b"\xff\xff\xff\xff"
_END_OF_STREAM = STREAM_MAGIC + b"\0\0\0\0"
_DICTIONARY, _BATCH = 2, 3  # kinds of messages that have columns
_HEADER_KIND, _HEADER = 1, 2  # fields of a message
_ROWS, _BUFFERS, _COMPRESSION = 0, 2, 3  # of a batch
_ENTRIES = 1  # of a dictionary: the batch of them
_LISTS = (2, 3)  # of the list at the end: dictionaries, batches
_PLACE = "qi4xq"  # of a message in a file: where, bytes that describe it, bytes of its buffers
_NOT_PACKED = -1  # where a buffer's unpacked size stands


def feather_columns(file: SourceFile, rules: Rules) -> tuple[list[Any], list[str] | None]:
    """Users, items and perhaps ratings and times; and the labels of an ordered rating column."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        _count(file)  # before Arrow unpacks any of it
        schema = _opened(file.content).schema
        rules = with_time_column(rules, schema)
        wanted = wanted_columns(file.label, schema, rules.choices)
        options = pa.ipc.IpcReadOptions(
            included_fields=[schema.get_field_index(name) for name in wanted], use_threads=False
        )
        parts = []
        for part in _parts(_opened(file.content, options=options)):
            part.validate(full=True)
            for column in part.columns:
                file.budget.add_bytes(_viewed_bytes(column), file.label)
            parts.append(encoded_texts(part.select(wanted)))
    except RatingsError:
        raise
    except (pa.ArrowException, struct.error, OSError, ValueError, MemoryError) as problem:
        first = (str(problem).splitlines() or ["unreadable"])[0]
        raise RatingsError(f"{file.label} is not a whole Feather file: {first}") from problem
    return table_columns(file.label, parts, wanted, rules)


def _opened(content: bytes, **how: Any) -> Any:
    """Arrow's reader of a file or of a stream."""
    import pyarrow as pa  # noqa: PLC0415

    is_file = content.startswith(FEATHER_MAGIC)
    return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(pa.py_buffer(content), **how)


def _parts(reader: Any) -> Iterator[Any]:
    if not hasattr(reader, "num_record_batches"):
        return iter(reader)
    return map(reader.get_batch, range(reader.num_record_batches))


def _messages(content: bytes) -> Iterator[Any]:
    """Each message as often as Arrow would read it; an error if the end is missing."""
    import pyarrow as pa  # noqa: PLC0415

    buffer = pa.py_buffer(content)
    is_file = content.startswith(FEATHER_MAGIC)
    if not content.endswith(FEATHER_MAGIC if is_file else _END_OF_STREAM):
        raise ValueError("its end is missing")
    if not is_file:
        yield from pa.ipc.MessageReader.open_stream(buffer)
        return
    end = len(content) - len(FEATHER_MAGIC) - 4
    length = _unpack(content, "i", end)
    if not 0 < length < end:
        raise ValueError("its list of parts is beyond it")
    listed = _Table.root(content[end - length : end])
    for field in _LISTS:
        for place, about, body in listed.rows(field, _PLACE):
            if min(place, about, body) < 0 or place + about + body > len(content):
                raise ValueError("a part is beyond it")
            yield pa.ipc.read_message(buffer[place : place + about + body])


def _count(file: SourceFile) -> None:
    """Count the rows and the unpacked bytes of all messages."""
    for message in _messages(file.content):
        told = _Table.root(message.metadata.to_pybytes())
        kind = told.number(_HEADER_KIND, "B")
        if kind not in {_DICTIONARY, _BATCH}:
            continue
        batch = told.table(_HEADER)
        rows = batch.table(_ENTRIES) if kind == _DICTIONARY and batch else batch
        if rows is None:
            raise ValueError("a message without content")
        count = rows.number(_ROWS, "q")
        if count < 0:
            raise ValueError("a negative number of rows")
        if kind == _BATCH:
            file.budget.add_rows(count, file.label)
        body = message.body.to_pybytes() if message.body is not None else b""
        for size in _unpacked_sizes(rows, body):
            file.budget.add_bytes(size, file.label)


def _unpacked_sizes(batch: _Table, body: bytes) -> Iterator[int]:
    """The bytes that each buffer of a batch unpacks to; Arrow makes no more room than that."""
    packed = batch.table(_COMPRESSION) is not None
    for offset, length in batch.rows(_BUFFERS, "qq"):
        if not 0 <= offset <= offset + length <= len(body):
            raise ValueError("a buffer beyond its message")
        size = length
        if packed and length:
            claimed = int(struct.unpack_from("<q", body, offset)[0])
            size = claimed if claimed != _NOT_PACKED else length
        if size < 0:
            raise ValueError("a buffer of negative size")
        yield size


def _viewed_bytes(column: Any) -> int:
    """The bytes of a column of views written out: many views may be of one long text."""
    if not is_view(column.type):
        return 0
    views = np.frombuffer(column.buffers()[1], np.int32)[::4]  # the first of four is the length
    lengths = views[column.offset : column.offset + len(column)].astype(np.int64)
    return int(np.maximum(lengths, 0).sum())


class _Table(NamedTuple):
    """A table of FlatBuffers: before it lies a list of where its fields are, from its start."""

    content: bytes
    start: int

    @classmethod
    def root(cls, content: bytes) -> _Table:
        return cls(content, _unpack(content, "I", 0))

    def _place(self, field: int) -> int | None:
        """Where a field is; None if it is left out."""
        fields = self.start - _unpack(self.content, "i", self.start)
        if 4 + 2 * field >= _unpack(self.content, "H", fields):
            return None
        place = _unpack(self.content, "H", fields + 4 + 2 * field)
        return self.start + place if place else None

    def number(self, field: int, form: str) -> int:
        place = self._place(field)
        return 0 if place is None else _unpack(self.content, form, place)

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        if place is None:
            return None
        return _Table(self.content, place + _unpack(self.content, "I", place))

    def rows(self, field: int, form: str) -> Iterator[tuple[int, ...]]:
        """A vector of structures of this form."""
        place = self._place(field)
        if place is None:
            return
        vector = place + _unpack(self.content, "I", place)
        size = struct.calcsize(f"<{form}")
        for number in range(_unpack(self.content, "I", vector)):
            yield struct.unpack_from(f"<{form}", self.content, vector + 4 + size * number)


def _unpack(content: bytes, form: str, at: int) -> int:
    if at < 0:  # which would count from the end
        raise ValueError("a place before the message")
    return int(struct.unpack_from(f"<{form}", content, at)[0])
