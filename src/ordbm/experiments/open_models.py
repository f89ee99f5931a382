"""Models that can be scored while they learn, without a say in what they learn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ordbm.baselines import SVD
from ordbm.baselines.svd import FactorPoints
from ordbm.data.ratings import Ratings
from ordbm.data.scale import RatingScale
from ordbm.estimator import OrdinalBM
from ordbm.inference.conditioned import Method
from ordbm.inference.distributions import LevelDistribution, RatingDistribution
from ordbm.inference.fitted import FittedModel
from ordbm.inference.people import Users
from ordbm.metrics.prediction import losses
from ordbm.model.presence import ConditionedPresence
from ordbm.runtime.arrays import Numbers


class OpenMachine(OrdinalBM):
    """An `OrdinalBM` that can be scored while it learns."""

    _so_far: Callable[[], FittedModel]

    def _watch(self, fitted: FittedModel) -> None:
        # Made anew for every answer: what it has worked out belongs to one epoch's parameters.
        self._so_far = partial(
            FittedModel,
            fitted.users,
            fitted.items,
            fitted.scale,
            fitted.standardiser,
            fitted.machines,
            fitted.given,
            fitted.threads,
        )

    @property
    def conditioned_presence(self) -> ConditionedPresence | None:
        """What it knows of which items get rated; None if it was not to learn that."""
        return self._state.conditioned_presence

    def scores(self, test: Ratings, method: Method) -> dict[str, float]:
        """Scores on ratings that it does not learn from, by its parameters of this moment."""
        state = self._so_far()
        codes = state.validation_codes(test)
        found = rating_scores(state.distribution(Users(state), *codes, method), test)
        if state.standardiser is not None:
            centre = state.conditioned[0].pair_scores(*codes, "mean_field")[:, 0].astype(np.float64)
            own = state.own_units.of(codes[0])
            read = own.centre + own.width * centre
            point = state.standardiser.mean + state.standardiser.deviation * read
            found |= {f"mae_point{name}": one for name, one in _point_errors(point, test).items()}
        return found


class OpenSVD(SVD):
    """An `SVD` that can be scored while it learns."""

    _growing: FactorPoints | None = None

    def _points(self, ratings: Ratings) -> FactorPoints:
        points = super()._points(ratings)
        if self._growing is None:  # the first are those of all ratings; others serve the spread
            self._growing = points
        return points

    def scores(self, test: Ratings) -> dict[str, float]:
        """Scores on ratings that it does not learn from: of its points, then of distributions."""
        if self._fitted is not None:
            known, _, learnt = self._state
            return rating_scores(learnt.distribution(*known.validation_codes(test)), test)
        assert self._growing is not None
        errors = _point_errors(self._growing.at(test.user_codes, test.item_codes), test)
        return {"mae_mean": errors[""], "mae_rounded": errors["_rounded"]}


def rating_scores(predicted: RatingDistribution, test: Ratings) -> dict[str, float]:
    """MAE of mean, median, mode and rounded mean, RMSE of the mean, log-loss and RPS."""
    assert isinstance(predicted, LevelDistribution)
    found = {name: float(one.mean()) for name, one in losses(predicted, test.values).items()}
    found["rmse"] = float(np.sqrt(found["rmse"]))
    return found | {"mae_rounded": _point_errors(predicted.mean(), test)["_rounded"]}


def _point_errors(predicted: Numbers, test: Ratings) -> dict[str, float]:
    """MAE of one number per rating, cut to the scale as it is (""), and rounded to levels."""
    assert isinstance(test.scale, RatingScale)
    inside = np.clip(predicted, *test.scale.values[[0, -1]])
    rounded = test.scale.values[test.scale.nearest(inside)]
    return {
        "": float(np.abs(inside - test.values).mean()),
        "_rounded": float(np.abs(rounded - test.values).mean()),
    }
