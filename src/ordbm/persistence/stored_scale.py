"""What a model file has of the scale, and of the unit in which a Gaussian machine reads ratings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ordbm.data.numeric_columns import LARGEST_NUMBER
from ordbm.data.scale import ContinuousScale, RatingScale, Scale
from ordbm.data.standardiser import LARGEST_RATING, MOST_WEIGHT, Standardiser
from ordbm.inference.distributions import level_cells
from ordbm.persistence.container import Header
from ordbm.persistence.json_values import packed, unpacked


def packed_scale(scale: Scale) -> Header:
    """Its levels, edges or labels; a continuous one's mean and deviation."""
    if isinstance(scale, ContinuousScale):
        return {"mean": float(scale.mean), "deviation": float(scale.deviation)}
    if scale.labels is not None:
        return {"labels": packed(list(scale.labels))}
    if scale.edges is not None:
        return {"edges": scale.edges.tolist()}
    return {"levels": scale.values.tolist()}


def unpacked_scale(plain: Header) -> Scale:
    """The scale of these, checked."""
    if "mean" in plain:
        return ContinuousScale(*_unit([plain["mean"], plain["deviation"]]))
    if "edges" in plain:
        return RatingScale.bins(_numbers(plain["edges"]))
    if "labels" not in plain:
        return RatingScale(_numbers(plain["levels"]))
    labels = unpacked(plain["labels"])
    if not all(isinstance(label, str) for label in labels):
        raise TypeError("labels must be text")
    return RatingScale(labels)


def unpacked_standardiser(plain: Any, scale: Scale, *, needed: bool) -> Standardiser | None:
    """The unit, checked against the scale; None if none is needed."""
    if (plain is not None) != needed:
        raise ValueError("the Gaussian unit is at odds with the features")
    if plain is None:
        return None
    standardiser = Standardiser(*_unit(plain[:2]), *_own_units(plain[2:]))
    if standardiser.weight and isinstance(scale, RatingScale):
        raise ValueError("users have units of their own on a scale of levels")
    if isinstance(scale, RatingScale):
        with np.errstate(over="ignore"):
            if not (np.abs(level_cells(scale, standardiser)[1:-1]) <= LARGEST_RATING).all():
                raise ValueError("the Gaussian unit is at odds with the scale")
    return standardiser


def _own_units(plain: Sequence[Any]) -> tuple[float, float, float, float]:
    """Weight, share, variance and weight of means of users' own units: none in an older file."""
    if not plain:
        return 0.0, 0.0, 1.0, 0.0
    weight, share, variance, mean_weight = _numbers(plain)
    if not (0 <= weight <= LARGEST_NUMBER and 0 <= share <= 1 and 0 <= mean_weight <= MOST_WEIGHT):
        raise ValueError("the weight or share of users' own units is out of range")
    if not 1 / LARGEST_NUMBER <= variance <= LARGEST_NUMBER:
        raise ValueError("the variance of users' own units is out of range")
    return weight, share, variance, mean_weight


def _unit(plain: Sequence[Any]) -> tuple[float, float]:
    mean, deviation = _numbers(plain)
    if not (abs(mean) <= LARGEST_NUMBER and 1 / LARGEST_NUMBER <= deviation <= LARGEST_NUMBER):
        raise ValueError("a mean or deviation is out of range")
    return mean, deviation


def _numbers(plain: Sequence[Any]) -> list[float]:
    if not all(type(value) is float for value in plain):
        raise TypeError("a scale must have numbers")
    return list(plain)
