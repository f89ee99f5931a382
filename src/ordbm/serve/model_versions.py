"""Which model files there are, which of them is active, and who may make the next one."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, or_, select, update

from ordbm.serve.rating_rows import insert
from ordbm.serve.schema import ERASURES, ITEMS, LEASES, RATINGS, VERSIONS


class Version(NamedTuple):
    """A model file; changes up to `folded` are in its parameters."""

    number: int
    checksum: str
    path: str
    folded: int
    state: str  # active, kept, refused, removed
    time: float
    report: str

    @property
    def name(self) -> str:
        """What it is called in answers, and in ETags."""
        return f"{self.number}-{self.checksum[:12]}"

    def described(self) -> dict[str, Any]:
        """The version in JSON's terms; paths stay here."""
        return {
            "version": self.name,
            "number": self.number,
            "checksum": self.checksum,
            "folded": self.folded,
            "state": self.state,
            "time": self.time,
            "report": json.loads(self.report),
        }


def checksum_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def all_versions(connection: Connection) -> list[Version]:
    """Every version, the newest first."""
    rows = connection.execute(select(VERSIONS).order_by(VERSIONS.c.number.desc()))
    return [Version(*row) for row in rows]


def active_version(connection: Connection) -> Version | None:
    """The version that answers."""
    row = connection.execute(select(VERSIONS).where(VERSIONS.c.state == "active")).first()
    return None if row is None else Version(*row)


def add_version(
    connection: Connection, path: Path, checksum: str, folded: int, state: str, report: Any
) -> Version:
    """A new version; if it is active, the one before is kept."""
    last = connection.execute(select(func.coalesce(func.max(VERSIONS.c.number), 0))).scalar_one()
    if state == "active":
        _keep_the_active(connection)
    made = Version(
        last + 1, checksum, str(path.absolute()), folded, state, time.time(), json.dumps(report)
    )
    connection.execute(insert(connection, VERSIONS).values(made._asdict()))
    return made


def activate(connection: Connection, number: int) -> Version | None:
    """Let a kept version answer; None if there is none of this number."""
    statement = select(VERSIONS).where(
        VERSIONS.c.number == number, VERSIONS.c.state.in_(["kept", "active"])
    )
    if connection.execute(statement).first() is None:
        return None
    _keep_the_active(connection)
    connection.execute(update(VERSIONS).where(VERSIONS.c.number == number).values(state="active"))
    return active_version(connection)


def _keep_the_active(connection: Connection) -> None:
    connection.execute(update(VERSIONS).where(VERSIONS.c.state == "active").values(state="kept"))


def register_first(connection: Connection, path: Path, checksum: str) -> Version:
    """The version to answer with when a service starts with this file.

    A file that the database has not seen becomes active, with all changes after it; one that it
    has leaves active what is, which may be an update of it.
    """
    active = active_version(connection)
    seen = connection.execute(
        select(VERSIONS.c.number).where(VERSIONS.c.checksum == checksum).limit(1)
    ).first()
    if active is not None and seen is not None:
        return active
    return add_version(connection, path, checksum, 0, "active", {"from": "start"})


def n_pending(connection: Connection, folded: int, *, learns_features: bool = False) -> int:
    """How many ratings, people, and items' features if these are learnt, changed after this."""
    numbers = [RATINGS.c.number, ERASURES.c.number]
    if learns_features:
        numbers.append(ITEMS.c.described)
    counts = [select(func.count()).where(number > folded) for number in numbers]
    return sum(int(connection.execute(one).scalar_one()) for one in counts)


def take_lease(connection: Connection, name: str, holder: str, seconds: float) -> bool:
    """Whether the holder has a lease now: nobody had it, or theirs has run out, or it is theirs."""
    now = time.time()
    row = {"name": name, "holder": holder, "until": now + seconds}
    statement = insert(connection, LEASES).values(row)
    statement = statement.on_conflict_do_update(
        index_elements=[LEASES.c.name],
        set_={"holder": holder, "until": now + seconds},
        # One that would end later than any can was taken before the clock was put back.
        where=or_(LEASES.c.until < now, LEASES.c.until > now + seconds, LEASES.c.holder == holder),
    )
    connection.execute(statement)
    held = select(LEASES.c.holder).where(LEASES.c.name == name)
    return bool(connection.execute(held).scalar_one() == holder)


def end_lease(connection: Connection, name: str, holder: str) -> None:
    """Let others have it."""
    connection.execute(delete(LEASES).where(LEASES.c.name == name, LEASES.c.holder == holder))


def set_state(connection: Connection, number: int, state: str) -> None:
    """Say what has become of a version."""
    connection.execute(update(VERSIONS).where(VERSIONS.c.number == number).values(state=state))
