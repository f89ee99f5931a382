"""Lists that were shown, and what became of them."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from ordbm.serve.id_text import id_of_key, key_of_id, plain_id
from ordbm.serve.rating_rows import insert
from ordbm.serve.schema import FEEDBACK, LISTS

_DISMISSED = select(FEEDBACK.c.item).where(
    FEEDBACK.c.user == bindparam("key"), FEEDBACK.c.kind == "dismissed"
)


def put_lists(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Store lists, and say whose the feedback is that came before them."""
    connection.execute(insert(connection, LISTS).on_conflict_do_nothing(), rows)
    theirs = select(LISTS.c.user).where(LISTS.c.list_id == FEEDBACK.c.list_id).scalar_subquery()
    ids = [row["list_id"] for row in rows if row["user"] is not None]
    early = FEEDBACK.c.list_id.in_(ids), FEEDBACK.c.user.is_(None)
    connection.execute(update(FEEDBACK).where(*early).values(user=theirs))


def is_stored(connection: Connection, list_id: str) -> bool:
    """Whether a list of this id is there."""
    listed = select(LISTS.c.list_id).where(LISTS.c.list_id == list_id)
    return connection.execute(listed).first() is not None


def put_feedback(
    connection: Connection, list_id: str, item: Hashable, kind: str, user: Hashable | None
) -> None:
    """Store it once; the person is the list's own unless said."""
    listed = select(LISTS.c.user).where(LISTS.c.list_id == list_id)
    key = connection.execute(listed).scalar() if user is None else key_of_id(user)
    row = {
        "list_id": list_id, "item": key_of_id(item), "kind": kind, "user": key,
        "time": time.time(),
    }  # fmt: skip
    connection.execute(insert(connection, FEEDBACK).values(row).on_conflict_do_nothing())


def dismissed_by(connection: Connection, user: Hashable) -> set[Hashable]:
    """The items that somebody does not want to see again."""
    found = connection.execute(_DISMISSED, {"key": key_of_id(user)}).scalars()
    return {id_of_key(key) for key in found}


def feedback_of(connection: Connection, user: Hashable) -> list[dict[str, Any]]:
    """All feedback by somebody."""
    statement = select(FEEDBACK).where(FEEDBACK.c.user == key_of_id(user)).order_by(FEEDBACK.c.time)
    return [
        {
            "list_id": row.list_id,
            "item": plain_id(id_of_key(row.item)),
            "kind": row.kind,
            "time": row.time,
        }
        for row in connection.execute(statement)
    ]
