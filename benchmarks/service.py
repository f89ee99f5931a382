"""How much a service answers, beside its own load generator on the same cores.

    .venv/bin/python benchmarks/service.py [--data ../shared/data/ml-1m.zip] [--members 8]
    .venv/bin/python benchmarks/service.py --mixed 100000 --swaps 10

First each kind of question alone: as fast as can be, then at half that rate for the latencies, and
all as ratios to a route that answers a constant. With `--mixed` writes, questions and swaps of the
model together: every answer is checked, every acknowledged write looked up at the end, and memory
compared over the halves. Bounded by its counts. Writes `benchmarks/results/service.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from data import CACHE, DEFAULT_ZIP, HERE
from load import Asked, run_load
from load import request as written
from provenance import commit, cpu_model

import ordbm

RESULTS = HERE / "results"
CONNECTIONS = 16
GIVEN = 20
KINDS = {
    "constant": "a route that answers a constant",
    "predict": "one prediction for a known user",
    "recommend": "a list of ten of the whole catalogue for a known user",
    "new": f"the same for somebody whose {GIVEN} ratings come in the body",
    "put": "a rating stored",
}
NEEDED = {"predict": 1000.0, "recommend": 200.0, "new": 50.0}
MOST_P99 = 50.0  # milliseconds at half the rate that is needed


class Service:
    """`ordbm serve` as a child of this process."""

    def __init__(self, model: Path, folder: Path, workers: int, database: str | None) -> None:
        url = database or f"sqlite:///{folder / 'ratings.sqlite3'}"
        self.log = (folder / "log").open("w+")
        self.process = subprocess.Popen(  # noqa: S603 -- our own program
            [sys.executable, "-m", "ordbm", "serve", str(model), "--port", "0",
             "--workers", str(workers), "--database", url, "--log-level", "warning"],
            stderr=self.log, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self.place = self._place()
        while not self._is_ready():
            assert self.process.poll() is None, Path(self.log.name).read_text()
            time.sleep(0.2)

    def _place(self) -> tuple[str, int]:
        while True:
            found = re.search(r"http://([\d.]+):(\d+)", Path(self.log.name).read_text())
            if found:
                return found[1], int(found[2])
            assert self.process.poll() is None, Path(self.log.name).read_text()
            time.sleep(0.1)

    def call(self, method: str, path: str) -> Any:
        """A single request's answer."""
        address = f"http://{self.place[0]}:{self.place[1]}{path}"
        with urllib.request.urlopen(urllib.request.Request(address, method=method)) as answer:
            return json.loads(answer.read() or b"null")

    def _is_ready(self) -> bool:
        try:
            return bool(self.call("GET", "/health/ready"))
        except OSError:
            return False

    def memory(self) -> float:
        """Megabytes of all its processes, what they share counted once."""
        total, waiting = 0.0, [self.process.pid]
        while waiting:
            process = waiting.pop()
            try:
                children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
                text = Path(f"/proc/{process}/smaps_rollup").read_text()
            except OSError:
                continue
            waiting += map(int, children)
            total += float(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1]) / 1024  # type: ignore[index]
        return total

    def stop(self) -> None:
        """End it in good order."""
        self.process.terminate()
        self.process.wait(timeout=60)
        self.log.close()


def model_file(data: Path, members: int | None) -> Path:
    """A model of these ratings, learnt once."""
    name = f"service-{data.stem}-{members or 'default'}.ordbm"
    path = CACHE / name
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        told = {} if members is None else {"members": members}
        ordbm.OrdinalBM(**told).fit(ordbm.read_ratings(data)).save(path)
    return path


def questions(kind: str, model: Any, count: int, seed: int) -> list[Asked]:
    """So many requests of a kind."""
    rng = np.random.default_rng(seed)
    users, items = model.users, [one for one in model.items if model.known_items([one])[0]]
    levels = getattr(model.scale, "labels", None) or model.scale.values.tolist()

    def some(of: list[Any]) -> Any:
        return of[int(rng.integers(len(of)))]

    def one() -> bytes:
        if kind == "constant":
            return written("GET", "/health/live")
        if kind == "predict":
            return written("POST", "/v1/predict", {"user": some(users), "items": [some(items)]})
        if kind == "recommend":
            return written("POST", "/v1/recommend", {"user": some(users), "n": 10})
        if kind == "put":
            path = f"/v1/users/{rng.integers(10**6, 2 * 10**6)}/ratings/{some(items)}"
            return written("PUT", path, {"rating": some(levels)})
        given = {str(some(items)): some(levels) for _ in range(GIVEN)}
        return written("POST", "/v1/recommend", {"ratings": given, "n": 10})

    return [Asked(one()) for _ in range(count)]


def shared_out(asked: list[Asked]) -> list[list[Asked]]:
    """Among the connections."""
    return [asked[first::CONNECTIONS] for first in range(CONNECTIONS)]


def throughput(service: Service, model: Any, count: int) -> dict[str, Any]:
    """Rates of each kind alone, beside the constant; latencies at half of what is needed."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        many = max(CONNECTIONS, count // (4 if kind in ("new", "put") else 1))
        run_load(service.place, shared_out(questions(kind, model, CONNECTIONS * 4, 1)))
        load = run_load(service.place, shared_out(questions(kind, model, many, 2)))
        half = NEEDED.get(kind, load.rate) / 2
        paced = run_load(service.place, shared_out(questions(kind, model, many // 2, 3)), half)
        found[kind] = {
            "rate": load.rate, "requests": load.requests, "wrong": load.wrong + paced.wrong,
            "paced_rate": half,
            "p50_ms": paced.milliseconds(0.5), "p99_ms": paced.milliseconds(0.99),
        }  # fmt: skip
        found[kind]["ratio"] = load.rate / found["constant"]["rate"]
        print(f"{kind}: {load.rate:,.0f}/s, p99 {found[kind]['p99_ms']:.1f} ms at {half:,.0f}/s")
    return found


# -- everything at once ----------------------------------------------------------------------------


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


def page(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    about = f"`benchmarks/service.py`, commit {found['commit']}, {found['cpu']}, {found['cores']} "
    about += f"cores with the load generator beside it, {found['workers']} workers, "
    about += f"{found['model']}."
    lines = [
        "# How much a service answers",
        "",
        about,
        "",
    ]
    if "throughput" in found:
        lines.append("| | a second | of a constant's | p50, ms | p99, ms | at a second |")
        lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
        for kind, one in found["throughput"].items():
            cells = f"{one['p50_ms']:.1f} | {one['p99_ms']:.1f} | {one['paced_rate']:,.0f} |"
            lines.append(f"| {KINDS[kind]} | {one['rate']:,.0f} | {one['ratio']:.2f} | {cells}")
    if "mixed" in found:
        one = found["mixed"]
        said = f"Mixed: {one['requests']:,} requests with {one['swaps']} swaps, "
        said += f"{one['rate']:,.0f} a second: {one['n_wrong']} wrong, "
        said += f"{len(one['lost'])} people with lost writes; "
        said += f"{one['memory_third_quarter_mb']:.0f} MB in the third quarter, "
        said += f"{one['memory_last_quarter_mb']:.0f} MB in the last."
        lines += ["", said]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(DEFAULT_ZIP))
    parser.add_argument("--model", type=Path, help="a model file instead")
    parser.add_argument("--members", type=int, default=None)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--mixed", type=int, default=0)
    parser.add_argument("--swaps", type=int, default=10)
    parser.add_argument("--database", help="a URL; SQLite in a folder that goes away unless told")
    told = parser.parse_args()
    path = told.model or model_file(told.data, told.members)
    model = ordbm.load(path)
    found: dict[str, Any] = {
        "commit": commit(), "cpu": cpu_model(), "cores": os.cpu_count(), "workers": told.workers,
        "model": repr(model),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "model.ordbm"
        copy.write_bytes(path.read_bytes())
        service = Service(copy, Path(folder), told.workers, told.database)
        try:
            if told.mixed:
                found["mixed"] = mixed(service, model, told.mixed, told.swaps)
            else:
                found["throughput"] = throughput(service, model, told.requests)
        finally:
            service.stop()
    RESULTS.mkdir(exist_ok=True)
    name = "service-mixed" if told.mixed else "service"
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(page(found))
    print(page(found))


if __name__ == "__main__":
    main()
