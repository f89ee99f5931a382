"""What a model file has of presence: which items get rated, and by whom."""

from __future__ import annotations

from typing import Any

import numpy as np

from ordbm.kernels.rounding import fill_symmetric
from ordbm.model.machine import is_within_reach
from ordbm.model.presence import KNOTS, Presence
from ordbm.model.rounding import PRESENCE_QUANTUM
from ordbm.persistence.container import Arrays, Header, taken
from ordbm.persistence.packed_tables import PackedTables
from ordbm.runtime.arrays import Array


def packed_presence(presence: Presence | None) -> Header | None:
    """Its numbers; None if it was not learnt."""
    if presence is None:
        return None
    return {
        "typical_degree": presence.typical_degree,
        "unknown_bias": presence.unknown_bias,
        "user_precision": presence.user_precision,
    }


def presence_arrays(presence: Presence | None) -> Arrays:
    """Its parameters by name; each link once."""
    if presence is None:
        return {}
    upper = np.triu_indices(len(presence.linked), 1)
    return {
        "presence.item_bias": presence.item_bias,
        "presence.user_bias": presence.user_bias,
        "presence.linked": presence.linked,
        "presence.link": presence.weight[upper],
        "presence.recalibration": presence.recalibration,
    }


def unpacked_presence(
    plain: Any, arrays: Arrays, n_users: int, n_items: int, tables: PackedTables
) -> Presence | None:
    """Presence out of `arrays`, checked; None if it was not learnt.

    Its links are there, and checked, once `tables` are restored.
    """
    if plain is None:
        return None
    numbers = [plain[name] for name in ("typical_degree", "unknown_bias", "user_precision")]
    if not all(type(number) is float for number in numbers):
        raise TypeError("presence must have numbers")
    linked = taken(arrays, "presence.linked", np.int32, None)
    size = len(linked)
    if size and (linked[0] < 0 or linked[-1] >= n_items or (linked[1:] <= linked[:-1]).any()):
        raise ValueError("linked items are out of range or out of order")

    def fill(link: Array) -> None:
        _check_range(link)
        fill_symmetric(link, weight)

    n_links = size * (size - 1) // 2
    tables.taken("presence.link", np.float32, (n_links,), axes=PRESENCE_QUANTUM, then=fill)
    weight = np.empty((size, size), np.float32)  # once it is known that there are so many links
    item_bias = taken(arrays, "presence.item_bias", np.float32, n_items)
    user_bias = taken(arrays, "presence.user_bias", np.float32, n_users)
    recalibration = taken(arrays, "presence.recalibration", np.float32, len(KNOTS))
    for parameters in (np.array(numbers), item_bias, user_bias, recalibration):
        _check_range(parameters)
    typical, unknown_bias, user_precision = numbers
    if typical < 1 or user_precision <= 0:
        raise ValueError("a typical user has a rating, and a user's bias a prior")
    if (np.diff(KNOTS + recalibration) <= 0).any():
        raise ValueError("log-odds of being rated do not grow with their potentials")
    return Presence(
        item_bias, user_bias, linked, weight, typical, unknown_bias, user_precision, recalibration
    )


def _check_range(parameters: Array) -> None:
    if not is_within_reach(parameters):
        raise ValueError("a parameter of presence is out of range")
