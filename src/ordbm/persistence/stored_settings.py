"""What a model was told and how it was trained, as plain JSON values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from ordbm.errors import ModelFileError
from ordbm.model.declaration import LARGEST_SETTING
from ordbm.model.learners import (
    ContrastiveDivergence,
    Learner,
    PseudoLikelihood,
)
from ordbm.model.rules import (
    EmbeddingRules,
    FeatureRules,
    PresenceRules,
    ResponseStyleRules,
    SizeRules,
    StructureRules,
)
from ordbm.model.settings import settings_of
from ordbm.persistence.container import Header
from ordbm.persistence.json_values import packed, unpacked
from ordbm.training.loop import EpochRecord

_LEARNER_KINDS = {kind.__name__: kind for kind in (PseudoLikelihood, ContrastiveDivergence)}
RULES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        EmbeddingRules,
        FeatureRules,
        PresenceRules,
        ResponseStyleRules,
        SizeRules,
        StructureRules,
    )
}

# Fields of rules that files may still have, and that nothing follows any more.
_RETIRED = {"least_share"}


def packed_settings(told: Mapping[str, Any]) -> Header:
    """What a model's constructor was told, learner objects with their fields.

    Not where it was learnt, nor in which memory: whoever has the file may learn elsewhere.
    """
    settings = settings_of(**told)
    return {
        name: _packed_learner(value, settings.epochs)
        if isinstance(value, Learner)
        else _packed_setting(name, str(value) if isinstance(value, np.dtype) else value)
        for name, value in told.items()
        if name not in ("engine", "memory")
    }


def _packed_learner(learner: Learner, epochs: int) -> Header:
    if type(learner) not in _LEARNER_KINDS.values():
        raise ModelFileError(
            f"a learner of type {type(learner).__name__} cannot be stored: use one of "
            f"{', '.join(_LEARNER_KINDS)}"
        )
    told = learner.settings()
    if isinstance(learner, ContrastiveDivergence) and callable(learner.steps):
        told["steps"] = learner.identity(max(epochs, 1))["steps"]
    return {
        "learner": type(learner).__name__,
        "settings": {name: _packed_setting(name, value) for name, value in told.items()},
    }


def _packed_setting(name: str, value: Any) -> Any:
    if type(value) in RULES.values():
        return {"rules": type(value).__name__, "settings": _packed_fields(value)}
    try:
        return packed(value)
    except (TypeError, RecursionError) as error:
        raise ModelFileError(f"the setting {name} cannot be stored: {error}") from None


def _packed_fields(rules: Any) -> Header:
    return {one.name: _packed_setting(one.name, getattr(rules, one.name)) for one in fields(rules)}


def unpacked_settings(plain: Header) -> dict[str, Any]:
    """What to tell a constructor."""
    return {name: _unpacked_setting(value) for name, value in plain.items()}


def _unpacked_setting(plain: Any) -> Any:
    if isinstance(plain, dict) and "learner" in plain:
        return _unpacked_learner(plain)
    if isinstance(plain, dict) and "rules" in plain:
        told = {name: one for name, one in plain["settings"].items() if name not in _RETIRED}
        return RULES[plain["rules"]](**_finite(told))
    return unpacked(plain)


def _finite(plain: Header) -> dict[str, Any]:
    told = {name: _unpacked_setting(value) for name, value in plain.items()}
    numbers = [value for value in told.values() if isinstance(value, int | float)]
    if not all(abs(number) <= LARGEST_SETTING for number in numbers):
        raise ValueError("a setting is not finite")
    return told


def _unpacked_learner(plain: Header) -> Learner:
    told = _finite(plain["settings"])
    if isinstance(told.get("steps"), tuple):
        told["steps"] = _schedule(told["steps"])
    return _LEARNER_KINDS[plain["learner"]](**told)


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
