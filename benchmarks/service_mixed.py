"""A service under all kinds of requests at once, with swaps of its model in between.

    .venv/bin/python benchmarks/service_mixed.py [--requests 100000] [--swaps 10]

People rate, change their minds, withdraw and ask; every answer is checked against what has been
acknowledged, every acknowledged rating is looked up at the end, and memory is compared over the
halves. New people come all the time. Writes `benchmarks/results/service-mixed.json` and `.md`.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
from typing import Any

import numpy as np
from load import Asked, run_load
from load import request as written
from served import CONNECTIONS, Service

REQUESTS_EACH = 200  # of a person, then somebody new comes


class Person:
    """Somebody who rates and asks; knows what has been acknowledged."""

    def __init__(self, number: int, model: Any) -> None:
        self.user = f"load-{number}"
        self.said: dict[Any, Any] = {}
        self.items = [one for one in model.items if model.known_items([one])[0]]
        self.levels = getattr(model.scale, "labels", None) or model.scale.values.tolist()
        self.rng = np.random.default_rng(number)

    def requests(self, count: int, stranger: list[Any]) -> Any:
        """Writes, and questions whose answers must know them."""
        for _ in range(count):
            way = self.rng.random()
            if way < 0.2:
                yield self._write()
            elif way < 0.25 and self.said:
                yield self._withdraw()
            elif way < 0.5:
                yield self._read()
            elif way < 0.75:
                yield self._list()
            else:
                user = stranger[int(self.rng.integers(len(stranger)))]
                item = self.items[int(self.rng.integers(len(self.items)))]
                yield Asked(written("POST", "/v1/predict", {"user": user, "items": [item]}))

    def _path(self, item: Any) -> str:
        return f"/v1/users/{self.user}/ratings/{item}"

    def _write(self) -> Asked:
        item = self.items[int(self.rng.integers(min(40, len(self.items))))]
        rating = self.levels[int(self.rng.integers(len(self.levels)))]

        def acknowledged(status: int, body: bytes) -> str | None:
            if status != 200:
                return f"put {status}: {body[:200]!r}"
            self.said[item] = rating
            return None

        return Asked(written("PUT", self._path(item), {"rating": rating}), acknowledged)

    def _withdraw(self) -> Asked:
        item = next(iter(self.said))

        def acknowledged(status: int, body: bytes) -> str | None:
            if status != 204:
                return f"delete {status}: {body[:200]!r}"
            del self.said[item]
            return None

        return Asked(written("DELETE", self._path(item)), acknowledged)

    def _read(self) -> Asked:
        def knows(status: int, body: bytes) -> str | None:
            if status == 404 and not self.said:
                return None
            if status != 200:
                return f"get {status}: {body[:200]!r}"
            found = {one["item"]: one["rating"] for one in json.loads(body)["ratings"]}
            return None if found == self.said else f"stale: {found} for {self.said}"

        return Asked(written("GET", f"/v1/users/{self.user}?limit=1000"), knows)

    def _list(self) -> Asked:
        def leaves_out(status: int, body: bytes) -> str | None:
            if status != 200:
                return f"recommend {status}: {body[:200]!r}"
            listed = {one["item"] for one in json.loads(body)["items"]}
            return (
                f"rated items listed: {listed & set(self.said)}"
                if listed & set(self.said)
                else None
            )

        return Asked(written("POST", "/v1/recommend", {"user": self.user, "n": 20}), leaves_out)


def watch_memory(
    service: Service, memory: list[tuple[float, float]], ended: threading.Event
) -> None:
    """Note seconds and megabytes, once a second."""
    started = time.perf_counter()
    while not ended.wait(1.0):
        memory.append((time.perf_counter() - started, service.memory()))


def swap_models(service: Service, swaps: int, ended: threading.Event, faults: list[str]) -> None:
    """One update, then back and forth between it and the first version."""
    try:
        service.call("POST", "/v1/model/update")
        while len(service.call("GET", "/v1/model/versions")["versions"]) < 2:
            if ended.wait(0.5):
                faults.append("the update did not end in time")
                return
        for number in range(swaps - 1):
            if ended.wait(1.5):
                faults.append(f"only {number + 1} swaps happened in time")
                return
            service.call("POST", f"/v1/model/versions/{1 + number % 2}/activate")
    except OSError as error:
        faults.append(f"swap: {error}")


def mixed(service: Service, model: Any, count: int, swaps: int) -> dict[str, Any]:
    """All at once, with swaps of the model in between."""
    people = [Person(number, model) for number in range(CONNECTIONS)]
    shares: Any = [one.requests(count // CONNECTIONS, model.users) for one in people]
    memory: list[tuple[float, float]] = []
    ended, faults = threading.Event(), []
    threads = [threading.Thread(target=watch_memory, args=(service, memory, ended))]
    if swaps:
        threads.append(threading.Thread(target=swap_models, args=(service, swaps, ended, faults)))
    for one in threads:
        one.start()
    load = run_load(service.place, shares)
    ended.set()
    for one in threads:
        one.join()
    lost = [one.user for one in people if _stored(service, one.user) != one.said]
    late = [used for second, used in memory if second > load.seconds / 2] or [0.0]
    cut = len(late) // 2 or 1
    return {
        "requests": load.requests, "rate": load.rate, "p99_ms": load.milliseconds(0.99),
        "wrong": load.wrong[:20] + faults, "n_wrong": len(load.wrong) + len(faults), "lost": lost,
        "swaps": swaps, "memory_third_quarter_mb": float(np.median(late[:cut])),
        "memory_last_quarter_mb": float(np.median(late[cut:] or late)),
    }  # fmt: skip


def _stored(service: Service, user: str) -> dict[Any, Any]:
    try:
        found = service.call("GET", f"/v1/users/{user}?limit=1000")
    except urllib.error.HTTPError:
        return {}
    return {one["item"]: one["rating"] for one in found["ratings"]}
