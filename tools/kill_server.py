"""Kill `ordbm serve` at random moments under write load, and look what is left:

    PYTHONPATH=tests python tools/kill_server.py [--kills 200] [--rows build/kills.jsonl]

Writers rate, change their minds, withdraw, and send twenty ratings at once; each notes what was
acknowledged, and what was under way. After a kill of both workers at once, every other time of
PostgreSQL's processes too, the database must have of each pair one row with the last that
was acknowledged, or what was under way then, of the twenty all or none. `--rows` keeps outcomes
and goes on after them; `--page` writes them as a page.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from warm_worker import work

from ordbm.serve.rating_rows import pages_of_changes
from ordbm.serve.service_settings import ServiceSettings, database_url
from ordbm.serve.serving import bound_socket, prepare
from ordbm.serve.store import Store
from service_runs import PostgreSQL, small_model, until  # type: ignore[import-not-found]

WRITERS = 4
LONGEST = 1.0  # seconds of load before a kill
N_ITEMS = 40  # of each writer, so that ratings are changed too
AT_ONCE = 20

Pair = tuple[str, str]
Said = dict[Pair, int | None]


@dataclass(frozen=True)
class Outcome:
    """What was found after a kill."""

    database: str
    number: int
    database_too: bool
    seconds: float
    acknowledged: int  # requests
    under_way: int  # ratings that were sent and not answered
    stored: int  # of those
    lost: int
    twice: int
    seed: int = 0


class Writer(threading.Thread):
    """Somebody who writes until the connection breaks."""

    def __init__(self, place: tuple[str, int], name: str) -> None:
        super().__init__(name=name)
        self._place, self._chance = place, random.Random(name)  # noqa: S311
        self.said: Said = {}
        self.under_way: Said = {}
        self.acknowledged = 0

    def run(self) -> None:
        connection = http.client.HTTPConnection(*self._place, timeout=20)
        while True:
            self.under_way, request = self._next()
            try:
                connection.request(*request)
                answer = connection.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException):
                return
            if answer.status not in (200, 204):
                raise SystemExit(f"{request[:2]} was answered by {answer.status}: {body!r}")
            self.said.update(self.under_way)
            self.under_way = {}
            self.acknowledged += 1

    def _next(self) -> tuple[Said, tuple[str, str, str | None, dict[str, str]]]:
        rating, way = self._chance.randint(1, 5), self._chance.random()
        if way < 0.1:
            told: Said = {(self.name, f"many-{item}"): rating for item in range(AT_ONCE)}
            lines = [
                json.dumps({"user": user, "item": item, "rating": rating}) for user, item in told
            ]
            kind = {"Content-Type": "application/x-ndjson"}
            return told, ("POST", "/v1/ratings", "\n".join(lines), kind)
        pair = self.name, f"item-{self._chance.randrange(N_ITEMS)}"
        path = f"/v1/users/{pair[0]}/ratings/{pair[1]}"
        if way < 0.2:
            return {pair: None}, ("DELETE", path, None, {})
        body = json.dumps({"rating": rating})
        return {pair: rating}, ("PUT", path, body, {"Content-Type": "application/json"})


def stored_after(url: str, after: int) -> tuple[list[tuple[Pair, int | None]], int]:
    """What rows later than a change say of their pairs; the last change."""
    store, found = Store(url, 1), []
    for page in pages_of_changes(store, after):
        for row in page:
            rating = None if row.rating is None else int(json.loads(row.rating))
            found.append(((json.loads(row.user), json.loads(row.item)), rating))
        after = page[-1].number
    store.close()
    return found, after


def compared(writer: Writer, stored: Said) -> tuple[int, int]:
    """How many ratings are not what they may be; how many of those under way were stored."""
    lost = sum(
        stored.get(pair) != rating
        for pair, rating in writer.said.items()
        if pair not in writer.under_way
    )
    new = {pair: stored.get(pair) == rating for pair, rating in writer.under_way.items()}
    old = {pair: stored.get(pair) == writer.said.get(pair) for pair in writer.under_way}
    if not all(new.values()) and not all(old.values()):
        lost += len(writer.under_way)  # neither all as it was, nor all as it was to be
    strange = [
        pair
        for pair in stored
        if pair[0] == writer.name and pair not in writer.said and pair not in writer.under_way
    ]
    return lost + len(strange), sum(new.values())


def started(settings: ServiceSettings, run_folder: Path) -> tuple[list[Any], tuple[str, int]]:
    """Workers that are ready, and where they listen."""
    prepare(settings)
    listening = bound_socket("127.0.0.1", 0)
    place = listening.getsockname()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["warm_worker"])
    run_folder.mkdir(exist_ok=True)
    workers: list[Any] = [
        context.Process(target=work, args=(settings, run_folder, listening), daemon=True)
        for _ in range(settings.workers)
    ]
    for one in workers:
        one.start()
    listening.close()
    until(lambda: _is_ready(place))
    return workers, place


def _is_ready(place: tuple[str, int]) -> bool:
    connection = http.client.HTTPConnection(*place, timeout=10)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def kill_once(
    kind: str, number: int, chance: random.Random, url: str, model: Path, postgresql: Any, last: int
) -> tuple[Outcome, int]:
    """Serve, write, kill, look."""
    settings = ServiceSettings(
        model=model, database=url, workers=2, poll=0.1, log_level="error", timeout=30.0
    )
    workers, place = started(settings, model.with_name(f"run-{number}"))
    names = [f"{kind}-{number}-{one}" for one in range(WRITERS)]
    writers = [Writer(place, name) for name in names]
    for one in writers:
        one.start()
    seconds = chance.uniform(0.0, LONGEST)
    time.sleep(seconds)
    database_too = postgresql is not None and number % 2 == 1
    if database_too:
        postgresql.kill()
    for worker in workers:
        worker.kill()
    for one in (*workers, *writers):
        one.join()
    if database_too:
        postgresql.start()
    rows, last = stored_after(url, last)
    found = [compared(one, dict(rows)) for one in writers]
    outcome = Outcome(
        kind, number, database_too, round(seconds, 3),
        acknowledged=sum(one.acknowledged for one in writers),
        under_way=sum(len(one.under_way) for one in writers),
        stored=sum(stored for _, stored in found),
        lost=sum(lost for lost, _ in found),
        twice=len(rows) - len({pair for pair, _ in rows}),
    )  # fmt: skip
    return outcome, last


def kills(kind: str, numbers: range, seed: int) -> Iterator[Outcome]:
    """So many kills of services of one database."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)  # PostgreSQL runs as somebody else
        model, postgresql = folder / "model.ordbm", None
        small_model().save(model)
        url = database_url(None, model)
        if kind == "PostgreSQL":
            postgresql = PostgreSQL()
            url = postgresql.new_database()
        last = 0
        try:
            for number in numbers:
                chance = random.Random(f"{seed} {kind} {number}")  # noqa: S311
                outcome, last = kill_once(kind, number, chance, url, model, postgresql, last)
                yield outcome
        finally:
            if postgresql is not None:
                postgresql.close()


def page(found: list[Outcome]) -> str:
    """The outcomes as Markdown."""
    lines = [
        "# Kills under write load",
        "",
        "Two workers of a service are killed at once (`kill -9`) at a random moment of their first",
        f"{LONGEST} s of load, every other time all processes of PostgreSQL with them. {WRITERS}",
        "clients rate, change and withdraw ratings, and send twenty at once. Then the database",
        "must have of each pair one row, with the last that was acknowledged or, where a request",
        "was under way, what that one said; of twenty at once all or none.",
        "",
        "```text",
        *_commands(found),
        "```",
        "",
        (
            "| database | kills | of the database too | requests acknowledged | ratings under way "
            "| of them stored | lost or wrong | twice |"
        ),
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind in sorted({one.database for one in found}):
        some = [one for one in found if one.database == kind]
        sums = [
            sum(getattr(one, name) for one in some)
            for name in ("database_too", "acknowledged", "under_way", "stored", "lost", "twice")
        ]
        cells = [kind, f"{len(some):,}", *(f"{one:,}" for one in sums)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _commands(found: list[Outcome]) -> list[str]:
    """What was run, and how often on each database; `make kills` does all of it."""
    counts = Counter((one.database, one.seed) for one in found)
    return [
        f"tools/kill_server.py --on {kind} --kills {count} --seed {seed}"
        for (kind, seed), count in sorted(counts.items())
    ]


def main() -> None:
    """Kill and look, so many times on each database; exit status 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="of each database")
    parser.add_argument("--on", choices=("SQLite", "PostgreSQL"), help="one database alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--rows", type=Path, help="keep outcomes here, and go on after them")
    parser.add_argument("--page", type=Path, help="where to write the table")
    told = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    started, found = time.monotonic(), []
    if told.rows and told.rows.exists():
        found = [Outcome(**json.loads(line)) for line in told.rows.read_text().splitlines()]
    for kind in [told.on] if told.on else ["SQLite", "PostgreSQL"]:
        first = sum(one.database == kind for one in found)
        for one in kills(kind, range(first, told.kills), told.seed):
            outcome = replace(one, seed=told.seed)
            found.append(outcome)
            if told.rows:
                with told.rows.open("a") as file:
                    file.write(json.dumps(asdict(outcome)) + "\n")
            if outcome.lost or outcome.twice:
                print(outcome)
            if time.monotonic() - started > told.seconds:
                break
    print(page(found))
    if told.page:
        told.page.write_text(page(found))
    sys.exit(any(one.lost or one.twice for one in found))


if __name__ == "__main__":
    main()
