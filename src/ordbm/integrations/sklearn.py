"""A model as scikit-learn's regressors are: `fit(X, y)`, `predict(X)`, `score(X, y)`.

X has a row per rating: its user and its item. Grids, cross-validation and pipelines of scikit-learn
then work; it is imported with this module, and nowhere else.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ordbm.data.columns import Column, ColumnChoice
from ordbm.data.ratings import Ratings
from ordbm.data.scale import ScaleLike
from ordbm.errors import RatingsError
from ordbm.estimator import OrdinalBM
from ordbm.integrations.pairs import COLUMNS, pair_columns


class RatingRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The expected rating of (user, item), by a model of ordbm that is told its settings.

    model: what learns, `OrdinalBM()` if not said; it is copied, and its settings are searched as
        `model__hidden`, `model__members` and so on.
    scale: of the ratings, as `Ratings` takes it. In a search or cross-validation it should be said:
        a fold may lack a level.
    user, item: the columns of a frame, by name or number, if their names do not tell.

    After `fit`, `model_` is the fitted model: it has the probabilities, the lists and all the rest.
    """

    def __init__(
        self,
        model: Any = None,
        *,
        scale: ScaleLike = None,
        user: ColumnChoice = None,
        item: ColumnChoice = None,
    ) -> None:
        self.model = model
        self.scale = scale
        self.user = user
        self.item = item

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from pairs and their ratings."""
        if y is None:
            raise RatingsError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give "
                "the rating of each pair"
            )
        users, items = self._pairs(X)
        ratings = Ratings(users, items, y, self.scale)
        model = OrdinalBM() if self.model is None else self.model.clone()
        self.model_ = model.fit(ratings)
        self.n_features_in_ = len(COLUMNS)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The expected rating of each pair."""
        check_is_fitted(self)
        users, items = self._pairs(X)
        expected: NDArray[np.float64] = self.model_.predict(users, items)
        return expected

    def _pairs(self, X: Any) -> tuple[Column, Column]:
        return pair_columns(X, self.user, self.item)
