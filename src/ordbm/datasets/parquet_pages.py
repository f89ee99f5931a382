"""What the pages of a parquet file's columns will unpack to, before any of them is unpacked.

A footer may claim any size; but a reader unpacks a page into exactly what the header before that
page says, so the sum over these headers is what reading takes. Footer and headers are read here
(https://github.com/apache/parquet-format, `parquet.thrift`), as Arrow shows no headers, and ends
the process over some damaged footers that it is asked about.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ordbm.datasets.limits import Budget
from ordbm.datasets.thrift_structs import (
    INTEGERS,
    PLAIN_STRUCT,
    STRUCTS,
    TEXTS,
    StructReader,
    StructShape,
)

_TAIL = 8  # bytes at the end: the length of the footer, and the magic
_STRUCT_SIZE = 512  # bytes that a struct of the footer takes in memory, about
_LEAST_PAGE = 256  # bytes that a page counts for: there may be any number of empty ones
_LONGEST_FOOTER = 2**28  # bytes; it is read whole
_LARGEST = 2**31 - 1  # of 32 bits, to which a reader would cut larger numbers

_SIZE_STATISTICS = StructShape({2: INTEGERS, 3: INTEGERS})
_GEOSPATIAL = StructShape({2: INTEGERS})
_COLUMN = StructShape(
    {2: INTEGERS, 3: TEXTS, 8: STRUCTS, 13: STRUCTS}, {16: _SIZE_STATISTICS, 17: _GEOSPATIAL}
)
_ENCRYPTION = StructShape({}, {2: StructShape({1: TEXTS})})
_CHUNK = StructShape({}, {3: _COLUMN, 8: _ENCRYPTION})
_ROW_GROUP = StructShape({1: STRUCTS, 4: STRUCTS}, {1: _CHUNK})
_FOOTER = StructShape({2: STRUCTS, 4: STRUCTS, 5: STRUCTS, 7: STRUCTS}, {4: _ROW_GROUP})
_N_ROWS = 3  # of the footer, and of a row group
_ROW_GROUPS, _CHUNKS, _METADATA = 4, 1, 3
_N_VALUES, _LENGTH, _DATA_PLACE, _DICTIONARY_PLACE = 5, 7, 9, 11  # of a column

_KIND, _UNPACKED, _PACKED = 1, 2, 3  # of a page
_DATA_HEADERS = {0: (5, 2), 3: (8, 4)}  # by kind of page: which field, and in it the encoding's
_N_PAGE_VALUES = 1  # in it, too
_PAGE = StructShape({}, {5: PLAIN_STRUCT, 8: PLAIN_STRUCT})


class Page(NamedTuple):
    """A page: the bytes it unpacks to, and how its values are encoded (None for a dictionary)."""

    size: int
    encoding: int | None


class ParquetPages:
    """The pages of a file's columns, counted as what they unpack to.

    `content` is bytes, or whatever gives the same where it is asked for them (`FileContent`).
    ValueError where the file is not what it should be.
    """

    def __init__(self, content: Any, budget: Budget, label: str) -> None:
        self._content, self._budget, self._label = content, budget, label
        end = len(content) - _TAIL
        length = int.from_bytes(content[end : end + 4], "little") if end > 0 else 0
        if not 0 < length <= min(end, _LONGEST_FOOTER):
            raise ValueError("it has no footer")
        reader = StructReader(
            content[end - length : end], lambda: budget.add_bytes(_STRUCT_SIZE, label)
        )
        footer = reader.struct(_FOOTER)
        groups = footer.get(_ROW_GROUPS, [])
        self._chunks: list[list[Any]] = [group.get(_CHUNKS, []) for group in groups]
        self._n_rows = [_amount(group, _N_ROWS, 2**62) for group in groups]
        if sum(self._n_rows) != _amount(footer, _N_ROWS, 2**62):  # Arrow believes the parts
            raise ValueError("its parts have another number of rows than the whole")
        self.n_rows = sum(self._n_rows)

    def of_column(self, number: int) -> Iterator[Page]:
        """The pages of a stored column in all row groups, as a reader meets them."""
        for chunks, n_rows in zip(self._chunks, self._n_rows, strict=True):
            if number >= len(chunks) or _METADATA not in chunks[number]:
                raise ValueError("a column is missing")
            column = chunks[number][_METADATA]
            if column.get(_N_VALUES) != n_rows:
                raise ValueError("a column has another number of values than there are rows")
            yield from self._of_chunk(column)

    def _of_chunk(self, column: dict[int, Any]) -> Iterator[Page]:
        at, length, n_values = (
            _amount(column, field, 2**62) for field in (_DATA_PLACE, _LENGTH, _N_VALUES)
        )
        dictionary = column.get(_DICTIONARY_PLACE)
        if isinstance(dictionary, int) and 0 < dictionary < at:
            at = dictionary
        if at + length > len(self._content):
            raise ValueError("a column is said to lie outside of the file")
        reader = StructReader(self._content)
        reader.at = at
        while reader.at < at + length and n_values > 0:
            header = reader.struct(_PAGE)
            page, n_here = _page(header)
            self._budget.add_bytes(max(page.size, _LEAST_PAGE), self._label)
            reader.at += _amount(header, _PACKED, _LARGEST)
            n_values -= n_here
            yield page


def _page(header: dict[int, Any]) -> tuple[Page, int]:
    """A page, and how many values it has if they are no dictionary."""
    size = _amount(header, _UNPACKED, _LARGEST)
    if header.get(_KIND) not in _DATA_HEADERS:
        return Page(size, None), 0
    place, encoding = _DATA_HEADERS[header[_KIND]]
    inside = header.get(place, {})
    found = Page(size, _amount(inside, encoding, _LARGEST))
    return found, _amount(inside, _N_PAGE_VALUES, _LARGEST)


def _amount(fields: dict[int, Any], number: int, largest: int) -> int:
    found = fields.get(number)
    if type(found) is not int or not 0 <= found <= largest:
        raise ValueError("a page or a column does not say how large it is")
    return found
