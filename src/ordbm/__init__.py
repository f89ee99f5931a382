"""Ordinal Boltzmann machines: rating prediction and ranking.

Public names load on first use, so `import ordbm` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordbm import baselines, errors, plots, scores
    from ordbm.data.ratings import Ratings
    from ordbm.data.scale import ContinuousScale, RatingScale
    from ordbm.data.split import given_n, hold_out, k_fold
    from ordbm.datasets import load_dataset, read_ratings, write_ratings
    from ordbm.estimator import OrdinalBM, load
    from ordbm.evaluation import Evaluation, cross_validate, evaluate, progressive_validation
    from ordbm.model.learners import ContrastiveDivergence, PseudoLikelihood
    from ordbm.simulation import Simulated, simulate

__version__ = "0.1.0"

__all__ = [
    "ContinuousScale",
    "ContrastiveDivergence",
    "Evaluation",
    "OrdinalBM",
    "PseudoLikelihood",
    "RatingScale",
    "Ratings",
    "Simulated",
    "__version__",
    "baselines",
    "cross_validate",
    "errors",
    "evaluate",
    "given_n",
    "hold_out",
    "k_fold",
    "load",
    "load_dataset",
    "plots",
    "progressive_validation",
    "read_ratings",
    "scores",
    "simulate",
    "write_ratings",
]

_HOME = {
    "ContinuousScale": "ordbm.data.scale",
    "ContrastiveDivergence": "ordbm.model.learners",
    "Evaluation": "ordbm.evaluation",
    "OrdinalBM": "ordbm.estimator",
    "PseudoLikelihood": "ordbm.model.learners",
    "RatingScale": "ordbm.data.scale",
    "Ratings": "ordbm.data.ratings",
    "Simulated": "ordbm.simulation",
    "cross_validate": "ordbm.evaluation",
    "evaluate": "ordbm.evaluation",
    "given_n": "ordbm.data.split",
    "hold_out": "ordbm.data.split",
    "k_fold": "ordbm.data.split",
    "load": "ordbm.estimator",
    "load_dataset": "ordbm.datasets",
    "progressive_validation": "ordbm.evaluation",
    "read_ratings": "ordbm.datasets",
    "simulate": "ordbm.simulation",
    "write_ratings": "ordbm.datasets",
}

_MODULES = {"baselines", "errors", "plots", "scores"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"ordbm.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'ordbm' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
