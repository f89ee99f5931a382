"""A load generator: connections that stay open, requests written beforehand, latencies noted."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

import numpy as np

Check = Callable[[int, bytes], str | None]  # what is wrong with a status and a body, if anything


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


class Connection:
    """One connection, one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._place = host, port

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(*self._place)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def ask(self, raw: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        self._writer.write(raw)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = await self._reader.readexactly(length) if length else b""
        return int(head[9:12]), body


async def _worker(
    place: tuple[str, int],
    share: Iterable[Asked],
    latency: list[float],
    wrong: list[str],
    gap: float,
) -> None:
    async with Connection(*place) as connection:
        due = time.perf_counter()
        for one in share:
            if gap:  # at a steady pace: a late answer makes those after it late
                due += gap
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            started = due if gap else time.perf_counter()
            status, body = await connection.ask(one.raw)
            latency.append(time.perf_counter() - started)
            fault = one.check(status, body) if one.check else _refused(status, body)
            if fault:
                wrong.append(fault)


def _refused(status: int, body: bytes) -> str | None:
    return None if status < 300 else f"{status}: {body[:200].decode(errors='replace')}"


def run_load(place: tuple[str, int], shares: list[list[Asked]], rate: float | None = None) -> Load:
    """Ask each share on a connection of its own, as fast as can be or at `rate` in all."""
    latency: list[float] = []
    wrong: list[str] = []
    gap = len(shares) / rate if rate else 0.0

    async def all_of_them() -> None:
        await asyncio.gather(*(_worker(place, one, latency, wrong, gap) for one in shares))

    started = time.perf_counter()
    asyncio.run(all_of_them())
    seconds = time.perf_counter() - started
    return Load(len(latency), seconds, np.array(latency), wrong)
