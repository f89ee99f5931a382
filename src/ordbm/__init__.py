"""Ordinal Boltzmann machines: rating prediction and ranking.

Public names load on first use, so `import ordbm` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordbm import baselines, errors, plots, scores
    from ordbm.datasets import load_dataset, read_ratings, write_ratings
    from ordbm.estimator import OrdinalBM, load
    from ordbm.evaluation import Evaluation, cross_validate, evaluate
    from ordbm.learning.learners import ContrastiveDivergence, PseudoLikelihood
    from ordbm.ratings import Ratings
    from ordbm.scale import ContinuousScale, RatingScale
    from ordbm.simulation import Simulated, simulate
    from ordbm.split import given_n, hold_out, k_fold

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
    "read_ratings",
    "scores",
    "simulate",
    "write_ratings",
]

_HOME = {
    "ContinuousScale": "ordbm.scale",
    "ContrastiveDivergence": "ordbm.learning.learners",
    "Evaluation": "ordbm.evaluation",
    "OrdinalBM": "ordbm.estimator",
    "PseudoLikelihood": "ordbm.learning.learners",
    "RatingScale": "ordbm.scale",
    "Ratings": "ordbm.ratings",
    "Simulated": "ordbm.simulation",
    "cross_validate": "ordbm.evaluation",
    "evaluate": "ordbm.evaluation",
    "given_n": "ordbm.split",
    "hold_out": "ordbm.split",
    "k_fold": "ordbm.split",
    "load": "ordbm.estimator",
    "load_dataset": "ordbm.datasets",
    "read_ratings": "ordbm.datasets",
    "simulate": "ordbm.simulation",
    "write_ratings": "ordbm.datasets",
}


def __getattr__(name: str) -> Any:
    if name in {"baselines", "errors", "plots", "scores"}:
        return import_module(f"ordbm.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'ordbm' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
