"""Ctrl-C and SIGTERM: noted at once, acted on at safe points, never lost, whoever swallows them."""

# ruff: noqa: PT012 -- where in a block it is raised is what these tests are about

import signal
import subprocess
import sys
import threading

import pytest

import ordbm
from cli_runs import HANGS, SMALL, answer, started, write_ratings_file
from ordbm.errors import RatingsError
from ordbm.runtime.interruption import (
    first_ctrl_c_noted,
    listening,
    part_of_work,
    raised_at_once,
    safe_point,
)


def press():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def handler_is_put_back():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_is_noted_and_raised_at_a_safe_point():
    reached = []
    with pytest.raises(KeyboardInterrupt), listening():
        press()
        reached.append("after it")
        safe_point()
        reached.append("after the safe point")
    assert reached == ["after it"]


def test_the_end_is_a_safe_point():
    with pytest.raises(KeyboardInterrupt), listening():
        press()


def test_what_was_swallowed_is_raised_again():
    with pytest.raises(KeyboardInterrupt), listening():
        press()
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                safe_point()


def test_the_second_one_waits_for_nothing():
    reached = []
    with pytest.raises(KeyboardInterrupt), listening():
        press()
        reached.append("after the first")
        press()
        reached.append("after the second")
    assert reached == ["after the first"]


def test_one_within_another_is_the_same():
    with pytest.raises(KeyboardInterrupt), listening() as outer, listening() as inner:
        assert inner is outer
        press()
        safe_point()


def test_what_fails_after_it_fails_because_of_it():
    with pytest.raises(KeyboardInterrupt), listening():
        press()
        raise RatingsError("reading was cancelled")
    with pytest.raises(RatingsError, match="by itself"), listening():
        raise RatingsError("by itself")


def test_the_first_one_waits_for_what_is_usable():
    for usable in (False, True):
        reached = []
        with listening() as listener:
            try:
                with first_ctrl_c_noted(lambda usable=usable: usable) as interrupted:
                    press()
                    safe_point()
                    reached.append("safe point")
            except KeyboardInterrupt:
                listener.take()
            assert interrupted()
            safe_point()  # it has been acted on
        assert bool(reached) == usable


def test_a_second_one_after_the_first_was_taken_ends_at_once():
    with pytest.raises(KeyboardInterrupt), listening():
        with first_ctrl_c_noted(lambda: True):
            press()
        press()
        raise AssertionError("it went on")


def test_what_waits_for_others_is_broken_off():
    with pytest.raises(KeyboardInterrupt), raised_at_once():
        press()
        raise AssertionError("it went on")


def test_another_handler_is_left_alone():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append("Ctrl-C"))
    try:
        with listening() as listener, first_ctrl_c_noted(lambda: False) as interrupted:
            press()
            press()
            safe_point()
        assert not interrupted()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == ["Ctrl-C", "Ctrl-C"]
    assert listener.heard == 0


def test_threads_that_have_no_part_in_the_work_go_on():
    ended = []

    def others():
        with listening():
            safe_point()
        ended.append("others")

    def part():
        work.begin()
        try:
            safe_point()
        except KeyboardInterrupt:
            ended.append("part")

    with pytest.raises(KeyboardInterrupt), listening():
        press()
        work = part_of_work()
        for target in (others, part):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert ended == ["others", "part"]


# On the command line

SWALLOWED = """
import importlib, os, signal, sys

place, function, number = sys.argv[1:4]
del sys.argv[1:4]
module = importlib.import_module(place)
whole = getattr(module, function)

def swallowing(*arguments, **named):
    try:  # as a library that tries an import, and takes any trouble for its absence
        os.kill(os.getpid(), int(number))
        for _ in range(1000):
            pass
    except BaseException:
        pass
    return whole(*arguments, **named)

setattr(module, function, swallowing)
from ordbm.__main__ import run
run()
"""

PLACES = [
    ("ordbm.cli.fit", "ratings_and_facts"),
    ("ordbm.datasets", "read_ratings"),
    ("ordbm.datasets.reader", "_columns_at"),
    ("ordbm.estimator.ordinal_bm", "links_of"),
    ("ordbm.estimator.ordinal_bm", "learn_presence"),
    ("ordbm.estimator.ordinal_bm", "priors_of"),
    ("ordbm.estimator.ordinal_bm", "ensemble_on"),
    ("ordbm.estimator.ordinal_bm", "write_model"),
]


@pytest.fixture
def old_model(tmp_path, monkeypatch):
    """A model in a file, beside the ratings for another."""
    monkeypatch.chdir(tmp_path)
    write_ratings_file(tmp_path / "ratings.csv")
    answer("fit", "ratings.csv", "-o", "m.ordbm", *SMALL)
    return (tmp_path / "m.ordbm").read_bytes()


def ended(process):
    output, errors = process.communicate(timeout=HANGS)
    return process.returncode, output, errors


@pytest.mark.parametrize(("module", "function"), PLACES)
def test_a_swallowed_ctrl_c_is_not_lost(old_model, tmp_path, module, function):
    command = (module, function, int(signal.SIGINT), "fit", "ratings.csv", "-o", "m.ordbm", *SMALL)
    code, output, errors = ended(started(*command, script=SWALLOWED))
    assert (code, output) == (130, ""), errors
    assert errors.endswith("ordbm: interrupted\n")
    assert "Traceback" not in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.ordbm", "ratings.csv"]
    if function != "write_model":  # which ends what it has begun
        assert (tmp_path / "m.ordbm").read_bytes() == old_model
    assert ordbm.load("m.ordbm").history


def test_sigterm_ends_a_command_in_good_order(old_model, tmp_path):
    place = ("ordbm.estimator.ordinal_bm", "learn_presence", int(signal.SIGTERM))
    command = (*place, "fit", "ratings.csv", "-o", "m.ordbm", *SMALL)
    code, output, errors = ended(started(*command, script=SWALLOWED))
    assert (code, output) == (128 + signal.SIGTERM, ""), errors
    assert errors.endswith("ordbm: interrupted\n")
    assert (tmp_path / "m.ordbm").read_bytes() == old_model


@pytest.mark.usefixtures("old_model")
def test_a_ctrl_c_that_is_ignored_from_the_start_stays_ignored():
    deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + SWALLOWED
    place = ("ordbm.datasets", "read_ratings", int(signal.SIGINT))
    command = (*place, "fit", "ratings.csv", "-o", "n.ordbm", *SMALL)
    code, _, errors = ended(started(*command, script=deaf))
    assert code == 0, errors
    assert len(ordbm.load("n.ordbm").history) == 2


def test_it_is_heard_before_anything_large_is_imported():
    """The handler stands when typer, the first of the libraries, is looked for."""
    script = """
import importlib.abc, signal, sys

class Watching(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ("typer", "rich", "numpy", "numba"):
            print(name, signal.getsignal(signal.SIGINT).__qualname__)
            sys.exit(0)

sys.meta_path.insert(0, Watching())
from ordbm.__main__ import run
run()
"""
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=HANGS
    ).stdout
    assert output.split() == ["typer", "Listener.note"]
