"""Features of users and items in a container, and back; checked in full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ordbm.data.feature_columns import FeatureEncoder, NumberColumn, ValueColumn
from ordbm.model.feature_effects import (
    KINDS,
    Described,
    FeatureEffects,
    KnownFeatures,
)
from ordbm.model.machine import Machine, is_within_reach
from ordbm.persistence.container import Arrays, taken
from ordbm.persistence.json_values import packed, unpacked
from ordbm.runtime.arrays import Array


def packed_features(described: Described) -> list[Any]:
    """The columns of each table in the header's terms; None where there is none."""
    return [
        None if about is None else [_packed_column(one) for one in about.encoder.columns]
        for about in described
    ]


def feature_arrays(described: Described) -> Arrays:
    """Features, their trust and their effects, by name."""
    arrays: Arrays = {}
    for kind, about in zip(KINDS, described, strict=True):
        if about is None:
            continue
        place = f"{kind}_features"
        arrays |= {
            f"{place}.mean": about.encoder.mean,
            f"{place}.design": about.design,
            f"{place}.trust": about.trust,
            f"{place}.unrated": about.unrated.astype(np.uint8),
        }
        for member, (effects, centre) in enumerate(zip(about.effects, about.centre, strict=True)):
            for name, array in (effects._asdict() | {"centre": centre}).items():
                arrays[f"{place}.{member}.{name}"] = array
    return arrays


def unpacked_features(
    plain: Any, arrays: Arrays, machines: Sequence[Machine], n_ids: tuple[int, int]
) -> Described:
    """Out of `arrays`, checked; `n_ids` are the numbers of users and items."""
    if plain is None:  # a file of a version without them
        return None, None
    if not isinstance(plain, list) or len(plain) != 2:
        raise ValueError("features must be of users and of items")
    users, items = (
        None if columns is None else _known(columns, arrays, machines, kind, n)
        for kind, (columns, n) in enumerate(zip(plain, n_ids, strict=True))
    )
    return users, items


def _known(
    columns: Any, arrays: Arrays, machines: Sequence[Machine], kind: int, n_ids: int
) -> KnownFeatures:
    found = tuple(_unpacked_column(one) for one in columns)
    place, q = f"{KINDS[kind]}_features", 1 + sum(column.width for column in found)
    if len({column.name for column in found}) != len(found) or not found:
        raise ValueError(f"{place} has no columns, or two of one name")

    def own(name: str, dtype: Any, *shape: int) -> Array:
        array = taken(arrays, f"{place}.{name}", dtype, *shape)
        if not is_within_reach(array):
            raise ValueError(f"{place}.{name} is out of range")
        return array

    design = own("design", np.float32, n_ids, q)
    constant = design[:, 0]
    if not np.isin(constant, (0, 1)).all() or design[constant == 0].any():
        raise ValueError(f"{place} has features of those of whom nothing is known")
    encoder = FeatureEncoder(found, own("mean", np.float64, q - 1))
    trust = own("trust", np.float64, len(found), 3)
    effects, centre = [], []
    for member, machine in enumerate(machines):
        n = len(machine.level_bias)
        d, units = (
            0 if side is None else side.n_hidden
            for side in (machine.sides[1 - kind], machine.sides[kind])
        )
        shapes = {"bias": (q, n), "coupling": (q, n, d), "hidden": (q, units)}
        effects.append(
            FeatureEffects(
                *(own(f"{member}.{name}", np.float32, *shape) for name, shape in shapes.items())
            )
        )
        centre.append(own(f"{member}.centre", np.float32, q, n))
    unrated = own("unrated", np.uint8, n_ids)
    return KnownFeatures(encoder, design, tuple(effects), trust, unrated > 0, tuple(centre))


def _packed_column(column: NumberColumn | ValueColumn) -> dict[str, Any]:
    if isinstance(column, ValueColumn):
        return {"name": packed(column.name), "values": [packed(value) for value in column.values]}
    name, mean, scale, knots = column
    return {"name": packed(name), "mean": mean, "scale": scale, "knots": list(knots)}


def _unpacked_column(plain: dict[str, Any]) -> NumberColumn | ValueColumn:
    name = unpacked(plain["name"])
    if not isinstance(name, str):
        raise TypeError("a column must have a name")
    if "values" in plain:
        values = tuple(unpacked(value) for value in plain["values"])
        if not values or not all(isinstance(value, str) for value in values):
            raise TypeError(f"the values of column {name!r} must be text")
        return ValueColumn(name, values)
    numbers = [plain["mean"], plain["scale"], *plain["knots"]]
    if not all(type(number) is float and math.isfinite(number) for number in numbers):
        raise TypeError(f"column {name!r} must have numbers")
    if plain["scale"] <= 0:
        raise ValueError(f"column {name!r} has no spread")
    return NumberColumn(name, plain["mean"], plain["scale"], tuple(plain["knots"]))
