"""Questions that come while others are answered wait for each other, and are answered together.

A question that comes when nothing is done is answered at once. Under load this costs one read of
the database, one pass of the model and one change of threads for several questions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from ordbm.serve.workroom import Workroom

_Q = TypeVar("_Q")
_A = TypeVar("_A")
Answered = Sequence[tuple[int, _A | Exception]]  # the number of a question, and what came of it


class Gathering(Generic[_Q, _A]):
    """Asks `answer` about all questions that wait, `most` of them at a time.

    It yields answers, or errors, as it finds them, each under the number of its question; an error
    that it raises is that of all it has not answered.
    """

    def __init__(
        self, room: Workroom, answer: Callable[[Sequence[_Q]], Iterable[Answered[_A]]], most: int
    ) -> None:
        self._room, self._answer, self._most = room, answer, most
        self._waiting: deque[tuple[_Q, asyncio.Future[_A]]] = deque()
        self._is_working = False

    async def ask(self, question: _Q) -> _A:
        """Its answer."""
        self._room.check_for_room()
        future: asyncio.Future[_A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if not self._is_working:
            self._begin()
        return await self._room.outcome(future)

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._is_working = True
        self._room.begin(lambda: self._work(loop)).add_done_callback(self._go_on)

    def _go_on(self, work: asyncio.Future[None]) -> None:
        self._is_working = False
        if not work.cancelled() and self._waiting:
            self._begin()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """On a thread: take what waits by now, and tell the event loop what came of it."""
        some = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._most))]
        told: set[int] = set()
        try:
            for found in self._answer([question for question, _ in some]):
                told |= {number for number, _ in found}
                loop.call_soon_threadsafe(
                    _tell, [(some[number][1], what) for number, what in found]
                )
        except Exception as error:
            left = [future for number, (_, future) in enumerate(some) if number not in told]
            loop.call_soon_threadsafe(_tell, [(future, error) for future in left])


def _tell(found: Iterable[tuple[asyncio.Future[_A], _A | Exception]]) -> None:
    for future, what in found:
        if future.done():
            continue
        if isinstance(what, Exception):
            future.set_exception(what)
        else:
            future.set_result(what)
