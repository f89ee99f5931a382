"""A bar for `fit`: links, presence, epochs and the time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich import progress
from rich.console import Console

from ordbm.runtime.bars import bar, clock
from ordbm.runtime.compiling import COMPILING
from ordbm.runtime.progress import Progress
from ordbm.training.loop import EpochRecord

BEFORE_EPOCHS = {
    "compiling": COMPILING,
    "structure": "finding a structure",
    "links": "finding links",
    "presence": "learning which items get rated",
}


class LearningBar:
    """A callback for `fit` that shows links, presence, epochs and the time left."""

    def __init__(self, shown: progress.Progress, task: progress.TaskID) -> None:
        self._bar, self._task = shown, task
        self._left = ""
        self._loss = ""

    def __call__(self, record: EpochRecord) -> None:
        loss = record.validation.get("log_loss")
        self._loss = f", validation log-loss {loss:.4f}" if loss is not None else ""
        self._left = f"{clock(record.seconds_left)} left" if record.seconds_left else ""
        self._show(record.epoch, record.epochs, record.epoch)

    def on_progress(self, done: Progress) -> None:
        if done.phase == "learning":
            self._show(done.epoch, done.epochs, done.epoch - 1 + done.share)
        else:
            state = BEFORE_EPOCHS[done.phase]
            self._bar.update(self._task, completed=done.share, total=1, state=state)

    def expect(self, cost: object) -> None:
        """Show what the work will cost until more is known."""
        self._left = str(cost)
        self._bar.update(self._task, left=self._left)

    def _show(self, epoch: int, epochs: int, completed: float) -> None:
        state = f"epoch {epoch} of {epochs}{self._loss}"
        self._bar.update(
            self._task, completed=completed, total=epochs, state=state, left=self._left
        )


@contextmanager
def learning_bar(
    console: Console | None = None, *, what: str = "learning", quiet: bool = False
) -> Iterator[LearningBar]:
    """A callback for `fit` that shows epochs and the time left, on stderr unless told."""
    with bar(
        console or Console(stderr=True),
        progress.TextColumn("{task.fields[state]}"),
        progress.TextColumn("{task.fields[left]}", style="cyan"),
        quiet=quiet,
    ) as shown:
        yield LearningBar(shown, shown.add_task(what, total=None, state="preparing", left=""))
