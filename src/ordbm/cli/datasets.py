"""What commands over whole parquet datasets share: their columns, their progress, their end."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import progress

import ordbm
from ordbm.cli.options import PairOptions
from ordbm.cli.output import count_in_words, print_json, stderr
from ordbm.runtime.bars import bar

if TYPE_CHECKING:
    from ordbm.batch.partitions import Done, OnPart
    from ordbm.batch.scoring import PairColumns

_OF_PARQUET = ("user", "item", "time", "context", "limits")


def dataset_columns(reading: PairOptions) -> PairColumns:
    """Which columns of a dataset have what; other options are of other files."""
    from ordbm.batch.scoring import PairColumns

    usual, told = PairOptions().arguments(), reading.arguments()
    for name, value in told.items():
        if name not in _OF_PARQUET and value not in (usual[name], "parquet"):
            raise ordbm.errors.SettingsError(
                f"--{name.replace('_', '-')} has no effect on a parquet dataset: leave it out"
            )
    return PairColumns(**{name: told[name] for name in _OF_PARQUET})


@contextmanager
def part_bar(quiet: bool, what: str) -> Iterator[OnPart]:
    """A function to be told how many parts of how many are done, shown with the time left."""
    with bar(
        stderr(quiet),
        progress.MofNCompleteColumn(),
        progress.TextColumn("files"),
        progress.TimeRemainingColumn(compact=True),
        quiet=quiet,
    ) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def tell_done(found: Done, output: Path, quiet: bool, as_json: bool, what: str) -> None:
    """What was written, and what was there already."""
    before = f", {found.found:,} were there" if found.found else ""
    stderr(quiet or as_json).print(
        f"{output}: {count_in_words(found.rows, what)} in {count_in_words(found.written, 'file')}"
        f"{before}",
        markup=False,
    )
    if as_json:
        facts: dict[str, Any] = found._asdict()
        print_json({"path": str(output), **facts})
