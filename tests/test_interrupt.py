"""Ctrl-C and kill -9: a usable model after the one, the same bits after the other."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from cli_runs import HANGS
from ordbm import OrdinalBM, PseudoLikelihood, Ratings, hold_out
from ordbm.errors import InterruptedWarning, NotFittedError

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

TINY = {"hidden": 3, "members": 2, "item_links": 4, "epochs": 5}
WARNING = r"^stopped by Ctrl-C after epoch 2 of 5; the model is usable$"


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    users, items = rng.integers(40, size=600), rng.integers(30, size=600)
    liking = rng.normal(size=40)[users] + rng.normal(size=30)[items]
    return Ratings(users, items, np.clip(np.round(3 + liking), 1, 5))


@pytest.fixture(autouse=True)
def handler_is_put_back():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def bits(model):
    return [
        array.tobytes()
        for machine in model.machines
        for array in (
            machine.level_bias,
            *(array for side in machine.sides if side is not None for array in side.parameters),
        )
    ]


def times_heard():
    """How often Ctrl-C has come to the notice of the work under way."""
    return signal.getsignal(signal.SIGINT).__self__.heard


class CtrlC:
    """Presses Ctrl-C so many times: when an epoch has ended, or (`within`) is half done."""

    def __init__(self, epoch, times=1, *, within=False):
        self.epoch, self.times, self.within = epoch, times, within

    def __call__(self, record):
        if record.epoch == self.epoch and not self.within:
            self.press()

    def on_progress(self, progress):
        if (progress.epoch, progress.share) == (self.epoch, 0.5) and self.within:
            self.press()

    def press(self):
        for number in range(self.times):
            while times_heard() < number:  # two at once are heard as one by a thread that waits
                time.sleep(0.001)
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("within", [False, True])
def test_ctrl_c_leaves_the_model_of_the_last_epoch(ratings, within):
    model = OrdinalBM(**TINY)
    assert not model.interrupted
    with pytest.warns(InterruptedWarning, match=WARNING):
        assert model.fit(ratings, callbacks=CtrlC(2, within=within)) is model
    assert model.interrupted
    shorter = OrdinalBM(**{**TINY, "epochs": 2}).fit(ratings)
    assert bits(model) == bits(shorter)
    assert [(record.epoch, record.epochs) for record in model.history] == [(1, 5), (2, 5)]
    model.fit(ratings)
    assert not model.interrupted
    assert len(model.history) == 5


def test_the_best_epoch_is_kept(ratings):
    told = {"hidden": 20, "members": 2, "item_links": 0, "epochs": 30, "patience": 0}
    told["learner"] = PseudoLikelihood(coupling_precision=0.1)
    with pytest.warns(InterruptedWarning, match="after epoch 20 of 30"):
        model = OrdinalBM(**told).fit(*hold_out(ratings, 0.2), callbacks=CtrlC(20))
    best = 1 + int(np.argmin([record.validation["log_loss"] for record in model.history]))
    assert best < 20
    told["epochs"] = best
    assert bits(model) == bits(OrdinalBM(**told).fit(*hold_out(ratings, 0.2)))


def test_before_an_epoch_has_ended(ratings):
    model = OrdinalBM(**TINY)
    with pytest.raises(KeyboardInterrupt):
        model.fit(ratings, callbacks=CtrlC(1, within=True))
    assert not model.interrupted
    with pytest.raises(NotFittedError):
        model.predict(0, 0)


def test_it_is_heard_while_several_machines_learn(ratings):
    """Not only when all of them have learnt for an epoch, which may be long."""
    seen = []

    class PressAtOnce:
        def __call__(self, record):
            raise AssertionError(f"epoch {record.epoch} ended")

        def on_progress(self, progress):
            if progress.phase == "learning":
                seen.append(progress)
                if len(seen) == 1:
                    signal.raise_signal(signal.SIGINT)
                    while not times_heard():
                        time.sleep(0.001)
                    time.sleep(0.5)  # for the other thread to go on if it were not stopped

    running = threading.enumerate()
    model = OrdinalBM(**TINY | {"members": 8, "threads": 2})
    with pytest.raises(KeyboardInterrupt):
        model.fit(ratings, callbacks=PressAtOnce())
    assert len(seen) < 8  # of 16; the other thread may have had some to tell
    assert threading.enumerate() == running  # none is left behind


def test_pressed_twice(ratings):
    model = OrdinalBM(**TINY).fit(ratings)
    before = bits(model), model.history
    with pytest.raises(KeyboardInterrupt):
        model.fit(ratings, callbacks=CtrlC(2, 2, within=True))
    assert (bits(model), model.history) == before  # what it had learnt earlier
    assert not model.interrupted


def test_in_the_last_epoch_it_is_not_lost(ratings):
    with pytest.warns(InterruptedWarning, match="after epoch 5 of 5"):
        model = OrdinalBM(**TINY).fit(ratings, callbacks=CtrlC(5))
    assert model.interrupted


def test_the_training_can_go_on(ratings, tmp_path):
    with pytest.warns(InterruptedWarning):
        OrdinalBM(**TINY).fit(ratings, callbacks=CtrlC(2), checkpoint=tmp_path)
    model = OrdinalBM(**TINY).fit(ratings, checkpoint=tmp_path, resume=True)
    assert not model.interrupted
    assert bits(model) == bits(OrdinalBM(**TINY).fit(ratings))


def test_an_error_in_a_callback_leaves_the_model_as_it_was(ratings):
    def broken(record):
        if record.epoch == 2:
            raise OSError("disk full")

    for model, state in ((OrdinalBM(**TINY), "not fitted"), (OrdinalBM(**TINY).fit(ratings), ";")):
        history = list(model.history)
        with pytest.raises(OSError, match="disk full"):
            model.fit(ratings, callbacks=broken)
        assert state in repr(model)
        assert model.history == history


def test_a_handler_of_somebody_else_is_left_alone(ratings):
    pressed = []
    signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        model = OrdinalBM(**TINY).fit(
            ratings,
            callbacks=lambda record: record.epoch == 2 and signal.raise_signal(signal.SIGINT),
        )
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert pressed == [True]
    assert len(model.history) == 5


def test_fitting_in_another_thread(ratings):
    model = OrdinalBM(**TINY)
    thread = threading.Thread(target=model.fit, args=(ratings,))
    thread.start()
    thread.join()
    assert len(model.history) == 5


# With processes of their own

HEAD = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests
import numpy as np
from ordbm import OrdinalBM, Ratings
from ordbm.persistence import checkpoint

rng = np.random.default_rng(0)
users, items = rng.integers(200, size=4000), rng.integers(100, size=4000)
liking = rng.normal(size=200)[users] + rng.normal(size=100)[items]
ratings = Ratings(users, items, np.clip(np.round(3 + liking), 1, 5))
told = {"hidden": 4, "item_links": 5, "members": 3, "threads": 2}

def bits(model):
    parts = [
        part
        for machine in model.machines
        for part in (
            machine.level_bias, *machine.user_side.parameters, *machine.item_side.parameters
        )
    ]
    return b"".join(part.tobytes() for part in parts)
"""

CTRL_C = """
def tell(record):
    print("epoch", record.epoch, flush=True)
    if sys.argv[1] == "stay":
        while not signal.getsignal(signal.SIGINT).__self__.heard:
            time.sleep(0.001)
        print("noted", flush=True)
        while True:
            time.sleep(0.001)

model = OrdinalBM(**told, epochs=10**6).fit(ratings, callbacks=tell)
print("usable", np.isfinite(model.predict(0, range(9))).all(), len(model.history), flush=True)
"""

KILLS = """
ROUNDS, MOST = 24, 5  # children, and the epochs that each may learn
EPOCHS = ROUNDS * MOST + 1
rng = np.random.default_rng(7)
folder = sys.argv[1]
told = {**told, "epochs": EPOCHS, "patience": 0}
whole = OrdinalBM(**told).fit(ratings, ratings)
checkpoint.PAUSE = 0
fsync = os.fsync

def slow_fsync(handle):
    time.sleep(0.02)
    fsync(handle)

def train(callback):
    model = OrdinalBM(**told).fit(ratings, ratings, callback, checkpoint=folder, resume=True)
    assert bits(model) == bits(whole)
    assert model.history == whole.history

def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def live_until_killed(number, told):
    seen = []
    def tell(record):
        seen.append(record)
        os.write(told, b".")
        time.sleep(0.01 if len(seen) < MOST else 1e6)
    os.fsync = slow_fsync if number % 2 else fsync
    train(tell)

for number in range(ROUNDS):
    ear, mouth = os.pipe()
    child = os.fork()
    if not child:
        live_until_killed(number, mouth)
        os._exit(0)
    os.close(mouth)
    if number % 4:
        assert os.read(ear, 1), "the child died of itself"  # an epoch has ended
    time.sleep(rng.uniform(0.0, 0.15))
    os.kill(child, signal.SIGKILL)
    assert ended(child) == -signal.SIGKILL
    os.close(ear)
train(())
print("all", "killed")
"""

MOMENTS = """
folder = sys.argv[1]
told = {**told, "epochs": 3}
whole = OrdinalBM(**told).fit(ratings)
checkpoint.PAUSE = 0
left = 0

def dying(function, after):
    def work(*arguments):
        global left
        left -= 1
        if left < 0 and after:
            function(*arguments)
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return work

for name in ("fsync", "replace"):
    for after in (False, True):
        for left in range(3):
            child = os.fork()
            if not child:
                setattr(os, name, dying(getattr(os, name), after))
                OrdinalBM(**told).fit(ratings, checkpoint=folder, resume=True)
                os._exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), end=" ")
            model = OrdinalBM(**told).fit(ratings, checkpoint=folder, resume=True)
            assert bits(model) == bits(whole)
            assert model.history == whole.history
            os.unlink(os.path.join(folder, checkpoint.FILE))
            assert not os.listdir(folder)
"""


def started(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(script, *arguments):
    """What a script prints; it must end well."""
    process = started(script, *arguments)
    out, error = process.communicate(timeout=HANGS)
    assert process.returncode == 0, error
    return out.split()


def test_ctrl_c_in_a_process():
    process = started(CTRL_C, "go on")
    while process.stdout.readline() != "epoch 3\n":
        assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=HANGS)
    assert process.returncode == 0, error
    *_, usable, n = out.split()
    assert usable == "True"
    assert 3 <= int(n) < 10**6
    assert (
        f"InterruptedWarning: stopped by Ctrl-C after epoch {n} of 1000000; the model is" in error
    )


def test_ctrl_c_twice_in_a_process():
    process = started(CTRL_C, "stay")
    assert process.stdout.readline() == "epoch 1\n", process.stderr.read()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "noted\n", process.stderr.read()
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=HANGS)
    assert process.returncode != 0
    assert out == ""
    assert error.rstrip().endswith("KeyboardInterrupt")


@needs_fork
def test_kill_at_any_moment(tmp_path):
    assert printed(KILLS, tmp_path) == ["all", "killed"]


@needs_fork
def test_kill_while_a_checkpoint_is_written(tmp_path):
    assert printed(MOMENTS, tmp_path) == [str(-signal.SIGKILL)] * 12
