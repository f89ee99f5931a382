"""The training loop: records, the best epoch kept, early stop, callbacks."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordbm.errors import DivergedError
from ordbm.learning.loop import train


class CountingTrainer:
    """A trainer whose only parameter is the number of epochs it has learnt."""

    def __init__(self):
        self.parameter = np.zeros(1)
        self.machine = SimpleNamespace(epochs=self.parameter)

    def epoch(self, number):
        assert number == self.parameter[0]
        self.parameter += 1
        return -1.0 / self.parameter[0]

    def arrays(self):
        return [self.parameter]


def told(losses):
    """A validation that reads a machine's log-loss off a list, by its epochs."""
    return lambda machine: {"log_loss": losses[int(machine.epochs[0]) - 1], "rmse": 0.0, "mae": 0.0}


def test_without_validation_the_last_epoch_stays():
    trainer = CountingTrainer()
    records = train(trainer, 4, patience=1)
    assert trainer.parameter[0] == 4
    assert [(r.epoch, r.epochs, r.objective) for r in records] == [
        (1, 4, -1.0),
        (2, 4, -1 / 2),
        (3, 4, -1 / 3),
        (4, 4, -1 / 4),
    ]
    assert all(record.validation == {} and record.seconds >= 0 for record in records)


def test_no_epochs():
    trainer = CountingTrainer()
    assert train(trainer, 0, validate=told([])) == []
    assert trainer.parameter[0] == 0


@given(
    losses=st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, np.nan]), min_size=1, max_size=12),
    patience=st.none() | st.integers(1, 5),
)
def test_the_best_epoch_is_kept_and_patience_is_heeded(losses, patience):
    trainer = CountingTrainer()
    if np.isnan(losses[0]):  # diverged with nothing to go back to
        with pytest.raises(DivergedError, match="epoch 1: lower the learner's rate"):
            train(trainer, len(losses), validate=told(losses), patience=patience)
        return
    records = train(trainer, len(losses), validate=told(losses), patience=patience)
    best, stop = 0, len(losses)  # 0-based best epoch; how many epochs were recorded
    for epoch, loss in enumerate(losses):
        if np.isnan(loss):
            stop = epoch
            break
        if loss < losses[best]:
            best = epoch
        if patience is not None and epoch - best >= patience:
            stop = epoch + 1
            break
    assert len(records) == stop
    assert trainer.parameter[0] == best + 1


def test_a_callback_that_returns_true_stops():
    seen = []

    def stop_at_two(record):
        seen.append(record)
        return record.epoch == 2

    trainer = CountingTrainer()
    others = []
    records = train(trainer, 9, callbacks=[stop_at_two, others.append])
    assert seen == records == others
    assert len(records) == 2
    assert trainer.parameter[0] == 2


def test_a_callback_that_returns_anything_else_does_not():
    assert len(train(CountingTrainer(), 3, callbacks=[lambda _: "yes", lambda _: 1])) == 3


def test_stopped_by_a_callback_the_best_epoch_is_kept():
    trainer = CountingTrainer()
    losses = [3.0, 1.0, 2.0, 2.5, 0.1]
    train(trainer, 5, validate=told(losses), callbacks=[lambda r: r.epoch == 4])
    assert trainer.parameter[0] == 2


def test_an_error_in_a_callback_is_raised():
    def broken(_):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        train(CountingTrainer(), 2, callbacks=[broken])
