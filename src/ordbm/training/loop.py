"""The one training loop: epochs, validation, early stop, a record for every epoch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import NamedTuple, Protocol

import numpy as np

from ordbm.errors import CheckpointError, DivergedError
from ordbm.runtime.arrays import Array
from ordbm.runtime.compiling import compilation_shown
from ordbm.runtime.interruption import first_ctrl_c_noted
from ordbm.runtime.progress import Progress, Tell
from ordbm.training.state import Saved, copy_arrays

LOG = logging.getLogger("ordbm")


@dataclass(frozen=True)
class EpochRecord:
    """What a callback is told after an epoch. `objective` is per rating; larger is better.

    Records are equal if the same was learnt, however long it took.
    """

    epoch: int  # from 1
    epochs: int  # planned
    objective: float
    seconds: float = field(compare=False)  # learning only
    validation: dict[str, float] = field(default_factory=dict)  # log_loss, rmse, mae
    seconds_left: float = field(default=0.0, compare=False)  # to the planned end, all included

    def __str__(self) -> str:
        loss = self.validation.get("log_loss")
        validation = f", validation log-loss {loss:.4f}" if loss is not None else ""
        return (
            f"epoch {self.epoch} of {self.epochs}: objective {self.objective:.4f}{validation}; "
            f"{self.seconds:.1f} s, {self.seconds_left:.0f} s left"
        )


Callback = Callable[[EpochRecord], object]
Validate = Callable[[], dict[str, float]]


class Learning(Protocol):
    """What the loop asks of what it trains."""

    def epoch(self, number: int, tell: Callable[[float], object] | None = None) -> float:
        """Learn for one epoch; the objective."""

    def collect(self) -> None:
        """Have all parameters here, if they are elsewhere."""

    def arrays(self) -> list[Array]:
        """All parameters being learnt, as they were collected."""

    @property
    def has_diverged(self) -> bool:
        """Whether they are no longer numbers that can be reckoned with."""

    def state(self) -> dict[str, Array]:
        """All that one epoch hands to the next, by name."""

    def restore(self, arrays: Mapping[str, Array], epochs: int) -> None:
        """Go on from what `state` gave after so many epochs."""


class Keeper(Protocol):
    """What keeps a training in a file."""

    epoch: int  # of what it has

    @property
    def is_due(self) -> bool:
        """Whether enough time has passed since the last writing."""

    def write(self, saved: Saved) -> None:
        """Replace what it has."""


class Training(NamedTuple):
    """A training that has ended: a record for every epoch, and whether Ctrl-C came."""

    history: list[EpochRecord]
    interrupted: bool


def train(
    trainer: Learning,
    epochs: int,
    *,
    validate: Validate | None = None,
    patience: int = 0,
    callbacks: Iterable[Callback] = (),
    tell: Tell | None = None,
    checkpoint: Keeper | None = None,
    saved: Saved | None = None,
) -> Training:
    """Run up to `epochs` epochs; with `validate`, keep the best parameters by log-loss.

    Stops when `patience` epochs in a row brought no better log-loss (0: never). A callback that
    returns True stops the training too. Parameters that are no longer numbers end it with the best
    epoch, or, if there is none, with a `DivergedError`. Ctrl-C ends it after the epoch under way,
    if one has ended before; otherwise, and pressed again, it is a `KeyboardInterrupt`.

    `checkpoint` is kept up to date; `saved` is what it had, to go on from.
    """
    run = _Run(trainer, epochs, patience, checkpoint)
    if saved is not None:
        run.restore(saved)
    whole: list[float] = []  # seconds of each epoch, validation and all
    last = time.perf_counter()
    with (
        compilation_shown(tell),
        first_ctrl_c_noted(lambda: len(run.records) > 0) as interrupted,
    ):
        while not (run.is_over or interrupted()):
            epoch = len(run.records)
            started = time.perf_counter()
            objective = trainer.epoch(epoch, _share_teller(tell, epoch, epochs))
            seconds = time.perf_counter() - started
            diverged = not np.isfinite(objective) or trainer.has_diverged
            found = {}
            if validate and not diverged:
                trainer.collect()
                found = validate()
            if diverged or not np.isfinite(list(found.values())).all():
                if run.best:
                    break  # the best epoch is still at hand
                raise DivergedError(
                    f"the parameters diverged in epoch {epoch + 1}: lower the learner's rate, or "
                    "give it larger precisions"
                )
            whole.append(time.perf_counter() - last)
            last += whole[-1]
            left = (epochs - epoch - 1) * median(whole[1:] or whole)  # the first may compile
            run.add(EpochRecord(epoch + 1, epochs, objective, seconds, found, left))
            LOG.info("%s", run.records[-1])
            stop = [callback(run.records[-1]) is True for callback in callbacks]
            run.stopped = any(stop)
            run.save()
        else:  # a divergence is nothing to go on from
            run.save(at_once=True)
    if not run.best:
        trainer.collect()
    for array, best in zip(trainer.arrays(), run.best, strict=False):
        array[:] = best
    return Training(run.records, interrupted())


class _Run:
    """A training under way: its records, its best parameters, and its checkpoint."""

    def __init__(
        self, trainer: Learning, epochs: int, patience: int, checkpoint: Keeper | None
    ) -> None:
        self.trainer, self.epochs, self.patience = trainer, epochs, patience
        self.checkpoint = checkpoint
        self.records: list[EpochRecord] = []
        self.best: list[Array] = []  # parameters by log-loss; none without validation
        self.stopped = False  # by a callback

    @property
    def is_over(self) -> bool:
        return self.stopped or _is_over(self.records, self.epochs, self.patience)

    def add(self, record: EpochRecord) -> None:
        self.records.append(record)
        if record.validation and _best_epoch(self.records) == len(self.records):
            self.best = [array.copy() for array in self.trainer.arrays()]

    def save(self, *, at_once: bool = False) -> None:
        """Write the checkpoint, if there is one, when it is due or `at_once`; never twice."""
        kept = self.checkpoint
        if kept is None or kept.epoch == len(self.records) or not (at_once or kept.is_due):
            return
        history = [asdict(record) for record in self.records]
        kept.write(Saved(history, self.stopped, self._arrays()))

    def restore(self, saved: Saved) -> None:
        """Go on from a checkpoint, if this training comes as far as it."""
        records = [EpochRecord(**{**record, "epochs": self.epochs}) for record in saved.history]
        for n in range(len(records)):
            if _is_over(records[:n], self.epochs, self.patience):
                raise CheckpointError(
                    f"with epochs={self.epochs} and patience={self.patience} the training ends "
                    f"after epoch {n}, and the checkpoint is of epoch {len(records)}: ask for "
                    "more, or leave resume out to start anew"
                )
        self.records, self.stopped = records, saved.stopped
        if records[-1].validation:
            self.best = [np.empty_like(array) for array in self.trainer.arrays()]
            copy_arrays(saved.arrays, self._best())
        self.trainer.restore(saved.arrays, len(records))

    def _arrays(self) -> dict[str, Array]:
        return self.trainer.state() | self._best()

    def _best(self) -> dict[str, Array]:
        return {f"best.{number}": array for number, array in enumerate(self.best)}


def _is_over(records: Sequence[EpochRecord], epochs: int, patience: int) -> bool:
    """Whether all planned epochs are done, or patience has run out."""
    if len(records) >= epochs:
        return True
    if not records or not records[-1].validation or not patience:
        return False
    return len(records) - _best_epoch(records) >= patience


def _best_epoch(records: Sequence[EpochRecord]) -> int:
    """The first epoch, from 1, with the lowest log-loss."""
    return 1 + int(np.argmin([record.validation["log_loss"] for record in records]))


def _share_teller(tell: Tell | None, epoch: int, epochs: int) -> Callable[[float], object] | None:
    """A function that turns a share of this epoch (from 0) into a `Progress`, and tells it."""
    if tell is None:
        return None
    return lambda share: tell(Progress("learning", share, epoch + 1, epochs))
