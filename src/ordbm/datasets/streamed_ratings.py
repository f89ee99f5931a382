"""`Ratings` from parquet files, some rows at a time: never all of them as columns in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import ArrowTexts, EncodedColumn, is_context
from ordbm.data.context_columns import NO_CONTEXT, context_columns
from ordbm.data.encoded_parts import EncodedParts, RatingParts, plain_numbers
from ordbm.data.ids import are_whole
from ordbm.data.numeric_columns import finite_numbers
from ordbm.data.orientations import Unsorted
from ordbm.data.ratings import Duplicates, Ratings, check_duplicates
from ordbm.data.repeats import repeated_rows
from ordbm.data.scale import RatingScale, ScaleLike, given_scale
from ordbm.data.time_parts import TimeParts
from ordbm.data.times import NO_TIMES, is_time
from ordbm.datasets.arrow_tables import (
    IDS_NEEDED,
    MISSING_ADVICE,
    is_text,
    ordered_labels,
    value_kind,
)
from ordbm.datasets.parquet import MOST_ROWS_READ, FileRows, ParquetDataset
from ordbm.errors import RatingsError, offending_rows
from ordbm.runtime.interruption import safe_point
from ordbm.runtime.scratch import Scratch

_LEAST_AT_ONCE = 2**14
_BYTES_A_ROW = 2_000  # of `memory` for each row read at once


def streamed_ratings(
    dataset: ParquetDataset,
    scale: ScaleLike,
    duplicates: Duplicates,
    scratch: Scratch,
) -> Ratings:
    """The ratings of a dataset, in arrays of `scratch`."""
    check_duplicates(duplicates)
    reading = _Reading(dataset, scale, scratch)
    at_once = min(MOST_ROWS_READ, max(_LEAST_AT_ONCE, scratch.memory // _BYTES_A_ROW))
    for part in dataset.parts(at_once):
        safe_point()
        reading.add(part)
    return reading.whole(duplicates)


class _Reading:
    """What has been read so far, column by column."""

    def __init__(self, dataset: ParquetDataset, scale: ScaleLike, scratch: Scratch) -> None:
        self._dataset, self._rules, self._scratch = dataset, dataset.rules, scratch
        self._name = dict(zip(dataset.rules.choices, dataset.wanted, strict=True))
        self._kind: dict[str, str] = {}  # of each role, as the first rows have it
        self._scale, self._given = scale, given_scale(scale)
        self._n_rows = 0
        self._begins: list[tuple[int, str, int]] = []  # rows kept before each part, and where it is
        n = dataset.n_rows
        self._ids = {role: EncodedParts(n, scratch) for role in ("user", "item")}
        self._ratings = RatingParts(n, scratch)
        self._times: TimeParts | None = None
        self._context = {role: EncodedParts(n, scratch) for role in self._name if is_context(role)}
        self._n_missing = 0

    def add(self, part: FileRows) -> None:
        """Rows that follow."""
        columns = {role: part.batch.column(name) for role, name in self._name.items()}
        if not len(part.batch):
            return
        if not self._n_rows and "time" in columns:
            self._begin_times(columns)
        if not isinstance(self._given, RatingScale):  # an ordered column brings its own labels
            self._scale = ordered_labels(columns["rating"]) or self._scale
            self._given = given_scale(self._scale)
        row = np.arange(part.first_row, part.first_row + len(part.batch))
        kept = self._rated(columns["rating"])
        if kept is not None:
            self._n_missing += int(len(row) - np.count_nonzero(kept))
            columns = {role: _filtered(column, kept) for role, column in columns.items()}
            row = row[kept]
        if not len(row):
            return
        try:
            self._check(columns, row)
            self._add(columns)
        except RatingsError as problem:
            raise RatingsError(f"{part.label}: {problem}") from None
        self._begins.append((self._n_rows, part.label, int(row[0])))
        self._n_rows += len(row)

    def whole(self, duplicates: Duplicates) -> Ratings:
        """All that was read, by user and by item."""
        label, n, n_missing = self._dataset.label, self._n_rows, self._n_missing
        if not n:
            if n_missing:
                raise RatingsError(
                    f"{label}: all {n_missing:,} ratings mean 'not rated', by missing="
                )
            raise RatingsError(f"{label} has no rows: need {', '.join(self._rules.choices)}")
        (users, user), (items, item) = (parts.id_map() for parts in self._ids.values())
        try:
            scale, level, value = self._ratings.whole(self._scale)
            context = self._whole_context()
        except RatingsError as problem:
            raise RatingsError(f"{label}: {problem}") from None
        times = NO_TIMES if self._times is None else self._times.whole()
        row = np.arange(n if duplicates == "error" else 0)
        entries = Unsorted(user, item, level, value, times, context.values, row)
        if duplicates == "error":  # sorting empties the entries
            user, item = user.copy(), item.copy()
        self._ids.clear()
        del level, value, times
        beside = {
            "user": EncodedColumn(users.given, user),
            "item": EncodedColumn(items.given, item),
        }
        if duplicates != "error":
            del user, item
            beside.clear()
        ratings, repeats = Ratings.of_entries(
            users, items, scale, entries, duplicates, self._scratch, context
        )
        if len(repeats):
            raise RatingsError(self._where(repeats, beside))
        ratings.n_missing = n_missing
        return ratings

    def _begin_times(self, columns: dict[str, Any]) -> None:
        """Have times, unless a column that was found by its name does not begin with one."""
        first = columns["time"][0]
        is_one = first.is_valid and (
            not is_text(value_kind(columns["time"].type)) or is_time(first.as_py())
        )
        if self._rules.time_if_found and not is_one:
            del self._name["time"], columns["time"]
        else:
            self._times = TimeParts(self._dataset.n_rows, self._scratch)

    def _rated(self, rating: Any) -> NDArray[np.bool_] | None:
        """Which rows have a rating; None if all have."""
        missing = self._rules.missing
        if not missing:
            return None
        kept = np.ones(len(rating), bool)
        if missing.nothing and rating.null_count:
            kept &= rating.is_valid().to_numpy(zero_copy_only=False)
        encoded = rating.dictionary_encode() if not _is_encoded(rating) else rating
        values = encoded.dictionary
        plain = values.to_pylist() if is_text(values.type) else plain_numbers(values)
        rated = np.append(~missing.mask(plain), True)  # the last for what is null
        codes = encoded.indices.fill_null(len(rated) - 1).to_numpy()
        kept &= rated[codes]
        return None if kept.all() else kept

    def _check(self, columns: dict[str, Any], row: NDArray[Any]) -> None:
        """An error unless all of these rows can be used; those of ids and times as they are."""
        for role, column in columns.items():
            if column.null_count and not is_context(role):
                missing = column.is_null().to_numpy(zero_copy_only=False)
                said = offending_rows(missing, row=row)
                advice = MISSING_ADVICE.get(role, "")
                raise RatingsError(f"the {role} is missing in {said}; rows count from 0{advice}")
            kind = _kind_in_words(value_kind(column.type))
            if self._kind.setdefault(role, kind) != kind and not is_context(role):
                raise RatingsError(
                    f"the {role} column holds {kind}, and {self._kind[role]} in the files before: "
                    "write all in one way"
                )
        for role in ("user", "item"):
            columns[role] = _usable_ids(columns[role], role, row)
        beside = {
            "row": row,
            "user": ArrowTexts(columns["user"]),
            "item": ArrowTexts(columns["item"]),
        }
        try:
            self._check_ratings(columns["rating"], beside)
            if self._times is not None:
                self._times.check(columns["time"], beside)
        except RatingsError as problem:
            raise RatingsError(f"{problem}; rows count from 0") from None

    def _check_ratings(self, rating: Any, beside: Mapping[str, Any]) -> None:
        """An error that names rows unless all ratings are finite numbers, or on the scale."""
        encoded = rating if _is_encoded(rating) else rating.dictionary_encode()
        values = encoded.dictionary
        distinct = values.to_pylist() if is_text(values.type) else plain_numbers(values)
        try:
            _check_values(distinct, self._given, {})
        except RatingsError:
            whole = rating.to_pylist() if is_text(values.type) else plain_numbers(rating)
            _check_values(whole, self._given, beside)

    def _add(self, columns: Mapping[str, Any]) -> None:
        for role, parts in {**self._ids, **self._context}.items():
            parts.add(columns[role])
        self._ratings.add(columns["rating"])
        if self._times is not None:
            self._times.add(columns["time"])

    def _whole_context(self) -> Any:
        found = {}
        for role, parts in self._context.items():
            values, codes = parts.whole()
            found[role.partition(" ")[2]] = EncodedColumn(values.to_pylist(), codes)
        return context_columns(found, self._n_rows) if found else NO_CONTEXT

    def _where(self, repeats: NDArray[Any], beside: dict[str, Any]) -> str:
        """What pairs of which file were rated again."""
        begins = [begin for begin, _, _ in self._begins]
        place = bisect_right(begins, int(repeats[0])) - 1
        label = self._begins[place][1]
        own = [one for one in self._begins if one[1] == label]
        first = own[0][0]
        end = next((begin for begin, other, _ in self._begins[place:] if other != label), None)
        here = repeats if end is None else repeats[repeats < end]
        row = _From(first - own[0][2])
        left_out = ", without those left out" if self._n_missing else ""
        return (
            f"{label}: {repeated_rows(here, {**beside, 'row': row})}; rows count from 0{left_out}"
        )


class _From:
    """Numbers of rows that follow each other."""

    def __init__(self, first: int) -> None:
        self._first = first

    def __getitem__(self, row: int) -> int:
        return row - self._first


def _check_values(values: Any, scale: Any, beside: Mapping[str, Any]) -> None:
    if isinstance(scale, RatingScale):
        scale.codes(values, **beside)
    else:
        finite_numbers(values, **beside)


def _usable_ids(column: Any, role: str, row: NDArray[Any]) -> Any:
    """Ids as integers or texts, or an error that names the rows with others."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    kind = value_kind(column.type)
    if is_text(kind):
        dictionary = column.dictionary if _is_encoded(column) else column
        if pc.any(pc.equal(dictionary, "")).as_py():
            empty = pc.equal(column.cast(kind), "").to_numpy(zero_copy_only=False)
            if empty.any():
                raise RatingsError(
                    f"the {role} column is empty in {offending_rows(empty, row=row)}; rows count "
                    "from 0"
                )
        return column
    column = column.cast(kind)
    if pa.types.is_integer(kind):
        return column
    numbers = plain_numbers(column).astype(np.float64)
    whole = are_whole(numbers)
    if not whole.all():
        said = offending_rows(~whole, row=row, id=numbers)
        raise RatingsError(
            f"the {role} column holds numbers that are not integers: {said}; {IDS_NEEDED}"
        )
    return pa.array(numbers.astype(np.int64))  # integers that met a missing value once


def _kind_in_words(kind: Any) -> str:
    import pyarrow as pa  # noqa: PLC0415

    if is_text(kind):
        return "text"
    return "times" if pa.types.is_timestamp(kind) or pa.types.is_date(kind) else "numbers"


def _is_encoded(column: Any) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    return bool(pa.types.is_dictionary(column.type))


def _filtered(column: Any, kept: NDArray[np.bool_]) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return column.filter(pa.array(kept))
