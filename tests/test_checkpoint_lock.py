"""One training in a checkpoint folder at a time; the lock ends with its process."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from ordbm import OrdinalBM, Ratings
from ordbm.errors import CheckpointError, SettingsError
from ordbm.persistence import checkpoint as checkpoints
from ordbm.runtime import file_locks
from ordbm.runtime.file_locks import locked_file
from test_atomic_files import HANGS, started_writer

TOLD = {"hidden": 2, "members": 1, "item_links": 0, "epochs": 3, "threads": 1, "presence": False}
FILE, LOCK = checkpoints.FILE, f".{checkpoints.FILE}.lock"


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    return Ratings(rng.integers(9, size=80), rng.integers(7, size=80), rng.integers(1, 6, size=80))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_second_training_in_the_folder_is_refused_and_the_first_goes_on(tmp_path, ratings):
    faults = []

    def another(_):
        with pytest.raises(
            CheckpointError, match=r"in use by another training \(process \d+\)"
        ) as e:
            OrdinalBM(**TOLD, seed=1).fit(ratings, checkpoint=tmp_path)
        faults.append(str(e.value))

    model = OrdinalBM(**TOLD).fit(ratings, callbacks=another, checkpoint=tmp_path)
    assert len(faults) == 3
    assert repr(str(tmp_path)) in faults[0]
    assert names(tmp_path) == [FILE]
    again = OrdinalBM(**TOLD).fit(ratings, checkpoint=tmp_path, resume=True)
    assert again.history == model.history


def test_another_writers_temporary_file_outlives_the_opening_of_the_folder(tmp_path, ratings):
    slow = started_writer(tmp_path / FILE)
    OrdinalBM(**TOLD).fit(ratings, checkpoint=tmp_path)
    slow.communicate("go on\n", timeout=HANGS)
    assert slow.returncode == 0
    assert names(tmp_path) == [FILE]


HOLDER = """
import os, signal, sys
from ordbm.runtime.file_locks import locked_file
with locked_file(sys.argv[1]):
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_lock_ends_with_its_process(tmp_path, ratings):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / LOCK)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    number = process.stdout.readline().strip()
    with pytest.raises(CheckpointError, match=rf"\(process {number}\): wait for its end"):
        OrdinalBM(**TOLD).fit(ratings, checkpoint=tmp_path)
    process.communicate("die\n", timeout=HANGS)
    assert process.returncode == -signal.SIGKILL
    assert names(tmp_path) == [LOCK]
    OrdinalBM(**TOLD).fit(ratings, checkpoint=tmp_path)
    assert names(tmp_path) == [FILE]


@pytest.mark.parametrize("fault", [RuntimeError, KeyboardInterrupt])
def test_a_training_that_fails_leaves_the_folder_free(tmp_path, ratings, fault):
    def fail(_):
        raise fault

    with pytest.raises(fault) as kept:  # and with it the frames of the training
        OrdinalBM(**TOLD).fit(ratings, callbacks=fail, checkpoint=tmp_path)
    assert names(tmp_path) == []
    OrdinalBM(**TOLD).fit(ratings, checkpoint=tmp_path)
    assert kept.value is not None


def test_a_lock_that_is_removed_before_it_is_had_is_made_again(tmp_path, monkeypatch):
    """The last holder removes the file: a lock on that one would keep nobody out."""
    path = tmp_path / LOCK
    removed = []

    def late(handle, real=file_locks.lock, **how):
        if not removed:
            removed.append(path)
            path.unlink()
        return real(handle, **how)

    monkeypatch.setattr(file_locks, "lock", late)
    with locked_file(path):
        with pytest.raises(BlockingIOError), locked_file(path):
            pass
        assert path.exists()
    assert not path.exists()


def test_without_locks_it_goes_on_as_before(tmp_path, ratings, monkeypatch):
    monkeypatch.setattr(file_locks, "lock", lambda _, wait: wait)
    OrdinalBM(**TOLD).fit(ratings, checkpoint=tmp_path)
    assert names(tmp_path) == [FILE]


def test_a_folder_that_cannot_be_written_to_is_refused_at_once(tmp_path, ratings, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(file_locks.os, "open", refuse)
    with pytest.raises(SettingsError, match="Permission denied; give a folder that can be written"):
        OrdinalBM(**TOLD).fit(ratings, checkpoint=tmp_path)


def test_of_a_locked_file_no_more_is_told_than_a_process_has_as_a_number(tmp_path):
    path = tmp_path / "lock"
    path.write_text("12345678901234567890 and more")
    with path.open("r+") as held:
        file_locks.lock(held.fileno(), wait=False)
        with pytest.raises(BlockingIOError) as error, locked_file(path):
            pass
    assert error.value.args[2] == "12345678901234567890"
