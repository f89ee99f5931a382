"""Context of ratings and the links between those of about one, as arrays of a model file, and back.

Categories are in the header: `{"context": [[name, [category, ...] or null], ...]}`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ordbm.data.context_columns import NO_CONTEXT, UNKNOWN, ContextColumns
from ordbm.kernels.context import FIRST_COLUMN, RATED_TOGETHER, TIME
from ordbm.model.context_links import N_FEATURES, ContextLinks
from ordbm.model.machine import LARGEST_PARAMETER
from ordbm.persistence.container import Arrays, taken
from ordbm.runtime.arrays import Numbers

_LARGEST_SCALE = 1e150
_MOST_SCALES = 1000
_LARGEST_VALUE = 1e150


def context_arrays(links: ContextLinks | None, columns: ContextColumns) -> Arrays:
    """Of a model's ratings; nothing if there is none."""
    arrays = {"ratings.context": columns.values} if columns else {}
    if links is None:
        return arrays
    return arrays | {
        "context.axis": links.axes,
        "context.scale": links.scales,
        "context.alike": links.alike.astype(np.uint8),
        "context.shrinkage": links.shrinkage,
        "context.weight": links.weight,
    }


def context_header(columns: ContextColumns) -> list[Any] | None:
    """Names and categories of columns; None if there are none."""
    return [list(pair) for pair in zip(columns.names, columns.categories, strict=True)] or None


def unpacked_columns(header: Any, arrays: Arrays, n_ratings: int) -> ContextColumns:
    """The columns of context in a file."""
    if header is None:
        return NO_CONTEXT
    names, kinds = [], []
    for entry in header:
        name, categories = entry
        plain = categories is None or all(isinstance(one, str) for one in categories)
        if (
            not isinstance(name, str)
            or not plain
            or len(set(categories or ())) < len(categories or ())
        ):
            raise ValueError("a column of context has no name, or categories that are not texts")
        names.append(name)
        kinds.append(None if categories is None else tuple(categories))
    if len(set(names)) < len(names) or not names:
        raise ValueError("columns of context must have names of their own")
    values = taken(arrays, "ratings.context", np.float64, n_ratings, len(names))
    for column, categories in zip(values.T, kinds, strict=True):
        known = column[column != UNKNOWN]
        if not (np.abs(known) <= _LARGEST_VALUE).all():
            raise ValueError("a context is out of range")
        if (
            categories is not None
            and not ((known >= 0) & (known < len(categories)) & (known == np.floor(known))).all()
        ):
            raise ValueError("a context is none of its categories")
    return ContextColumns(tuple(names), tuple(kinds), values)


def unpacked_context(
    arrays: Arrays, times: Numbers, columns: ContextColumns
) -> ContextLinks | None:
    """The links in a file, if it has any."""
    if "context.scale" not in arrays:
        return None
    scales = taken(arrays, "context.scale", np.float64, None)
    # An older file knows time alone, and one shrinkage.
    arrays.setdefault("context.axis", np.full(len(scales), TIME))
    arrays.setdefault("context.alike", np.zeros(len(scales), np.uint8))
    axes = taken(arrays, "context.axis", np.int64, len(scales))
    alike = taken(arrays, "context.alike", np.uint8, len(scales))
    if arrays["context.shrinkage"].size == 1:
        arrays["context.shrinkage"] = np.full(len(scales), arrays["context.shrinkage"].item())
    shrinkage = taken(arrays, "context.shrinkage", np.float64, len(scales))
    weight = taken(arrays, "context.weight", np.float64, len(scales), N_FEATURES)
    if len(scales) > _MOST_SCALES:
        raise ValueError("links by context have more scales than anybody needs")
    if (axes < FIRST_COLUMN).any() and not len(times):
        raise ValueError("links by time without times")
    for what, found, least, most in (
        ("an axis", axes, TIME, FIRST_COLUMN + len(columns.names) - 1),
        ("a scale", scales, 0, _LARGEST_SCALE),
        ("the likeness of items", alike, 0, RATED_TOGETHER),
        ("the shrinkage", shrinkage, np.finfo(float).tiny, _LARGEST_SCALE),
        ("a weight", weight, -LARGEST_PARAMETER, LARGEST_PARAMETER),
    ):
        if not ((found >= least) & (found <= most)).all():
            raise ValueError(f"{what} of links by context is out of range")
    return ContextLinks(axes, scales, alike, shrinkage, weight)
