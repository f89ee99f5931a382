"""Pairs of users and items out of one table, as other libraries hand them over."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np

from ordbm.data.columns import Column, ColumnChoice, column_places, plain_column
from ordbm.errors import RatingsError

COLUMNS = ("user", "item")


def pair_columns(
    table: Any, user: ColumnChoice = None, item: ColumnChoice = None
) -> tuple[Column, Column]:
    """The users and the items of a frame, or of the two columns of an array or list.

    A frame's columns are found by their usual names unless named or numbered; others are left out.
    """
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        names = list(frame.columns)
        places = column_places(names, {"user": user, "item": item})
        users, items = (plain_column(frame.get_column(names[place])) for place in places)
        return users, items
    if isinstance(table, list):  # NumPy would make one kind of ids of both columns
        if any(len(row) != len(COLUMNS) for row in table):
            raise RatingsError("need rows of two, (user, item): a row has more or fewer")
        return [row[0] for row in table], [row[1] for row in table]
    array = table if isinstance(table, np.ndarray) else np.asarray(table)
    if array.ndim != 2 or array.shape[1] != len(COLUMNS):
        raise RatingsError(
            f"need two columns, (user, item), or a frame; got an array of shape {array.shape}"
        )
    return array[:, 0], array[:, 1]
