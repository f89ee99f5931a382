"""Lists of items for people: what a fitted model ranks, by which score, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ordbm.data.scale import RatingScale, level_values
from ordbm.errors import SettingsError
from ordbm.inference.catalogue import By, Catalogue
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.inference.distributions import LevelDistribution, RatingDistribution
from ordbm.inference.fitted import FittedModel
from ordbm.model.presence import ConditionedPresence
from ordbm.recommend.criteria import Facts, MeanRating, Score, score_of
from ordbm.recommend.diversity import diverse_places, hidden_directions
from ordbm.recommend.recommendation import Recommendation, recommendations
from ordbm.recommend.top_n import catalogue_lists, top_columns, top_lists, unseen_scores
from ordbm.runtime.arrays import Array, Codes, Mask

Ranked = tuple[int, NDArray[Any], NDArray[Any]]  # a user, items, scores

LISTS_AT_ONCE = 2_000
SHORTLIST = 10  # times as many items as a list has are looked at closely
LEAST_SHORTLIST = 1000  # for one person
MACHINES = 2  # whose ratings order the lists of everybody; more hardly change them
REASONS = 3  # of the person's items beside each listed one


class Person(NamedTuple):
    """Whom a list is for: a user's code, and the machines conditioned on all users or a new one."""

    code: int
    conditioned: tuple[ConditionedMachine, ...]
    presence: ConditionedPresence | None


def default_criterion(has_presence: bool) -> str:
    """What lists are ranked by unless told: "liked", and "mean" where presence was not learnt.

    Not by energy, whose zero differs from item to item.
    """
    return "liked" if has_presence else "mean"


def criterion_of(by: str | Score | None, has_presence: bool) -> By | Score:
    """What to rank by: a score, or one of the two orders that need no presence."""
    if by is None:
        by = default_criterion(has_presence)
    if by == "energy":
        return "energy"
    score = score_of(by)
    if isinstance(score, MeanRating):
        return "mean"
    if not has_presence:
        raise SettingsError(
            f"by={by!r} needs a model that has learnt which items get rated: "
            "OrdinalBM(presence=True)"
        )
    return score


def person_list(
    state: FittedModel,
    person: Person,
    n: int,
    by: str | Score | None,
    allowed: Mask,
    diversity: Any = 0.0,
) -> list[Recommendation]:
    """The n best of the allowed items that the person has not rated, best first."""
    if not isinstance(diversity, Real) or not 0 <= float(diversity) <= 1:
        raise SettingsError(f"diversity={diversity!r}: must be from 0 to 1")
    diversity = float(diversity)
    way = criterion_of(by, person.presence is not None)
    one = np.array([person.code], np.int32)
    odds = None if person.presence is None else person.presence.log_odds(one)
    popularity = np.diff(state.ratings.by_item.start)
    if isinstance(way, Score):
        assert odds is not None
        rated = person.conditioned[0].ratings.by_user.columns_of(person.code)
        quick = unseen_scores(way.first(odds, popularity), allowed, [rated])
        items, score = next(top_lists(quick, max(LEAST_SHORTLIST, SHORTLIST * n)))
    else:
        catalogues = tuple(map(Catalogue, person.conditioned))
        most = len(state.items) if diversity or way != "energy" else n
        values = level_values(state.scale)
        _, items, score = next(catalogue_lists(catalogues, one, most, way, values, allowed))
    # For one person many items can be rated exactly.
    users = np.full(len(items), person.code, np.int32)
    rating = state.ensemble_distribution(person.conditioned, users, items.astype(np.int32))
    mean, confidence = rating.mean(), rating.confidence()
    if isinstance(way, Score):
        assert odds is not None
        score = way.of(Facts(rating, odds[0, items], popularity[items]))
    elif way == "mean":
        score = mean
    order = np.argsort(-score, kind="stable")
    if diversity:
        order = order[: SHORTLIST * n]
        order = order[
            diverse_places(score[order], hidden_directions(state, items[order]), n, diversity)
        ]
    order = order[:n]
    listed = items[order]
    lines = recommendations(state.items, listed, score[order], mean[order], confidence[order])
    return lines if odds is None else _with_presence(state, person, lines, listed, odds[0])


def _with_presence(
    state: FittedModel, person: Person, lines: list[Recommendation], listed: Codes, odds: Array
) -> list[Recommendation]:
    """The lines with P(rated), and the person's items that raise it most."""
    assert person.presence is not None
    proba = expit(odds[listed].astype(np.float64)).tolist()
    return [
        line._replace(
            rated=rated,
            because=tuple(
                (state.items[other], added)
                for other, added in person.presence.reasons(person.code, item, REASONS)
            ),
        )
        for line, item, rated in zip(lines, listed.tolist(), proba, strict=True)
    ]


def all_lists(state: FittedModel, users: Codes, n: int, by: str | Score | None) -> Iterator[Ranked]:
    """(user, items, scores), best first, for each of the users, a block of them at a time."""
    way = criterion_of(by, state.presence is not None)
    if isinstance(way, Score):
        return _by_score(state, users, n, way)
    values = level_values(state.scale)
    most = SHORTLIST * n if way == "mean" else n
    ranked = catalogue_lists(state.catalogues, users, most, way, values, state.rated_items)
    return _by_exact_mean(state, ranked, n) if way == "mean" else ranked


def _by_exact_mean(state: FittedModel, ranked: Iterable[Ranked], n: int) -> Iterator[Ranked]:
    """The n best of each list by exact means instead of mean-field ones, as many at a time."""
    lists = iter(ranked)
    while part := list(islice(lists, LISTS_AT_ONCE)):
        users = np.concatenate([np.full(len(items), user, np.int32) for user, items, _ in part])
        items = np.concatenate([items.astype(np.int32) for _, items, _ in part])
        mean = state.distribution(users, items, "exact").mean()
        ends = np.cumsum([len(listed) for _, listed, _ in part])[:-1]
        for (user, listed, _), score in zip(part, np.split(mean, ends), strict=True):
            order = np.argsort(-score, kind="stable")[:n]
            yield user, listed[order], score[order]


def _by_score(state: FittedModel, users: Codes, n: int, score: Score) -> Iterator[Ranked]:
    """Presence chooses a shortlist; mean-field ratings settle the order of these."""
    conditioned = state.conditioned_presence
    assert conditioned is not None
    by_user = state.ratings.by_user
    popularity = np.diff(state.ratings.by_item.start)
    most = SHORTLIST * n if score.needs_rating else n
    size = conditioned.users_at_once
    for begin in range(0, len(users), size):
        block = users[begin : begin + size]
        odds = conditioned.log_odds(block)
        rated = map(by_user.columns_of, block)
        quick = unseen_scores(score.first(odds, popularity), state.rated_items, rated)
        short = top_columns(quick, most)
        short[~np.isfinite(np.take_along_axis(quick, short, axis=1))] = -1
        place, column = np.nonzero(short >= 0)
        items = short[place, column]
        worth = odds[place, items]
        if score.needs_rating:
            rating = _mean_field(state, block, short)
            worth = score.of(Facts(rating, worth, popularity[items]))
        value = np.full(short.shape, -np.inf)
        value[place, column] = worth
        order = np.argsort(-value, axis=1, kind="stable")[:, :n]
        short = np.take_along_axis(short, order, axis=1)
        value = np.take_along_axis(value, order, axis=1)
        length = (short >= 0).sum(axis=1)
        for user, count, listed, best in zip(block, length, short, value, strict=True):
            yield int(user), listed[:count], best[:count]


def _mean_field(state: FittedModel, users: Codes, items: NDArray[Any]) -> RatingDistribution:
    """The ratings that users (U,) would give items (U, m), but for items below zero."""
    place, column = np.nonzero(items >= 0)
    catalogues = state.catalogues[:MACHINES]
    if not all(one.is_quick for one in catalogues):
        pairs = users[place], items[place, column].astype(np.int32)
        return state.ensemble_distribution(state.conditioned[:MACHINES], *pairs, "mean_field")
    assert isinstance(state.scale, RatingScale)
    proba = np.zeros((*items.shape, len(state.scale.values)), state.machines[0].dtype)
    for one in catalogues:
        one.add_probabilities(users, items, proba)
    proba /= len(catalogues)
    return LevelDistribution(state.scale, proba[place, column])
