"""Compiled work on several threads: kernels release the interpreter, plain threads run them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ordbm.errors import SettingsError, ThreadsError
from ordbm.runtime.cpus import usable_cpus

HEARD_WITHIN = 0.1  # seconds after which Ctrl-C is heard, at the latest
SPINS = 2_000  # looks at a barrier without pause, a millisecond or two
NAP = 1e-5  # seconds between looks after that


def thread_count(threads: int | None) -> int:
    """`threads`, or as many as this process may use."""
    if threads is None:
        return usable_cpus()
    if threads < 1:
        raise SettingsError(f"threads={threads}: need at least 1, or None for all cores")
    return threads


def run_on_threads(
    threads: int, work: Callable[[int], Any], *, stop: Callable[[], Any] | None = None
) -> None:
    """work(0), …, work(threads - 1) at once, each on a thread of its own.

    Returns when all have ended, then raises the first error. The parts of a kernel wait for each
    other, so all must start and none may be left behind: none begins before all are there, and
    Ctrl-C is heard after they have ended.
    For work that takes long, `stop` makes it end soon: Ctrl-C is then heard at once, and `stop`
    called if it is an error.
    """
    if threads == 1:
        work(0)
        return
    errors: list[BaseException] = []
    ended = threading.Semaphore(0)
    complete = threading.Event()
    missing = False

    def guarded(thread: int) -> None:
        try:
            complete.wait()
            if not missing:
                work(thread)
        except BaseException as error:
            errors.append(error)
        finally:
            ended.release()

    team = [threading.Thread(target=guarded, args=(t,)) for t in range(threads)]
    try:
        with interrupts_held():
            try:
                _start(team)
            except ThreadsError:
                missing = True
                complete.set()
                _join(team)
                raise
            complete.set()
            if stop is None:
                _join(team)
        _await(ended, threads)
    except BaseException:
        if stop is not None:
            stop()
            with interrupts_held():
                _join(team)
        raise
    _join(team)
    if errors:
        raise errors[0]


class SpinBarrier:
    """`threading.Barrier` for waits of microseconds: those who wait look again and again.

    Waking a thread that sleeps takes longer than many a phase of a block. After a while each look
    gives the processor away, so that a machine with fewer free cores than threads only gets slower.
    """

    def __init__(self, parties: int) -> None:
        self.parties, self._arrived, self._meeting = parties, 0, 0
        self._broken = False
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Wait until all have called this; a `BrokenBarrierError` if one of them cannot."""
        with self._lock:
            meeting = self._meeting
            self._arrived += 1
            if self._arrived == self.parties:
                self._arrived = 0
                self._meeting += 1
        looks = 0
        while self._meeting == meeting:
            if self._broken:
                raise threading.BrokenBarrierError
            looks += 1
            time.sleep(0 if looks < SPINS else NAP)

    def abort(self) -> None:
        """Let nobody wait for those who will not come."""
        self._broken = True


def _start(team: list[threading.Thread]) -> None:
    for number, member in enumerate(team):
        try:
            member.start()
        except RuntimeError as error:
            raise ThreadsError(
                f"only {number} of {len(team)} threads could be started ({error}): ask for fewer, "
                f"threads={max(number, 1)}, or raise the system's limit"
            ) from error


def _await(ended: threading.Semaphore, times: int) -> None:
    """Wait so that Ctrl-C is heard.

    A join that it breaks off may take a running thread for ended, and what waits without end is not
    broken off everywhere.
    """
    for _ in range(times):
        while not ended.acquire(timeout=HEARD_WITHIN):
            pass


def _join(team: list[threading.Thread]) -> None:
    """Wait for those that have started."""
    for member in team:
        if member.ident is not None:
            member.join()


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C inside is noted, and handed to whoever handled it before at the end."""
    heard: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if heard:
            handler(heard[0], None)


def share(total: int, thread: int, threads: int) -> tuple[int, int]:
    """Begin and end of one thread's part of `total` equal pieces of work."""
    return total * thread // threads, total * (thread + 1) // threads
