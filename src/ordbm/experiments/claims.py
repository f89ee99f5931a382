"""Whether the orderings that the paper claims hold in the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy.stats import t as student

from ordbm.experiments.definition import MAE, OWN, Claim, Experiment
from ordbm.experiments.result_rows import Row

Verdict = Literal["holds", "does not hold", "undecided", "one seed: holds", "one seed: does not"]

_CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A mean over seeds with its standard error, which one seed does not have."""

    mean: float
    error: float | None
    n: int


class ClaimCheck(NamedTuple):
    """By how much the machine that should be better is, seed by seed on the same splits."""

    claim: Claim
    learner: str
    hidden: int | None  # of both machines; None where the claim names sizes itself
    advantage: Estimate  # above zero: as claimed
    interval: tuple[float, float] | None

    @property
    def verdict(self) -> Verdict:
        """By whether the interval is to the right or to the left of zero."""
        if self.interval is None:
            return "one seed: holds" if self.advantage.mean > 0 else "one seed: does not"
        if self.interval[0] > 0:
            return "holds"
        return "does not hold" if self.interval[1] < 0 else "undecided"


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and standard error of a score's values for several seeds."""
    n = len(values)
    error = float(np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else None
    return Estimate(float(np.mean(values)), error, n)


def mean_interval(found: Estimate) -> tuple[float, float] | None:
    """Student's 95 % interval of the mean; None from one seed."""
    if found.error is None:
        return None
    reach = float(student.ppf(0.5 + _CONFIDENCE / 2, found.n - 1)) * found.error
    return found.mean - reach, found.mean + reach


def check_claims(experiment: Experiment, rows: Sequence[Row]) -> list[ClaimCheck]:
    """Every claim with every learner, at every size that the rows have."""
    return [one for claim in experiment.claims for one in _claim_checks(claim, rows)]


def _claim_checks(claim: Claim, rows: Sequence[Row]) -> Iterator[ClaimCheck]:
    sign = 1.0 if claim.larger_is_better else -1.0
    for (learner, hidden), better in _scores(rows, claim.better, claim.score).items():
        if claim.better_hidden not in (None, hidden):
            continue
        worse = _opponent(claim, rows, learner, claim.worse_hidden or hidden)
        seeds = sorted(set(better) & set(worse))
        if not seeds:
            continue
        advantage = estimate([sign * (better[seed] - worse[seed]) for seed in seeds])
        size = None if claim.better_hidden else hidden
        yield ClaimCheck(claim, learner, size, advantage, mean_interval(advantage))


def _opponent(claim: Claim, rows: Sequence[Row], learner: str, hidden: int) -> dict[int, float]:
    """Scores by seed of the machine that should be worse, with the same learner or with its own."""
    score = claim.worse_score or claim.score
    same = _scores(rows, claim.worse, score).get((learner, hidden))
    if same is not None:
        return same
    if learner == "ours" and score == MAE:
        score = "mae_median"  # our learner's decoding, for both
    own = _scores([row for row in rows if row["learner"] in OWN], claim.worse, score)
    found = [by_seed for (_, size), by_seed in own.items() if size in (hidden, 0)]
    return found[0] if found else {}


Scores = dict[tuple[str, int], dict[int, float]]  # (learner, hidden) to seed to score


def _scores(rows: Sequence[Row], machine: str, score: str) -> Scores:
    found: Scores = {}
    for row in rows:
        if row["machine"] == machine and score in row["scores"]:
            at = found.setdefault((row["learner"], row["hidden"]), {})
            at[row["seed"]] = row["scores"][score]
    return found
