"""Predicted ratings against test ratings: sums of losses per user, and reliability."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ordbm.data.context_columns import ContextColumns
from ordbm.data.ratings import Ratings
from ordbm.data.scale import RatingScale, Scale
from ordbm.errors import RatingsError
from ordbm.evaluation.protocols import RatingModel
from ordbm.metrics.array_checks import check_prediction
from ordbm.metrics.calibration import Reliability, bin_sums, curve_of, proba_at_least, thresholds
from ordbm.metrics.prediction import losses
from ordbm.runtime.arrays import Numbers

_CELLS_AT_ONCE = 20_000_000  # probabilities held at a time


class RatingSums(NamedTuple):
    """What all scores of ratings are made of, and how long predicting took."""

    scale: Scale  # the model's
    truth: Numbers  # the test ratings on it, (N,)
    totals: dict[str, Numbers]  # each loss summed per user, (users,)
    reliability: list[Reliability]
    seconds: float


def rating_sums(model: RatingModel, test: Ratings) -> RatingSums:
    """Losses of a model's predictions, a part of the ratings at a time.

    The model is told ids, and times and other context if it has learnt from some (`context`);
    ratings are looked at only after it has answered.
    """
    users, items = (np.fromiter(ids, object, len(ids)) for ids in (test.users, test.items))
    size = _CELLS_AT_ONCE // (len(test.scale) if isinstance(test.scale, RatingScale) else 2)
    totals: dict[str, Numbers] = {}
    sums: Any = 0.0
    seconds = 0.0
    told = told_context(model, test.times, test.context)
    for first in range(0, len(test), size):
        part = slice(first, first + size)
        codes = test.user_codes[part]
        started = time.perf_counter()
        found = model.distribution(
            users[codes].tolist(), items[test.item_codes[part]].tolist(), **told(part)
        )
        seconds += time.perf_counter() - started
        check_prediction(found, len(codes))
        if not first:
            truth = values_on_scale(test, found.scale)
        for name, loss in losses(found, truth[part]).items():
            totals.setdefault(name, np.zeros(test.n_users))
            totals[name] += np.bincount(codes, loss, test.n_users)
        values, labels = thresholds(found.scale)
        sums = sums + bin_sums(proba_at_least(found), truth[part, None] >= values)
    curves = [curve_of(*curve) for curve in zip(sums, values.tolist(), labels, strict=True)]
    return RatingSums(found.scale, truth, totals, curves, seconds)


def told_context(
    model: Any, times: Numbers, context: ContextColumns
) -> Callable[[slice], dict[str, Any]]:
    """What a model that has learnt from context is to be told of some test ratings."""
    if getattr(model, "context", None) is None:
        return lambda _: {}
    known = model.known_ratings().context.names if context else ()
    names = [name for name in context.names if name in known]

    def told(part: slice) -> dict[str, Any]:
        said = context.at(part)
        when = {"at": times[part]} if len(times) else {}
        beside = {name: said.column(name) for name in names}
        return {**when, "context": beside} if beside else when

    return told


def values_on_scale(test: Ratings, scale: Scale) -> Numbers:
    """The test ratings as numbers on a model's scale; those it does not have are an error."""
    if test.scale == scale:
        return test.values.astype(np.float64)
    labels = getattr(test.scale, "labels", None)
    if isinstance(scale, RatingScale):
        beside = {
            "user": [test.users[code] for code in test.user_codes],
            "item": [test.items[code] for code in test.item_codes],
        }
        given = [labels[level] for level in test.levels] if labels else test.values
        return scale.values[scale.codes(given, **beside)]
    if labels:
        raise RatingsError(
            f"test ratings are on {test.scale}, the model's on a continuous scale: give both the "
            "same scale"
        )
    return test.values.astype(np.float64)
