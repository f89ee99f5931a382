"""How predictions agree with the newest ratings, each left out of its own prediction."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, select

from ordbm.data.scale import RatingScale, levels_and_values
from ordbm.estimator import OrdinalBM
from ordbm.inference.distributions import LevelDistribution
from ordbm.runtime.arrays import Numbers
from ordbm.serve.id_text import id_of_key
from ordbm.serve.model_slot import Served
from ordbm.serve.person import known_of, person_of
from ordbm.serve.rating_rows import NOTHING_SAID, Said, said_by_each
from ordbm.serve.schema import RATINGS
from ordbm.serve.store import Store

_BINS = 10


class NewRating(NamedTuple):
    """A rating that came since a model was learnt."""

    user: Hashable
    item: Hashable
    rating: Any


def newest_ratings(connection: Connection, most: int) -> list[NewRating]:
    """The last ratings given, the newest first."""
    statement = (
        select(RATINGS.c.user, RATINGS.c.item, RATINGS.c.rating)
        .where(RATINGS.c.rating.is_not(None))
        .order_by(RATINGS.c.number.desc(), RATINGS.c.item)
        .limit(most)
    )
    return [
        NewRating(id_of_key(user), id_of_key(item), json.loads(rating))
        for user, item, rating in connection.execute(statement)
    ]


def quality(store: Store, served: Served, most: int) -> dict[str, Any]:
    """Losses, calibration and drift on the newest ratings."""
    with store.reading() as connection:
        ratings = newest_ratings(connection, most)
        said = said_by_each(connection, {one.user for one in ratings}, served.version.folded)
    found: dict[str, Any] = {"model": served.version.name, "ratings": len(ratings)}
    if not ratings:
        return found
    model = served.model
    known = known_of(model).known_items([one.item for one in ratings])
    found["unknown_items"] = float(1 - known.mean())
    loss, distribution = left_out_losses(model, ratings, said)
    value = _numbers(model, ratings)
    error = np.concatenate([one.mean() for one in distribution]) - value
    found |= {
        "log_loss": float(loss.mean()),
        "rmse": float(np.sqrt((error**2).mean())),
        "mean_error": float(error.mean()),
    }
    if isinstance(model.scale, RatingScale):
        proba = np.concatenate(
            [one.proba for one in distribution if isinstance(one, LevelDistribution)]
        )
        level = levels_and_values([one.rating for one in ratings], model.scale)[0]
        found["calibration"] = _calibration(proba, level)
        found["levels"] = {
            "new": (np.bincount(level, minlength=proba.shape[1]) / len(level)).tolist(),
            "learnt": model._state.level_shares.tolist(),
        }
    return found


def left_out_losses(
    model: OrdinalBM, ratings: Iterable[NewRating], said: Mapping[Any, Said]
) -> tuple[Numbers, list[Any]]:
    """-log P of each rating given all others of its person, and the distributions."""
    losses, distributions = [], []
    for one in ratings:
        theirs = said.get(one.user, NOTHING_SAID)
        others = {item: rating for item, rating in theirs.ratings.items() if item != one.item}
        # One that the model has learnt never enters its own prediction.
        person = person_of(model, one.user, theirs._replace(ratings=others))
        found = model.distribution(items=[one.item], **person.asked_pairs)
        level, value = levels_and_values([one.rating], model.scale)
        told: Any = value if len(value) else level
        losses.append(-float(found.log_probability(told)[0]))
        distributions.append(found)
    return np.array(losses), distributions


def _numbers(model: OrdinalBM, ratings: list[NewRating]) -> Numbers:
    told = [one.rating for one in ratings]
    if isinstance(model.scale, RatingScale):
        return model.scale.values[model.scale.codes(told)]
    return np.array(told, float)


def _calibration(proba: Numbers, level: Any) -> list[dict[str, float]]:
    """By predicted P(rating ≥ level), over all levels above the lowest: how often it was so."""
    survival = 1.0 - np.cumsum(proba, axis=1)[:, :-1]
    reached = level[:, None] > np.arange(survival.shape[1])
    place = np.minimum((survival * _BINS).astype(int), _BINS - 1)
    rows = defaultdict(list)
    for bin_, predicted, seen in zip(
        place.ravel().tolist(), survival.ravel().tolist(), reached.ravel().tolist(), strict=True
    ):
        rows[bin_].append((predicted, seen))
    return [
        {
            "predicted": float(np.mean([p for p, _ in rows[bin_]])),
            "observed": float(np.mean([s for _, s in rows[bin_]])),
            "n": len(rows[bin_]),
        }
        for bin_ in sorted(rows)
    ]
