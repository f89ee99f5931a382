"""Ratings written to a file, whole or not at all."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import object_array
from ordbm.data.ids import IdMap
from ordbm.data.ratings import Ratings
from ordbm.data.scale import RatingScale
from ordbm.data.times import plain_times
from ordbm.errors import RatingsError
from ordbm.runtime.arrays import Codes
from ordbm.runtime.atomic_files import NotOursError, atomic_file, none_is_ours
from ordbm.runtime.printable import shown

_NAMES = ("user", "item", "rating", "time")  # the last where times are known
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_LINES_AT_ONCE = 100_000


def write_ratings(
    ratings: Ratings, path: str | os.PathLike[str] | BinaryIO, *, overwrite: bool = False
) -> None:
    """Write columns user, item, rating, and times in seconds and context if known, by file's name.

    This is csv, tsv (each also .gz) or parquet.

    Ids must be integers or text. A csv or tsv file has no types: text ids that all look like
    integers, or all like `1.0`, come back as integers, and integers beside text as text. The scale
    is not in the file; give it again (`read_ratings(path, scale=...)`) where the ratings do not
    show all of it.

    A file that is there already is replaced only with `overwrite`: nobody can tell from its content
    who wrote it. To an open binary file, such as `sys.stdout.buffer`, csv is written.
    """
    if not isinstance(path, str | os.PathLike):
        _text_writer(ratings, ",", packed=False)(path)
        return
    target = Path(path)
    suffixes = [suffix.lower() for suffix in target.suffixes]
    packed = bool(suffixes) and suffixes[-1] == ".gz"
    kind = (suffixes[:-1] if packed else suffixes)[-1:]
    if kind == [".parquet"] and not packed:
        write: Callable[[BinaryIO], None] = _parquet_writer(ratings)
    elif kind and kind[0] in _SEPARATORS:
        write = _text_writer(ratings, _SEPARATORS[kind[0]], packed)
    else:
        raise RatingsError(
            f"{target}: the name must end in .csv, .tsv (or .csv.gz, .tsv.gz) or .parquet"
        )
    try:
        with atomic_file(target, None if overwrite else none_is_ours) as file:
            write(file)
    except NotOursError as problem:
        raise RatingsError(
            f"cannot write {target}: {problem.strerror}; choose another name, or say overwrite=True"
        ) from None
    except OSError as problem:
        raise RatingsError(f"cannot write {target}: {problem.strerror or problem}") from problem


def _text_writer(ratings: Ratings, separator: str, packed: bool) -> Callable[[BinaryIO], None]:
    users, items = (_id_texts(ids, separator) for ids in (ratings.users, ratings.items))
    values = _rating_texts(ratings, separator)
    columns = [users[ratings.user_codes], items[ratings.item_codes], values]
    if ratings.has_times:
        columns.append(_number_texts(ratings.times))
    names = [*_NAMES[: len(columns)], *(_quoted(one, separator) for one in ratings.context.names)]
    columns += [_context_texts(ratings, name, separator) for name in ratings.context.names]

    def write_lines(file: Any) -> None:
        file.write((separator.join(names) + "\n").encode())
        for first in range(0, len(ratings), _LINES_AT_ONCE):
            part = (column[first : first + _LINES_AT_ONCE].tolist() for column in columns)
            file.write(
                "".join(f"{separator.join(row)}\n" for row in zip(*part, strict=True)).encode()
            )

    def write(file: BinaryIO) -> None:
        if packed:
            # Without name and time, the same ratings give the same bytes.
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as inside:
                write_lines(inside)
        else:
            write_lines(file)

    return write


def _parquet_writer(ratings: Ratings) -> Callable[[BinaryIO], None]:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    columns = [
        _arrow_ids(ratings.users, ratings.user_codes),
        _arrow_ids(ratings.items, ratings.item_codes),
        pa.array(_ratings(ratings)),
    ]
    if ratings.has_times:
        columns.append(pa.array(plain_times(ratings.times)))
    named = dict(zip(_NAMES, columns, strict=False))
    named |= {name: pa.array(ratings.context.column(name)) for name in ratings.context.names}
    table = pa.table(named)
    return lambda file: parquet.write_table(table, file, write_page_checksum=True)


def _arrow_ids(ids: IdMap, codes: Codes) -> Any:
    """Ids as one Arrow column: integers, or text if any is text or beyond 64 bits."""
    import pyarrow as pa  # noqa: PLC0415

    texts = _plain_texts(ids)
    if all(isinstance(value, int) and -(2**63) <= value < 2**63 for value in ids):
        return pa.array(np.array(ids.ids, np.int64)[codes])
    return pa.array(object_array(texts)[codes], pa.string())


def _ratings(ratings: Ratings) -> NDArray[Any]:
    """Labels where the scale has them, otherwise numbers."""
    scale = ratings.scale
    if isinstance(scale, RatingScale) and scale.labels is not None:
        return object_array(scale.labels)[ratings.levels]
    return ratings.values


def _rating_texts(ratings: Ratings, separator: str) -> NDArray[np.object_]:
    scale = ratings.scale
    if not isinstance(scale, RatingScale):
        return _number_texts(ratings.values)
    levels = scale.labels or [_number_text(value) for value in scale.values.tolist()]
    return object_array([_quoted(level, separator) for level in levels])[ratings.levels]


def _context_texts(ratings: Ratings, name: str, separator: str) -> NDArray[np.object_]:
    """The values of a column of context; nothing where they are not known."""
    return object_array(
        [
            "" if value is None
            else _number_text(value) if isinstance(value, float)
            else _quoted(value, separator)
            for value in ratings.context.column(name)
        ]
    )  # fmt: skip


def _id_texts(ids: IdMap, separator: str) -> NDArray[np.object_]:
    return object_array([_quoted(text, separator) for text in _plain_texts(ids)])


def _plain_texts(ids: IdMap) -> list[str]:
    """The text of each id; all different, none empty."""
    for value in ids:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise RatingsError(
                f"id {shown(value)} is neither an integer nor text: make it text first"
            )
        if value == "":
            raise RatingsError("an empty id cannot be written: give it a name")
    texts = [str(value) for value in ids]
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise RatingsError("an id is not valid Unicode, and cannot be written") from None
    if len(set(texts)) < len(texts):
        raise RatingsError("ids such as 1 and '1' would become one in a file: rename some")
    return texts


def _number_texts(values: NDArray[Any]) -> NDArray[np.object_]:
    return object_array([_number_text(value) for value in values.tolist()])


def _number_text(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _quoted(text: str, separator: str) -> str:
    """`text` as a field: in quotes if it would be read as anything else without them."""
    special = text.startswith(" ") or any(sign in text for sign in (separator, '"', "\n", "\r"))
    return '"' + text.replace('"', '""') + '"' if special else text
