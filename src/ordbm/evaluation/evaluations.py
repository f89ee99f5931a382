"""What an evaluation found, in full and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ordbm.errors import RatingsError
from ordbm.metrics.bootstrap import RESAMPLES, percentile_interval, resampled_ratios
from ordbm.metrics.calibration import Reliability
from ordbm.runtime.arrays import Numbers
from ordbm.training.loop import EpochRecord

_OF_THE_LONGEST = ("mrr", "half_life_utility")  # scores of the longest of all lists


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Scores of a model on test ratings, with what is needed to explain and compare them.

    scores: over all test ratings mae_mean, mae_median, mae_mode, rmse, log_loss, rps (CRPS on a
        continuous scale) and calibration_error, smaller is better; over lists "precision@10",
        "recall@10", "ndcg@10", … for each length, and, on the longest, mrr and half_life_utility
        (in percent), larger is better.
    intervals: 95 % of bootstrap samples of users. None for calibration_error, which resampling
        biases upwards, and none at all for fewer than two users.
    per_user: a value for each of `users`, NaN for one who has none (ranking without relevant test
        items, or unknown to the model). Single users have no calibration_error.
    weights: what each value of `per_user` counts for in the score.
    seconds: predict; rank, with lists; fit, where it was part of the evaluation.
    unknown: test ratings of "users" and of "items" that the model has no ratings of; empty if the
        model does not say whom it knows.
    n_items, unknown_ids: how many items were tested, and how many of the "users" and "items" tested
        the model has no ratings of.
    unranked: users left out of ranking scores, those "without_relevant" items and the "unknown".
    """

    model: str
    scores: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    per_user: dict[str, Numbers]
    users: list[Any]
    reliability: list[Reliability]
    n_ratings: int
    n_users: int
    seconds: dict[str, float] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    history: list[EpochRecord] = field(default_factory=list)
    unranked: dict[str, int] = field(default_factory=dict)
    weights: dict[str, Numbers] = field(default_factory=dict)
    n_items: int = 0
    unknown_ids: dict[str, int] = field(default_factory=dict)

    def to_dict(self, *, per_user: bool = False) -> dict[str, Any]:
        """Everything as JSON has it (no NaN but null); values of single users only if asked for.

        Ids that JSON does not have become text.
        """
        found: dict[str, Any] = {
            "model": self.model,
            "n_ratings": self.n_ratings,
            "n_users": self.n_users,
            "scores": self.scores,
            "intervals": {name: list(ends) for name, ends in self.intervals.items()},
            "n_items": self.n_items,
            "unknown": self.unknown,
            "unknown_ids": self.unknown_ids,
            "unranked": self.unranked,
            "seconds": self.seconds,
            "reliability": [curve.to_dict() for curve in self.reliability],
            "history": [asdict(record) for record in self.history],
        }
        if per_user:
            found["users"] = [
                user if isinstance(user, str | int) else str(user) for user in self.users
            ]
            found["per_user"] = {name: values.tolist() for name, values in self.per_user.items()}
        return {name: _json_ready(value) for name, value in found.items()}

    def __repr__(self) -> str:
        lines = [f"{self.model} on {self.n_ratings:,} ratings by {self.n_users:,} users"]
        for name, score in self.scores.items():
            low, high = self.intervals.get(name, (None, None))
            ends = "" if low is None else f"  ({low:.4f} to {high:.4f})"
            lines.append(f"  {name:<18}{score:>9.4f}{ends}")
        return "\n".join([*lines, *unknown_in_words([self])])


@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation:
    """The evaluation of each fold; `scores` are their means.

    A standard error is the deviation of the folds' scores over the root of their number. Folds
    share training ratings, so it is a guide, not a test.
    """

    model: str
    evaluations: list[Evaluation]

    @property
    def scores(self) -> dict[str, float]:
        return {name: float(np.mean(values)) for name, values in self._by_fold().items()}

    @property
    def standard_errors(self) -> dict[str, float]:
        return {
            name: float(np.std(values, ddof=1) / np.sqrt(len(values)))
            for name, values in self._by_fold().items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON has it, fold by fold."""
        return {
            "model": self.model,
            "folds": len(self.evaluations),
            "scores": _json_ready(self.scores),
            "standard_errors": _json_ready(self.standard_errors),
            "evaluations": [evaluation.to_dict() for evaluation in self.evaluations],
        }

    def _by_fold(self) -> dict[str, list[float]]:
        names = self.evaluations[0].scores
        return {name: [found.scores[name] for found in self.evaluations] for name in names}

    def __repr__(self) -> str:
        errors = self.standard_errors
        lines = [f"{self.model}, {len(self.evaluations)} folds"]
        lines += [
            f"  {name:<18}{score:>9.4f} ± {errors[name]:.4f}" for name, score in self.scores.items()
        ]
        return "\n".join([*lines, *unknown_in_words(self.evaluations)])


def unknown_in_words(found: Sequence[Evaluation]) -> list[str]:
    """A line that says how many users and items, of all folds, were unknown to the model.

    None if the model does not say whom it knows.
    """
    if not all(one.unknown_ids for one in found):
        return []
    parts = []
    for what in ("users", "items"):
        unknown = sum(one.unknown_ids[what] for one in found)
        tested = sum(getattr(one, f"n_{what}") for one in found)
        rated = sum(one.unknown[what] for one in found)
        ratings = f" ({rated:,} rating{'s' * (rated > 1)})" if rated else ""
        parts.append(f"{unknown:,} of {tested:,} {what}{ratings}")
    return [f"  unknown to the model: {', '.join(parts)}"]


@dataclass(frozen=True)
class Difference:
    """One model's score minus another's on the same users, with its 95 % interval."""

    difference: float
    low: float
    high: float


def compare(
    first: Evaluation, second: Evaluation, *, bootstrap: int = RESAMPLES, seed: int = 0
) -> dict[str, Difference]:
    """`first` minus `second`, for each score that both have of single users.

    Paired: every resample has the same users for both, so what users have in common cancels. Both
    must have been evaluated on the same test ratings.
    """
    if first.users != second.users or first.n_ratings != second.n_ratings:
        raise RatingsError(
            "only evaluations on the same test ratings can be compared: "
            f"{first.model} has {first.n_ratings:,} ratings by {first.n_users:,} users, "
            f"{second.model} {second.n_ratings:,} by {second.n_users:,}"
        )
    both = [
        {name: totals_of(name, found.per_user[name], found.weights[name]) for name in found.weights}
        for found in (first, second)
    ]
    # Scores of the longest list are alike only if it is as long.
    same_length = _longest(first) == _longest(second)
    names = [
        name for name in both[0] if name in both[1] and (same_length or name not in _OF_THE_LONGEST)
    ]
    if not names:
        raise RatingsError(f"{first.model} and {second.model} have no score in common")
    left, right = (
        resampled_scores({name: sums[name] for name in names}, bootstrap, seed) for sums in both
    )
    return {
        name: Difference(
            first.scores[name] - second.scores[name], *percentile_interval(left[name] - right[name])
        )
        for name in names
    }


# A score is f(Σ_u total / Σ_u weight): what follows is the one place that knows f.


def score_from_ratio(name: str, ratio: Any) -> Any:
    """The score whose sums have this ratio: the root for RMSE, in percent for utility."""
    if name == "rmse":
        return np.sqrt(ratio)
    return 100.0 * ratio if name == "half_life_utility" else ratio


def totals_of(name: str, score: Numbers, weight: Numbers) -> tuple[Numbers, Numbers]:
    """(total, weight) of each user from score and weight, zero where there is no score."""
    ratio = np.where(weight > 0, score, 0.0)
    if name == "rmse":
        ratio = ratio**2
    elif name == "half_life_utility":
        ratio = ratio / 100.0
    return ratio * weight, weight


def resampled_scores(
    sums: Mapping[str, tuple[Numbers, Numbers]], resamples: int, seed: int
) -> dict[str, Numbers]:
    """Each score in each resample of users, (resamples,), from its (totals, weights)."""
    totals, weights = (np.column_stack([pair[part] for pair in sums.values()]) for part in (0, 1))
    ratios = resampled_ratios(totals, weights, resamples, seed)
    return {name: score_from_ratio(name, ratios[:, column]) for column, name in enumerate(sums)}


def _longest(evaluation: Evaluation) -> int:
    return max((int(name.partition("@")[2] or 0) for name in evaluation.scores), default=0)


def _json_ready(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _json_ready(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_json_ready(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
