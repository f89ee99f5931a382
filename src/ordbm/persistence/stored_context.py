"""Links between ratings of about one time, as arrays of a model file, and back."""

from __future__ import annotations

import numpy as np

from ordbm.model.context_links import N_FEATURES, ContextLinks
from ordbm.model.machine import LARGEST_PARAMETER
from ordbm.persistence.container import Arrays, taken
from ordbm.runtime.arrays import Numbers

_LARGEST_SCALE = 1e15
_MOST_SCALES = 100


def context_arrays(context: ContextLinks | None) -> Arrays:
    """Nothing if none were learnt."""
    if context is None:
        return {}
    return {
        "context.scale": context.scales,
        "context.shrinkage": np.array([context.shrinkage]),
        "context.weight": context.weight,
    }


def unpacked_context(arrays: Arrays, times: Numbers) -> ContextLinks | None:
    """The links in a file, if it has any."""
    if "context.scale" not in arrays:
        return None
    if not len(times):
        raise ValueError("links by time without times")
    scales = taken(arrays, "context.scale", np.float64, None)
    shrinkage = taken(arrays, "context.shrinkage", np.float64, 1)
    weight = taken(arrays, "context.weight", np.float64, len(scales), N_FEATURES)
    if len(scales) > _MOST_SCALES:
        raise ValueError("links by time have more scales than anybody needs")
    if not ((scales >= 0) & (scales <= _LARGEST_SCALE)).all():
        raise ValueError("a scale of links by time is out of range")
    if not 0 < shrinkage[0] <= _LARGEST_SCALE:
        raise ValueError("the shrinkage of links by time is out of range")
    if not (np.abs(weight) <= LARGEST_PARAMETER).all():
        raise ValueError("a weight of links by time is out of range")
    return ContextLinks(scales, float(shrinkage[0]), weight)
