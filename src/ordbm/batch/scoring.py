"""Predictions and lists for parquet datasets: what one part needs is told to its function."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self

import numpy as np

from ordbm.batch.partitions import Done, OnPart, Partition, run_partitions
from ordbm.data.columns import ColumnChoice, EncodedColumn, TimeChoice, context_names, context_role
from ordbm.data.times import times_in_seconds
from ordbm.datasets import ReadLimits, matched_ids
from ordbm.datasets.arrow_tables import table_columns
from ordbm.datasets.left_out import LeftOut
from ordbm.datasets.limits import Budget
from ordbm.datasets.parquet import ParquetDataset
from ordbm.datasets.record_checks import Rules
from ordbm.datasets.stored_files import StoredFile, dataset_files
from ordbm.errors import RatingsError
from ordbm.recommend.lists import criterion_of
from ordbm.runtime.checks import check_count
from ordbm.runtime.printable import shown

if TYPE_CHECKING:
    from ordbm.estimator import OrdinalBM

PAIRS_IN_BLOCK = 100_000
USERS_IN_PART = 20_000  # of lists for everybody
Folder = str | os.PathLike[str]


class PairColumns(NamedTuple):
    """Which columns of a dataset have what, and how much may come out of a file."""

    user: ColumnChoice = None
    item: ColumnChoice = None
    time: TimeChoice = None
    context: Sequence[str] = ()
    limits: ReadLimits | None = None

    def roles(self, *, with_items: bool) -> dict[str, ColumnChoice]:
        """The columns to read."""
        told: dict[str, ColumnChoice] = {"user": self.user}
        if not with_items:
            return told
        told |= {"item": self.item} | {context_role(name): name for name in self.context}
        return told if self.time is None or self.time is False else {**told, "time": self.time}


def predict_dataset(
    model: OrdinalBM,
    pairs: Folder,
    output: Folder,
    *,
    at: Any = None,
    columns: PairColumns | None = None,
    on_part: OnPart = lambda _, __: None,
) -> Done:
    """Predictions for all pairs of a parquet dataset, a file for each of its files.

    `pairs` is a folder of parquet files, or one at an address; `output` a folder. Each file has the
    columns of `predict_table`, in the order of the pairs. A run that was ended at any moment goes
    on where it was when it is started again: what is there is left alone, and nothing is twice.
    """
    how = columns or PairColumns()
    files = _files(pairs, how)
    job = {"job": "predict", "model": fingerprint(model), "at": shown(at), "columns": _plain(how)}

    def work(file: StoredFile, out: BinaryIO) -> int:
        return predict_part(model, file, out, at=at, columns=how)

    return run_partitions(output, job, files, work, on_part)


def recommend_dataset(
    model: OrdinalBM,
    output: Folder,
    users: Folder | None = None,
    *,
    n: int = 10,
    by: Any = None,
    candidates: Any = None,
    exclude: Sequence[Any] = (),
    diversity: float = 0.0,
    columns: PairColumns | None = None,
    on_part: OnPart = lambda _, __: None,
) -> Done:
    """The lists of `recommend_all`, in parquet files: restartable, as `predict_dataset` is.

    They are of all users of the model, so many in a file, or of those in a parquet dataset, a file
    for each of its files; a user who is in it more often has as many lists.
    """
    check_count("n", n)
    how = columns or PairColumns()
    asked = {
        "n": n, "by": by, "candidates": candidates, "exclude": exclude, "diversity": diversity,
    }  # fmt: skip
    criterion_of(by, model._state.presence is not None)
    job = {
        "job": "recommend", "model": fingerprint(model), "columns": _plain(how),
        "asked": hashlib.sha256(repr(asked).encode()).hexdigest(), "n": n, "by": shown(by),
    }  # fmt: skip
    if users is not None:
        files = _files(users, how)

        def of_file(file: StoredFile, out: BinaryIO) -> int:
            found = (part[0] for part in _column_parts(file, how, with_items=False))
            return recommend_part(model, found, out, **asked)

        return run_partitions(output, job, files, of_file, on_part)
    codes = model._state.user_codes(None)
    parts = [
        Partition(f"part-{number:05d}.parquet", len(block), block)
        for number, first in enumerate(range(0, len(codes), USERS_IN_PART))
        for block in [codes[first : first + USERS_IN_PART]]
    ]

    def of_users(block: Any, out: BinaryIO) -> int:
        return recommend_part(model, [model._state.users.values(block)], out, **asked)

    return run_partitions(output, job, parts, of_users, on_part)


def predict_part(
    model: OrdinalBM, file: StoredFile, out: BinaryIO, *, at: Any, columns: PairColumns
) -> int:
    """Write the predictions for one file of pairs; how many there are."""
    with _Tables(out) as write:
        for users, items, *more in _column_parts(file, columns, with_items=True):
            context = dict(zip(columns.context, more, strict=False))
            times = more[len(context)] if len(more) > len(context) else None
            when = times_in_seconds(times) if times is not None and at is None else at
            write(answered_pairs(model, users, items, at=when, context=context))
        if not write.rows:
            nothing = np.zeros(0, np.int64)
            write(answered_pairs(model, nothing, nothing))
    return write.rows


def recommend_part(model: OrdinalBM, users: Any, out: BinaryIO, **asked: Any) -> int:
    """Write the lists of some users, given as columns of ids; how many lines there are."""
    with _Tables(out) as write:
        for ids in users:
            for first in range(0, len(ids), USERS_IN_PART):
                block = matched_ids(ids[first : first + USERS_IN_PART], model._state.users)
                write(model.recommend_all(block, backend="pyarrow", **asked))
        if not write.rows:
            write(model.recommend_all([], backend="pyarrow", **asked))
    return write.rows


def answered_pairs(model: OrdinalBM, users: Any, items: Any, **told: Any) -> Any:
    """`predict_table` as an Arrow table, ids as they were given."""
    import pyarrow as pa  # noqa: PLC0415

    found = model.predict_table(
        matched_ids(users, model._state.users),
        matched_ids(items, model._state.items),
        backend="pyarrow",
        **told,
    )
    for place, (name, ids) in enumerate((("user", users), ("item", items))):
        given = pa.array(list(map(str, ids))) if ids.dtype == object else pa.array(ids)
        found = found.set_column(place, name, given)
    return found


def fingerprint(model: OrdinalBM) -> str:
    """A hash of what a model says: its parameters, ids and ratings, and the version it is of."""
    state = model._state
    found = hashlib.sha256(repr((state.origin, state.scale, state.growth)).encode())
    rows = state.given.by_user
    arrays = [machine.level_bias for machine in state.machines]
    for machine in state.machines:
        arrays += [array for side in filter(None, machine.sides) for array in side.parameters]
    for array in (*arrays, rows.start, rows.column, rows.level, rows.value):
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    for ids in (state.users, state.items):
        given = ids.given
        found.update(given.tobytes() if isinstance(given, np.ndarray) else repr(ids.ids).encode())
    return found.hexdigest()


def _files(path: Folder, how: PairColumns) -> list[Partition]:
    """The files of a dataset as parts of a job, under the names that they have in it."""
    files = dataset_files(path, Budget(how.limits or ReadLimits()))
    if not files:
        raise RatingsError(f"{path} has no parquet files: give a folder of them, or an address")
    return [Partition(file.name, file.size, file) for file in files]


def _column_parts(file: StoredFile, how: PairColumns, *, with_items: bool) -> Iterator[list[Any]]:
    """Users, items and what else was asked for of a file, some rows at a time."""
    roles = how.roles(with_items=with_items)
    rules = Rules(roles, LeftOut(), time_if_found=with_items and how.time is None)
    budget = Budget(how.limits or ReadLimits())
    budget.add_stored(file.size)
    dataset = ParquetDataset(file.label, [file], rules, budget)
    for part in dataset.parts(PAIRS_IN_BLOCK):
        if len(part.batch):
            found, _ = table_columns(
                part.label, [part.batch], dataset.wanted, dataset.rules, part.first_row
            )
            yield [
                one.values if isinstance(one, EncodedColumn) and place < 2 else one
                for place, one in enumerate(found)
            ]


def _plain(how: PairColumns) -> dict[str, Any]:
    """What is said of columns, as JSON has it."""
    told = {"user": how.user, "item": how.item, "time": how.time}
    return {**told, "context": list(context_names(how.context))}


class _Tables:
    """Arrow tables of one kind, written one after the other."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self.rows = out, 0
        self._writer: Any = None

    def __enter__(self) -> Self:
        return self

    def __call__(self, table: Any) -> None:
        from pyarrow import parquet  # noqa: PLC0415

        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._out, table.schema, write_page_checksum=True)
        self._writer.write_table(table)
        self.rows += len(table)

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
