"""Predicted distributions as tables and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ordbm.data.frames import Backend, frame_of
from ordbm.data.lookup import several
from ordbm.data.numeric_columns import finite_numbers
from ordbm.errors import RatingsError, SettingsError
from ordbm.inference.distributions import LevelDistribution, RatingDistribution
from ordbm.runtime.arrays import Codes, Numbers


def level_probabilities(distribution: RatingDistribution) -> Numbers:
    """P(level) of each pair, or an error if the ratings have no levels."""
    if not isinstance(distribution, LevelDistribution):
        raise SettingsError(
            "these ratings are continuous and have no levels: use predict_table or "
            "distribution, which give mean and deviation"
        )
    return distribution.proba


def log_probabilities(distribution: RatingDistribution, ratings: Any) -> Numbers:
    """log P of a rating for each pair (log density on a continuous scale)."""
    given = several(ratings)
    if isinstance(distribution, LevelDistribution):
        codes = distribution.scale.codes(given)
        if len(codes) != len(distribution.proba):
            raise RatingsError(f"{len(codes)} ratings for {len(distribution.proba)} pairs")
        return distribution.log_probability(codes)
    numbers = finite_numbers(given)
    if len(numbers) != len(distribution.mean()):
        raise RatingsError(f"{len(numbers)} ratings for {len(distribution.mean())} pairs")
    return distribution.log_probability(numbers)


def prediction_table(
    pairs: tuple[Sequence[Any], Sequence[Any]],
    codes: tuple[Codes, Codes],
    distribution: RatingDistribution,
    backend: Backend | None,
) -> Any:
    """A frame with a row per pair: ids, mean, median, mode, deviation, confidence, known, p_…."""
    columns: dict[str, Any] = {
        "user": list(pairs[0]),
        "item": list(pairs[1]),
        "mean": distribution.mean(),
        "median": distribution.median(),
        "mode": distribution.mode(),
        "deviation": distribution.deviation(),
        "confidence": distribution.confidence(),
        "known_user": codes[0] >= 0,
        "known_item": codes[1] >= 0,
    }
    if isinstance(distribution, LevelDistribution):
        names = distribution.scale.labels or [
            f"{value:.15g}" for value in distribution.scale.values
        ]
        columns |= {f"p_{name}": distribution.proba[:, s] for s, name in enumerate(names)}
    return frame_of(columns, backend)
