"""The one training loop: epochs, validation, early stop, a record for every epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from ordbm.errors import DivergedError
from ordbm.learning.trainer import Trainer
from ordbm.machine import Array, Machine


@dataclass(frozen=True)
class EpochRecord:
    """What a callback is told after an epoch. `objective` is per rating; larger is better."""

    epoch: int  # from 1
    epochs: int  # planned
    objective: float
    seconds: float  # learning only
    validation: dict[str, float] = field(default_factory=dict)  # log_loss, rmse, mae


Callback = Callable[[EpochRecord], object]
Validate = Callable[[Machine], dict[str, float]]


def train(
    trainer: Trainer,
    epochs: int,
    *,
    validate: Validate | None = None,
    patience: int | None = None,
    callbacks: Iterable[Callback] = (),
) -> list[EpochRecord]:
    """Run up to `epochs` epochs; with `validate`, keep the best parameters by log-loss.

    Stops when `patience` epochs in a row brought no better log-loss. A callback that returns True
    stops the training too. Parameters that are no longer numbers end it with the best epoch, or, if
    there is none, with a `DivergedError`.
    """
    records: list[EpochRecord] = []
    best = np.inf
    best_epoch = 0
    kept: list[Array] = []
    for epoch in range(epochs):
        started = time.perf_counter()
        objective = trainer.epoch(epoch)
        seconds = time.perf_counter() - started
        found = validate(trainer.machine) if validate and np.isfinite(objective) else {}
        if not np.isfinite([objective, *found.values()]).all():
            if kept:
                break  # the best epoch is still at hand
            raise DivergedError(
                f"the parameters diverged in epoch {epoch + 1}: lower the learner's rate, or give "
                "it larger precisions"
            )
        record = EpochRecord(epoch + 1, epochs, objective, seconds, found)
        records.append(record)
        if found and found["log_loss"] < best:
            best, best_epoch = found["log_loss"], epoch
            kept = [array.copy() for array in trainer.arrays()]
        stop = [callback(record) is True for callback in callbacks]
        if any(stop) or (found and patience is not None and epoch - best_epoch >= patience):
            break
    for array, saved in zip(trainer.arrays(), kept, strict=False):
        array[:] = saved
    return records
