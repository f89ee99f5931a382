"""The training loop: records, the best epoch kept, early stop, callbacks, going on."""

import signal
import tempfile
from contextlib import suppress
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordbm.data.ratings import Ratings
from ordbm.errors import DivergedError
from ordbm.model.learners import PseudoLikelihood
from ordbm.model.settings import Settings
from ordbm.persistence import checkpoint
from ordbm.runtime.progress import Progress
from ordbm.training import loop
from ordbm.training.loop import EpochRecord, train
from ordbm.training.state import copy_arrays

RATINGS = Ratings([1, 1, 2], [1, 2, 1], [3, 4, 5])


class CountingTrainer:
    """A trainer whose only parameter is the number of epochs it has learnt."""

    def __init__(self):
        self.parameter = np.zeros(1)

    def epoch(self, number, tell=None):
        assert number == self.parameter[0]
        self.parameter += 1
        if tell:
            tell(1.0)
        return -1.0 / self.parameter[0]

    def collect(self):
        pass

    def arrays(self):
        return [self.parameter]

    @property
    def has_diverged(self):
        return not np.isfinite(self.parameter).all()

    def state(self):
        return {"parameter": self.parameter}

    def restore(self, arrays, epochs):
        copy_arrays(arrays, self.state())
        assert self.parameter[0] == epochs


def told(trainer, losses):
    """A validation that reads log-losses off a list, by the epochs learnt."""
    return lambda: {"log_loss": losses[int(trainer.parameter[0]) - 1], "rmse": 0.0, "mae": 0.0}


def test_without_validation_the_last_epoch_stays():
    trainer = CountingTrainer()
    records, interrupted = train(trainer, 4, patience=1)
    assert not interrupted
    assert trainer.parameter[0] == 4
    assert [(r.epoch, r.epochs, r.objective) for r in records] == [
        (1, 4, -1.0),
        (2, 4, -1 / 2),
        (3, 4, -1 / 3),
        (4, 4, -1 / 4),
    ]
    assert all(record.validation == {} and record.seconds >= 0 for record in records)


def test_the_time_left_is_by_the_median_of_epochs_but_the_first(monkeypatch):
    """The first may compile. Validation counts, and `seconds` are those of learning alone."""
    now = [0.0]
    trainer = CountingTrainer()
    learn = trainer.epoch
    lasting = [100.0, 2.0, 4.0, 9.0]
    monkeypatch.setattr(loop.time, "perf_counter", lambda: now[0])

    def epoch(number, tell=None):
        now[0] += lasting[number]
        return learn(number, tell)

    def validate():
        now[0] += 1.0
        return {"log_loss": 1.0}

    trainer.epoch = epoch
    records = train(trainer, 4, validate=validate).history
    assert [record.seconds for record in records] == lasting
    assert [record.seconds_left for record in records] == [3 * 101.0, 2 * 3.0, 1 * 4.0, 0.0]


def test_ctrl_c_is_python_s_own_again_after_training():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        train(CountingTrainer(), 2)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_s_handler_of_ctrl_c_is_left_alone():
    handlers = []

    class Looking(CountingTrainer):
        def epoch(self, number, tell=None):
            handlers.append(signal.getsignal(signal.SIGINT))
            return super().epoch(number, tell)

    def mine(*_):
        pass

    before = signal.signal(signal.SIGINT, mine)
    try:
        train(Looking(), 2)
        assert [*handlers, signal.getsignal(signal.SIGINT)] == [mine] * 3
    finally:
        signal.signal(signal.SIGINT, before)


def test_no_epochs():
    trainer = CountingTrainer()
    assert train(trainer, 0, validate=told(trainer, [])) == ([], False)
    assert trainer.parameter[0] == 0


@given(
    losses=st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, np.nan]), min_size=1, max_size=12),
    patience=st.integers(0, 5),
)
def test_the_best_epoch_is_kept_and_patience_is_heeded(losses, patience):
    trainer = CountingTrainer()
    if np.isnan(losses[0]):  # diverged with nothing to go back to
        with pytest.raises(DivergedError, match="epoch 1: lower the learner's rate"):
            train(trainer, len(losses), validate=told(trainer, losses), patience=patience)
        return
    records = train(trainer, len(losses), validate=told(trainer, losses), patience=patience).history
    best, stop = 0, len(losses)  # 0-based best epoch; how many epochs were recorded
    for epoch, loss in enumerate(losses):
        if np.isnan(loss):
            stop = epoch
            break
        if loss < losses[best]:
            best = epoch
        if patience and epoch - best >= patience:
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
    records = train(trainer, 9, callbacks=[stop_at_two, others.append]).history
    assert seen == records == others
    assert len(records) == 2
    assert trainer.parameter[0] == 2


def test_a_callback_that_returns_anything_else_does_not():
    records = train(CountingTrainer(), 3, callbacks=[lambda _: "yes", lambda _: 1]).history
    assert len(records) == 3


def test_stopped_by_a_callback_the_best_epoch_is_kept():
    trainer = CountingTrainer()
    losses = [3.0, 1.0, 2.0, 2.5, 0.1]
    train(trainer, 5, validate=told(trainer, losses), callbacks=[lambda r: r.epoch == 4])
    assert trainer.parameter[0] == 2


def test_an_error_in_a_callback_is_raised():
    def broken(_):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        train(CountingTrainer(), 2, callbacks=[broken])


class KilledError(Exception):
    """Stands for the end of the process."""


def outcome(folder, losses, patience, *, stop_at=None, killed_at=None):
    """The records and the parameter that a training in `folder` ends with, or None if it fails."""

    def callback(record):
        if record.epoch == killed_at:
            raise KilledError
        return record.epoch == stop_at

    kept = checkpoint.Checkpoint(folder, Settings(), PseudoLikelihood(), RATINGS)
    trainer = CountingTrainer()
    try:
        records, _ = train(
            trainer,
            len(losses),
            validate=told(trainer, losses),
            patience=patience,
            callbacks=[callback],
            checkpoint=kept,
            saved=kept.read(),
        )
    except DivergedError:
        return None
    return records, trainer.parameter[0]


@given(
    losses=st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, np.nan]), min_size=1, max_size=9),
    patience=st.integers(0, 3),
    stop_at=st.none() | st.integers(1, 9),
    kills=st.lists(st.integers(1, 9), max_size=3),
    pause=st.sampled_from([0, 20]),
)
def test_a_training_that_is_killed_and_goes_on_ends_as_one_that_is_not(
    losses, patience, stop_at, kills, pause
):
    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as broken:
        for killed_at in kills:
            with suppress(KilledError), patch.object(checkpoint, "PAUSE", pause):
                outcome(broken, losses, patience, stop_at=stop_at, killed_at=killed_at)
        expected = outcome(whole, losses, patience, stop_at=stop_at)
        assert outcome(broken, losses, patience, stop_at=stop_at) == expected
        assert outcome(whole, losses, patience, stop_at=stop_at) == expected  # already over


def test_time_left_is_for_whole_epochs_and_not_for_the_compiler(monkeypatch):
    # Of each epoch: its start, its end, and the end of what comes with it.
    times = [0, 0, 8, 10, 11, 12, 14, 14, 15, 17, 17, 18, 24]
    clock = iter(times)
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    records = train(CountingTrainer(), 4).history
    assert [record.seconds for record in records] == [8, 1, 1, 1]
    # Epochs of 10, 4, 3 and 7 seconds: 3 · 10, 2 · 4, 1 · (4 + 3) / 2, none.
    assert [record.seconds_left for record in records] == [30, 8, 3.5, 0]


def test_records_are_equal_if_the_same_was_learnt():
    assert EpochRecord(1, 2, -1.0, 0.5, {}, 3.0) == EpochRecord(1, 2, -1.0, 0.7, {}, 4.0)
    assert EpochRecord(1, 2, -1.0, 0.5) != EpochRecord(1, 2, -1.1, 0.5)


def test_progress_is_told():
    seen = []
    train(CountingTrainer(), 2, tell=seen.append)
    assert seen == [Progress("learning", 1.0, 1, 2), Progress("learning", 1.0, 2, 2)]
