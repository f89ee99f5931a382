"""What items are ranked by: small objects that give a number to each pair, larger is better.

All of them know whether an item is likely to be rated at all, so they need a model with
`presence=True`; only the mean rating does without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit, ndtr

from ordbm.data.numeric_columns import finite_numbers
from ordbm.data.scale import RatingScale, Scale
from ordbm.errors import RatingsError, SettingsError
from ordbm.inference.distributions import LevelDistribution, RatingDistribution
from ordbm.runtime.arrays import Array as Numbers
from ordbm.runtime.checks import float_of
from ordbm.runtime.printable import shown

LIKED_SHARE = 0.75  # of the way up the scale: 4 of 1 to 5, and of half stars


def _check_number(name: str, value: Any) -> None:
    if not np.isfinite(float_of(value)):
        raise SettingsError(f"{name}={shown(value)}: must be a number")


class Facts(NamedTuple):
    """What is known of some pairs: their rating if there is one, and how likely there is."""

    rating: RatingDistribution
    log_odds: Numbers  # of being rated, (pairs,)
    popularity: Numbers  # how many users rated the item, (pairs,)


class Score:
    """A number for each pair. `needs_rating` and `needs_presence` say which facts it reads."""

    needs_rating = True
    needs_presence = True

    def of(self, facts: Facts) -> Numbers:
        """Of each pair, (pairs,)."""
        raise NotImplementedError

    def bound(self, log_odds: Numbers, popularity: Numbers, scale: Scale) -> Numbers:  # noqa: ARG002
        """What `of` is at most, whatever the rating: from presence alone, of any shape.

        Items are rated in the order of their bounds, until no other can reach the list: a score
        without bounds is asked about every item.
        """
        return np.full_like(log_odds, np.inf, np.float64)

    def level_worth(self, scale: Scale) -> Numbers | None:  # noqa: ARG002
        """A number for each level, if `of` is the mean of these over the rating's levels alone."""
        return None


@dataclass(frozen=True)
class Rated(Score):
    """The log-odds of being rated at all: what somebody will come across and rate."""

    needs_rating = False

    def of(self, facts: Facts) -> Numbers:
        return facts.log_odds

    def bound(self, log_odds: Numbers, popularity: Numbers, scale: Scale) -> Numbers:  # noqa: ARG002
        return log_odds


@dataclass(frozen=True)
class AtLeast(Score):
    """The log-odds of being rated at least so high: what somebody will come across and like.

    `rating` is three quarters of the way up the scale if not said. `weight` is that of being rated:
    0 counts only how it would be rated.
    """

    rating: Any = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_number("weight", self.weight)
        if self.weight < 0:
            raise SettingsError(f"weight={shown(self.weight)}: must be 0 or more")

    def of(self, facts: Facts) -> Numbers:
        scale = facts.rating.scale
        least = least_relevant(scale, self.rating, name="rating")
        if isinstance(scale, RatingScale) and least > scale.values[-1]:
            raise SettingsError(
                f"rating={shown(self.rating)}: the scale ends at {scale.values[-1]:g}"
            )
        return self._log_odds(facts.log_odds, np.log(survival_proba(facts.rating, least)))

    def bound(self, log_odds: Numbers, popularity: Numbers, scale: Scale) -> Numbers:  # noqa: ARG002
        return self._log_odds(log_odds, 0.0)

    def _log_odds(self, rated: Numbers, log_survival: Any) -> Numbers:
        log_proba = self.weight * log_expit(rated.astype(np.float64)) + log_survival
        return log_proba - np.log1p(-np.exp(np.minimum(log_proba, -1e-12)))


@dataclass(frozen=True)
class Gain(Score):
    """The expected gain: P(level) times what each level is worth, {rating: gain}; absent gives 0.

    If not said the levels are worth 0, 1, 3, 7, …, as in the gain of nDCG.
    """

    gains: Mapping[Any, float] | None = None

    def of(self, facts: Facts) -> Numbers:
        rating = facts.rating
        if not isinstance(rating, LevelDistribution):
            raise SettingsError("expected gain needs levels, and these ratings are continuous")
        worth = (rating.proba * self._worth(rating.scale)).sum(axis=1)
        return expit(facts.log_odds.astype(np.float64)) * worth

    def bound(self, log_odds: Numbers, popularity: Numbers, scale: Scale) -> Numbers:
        if not isinstance(scale, RatingScale):
            return super().bound(log_odds, popularity, scale)
        return expit(log_odds.astype(np.float64)) * self._worth(scale).max()

    def _worth(self, scale: RatingScale) -> Numbers:
        """Of each level."""
        if self.gains is None:
            return 2.0 ** np.arange(len(scale.values)) - 1
        worth = np.zeros(len(scale.values))
        worth[scale.codes(list(self.gains))] = finite_numbers(list(self.gains.values()))
        return worth


@dataclass(frozen=True)
class MeanRating(Score):
    """The expected rating of an item, should it be rated."""

    needs_presence = False

    def of(self, facts: Facts) -> Numbers:
        return facts.rating.mean()

    def level_worth(self, scale: Scale) -> Numbers | None:
        return scale.values if isinstance(scale, RatingScale) else None

    def bound(self, log_odds: Numbers, popularity: Numbers, scale: Scale) -> Numbers:  # noqa: ARG002
        most = scale.values[-1] if isinstance(scale, RatingScale) else np.inf
        return np.full_like(log_odds, most, np.float64)


@dataclass(frozen=True)
class Energy(Score):
    """The expected decrease of energy (section 2.4) measured from *absent*, so that items compare.

    The log-odds of being rated less the entropy of the rating. The paper's own, whose zero is
    arbitrary for each item, is `by="energy"`.
    """

    def of(self, facts: Facts) -> Numbers:
        rating = facts.rating
        if isinstance(rating, LevelDistribution):
            log_proba = np.log(np.maximum(rating.proba, 1e-300))
            return facts.log_odds + (rating.proba * log_proba).sum(axis=1)
        return facts.log_odds - 0.5 * np.log(2 * np.pi * np.e * rating.deviation() ** 2)

    def bound(self, log_odds: Numbers, popularity: Numbers, scale: Scale) -> Numbers:
        if isinstance(scale, RatingScale):  # no entropy of levels is below zero
            return log_odds.astype(np.float64)
        return super().bound(log_odds, popularity, scale)


@dataclass(frozen=True)
class Mixture(Score):
    """A weighted sum of scores: Mixture((AtLeast(), 1.0), (MeanRating(), 0.5))."""

    parts: tuple[tuple[Score, float], ...]

    def __init__(self, *parts: Any) -> None:
        if not parts or not all(isinstance(part, tuple) and len(part) == 2 for part in parts):
            raise SettingsError("a mixture needs pairs of a score and its weight")
        if not all(isinstance(score, Score) for score, _ in parts):
            raise SettingsError("a mixture is one of scores of ordbm.scores")
        for _, weight in parts:
            _check_number("weight", weight)
        object.__setattr__(self, "parts", parts)

    def bound(self, log_odds: Numbers, popularity: Numbers, scale: Scale) -> Numbers:
        if any(weight < 0 for _, weight in self.parts):
            return super().bound(log_odds, popularity, scale)
        return np.zeros_like(log_odds, np.float64) + _sum(
            (score.bound(log_odds, popularity, scale), weight)
            for score, weight in self.parts
            if weight  # a bound may be infinite
        )

    def of(self, facts: Facts) -> Numbers:
        return _sum((score.of(facts), weight) for score, weight in self.parts)


@dataclass(frozen=True)
class LongTail(Score):
    """A score less `strength` times the log of how many users rated the item.

    For those who want what is less known: 0 changes nothing, 1 divides the odds by popularity. It
    is meant for scores that are log-odds.
    """

    score: Score
    strength: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.score, Score):
            raise SettingsError(f"score={shown(self.score)}: use a score of ordbm.scores")
        _check_number("strength", self.strength)

    def bound(self, log_odds: Numbers, popularity: Numbers, scale: Scale) -> Numbers:
        return self.score.bound(log_odds, popularity, scale) - self._cost(popularity)

    def of(self, facts: Facts) -> Numbers:
        return self.score.of(facts) - self._cost(facts.popularity)

    def _cost(self, popularity: Numbers) -> Numbers:
        return self.strength * np.log(np.maximum(popularity, 1)).astype(np.float32)


NAMED: dict[str, Score] = {
    "liked": AtLeast(),
    "rated": Rated(),
    "mean": MeanRating(),
    "gain": Gain(),
}


def score_of(by: Any) -> Score:
    """The score of this name, or the score itself."""
    if isinstance(by, Score):
        return by
    if not isinstance(by, str) or by not in NAMED:
        raise SettingsError(
            f"by={shown(by)} is not known: use energy, {', '.join(NAMED)}, or a score of "
            "ordbm.scores"
        )
    return NAMED[by]


def survival_proba(rating: RatingDistribution, least: float) -> Numbers:
    """P(rating ≥ least) of each pair, never quite 0."""
    if isinstance(rating, LevelDistribution):
        proba = rating.proba[:, rating.scale.values >= least].sum(axis=1)
    else:
        proba = ndtr((rating.mean() - least) / rating.deviation())
    return np.clip(proba, 1e-12, 1.0)


def least_relevant(scale: Scale, relevant: Any, name: str = "relevant") -> float:
    """The least rating that counts as relevant, as a number on the scale.

    If not said: three quarters of the way up the levels (4 of 1 to 5, 4 of half stars, 8 of 0 to
    10, the upper of two), and the mean of a continuous scale.
    """
    if relevant is None:
        if not isinstance(scale, RatingScale):
            return scale.mean
        low, high = scale.values[[0, -1]]
        return float(low + LIKED_SHARE * (high - low))
    if isinstance(scale, RatingScale) and scale.labels:
        if relevant not in scale.labels:
            raise SettingsError(f"{name}={shown(relevant)}: use one of {', '.join(scale.labels)}")
        return float(scale.values[scale.labels.index(relevant)])
    try:
        return float(finite_numbers([relevant])[0])
    except RatingsError:
        raise SettingsError(f"{name}={shown(relevant)}: must be a rating, as in {name}=4") from None


def _sum(parts: Any) -> Numbers:
    total: Any = 0.0
    for value, weight in parts:
        total = total + weight * value
    return total
