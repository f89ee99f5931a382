"""Files of ratings, of whatever usual layout, as `Ratings`."""

from __future__ import annotations

import os
import re
from itertools import chain
from numbers import Integral
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, get_args

from numpy.typing import NDArray

from ordbm.data.columns import ColumnChoice, EncodedColumn
from ordbm.data.ratings import Duplicates, Ratings
from ordbm.data.scale import ScaleLike, given_scale
from ordbm.datasets.delimited import (
    COLONS,
    SEPARATORS,
    SPACES,
    arrow_columns,
    first_record,
    line_count,
    records,
    separator_of,
    utf8_text,
)
from ordbm.datasets.header import header_of
from ordbm.datasets.limits import ReadLimits
from ordbm.datasets.netflix import NETFLIX_FILE, is_netflix, netflix_ratings
from ordbm.datasets.parquet import PARQUET_MAGIC, parquet_columns
from ordbm.datasets.rating_files import named_member, rating_files
from ordbm.datasets.record_checks import (
    Rules,
    are_good,
    checked_columns,
    fields_at,
    ids_and_ratings,
)
from ordbm.datasets.sources import SourceFile, open_source, read_file
from ordbm.datasets.text_columns import bad_ratings
from ordbm.errors import RatingsError, SettingsError
from ordbm.runtime.interruption import listening

Layout = Literal["csv", "tsv", "colons", "spaces", "netflix", "parquet"]
PathLike = str | os.PathLike[str]

_SEPARATORS_OF = {
    "csv": (",", ";", "|"),
    "tsv": ("\t",),
    "colons": (COLONS,),
    "spaces": (SPACES,),
}
_PREFERRED = {".csv": _SEPARATORS_OF["csv"], ".tsv": _SEPARATORS_OF["tsv"]}


class Pairs(NamedTuple):
    """Users and items, one of each per pair."""

    users: NDArray[Any]
    items: NDArray[Any]


@listening()
def read_ratings(
    path: PathLike,
    *,
    user: ColumnChoice = None,
    item: ColumnChoice = None,
    rating: ColumnChoice = None,
    scale: ScaleLike = None,
    duplicates: Duplicates = "last",
    layout: Layout | None = None,
    member: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    limits: ReadLimits | None = None,
) -> Ratings:
    """The ratings in a file, folder or archive (zip, tar, each also gzip-compressed).

    Reads csv, tsv and other text with `,` `;` `|` `::`, tabs or spaces between columns; parquet;
    the MovieLens sets (100K to 32M, latest) and the Netflix Prize files as published.

    user, item, rating: the columns, by name or by number from 0. If not said, columns with usual
        names (`userId`, `movie_id`, `stars`...) are taken, or the first three of a text file whose
        first line is a rating.
    scale, duplicates: as for `Ratings`; labelled ratings need `scale=["poor", "fair", "good"]`.
    layout: "csv", "tsv", "colons", "spaces", "netflix" or "parquet", where it cannot be told.
    member: which file of a folder or archive, where there are several.
    header: whether the first line has names, where that cannot be told.
    limits: how much may come out of a small file, where that is more than usual.

    Ids in text are integers if all of their column are, as Python writes them; otherwise text
    (`007` stays `"007"`). A line that cannot be used is an error that gives its number; nothing is
    left out.
    """
    rules = Rules({"user": user, "item": item, "rating": rating}, given_scale(scale))
    found = _columns_at(path, rules, _Form(layout, member, header, encoding, limits))
    users, items, values = found.columns
    try:
        return Ratings(users, items, values, found.scale or rules.scale or scale, duplicates)
    except RatingsError as problem:
        where = found.where if re.search(r"\brow \d", str(problem)) else ""
        raise RatingsError(f"{found.label}: {problem}{where}") from None


@listening()
def read_pairs(
    path: PathLike,
    *,
    user: ColumnChoice = None,
    item: ColumnChoice = None,
    layout: Layout | None = None,
    member: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    limits: ReadLimits | None = None,
) -> Pairs:
    """Users and items to predict for, read as by `read_ratings`; other columns are ignored."""
    rules = Rules({"user": user, "item": item})
    found = _columns_at(path, rules, _Form(layout, member, header, encoding, limits))
    users, items = (ids.values if isinstance(ids, EncodedColumn) else ids for ids in found.columns)
    return Pairs(users, items)


class _Found(NamedTuple):
    """Columns of a file; `where` says how rows are numbered in it, `scale` what it brings along."""

    label: str
    columns: list[Any]  # of ids and perhaps ratings: arrays, or encoded
    where: str = ""
    scale: list[str] | None = None


class _Form(NamedTuple):
    """What is said of a file's form."""

    layout: Layout | None
    member: str | None
    header: bool | None
    encoding: str
    limits: ReadLimits | None


def _columns_at(path: PathLike, rules: Rules, form: _Form) -> _Found:
    """The columns of the rating file at `path`."""
    if form.layout is not None and form.layout not in get_args(Layout):
        raise SettingsError(
            f"layout={form.layout!r} is not known: use one of {', '.join(get_args(Layout))}"
        )
    encoding: Any = form.encoding
    if not isinstance(encoding, str):
        raise SettingsError(
            f"encoding={encoding!r} is not the name of one: give a text, as in encoding='latin-1'"
        )
    limits: Any = ReadLimits() if form.limits is None else form.limits
    if not isinstance(limits, ReadLimits):
        raise SettingsError(f"limits={limits!r}: give ReadLimits, as in ReadLimits(rows=10**9)")
    for role, column in rules.choices.items():
        if column is not None and not isinstance(column, str | Integral):
            raise SettingsError(
                f"{role}={column!r} is not a column: give its name, or its number from 0"
            )
    with open_source(path, limits) as source:
        names = [named_member(source, form.member)] if form.member else rating_files(source)
        first = read_file(source, names[0])
        layout = form.layout or _own_layout(first)
        if layout == "parquet":
            values, scale = parquet_columns(first, rules.choices, rules.scale)
            return _Found(first.label, values, "; rows count from 0", scale)
        if layout == "netflix":
            files = chain([first], (read_file(source, name) for name in names[1:]))
            texts = netflix_ratings(files, rules, form.encoding)
            label = first.label if len(names) == 1 else source.label
            return _Found(label, ids_and_ratings(texts, rules, label))
    return _delimited(first, rules, form)


def _own_layout(file: SourceFile) -> Layout | None:
    """The layout that a file's name or first bytes tell, if it is not one of the delimited ones."""
    if file.content.startswith(PARQUET_MAGIC):
        return "parquet"
    return "netflix" if NETFLIX_FILE.fullmatch(file.name) or is_netflix(file.content) else None


def _delimited(file: SourceFile, rules: Rules, form: _Form) -> _Found:
    content = utf8_text(file.content, file.label, form.encoding)
    file.budget.add_rows(line_count(content), file.label)
    separator = _separator(file._replace(content=content), form.layout)
    first = first_record(content, separator, file.label)

    def is_rating(text: str) -> bool:
        return not bad_ratings([text], rules.scale)

    header, places = header_of(first.fields, rules.choices, form.header, is_rating, file.label)
    width = len(first.fields)
    texts = arrow_columns(content, separator, header, width, places)
    if texts is None or not are_good(texts, rules):
        cut = fields_at(records(content, separator), width, places, skip=int(header))
        texts = checked_columns(file.label, cut, rules, content)
    values = ids_and_ratings(texts, rules, file.label)
    return _Found(file.label, values, f"; row 0 is line {first.line + header}")


def _separator(file: SourceFile, layout: Layout | None) -> str:
    """What separates columns: by the layout told, by the file's name, by its first line."""
    suffix = PurePosixPath(file.name).suffix.lower()
    wanted = _SEPARATORS_OF[layout] if layout else _PREFERRED.get(suffix, ())
    found = separator_of(file.content, file.label, (*wanted, *SEPARATORS))
    return found if not layout or found in wanted else wanted[0]
