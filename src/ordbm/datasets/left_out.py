"""Lines of files that were left out because the caller said so: counted, told and written down."""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from ordbm.datasets.delimited import numbered_lines, quoted_line
from ordbm.errors import SHOWN_ROWS, LeftOutWarning, SettingsError
from ordbm.runtime.atomic_files import atomic_file, begins_with, check_replaceable
from ordbm.runtime.printable import shown

BadLines = Literal["error", "skip"]
_NAMES = ("file", "line", "reason", "text")
_HEADER = (",".join(_NAMES) + "\n").encode()
_OURS = begins_with(_HEADER)


class BadLine(NamedTuple):
    """A line of a file that cannot be used, and why."""

    file: str
    line: int
    reason: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}, in {quoted_line(self.text)}"


def bad_lines_of(label: str, problems: Sequence[tuple[int, str]], content: bytes) -> list[BadLine]:
    """The lines of these numbers and what is wrong with them."""
    texts = numbered_lines(content, [line for line, _ in problems])
    return [BadLine(label, line, problem, texts[line]) for line, problem in problems]


class LeftOut:
    """What is left out of a file: lines that cannot be used, and values that mean "not rated"."""

    def __init__(
        self, bad_lines: str = "error", bad_lines_to: str | os.PathLike[str] | None = None
    ) -> None:
        if bad_lines not in get_args(BadLines):
            raise SettingsError(f"bad_lines={shown(bad_lines)}: use 'error' or 'skip'")
        self.skips = bad_lines == "skip"
        if bad_lines_to is not None and not self.skips:
            raise SettingsError("bad_lines_to= has no effect without bad_lines='skip'")
        self._target = None if bad_lines_to is None else Path(bad_lines_to)
        if self._target is not None:
            with _writing(self._target):  # before the work, not after it
                check_replaceable(self._target, _OURS)
        self.bad: list[BadLine] = []
        self.n_missing = 0

    def tell(self, stacklevel: int) -> None:
        """Write the bad lines to their file, and warn of them."""
        if self._target is not None:
            self._write(self._target)
        if not self.bad:
            return
        if self._target is not None:
            more = f"; all are in {self._target}"
        elif len(self.bad) > SHOWN_ROWS:
            more = "; ...; bad_lines_to= names a file to write all of them to"
        else:
            more = ""
        n, files = len(self.bad), dict.fromkeys(one.file for one in self.bad)
        shown = "; ".join(map(str, self.bad[:SHOWN_ROWS]))
        warnings.warn(
            f"{', '.join(files)}: {n:,} line{'s' * (n > 1)} left out: {shown}{more}",
            LeftOutWarning,
            stacklevel=stacklevel + 1,
        )

    def _write(self, target: Path) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self.bad)
        with _writing(target), atomic_file(target, _OURS) as file:
            file.write(_HEADER + text.getvalue().encode("utf-8", "surrogateescape"))


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise SettingsError(
            f"cannot write the bad lines to {target}: {problem.strerror or problem}; choose "
            "another name"
        ) from problem
