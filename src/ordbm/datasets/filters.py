"""Fewer items, for data sets cut as in a paper."""

from __future__ import annotations

import numpy as np

from ordbm.data.ids import IdMap
from ordbm.data.ratings import Ratings


def filter_items(ratings: Ratings, min_ratings: int) -> Ratings:
    """Only the items with at least `min_ratings` ratings; all users stay, even without a rating."""
    keep = np.diff(ratings.by_item.start) >= min_ratings
    items = IdMap(tuple(ratings.items[code] for code in np.flatnonzero(keep).tolist()))
    part = ratings.select(keep[ratings.item_codes])
    new_code = np.cumsum(keep, dtype=np.int32) - np.int32(1)
    return Ratings.of_rows(
        part.users,
        items,
        part.scale,
        part.by_user._replace(column=new_code[part.item_codes]),
        part.times,
        part.context,
    )
