"""A load generator: connections that stay open, requests written beforehand, latencies noted.

It shares the machine with what it measures, so it costs as little as it can: one callback of the
event loop (uvloop's) for each answer, and no more of HTTP than a status and a length.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import uvloop

Check = Callable[[int, bytes], str | None]  # what is wrong with a status and a body, if anything
_LENGTH = b"content-length: "


class Asked(NamedTuple):
    """A request as bytes, and what its answer must be."""

    raw: bytes
    check: Check | None = None


class Load(NamedTuple):
    """What came of many requests."""

    requests: int
    seconds: float
    latency: np.ndarray
    wrong: list[str]

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    def milliseconds(self, q: float) -> float:
        return 1000 * float(np.quantile(self.latency, q))


def request(method: str, path: str, body: Any = None) -> bytes:
    """A request to localhost that keeps its connection."""
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return head.encode() + b"\r\n" + content


class Connection(asyncio.Protocol):
    """One connection, one request at a time, at a steady pace if there is a gap between them."""

    def __init__(self, share: Iterable[Asked], start: float, gap: float) -> None:
        self.latency: list[float] = []
        self.wrong: list[str] = []
        self.ended = asyncio.get_running_loop().create_future()
        self._share: Iterator[Asked] = iter(share)
        self._due, self._gap = start, gap
        self._loop = asyncio.get_running_loop()
        self._answer = b""
        self._started = 0.0

    def connection_made(self, transport: Any) -> None:
        """Ask the first."""
        self._transport = transport
        self._next()

    def _next(self) -> None:
        asked = next(self._share, None)
        if asked is None:
            self._transport.close()
            self.ended.set_result(None)
            return
        self._asked = asked
        # At a pace, a late answer makes those after it late: they count from when they were due.
        wait = self._due - time.perf_counter() if self._gap else 0.0
        if wait > 0:
            self._loop.call_later(wait, self._send)
        else:
            self._send()

    def _send(self) -> None:
        self._started = self._due if self._gap else time.perf_counter()
        self._due += self._gap
        self._transport.write(self._asked.raw)

    def data_received(self, data: bytes) -> None:
        """Once an answer is whole, note it and ask the next."""
        self._answer += data
        end = self._answer.find(b"\r\n\r\n")
        if end < 0:
            return
        place = self._answer.find(_LENGTH, 0, end)
        length = 0
        if place >= 0:
            length = int(self._answer[place + len(_LENGTH) :].split(b"\r", 1)[0])
        if len(self._answer) < end + 4 + length:
            return
        self.latency.append(time.perf_counter() - self._started)
        status, body = int(self._answer[9:12]), self._answer[end + 4 :]
        self._answer = b""
        check = self._asked.check or _refused
        fault = check(status, body)
        if fault:
            self.wrong.append(fault)
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        """An answer that never comes is a fault."""
        if not self.ended.done():
            self.wrong.append(f"the connection was lost: {exc}")
            self.ended.set_result(None)


def _refused(status: int, body: bytes) -> str | None:
    return None if status < 300 else f"{status}: {body[:200].decode(errors='replace')}"


def run_load(
    place: tuple[str, int], shares: list[Iterable[Asked]], rate: float | None = None
) -> Load:
    """Ask each share on a connection of its own, as fast as can be or at `rate` in all."""
    gap = len(shares) / rate if rate else 0.0
    gc.collect()
    gc.freeze()  # what was written beforehand is not looked through while it is measured

    async def all_of_them() -> tuple[list[Connection], float]:
        loop, start = asyncio.get_running_loop(), time.perf_counter()
        made = [
            (await loop.create_connection(partial(connection, one, number), *place))[1]
            for number, one in enumerate(shares)
        ]
        for one in made:
            await one.ended
        return made, time.perf_counter() - start

    def connection(share: Iterable[Asked], number: int) -> Connection:
        # Evenly spread, not all of them at once.
        return Connection(share, time.perf_counter() + gap * number / len(shares), gap)

    made, seconds = uvloop.run(all_of_them())
    gc.unfreeze()
    latency = np.array([one for each in made for one in each.latency])
    return Load(len(latency), seconds, latency, [one for each in made for one in each.wrong])
