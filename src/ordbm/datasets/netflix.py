"""The Netflix Prize's files: a line `movie:`, then lines `user,rating,date`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from ordbm.datasets.delimited import (
    LINE_END,
    Record,
    columns,
    decoded,
    first_line,
    utf8_text,
)
from ordbm.datasets.records import Rules, checked_columns, is_good
from ordbm.datasets.sources import File
from ordbm.datasets.texts import Texts
from ordbm.errors import RatingsError

FILE = re.compile(r"(?:mv_|combined_data_)[0-9]+\.txt")
MOVIE = re.compile(r"(-?[0-9]+):")
WIDTH = 3
TOGETHER = 256 * 2**20  # bytes parsed at once: there may be 17,770 small files


def is_netflix(content: bytes) -> bool:
    """Whether the first line is a movie's."""
    return bool(MOVIE.fullmatch(first_line(content).strip(" ")))


def netflix_records(text: str) -> Iterator[Record]:
    """Every rating as user, movie, rating, with its line."""
    movie = ""
    for number, line in enumerate(LINE_END.split(text), 1):
        stripped = line.strip(" ")
        heading = MOVIE.fullmatch(stripped)
        if heading:
            movie = heading.group(1)
        elif stripped:
            fields = [field.lstrip(" ") for field in line.split(",")]
            if not movie:
                yield Record(number, [], "no line such as '1:' says which movie this is of")
            elif len(fields) != WIDTH:
                yield Record(number, [], f"{len(fields)} fields instead of user,rating,date")
            else:
                yield Record(number, [fields[0], movie, fields[1]])


def netflix_columns(content: bytes) -> list[Texts] | None:
    """User, movie and rating columns, or None if `netflix_records` should look at the file.

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
        heading = MOVIE.fullmatch(content[begin:end].decode("ascii", "replace"))
        if not heading:
            return None
        colon = content.find(b":", end)
        next_begin = len(content) if colon < 0 else content.rfind(b"\n", 0, colon) + 1
        part = content[end + 1 : next_begin]
        movies.append(heading.group(1))
        counts.append(part.count(b"\n"))
        parts.append(part)
        begin = next_begin
    found = columns(b"".join(parts), ",", False, WIDTH, (0, 1))
    if found is None or b'"' in content or len(found[0].codes) != sum(counts):
        return None
    users, ratings = found
    codes = np.repeat(np.arange(len(movies), dtype=np.int32), counts)
    return [users, Texts(movies, codes), ratings]


def netflix_texts(files: Iterator[File], rules: Rules, encoding: str) -> list[Texts]:
    """The columns of all `files`."""
    if any(name is not None for name in rules.told.values()):
        raise RatingsError("Netflix files have no named columns: leave user=, item=, rating= out")
    parts: list[list[Texts]] = []
    together: list[File] = []
    size = 0
    for file in files:
        together.append(file._replace(content=utf8_text(file.content, file.label, encoding)))
        size += len(file.content)
        if size > TOGETHER:
            parts.append(_texts_together(together, rules))
            together, size = [], 0
    parts.append(_texts_together(together, rules))
    return _joined(parts)


def _texts_together(files: list[File], rules: Rules) -> list[Texts]:
    n_roles = len(rules.told)
    # Every file must name its first movie, or its ratings would go to the file before.
    if all(is_netflix(file.content) for file in files):
        texts = netflix_columns(b"".join(file.content.rstrip(b"\r\n") + b"\n" for file in files))
        if texts is not None and is_good(texts[:n_roles], rules):
            return texts[:n_roles]
    checked = []
    for file in files:
        text = decoded(file.content)
        cut = (record._replace(fields=record.fields[:n_roles]) for record in netflix_records(text))
        checked.append(checked_columns(file.label, cut, rules, text))
    return _joined(checked)


def _joined(parts: Sequence[list[Texts]]) -> list[Texts]:
    """The columns of several files as one."""
    joined = []
    for columns_of_role in zip(*parts, strict=True):
        table: dict[str, int] = {}
        codes = []
        for distinct, part_codes in columns_of_role:
            new = [table.setdefault(text, len(table)) for text in distinct]
            codes.append(np.array(new, np.int32)[part_codes])
        joined.append(Texts(list(table), np.concatenate(codes)))
    return joined
