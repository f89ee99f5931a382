"""What is expected of ratings, in JSON's terms: the distribution, and what is read off it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from ordbm.estimator import OrdinalBM
from ordbm.inference.distributions import LevelDistribution, RatingDistribution
from ordbm.inference.people import People, Users
from ordbm.runtime.arrays import Codes
from ordbm.serve.id_text import plain_id
from ordbm.serve.person import Person

_Row = dict[str, Any]


class _Pairs(NamedTuple):
    """_Pairs that are asked about, each of one of the people and an item."""

    people: People
    number: Codes  # of each pair's person among them
    items: Sequence[Hashable]
    codes: Codes  # of the items; -1 is one that is not known
    known: Any  # whether the model knows the person, of each pair or of all
    mass: Any  # of the interval, of each pair or of all


class UserQuestion(NamedTuple):
    """What is asked about a user of whom all that was said is learnt."""

    user: Hashable
    items: Sequence[Hashable]
    codes: Codes
    mass: float


def expected(
    model: OrdinalBM, person: Person, items: Sequence[Hashable], mass: float
) -> list[_Row]:
    """What one person is expected to rate these items."""
    # As `distribution` and `rated_proba` have it, for one person who is made once for both.
    _, people, number = model._asked_pairs(person.user, items, person.ratings)
    codes = model._item_codes(items)
    return _rows(model, _Pairs(people, number, items, codes, person.is_known, mass))


def expected_together(model: OrdinalBM, asked: Sequence[UserQuestion]) -> list[list[_Row]]:
    """The same for several users at once."""
    state = model._state
    users = state.codes([one.user for one in asked], state.users, state.modelled_users)
    sizes = [len(one.items) for one in asked]
    pairs = _Pairs(
        Users(state),
        np.repeat(users, sizes),
        [item for one in asked for item in one.items],
        np.concatenate([one.codes for one in asked]),
        known=True,
        mass=np.repeat([one.mass for one in asked], sizes),
    )
    rows = _rows(model, pairs)
    return [rows[end - size : end] for end, size in zip(accumulate(sizes), sizes, strict=True)]


def _rows(model: OrdinalBM, pairs: _Pairs) -> list[_Row]:
    people, number, items, codes, is_known, mass = pairs
    found = model._state.distribution(people, number, codes)
    known = (codes >= 0).tolist()
    rated: list[float | None] = [None] * len(items)
    if people.presence is not None:
        odds = people.presence.pair_log_odds(number, codes)
        rated = expit(odds.astype(np.float64)).tolist()
    mass = np.broadcast_to(mass, len(items))
    low, high = _interval(found, mass)
    proba = found.proba.tolist() if isinstance(found, LevelDistribution) else [None] * len(items)
    columns = zip(
        items, known, found.mean().tolist(), found.median().tolist(), found.mode().tolist(),
        found.deviation().tolist(), low.tolist(), high.tolist(), mass.tolist(),
        found.confidence().tolist(), rated, proba, strict=True,
    )  # fmt: skip
    return [
        {
            "item": plain_id(item),
            "known": has and is_known,
            "known_item": has,
            "mean": mean,
            "median": median,
            "mode": mode,
            "deviation": deviation,
            "interval": {"low": at_least, "high": at_most, "mass": middle},
            "confidence": confidence,
            "p_rated": p_rated,
            "distribution": levels,
        }
        for item, has, mean, median, mode, deviation, at_least, at_most, middle, confidence,
        p_rated, levels in columns
    ]  # fmt: skip


def _interval(found: RatingDistribution, mass: Any) -> tuple[Any, Any]:
    """Where the middle `mass` of each distribution lies; on levels, at least so much of it."""
    tail = (1.0 - mass) / 2
    if not isinstance(found, LevelDistribution):
        return found.quantile(tail), found.quantile(1.0 - tail)
    below = np.cumsum(found.proba, axis=1)[:, :-1]
    values = found.scale.values
    low, high = (below <= tail[:, None]), (below < 1.0 - tail[:, None])
    return values[low.sum(axis=1)], values[high.sum(axis=1)]
