"""How far long work has come, told while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple


class Progress(NamedTuple):
    """`share` (0 to 1) of a phase is done; of "learning", of one epoch.

    "compiling", always with share 0, is told when a first run on a machine has to compile.
    """

    phase: Literal["compiling", "structure", "links", "presence", "learning"]
    share: float
    epoch: int = 0  # the one being learnt, from 1
    epochs: int = 0  # planned


Tell = Callable[[Progress], object]


def teller(callbacks: Iterable[Any]) -> Tell:
    """A function that hands a `Progress` to every callback with a method `on_progress`."""
    told = [callback.on_progress for callback in callbacks if hasattr(callback, "on_progress")]

    def tell(progress: Progress) -> None:
        for on_progress in told:
            on_progress(progress)

    return tell
