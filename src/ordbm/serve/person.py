"""Somebody as a model is asked about them: whom it learnt, overlaid with what was said since."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ordbm.data.scale import ContinuousScale, Scale
from ordbm.errors import RatingsError
from ordbm.estimator import OrdinalBM
from ordbm.inference.known import Known
from ordbm.serve.rating_rows import NOTHING_SAID, Said


class Person(NamedTuple):
    """How the library's verbs are asked: `model.recommend(**person.asked)`.

    `is_known` says whether the model can use any of their ratings.
    """

    id: Hashable | None
    user: Any
    ratings: dict[Any, Any] | None
    is_known: bool

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments that say who it is, of verbs about one person."""
        return {"user": self.user, "ratings": self.ratings}

    @property
    def asked_pairs(self) -> dict[str, Any]:
        """The same of verbs about pairs."""
        return {"users": self.user, "ratings": self.ratings}


def known_of(model: OrdinalBM) -> Known:
    """The ids and the scale of a model."""
    return model._state


def person_of(
    model: OrdinalBM,
    user: Hashable | None,
    said: Said = NOTHING_SAID,
    more: Mapping[Hashable, Any] | None = None,
) -> Person:
    """Somebody by id, by the ratings in a request (`more`), or by both.

    A model conditions on ratings added or changed. Where some that it learnt were withdrawn, or
    somebody was erased, they are asked about as somebody new who gave all that is left.
    """
    known = known_of(model)
    is_learnt = user is not None and not said.is_erased and bool(known.known_users([user])[0])
    if is_learnt and not said.ratings and not more:
        return Person(user, user, None, is_known=True)
    learnt = learnt_ratings_of(model, user) if is_learnt else {}
    whole = _overlaid(learnt, said, more)
    if not learnt.keys() <= whole.keys() or not is_learnt:
        usable = _usable(known, whole)
        return Person(user, None, usable, bool(usable))
    news = {item: rating for item, rating in whole.items() if learnt.get(item) != rating}
    return Person(user, user, _usable(known, news) or None, is_known=True)


def whole_ratings_of(model: OrdinalBM, user: Hashable, said: Said) -> dict[Any, Any]:
    """All that somebody has said, learnt or not."""
    learnt = {} if said.is_erased else learnt_ratings_of(model, user)
    return _overlaid(learnt, said, None)


def _overlaid(
    learnt: Mapping[Any, Any], said: Said, more: Mapping[Hashable, Any] | None
) -> dict[Any, Any]:
    """What was learnt, then what was said since, then what is said now."""
    told = {**learnt, **said.ratings, **(more or {})}
    return {item: rating for item, rating in told.items() if rating is not None}


def _usable(known: Known, ratings: Mapping[Any, Any]) -> dict[Any, Any]:
    """Those of items that the model has learnt."""
    if not ratings:
        return {}
    items = list(ratings)
    return {
        item: ratings[item]
        for item, has in zip(items, known.known_items(items), strict=True)
        if has
    }


def learnt_ratings_of(model: OrdinalBM, user: Hashable) -> dict[Any, Any]:
    """The ratings that the model learnt of a user, {item: rating}; none of a stranger's."""
    state = model._state
    code = state.users._table.get(user, -1)
    if code < 0:
        return {}
    row = state.given.by_user.rows_of(np.array([code]))
    names = rating_names(state.scale)
    told = row.value.tolist() if names is None else [names[level] for level in row.level.tolist()]
    items = state.items.ids
    return {items[item]: rating for item, rating in zip(row.column.tolist(), told, strict=True)}


def rating_names(scale: Scale) -> list[Any] | None:
    """What the levels are called where ratings come in and go out; None on a continuous scale."""
    if isinstance(scale, ContinuousScale):
        return None
    return list(scale.labels) if scale.labels is not None else scale.values.tolist()


def rating_on(scale: Scale, rating: Any, item: Hashable) -> Any:
    """The rating as its level is called; an error if it is off the scale."""
    return ratings_on(scale, {item: rating})[item]


def ratings_on(scale: Scale, ratings: Mapping[Hashable, Any]) -> dict[Any, Any]:
    """The ratings of a request as levels are called."""
    for rating in ratings.values():
        if isinstance(rating, bool) or not isinstance(rating, int | float | str):
            raise RatingsError(f"a rating is a number or a label, not {rating!r}")
    names = rating_names(scale)
    if names is None:
        return {item: _finite(scale, rating) for item, rating in ratings.items()}
    found: dict[Any, Any] = {}
    for is_label in (False, True):  # numbers together, and labels together
        some = {item: one for item, one in ratings.items() if isinstance(one, str) is is_label}
        if some:
            codes = scale.codes(list(some.values()), item=list(some))  # type: ignore[union-attr]
            found |= {item: names[code] for item, code in zip(some, codes.tolist(), strict=True)}
    return {item: found[item] for item in ratings}


def _finite(scale: Scale, rating: Any) -> float:
    if isinstance(rating, str) or not abs(rating) < 1e30:
        raise RatingsError(f"{rating!r} is no rating: the scale is {scale}")
    return float(rating)
