"""The Netflix Prize's files: a line `movie:`, then lines `user,rating,date`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from ordbm.data.columns import EncodedColumn
from ordbm.datasets.delimited import (
    Record,
    arrow_columns,
    first_line,
    line_count,
    records,
    utf8_text,
)
from ordbm.datasets.record_checks import Rules, checked_columns, good_columns
from ordbm.datasets.sources import SourceFile

NETFLIX_FILE = re.compile(r"(?:mv_|combined_data_)[0-9]+\.txt")
_MOVIE = re.compile(r"(-?[0-9]+):")
_WIDTH = 3
DATE = 3  # the column of dates, once there is one of movies
_TOGETHER = 256 * 2**20  # bytes parsed at once: there may be 17,770 small files


def is_netflix(content: bytes) -> bool:
    """Whether the first line is a movie's."""
    return bool(_MOVIE.fullmatch(first_line(content).strip(" ")))


def netflix_records(content: bytes) -> Iterator[Record]:
    """Every rating as user, movie, rating, date, with its line."""
    movie = ""
    for line, fields, problem in records(content, ",", quotes=False):
        if problem:
            yield Record(line, [], problem)
            continue
        heading = _MOVIE.fullmatch(fields[0].rstrip(" ")) if len(fields) == 1 else None
        if heading:
            movie = heading.group(1)
        elif not movie:
            yield Record(line, [], "no line such as '1:' says which movie this is of")
        elif len(fields) != _WIDTH:
            yield Record(line, [], f"{len(fields)} fields instead of user,rating,date")
        else:
            yield Record(line, [fields[0], movie, *fields[1:]])


def netflix_columns(content: bytes) -> list[EncodedColumn] | None:
    """User, movie, rating and date columns; None if `netflix_records` should look at the file.

    Movie lines are cut out, and the rest is plain csv; a movie is repeated for the lines up to the
    next one. Blank lines would upset that count, and are left to the other reader.
    """
    content = content.replace(b"\r\n", b"\n").removesuffix(b"\n") + b"\n"
    if b"\n\n" in content or b"\r" in content:
        return None
    movies: list[str] = []
    counts: list[int] = []
    parts: list[bytes] = []
    begin = 0
    while begin < len(content):
        end = content.find(b"\n", begin)
        heading = _MOVIE.fullmatch(content[begin:end].decode("ascii", "replace"))
        if not heading:
            return None
        colon = content.find(b":", end)
        next_begin = len(content) if colon < 0 else content.rfind(b"\n", 0, colon) + 1
        part = content[end + 1 : next_begin]
        movies.append(heading.group(1))
        counts.append(part.count(b"\n"))
        parts.append(part)
        begin = next_begin
    found = arrow_columns(b"".join(parts), ",", False, _WIDTH, range(_WIDTH))
    if found is None or b'"' in content or len(found[0].codes) != sum(counts):
        return None
    users, ratings, dates = found
    codes = np.repeat(np.arange(len(movies), dtype=np.int32), counts)
    return [users, EncodedColumn(movies, codes), ratings, dates]


def netflix_ratings(
    files: Iterator[SourceFile], rules: Rules, encoding: str
) -> list[EncodedColumn]:
    """The columns of all `files`."""
    parts: list[list[EncodedColumn]] = []
    together: list[SourceFile] = []
    size = 0
    for file in files:
        content = utf8_text(file.content, file.label, encoding)
        file.budget.add_rows(line_count(content), file.label)
        together.append(file._replace(content=content))
        size += len(file.content)
        if size > _TOGETHER:
            parts.append(_texts_together(together, rules))
            together, size = [], 0
    parts.append(_texts_together(together, rules))
    return _joined(parts)


def _texts_together(files: list[SourceFile], rules: Rules) -> list[EncodedColumn]:
    n_roles = len(rules.choices)
    # Every file must name its first movie, or its ratings would go to the file before.
    if all(is_netflix(file.content) for file in files):
        texts = netflix_columns(b"".join(file.content.rstrip(b"\r\n") + b"\n" for file in files))
        good = good_columns(texts and texts[:n_roles], rules)
        if good is not None:
            return good
    checked = []
    for file in files:
        found = netflix_records(file.content)
        cut = (record._replace(fields=record.fields[:n_roles]) for record in found)
        checked.append(checked_columns(file.label, cut, rules, file.content))
    return _joined(checked)


def _joined(parts: Sequence[list[EncodedColumn]]) -> list[EncodedColumn]:
    """The columns of several files as one."""
    joined = []
    for columns_of_role in zip(*parts, strict=True):
        table: dict[str, int] = {}
        codes = []
        for part in columns_of_role:
            new = [table.setdefault(text, len(table)) for text in part.distinct]
            codes.append(np.array(new, np.int32)[part.codes])
        joined.append(EncodedColumn(list(table), np.concatenate(codes)))
    return joined
