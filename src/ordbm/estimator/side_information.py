"""Features given to `fit`: tables of users and items, beside the ratings.

Who or what has no ratings does not take part in learning: they are set aside here, and added once
it is done. So a model learns from ratings the same, whoever else there is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ordbm.data.csr import CSR
from ordbm.data.feature_columns import FeatureEncoder, fitted_encoder
from ordbm.data.feature_tables import feature_table
from ordbm.data.ids import IdMap
from ordbm.data.ratings import Ratings
from ordbm.model.feature_effects import KINDS, Described, FeaturesTold, Told
from ordbm.runtime.arrays import Array, Codes, Mask, Numbers


class _Encoded(NamedTuple):
    """Features of some users, or items."""

    encoder: FeatureEncoder
    ids: IdMap
    rows: Array  # (ids, q)


def with_features(ratings: Ratings, user_features: Any, item_features: Any) -> tuple[Ratings, Told]:
    """The ratings as they are learnt from, and what these tables tell."""
    found: list[_Encoded | None] = []
    for kind, given in enumerate((user_features, item_features)):
        if given is None:
            found.append(None)
            continue
        table = feature_table(given, KINDS[kind], (ratings.users, ratings.items)[kind])
        codes = (ratings.users, ratings.items)[kind].codes(table.ids.given)
        count, mean = (np.append(of, 0.0)[codes] for of in _mean_ratings(ratings, kind))
        encoder = fitted_encoder(table, KINDS[kind], count > 0, mean)
        found.append(_Encoded(encoder, table.ids, encoder.encoded(table.columns, len(table.ids))))
    return _told(ratings, found)


def with_features_again(ratings: Ratings, described: Described) -> tuple[Ratings, Told]:
    """The same of what a model with these ratings was told."""
    found: list[_Encoded | None] = []
    for ids, about in zip((ratings.users, ratings.items), described, strict=True):
        if about is None:
            found.append(None)
            continue
        codes = np.flatnonzero(about.described)
        found.append(_Encoded(about.encoder, ids.at(codes), about.design[codes]))
    return _told(ratings, found)


def _told(ratings: Ratings, tables: list[_Encoded | None]) -> tuple[Ratings, Told]:
    """Those without ratings are taken out of the ratings' ids, and told apart."""
    known = ratings.users, ratings.items
    kept: list[Mask] = []
    for ids, rows, table in zip(known, (ratings.by_user, ratings.by_item), tables, strict=True):
        here = np.ones(len(ids), bool)
        if table is not None:
            codes = ids.codes(table.ids.given)
            here[codes[codes >= 0]] = np.diff(rows.start)[codes[codes >= 0]] > 0
        kept.append(here)
    if not (kept[0].all() and kept[1].all()):
        ratings = _of_ids(ratings, *kept)
    users, items = (
        None if table is None else _of_ratings(ids, table)
        for ids, table in zip((ratings.users, ratings.items), tables, strict=True)
    )
    return ratings, (users, items)


def _of_ratings(ids: IdMap, table: _Encoded) -> FeaturesTold:
    codes: Codes = ids.codes(table.ids.given)
    design = np.zeros((len(ids), table.rows.shape[1]), np.float32)
    design[codes[codes >= 0]] = table.rows[codes >= 0]
    others = np.flatnonzero(codes < 0)
    return FeaturesTold(table.encoder, design, table.ids.at(others), table.rows[others])


def _of_ids(ratings: Ratings, users: Mask, items: Mask) -> Ratings:
    """The ratings without the ids that are not in these masks, which have none."""
    rows = ratings.by_user
    own = CSR(
        np.append(rows.start[:-1][users], rows.start[-1]),
        (np.cumsum(items) - 1)[rows.column].astype(rows.column.dtype),
        rows.level,
        rows.value,
        rows.in_transpose[:0],
    )
    ids = ratings.users.at(np.flatnonzero(users)), ratings.items.at(np.flatnonzero(items))
    return Ratings.of_rows(*ids, ratings.scale, own, ratings.times, ratings.context)


def _mean_ratings(ratings: Ratings, kind: int) -> tuple[Numbers, Numbers]:
    codes = (ratings.user_codes, ratings.item_codes)[kind]
    n = (ratings.n_users, ratings.n_items)[kind]
    count = np.bincount(codes, minlength=n).astype(np.float64)
    total = np.bincount(codes, np.asarray(ratings.values, np.float64), n)
    return count, total / np.maximum(count, 1)
