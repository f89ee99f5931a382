"""One person's list, and a line of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from ordbm.data.ids import IdMap
from ordbm.runtime.arrays import Array, Codes


class Recommendation(NamedTuple):
    """One line of a list: the item, what it was ranked by, and its predicted rating.

    With presence also P(rated), and the items of the person's that raise it most, each with what it
    adds to the potential that is recalibrated to log-odds.
    """

    item: Any
    score: float
    mean: float
    confidence: float
    rated: float | None = None
    because: tuple[tuple[Any, float], ...] = ()


class Ranked(NamedTuple):
    """One person's list: items, best first, with what is known of each."""

    person: int
    items: Codes
    score: Array
    mean: Array
    confidence: Array
    rated: Array | None  # P(rated), with presence


def recommendations(
    items: IdMap, listed: Codes, score: Array, mean: Array, confidence: Array
) -> list[Recommendation]:
    """The listed items with their scores, and mean and confidence of their predicted ratings."""
    columns = (listed.tolist(), score.tolist(), mean.tolist(), confidence.tolist())
    return [Recommendation(items[item], *figures) for item, *figures in zip(*columns, strict=True)]
