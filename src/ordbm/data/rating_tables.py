"""Tables as people have them (frames, records, sparse matrices), as columns of ratings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from ordbm.data.columns import (
    ColumnChoice,
    TimeChoice,
    column_places,
    context_role,
    usual_time_place,
)
from ordbm.data.times import is_date, is_time
from ordbm.errors import RatingsError
from ordbm.runtime.printable import shown

_TAKEN = (
    "a pandas, polars or Arrow frame, a list of dicts, a dict of lists, a structured array, a "
    "SciPy sparse matrix (users in rows), or Ratings(users, items, values)"
)


class RatingColumns(NamedTuple):
    """Users, items and ratings, one of each per row, and what else a table brings along."""

    users: Any
    items: Any
    values: Any
    scale: list[str] | None = None
    times: Any = None
    context: dict[str, Any] | None = None


def rating_columns(
    table: Any,
    user: ColumnChoice = None,
    item: ColumnChoice = None,
    rating: ColumnChoice = None,
    time: TimeChoice = None,
    context: Sequence[str] = (),
) -> RatingColumns:
    """The columns of a table of ratings, by name or number, else by their usual names.

    A column that is called `user`, `item` or `rating` goes before others with usual names. Of a
    sparse matrix every stored entry is a rating, a stored zero too; rows are users, columns items,
    both by their numbers from 0. Times are there only if a column has them, or says so by its name.
    `context` names further columns.
    """
    choices: dict[str, ColumnChoice] = {"user": user, "item": item, "rating": rating}
    if time is not None and time is not False:
        choices["time"] = time
    choices |= {context_role(name): name for name in context}
    if _is_sparse(table):
        return _matrix_columns(table, choices)
    columns = named_columns(table)
    names = list(columns)
    found: dict[str, ColumnChoice] = {}
    for role, choice in choices.items():
        wanted = role if choice is None else choice
        found[role] = names.index(wanted) if wanted in names else choice
    places = column_places(names, found)
    users, items, values, *more = (columns[names[place]] for place in places)
    times, beside = more[: len(more) - len(context)], more[len(more) - len(context) :]
    if time is None:
        place = usual_time_place(names, places)
        times = [] if place is None else [columns[names[place]]]
        if times and not (len(times[0]) and is_time(times[0][0])):
            times = []
    scale = None
    if isinstance(values, nw.Series) and isinstance(values.dtype, nw.Enum):
        scale = list(values.dtype.categories)
    found_context = dict(zip(context, beside, strict=True)) or None
    return RatingColumns(users, items, values, scale, times[0] if times else None, found_context)


def pair_columns(table: Any) -> tuple[Any, Any]:
    """Users and items of a table that may have more columns, or of a list of (user, item)."""
    if isinstance(table, list | tuple) and table and isinstance(table[0], tuple | list):
        _check_rows(
            table, [isinstance(row, tuple | list) and len(row) > 1 for row in table], "pair"
        )
        return [row[0] for row in table], [row[1] for row in table]
    columns = named_columns(table)
    names = list(columns)
    user, item = (
        columns[names[place]] for place in column_places(names, {"user": None, "item": None})
    )
    return user, item


def named_columns(table: Any) -> Mapping[Any, Any]:
    """The columns of a table by name; without names, by number."""
    if isinstance(table, Mapping):
        return table
    if isinstance(table, np.ndarray):
        if table.dtype.names is None or table.ndim != 1:
            raise RatingsError(_unclear_array(table))
        return {name: table[name] for name in table.dtype.names}
    if isinstance(table, str | bytes) or hasattr(table, "__fspath__"):
        raise RatingsError(
            f"{shown(table)} is not a table of ratings: read a file with ordbm.read_ratings(path)"
        )
    frame = _frame(table)
    if frame is not None:
        return {name: frame.get_column(name) for name in frame.columns}
    rows = list(table) if isinstance(table, Iterator) else table
    if isinstance(rows, Sequence):
        return _record_columns(rows)
    raise RatingsError(f"need ratings, got {type(table).__name__}: give {_TAKEN}")


def _frame(table: Any) -> nw.DataFrame[Any] | None:
    """A frame of any library, also one that is yet to be worked out; None if it is none."""
    if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
        table = _arrow_table(table)
    try:
        frame = nw.from_native(table)
    except TypeError:
        return None
    except (ValueError, nw.exceptions.NarwhalsError) as problem:  # two columns of one name
        said = " ".join(str(problem).split())
        raise RatingsError(f"this frame cannot be read: {said}; rename its columns") from None
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def _arrow_table(table: Any) -> Any:
    """Record batches, readers of them and what other libraries hand out as such, as a table."""
    if nw.dependencies.is_into_dataframe(table):
        return table
    import pyarrow as pa  # noqa: PLC0415

    try:
        return table.read_all() if isinstance(table, pa.RecordBatchReader) else pa.table(table)
    except (pa.ArrowException, TypeError, ValueError, OSError) as problem:
        first = (str(problem).splitlines() or ["unreadable"])[0]
        raise RatingsError(f"{type(table).__name__} cannot be read as a table: {first}") from None


def _record_columns(rows: Sequence[Any]) -> Mapping[Any, Any]:
    """Columns of records: dicts, by their keys; named tuples; others by place.

    These are user, item and rating, and a fourth is the time if it looks like one.
    """
    if not rows:
        raise RatingsError("no ratings: need at least one (user, item, rating)")
    first = rows[0]
    if isinstance(first, Mapping):
        _check_rows(rows, [isinstance(row, Mapping) for row in rows], "dict")
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}
    if not isinstance(first, tuple | list) or len(first) < 3:
        raise RatingsError(f"a list of {type(first).__name__} is not ratings: give {_TAKEN}")
    alike = [isinstance(row, tuple | list) and len(row) == len(first) for row in rows]
    _check_rows(rows, alike, f"row of {len(first)}")
    roles = getattr(first, "_fields", None) or ("user", "item", "rating")
    if roles == ("user", "item", "rating") and len(first) == 4 and is_date(first[3]):
        roles = (*roles, "time")
    return dict(zip(roles, map(list, zip(*rows, strict=True)), strict=False))


def _check_rows(rows: Sequence[Any], alike: Sequence[bool], what: str) -> None:
    if not all(alike):
        row = list(alike).index(False)
        raise RatingsError(
            f"row 0 is a {what}, row {row} is not (it is a {type(rows[row]).__name__}): give rows "
            "of one form"
        )


def _is_sparse(table: Any) -> bool:
    # Without an import of SciPy: whoever has such a matrix has imported it.
    return hasattr(table, "tocoo") and hasattr(table, "nnz")


def _matrix_columns(matrix: Any, choices: Mapping[str, ColumnChoice]) -> RatingColumns:
    told = [role for role, choice in choices.items() if choice is not None]
    if told:
        raise RatingsError(
            f"a sparse matrix has no columns of {', '.join(told)}: its rows are users and its "
            f"columns items; leave {told[0]}= out"
        )
    if len(matrix.shape) != 2:
        raise RatingsError(
            f"a sparse matrix of ratings has users in rows and items in columns, two dimensions; "
            f"got {len(matrix.shape)}"
        )
    entries = matrix.tocoo()
    return RatingColumns(entries.row, entries.col, entries.data)


def _unclear_array(array: Any) -> str:
    shape = f"an array of shape {array.shape}"
    if array.ndim != 2:
        return f"{shape} is not ratings: give {_TAKEN}"
    return (
        f"{shape} may be a table or a matrix: give columns, Ratings(a[:, 0], a[:, 1], a[:, 2]), or "
        "scipy.sparse.csr_array(a) if its rows are users and its zeros are not ratings"
    )
