"""How good a model is on ratings it has not seen."""

from ordbm.evaluation.evaluations import CrossValidation, Difference, Evaluation, compare
from ordbm.evaluation.progressive import ProgressiveValidation, progressive_validation
from ordbm.evaluation.protocols import RankingModel, RatingModel
from ordbm.evaluation.validation import cross_validate, evaluate, train_and_test
from ordbm.metrics.calibration import Reliability

__all__ = [
    "CrossValidation",
    "Difference",
    "Evaluation",
    "ProgressiveValidation",
    "RankingModel",
    "RatingModel",
    "Reliability",
    "compare",
    "cross_validate",
    "evaluate",
    "progressive_validation",
    "train_and_test",
]
