"""Workers in this process, one after the other: what the other engines are compared with.

A worker sees copies of what it is given, and others see copies of what it returns, read-only, as if
they had come from another process.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from ordbm.engines.interface import LostError


class InProcess:
    """An engine without processes; `n_places` is how many workers it says it has room for."""

    def __init__(self, n_places: int = 2) -> None:
        self.n_places = n_places
        self.workers: list[Any] = []

    def places(self, threads: int) -> int:  # noqa: ARG002 -- they do not work at the same time
        return self.n_places

    def put(self, value: Any) -> Any:
        return _Result(_sent(value))

    def start(self, kind: type, threads: int) -> Any:  # noqa: ARG002
        worker = _Worker(kind())
        self.workers.append(worker)
        return worker

    def call(self, worker: Any, method: str, *arguments: Any, aside: bool = False) -> Any:  # noqa: ARG002
        return self._called(worker, method, arguments)

    def parts(self, worker: Any, method: str, *arguments: Any, n: int) -> list[Any]:
        whole = self._called(worker, method, arguments)
        if whole.error is not None:
            return [whole] * n
        return [_Result(part) for part in whole.value]

    def wait(self, results: Sequence[Any], seconds: float) -> list[Any]:  # noqa: ARG002
        return list(results)

    def value(self, result: Any) -> Any:
        if result.error is not None:
            raise result.error
        return result.value

    def stop(self, worker: Any) -> None:
        worker.served = None

    def close(self) -> None:
        for worker in self.workers:
            self.stop(worker)

    def _called(self, worker: Any, method: str, arguments: tuple[Any, ...]) -> _Result:
        try:
            known = [
                self.value(one) if isinstance(one, _Result) else _sent(one) for one in arguments
            ]
            if worker.served is None:
                raise LostError("the worker was stopped")  # noqa: TRY301
            return _Result(_sent(getattr(worker.served, method)(*known)))
        except Exception as error:
            return _Result(None, error)


class _Worker:
    def __init__(self, served: Any) -> None:
        self.served: Any = served  # None once it is gone


class _Result:
    def __init__(self, value: Any, error: Exception | None = None) -> None:
        self.value, self.error = value, error


def _sent(value: Any) -> Any:
    """A copy whose arrays are read-only, as a message has them."""
    buffers: list[pickle.PickleBuffer] = []
    message = pickle.dumps(value, 5, buffer_callback=buffers.append)
    return pickle.loads(message, buffers=[bytes(buffer) for buffer in buffers])  # noqa: S301 -- ours
