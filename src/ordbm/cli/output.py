"""What is printed: tables and JSON on stdout, progress and remarks on stderr."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rich import box, progress
from rich.console import Console
from rich.table import Table
from rich.text import Text

import ordbm
from ordbm.runtime import atomic_files as files
from ordbm.runtime.bars import BAR_WIDTH, bar
from ordbm.runtime.printable import printable

WIDTH_IN_FILES = 160  # a table in a pipe or file has no terminal to fit into


class LiteralConsole(Console):
    """A console that shows texts as they are: no markup, and nothing that a terminal would obey.

    Line ends of the layout are those between arguments, with `sep`; others are shown escaped.
    """

    def print(self, *objects: Any, **how: Any) -> None:
        literal = [Text(printable(one)) if isinstance(one, str) else one for one in objects]
        super().print(*literal, **how)


def stdout() -> Console:
    """Where tables go."""
    told = os.environ.get("COLUMNS") or sys.stdout.isatty()
    width = None if told else WIDTH_IN_FILES
    return LiteralConsole(highlight=False, emoji=False, soft_wrap=False, width=width)


def stderr(quiet: bool = False) -> Console:
    """Where progress and remarks go."""
    return LiteralConsole(stderr=True, highlight=False, emoji=False, soft_wrap=True, quiet=quiet)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None
) -> Any:
    """A Rich table; columns of numbers are set to the right, and texts are taken literally."""
    cells = [[_cell(value, decimals=2) for value in row] for row in rows]
    found = Table(box=box.SIMPLE_HEAD, title=_title(title), title_justify="left")
    for place, name in enumerate(columns):
        numeric = all(row[place][1] for row in cells)
        found.add_column(
            Text(printable(name)),
            justify="right" if numeric and cells else "left",
            overflow="fold",
        )
    for row in cells:
        found.add_row(*(Text(value) for value, _ in row))
    return found


def _title(text: str | None) -> Text | None:
    """A title in bold, perhaps after a blank line."""
    if text is None:
        return None
    return Text("\n" * text.startswith("\n") + printable(text.removeprefix("\n")), style="bold")


def _cell(value: Any, decimals: int) -> tuple[str, bool]:
    """A value as shown, and whether it is a number (or none at all)."""
    if value is None:
        return "", True
    if isinstance(value, bool):
        return "yes" if value else "no", False
    if isinstance(value, int):
        return f"{value:,}", True
    if isinstance(value, float):
        return ("" if math.isnan(value) else f"{value:.{decimals}f}"), True
    return printable(str(value)), False


def facts(lines: Mapping[str, Any], *, title: str | None = None) -> Any:
    """A table of names and what there is to say about them."""
    found = Table(box=None, title=_title(title), title_justify="left", padding=(0, 1))
    found.show_header = False
    for name, value in lines.items():
        if value is not None:
            found.add_row(Text(printable(name), style="dim"), Text(_cell(value, decimals=4)[0]))
    return found


def distribution_bars(levels: Sequence[Any], shares: Sequence[float]) -> Any:
    """P of each level as a bar."""
    found = Table(box=None, show_header=False, padding=(0, 1))
    found.add_column(justify="right")
    for level, share in zip(levels, shares, strict=True):
        bar = "█" * round(BAR_WIDTH * share / max(*shares, 1e-9))
        found.add_row(
            Text(printable(level) if isinstance(level, str) else f"{level:g}"),
            Text(f"{bar:<{BAR_WIDTH}}", style="cyan"),
            f"{share:6.1%}",
        )
    return found


def print_json(document: Any) -> None:
    """One JSON document on stdout; what is not a finite number is null."""
    print(json.dumps(json_ready(document), indent=2, allow_nan=False))


def count_in_words(n: int, what: str) -> str:
    """A number of things in words: 1 epoch, 2 epochs."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def json_ready(value: Any) -> Any:
    """`value` in JSON's own kinds: NumPy numbers, arrays and dataclasses unpacked, ids as text."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    elif hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): json_ready(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def fit_bar(quiet: bool, what: str = "learning") -> Any:
    """A callback for `fit` that shows epochs and the time left, on a terminal."""
    from ordbm.training.learning_bar import learning_bar  # noqa: PLC0415 -- help must be quick

    return learning_bar(stderr(quiet), what=what, quiet=quiet)


@contextmanager
def step_bar(quiet: bool, what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """A function to be told how many steps are done, shown with the time left on a terminal."""
    with bar(
        stderr(quiet),
        progress.MofNCompleteColumn(),
        progress.TextColumn(unit),
        progress.TimeRemainingColumn(compact=True),
        quiet=quiet,
    ) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done: shown.update(task, completed=done)


@contextmanager
def byte_bar(quiet: bool, what: str) -> Iterator[Callable[[int, int | None], None]]:
    """A function to be told the bytes so far and in all, shown with speed and time left."""
    with bar(
        stderr(quiet),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(compact=True),
        quiet=quiet,
    ) as shown:
        task = shown.add_task(printable(what), total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


@contextmanager
def output_file(path: Path, ours: files.Ours | None = None) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` at the end, or goes without trace.

    Unless None, `ours` are the files that may be replaced.
    """
    try:
        with files.atomic_file(path, ours) as file:
            yield file
    except OSError as problem:
        raise ordbm.errors.SettingsError(
            f"cannot write {path}: {problem.strerror or problem}; choose a folder that has room"
        ) from problem
