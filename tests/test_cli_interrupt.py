"""Long work on the command line: progress on a terminal, Ctrl-C, kill and resume."""

import os
import pty
import re
import signal
import time
from contextlib import suppress

import numpy as np
import pytest

import ordbm
from cli_runs import HANGS, SMALL, answer, write_ratings_file
from cli_runs import started as process_of

LONG = [*SMALL[:-1], "1000000", "--patience", "0"]


@pytest.fixture(autouse=True)
def ratings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_ratings_file(tmp_path / "ratings.csv")
    answer("fit", "ratings.csv", "-o", "compiled.ordbm", *SMALL)
    return ordbm.read_ratings("ratings.csv")


@pytest.fixture
def started():
    """Commands in processes of their own, which do not outlive the test."""
    processes = []

    def start(*arguments, **options):
        processes.append(process_of(*arguments, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def waited_for(path):
    """`path`, once it is there."""
    deadline = time.monotonic() + HANGS
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.01)
    return path


def test_ctrl_c_saves_the_model_so_far(started, tmp_path):
    process = started("fit", "ratings.csv", "-o", "m.ordbm", *LONG, "--checkpoint", "run")
    waited_for(tmp_path / "run" / "checkpoint.ordbm")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 0, errors
    assert output == ""
    assert "interrupted" in errors
    assert "--resume" in errors
    assert "Traceback" not in errors
    assert "Warning" not in errors
    model = ordbm.load("m.ordbm")
    assert model.interrupted
    assert len(model.history) >= 1
    assert np.isfinite(model.predict([1], [101])).all()


SAYS_THAT_IT_LEARNS = """
import sys
from ordbm.cli import main
from ordbm.training.ensemble import Ensemble

epoch = Ensemble.epoch

def told(self, number, *more):
    if number == 3:  # all that is compiled has been loaded
        print("learning", file=sys.stderr, flush=True)
    return epoch(self, number, *more)

Ensemble.epoch = told
main()
"""


def test_ctrl_c_without_a_model_is_exit_code_130(started, tmp_path):
    process = started("evaluate", "ratings.csv", *LONG, script=SAYS_THAT_IT_LEARNS)
    assert process.stderr.readline().startswith("ratings.csv: 300 ratings")
    assert process.stderr.readline() == "learning\n"
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert output == ""
    assert errors == "ordbm: interrupted\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compiled.ordbm", "ratings.csv"]


def test_ctrl_c_keeps_the_study(started, tmp_path):
    fixed = ("--hidden", "4", "--item-links", "0", "--epochs", "2", "--study", "s.db")
    process = started("tune", "ratings.csv", *fixed, "--trials", "100000")
    while not process.stderr.readline().startswith("trial 2"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 0, errors
    assert "interrupted" in errors
    assert "ordbm fit ratings.csv" in output
    assert (tmp_path / "s.db").exists()
    again = started("tune", "ratings.csv", *fixed, "--trials", "1")
    found, errors = again.communicate(timeout=HANGS)
    assert again.returncode == 0, errors
    assert "trial" not in errors  # there were enough of them in the study
    assert "ordbm fit ratings.csv" in found


def test_a_killed_fit_goes_on_to_the_same_bits(started, tmp_path, ratings):
    wanted = [*SMALL[:-1], "400"]
    process = started("fit", "ratings.csv", "-o", "m.ordbm", *wanted, "--checkpoint", "run")
    waited_for(tmp_path / "run" / "checkpoint.ordbm")
    process.kill()
    process.communicate(timeout=HANGS)
    answer("fit", "ratings.csv", "-o", "m.ordbm", *wanted, "--checkpoint", "run", "--resume")
    answer("fit", "ratings.csv", "-o", "whole.ordbm", *wanted)
    resumed, whole = ordbm.load("m.ordbm"), ordbm.load("whole.ordbm")
    assert resumed.history == whole.history
    users = list(ratings.users)
    np.testing.assert_array_equal(
        resumed.predict_proba(users, 101), whole.predict_proba(users, 101)
    )


def test_progress_is_shown_on_a_terminal(started):
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    told = ["ratings.csv", "-o", "m.ordbm", *LONG, "--validation", "0.1"]
    process = started("fit", *told, stderr=slave, env=environment)
    os.close(slave)
    shown = b""
    while not re.search(rb"validation log-loss \d.*\d\d left", shown, re.DOTALL):
        shown += os.read(master, 65536)
    process.send_signal(signal.SIGINT)
    with suppress(OSError):  # how a terminal says that nobody writes to it any more
        while part := os.read(master, 65536):
            shown += part
    os.close(master)
    assert process.communicate(timeout=HANGS)[0] == ""
    assert process.returncode == 0
    text = shown.decode()
    assert re.search(r"epoch \d+ of 1000000, validation log-loss \d", text)
    assert re.search(r"\d(:| h )\d\d left", text)
    assert "interrupted" in text
