"""Workers on Ray: an actor each, by Ray Core alone."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ordbm.engines.adding import put_back, sliced, summed
from ordbm.engines.interface import LostError, Seat
from ordbm.errors import EngineError
from ordbm.runtime.arrays import Array
from ordbm.runtime.cpus import usable_cpus

ANSWERS_WITHIN = 10  # seconds, a cluster that is there
ASIDE = "aside"  # the concurrency group of calls that are answered while others go on
# What Ray is told when it starts processes for this one alone, unless the user has said otherwise:
# to listen on this machine only, to send nothing to its makers, and to wait for a busy machine.
LOCAL_ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # elsewhere too: addresses are loopback's
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",  # print none of its own remarks between our output
}


class RayCore:
    """An engine on Ray: on the cluster at an address, or, without one, on this machine alone.

    A Ray that this process is already connected to is used as it is, and left running.
    """

    def __init__(self, address: str | None = None, cpus: int | None = None) -> None:
        self.ray = _imported()
        self.is_ours = not self.ray.is_initialized()
        self._actors: list[Any] = []
        if not self.is_ours:
            return
        told: dict[str, Any] = {"address": address or os.environ.get("RAY_ADDRESS") or "local"}
        if told["address"] == "local":
            told |= {"num_cpus": cpus or usable_cpus(), "include_dashboard": False}
        try:
            _check_reached(told["address"])
            with _quiet():
                self.ray.init(log_to_driver=False, logging_level=logging.ERROR, **told)
        except Exception as error:
            place = "on this machine" if told["address"] == "local" else f"at {told['address']!r}"
            raise EngineError(f"Ray {place} cannot be used: {_first_line(error)}") from error

    def places(self, threads: int) -> int:
        nodes = [node["Resources"].get("CPU", 0) for node in self.ray.nodes() if node["Alive"]]
        return sum(int(cpus // threads) for cpus in nodes)

    def put(self, value: Any) -> Any:
        return self.ray.put(value)

    def start(self, kind: type, threads: int) -> Any:
        actor = _actor_class(self.ray, kind).options(num_cpus=threads).remote()
        self._actors.append(actor)
        return actor

    def call(self, worker: Any, method: str, *arguments: Any, aside: bool = False) -> Any:
        bound = getattr(worker, method)
        return (bound.options(concurrency_group=ASIDE) if aside else bound).remote(*arguments)

    def parts(self, worker: Any, method: str, *arguments: Any, n: int) -> list[Any]:
        found = getattr(worker, method).options(num_returns=n).remote(*arguments)
        return [found] if n == 1 else found

    def wait(self, results: Sequence[Any], seconds: float) -> list[Any]:
        results = list(results)
        there, _ = self.ray.wait(
            results, num_returns=len(results), timeout=seconds, fetch_local=False
        )
        return list(there)

    def value(self, result: Any) -> Any:
        faults = self.ray.exceptions
        try:
            return self.ray.get(result)
        except faults.RayTaskError as error:
            if isinstance(error.cause, faults.RayError):  # an argument was lost
                raise LostError(_first_line(error.cause)) from None
            raise error.cause from None
        except faults.RayError as error:
            raise LostError(_first_line(error)) from None

    def seats(self, n: int) -> list[Seat]:
        adders = [_adder_class(self.ray).remote(n) for _ in range(n)]
        self._actors += adders
        return [RaySeat(adders, number) for number in range(n)]

    def leave(self, seats: Sequence[Any]) -> None:
        for adder in seats[0].adders:
            self.stop(adder)

    def stop(self, worker: Any) -> None:
        self._actors.remove(worker)
        self.ray.kill(worker)

    def close(self) -> None:
        if self.ray.is_initialized():
            for actor in list(self._actors):
                self.stop(actor)
            if self.is_ours:
                self.ray.shutdown()


class Adder:
    """An actor that adds up a slice of what n workers have, each time that all have sent theirs."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._sent: dict[int, dict[int, list[Array]]] = {}  # by turn and seat
        self._found: dict[int, asyncio.Future[list[Array]]] = {}  # by turn

    async def add(self, turn: int, seat: int, *tables: Array) -> list[Array]:
        """The sums of this turn, when they are known."""
        loop = asyncio.get_running_loop()
        found = self._found.setdefault(turn, loop.create_future())
        sent = self._sent.setdefault(turn, {})
        sent[seat] = list(tables)
        if len(sent) == self._n:
            found.set_result(summed([sent[number] for number in range(self._n)]))
            del self._sent[turn], self._found[turn]
        return await found


class RaySeat:
    """A place among workers that send slices of their tables to adders and fetch the sums."""

    def __init__(self, adders: list[Any], number: int) -> None:
        self.adders, self._number, self._turn = adders, number, 0

    def add(self, tables: Sequence[Array]) -> None:
        import ray  # noqa: PLC0415 -- an extra

        slices = sliced(tables, len(self.adders))
        asked = [
            adder.add.remote(self._turn, self._number, *part)
            for adder, part in zip(self.adders, slices, strict=True)
        ]
        self._turn += 1
        put_back(tables, ray.get(asked))


def _check_reached(address: str) -> None:
    """An error if nobody listens at host:port, which Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), ANSWERS_WITHIN).close()


def _imported() -> Any:
    """Ray, or one sentence that says how to have it."""
    try:
        with _quiet():
            import ray  # noqa: PLC0415 -- an extra
            import ray.exceptions  # noqa: PLC0415
    except ImportError as error:
        raise EngineError(
            f"engine='ray' needs Ray ({error}): install it with pip install 'ordbm[ray]'"
        ) from None
    return ray


@lru_cache
def _actor_class(ray: Any, kind: type) -> Any:
    """The actors of a kind of worker: calls in their order, but for those aside."""
    return ray.remote(concurrency_groups={ASIDE: 1}, max_restarts=0, max_task_retries=0)(kind)


@lru_cache
def _adder_class(ray: Any) -> Any:
    return ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)(Adder)


@contextmanager
def _quiet() -> Iterator[None]:
    """Within it, Ray reads our environment, warns of nothing, and takes no signal for good."""
    before = {name: os.environ.get(name) for name in LOCAL_ENVIRONMENT}
    main = threading.current_thread() is threading.main_thread()
    handlers = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if main
    }
    os.environ.update({name: v for name, v in LOCAL_ENVIRONMENT.items() if before[name] is None})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _first_line(error: BaseException) -> str:
    """What is said of it, without what only Ray's authors need."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
