"""Features of items as a model takes them: the columns that it was learnt with, and no others.

A catalogue may say more of an item than a model has learnt from; that is kept, shown and exported,
and changes no prediction.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ordbm.data.feature_columns import FeatureEncoder, NumberColumn
from ordbm.data.numeric_columns import number_of
from ordbm.errors import RatingsError
from ordbm.estimator import OrdinalBM
from ordbm.runtime.printable import shown

_Features = Mapping[str, Any]


def _encoder(model: OrdinalBM) -> FeatureEncoder | None:
    about = model._state.described[1]
    return None if about is None else about.encoder


def learnt_features(model: OrdinalBM) -> list[str]:
    """The names of the features of items that the model was learnt with."""
    encoder = _encoder(model)
    return [] if encoder is None else list(encoder.names)


def check_features(model: OrdinalBM, features: _Features | None) -> None:
    """An error if one that the model was learnt with as numbers is none."""
    for name, value in (features or {}).items():
        if name in _unusable(model, features or {}):
            raise RatingsError(
                f"feature {shown(name)} is {shown(value)} and was learnt as numbers: give a finite "
                "number, or null for what is not known"
            )


def _unusable(model: OrdinalBM, features: _Features) -> set[str]:
    """Those that are no numbers, and were learnt as such."""
    encoder = _encoder(model)
    return {
        column.name
        for column in (() if encoder is None else encoder.columns)
        if isinstance(column, NumberColumn) and not _may_be_number(features.get(column.name))
    }


def _may_be_number(value: Any) -> bool:
    """Whether it is a finite number, as text or not, or missing."""
    if isinstance(value, str):
        return not value.strip() or math.isfinite(number_of(value))
    if isinstance(value, bool):
        return False
    return value is None or (isinstance(value, int | float) and math.isfinite(value))


def feature_table_of(
    model: OrdinalBM, described: Sequence[tuple[Hashable, _Features]]
) -> dict[str, list[Any]] | None:
    """A table for `partial_fit`; None if there is nothing that the model learns from.

    A value that cannot be used, since it came when another model answered, is one not known.
    """
    names = learnt_features(model)
    if not names or not described:
        return None
    table: dict[str, list[Any]] = {"item": [], **{name: [] for name in names}}
    for item, features in described:
        without = _unusable(model, features)
        table["item"].append(item)
        for name in names:
            table[name].append(None if name in without else features.get(name))
    return table
