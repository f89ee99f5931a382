"""Kill `ordbm serve` at random moments under write load, and look what is left:

    python tools/kill_server.py [--kills 200] [--seed 0] [--database postgresql://…]

Writers note what was acknowledged. After each kill, of all processes of the server at once, every
acknowledged rating must be in the database, none twice, and nothing that nobody sent. Without
`--database` it is SQLite; with a server of PostgreSQL it is the service alone that is killed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import ordbm
from ordbm.serve.rating_rows import changes
from ordbm.serve.service_settings import database_url
from ordbm.serve.store import Store

WRITERS = 4
LONGEST = 1.5  # seconds of load before a kill

Pair = tuple[str, str]


def small_model(path: Path) -> None:
    """A model of a few ratings: what is tried is the database."""
    rng = np.random.default_rng(0)
    user, item = np.divmod(rng.permutation(600)[:300], 20)
    ratings = ordbm.Ratings(user, item, rng.integers(1, 6, 300), scale=[1, 2, 3, 4, 5])
    ordbm.OrdinalBM(hidden=2, members=1, epochs=1, item_links=0, threads=1).fit(ratings).save(path)


class Killable:
    """A server whose processes are one group."""

    def __init__(self, model: Path, url: str, log: Path) -> None:
        self._log = log.open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ordbm", "serve", str(model), "--port", "0", "--workers", "2",
             "--log-level", "error"],
            stderr=self._log, start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "ORDBM_DATABASE": url},
        )  # fmt: skip
        while not (found := re.search(r"http://([\d.]+):(\d+)", log.read_text())):
            self._check(log)
        self.place = found[1], int(found[2])
        while self._status() != 200:
            self._check(log)

    def _check(self, log: Path) -> None:
        if self.process.poll() is not None:
            raise SystemExit(f"the server ended: {log.read_text()}")
        time.sleep(0.1)

    def _status(self) -> int:
        try:
            connection = http.client.HTTPConnection(*self.place, timeout=10)
            connection.request("GET", "/health/ready")
            return connection.getresponse().status
        except OSError:
            return 0

    def kill(self) -> None:
        """End all of it at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()


def write_until_killed(
    place: tuple[str, int], name: str, sent: set[Pair], acknowledged: set[Pair]
) -> None:
    """Ratings one after the other on one connection, until it breaks."""
    connection = http.client.HTTPConnection(*place, timeout=10)
    for step in range(10**6):
        pair = name, f"item-{step}"
        sent.add(pair)
        try:
            connection.request(
                "PUT", f"/v1/users/{pair[0]}/ratings/{pair[1]}", json.dumps({"rating": 3}),
                {"Content-Type": "application/json"},
            )  # fmt: skip
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            return
        if answer.status == 200:
            acknowledged.add(pair)


def stored_pairs(url: str, after: int) -> tuple[list[Pair], int]:
    """The pairs of changes after this one, and the last change."""
    store, found = Store(url, 1), []
    while page := store.read(lambda connection: changes(connection, after)):  # noqa: B023
        found += [(json.loads(row.user), json.loads(row.item)) for row in page]
        after = page[-1].number
    store.close()
    return found, after


def main() -> None:
    """Kill and look, so many times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--database")
    told = parser.parse_args()
    chance, n_acknowledged, n_unknown, last = random.Random(told.seed), 0, 0, 0  # noqa: S311
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.ordbm"
        small_model(model)
        url = database_url(told.database, model)
        for kill in range(told.kills):
            server = Killable(model, url, Path(folder) / "log")
            sent: set[Pair] = set()
            acknowledged: set[Pair] = set()
            threads = [
                threading.Thread(
                    target=write_until_killed,
                    args=(server.place, f"kill-{told.seed}-{kill}-{number}", sent, acknowledged),
                )
                for number in range(WRITERS)
            ]
            for thread in threads:
                thread.start()
            time.sleep(chance.uniform(0.0, LONGEST))
            server.kill()
            for thread in threads:
                thread.join()
            stored, last = stored_pairs(url, last)
            lost, twice = acknowledged - set(stored), len(stored) - len(set(stored))
            strange = set(stored) - sent
            n_acknowledged += len(acknowledged)
            n_unknown += len(set(stored) - acknowledged)
            if lost or twice or strange:
                raise SystemExit(f"kill {kill}: lost {lost}, {twice} twice, strange {strange}")
            print(f"kill {kill + 1}: {len(acknowledged)} acknowledged, all there", flush=True)
    print(
        f"{told.kills} kills: {n_acknowledged:,} acknowledged ratings, all there, none twice; "
        f"{n_unknown:,} were stored and not yet acknowledged"
    )


if __name__ == "__main__":
    main()
