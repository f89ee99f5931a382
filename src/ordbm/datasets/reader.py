"""Files of ratings, of whatever usual layout, as `Ratings`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from numbers import Integral
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, BinaryIO, Literal, NamedTuple, get_args

from numpy.typing import NDArray

from ordbm.data.columns import (
    ColumnChoice,
    EncodedColumn,
    TimeChoice,
    context_names,
    context_role,
    role_options,
)
from ordbm.data.not_rated import NotRated
from ordbm.data.ratings import Duplicates, Ratings
from ordbm.data.scale import ScaleLike, given_scale
from ordbm.data.times import times_in_seconds
from ordbm.datasets.delimited import (
    COLONS,
    SEPARATORS,
    SPACES,
    Record,
    arrow_columns,
    first_record,
    line_count,
    records,
    separator_of,
    utf8_text,
)
from ordbm.datasets.feather import FEATHER_MAGIC, STREAM_MAGIC, feather_columns
from ordbm.datasets.header import header_of, time_place
from ordbm.datasets.left_out import BadLines, LeftOut
from ordbm.datasets.limits import Budget, ReadLimits
from ordbm.datasets.netflix import DATE, NETFLIX_FILE, is_netflix, netflix_ratings
from ordbm.datasets.parquet import ParquetDataset, parquet_columns
from ordbm.datasets.rating_files import named_member, rating_files
from ordbm.datasets.record_checks import (
    Rules,
    checked_columns,
    fields_at,
    good_columns,
    ids_and_ratings,
)
from ordbm.datasets.sources import SourceFile, open_source, read_file
from ordbm.datasets.stored_files import (
    PARQUET_MAGIC,
    content_file,
    dataset_files,
    is_address,
)
from ordbm.datasets.streamed_ratings import streamed_ratings
from ordbm.datasets.text_columns import bad_ratings, has_decimal_comma, with_point
from ordbm.errors import RatingsError, SettingsError
from ordbm.runtime.arrays import Numbers
from ordbm.runtime.interruption import listening
from ordbm.runtime.memory import Memory
from ordbm.runtime.printable import shown
from ordbm.runtime.scratch import Scratch

Layout = Literal["csv", "tsv", "colons", "spaces", "netflix", "parquet", "feather"]
Decimal = Literal[".", ","]
PathLike = str | os.PathLike[str] | BinaryIO

_SEPARATORS_OF = {
    "csv": (",", ";", "|"),
    "tsv": ("\t",),
    "colons": (COLONS,),
    "spaces": (SPACES,),
}
_PREFERRED = {".csv": _SEPARATORS_OF["csv"], ".tsv": _SEPARATORS_OF["tsv"]}


class Pairs(NamedTuple):
    """Users and items, one of each per pair, and the context that is asked about, if any."""

    users: NDArray[Any]
    items: NDArray[Any]
    times: Numbers | None = None
    context: Mapping[str, list[Any]] = MappingProxyType({})


@listening()
def read_ratings(
    path: PathLike,
    *,
    user: ColumnChoice = None,
    item: ColumnChoice = None,
    rating: ColumnChoice = None,
    time: TimeChoice = None,
    context: Sequence[str] = (),
    scale: ScaleLike = None,
    duplicates: Duplicates = "last",
    layout: Layout | None = None,
    member: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    decimal: Decimal | None = None,
    missing: Any = None,
    bad_lines: BadLines = "error",
    bad_lines_to: str | os.PathLike[str] | None = None,
    limits: ReadLimits | None = None,
    memory: Memory = None,
) -> Ratings:
    """The ratings in a file, folder or archive (zip, tar); compressed by gzip, bzip2, xz or zstd.

    Reads csv, tsv and other text with `,` `;` `|` `::`, tabs or spaces between columns; parquet;
    Feather (Arrow IPC); the MovieLens sets (100K to 32M, latest) and the Netflix Prize files as
    published. `path` may also be an open binary file, such as `sys.stdin.buffer`; a folder of
    parquet files, which are one dataset then, columns of folders such as `year=2020` included; or
    such a file or folder at an address that fsspec knows (`s3://bucket/ratings/`).

    user, item, rating: the columns, by name or by number from 0. If not said, columns with usual
        names (`userId`, `movie_id`, `stars`...) are taken, or the first three of a text file whose
        first line is a rating.
    time: the column that says when each was given, in seconds or as dates (see `Ratings`). If not
        said, one with a usual name (`timestamp`, `date`...) whose first value is a time, or the
        fourth and last of a text file without names; False for none.
    context: names of columns of other context (see `Ratings`); empty fields are not known.
    scale, duplicates: as for `Ratings`; labelled ratings need `scale=["poor", "fair", "good"]`.
    layout: "csv", "tsv", "colons", "spaces", "netflix", "parquet" or "feather", where it cannot be
        told.
    member: which file of a folder or archive, where there are several.
    header: whether the first line has names, where that cannot be told.
    decimal: "," where ratings are written as `4,5`; told from the ratings where that is clear.
    missing: the value, or list of values, that means "not rated": `missing=0`. NaN stands for empty
        fields. Such ratings are left out and counted (`Ratings.n_missing`).
    bad_lines: "skip" leaves out the lines of a text file that cannot be used, with a warning that
        counts them and shows the first (`Ratings.n_bad_lines`).
    bad_lines_to: a csv to write the skipped lines to, each with its number and the reason.
    limits: how much may come out of a small file, where that is more than usual.
    memory: what reading and the ratings may take, in bytes or as "8GB"; unless given, most of what
        is free. What is more lies in mapped files, in the folder that the environment's TMPDIR
        names, and goes with the ratings. Parquet never takes more; text is read whole.

    Ids in text are integers if all of their column are, as Python writes them, or with `.0` behind;
    otherwise text (`007` stays `"007"`). Unless told to skip it, a line that cannot be used is an
    error that gives its number; nothing is left out in silence.
    """
    left_out = LeftOut(bad_lines, bad_lines_to)
    choices = {"user": user, "item": item, "rating": rating, **_told_beside(time, context)}
    rules = Rules(choices, left_out, given_scale(scale), NotRated.of(missing), time is None)
    found = _found_at(path, rules, _Form(layout, member, header, encoding, decimal, limits))
    room = Scratch(memory)
    if isinstance(found, ParquetDataset):
        return streamed_ratings(found, scale, duplicates, room)
    users, items, values, *more = found.columns
    times, beside = _beside(more, context)
    scale = found.scale or rules.scale or scale
    try:
        ratings = Ratings(
            users,
            items,
            values,
            scale,
            duplicates,
            missing=missing,
            times=times,
            context=beside or None,
            scratch=room,
        )
    except RatingsError as problem:
        where = found.where if re.search(r"\brow \d", str(problem)) else ""
        if where and (left_out.bad or left_out.n_missing):
            where = "; rows count from 0, without those left out"
        raise RatingsError(f"{found.label}: {problem}{where}") from None
    ratings.n_missing += left_out.n_missing
    ratings.n_bad_lines = len(left_out.bad)
    left_out.tell(stacklevel=3)
    return ratings


@listening()
def read_pairs(
    path: PathLike,
    *,
    user: ColumnChoice = None,
    item: ColumnChoice = None,
    time: TimeChoice = None,
    context: Sequence[str] = (),
    layout: Layout | None = None,
    member: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    bad_lines: BadLines = "error",
    bad_lines_to: str | os.PathLike[str] | None = None,
    limits: ReadLimits | None = None,
) -> Pairs:
    """Users, items and context to predict for, read as by `read_ratings`; all else is ignored."""
    rules = Rules(
        {"user": user, "item": item, **_told_beside(time, context)},
        LeftOut(bad_lines, bad_lines_to),
        time_if_found=time is None,
    )
    found = _found_at(path, rules, _Form(layout, member, header, encoding, None, limits))
    if isinstance(found, ParquetDataset):
        found = _Found(found.label, parquet_columns(found)[0], "; rows count from 0")
    rules.left_out.tell(stacklevel=3)
    users, items, *more = found.columns
    times, beside = _beside(more, context)
    users, items = (ids.values if isinstance(ids, EncodedColumn) else ids for ids in (users, items))
    try:
        seconds = None if times is None else times_in_seconds(times)
        return Pairs(users, items, seconds, {name: list(beside[name]) for name in beside})
    except RatingsError as problem:
        raise RatingsError(f"{found.label}: {problem}{found.where}") from None


def _told_beside(time: TimeChoice, context: Sequence[str]) -> dict[str, ColumnChoice]:
    """The roles of columns that were said to have times or other context."""
    told: dict[str, ColumnChoice] = {context_role(name): name for name in context_names(context)}
    return told if time is None or time is False else {**told, "time": time}


def _beside(columns: Sequence[Any], context: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """The column of times, which is last, None if there is none, and those of context by name."""
    names = context_names(context)
    times = columns[len(names)] if len(columns) > len(names) else None
    return times, dict(zip(names, columns, strict=False))


class _Found(NamedTuple):
    """Columns of a file; `where` says how rows are numbered in it, `scale` what it brings along."""

    label: str
    columns: list[Any]  # of ids and perhaps ratings and times: arrays, or encoded
    where: str = ""
    scale: list[str] | None = None


class _Form(NamedTuple):
    """What is said of a file's form."""

    layout: Layout | None
    member: str | None
    header: bool | None
    encoding: str
    decimal: Decimal | None
    limits: ReadLimits | None


def _found_at(path: PathLike, rules: Rules, form: _Form) -> _Found | ParquetDataset:
    """The columns of the rating file at `path`; if it is parquet, a dataset yet to be read."""
    _check_form(form, rules)
    limits = form.limits or ReadLimits()
    if isinstance(path, str | os.PathLike) and not form.member:
        budget = Budget(limits)
        files = dataset_files(path, budget) if form.layout in (None, "parquet") else None
        if files is not None:
            return ParquetDataset(os.fspath(path), files, rules, budget)
    if is_address(path):
        raise SettingsError(
            f"{path}: only parquet is read from an address, all files of a folder: leave member= "
            "and layout= out"
        )
    return _columns_at(path, rules, form, limits)


def _check_form(form: _Form, rules: Rules) -> None:
    """An error unless what is said of a file's form, and of its columns, can be so."""
    if form.layout is not None and form.layout not in get_args(Layout):
        raise SettingsError(
            f"layout={shown(form.layout)} is not known: use one of {', '.join(get_args(Layout))}"
        )
    encoding: Any = form.encoding
    if not isinstance(encoding, str):
        raise SettingsError(
            f"encoding={shown(encoding)} is not the name of one: give a text, as in "
            "encoding='latin-1'"
        )
    decimal: Any = form.decimal
    if decimal not in (None, *get_args(Decimal)):
        raise SettingsError(f"decimal={shown(decimal)}: use '.' or ','")
    limits: Any = form.limits
    if not isinstance(limits, ReadLimits | None):
        raise SettingsError(
            f"limits={shown(limits)}: give ReadLimits, as in ReadLimits(rows=10**9)"
        )
    for role, column in rules.choices.items():
        if column is not None and not isinstance(column, str | Integral):
            raise SettingsError(
                f"{role}={shown(column)} is not a column: give its name, or its number from 0"
            )


def _columns_at(path: PathLike, rules: Rules, form: _Form, limits: ReadLimits) -> Any:
    """The columns of any other file."""
    with open_source(path, limits) as source:
        names = [named_member(source, form.member)] if form.member else rating_files(source)
        first = read_file(source, names[0])
        layout = form.layout or _own_layout(first)
        if layout == "parquet":
            stored = content_file(first.content, first.label)
            return ParquetDataset(first.label, [stored], rules, first.budget)
        if layout == "feather":
            values, scale = feather_columns(first, rules)
            return _Found(first.label, values, "; rows count from 0", scale)
        if layout == "netflix":
            if any(name is not None for name in rules.choices.values()):
                told = role_options(rules.choices)
                raise RatingsError(f"Netflix files have no named columns: leave {told} out")
            rules = rules.with_time(DATE if "rating" in rules.choices else None)
            texts = netflix_ratings(
                chain([first], (read_file(source, name) for name in names[1:])),
                rules,
                form.encoding,
            )
            label = first.label if len(names) == 1 else source.label
            return _Found(label, ids_and_ratings(texts, rules, label))
    return _delimited(first, rules, form)


def _own_layout(file: SourceFile) -> Layout | None:
    """The layout that a file's name or first bytes tell, if it is not one of the delimited ones."""
    if file.content.startswith(PARQUET_MAGIC):
        return "parquet"
    if file.content.startswith((FEATHER_MAGIC, STREAM_MAGIC)):
        return "feather"
    return "netflix" if NETFLIX_FILE.fullmatch(file.name) or is_netflix(file.content) else None


def _delimited(file: SourceFile, rules: Rules, form: _Form) -> _Found:
    content = utf8_text(file.content, file.label, form.encoding)
    file.budget.add_rows(line_count(content), file.label)
    separator = _separator(file._replace(content=content), form.layout, len(rules.choices))
    first = first_record(content, separator, file.label)

    def is_rating(text: str) -> bool:
        if rules.missing.has_text(text):
            return True
        return not bad_ratings([text if form.decimal == "." else with_point(text)], rules.scale)

    found = header_of(first.fields, rules.choices, form.header, is_rating, file.label)
    header, places = found
    width = len(first.fields)
    if rules.time_if_found:
        place = time_place(found, first.fields, _second_fields(content, separator, width))
        rules = rules.with_time(place)
        places = places if place is None else [*places, place]

    def cut() -> Iterator[Record]:
        return fields_at(records(content, separator), width, places, skip=int(header))

    texts = arrow_columns(content, separator, header, width, places)
    commas = _has_commas(texts, cut, content, separator, rules, form.decimal)
    if texts is not None and commas:
        texts = _with_points(texts, rules)
    texts = good_columns(texts, rules)
    if texts is None:
        lines = map(partial(_record_with_point, rules), cut()) if commas else cut()
        texts = checked_columns(file.label, lines, rules, content)
    values = ids_and_ratings(texts, rules, file.label)
    return _Found(file.label, values, f"; row 0 is line {first.line + header}")


def _second_fields(content: bytes, separator: str, width: int) -> list[str]:
    """The fields of the second record, if it has as many."""
    record = next(islice(records(content, separator), 1, None), None)
    fields = record.fields if record else []
    return fields if len(fields) == width else [""] * width


def _has_commas(
    texts: list[EncodedColumn] | None,
    cut: Callable[[], Iterator[Record]],
    content: bytes,
    separator: str,
    rules: Rules,
    decimal: Decimal | None,
) -> bool:
    """Whether decimals of ratings stand behind commas: as was said, or as the ratings tell."""
    place = rules.rating
    if place is None or decimal is not None:
        return place is not None and decimal == ","
    if texts is not None:
        return has_decimal_comma(texts[place].distinct)
    if (b'"' if separator == "," else b",") not in content:
        return False
    return has_decimal_comma(record.fields[place] for record in cut() if not record.problem)


def _with_points(texts: list[EncodedColumn], rules: Rules) -> list[EncodedColumn]:
    return [
        EncodedColumn(list(map(with_point, column.distinct)), column.codes)
        if place == rules.rating
        else column
        for place, column in enumerate(texts)
    ]


def _record_with_point(rules: Rules, record: Record) -> Record:
    fields = [
        with_point(field) if place == rules.rating else field
        for place, field in enumerate(record.fields)
    ]
    return record._replace(fields=fields)


def _separator(file: SourceFile, layout: Layout | None, n_fields: int) -> str:
    """What separates columns: by the layout told, by the file's name, by its first line."""
    suffix = PurePosixPath(file.name).suffix.lower()
    wanted = _SEPARATORS_OF[layout] if layout else _PREFERRED.get(suffix, ())
    found = separator_of(file.content, file.label, (*wanted, *SEPARATORS), n_fields)
    return found if not layout or found in wanted else wanted[0]
