"""What people have said since the model was learnt: written once, read by every answer."""

from __future__ import annotations

import json
import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    String,
    bindparam,
    cast,
    delete,
    func,
    null,
    select,
    union_all,
)
from sqlalchemy.dialects import postgresql, sqlite

from ordbm.serve.id_text import folded, id_of_key, key_of_id
from ordbm.serve.schema import ERASURES, FEEDBACK, ITEMS, LISTS, RATINGS
from ordbm.serve.store import Store, next_number

ROWS_AT_ONCE = 1000  # rows of a page or of a transaction


class Change(NamedTuple):
    """What was last said of a pair; no rating where it was withdrawn."""

    user: str  # keys and JSON, as the database has them
    item: str
    rating: str | None
    number: int
    time: float


class Said(NamedTuple):
    """What somebody said after a change: {item: rating or None}, and if all before it is void."""

    ratings: dict[Hashable, Any]
    is_erased: bool
    number: int  # of the last change, 0 if there is none


NOTHING_SAID = Said({}, is_erased=False, number=0)


def insert(connection: Connection, table: Any) -> Any:
    """An insertion that may say what to do where there is a row."""
    dialects: dict[str, Any] = {"sqlite": sqlite, "postgresql": postgresql}
    return dialects[connection.dialect.name].insert(table)


def put_ratings(
    connection: Connection, said: Iterable[tuple[Hashable, Hashable, Any]]
) -> tuple[int, int]:
    """Store (user, item, rating) of each; (how many changed something, number of the change).

    A rating of None is one that is withdrawn. What says nothing new leaves the row as it was, so
    that a request that is repeated counts once.
    """
    number, now = next_number(connection), time.time()
    rows = {
        (key_of_id(user), key_of_id(item)): None if rating is None else json.dumps(rating)
        for user, item, rating in said
    }
    statement = insert(connection, RATINGS)
    statement = statement.on_conflict_do_update(
        index_elements=[RATINGS.c.user, RATINGS.c.item],
        set_={name: statement.excluded[name] for name in ("rating", "number", "time")},
        where=RATINGS.c.rating.is_distinct_from(statement.excluded.rating),
    )
    values = [
        {"user": user, "item": item, "rating": rating, "number": number, "time": now}
        for (user, item), rating in rows.items()
    ]
    if not values:
        return 0, number
    connection.execute(statement, values)
    list_items(connection, {item for (_, item), rating in rows.items() if rating is not None})
    changed = select(func.count()).where(RATINGS.c.number == number)
    return int(connection.execute(changed).scalar_one()), number


def list_items(connection: Connection, keys: Iterable[str]) -> None:
    """Let the catalogue have these items."""
    rows = [
        {"item": key, "folded": folded(str(id_of_key(key))), "n_ratings": 0} for key in sorted(keys)
    ]
    if rows:
        connection.execute(insert(connection, ITEMS).on_conflict_do_nothing(), rows)


_OF_USERS: Any = bindparam("keys", expanding=True)
_SAID = union_all(
    select(RATINGS.c.user, RATINGS.c.item, RATINGS.c.rating, RATINGS.c.number).where(
        RATINGS.c.user.in_(_OF_USERS), RATINGS.c.number > bindparam("since")
    ),
    select(
        ERASURES.c.user,
        cast(null(), String).label("item"),
        cast(null(), String).label("rating"),
        ERASURES.c.number,
    ).where(ERASURES.c.user.in_(_OF_USERS), ERASURES.c.number > bindparam("since")),
)


def said_by_each(
    connection: Connection, users: Iterable[Hashable], since: int = 0
) -> dict[Hashable | None, Said]:
    """What each of those who said something after change `since` said, in one statement."""
    by_key = {key_of_id(user): user for user in users}
    if not by_key:
        return {}
    told: dict[str, list[Any]] = {}
    for key, *row in connection.execute(_SAID, {"keys": list(by_key), "since": since}):
        told.setdefault(key, []).append(row)
    return {by_key[key]: _said(rows) for key, rows in told.items()}


def said_by(connection: Connection, user: Hashable, since: int = 0) -> Said:
    """The same of one person."""
    return said_by_each(connection, [user], since).get(user, NOTHING_SAID)


def _said(rows: Iterable[tuple[str | None, str | None, int]]) -> Said:
    """By (item, rating, number of the change); no item where all before is void."""
    erased = max((number for item, _, number in rows if item is None), default=0)
    ratings = {
        id_of_key(item): None if rating is None else json.loads(rating)
        for item, rating, number in rows
        if item is not None and number > erased
    }
    return Said(ratings, erased > 0, max(number for *_, number in rows))


def changes(connection: Connection, after: int, most: int = ROWS_AT_ONCE) -> Sequence[Change]:
    """The changes after this one, in order. Those of one number are all there or none."""
    last = (
        select(RATINGS.c.number)
        .where(RATINGS.c.number > after)
        .order_by(RATINGS.c.number)
        .limit(1)
        .offset(most - 1)
        .scalar_subquery()
    )
    statement = (
        select(RATINGS)
        .where(RATINGS.c.number > after, RATINGS.c.number <= func.coalesce(last, 2**62))
        .order_by(RATINGS.c.number, RATINGS.c.user, RATINGS.c.item)
    )
    return [Change(*row) for row in connection.execute(statement)]


def pages_of_changes(
    store: Store, after: int = 0, most: int = ROWS_AT_ONCE
) -> Iterator[Sequence[Change]]:
    """All changes after this one, some at a time."""
    while found := store.read(partial(changes, after=after, most=most)):
        yield found
        after = found[-1].number


def erase(connection: Connection, user: Hashable) -> int:
    """Delete all about somebody; what models know of them is void from this change on."""
    number, key = next_number(connection), key_of_id(user)
    for table in (RATINGS, LISTS, FEEDBACK):
        connection.execute(delete(table).where(table.c.user == key))
    statement = insert(connection, ERASURES).values(user=key, number=number, time=time.time())
    statement = statement.on_conflict_do_update(
        index_elements=[ERASURES.c.user], set_={"number": number, "time": statement.excluded.time}
    )
    connection.execute(statement)
    return number


def erased_among(connection: Connection, users: Sequence[Hashable], since: int) -> set[Hashable]:
    """Those of these people who were erased after change `since`."""
    keys = [key_of_id(user) for user in users]
    statement = select(ERASURES.c.user).where(ERASURES.c.user.in_(keys), ERASURES.c.number > since)
    return {id_of_key(key) for key in connection.execute(statement).scalars()}


def erasures(connection: Connection, after: int) -> Iterator[tuple[Hashable, int]]:
    """(user, number of the change) of everybody who was erased after a change."""
    statement = select(ERASURES.c.user, ERASURES.c.number).where(ERASURES.c.number > after)
    for key, number in connection.execute(statement):
        yield id_of_key(key), int(number)
