"""Lists of items that differ from each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.inference.factors import hidden_means, joined
from ordbm.inference.fitted import FittedModel


def hidden_directions(state: FittedModel, items: NDArray[Any]) -> NDArray[Any]:
    """Hidden representations of items, centred, of length one: (items, hidden units)."""
    user_side, item_side = state.machines[0].sides
    if item_side is not None and item_side.n_hidden:
        factors = joined(hidden_means(state.conditioned, 1))
    else:  # items have no hidden units of their own: their couplings to those of users
        assert user_side is not None
        factors = user_side.parameters.coupling.reshape(len(state.items), -1)
    centred = factors[items] - factors.mean(axis=0)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return centred / np.maximum(length, 1e-12)


def diverse_places(
    score: NDArray[Any], direction: NDArray[Any], n: int, diversity: float
) -> NDArray[np.int64]:
    """Places by maximal marginal relevance: good, and unlike what is listed before.

    Scores run from 0 to 1 here; likeness is the cosine with the nearest item listed so far.
    """
    low, high = score.min(initial=np.inf), score.max(initial=-np.inf)
    worth = (score - low) / max(high - low, 1e-12)
    nearest = np.zeros(len(score))
    chosen: list[int] = []
    left = np.ones(len(score), bool)
    while left.any() and len(chosen) < n:
        value = np.where(left, (1 - diversity) * worth - diversity * nearest, -np.inf)
        chosen.append(int(value.argmax()))
        left[chosen[-1]] = False
        likeness = direction @ direction[chosen[-1]]
        nearest = np.maximum(nearest, likeness) if len(chosen) > 1 else likeness
    return np.array(chosen, np.int64)
