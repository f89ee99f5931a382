"""The database: connections, and transactions that are whole or not at all.

SQLite keeps a write-ahead log, waits for other writers, and has written through to the disk
before it says that a transaction is done; PostgreSQL does the same of itself. Reads are single
statements outside transactions. All that is written is an upsert or a deletion, so that a
transaction whose connection was lost may be repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url, update
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ordbm.errors import SettingsError
from ordbm.serve.schema import SEQUENCE

_T = TypeVar("_T")
WAIT = 5  # seconds for a lock, a connection of the pool, a statement


class Store:
    """One database, from many threads."""

    def __init__(self, url: str, connections: int = 5) -> None:
        try:
            self.url = make_url(url)
        except (ArgumentError, ValueError):  # whose words would show it, and a password
            raise SettingsError(
                "the URL of the database cannot be read: give sqlite:///FILE or "
                "postgresql://USER:PASSWORD@HOST:PORT/NAME"
            ) from None
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._one_writer: Any = threading.Lock() if self.is_sqlite else nullcontext()
        told: dict[str, Any] = {
            "pool_size": connections, "max_overflow": connections, "pool_timeout": WAIT,
            "pool_use_lifo": True, "connect_args": self._connect_args(), "hide_parameters": True,
        }  # fmt: skip
        try:
            self.writer = create_engine(self.url, **told)
            self.reader = create_engine(self.url, isolation_level="AUTOCOMMIT", **told)
        except ModuleNotFoundError as missing:
            raise SettingsError(
                f"{self.url.get_backend_name()} needs {missing.name}: "
                'pip install "ordbm[serve,postgresql]"'
            ) from None
        if self.is_sqlite:
            _prepare_sqlite(self.writer, begins=True)
            _prepare_sqlite(self.reader, begins=False)

    def _connect_args(self) -> dict[str, Any]:
        if self.is_sqlite:
            return {"timeout": WAIT}
        limits = f"-c statement_timeout={WAIT}s -c lock_timeout={WAIT}s"
        return {"connect_timeout": 3, "options": limits}

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection whose statements each see what is committed."""
        with self.reader.connect() as connection:
            yield connection

    def read(self, ask: Callable[[Connection], _T]) -> _T:
        """What `ask` finds; asked again if the connection turns out to be lost."""
        return self._again_if_lost(lambda: self._read_once(ask))

    def _read_once(self, ask: Callable[[Connection], _T]) -> _T:
        with self.reading() as connection:
            return ask(connection)

    def write(self, work: Callable[[Connection], _T]) -> _T:
        """What `work` returns, once all that it wrote is on the disk."""
        return self._again_if_lost(lambda: self._write_once(work))

    def _write_once(self, work: Callable[[Connection], _T]) -> _T:
        with self._one_writer, self.writer.begin() as connection:
            return work(connection)

    def _again_if_lost(self, once: Callable[[], _T]) -> _T:
        try:
            return once()
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            return once()

    def answers(self) -> bool:
        """Whether the database can be read now."""
        try:
            return self.read(lambda connection: bool(connection.exec_driver_sql("SELECT 1")))
        except (DBAPIError, PoolTimeout):
            return False

    def close(self) -> None:
        """Let go of all connections."""
        self.writer.dispose()
        self.reader.dispose()


@contextmanager
def told_in_words() -> Iterator[None]:
    """Errors of a database, for whoever runs a command: what it says, and where to look."""
    try:
        yield
    except SQLAlchemyError as error:
        said = str(getattr(error, "orig", None) or error).partition("\n")[0]
        raise SettingsError(
            f"the database cannot be used: {said}; see that it is there, that it is one, and that "
            "its URL is right"
        ) from None


def next_number(connection: Connection) -> int:
    """The next number of the one sequence; holds other writers until the transaction ends."""
    statement = update(SEQUENCE).values(value=SEQUENCE.c.value + 1).returning(SEQUENCE.c.value)
    return int(connection.execute(statement).scalar_one())


def _prepare_sqlite(engine: Engine, *, begins: bool) -> None:
    @event.listens_for(engine, "connect")
    def _(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver begins nothing of itself
        for pragma in (
            f"busy_timeout={WAIT * 1000}", "journal_mode=WAL", "synchronous=FULL",
            "foreign_keys=ON", "trusted_schema=OFF",
        ):  # fmt: skip
            connection.execute(f"PRAGMA {pragma}")

    if begins:

        @event.listens_for(engine, "begin")
        def _(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
