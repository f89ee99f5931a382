"""Where requests are worked on: a few threads, a short queue, and a refusal beyond it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ordbm.serve.problems import unavailable

_T = TypeVar("_T")


class Workroom:
    """Runs blocking work beside the event loop; more than `threads + queue` at once is refused."""

    def __init__(self, threads: int, queue: int, timeout: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="work")
        self._places, self._timeout = threads + queue, timeout
        self.taken = 0

    async def do(self, work: Callable[[], _T], timeout: float | None = None) -> _T:
        """What `work` returns. After the timeout nobody waits for it, but its place stays taken."""
        self.check_for_room()
        return await self.outcome(self.begin(work), timeout)

    def check_for_room(self) -> None:
        """A problem if all places are taken."""
        if self.taken >= self._places:
            raise unavailable("too many requests are waiting: come back in a moment")

    def begin(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        """Let a thread do it as soon as one is free."""
        within = contextvars.copy_context().run  # spans of the work belong to the request's
        return asyncio.get_running_loop().run_in_executor(self._pool, within, work)

    async def outcome(self, future: asyncio.Future[_T], timeout: float | None = None) -> _T:
        """What comes of it, which takes a place until then."""
        self.taken += 1
        future.add_done_callback(self._leave)
        done, _ = await asyncio.wait({future}, timeout=timeout or self._timeout)
        if not done:
            raise unavailable("the answer took too long")
        return future.result()

    def _leave(self, future: asyncio.Future[_T]) -> None:
        self.taken -= 1
        if not future.cancelled():
            future.exception()  # heard, whoever has stopped waiting

    def close(self) -> None:
        """End when the work under way has."""
        self._pool.shutdown(wait=True, cancel_futures=True)
