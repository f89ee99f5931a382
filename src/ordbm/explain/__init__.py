"""Why a prediction is what it is, and what is near what."""

from ordbm.explain.explanation import Explanation, Part, explanation_of, with_context
from ordbm.explain.similar_people import nearest_users
from ordbm.explain.similarity import Similar, hidden_space, nearest

__all__ = [
    "Explanation",
    "Part",
    "Similar",
    "explanation_of",
    "hidden_space",
    "nearest",
    "nearest_users",
    "with_context",
]
