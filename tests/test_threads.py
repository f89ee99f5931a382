"""How many threads run, and what happens when they cannot be started."""

import threading

import numpy as np
import pytest
from numba import njit

import ordbm
from ordbm.errors import OrdbmError, SettingsError, ThreadsError
from ordbm.kernels.barrier import break_barrier, meet, new_barrier
from ordbm.runtime import cpus, threads
from ordbm.runtime.threads import run_on_threads, thread_count
from ordbm.training.ensemble import Ensemble


@pytest.fixture
def startable(monkeypatch):
    """A function that lets only so many threads start from now on; it returns those that do."""
    start, started = threading.Thread.start, []

    def limit(n):
        def limited_start(thread):
            if len(started) == n:
                raise RuntimeError("can't start new thread")
            started.append(thread)
            thread.daemon = True  # a test that fails must not hang
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", limited_start)
        return started

    return limit


@njit(nogil=True)
def in_step(barrier, threads, rounds, reached, me):
    """Whether all were in the same round at every meeting."""
    for number in range(rounds):
        reached[me] = number
        if not meet(barrier, threads):
            return False
        for other in range(threads):
            if reached[other] != number:
                return False
        if not meet(barrier, threads):
            return False
    return True


@pytest.mark.parametrize("n", [1, 2, 5])
def test_threads_meet(n):
    barrier, reached, well = new_barrier(), np.zeros(n, np.int64), [False] * n

    def work(thread):
        well[thread] = in_step(barrier, n, 500, reached, thread)

    run_on_threads(n, work)
    assert all(well)


def test_nobody_waits_for_those_who_will_not_come():
    barrier, reached, well = new_barrier(), np.zeros(3, np.int64), [True] * 3

    def work(thread):
        if thread:
            well[thread] = in_step(barrier, 3, 1, reached, thread)
        else:
            break_barrier(barrier)

    run_on_threads(3, work)
    assert well == [True, False, False]


@pytest.mark.parametrize(("n", "wanted"), [(0, 3), (1, 3), (2, 3), (2, 4), (3, 4)])
def test_threads_that_started_do_not_wait_for_one_that_cannot(startable, n, wanted):
    started, barrier, entered = startable(n), threading.Barrier(wanted), []

    def work(thread):  # as the parts of a kernel, which wait for each other
        entered.append(thread)
        barrier.wait()

    with pytest.raises(ThreadsError, match=rf"only {n} of {wanted} .* threads=") as caught:
        run_on_threads(wanted, work)
    assert isinstance(caught.value, OrdbmError)
    assert not entered
    assert not any(thread.is_alive() for thread in started)


@pytest.mark.parametrize("n", range(8))
def test_a_thread_that_cannot_start_ends_a_whole_training(startable, n):
    """Two members at once, two threads each: six threads at first, more for every phase."""
    rng = np.random.default_rng(0)
    ratings = ordbm.Ratings(*rng.integers(20, size=(2, 200)), rng.integers(1, 6, 200))
    model = ordbm.OrdinalBM(hidden=2, members=2, threads=4, item_links=0, epochs=2, presence=False)
    started = startable(n)
    with pytest.raises(ThreadsError, match=r"threads could be started"):
        model.fit(ratings)
    assert len(started) == n
    assert not any(thread.is_alive() for thread in started)


def test_more_threads_than_any_computer_has_are_refused(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread was started"))
    ratings = ordbm.Ratings([1, 1, 2], [1, 2, 1], [1, 2, 3])
    with pytest.raises(SettingsError, match=r"threads=100000: at most 1,024; .*None takes all"):
        ordbm.OrdinalBM(threads=100_000).fit(ratings)
    assert thread_count(1024) == 1024


def cgroup(folder, files, own="0::/\n"):
    for name, text in files.items():
        path = folder / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "own").write_text(own)
    return cpus.cpu_quota(folder / "fs", folder / "own")


@pytest.mark.parametrize(
    ("files", "own", "quota"),
    [
        ({}, "", None),
        ({"cpu.max": "max 100000\n"}, "0::/\n", None),
        ({"cpu.max": "250000 100000\n"}, "0::/\n", 2.5),
        ({"a/b/cpu.max": "max 100000\n", "a/cpu.max": "50000 100000\n"}, "0::/a/b\n", 0.5),
        ({"cpu.max": "300000 100000\n"}, "0::/not/seen/inside\n", 3.0),
        ({"cpu.max": "nonsense\n"}, "0::/\n", None),
        (
            {
                "cpu,cpuacct/x/cpu.cfs_quota_us": "150000",
                "cpu,cpuacct/x/cpu.cfs_period_us": "50000",
            },
            "5:memory:/x\n4:cpu,cpuacct:/x\n",
            3.0,
        ),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "3:cpu:/\n", None),
    ],
)
def test_quota_of_control_groups(tmp_path, files, own, quota):
    assert cgroup(tmp_path, files, own) == quota


@pytest.mark.parametrize(
    ("quota", "cores", "expected"), [(None, 8, 8), (2.5, 8, 2), (0.5, 8, 1), (16.0, 8, 8)]
)
def test_all_threads_are_no_more_than_the_quota(monkeypatch, quota, cores, expected):
    monkeypatch.setattr(cpus, "cpu_quota", lambda: quota)
    monkeypatch.setattr(cpus.os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert thread_count(None) == expected
    assert thread_count(5) == 5  # what is asked for is asked for


@pytest.mark.parametrize(
    ("share", "expected"),
    [("3", 3), (" 2,4", 2), ("16", 8), ("0", 1), ("", 8), ("many", 8), ("-2", 8), ("9" * 5000, 8)],
)
def test_all_threads_are_no_more_than_the_share_of_the_process(monkeypatch, share, expected):
    monkeypatch.setattr(cpus, "cpu_quota", lambda: None)
    monkeypatch.setattr(cpus.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", share)
    assert thread_count(None) == expected
    assert thread_count(5) == 5


class Recorded:
    """A machine being learnt that notes how many threads it has."""

    def __init__(self, *settings, **_):
        self.threads = settings[-1]
        self.epochs = 0

    def epoch(self, *_):
        self.epochs += 1
        return 0.0


@pytest.mark.parametrize(
    ("n_threads", "members", "each"),
    [
        (1, 3, [1, 1, 1]),
        (3, 2, [3, 3]),
        (4, 2, [2, 2]),
        (6, 4, [3, 3, 3, 3]),
        (2, 8, [1] * 8),
        (2, 3, [1, 1, 2]),
        (8, 1, [8]),
    ],
)
def test_members_share_all_threads_out(monkeypatch, n_threads, members, each):
    monkeypatch.setattr("ordbm.training.ensemble.Trainer", Recorded)
    monkeypatch.setattr("ordbm.training.ensemble.priors_of", lambda *_: None)
    at_once = []

    def recorded_run(n, work, **_):
        at_once.append(n)
        threads.run_on_threads(n, work)

    monkeypatch.setattr("ordbm.training.ensemble.run_on_threads", recorded_run)
    ensemble = Ensemble([None] * members, None, ordbm.PseudoLikelihood(), 0, n_threads)
    assert [trainer.threads for trainer in ensemble.trainers] == each
    assert np.isfinite(ensemble.epoch(0))
    assert [trainer.epochs for trainer in ensemble.trainers] == [1] * members
    # Whatever runs at once has all threads, and no more.
    left_over = each[members - members % n_threads :]
    of_each = [1] * (members >= n_threads) + left_over[:1]
    assert [n * size for n, size in zip(at_once, of_each, strict=True)] == [n_threads] * len(
        of_each
    )
