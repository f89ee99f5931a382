"""What changed since a model was learnt, and a model that learns it."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any, NamedTuple

import ordbm
from ordbm.estimator import OrdinalBM
from ordbm.serve.catalogue_rows import described_since
from ordbm.serve.id_text import id_of_key
from ordbm.serve.item_features import feature_table_of
from ordbm.serve.person import learnt_ratings_of
from ordbm.serve.quality import NewRating
from ordbm.serve.rating_rows import Change, erasures, pages_of_changes
from ordbm.serve.store import Store


class Pending(NamedTuple):
    """What changed since a version was learnt, in order."""

    rows: list[Change]
    erased: dict[Hashable, int]
    described: list[tuple[Hashable, dict[str, Any], int]]  # (item, features, change)


def pending_changes(store: Store, after: int) -> Pending:
    """All of it, read page by page."""
    rows = [row for page in pages_of_changes(store, after) for row in page]
    erased, described = store.read(
        lambda one: (dict(erasures(one, after)), described_since(one, after))
    )
    return Pending(rows, erased, described)


def updated(old: OrdinalBM, new: OrdinalBM, pending: Pending, last: int) -> dict[str, int]:
    """Let `new`, a copy of `old`, learn all up to this change; how many ratings of what kind."""
    rows = [row for row in pending.rows if row.number <= last]
    told = [
        NewRating(*ids_of(row), json.loads(row.rating)) for row in rows if row.rating is not None
    ]
    pairs = {(one.user, one.item) for one in told}
    gone = {ids_of(row) for row in rows if row.rating is None}
    for user in pending.erased:
        gone |= {(user, item) for item in learnt_ratings_of(old, user)}
    learnt: dict[Hashable, dict[Any, Any]] = {}
    withdrawn = [
        (user, item)
        for user, item in sorted(gone - pairs, key=repr)
        if item in learnt.setdefault(user, learnt_ratings_of(old, user))
    ]
    features = feature_table_of(old, [(item, said) for item, said, _ in pending.described])
    if told or withdrawn or features is not None:
        users, items, ratings = zip(*told, strict=True) if told else ([], [], [])
        batch = ordbm.Ratings(users, items, ratings, scale=old.scale) if told else None
        new.partial_fit(batch, withdrawn=withdrawn or None, item_features=features)
    described = 0 if features is None else len(features["item"])
    return {
        "ratings": len(told), "withdrawn": len(withdrawn), "erased": len(pending.erased),
        "described": described,
    }  # fmt: skip


def ids_of(row: Change) -> tuple[Hashable, Hashable]:
    """The user and the item."""
    return id_of_key(row.user), id_of_key(row.item)
