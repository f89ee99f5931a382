"""Ratings: who gave what to which item, kept by user and by item."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import (
    Column,
    EncodedColumn,
    TimeChoice,
    at_rows,
    context_names,
    plain_column,
)
from ordbm.data.context_columns import NO_CONTEXT, ContextColumns, context_columns
from ordbm.data.csr import CSR
from ordbm.data.frames import Backend, frame_of
from ordbm.data.ids import IdMap, integral_ids
from ordbm.data.not_rated import NotRated
from ordbm.data.orientations import (
    Unsorted,
    both_orientations,
    kept_of,
    kept_rows,
    sorted_by_user,
)
from ordbm.data.rating_tables import rating_columns
from ordbm.data.repeats import repeated_rows
from ordbm.data.scale import (
    ContinuousScale,
    Levels,
    Scale,
    ScaleLike,
    levels_and_values,
    scale_for,
)
from ordbm.data.times import NO_TIMES, plain_times, times_in_seconds
from ordbm.errors import RatingsError
from ordbm.runtime.arrays import Codes, Numbers
from ordbm.runtime.printable import shown
from ordbm.runtime.scratch import IN_MEMORY, Scratch

Duplicates = Literal["last", "mean", "error"]


class Ratings:
    """Ratings of items by users on one scale, in compressed rows by user and by item.

    Either three columns, or one table that has them (`users` alone): a pandas, polars or Arrow
    frame, a list of dicts, a dict of lists, a structured array, rows of (user, item, rating), or a
    SciPy sparse matrix, whose rows are users, whose columns are items, and whose stored entries,
    stored zeros too, are ratings. Columns of tables are found by their usual names (`from_frame`
    takes others). Ids that are whole numbers in a column of floats are integers.

    `scale` is found from the values unless given: levels from lowest to highest (numbers or
    labels), a `RatingScale`, a `ContinuousScale`, or `"continuous"`. Of a (user, item) pair given
    more than once the last rating stays (`duplicates="last"`), or the mean of all (`"mean"`: the
    nearest level, the higher of two), or it is an error (`"error"`). Where a value stands for "not
    rated" (`missing=0`, or several in a list; NaN for what is None or NaN), its rows are left out
    and counted.

    `times`, if known, say when each was given: numbers of seconds, datetimes or ISO 8601 text. A
    table's are found by their usual names (`timestamp`, `date`...). The last rating of a pair is
    then the latest, and of those of one time the last row.

    `context` are columns of what else was so when each was given (device, mood, company...): a
    table {name: column} or a frame, or the names of columns if `users` is the table. Numbers are
    near or far from each other; anything else is a category. None is not known.
    """

    users: IdMap
    items: IdMap
    scale: Scale
    by_user: CSR
    by_item: CSR
    times: Numbers  # (N,) seconds since 1970 of each rating, by user; (0,) if they are not known
    context: ContextColumns  # by user; without columns if none were given
    n_duplicates: int
    n_missing: int  # left out, as their value means "not rated"
    n_bad_lines: int  # of a file, left out because the caller said so
    scratch: Scratch  # where the arrays have their room: in memory, or in mapped files

    def __init__(
        self,
        users: Any,
        items: Any = None,
        values: Any = None,
        scale: ScaleLike = None,
        duplicates: Duplicates = "last",
        *,
        missing: Any = None,
        times: Any = None,
        context: Any = None,
        scratch: Scratch = IN_MEMORY,
    ) -> None:
        if items is None and values is None:
            users, items, values, labels, own_times, own_context = rating_columns(
                users, context=context_names(context)
            )
            context = own_context or context
            scale = labels if scale is None else scale
            times = own_times if times is None else times
        elif items is None or values is None:
            raise RatingsError("give users, items and values, or one table that has all three")
        user_column, item_column = _id_column(users, "users"), _id_column(items, "items")
        rating_column = plain_column(values, "ratings")
        time_column = None if times is None else _time_column(times)
        _check_lengths(user_column, item_column, rating_column, time_column)
        beside_each = NO_CONTEXT
        if context is not None:
            if context_names(context):
                raise RatingsError("context: names are of a table's columns: give {name: column}")
            beside_each = context_columns(context, len(rating_column))
        check_duplicates(duplicates)
        rated = _rated_rows(rating_column, missing)
        self.n_missing, self.n_bad_lines = len(rating_column) - len(rated), 0
        if self.n_missing:
            user_column, item_column, rating_column = (
                at_rows(column, rated) for column in (user_column, item_column, rating_column)
            )
            time_column = None if time_column is None else at_rows(time_column, rated)
            beside_each = beside_each.at(rated)
        beside = {"user": user_column, "item": item_column}
        self.users, users = IdMap.of(user_column, "users")
        self.items, items = IdMap.of(item_column, "items")
        self.scale = scale_for(rating_column, scale, **beside)
        level, value = levels_and_values(rating_column, self.scale, **beside)
        seconds = NO_TIMES if time_column is None else times_in_seconds(time_column, **beside)
        row = np.arange(len(users) if duplicates == "error" else 0)
        entries = Unsorted(users, items, level, value, seconds, beside_each.values, row)
        repeats = self._sort(entries, duplicates, scratch, beside_each)
        if len(repeats):
            raise RatingsError(repeated_rows(repeats, beside))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        user: str = "user",
        item: str = "item",
        rating: str = "rating",
        scale: ScaleLike = None,
        duplicates: Duplicates = "last",
        *,
        missing: Any = None,
        time: TimeChoice = None,
        context: Sequence[str] = (),
    ) -> Ratings:
        """Ratings from columns of a pandas, polars or Arrow frame, or any other table.

        Where there is no column `user`, `item` or `rating`, one with a usual name (`userId`,
        `movie_id`, `stars`...) is taken; so is one of times, if its first value is a time and not
        `time=False`. An ordered categorical rating column brings its own labelled scale. `context`
        names columns of context.
        """
        told = (("user", user), ("item", item), ("rating", rating))
        users, items, values, labels, times, beside = rating_columns(
            frame,
            **{role: None if name == role else name for role, name in told},
            time=time,
            context=context_names(context),
        )
        scale = labels if scale is None else scale
        return cls(
            users, items, values, scale, duplicates,
            missing=missing, times=times, context=beside,
        )  # fmt: skip

    @classmethod
    def of_rows(
        cls, users: IdMap, items: IdMap, scale: Scale, by_user: CSR, times: Numbers = NO_TIMES,
        context: ContextColumns = NO_CONTEXT, scratch: Scratch = IN_MEMORY,
    ) -> Ratings:  # fmt: skip
        """Ratings from ids already mapped and rows already sorted; the transpose is made anew."""
        made = object.__new__(cls)
        made.times, made.context, made.scratch = times, context, scratch
        made.users, made.items, made.scale = users, items, scale
        made.n_duplicates = made.n_missing = made.n_bad_lines = 0
        made.by_user, made.by_item = both_orientations(by_user, len(items), scratch)
        return made

    @classmethod
    def of_entries(
        cls, users: IdMap, items: IdMap, scale: Scale, entries: Unsorted, duplicates: Duplicates,
        scratch: Scratch, context: ContextColumns = NO_CONTEXT,
    ) -> tuple[Ratings, NDArray[Any]]:  # fmt: skip
        """Ratings from ids, levels and values, in any order; and which rows repeat a pair.

        The latter is known if the entries have rows. Entries are emptied where they are many.
        """
        made = object.__new__(cls)
        made.users, made.items, made.scale = users, items, scale
        made.n_missing = made.n_bad_lines = 0
        return made, made._sort(entries, duplicates, scratch, context)

    def _sort(
        self,
        entries: Unsorted,
        duplicates: Duplicates,
        scratch: Scratch,
        context: ContextColumns,
    ) -> NDArray[Any]:
        """Have the entries by user and by item; which rows repeat a pair."""
        found = sorted_by_user(
            entries, self.n_users, self.n_items, self.scale, duplicates == "mean", scratch
        )
        self.scratch, self.n_duplicates = scratch, found.n_duplicates
        self.times, self.context = found.times, context.with_values(found.context)
        if len(found.repeats):  # an error is to follow
            return found.repeats
        self.by_user, self.by_item = both_orientations(found.rows, self.n_items, scratch)
        return found.repeats

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    def __len__(self) -> int:
        return len(self.by_user.column)

    @property
    def is_continuous(self) -> bool:
        return self.scale.is_continuous

    @property
    def has_times(self) -> bool:
        return len(self.times) > 0

    @property
    def user_codes(self) -> Codes:
        """The user of each rating, by user; (N,) like the three that follow."""
        return self.by_user.row

    @property
    def item_codes(self) -> Codes:
        return self.by_user.column

    @property
    def levels(self) -> Levels:
        return self.by_user.level

    @property
    def values(self) -> Numbers:
        """The number of each rating on the scale."""
        if isinstance(self.scale, ContinuousScale):
            return np.asarray(self.by_user.value, np.float64)
        return self.scale.values[self.by_user.level]

    def select(self, positions: Any) -> Ratings:
        """Only the ratings at `positions` (of the by-user order; or a mask), ids and scale kept."""
        chosen = np.asarray(positions)
        if chosen.dtype != bool:
            keep = np.zeros(len(self), bool)
            keep[chosen.astype(np.int64)] = True
            if np.count_nonzero(keep) < len(chosen):
                raise RatingsError("positions to select must be distinct")
        elif len(chosen) == len(self):
            keep = chosen
        else:
            raise RatingsError(f"a mask needs one value per rating: {len(chosen)}, not {len(self)}")
        kept = kept_rows(self.by_user, keep, self.scratch)
        n_kept = len(kept.column)
        times = kept_of(self.times, keep, n_kept, self.scratch)
        context = self.context.with_values(kept_of(self.context.values, keep, n_kept, self.scratch))
        return Ratings.of_rows(
            self.users, self.items, self.scale, kept, times, context, self.scratch
        )

    def __deepcopy__(self, memo: Any) -> Ratings:
        """The same arrays again: they are never changed, and may be larger than memory."""
        return copy(self)

    def to_frame(self, backend: Backend | None = None) -> Any:
        """A frame of user, item, rating (labels where the scale has them), time, context, by user.

        `backend` is "pandas", "polars" or "pyarrow", or None for the first of them installed. Ids
        of several kinds become text in the latter two. Times, if they are known, are in seconds.
        """
        labels = getattr(self.scale, "labels", None)
        ratings = [labels[level] for level in self.levels] if labels else self.values
        columns = {
            "user": [self.users[code] for code in self.user_codes],
            "item": [self.items[code] for code in self.item_codes],
            "rating": ratings,
        }
        if self.has_times:
            columns["time"] = plain_times(self.times)
        columns |= {name: self.context.column(name) for name in self.context.names}
        return frame_of(columns, backend)

    def __repr__(self) -> str:
        pairs = self.n_users * self.n_items
        with_ = ["times"] * self.has_times + list(self.context.names)
        beside = f", with {', '.join(with_)}" if with_ else ""
        density = f"{100 * len(self) / pairs:.3g} % of all pairs" if pairs else "no pairs"
        remarks = "".join(
            f"; {count:,} {what}"
            for count, what in (
                (self.n_duplicates, "duplicates merged"),
                (self.n_missing, "not rated left out"),
                (self.n_bad_lines, "bad lines left out"),
            )
            if count
        )
        return (
            f"Ratings({len(self):,} by {self.n_users:,} users of {self.n_items:,} items, "
            f"{density}; {self.scale}{beside}{remarks})"
        )


def as_ratings(ratings: Any, scale: ScaleLike = None) -> Ratings:
    """`ratings` if they are `Ratings`, else those made of a table; `scale` is for the latter."""
    return ratings if isinstance(ratings, Ratings) else Ratings(ratings, scale=scale)


def check_duplicates(duplicates: Any) -> None:
    """An error unless it is known what to do with pairs that are rated more than once."""
    if duplicates not in get_args(Duplicates):
        raise RatingsError(f"duplicates must be 'last', 'mean' or 'error', not {shown(duplicates)}")


def _check_lengths(users: Any, items: Any, ratings: Any, times: Any) -> None:
    lengths = (len(users), len(items), len(ratings))
    if len(set(lengths)) > 1:
        raise RatingsError(_unequal(*lengths))
    if times is not None and len(times) != len(ratings):
        raise RatingsError(
            f"lengths differ: {len(ratings):,} ratings, {len(times):,} times: give one for each"
        )
    if not len(ratings):
        raise RatingsError("no ratings: need at least one (user, item, rating)")


def _time_column(times: Any) -> Column | EncodedColumn:
    return times if isinstance(times, EncodedColumn) else plain_column(times, "times")


def _id_column(ids: Any, name: str) -> Column | EncodedColumn:
    return ids if isinstance(ids, EncodedColumn) else integral_ids(plain_column(ids, name))


def _rated_rows(values: Column, missing: Any) -> NDArray[np.intp]:
    """The rows whose value does not mean "not rated"."""
    rated = np.flatnonzero(~NotRated.of(missing).mask(values))
    if not len(rated):
        raise RatingsError(f"no ratings: all {len(values):,} are missing={shown(missing)}")
    return rated


def _unequal(n_users: int, n_items: int, n_ratings: int) -> str:
    shortest = min(n_users, n_items, n_ratings)
    return (
        f"lengths differ: {n_users:,} users, {n_items:,} items, {n_ratings:,} ratings; from row "
        f"{shortest} on some are missing: give one of each per row"
    )
