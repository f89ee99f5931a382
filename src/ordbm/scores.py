"""What lists are ranked by: the scores that `recommend(by=...)` takes, and a base for others."""

from ordbm.recommend.criteria import (
    AtLeast,
    Energy,
    Facts,
    Gain,
    LongTail,
    MeanRating,
    Mixture,
    Rated,
    Score,
    score_of,
)

__all__ = [
    "AtLeast",
    "Energy",
    "Facts",
    "Gain",
    "LongTail",
    "MeanRating",
    "Mixture",
    "Rated",
    "Score",
    "score_of",
]
