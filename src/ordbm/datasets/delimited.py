"""Text files of fields with something between them, one record per line.

Arrow reads what it reads as `records` would, at once and on all cores. `records` cuts the text line
by line and knows where it is: it reads everything else, and finds what is wrong.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ordbm.data.columns import ArrowTexts, EncodedColumn
from ordbm.errors import RatingsError

COLONS, SPACES = "::", " "  # the latter stands for any run of spaces and tabs
SEPARATORS = (COLONS, "\t", ",", ";", "|", SPACES)
_BESIDE_COMMAS = (";", "\t", "|")
_UNIT = b"\x1f"  # stands in for separators of several characters, which Arrow does not know
_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = {
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
_LINE_END = re.compile(rb"\r\n|\n|\r")
_NOT_BLANK = re.compile(rb"[^ \r\n]")
NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what "surrogateescape" makes of such bytes
_LONGEST_FIELD = csv.field_size_limit()  # a quote that is never closed makes one field of all
LONGEST_RECORD = 2**20  # bytes: whatever is longer is no line of ratings
_TOO_LONG = f"it is longer than {LONGEST_RECORD:,} characters"
_QUOTES_AT_ONCE = 2**20


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


def text_lines(content: bytes) -> Iterator[str]:
    """Each line with its end; bytes that are not UTF-8 stand in it as lone surrogates."""
    begin = 0
    for end in _LINE_END.finditer(content):
        yield _as_text(content[begin : end.end()])
        begin = end.end()
    if begin < len(content):
        yield _as_text(content[begin:])


def line_count(content: bytes) -> int:
    """How many lines there are, the blank ones and those in quotes too."""
    returns = content.count(b"\r")
    both = content.count(b"\r\n") if returns else 0
    return content.count(b"\n") + returns - both + 1


def numbered_lines(content: bytes, numbers: Iterable[int]) -> dict[int, str]:
    """The lines of these numbers, counted from 1, without their ends."""
    wanted = set(numbers)
    few = islice(enumerate(text_lines(content), 1), max(wanted, default=0))
    return {number: line.rstrip("\r\n") for number, line in few if number in wanted}


def first_line(content: bytes) -> str:
    """The first line that is not blank; empty if there is none."""
    begin = _first_place(content)
    return next(text_lines(content[begin : begin + LONGEST_RECORD + 2]), "").rstrip("\r\n")


def _first_text(content: bytes) -> str:
    """The first line that is not blank, and those that follow as long as a quote is open."""
    begin = _first_place(content)
    text = ""
    for line in text_lines(content[begin : begin + LONGEST_RECORD + 2]):
        text += line
        if text.count('"') % 2 == 0:
            break
    return text.rstrip("\r\n")


def first_record(content: bytes, separator: str, label: str) -> Record:
    """The first record that is not blank, whole, or an error if it is too long to be one."""
    begin = _first_place(content)
    begun = content[begin : begin + LONGEST_RECORD + 2]
    found = next(records(begun, separator), None)
    is_cut = begin + len(begun) < len(content)
    if is_cut and (found is None or found.problem or not _LINE_END.search(begun)):
        raise RatingsError(
            f"{label}: the first line is longer than {LONGEST_RECORD:,} bytes; is it a file of "
            "ratings?"
        )
    if found is None:
        raise RatingsError(f"{label} is empty: need lines of user, item, rating")
    if found.problem:
        raise RatingsError(f"{label}: the first line cannot be cut: {found.problem}")
    return found._replace(line=found.line + line_count(content[:begin]) - 1)


def separator_of(
    content: bytes, label: str, among: Sequence[str] = SEPARATORS, least_fields: int = 0
) -> str:
    """The first of `among` that is in the first line, or where quotes carry that over, in them.

    A comma that would leave fewer than `least_fields` there is one of decimals, as in `1;2;4,5`,
    if another separator gives as many.
    """
    line = first_line(content)
    if not line:
        raise RatingsError(f"{label} is empty: need lines of user, item, rating")
    for text in (line, _first_text(content)):
        found = [separator for separator in among if separator in text.strip(" ")]
        if found and found[0] == "," and text.count(",") + 1 < least_fields:
            others = (one for one in found if one in _BESIDE_COMMAS)
            return next((one for one in others if text.count(one) + 1 >= least_fields), ",")
        if found:
            return found[0]
    raise RatingsError(
        f"{label}: cannot tell what separates the columns of the first line, {quoted_line(line)}; "
        "is it a file of ratings?"
    )


def records(
    content: bytes, separator: str, *, quotes: bool = True, most_fields: int = 0
) -> Iterator[Record]:
    """Every record that is not blank, with the number of its first line, counted from 1.

    Fields may be in double quotes, and then hold separators and line ends, unless the separator is
    `::` or spaces, or `quotes=False`. Without quotes the last of `most_fields` may hold separators.
    Spaces at the start of a field are not part of it, unless in quotes.
    """
    if separator in {COLONS, SPACES} or not quotes:
        between = re.compile(r"[ \t]+" if separator == SPACES else re.escape(separator))
        for number, whole in enumerate(text_lines(content), 1):
            line = whole.rstrip("\r\n")
            stripped = line.strip(" \t") if separator == SPACES else line
            if len(stripped) > LONGEST_RECORD:
                yield Record(number, [], _TOO_LONG)
            elif stripped.strip(" "):
                fields = between.split(stripped, max(most_fields - 1, 0))
                yield Record(number, [field.lstrip(" ") for field in fields])
        return
    lines = _RecordLines(text_lines(content))
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    while True:
        first = lines.number + 1
        lines.length = 0
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            yield Record(first, [], _quoting(str(problem)))
            continue
        if fields and fields != [""]:
            yield Record(first, fields)


class _RecordLines:
    """Lines for `csv.reader`, which would make one record of all that follows an open quote."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.number = 0  # of the line that was handed out last
        self.length = 0  # of the record so far

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        self.length += len(line)
        if self.length > LONGEST_RECORD + 2:
            raise csv.Error(_TOO_LONG)
        return line


def arrow_columns(
    content: bytes, separator: str, header: bool, width: int, places: Sequence[int]
) -> list[EncodedColumn] | None:
    """The columns at `places` as Arrow reads them; None if it might not read them as `records` do.

    Every record has `width` fields then, and all text is valid.
    """
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv as arrow_csv  # noqa: PLC0415

    found_body = _plain_body(content, separator, header)
    if found_body is None:
        return None
    body, quoted = found_body
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
        del table
        pa.default_memory_pool().release_unused()  # which making the dictionaries has taken
    except (pa.ArrowException, ValueError, OverflowError, OSError):
        return None
    longest = LONGEST_RECORD if separator in {COLONS, SPACES} else _LONGEST_FIELD
    if any(len(text) > longest for texts in found for text in texts.distinct):
        return None
    for place, texts in enumerate(found):
        if any(text.startswith(" ") for text in texts.distinct):
            if quoted:
                return None  # whether the spaces were in quotes is no longer known
            stripped = [text.lstrip(" ") for text in texts.distinct]
            found[place] = EncodedColumn(stripped, texts.codes)
    return found


def _plain_body(content: bytes, separator: str, header: bool) -> tuple[Any, bool] | None:
    """An Arrow buffer of what follows the header, and whether quotes are used; None if unclear."""
    import pyarrow as pa  # noqa: PLC0415

    begin = _body_place(content) if header else 0
    if begin is None or content.startswith(_BOM, begin):  # which Arrow would leave out
        return None
    quoted = False
    body = pa.py_buffer(content)[begin:]
    if separator in {COLONS, SPACES}:
        body = pa.py_buffer(_with_units(content[begin:], separator) or b"")
    elif content.find(b'"', begin) >= 0:
        quoted = _is_plainly_quoted(content, begin, separator)
        body = body if quoted else b""
    return (body, quoted) if len(body) else None


def encoded_column(column: Any) -> EncodedColumn:
    """An Arrow column of dictionary-encoded text."""
    whole = column.unify_dictionaries().combine_chunks()
    if not hasattr(whole, "indices"):  # several chunks, or none
        import pyarrow as pa  # noqa: PLC0415

        chunks = whole.chunks
        whole = pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
    return EncodedColumn(ArrowTexts(whole.dictionary), whole.indices.to_numpy().astype(np.int32))


def quoted_line(text: str) -> str:
    """A line as messages quote it."""
    whole = repr(text[:200]).replace("\\udc", "\\x")  # bytes that are not UTF-8, as they were
    return whole if len(whole) <= 80 else whole[:77] + "..."


def _as_text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _first_place(content: bytes) -> int:
    """Where the first line that is not blank begins; the end if there is none."""
    found = _NOT_BLANK.search(content)
    if not found:
        return len(content)
    return 1 + max(content.rfind(end, 0, found.start()) for end in (b"\r", b"\n"))


def _body_place(content: bytes) -> int | None:
    """Where the line after the first that is not blank begins; None if quotes may carry it over."""
    begin = _first_place(content)
    found = _LINE_END.search(content, begin)
    end = found.end() if found else len(content)
    return None if content.count(b'"', begin, end) % 2 else end


def _with_units(body: bytes, separator: str) -> bytes | None:
    if _UNIT in body:
        return None
    if separator == COLONS:
        return body.replace(b"::", _UNIT)
    body = b"\n" + body.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + b"\n"
    if any(more in body for more in (b"\t", b"  ", b" \n", b"\n ")):
        body = re.sub(rb"(?m)^ | $", b"", re.sub(rb"[ \t]+", b" ", body))
    return body.replace(b" ", _UNIT)


def _is_plainly_quoted(content: bytes, begin: int, separator: str) -> bool:
    """Whether quotes only ever open at the start of a field, close at its end, or are doubled.

    Every other quote, beginning with the first, must follow a separator, a line end or a quote, and
    those between must precede one; by induction every reader then agrees on what is quoted.
    """
    text = np.frombuffer(content, np.uint8)[begin:]
    edge = np.zeros(256, bool)
    edge[[ord(separator), ord("\n"), ord("\r"), ord('"')]] = True
    n_quotes = 0
    for first in range(0, len(text), _QUOTES_AT_ONCE):
        quotes = first + np.flatnonzero(text[first : first + _QUOTES_AT_ONCE] == ord('"'))
        opening, closing = quotes[n_quotes % 2 :: 2], quotes[1 - n_quotes % 2 :: 2]
        opening, closing = opening[opening > 0], closing[closing < len(text) - 1]
        if not (edge[text[opening - 1]].all() and edge[text[closing + 1]].all()):
            return False
        n_quotes += len(quotes)
    return n_quotes % 2 == 0


def _quoting(problem: str) -> str:
    """The csv module's words, said of a line."""
    if "end of data" in problem:
        return "a quote is opened and never closed"
    if "expected after" in problem:
        return "text follows a closing quote"
    if "field limit" in problem:
        return f"a field is longer than {_LONGEST_FIELD:,} characters"
    return problem
