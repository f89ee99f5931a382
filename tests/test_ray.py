"""With a real Ray, started and stopped here, on this machine alone."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import ordbm
from ordbm.engines.interface import LostError

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ordbm[ray]'")

from ray_workers import Mortal, Probe  # noqa: E402
from test_engines import SHARED, SMALL, assert_close, assert_same, some_ratings  # noqa: E402

pytestmark = pytest.mark.slow
HERE = str(Path(__file__).parent)


@pytest.fixture(scope="module")
def deaths(tmp_path_factory):
    """A folder; a file N-x in it is a death in epoch N."""
    return tmp_path_factory.mktemp("deaths")


@pytest.fixture(scope="module")
def engine(deaths):
    """Ray with two processors, whose workers find these tests."""
    from ordbm.engines.ray_core import RayCore

    before = dict(os.environ)
    os.environ["ORDBM_TEST_DEATHS"] = str(deaths)
    os.environ["PYTHONPATH"] = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])
    engine = RayCore(cpus=2)
    yield engine
    engine.close()
    assert not ray.is_initialized()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def worker(engine):
    """A worker that needs no processor."""
    return engine.start(Probe, 0)


@pytest.mark.usefixtures("engine")
def test_ray_learns_the_same_bits():
    ratings, validation = some_ratings(), some_ratings(1, 100)
    here = ordbm.OrdinalBM(**SMALL).fit(ratings, validation)
    assert_same(here, ordbm.OrdinalBM(**SMALL, engine="ray").fit(ratings, validation))
    assert ray.is_initialized()  # what was there before stays


@pytest.mark.usefixtures("engine")
def test_users_shared_out_over_actors_are_learnt_as_if_they_were_here():
    ratings, validation = some_ratings(), some_ratings(1, 100)
    here = ordbm.OrdinalBM(**SHARED).fit(ratings, validation)
    assert_close(here, ordbm.OrdinalBM(**SHARED, engine="ray").fit(ratings, validation))


@pytest.mark.usefixtures("engine")
def test_a_team_that_loses_an_actor_is_begun_anew(deaths, monkeypatch):
    monkeypatch.setattr("ordbm.training.remote_ensemble.MemberGroup", Mortal)
    ratings = some_ratings()
    (deaths / "1-a").touch()
    assert_close(
        ordbm.OrdinalBM(**SHARED).fit(ratings), ordbm.OrdinalBM(**SHARED, engine="ray").fit(ratings)
    )
    assert not list(deaths.iterdir())


@pytest.mark.usefixtures("engine")
def test_workers_that_die_are_replaced(deaths, monkeypatch):
    monkeypatch.setattr("ordbm.training.remote_ensemble.MemberGroup", Mortal)
    ratings = some_ratings()
    for name in ("1-a", "1-b"):
        (deaths / name).touch()
    here = ordbm.OrdinalBM(**SMALL).fit(ratings)
    assert_same(here, ordbm.OrdinalBM(**SMALL, engine="ray").fit(ratings))
    assert not list(deaths.iterdir())


def test_calls_are_done_in_their_order(engine, worker):
    calls = [engine.call(worker, "numbered", n) for n in range(200)]
    assert engine.value(calls[-1]) == list(range(200))


def test_calls_aside_are_answered_meanwhile(engine, worker):
    engine.value(engine.call(worker, "pid"))  # it has begun
    long = engine.call(worker, "slept", 3)
    assert engine.value(engine.call(worker, "told_once", 5, aside=True)) == 5
    assert engine.wait([long], 0) == []
    assert engine.value(long) == "woken"


def test_what_is_put_is_read_where_it_lies(engine, worker):
    array = engine.put(np.zeros(1_000_000))
    file, is_writable = engine.value(engine.call(worker, "mapped", array))
    assert "plasma" in file
    assert not is_writable


def test_parts_of_a_result_go_from_worker_to_worker(engine, worker):
    other = engine.start(Probe, 0)
    array = np.arange(400_000.0)
    first, second = zip(
        *(
            engine.parts(one, "halves", array * (n + 1), n=2)
            for n, one in enumerate([worker, other])
        ),
        strict=True,
    )
    found = [engine.call(worker, "summed", *first), engine.call(other, "summed", *second)]
    np.testing.assert_array_equal(np.concatenate([*map(engine.value, found)]), array * 3)
    engine.stop(other)


def test_errors_are_raised_as_they_were(engine, worker):
    with pytest.raises(ValueError, match=r"^as it was raised$"):
        engine.value(engine.call(worker, "failed"))


def test_a_worker_that_is_gone_is_lost(engine, worker):
    other = engine.start(Probe, 0)
    gone = engine.call(other, "gone")
    with pytest.raises(LostError):
        engine.value(gone)
    with pytest.raises(LostError):
        engine.value(engine.call(other, "pid"))
    with pytest.raises(LostError):  # what it was to return is needed by another
        engine.value(engine.call(worker, "told_once", gone))
    engine.stop(other)


@pytest.mark.usefixtures("engine")
def test_ray_takes_no_signal_for_good():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def command(*arguments):
    """`ordbm` in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ordbm", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def started_by(driver):
    """Processes that this one and those below it have started: numbers and command lines."""
    parent, name = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            _, _, rest = (folder / "stat").read_text().rpartition(")")
            parent[int(folder.name)] = int(rest.split()[1])
            name[int(folder.name)] = (folder / "cmdline").read_text()
    found = {driver}
    while more := {process for process, of in parent.items() if of in found} - found:
        found |= more
    return {process: name[process] for process in found & set(name)}


def listening(processes):
    """Addresses that these processes listen at, as /proc/net has them."""
    sockets = set()
    for process in processes:
        with contextlib.suppress(OSError):
            sockets |= {os.readlink(one) for one in Path(f"/proc/{process}/fd").iterdir()}  # noqa: PTH115
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


def test_the_command_line_has_ray_on_this_machine_alone_and_says_what_was_lost(tmp_path):
    seen = set()
    model = tmp_path / "model.ordbm"
    told = {"members": 2, "hidden": 3, "epochs": 12, "presence": False, "context": False}
    process = command(
        "fit", "movielens-small", "-o", model, "--members", 2, "--hidden", 3, "--epochs", 12,
        "--no-presence", "--no-context", "--engine", "ray", "--json",
    )  # fmt: skip
    ended = threading.Event()

    def watch():
        killed = False
        while not ended.wait(0.3):
            processes = started_by(process.pid)
            seen.update(listening(processes))
            workers = [one for one in processes if processes[one].startswith("ray::MemberGroup")]
            if workers and not killed:
                os.kill(workers[0], signal.SIGKILL)
                killed = True

    watching = threading.Thread(target=watch)
    watching.start()
    out, err = process.communicate()
    ended.set()
    watching.join()
    assert process.returncode == 0, err
    assert json.loads(out)["epochs"] == 12  # and Ray says nothing between
    assert err.startswith("a worker was lost in epoch ")
    assert err.count("\n") == 1
    loopback = ("0100007F:", "0000000000000000FFFF00000100007F:")
    assert seen
    assert [one for one in seen if not one.startswith(loopback)] == []
    here = ordbm.OrdinalBM(**told).fit(ordbm.load_dataset("movielens-small"))
    assert_same(here, ordbm.load(model))


def test_ctrl_c_saves_the_epochs_so_far(tmp_path):
    model = tmp_path / "model.ordbm"
    process = command(
        "fit", "movielens-small", "-o", model, "--members", 2, "--hidden", 3, "--epochs", 5000,
        "--no-presence", "--no-context", "--engine", "ray", "--checkpoint", tmp_path,
    )  # fmt: skip
    while not (tmp_path / "checkpoint.ordbm").exists():
        assert process.poll() is None
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert "interrupted" in err
    assert "Traceback" not in err
    assert 1 <= len(ordbm.load(model).history) < 5000


def test_an_address_without_a_cluster_is_one_sentence():
    process = subprocess.run(
        [sys.executable, "-c",
         "from ordbm.engines.ray_core import RayCore; RayCore('127.0.0.1:1')"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1].startswith(
        "ordbm.errors.EngineError: Ray at '127.0.0.1:1' cannot be used: "
    )
