"""A service under all kinds of requests at once, with swaps of its model in between.

    .venv/bin/python benchmarks/service_mixed.py [--requests 100000] [--swaps 10]

New people come all the time, rate, change their minds, withdraw and ask. Every answer is checked
against what has been acknowledged to whoever asks, what everybody said is looked up at the end,
and memory is compared over the quarters. An update of the model is the first swap; after it the
service goes back and forth between the two versions. Writes `benchmarks/results/service-mixed.json`
and `.md`.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from load import Asked, run_load
from load import request as written
from served import CONNECTIONS, Service, options, served, write_results

EACH = 100  # requests of a person; then somebody new comes
N_ITEMS = 40  # that a person rates: few, so that ratings are changed and withdrawn
CONTENT = {"write": 0.3, "withdraw": 0.05, "read": 0.25, "list": 0.1, "predict": 0.3}
SWAP_SECONDS = 120.0


class Catalogue(NamedTuple):
    """What may be rated, and how."""

    items: list[Any]
    levels: list[Any]


class Visitor:
    """Somebody new who rates and asks; knows what has been acknowledged."""

    def __init__(self, name: str, seed: list[int], catalogue: Catalogue) -> None:
        self.name, self.said = name, dict[Any, Any]()
        self._rng, self._catalogue = np.random.default_rng(seed), catalogue
        self._mine = self._rng.choice(len(catalogue.items), N_ITEMS, replace=False).tolist()

    def next(self) -> Asked:
        """A request of some kind, with what its answer must know."""
        kind = self._rng.choice(list(CONTENT), p=list(CONTENT.values()))
        if kind == "withdraw" and not self.said:
            kind = "write"
        return getattr(self, f"_{kind}")()

    def _item(self) -> Any:
        return self._catalogue.items[self._mine[int(self._rng.integers(N_ITEMS))]]

    def _path(self, item: Any) -> str:
        return f"/v1/users/{self.name}/ratings/{item}"

    def _write(self) -> Asked:
        item = self._item()
        rating = self._catalogue.levels[int(self._rng.integers(len(self._catalogue.levels)))]

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
        return Asked(written("GET", f"/v1/users/{self.name}?limit=1000"), self.knows_all)

    def knows_all(self, status: int, body: bytes) -> str | None:
        """What is wrong with a profile."""
        if status == 404 and not self.said:
            return None
        if status != 200:
            return f"get {status}: {body[:200]!r}"
        found = {one["item"]: one["rating"] for one in json.loads(body)["ratings"]}
        return None if found == self.said else f"{self.name} said {self.said}, not {found}"

    def _list(self) -> Asked:
        def leaves_out(status: int, body: bytes) -> str | None:
            if status != 200:
                return f"recommend {status}: {body[:200]!r}"
            rated = {one["item"] for one in json.loads(body)["items"]} & set(self.said)
            return f"rated items are listed: {rated}" if rated else None

        return Asked(written("POST", "/v1/recommend", {"user": self.name, "n": 20}), leaves_out)

    def _predict(self) -> Asked:
        def is_known(status: int, body: bytes) -> str | None:
            if status != 200:
                return f"predict {status}: {body[:200]!r}"
            known = json.loads(body)["known_user"]
            return None if known == bool(self.said) else f"known_user is {known} for {self.said}"

        asked = {"user": self.name, "items": [self._item()]}
        return Asked(written("POST", "/v1/predict", asked), is_known)


class Crowd:
    """All who come, on each connection one after the other."""

    def __init__(self, catalogue: Catalogue, count: int) -> None:
        self.visitors: list[Visitor] = []
        self.asked, self.count, self._catalogue = 0, count, catalogue

    def requests(self, connection: int) -> Iterator[Asked]:
        """What is asked on a connection."""
        for number in range(self.count // CONNECTIONS):
            if number % EACH == 0:
                name = f"visitor-{connection}-{number // EACH}"
                visitor = Visitor(name, [connection, number], self._catalogue)
                self.visitors.append(visitor)
            self.asked += 1
            yield visitor.next()


class Swapper(threading.Thread):
    """Swaps models evenly over the load, and waits until every worker has swapped."""

    def __init__(self, service: Service, crowd: Crowd, swaps: int) -> None:
        super().__init__()
        self._service, self._crowd, self._swaps = service, crowd, swaps
        self.faults: list[str] = []
        self.at: list[float] = []  # seconds of the load, when each had happened
        self.ended = threading.Event()

    def run(self) -> None:
        started = time.perf_counter()
        try:
            for number in range(self._swaps):
                while self._crowd.asked < self._crowd.count * (number + 1) / (self._swaps + 2):
                    if self.ended.wait(0.2):
                        break
                self._swap(number)
                self.at.append(time.perf_counter() - started)
        except (OSError, TimeoutError) as error:
            self.faults.append(f"swap {len(self.at) + 1}: {error}")
        if self.ended.is_set():
            self.faults.append(f"the load ended after {len(self.at)} swaps")

    def _swap(self, number: int) -> None:
        if number:
            versions = f"/v1/model/versions/{1 + number % 2}/activate"
            expected = self._service.call("POST", versions)["version"]
        else:
            self._service.call("POST", "/v1/model/update")
            expected = self._updated()
        end, seen = time.monotonic() + SWAP_SECONDS, 0
        while seen < 10:  # in a row, on connections of their own: of every worker
            time.sleep(0.1)
            same = self._service.call("GET", "/v1/model")["version"] == expected
            seen = seen + 1 if same else 0
            if time.monotonic() > end:
                raise TimeoutError("not every worker has swapped in time")

    def _updated(self) -> str:
        """The version that an update has made."""
        while not self.ended.is_set():
            time.sleep(0.5)
            newest = self._service.call("GET", "/v1/model/versions")["versions"][0]
            if newest["state"] == "active" and newest["number"] > 1:
                return str(newest["version"])
            if newest["state"] == "refused":
                raise OSError("the update was refused")
        raise TimeoutError("the update did not end before the load")


def watch_memory(
    service: Service, memory: list[tuple[float, float]], ended: threading.Event
) -> None:
    """Note seconds and megabytes, once a second."""
    started = time.perf_counter()
    while not ended.wait(1.0):
        memory.append((time.perf_counter() - started, service.memory()))


def mixed(service: Service, model: Any, count: int, swaps: int) -> dict[str, Any]:
    """All at once; what was wrong, lost, and how memory went."""
    items = [one for one in model.items if model.known_items([one])[0]]
    levels = getattr(model.scale, "labels", None) or model.scale.values.tolist()
    crowd = Crowd(Catalogue(items, levels), count)
    swapper = Swapper(service, crowd, swaps)
    memory: list[tuple[float, float]] = []
    watcher = threading.Thread(target=watch_memory, args=(service, memory, swapper.ended))
    swapper.start()
    watcher.start()
    load = run_load(service.place, [crowd.requests(one) for one in range(CONNECTIONS)])
    swapper.ended.set()
    swapper.join()
    watcher.join()
    at_end = [
        Asked(written("GET", f"/v1/users/{one.name}?limit=1000"), one.knows_all)
        for one in crowd.visitors
    ]
    lost = run_load(service.place, [at_end[one::CONNECTIONS] for one in range(CONNECTIONS)])
    quarters = np.linspace(0, load.seconds, 5)
    return {
        "requests": load.requests, "seconds": load.seconds, "rate": load.rate,
        "p99_ms": load.milliseconds(0.99), "people": len(crowd.visitors),
        "ratings": sum(len(one.said) for one in crowd.visitors), "swaps_at": swapper.at,
        "n_wrong": len(load.wrong), "n_lost": len(lost.wrong), "n_faults": len(swapper.faults),
        "wrong": [*load.wrong[:10], *lost.wrong[:10], *swapper.faults],
        "memory_mb": _between(memory, quarters, np.median),
        "memory_at_rest_mb": _between(memory, [*swapper.at, load.seconds], np.min),
        "memory_by_second": {round(second): round(mb) for second, mb in memory[::10]},
    }  # fmt: skip


def _between(memory: list[tuple[float, float]], ends: Any, of: Any) -> list[float]:
    """A figure of the memory between each end and the next."""
    return [
        float(of([mb for second, mb in memory if begin <= second < end] or [np.nan]))
        for begin, end in pairwise(ends)
    ]


def lines_of(found: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    one = found["mixed"]
    content = ", ".join(f"{kind} {share:.0%}" for kind, share in CONTENT.items())
    swaps = ", ".join(f"{second:.0f}" for second in one["swaps_at"])
    quarters = ", ".join(f"{mb:,.0f}" for mb in one["memory_mb"])
    at_rest = ", ".join(f"{mb:,.0f}" for mb in one["memory_at_rest_mb"])
    return [
        "# A service under all kinds of requests at once",
        "",
        (
            f"{one['requests']:,} requests ({content}) of {one['people']:,} people who came one "
            f"after the other, on {CONNECTIONS} connections, in {one['seconds']:,.0f} s."
        ),
        "",
        "| | |",
        "| --- | --- |",
        f"| errors, and answers that did not know what was acknowledged | {one['n_wrong']} |",
        (
            f"| people whose ratings were not all there at the end, of {one['ratings']:,} ratings "
            f"| {one['n_lost']} |"
        ),
        f"| swaps of the model, all workers had it after s | {len(one['swaps_at'])}: {swaps} |",
        f"| memory of all processes in each quarter, median, MB | {quarters} |",
        f"| the least between each swap and the next, or the end, MB | {at_rest} |",
        f"| requests a second; p99, ms | {one['rate']:,.0f}; {one['p99_ms']:.0f} |",
    ]


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options(parser)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--swaps", type=int, default=10)
    told = parser.parse_args()
    with served(told, "--timeout", "30") as (service, model, about):
        found = {**about, "mixed": mixed(service, model, told.requests, told.swaps)}
    write_results("service-mixed", found, lines_of(found))
    for fault in found["mixed"]["wrong"]:
        print(fault)


if __name__ == "__main__":
    main()
