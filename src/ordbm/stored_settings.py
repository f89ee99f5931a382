"""What a model was told and how it was trained, as plain JSON values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np

from ordbm.container import Header
from ordbm.errors import ModelFileError
from ordbm.learning.learners import (
    ContrastiveDivergence,
    Learner,
    PseudoLikelihood,
    learner_of,
)
from ordbm.learning.loop import EpochRecord
from ordbm.portable import packed, unpacked
from ordbm.settings import settings_of

LEARNERS = {kind.__name__: kind for kind in (PseudoLikelihood, ContrastiveDivergence)}
LARGEST_SETTING = 1e15  # of a learner, where numbers are rates, precisions and sizes


def packed_settings(told: Mapping[str, Any]) -> Header:
    """What a model's constructor was told, learner objects with their fields."""
    settings = settings_of(**told)
    return {
        name: _packed_learner(value, settings.epochs)
        if isinstance(value, Learner)
        else _packed_setting(name, str(value) if isinstance(value, np.dtype) else value)
        for name, value in told.items()
    }


def _packed_learner(learner: Learner, epochs: int) -> Header:
    if type(learner) not in LEARNERS.values():
        raise ModelFileError(
            f"a learner of type {type(learner).__name__} cannot be stored: use one of "
            f"{', '.join(LEARNERS)}"
        )
    told = {field.name: getattr(learner, field.name) for field in fields(learner)}
    if isinstance(learner, ContrastiveDivergence) and callable(learner.steps):
        told["steps"] = tuple(map(learner.chain_length, range(max(epochs, 1))))
    return {
        "learner": type(learner).__name__,
        "settings": {name: _packed_setting(name, value) for name, value in told.items()},
    }


def _packed_setting(name: str, value: Any) -> Any:
    try:
        return packed(value)
    except (TypeError, RecursionError) as error:
        raise ModelFileError(f"the setting {name} cannot be stored: {error}") from None


def unpacked_settings(plain: Header) -> dict[str, Any]:
    """What to tell a constructor."""
    return {
        name: _unpacked_learner(value)
        if isinstance(value, dict) and "learner" in value
        else unpacked(value)
        for name, value in plain.items()
    }


def of_older_format(told: Mapping[str, Any], version: int) -> dict[str, Any]:
    """What a model of an older format was told, with what the defaults were at that time.

    A newcomer is met with the prior that the model was learnt with.
    """
    settings = settings_of(**told)
    found = dict(told)
    learner = learner_of(settings.learner)
    if version == 1:
        hidden = settings.hidden_sizes if settings.hidden is None else settings.hidden
        found |= {"hidden": hidden, "members": 1}
    if isinstance(learner, PseudoLikelihood):
        named = learner is not settings.learner
        if version <= 3:
            learner = replace(learner, traits=0)
        if version >= 3 and named:
            learner = replace(learner, ratings_per_unit=0.2)
        if version <= 2:
            learner = replace(learner, learn_habits=False)
        if version == 2 and named:
            learner = replace(learner, ratings_per_unit=0.3)
        if version == 1:
            learner = replace(learner, ratings_per_unit=0.0, count_weight=0.0)
        if version == 1 and named:
            learner = replace(learner, coupling_precision=12.0, bias_precision=1.0)
        found["learner"] = learner
    return found


def _unpacked_learner(plain: Header) -> Learner:
    told = {name: unpacked(value) for name, value in plain["settings"].items()}
    numbers = [value for value in told.values() if isinstance(value, int | float)]
    if not all(abs(number) <= LARGEST_SETTING for number in numbers):
        raise ValueError("a learner's setting is not finite")
    if isinstance(told.get("steps"), tuple):
        told["steps"] = _schedule(told["steps"])
    return LEARNERS[plain["learner"]](**told)


def _schedule(lengths: tuple[int, ...]) -> Any:
    """A function of the epoch that was stored as what it gives; the last goes on."""
    if not lengths or not all(type(length) is int for length in lengths):
        raise ValueError("a learner's steps are not whole numbers")

    def steps(epoch: int) -> int:
        return lengths[min(epoch, len(lengths) - 1)]

    return steps


def unpacked_record(plain: Header) -> EpochRecord:
    """An epoch's record from its fields."""
    record = EpochRecord(**plain)
    figures = [value for name, value in asdict(record).items() if name != "validation"]
    if not all(type(value) in (int, float) for value in (*figures, *record.validation.values())):
        raise ValueError("the training record must have numbers")
    return record
