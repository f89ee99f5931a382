"""Features given to `fit`: tables of users and items, beside the ratings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ordbm.data.csr import CSR
from ordbm.data.feature_columns import fitted_encoder
from ordbm.data.feature_tables import feature_table
from ordbm.data.ids import IdMap
from ordbm.data.ratings import Ratings
from ordbm.model.feature_effects import KINDS, FeaturesTold, Told
from ordbm.runtime.arrays import Numbers


def with_features(ratings: Ratings, user_features: Any, item_features: Any) -> tuple[Ratings, Told]:
    """The ratings with the ids of these tables among theirs, and what the tables tell of each."""
    if user_features is None and item_features is None:
        return ratings, (None, None)
    tables = [
        None if table is None else feature_table(table, kind, known)
        for table, kind, known in (
            (user_features, "user", ratings.users),
            (item_features, "item", ratings.items),
        )
    ]
    users, items = (
        known if table is None else known.with_more(table.ids)[0]
        for known, table in zip((ratings.users, ratings.items), tables, strict=True)
    )
    if len(users) > ratings.n_users or len(items) > ratings.n_items:
        ratings = _with_ids(ratings, users, items)
    found: list[FeaturesTold | None] = []
    for kind, table in enumerate(tables):
        if table is None:
            found.append(None)
            continue
        known = (users, items)[kind]
        count, mean = _mean_ratings(ratings, kind)
        code = known.codes(table.ids.ids)
        encoder = fitted_encoder(table, KINDS[kind], count[code] > 0, mean[code])
        rows = encoder.encoded(table.columns, len(table.ids))
        design = np.zeros((len(known), rows.shape[1]), np.float32)
        design[code] = rows
        found.append(FeaturesTold(encoder, design))
    return ratings, (found[0], found[1])


def _with_ids(ratings: Ratings, users: IdMap, items: IdMap) -> Ratings:
    rows = ratings.by_user
    start = np.append(rows.start, np.full(len(users) - rows.n_rows, rows.start[-1]))
    own = CSR(start, rows.column, rows.level, rows.value, rows.in_transpose[:0])
    return Ratings.of_rows(users, items, ratings.scale, own, ratings.times, ratings.context)


def _mean_ratings(ratings: Ratings, kind: int) -> tuple[Numbers, Numbers]:
    codes = (ratings.user_codes, ratings.item_codes)[kind]
    n = (ratings.n_users, ratings.n_items)[kind]
    count = np.bincount(codes, minlength=n).astype(np.float64)
    total = np.bincount(codes, np.asarray(ratings.values, np.float64), n)
    return count, total / np.maximum(count, 1)
