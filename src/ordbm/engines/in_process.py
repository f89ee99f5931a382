"""Workers in this process, each on a thread: what the other engines are compared with.

A worker sees copies of what it is given, and others see copies of what it returns, read-only, as if
they had come from another process.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from typing import Any

from ordbm.engines.adding import summed
from ordbm.engines.interface import LostError, Seat
from ordbm.runtime.arrays import Array


class InProcess:
    """An engine without processes; `n_places` is how many workers it says it has room for."""

    def __init__(self, n_places: int = 2) -> None:
        self.n_places = n_places
        self.workers: list[Any] = []

    def places(self, threads: int) -> int:  # noqa: ARG002 -- they do not work at the same time
        return self.n_places

    def put(self, value: Any) -> Any:
        put: Future[Any] = Future()
        put.set_result(_sent(value))
        return put

    def start(self, kind: type, threads: int) -> Any:  # noqa: ARG002
        worker = _Worker(kind())
        self.workers.append(worker)
        return worker

    def call(self, worker: Any, method: str, *arguments: Any, aside: bool = False) -> Any:
        def done() -> Any:
            if worker.served is None:
                raise LostError("the worker was stopped")
            known = [one.result() if isinstance(one, Future) else one for one in arguments]
            return _sent(getattr(worker.served, method)(*map(_sent, known)))

        if worker.served is None:
            gone: Future[Any] = Future()
            gone.set_exception(LostError("the worker was stopped"))
            return gone
        return (worker.aside if aside else worker.thread).submit(done)

    def parts(self, worker: Any, method: str, *arguments: Any, n: int) -> list[Any]:
        whole = self.call(worker, method, *arguments)
        return [_part(whole, number) for number in range(n)]

    def wait(self, results: Sequence[Any], seconds: float) -> list[Any]:
        there = wait_for_futures(results, seconds, return_when="FIRST_COMPLETED").done
        return [one for one in results if one in there]

    def value(self, result: Any) -> Any:
        return result.result()

    def seats(self, n: int) -> list[Seat]:
        meeting = _Meeting(n)
        return [_SeatHere(meeting, number) for number in range(n)]

    def leave(self, seats: Sequence[Any]) -> None:
        for seat in seats:
            seat.meeting.barrier.abort()

    def stop(self, worker: Any) -> None:
        worker.served = None
        for thread in (worker.thread, worker.aside):
            thread.shutdown(wait=False, cancel_futures=False)

    def close(self) -> None:
        for worker in self.workers:
            self.stop(worker)


class _Worker:
    def __init__(self, served: Any) -> None:
        self.served: Any = served  # None once it is gone
        self.thread, self.aside = ThreadPoolExecutor(1), ThreadPoolExecutor(1)


class _Meeting:
    def __init__(self, n: int) -> None:
        self.barrier = threading.Barrier(n)
        self.tables: list[Sequence[Array]] = [()] * n


class _SeatHere:
    """A seat, which stays what it is when it is sent."""

    def __init__(self, meeting: _Meeting, number: int) -> None:
        self.meeting, self.number = meeting, number

    def add(self, tables: Sequence[Array]) -> None:
        meeting = self.meeting
        try:
            meeting.tables[self.number] = tables
            meeting.barrier.wait()
            total = summed(meeting.tables)
            meeting.barrier.wait()
        except threading.BrokenBarrierError:
            raise LostError("another worker of the meeting is gone") from None
        for table, found in zip(tables, total, strict=True):
            table[...] = found


def _part(whole: Future[Any], number: int) -> Future[Any]:
    """One of the results of a call."""
    part: Future[Any] = Future()

    def enter(done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            part.set_exception(error)
        else:
            part.set_result(done.result()[number])

    whole.add_done_callback(enter)
    return part


def _sent(value: Any) -> Any:
    """A copy whose arrays are read-only, as a message has them."""
    if isinstance(value, _SeatHere):
        return value
    buffers: list[pickle.PickleBuffer] = []
    message = pickle.dumps(value, 5, buffer_callback=buffers.append)
    return pickle.loads(message, buffers=[bytes(buffer) for buffer in buffers])  # noqa: S301 -- ours
