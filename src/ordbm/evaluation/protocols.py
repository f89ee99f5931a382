"""What a model must offer to be evaluated, and what it says about whom it knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ordbm.data.ratings import Ratings
from ordbm.errors import SettingsError
from ordbm.inference.distributions import RatingDistribution


class RatingModel(Protocol):
    """A model that predicts ratings; for ranking scores it also has `recommend_lists`.

    A `recommend_all` that returns such a dict serves as well.

    It may have a `history` of epochs, and `known_users(ids)` and `known_items(ids)`, masks of those
    it has ratings of: strangers are then counted, and left out of ranking. Cross-validation needs
    `clone()` and `fit(ratings)` as well, with `validation=` if ratings are held out for it.
    """

    def distribution(self, users: Any, items: Any) -> RatingDistribution:
        """The predicted distribution of each pair's rating."""


class RankingModel(RatingModel, Protocol):
    """A model that also lists items."""

    def recommend_lists(self, users: Sequence[Any], n: int) -> dict[Any, list[tuple[Any, float]]]:
        """{user: [(item, score), …]}, the n best first, without items that the user has rated."""


def model_name(model: object) -> str:
    """A model in words: what it says itself, or the name of its class."""
    says = type(model).__repr__ is not object.__repr__
    return repr(model) if says else type(model).__name__


def known_masks(model: Any, test: Ratings) -> dict[str, NDArray[np.bool_]]:
    """Whom of the test ratings' "users" and "items" a model knows; empty if it does not say."""
    return {
        name: np.asarray(getattr(model, f"known_{name}")(list(ids)), bool)
        for name, ids in (("users", test.users), ("items", test.items))
        if hasattr(model, f"known_{name}")
    }


def check_method(model: object, method: str, purpose: str) -> None:
    """An error that says what is missing unless the model has this method."""
    if not callable(getattr(model, method, None)):
        raise SettingsError(
            f"{purpose} needs a model with {method}(): {type(model).__name__} has none"
        )
