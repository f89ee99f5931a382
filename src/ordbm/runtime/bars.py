"""Bars that show how far work has come: in a terminal and in a notebook, nowhere else."""

from __future__ import annotations

from rich import progress
from rich.console import Console

BAR_WIDTH = 30


def bar(console: Console, *columns: progress.ProgressColumn, quiet: bool) -> progress.Progress:
    """A bar with its name before it and `columns` behind it, gone at the end of the work."""
    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(BAR_WIDTH),
        *columns,
        console=console,
        transient=True,
        disable=quiet or not (console.is_terminal or console.is_jupyter),
    )


def clock(seconds: float) -> str:
    """A time as a clock has it: `3:07`, `2 h 05`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d}"
