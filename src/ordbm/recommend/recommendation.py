"""One line of a list."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from ordbm.data.ids import IdMap
from ordbm.inference.distributions import RatingDistribution


class Recommendation(NamedTuple):
    """One line of a list: the item, what it was ranked by, and its predicted rating.

    With presence also P(rated), and the items of the person's that raise it most, each with what it
    adds to the potential of which the log-odds are a curve.
    """

    item: Any
    score: float
    mean: float
    confidence: float
    rated: float | None = None
    because: tuple[tuple[Any, float], ...] = ()


def recommendations(
    items: IdMap, listed: NDArray[Any], score: NDArray[Any], rating: RatingDistribution
) -> list[Recommendation]:
    """The listed items with their scores and predicted ratings."""
    figures = zip(listed.tolist(), score, rating.mean(), rating.confidence(), strict=True)
    return [
        Recommendation(items[item], float(rank), float(mean), float(sure))
        for item, rank, mean, sure in figures
    ]
