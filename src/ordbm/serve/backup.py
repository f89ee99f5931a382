"""A database in one file, and back: gzipped lines of JSON, the same for both kinds of database."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.exc import SQLAlchemyError

from ordbm.errors import SettingsError
from ordbm.runtime.atomic_files import atomic_file
from ordbm.serve.rating_rows import ROWS_AT_ONCE
from ordbm.serve.schema import LEASES, RATINGS, TABLES
from ordbm.serve.store import Store
from ordbm.serve.upgrade import bring_up_to_date

BACKUP_FORMAT = "ordbm database 1"
_TABLES = [table for table in TABLES.sorted_tables if table is not LEASES]


class _NotEmptyError(Exception):
    """There are ratings already."""


def write_backup(store: Store, path: Path) -> int:
    """Write all rows as of one moment; how many there are."""
    engine = store.writer if store.is_sqlite else store.writer.execution_options(
        isolation_level="REPEATABLE READ"
    )  # fmt: skip
    rows = 0
    digest = hashlib.sha256()
    with atomic_file(path) as file, gzip.open(file, "wb", compresslevel=6) as out:

        def write(told: Any) -> None:
            line = json.dumps(told).encode() + b"\n"
            digest.update(line)
            out.write(line)

        write({"format": BACKUP_FORMAT})
        with engine.connect() as connection, connection.begin():
            for table in _TABLES:
                found = connection.execution_options(stream_results=True).execute(select(table))
                for row in found:
                    write([table.name, list(row)])
                    rows += 1
        out.write(json.dumps({"rows": rows, "sha256": digest.hexdigest()}).encode() + b"\n")
    return rows


def restore_backup(store: Store, path: Path) -> int:
    """Fill the tables from a backup; an error if it is damaged, or the database has ratings."""
    with gzip.open(path, "rb") as file:
        end = _checked(file, path)
    bring_up_to_date(store)

    def fill(connection: Connection) -> None:
        if connection.execute(select(func.count()).select_from(RATINGS)).scalar_one():
            raise _NotEmptyError
        for table in _TABLES:
            connection.execute(delete(table))
        with gzip.open(path, "rb") as file:
            _fill(connection, file)

    try:
        store.write(fill)
    except _NotEmptyError:
        raise SettingsError("the database has ratings: restore into an empty one") from None
    except (SQLAlchemyError, ValueError, TypeError, KeyError) as error:
        raise SettingsError(f"{path} cannot be restored: {type(error).__name__}") from None
    return end


def _checked(file: Iterable[bytes], path: Path) -> int:
    """The number of rows of a backup that is whole."""
    digest, first, last = hashlib.sha256(), b"", b""
    try:
        for line in file:
            digest.update(last)
            first, last = first or line, line
        head, end = json.loads(first), json.loads(last)
        whole = head == {"format": BACKUP_FORMAT} and end["sha256"] == digest.hexdigest()
        rows = int(end["rows"])
    except (OSError, EOFError, ValueError, TypeError, KeyError):
        whole, rows = False, 0
    if not whole:
        raise SettingsError(f"{path} is no backup of a database, or is damaged")
    return rows


def _fill(connection: Connection, file: Iterable[bytes]) -> None:
    tables = {table.name: table for table in _TABLES}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in tables}
    for line in file:
        told = json.loads(line)
        if not isinstance(told, list):
            continue
        name, values = told
        names = tables[name].columns.keys()
        rows[name].append(dict(zip(names, values, strict=True)))
        if len(rows[name]) == ROWS_AT_ONCE:
            connection.execute(tables[name].insert(), rows[name])
            rows[name] = []
    for name, left in rows.items():
        if left:
            connection.execute(tables[name].insert(), left)
