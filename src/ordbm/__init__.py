"""Ordinal Boltzmann machines: rating prediction and ranking.

Public names load on first use, so `import ordbm` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordbm import errors
    from ordbm.datasets import load_dataset
    from ordbm.estimator import OrdinalBM
    from ordbm.learning.learners import ContrastiveDivergence, PseudoLikelihood
    from ordbm.ratings import Ratings
    from ordbm.scale import ContinuousScale, RatingScale
    from ordbm.split import given_n, hold_out, k_fold

__version__ = "0.1.0"

__all__ = [
    "ContinuousScale",
    "ContrastiveDivergence",
    "OrdinalBM",
    "PseudoLikelihood",
    "RatingScale",
    "Ratings",
    "__version__",
    "errors",
    "given_n",
    "hold_out",
    "k_fold",
    "load_dataset",
]

_HOME = {
    "ContinuousScale": "ordbm.scale",
    "ContrastiveDivergence": "ordbm.learning.learners",
    "OrdinalBM": "ordbm.estimator",
    "PseudoLikelihood": "ordbm.learning.learners",
    "RatingScale": "ordbm.scale",
    "Ratings": "ordbm.ratings",
    "given_n": "ordbm.split",
    "hold_out": "ordbm.split",
    "k_fold": "ordbm.split",
    "load_dataset": "ordbm.datasets",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("ordbm.errors")
    if name not in _HOME:
        raise AttributeError(f"module 'ordbm' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
