"""A service as a child of a benchmark, and the model that it serves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from data import CACHE, DEFAULT_ZIP, HERE
from provenance import commit, cpu_model

import ordbm

RESULTS = HERE / "results"
CONNECTIONS = 16


class Service:
    """`ordbm serve` as a child of this process."""

    def __init__(
        self, model: Path, folder: Path, workers: int, database: str | None, *more: str
    ) -> None:
        url = database or f"sqlite:///{folder / 'ratings.sqlite3'}"
        self.log = (folder / "log").open("w+")
        self.process = subprocess.Popen(  # noqa: S603 -- our own program
            [sys.executable, "-m", "ordbm", "serve", str(model), "--port", "0",
             "--workers", str(workers), "--database", url, *more],
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


def write_results(name: str, found: dict[str, Any], lines: list[str]) -> None:
    """The figures as JSON, and as a page that says of what and where they are."""
    about = f"`benchmarks/{name.replace('-', '_')}.py`, commit {found['commit']}, {found['cpu']}, "
    about += f"{found['cores']} cores with the load generator beside it, {found['workers']} "
    about += f"workers, {found['database']}, `{found['model']}`: {found['ratings']:,} ratings of "
    about += f"{found['users']:,} people and {found['items']:,} items."
    page = "\n".join([*lines[:2], about, "", *lines[2:]]) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(page)
    print(page)


def options(parser: Any) -> None:
    """What both benchmarks of a service are told."""
    parser.add_argument("--data", type=Path, default=Path(DEFAULT_ZIP))
    parser.add_argument("--model", type=Path, help="a model file instead")
    parser.add_argument("--members", type=int, default=None)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--database", help="a URL; SQLite in a folder that goes away unless told")


@contextmanager
def served(told: Any, *more: str) -> Iterator[tuple[Service, Any, dict[str, Any]]]:
    """The service, its model, and what to say of them."""
    path = told.model or model_file(told.data, told.members)
    model = ordbm.load(path)
    about = {
        "commit": commit(), "cpu": cpu_model(), "cores": os.cpu_count(), "workers": told.workers,
        "database": "PostgreSQL" if told.database else "SQLite", "model": repr(model),
        "users": len(model.users), "items": len(model.items),
        "ratings": len(model._state.given.by_user.column),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "model.ordbm"
        copy.write_bytes(path.read_bytes())
        service = Service(copy, Path(folder), told.workers, told.database, *more)
        try:
            yield service, model, about
        finally:
            service.stop()
