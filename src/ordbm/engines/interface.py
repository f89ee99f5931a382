"""What is asked of an engine: workers that are called, and values that stay where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # help must be quick
    from ordbm.runtime.arrays import Array


class LostError(Exception):
    """A worker is gone, and what it was asked for with it; the message says how."""


class Seat(Protocol):
    """A worker's place in a meeting of several that add up what each has."""

    def add(self, tables: Sequence[Array]) -> None:
        """Put the sums of all workers' tables into these, in the order of their seats.

        All make the same calls in turn; each waits for the others.
        """


class WorkerEngine(Protocol):
    """Workers: objects, each in a process or computer of its own, that work at the same time.

    Calls of a worker are done one after the other in their order, but those `aside`, which are
    answered meanwhile. A call returns at once what stands for its result. The result stays where it
    came to be; given as an argument of a call it goes from there to the worker that needs it. What
    is put or returned is read-only for all who read it.
    """

    def places(self, threads: int) -> int:
        """How many workers with so many threads can work at the same time."""

    def put(self, value: Any) -> Any:
        """What stands for a value that several workers are to read."""

    def start(self, kind: type, threads: int) -> Any:
        """A new worker: an object of this kind, made without arguments."""

    def call(self, worker: Any, method: str, *arguments: Any, aside: bool = False) -> Any:
        """What stands for the result of a method."""

    def parts(self, worker: Any, method: str, *arguments: Any, n: int) -> list[Any]:
        """What stands for each of the n results of a method that returns as many."""

    def wait(self, results: Sequence[Any], seconds: float) -> list[Any]:
        """Those of the results that are there, or lost; at least one unless the time runs out."""

    def value(self, result: Any) -> Any:
        """A result. `LostError` if a worker is gone; an error of the method as it was raised."""

    def seats(self, n: int) -> list[Seat]:
        """A meeting of n workers: the seats to give to them, one each."""

    def leave(self, seats: Sequence[Seat]) -> None:
        """End a meeting; nobody may wait in it."""

    def stop(self, worker: Any) -> None:
        """End a worker, whatever it does."""

    def close(self) -> None:
        """End all that was started here."""
