"""Lists that were shown, under the ids that feedback names; stored a little later, many at once.

A list is no rating: one that was shown in the second before a crash may be lost, and feedback on it
is kept all the same. Feedback that comes before its list gets the list's person with it.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Hashable
from typing import Any

from sqlalchemy import delete
from sqlalchemy.exc import SQLAlchemyError

from ordbm.serve.feedback_rows import put_lists
from ordbm.serve.id_text import key_of_id
from ordbm.serve.rating_rows import ROWS_AT_ONCE
from ordbm.serve.schema import LISTS
from ordbm.serve.service_log import SERVICE_LOG
from ordbm.serve.store import Store

EVERY = 0.5  # seconds
MOST_WAITING = 10_000


class ShownLists:
    """Takes lists at once, writes them from a thread of its own, forgets old ones."""

    def __init__(self, store: Store, keep: float) -> None:
        self._store, self._keep = store, keep
        self._waiting: queue.Queue[dict[str, Any]] = queue.Queue(MOST_WAITING)
        self._rows: list[dict[str, Any]] = []  # taken from there, and not written yet
        self._one_writer = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lists", daemon=True)
        self._next_cleaning = 0.0

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def note(self, list_id: str, user: Hashable | None, model: str, items: list[Any]) -> None:
        """A list has been shown; beyond what can wait it is not kept."""
        key = None if user is None else key_of_id(user)
        row = {
            "list_id": list_id, "user": key, "model": model, "items": json.dumps(items),
            "time": time.time(),
        }  # fmt: skip
        try:
            self._waiting.put_nowait(row)
        except queue.Full:
            SERVICE_LOG.warning("a list was shown and not kept: too many are waiting")

    def end(self) -> None:
        """Write what is left."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def write(self) -> None:
        """Store what is waiting now."""
        with self._one_writer:
            while self._write_some():
                pass

    def _run(self) -> None:
        ending = False
        while not ending:
            ending = self._ended.wait(EVERY)
            try:
                self.write()
                self._forget_old()
            except (SQLAlchemyError, OSError):
                SERVICE_LOG.warning("shown lists could not be written")

    def _write_some(self) -> bool:
        """Whether there may be more; what could not be written is there the next time."""
        while len(self._rows) < ROWS_AT_ONCE and not self._waiting.empty():
            self._rows.append(self._waiting.get_nowait())
        rows = self._rows
        if rows:
            self._store.write(lambda connection: put_lists(connection, rows))
            self._rows = []
        return len(rows) == ROWS_AT_ONCE

    def _forget_old(self) -> None:
        if time.monotonic() < self._next_cleaning:
            return
        self._next_cleaning = time.monotonic() + 3600
        old = delete(LISTS).where(LISTS.c.time < time.time() - self._keep)
        self._store.write(lambda connection: connection.execute(old))
