"""What the items of the usual rating sets are called."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from ordbm.datasets.delimited import BOM, LINE_END, shown
from ordbm.datasets.sources import File, file_of, listed_names, opened, visible
from ordbm.datasets.texts import INTEGER
from ordbm.errors import RatingsError

Title = tuple[str, str]  # an item's id, its title


def read_titles(path: str | os.PathLike[str]) -> dict[Any, str] | None:
    """The title of each item of a MovieLens or Netflix Prize set; None where there are none.

    `path` is the set's folder or archive, its titles file, or a file beside it, such as the
    ratings. Ids are integers if all of them are, as in `read_ratings`.
    """
    place = Path(path)
    with opened(place) as store:
        names = [name for name in visible(store.names) if _base(name) in READERS]
        if store.single and not names:
            beside = [place.parent / name for name in READERS if (place.parent / name).is_file()]
            return read_titles(beside[0]) if beside else None
        if not names:
            return None
        if len(names) > 1:
            raise RatingsError(
                f"{store.label} has several files of titles: {listed_names(names)}; give the path "
                "of one"
            )
        file = file_of(store, names[0])
    titles = READERS[_base(file.name)](file)
    if all(INTEGER.fullmatch(item) for item in titles):
        return {int(item): title for item, title in titles.items()}
    return dict(titles)


def _base(name: str) -> str:
    return PurePosixPath(name).name.removesuffix(".gz")


def _split_lines(separator: str, n_fields: int, place: int) -> Callable[[File], dict[str, str]]:
    """A reader of lines whose first field is the id and whose field at `place` is the title.

    Only the first `n_fields - 1` separators count: the last field may hold more of them.
    """

    def read(file: File) -> dict[str, str]:
        titles = {}
        for number, line in enumerate(LINE_END.split(_text(file.content)), 1):
            fields = line.split(separator, n_fields - 1)
            if len(fields) == n_fields and fields[0].strip():
                titles[fields[0].strip()] = fields[place]
            elif line.strip():
                raise _untitled(file, number, line)
        return titles

    return read


def _movies_csv(file: File) -> dict[str, str]:
    """MovieLens 20M and later: movieId,title,genres with titles in quotes where needed."""
    reader = csv.reader(io.StringIO(_text(file.content), newline=""), strict=True)
    titles = {}
    try:
        for fields in reader:
            if reader.line_num == 1 and not INTEGER.fullmatch(fields[0] if fields else ""):
                continue
            if len(fields) >= 2 and fields[0]:
                titles[fields[0]] = fields[1]
            elif fields:
                raise _untitled(file, reader.line_num, str(fields))
    except csv.Error as problem:
        raise RatingsError(f"{file.label}: line {reader.line_num}: {problem}") from None
    return titles


def _untitled(file: File, number: int, line: str) -> RatingsError:
    return RatingsError(
        f"{file.label}: line {number}: no title in {shown(line)}; correct or remove it"
    )


def _text(content: bytes) -> str:
    """The older sets are in Latin-1, the newer ones in UTF-8."""
    content = content.removeprefix(BOM)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


READERS: dict[str, Callable[[File], dict[str, str]]] = {
    "movies.csv": _movies_csv,
    "movies.dat": _split_lines("::", 3, 1),
    "u.item": _split_lines("|", 3, 1),
    "movie_titles.txt": _split_lines(",", 3, 2),
    "movie_titles.csv": _split_lines(",", 3, 2),
}
