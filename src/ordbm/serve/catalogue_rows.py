"""The catalogue: all items that a model learnt or that somebody rated, with titles and features."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, and_, bindparam, case, func, or_, select

from ordbm.serve.id_text import folded, id_of_key, key_of_id, plain_id
from ordbm.serve.model_slot import Served
from ordbm.serve.rating_rows import ROWS_AT_ONCE, insert
from ordbm.serve.schema import ITEMS
from ordbm.serve.store import Store, next_number

_TITLES = select(ITEMS.c.item, ITEMS.c.title).where(
    ITEMS.c.item.in_(bindparam("keys", expanding=True))
)


def list_model_items(store: Store, served: Served) -> None:
    """Let the catalogue have the model's items, with how often each was rated."""
    state = served.model._state
    counts = np.diff(state.given.by_item.start).tolist()
    rows = [
        {"item": key_of_id(item), "folded": folded(str(item)), "n_ratings": count}
        for item, count in zip(state.items, counts, strict=True)
    ]

    def write(connection: Connection) -> None:
        next_number(connection)  # one writer at a time
        known = dict(connection.execute(select(ITEMS.c.item, ITEMS.c.n_ratings)).all())
        news = [row for row in rows if known.get(row["item"]) != row["n_ratings"]]
        statement = insert(connection, ITEMS)
        statement = statement.on_conflict_do_update(
            index_elements=[ITEMS.c.item], set_={"n_ratings": statement.excluded.n_ratings}
        )
        for first in range(0, len(news), ROWS_AT_ONCE):
            connection.execute(statement, news[first : first + ROWS_AT_ONCE])

    store.write(write)


def put_item(
    connection: Connection, item: Hashable, title: str | None, features: Mapping[str, Any] | None
) -> None:
    """Store what is known of an item; how often it was rated stays.

    Features that are new take the number of the change; those that are repeated keep theirs.
    """
    number = next_number(connection)
    text = str(item) if title is None else title
    row = {
        "item": key_of_id(item),
        "title": title,
        "folded": folded(text),
        "features": None if features is None else json.dumps(features),
        "n_ratings": 0,
        "described": None if features is None else number,
    }
    statement = insert(connection, ITEMS)
    told = {name: statement.excluded[name] for name in ("title", "folded", "features")}
    is_new = ITEMS.c.features.is_distinct_from(statement.excluded.features)
    told["described"] = case((is_new, number), else_=ITEMS.c.described)
    connection.execute(
        statement.on_conflict_do_update(index_elements=[ITEMS.c.item], set_=told), [row]
    )


def described_since(
    connection: Connection, after: int
) -> list[tuple[Hashable, dict[str, Any], int]]:
    """(item, features, change) of those whose features came after this change, in order."""
    statement = (
        select(ITEMS.c.item, ITEMS.c.features, ITEMS.c.described)
        .where(ITEMS.c.described > after)
        .order_by(ITEMS.c.described)
    )
    return [
        (id_of_key(item), {} if features is None else json.loads(features), number)
        for item, features, number in connection.execute(statement)
    ]


def put_titles(connection: Connection, titles: Mapping[Hashable, str]) -> None:
    """Titles of many items that have none yet."""
    next_number(connection)
    rows = [
        {"item": key_of_id(item), "title": title, "folded": folded(title), "n_ratings": 0}
        for item, title in titles.items()
    ]
    statement = insert(connection, ITEMS)
    statement = statement.on_conflict_do_update(
        index_elements=[ITEMS.c.item],
        set_={"title": statement.excluded.title, "folded": statement.excluded.folded},
        where=ITEMS.c.title.is_(None),
    )
    for first in range(0, len(rows), ROWS_AT_ONCE):
        connection.execute(statement, rows[first : first + ROWS_AT_ONCE])


def item_row(connection: Connection, item: Hashable) -> dict[str, Any] | None:
    """What the catalogue has of an item."""
    row = connection.execute(select(ITEMS).where(ITEMS.c.item == key_of_id(item))).first()
    return None if row is None else _described(row)


def titles_of_items(connection: Connection, items: Sequence[Hashable]) -> dict[str, str | None]:
    """Titles by key."""
    found = connection.execute(_TITLES, {"keys": [key_of_id(item) for item in items]})
    return {row.item: row.title for row in found}


def search_items(
    connection: Connection, text: str, most: int, after: tuple[int, str] | None
) -> tuple[list[dict[str, Any]], tuple[int, str] | None]:
    """A page of items whose titles have all these words, the most rated first; where to go on."""
    statement = select(ITEMS).order_by(ITEMS.c.n_ratings.desc(), ITEMS.c.item).limit(most + 1)
    for word in folded(text).split()[:10]:
        statement = statement.where(ITEMS.c.folded.contains(word, autoescape=True))
    if after is not None:
        n_ratings, key = after
        later = and_(ITEMS.c.n_ratings == n_ratings, ITEMS.c.item > key)
        statement = statement.where(or_(ITEMS.c.n_ratings < n_ratings, later))
    rows = connection.execute(statement).all()
    page = rows[:most]
    further = (int(page[-1].n_ratings), str(page[-1].item)) if len(rows) > most else None
    return [_described(row) for row in page], further


def n_items(connection: Connection) -> int:
    """How many items the catalogue has."""
    return int(connection.execute(select(func.count()).select_from(ITEMS)).scalar_one())


def _described(row: Any) -> dict[str, Any]:
    return {
        "item": plain_id(id_of_key(row.item)),
        "title": row.title,
        "n_ratings": row.n_ratings,
        "features": None if row.features is None else json.loads(row.features),
    }
