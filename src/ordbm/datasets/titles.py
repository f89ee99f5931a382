"""What items are called, and what else a table says of them."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ordbm.data.ids import check_hashes
from ordbm.datasets.delimited import line_count, numbered_lines, quoted_line, records, utf8_text
from ordbm.datasets.sources import SourceFile, name_list, open_source, read_file, visible_names
from ordbm.datasets.text_columns import INTEGER
from ordbm.datasets.unpacking import unpacked_name
from ordbm.errors import RatingsError


class TitleLayout(NamedTuple):
    """How lines hold an id, first, and a title, at `place`.

    With `n_fields` there are so many, without quotes, and the last may hold separators; without,
    fields may be in quotes, and more may follow.
    """

    separator: str
    place: int = 1
    n_fields: int = 0
    has_names: bool = False  # whether the first line may have names


TITLE_FILES = {
    "movies.csv": TitleLayout(",", has_names=True),  # MovieLens 20M and later
    "movies.dat": TitleLayout("::", n_fields=3),
    "u.item": TitleLayout("|", n_fields=3),
    "movie_titles.txt": TitleLayout(",", 2, n_fields=3),
    "movie_titles.csv": TitleLayout(",", 2, n_fields=3),
}


def read_titles(path: str | os.PathLike[str]) -> dict[Any, str] | None:
    """The title of each item of a MovieLens or Netflix Prize set; None where there are none.

    `path` is the set's folder or archive, its titles file, or a file beside it, such as the
    ratings. Ids are integers if all of them are, as in `read_ratings`.
    """
    place = Path(path)
    with open_source(place) as source:
        names = [name for name in visible_names(source.names) if _base(name) in TITLE_FILES]
        if source.single and not names:
            beside = [
                place.parent / name for name in TITLE_FILES if (place.parent / name).is_file()
            ]
            return read_titles(beside[0]) if beside else None
        if not names:
            return None
        if len(names) > 1:
            raise RatingsError(
                f"{source.label} has several files of titles: {name_list(names)}; give the path "
                "of one"
            )
        file = read_file(source, names[0])
    titles = _titles(file, TITLE_FILES[_base(file.name)])
    if all(INTEGER.fullmatch(item) for item in titles):
        ids = [int(item) for item in titles]
        check_hashes(ids, f"ids of {file.label}")
        return dict(zip(ids, titles.values(), strict=True))
    return dict(titles)


def read_title_table(path: str | os.PathLike[str]) -> dict[str, str]:
    """The titles in a csv or tsv of one's own, by id: its first two columns."""
    file = _single_file(path)
    return _titles(file, TitleLayout(_separator(file)))


def read_item_table(path: str | os.PathLike[str]) -> tuple[list[str], list[list[str]]]:
    """The names of the columns of a csv or tsv with a header, and the fields of each row."""
    file = _single_file(path)
    names: list[str] | None = None
    rows = []
    kept: dict[str, str] = {}  # each distinct text once
    for line, fields, problem in records(_utf8(file), _separator(file)):
        if names is None and not problem:
            names = [name.strip() for name in fields]
        elif problem or names is None or len(fields) != len(names):
            wrong = problem or f"{len(fields)} columns, and the header has {len(names or [])}"
            raise RatingsError(
                f"{file.label}: line {line}: {wrong}; correct or remove it, or give another csv or "
                "tsv with a header"
            )
        else:
            rows.append([kept.setdefault(field, field) for field in fields])
    return names or [], rows


def _titles(file: SourceFile, layout: TitleLayout) -> dict[str, str]:
    content = _utf8(file)
    titles = {}
    for line, fields, problem in records(
        content, layout.separator, quotes=not layout.n_fields, most_fields=layout.n_fields
    ):
        if layout.has_names and line == 1 and fields and not INTEGER.fullmatch(fields[0]):
            continue
        if problem or len(fields) <= max(layout.place, layout.n_fields - 1) or not fields[0]:
            wrong = problem or f"no title in {quoted_line(numbered_lines(content, [line])[line])}"
            raise RatingsError(f"{file.label}: line {line}: {wrong}; correct or remove it")
        titles[fields[0].strip()] = fields[layout.place]
    return titles


def _single_file(path: str | os.PathLike[str]) -> SourceFile:
    with open_source(path) as source:
        if not source.single:
            raise RatingsError(f"{source.label} is not a file: give a csv or tsv")
        return read_file(source, source.names[0])


def _separator(file: SourceFile) -> str:
    return "\t" if file.name.lower().endswith(".tsv") else ","


def _base(name: str) -> str:
    return unpacked_name(PurePosixPath(name).name)


def _utf8(file: SourceFile) -> bytes:
    """The text in UTF-8: the older sets are in Latin-1, the newer ones in UTF-8."""
    content = utf8_text(file.content, file.label, "utf-8")
    file.budget.add_rows(line_count(content), file.label)
    try:
        content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1").encode()
    return content
