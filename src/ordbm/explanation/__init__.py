"""Why a prediction is what it is, and what is near what."""

from ordbm.explanation.parts import Explanation, Part, explained
from ordbm.explanation.similarity import Similar, hidden_space, nearest

__all__ = ["Explanation", "Part", "Similar", "explained", "hidden_space", "nearest"]
