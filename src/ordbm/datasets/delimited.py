"""Text files of fields with something between them, one record per line.

Arrow reads what it reads as `records` would, at once and on all cores. `records` cuts the text line
by line and knows where it is: it reads everything else, and finds what is wrong.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ordbm.data.columns import EncodedColumn
from ordbm.errors import RatingsError

COLONS, SPACES = "::", " "  # the latter stands for any run of spaces and tabs
SEPARATORS = (COLONS, "\t", ",", ";", "|", SPACES)
_UNIT = b"\x1f"  # stands in for separators of several characters, which Arrow does not know
_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = {
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
LINE_END = re.compile(r"\r\n|\n|\r")
NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what "surrogateescape" makes of such bytes
LOOKED_AT = 64 * 1024
_LONGEST_FIELD = csv.field_size_limit()  # a quote that is never closed makes one field of all


class Record(NamedTuple):
    """The fields of one record and the line where it begins; or what is wrong with it."""

    line: int
    fields: list[str]
    problem: str = ""


def utf8_text(content: bytes, label: str, encoding: str) -> bytes:
    """`content` in UTF-8 without byte order mark; bytes that are not UTF-8 are found later."""
    for mark, wide in _WIDE_BOMS.items():
        if content.startswith(mark) and not encoding.lower().startswith(("utf-16", "utf-32")):
            raise RatingsError(
                f"{label} is {wide.upper()} text: save it as UTF-8, or give encoding={wide!r}"
            )
    if encoding.lower().replace("_", "-") not in {"utf-8", "utf8", "utf-8-sig"}:
        try:
            content = content.decode(encoding).encode()
        except UnicodeError as problem:
            raise RatingsError(f"{label} is not {encoding} text: {problem}") from problem
        except LookupError:
            raise RatingsError(f"encoding={encoding!r} is not known to Python") from None
    content = content.removeprefix(_BOM)
    for first, wide in enumerate(("utf-16-be", "utf-16-le")):  # every other byte mostly NUL
        halves = content[first:64:2]
        if len(halves) >= 8 and halves.count(0) > 0.75 * len(halves):
            raise RatingsError(
                f"{label} looks like UTF-16 text: save it as UTF-8, or give encoding={wide!r}"
            )
    return content


def as_text(content: bytes) -> str:
    """Text in which bytes that are not UTF-8 stand as lone surrogates."""
    return content.decode("utf-8", "surrogateescape")


def first_line(content: bytes) -> str:
    """The first line that is not blank; empty if there is none."""
    return next(
        (line for line in LINE_END.split(as_text(content[:LOOKED_AT])) if line.strip(" ")), ""
    )


def separator_of(content: bytes, label: str, among: Sequence[str] = SEPARATORS) -> str:
    """The first of `among` that is in the first line."""
    line = first_line(content)
    if not line:
        raise RatingsError(f"{label} is empty: need lines of user, item, rating")
    for separator in among:
        if separator in line.strip(" "):
            return separator
    raise RatingsError(
        f"{label}: cannot tell what separates the columns of the first line, {quoted_line(line)}; "
        "is it a file of ratings?"
    )


def records(
    text: str, separator: str, *, quotes: bool = True, most_fields: int = 0
) -> Iterator[Record]:
    """Every record that is not blank, with the number of its first line, counted from 1.

    Fields may be in double quotes, and then hold separators and line ends, unless the separator is
    `::` or spaces, or `quotes=False`. Without quotes the last of `most_fields` may hold separators.
    Spaces at the start of a field are not part of it, unless in quotes.
    """
    if separator in {COLONS, SPACES} or not quotes:
        between = re.compile(r"[ \t]+" if separator == SPACES else re.escape(separator))
        for number, line in enumerate(LINE_END.split(text), 1):
            stripped = line.strip(" \t") if separator == SPACES else line
            if stripped.strip(" "):
                fields = between.split(stripped, max(most_fields - 1, 0))
                yield Record(number, [field.lstrip(" ") for field in fields])
        return
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True
    )
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            yield Record(line, [], _quoting(str(problem)))
            continue
        if fields and fields != [""]:
            yield Record(line, fields)


def arrow_columns(
    content: bytes, separator: str, header: bool, width: int, places: Sequence[int]
) -> list[EncodedColumn] | None:
    """The columns at `places` as Arrow reads them; None if it might not read them as `records` do.

    Every record has `width` fields then, and all text is valid.
    """
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv as arrow_csv  # noqa: PLC0415

    body = _body(content) if header else content
    quoted = False
    if body is not None and separator in {COLONS, SPACES}:
        body = _with_units(body, separator)
    elif body is not None and b'"' in body:
        quoted = _is_plainly_quoted(body, separator)
        body = body if quoted else None
    if not body or body.startswith(_BOM):  # which Arrow would leave out
        return None
    names = [str(place) for place in range(width)]
    wanted = [names[place] for place in places]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(body),
            arrow_csv.ReadOptions(column_names=names, block_size=4 * 2**20),
            arrow_csv.ParseOptions(
                delimiter=_UNIT.decode() if separator in {COLONS, SPACES} else separator,
                quote_char='"' if quoted else False,
                newlines_in_values=quoted,
            ),
            arrow_csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.dictionary(pa.int32(), pa.string())),
                strings_can_be_null=False,
            ),
        )
        found = [encoded_column(table[name]) for name in wanted]
    except (pa.ArrowException, ValueError, OverflowError, OSError):
        return None
    distinct = [text for texts in found for text in texts.distinct]
    if separator not in {COLONS, SPACES} and max(map(len, distinct), default=0) > _LONGEST_FIELD:
        return None
    if any(text.startswith(" ") for text in distinct):
        if quoted:
            return None  # whether the spaces were in quotes is no longer known
        found = [
            EncodedColumn([text.lstrip(" ") for text in texts.distinct], texts.codes)
            for texts in found
        ]
    return found


def encoded_column(column: Any) -> EncodedColumn:
    """An Arrow column of dictionary-encoded text."""
    whole = column.unify_dictionaries().combine_chunks()
    if not hasattr(whole, "indices"):  # several chunks, or none
        import pyarrow as pa  # noqa: PLC0415

        chunks = whole.chunks
        whole = pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
    return EncodedColumn(whole.dictionary.to_pylist(), whole.indices.to_numpy().astype(np.int32))


def quoted_line(text: str) -> str:
    """A line as messages quote it."""
    whole = repr(text).replace("\\udc", "\\x")  # bytes that are not UTF-8, as they were
    return whole if len(whole) <= 80 else whole[:77] + "..."


def _body(content: bytes) -> bytes | None:
    """What follows the first line that is not blank; None if quotes might carry it over lines."""
    end = 0
    while True:
        match = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r|\Z)").match(content, end)
        assert match is not None
        line, end = match.group(), match.end()
        if line.strip(b" \r\n") or end >= len(content):
            return None if line.count(b'"') % 2 else content[end:]


def _with_units(body: bytes, separator: str) -> bytes | None:
    if _UNIT in body:
        return None
    if separator == COLONS:
        return body.replace(b"::", _UNIT)
    body = b"\n" + body.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + b"\n"
    if any(more in body for more in (b"\t", b"  ", b" \n", b"\n ")):
        body = re.sub(rb"(?m)^ | $", b"", re.sub(rb"[ \t]+", b" ", body))
    return body.replace(b" ", _UNIT)


def _is_plainly_quoted(body: bytes, separator: str) -> bool:
    """Whether quotes only ever open at the start of a field, close at its end, or are doubled.

    Every other quote, beginning with the first, must follow a separator, a line end or a quote, and
    those between must precede one; by induction every reader then agrees on what is quoted.
    """
    text = np.frombuffer(body, np.uint8)
    quotes = np.flatnonzero(text == ord('"'))
    if len(quotes) % 2:
        return False
    edge = np.zeros(256, bool)
    edge[[ord(separator), ord("\n"), ord("\r"), ord('"')]] = True
    opening, closing = quotes[::2], quotes[1::2]
    before = text[opening - 1]
    if opening[0] == 0:
        before[0] = ord("\n")
    after = text[np.minimum(closing + 1, len(text) - 1)]
    if closing[-1] == len(text) - 1:
        after[-1] = ord("\n")
    return bool(edge[before].all() and edge[after].all())


def _quoting(problem: str) -> str:
    """The csv module's words, said of a line."""
    if "end of data" in problem:
        return "a quote is opened and never closed"
    if "expected after" in problem:
        return "text follows a closing quote"
    if "field limit" in problem:
        return f"a field is longer than {_LONGEST_FIELD:,} characters"
    return problem
