"""What can go wrong, and the words that say where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ordbm.runtime.printable import printable, shown

if TYPE_CHECKING:
    import numpy as np

SHOWN_ROWS = 5


class OrdbmError(Exception):
    """Any error raised on purpose by ordbm; what it quotes of files is shown escaped."""

    def __str__(self) -> str:
        return printable(super().__str__())


class RatingsError(OrdbmError, ValueError):
    """Ratings that cannot be used as they are; the message names the first offending rows."""


class NotFittedError(OrdbmError, RuntimeError):
    """A model was asked for something it only has after `fit`."""


class SettingsError(OrdbmError, ValueError):
    """A setting that is unknown, out of range, or at odds with another one."""


class ModelFileError(OrdbmError, ValueError):
    """A file that cannot be opened or written as what it should be; the message names it."""


class CheckpointError(OrdbmError, ValueError):
    """A checkpoint of another training than the one that is to go on."""


class InterruptedWarning(UserWarning):
    """Ctrl-C ended a training early, with a usable model."""


class LeftOutWarning(UserWarning):
    """Ratings that were given say nothing to the model, and were left out."""


class UnknownIdsWarning(UserWarning):
    """Ids that were asked about are unknown in a way that looks like a mistake."""


class DivergedError(OrdbmError, ArithmeticError):
    """Learning ran away: the parameters are no longer finite numbers."""


class ThreadsError(OrdbmError, RuntimeError):
    """The system would not start as many threads as were asked for."""


class EngineError(OrdbmError, RuntimeError):
    """The engine that was to learn cannot be had, or does not go on."""


class CostError(OrdbmError, MemoryError):
    """A computation refused because its estimated cost is too high; the message states the cost."""


def offending_rows(rows: Any, **columns: Sequence[Any] | np.ndarray) -> str:
    """The first few of `rows` in words: `row 3 (user 'a', rating nan), row 8 (...); 12 in all`.

    `rows` are 0-based positions or a mask; `columns` are shown by name and looked up at each row.
    A column `row`, if there is one, has the numbers by which the rows are called.
    """
    import numpy as np  # noqa: PLC0415 -- settings, and with them the help, must be quick

    positions = np.asarray(rows)
    if positions.dtype == bool:
        positions = np.flatnonzero(positions)
    named, called = [], columns.pop("row", range(positions.max(initial=-1) + 1))
    for row in positions[:SHOWN_ROWS].tolist():
        cells = ", ".join(f"{name} {_shown(column[row])}" for name, column in columns.items())
        named.append(f"row {called[row]} ({cells})" if cells else f"row {called[row]}")
    total = f"; {len(positions):,} in all" if len(positions) > SHOWN_ROWS else ""
    return ", ".join(named) + total


def _shown(value: Any) -> str:
    return shown(value.item() if getattr(value, "shape", None) == () else value, 60)
