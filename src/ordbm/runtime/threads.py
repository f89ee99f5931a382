"""Compiled work on several threads: kernels release the interpreter, plain threads run them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ordbm.errors import SettingsError, ThreadsError
from ordbm.runtime.cpus import usable_cpus
from ordbm.runtime.interruption import listening, part_of_work, safe_point

HEARD_WITHIN = 0.1  # seconds after which Ctrl-C is heard, at the latest
MOST_THREADS = 1024  # more than the largest computers of today can use for one model


def thread_count(threads: int | None) -> int:
    """`threads`, or as many as this process may use."""
    if threads is None:
        return usable_cpus()
    if threads < 1:
        raise SettingsError(f"threads={threads}: need at least 1, or None for all cores")
    if threads > MOST_THREADS:
        raise SettingsError(
            f"threads={threads}: at most {MOST_THREADS:,}; more than there are cores bring nothing "
            f"({usable_cpus()} here), and None takes all of them"
        )
    return threads


def run_on_threads(threads: int, work: Callable[[int], Any]) -> None:
    """work(0), …, work(threads - 1) at once, each on a thread of its own.

    Returns when all have ended, then raises the first error. The parts of a kernel wait for each
    other, so all must start and none may be left behind: none begins before all are there. Ctrl-C,
    or an error of one, ends those that are long at their safe points; the rest come to their end.
    """
    if threads == 1:
        safe_point()
        work(0)
        safe_point()
    else:
        with listening():
            safe_point()
            _run_team(threads, work)
            safe_point()


def _run_team(threads: int, work: Callable[[int], Any]) -> None:
    part = part_of_work()
    complete, ended = threading.Event(), threading.Semaphore(0)
    started: list[threading.Thread] = []
    errors: list[BaseException] = []
    done: list[int] = []
    missing = True  # one at least

    def guarded(thread: int) -> None:
        try:
            part.begin()
            complete.wait()
            if not missing:
                work(thread)
        except BaseException as error:
            errors.append(error)
            part.end()
        finally:
            done.append(thread)
            ended.release()

    def wait() -> None:
        # A join that an exception breaks off may take a running thread for ended.
        while len(done) < len(started):
            ended.acquire(timeout=HEARD_WITHIN)

    try:
        _start([threading.Thread(target=guarded, args=(t,)) for t in range(threads)], started)
        missing = False
        complete.set()
        wait()
    except BaseException:
        part.end()
        complete.set()
        wait()
        raise
    for member in started:
        member.join()
    if errors:
        raise errors[0]


def _start(team: list[threading.Thread], started: list[threading.Thread]) -> None:
    """Start the team, and add those that have to `started`."""
    for member in team:
        try:
            member.start()
        except RuntimeError as error:
            raise ThreadsError(
                f"only {len(started)} of {len(team)} threads could be started ({error}): ask for "
                f"fewer, threads={max(len(started), 1)}, or raise the system's limit"
            ) from error
        started.append(member)


def share(total: int, thread: int, threads: int) -> tuple[int, int]:
    """Begin and end of one thread's part of `total` equal pieces of work."""
    return total * thread // threads, total * (thread + 1) // threads
