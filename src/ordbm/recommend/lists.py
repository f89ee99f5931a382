"""Lists of items for people: what a fitted model ranks, by which score, and why.

The score of an item is at most what it would be if the rating were the best there is: a bound that
needs presence alone. Items are rated exactly in the order of their bounds, until as many as are
asked for have scores that no other item can reach. So the list is the exact one, and few items are
rated; one person's list and everybody's are made by the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy.special import expit

from ordbm.data.scale import level_values
from ordbm.errors import SettingsError
from ordbm.inference.catalogue import By, Catalogue
from ordbm.inference.distributions import RatingDistribution
from ordbm.inference.fitted import FittedModel
from ordbm.inference.people import FoldIns, People, Users
from ordbm.inference.top_n import top_columns, unseen_scores
from ordbm.model.presence import ConditionedPresence
from ordbm.recommend.criteria import Facts, Score, score_of
from ordbm.recommend.diversity import diverse_places, hidden_directions
from ordbm.recommend.recommendation import Ranked, Recommendation, recommendations
from ordbm.runtime.arrays import Array, Codes, Mask
from ordbm.runtime.checks import float_of
from ordbm.runtime.printable import shown

NUMBERS_AT_ONCE = 5_000_000  # people times items of a block, and levels where it has all of them
FIRST_LOOK = 32  # items rated at first, beside four times as many as are listed
POOL = 10  # times as many items as are listed are known to a list that shall be diverse
REASONS = 3  # of the person's items beside each listed one


def default_criterion(has_presence: bool) -> str:
    """What lists are ranked by unless told: "liked", and "mean" where presence was not learnt.

    Not by energy, whose zero differs from item to item.
    """
    return "liked" if has_presence else "mean"


def criterion_of(by: str | Score | None, has_presence: bool) -> Score | None:
    """What to rank by; None is the paper's expected decrease of energy, which is no score."""
    if by is None:
        by = default_criterion(has_presence)
    if by == "energy":
        return None
    score = score_of(by)
    if score.needs_presence and not has_presence:
        raise SettingsError(
            f"by={shown(by)} needs a model that has learnt which items get rated: "
            "OrdinalBM(presence=True)"
        )
    return score


def ranked_lists(
    state: FittedModel,
    people: People,
    persons: Codes,
    n: int,
    by: str | Score | None,
    allowed: Mask | Callable[[int], Mask],
    diversity: Any = 0.0,
) -> Iterator[Ranked]:
    """The n best of the allowed items that each person has not rated.

    `allowed` (items,) is the same for all, or a function of the person.
    """
    if not 0 <= float_of(diversity) <= 1:
        raise SettingsError(f"diversity={shown(diversity)}: must be from 0 to 1")
    score = criterion_of(by, people.presence is not None)
    most = POOL * n if diversity else n
    levels = 1 if state.is_quick else len(state.machines[0].level_bias)
    size = max(1, NUMBERS_AT_ONCE // (len(state.items) * levels))
    for first in range(0, len(persons), size):
        block = persons[first : first + size]
        masks = [allowed(int(one)) for one in block] if callable(allowed) else allowed
        for ranked in _block_lists(state, people, block, most, score, np.asarray(masks)):
            yield _diverse(state, ranked, n, float(diversity)) if diversity else ranked


def _block_lists(
    state: FittedModel,
    people: People,
    block: Codes,
    n: int,
    score: Score | None,
    allowed: Mask,
) -> Iterator[Ranked]:
    odds = None if people.presence is None else people.presence.log_odds(block)
    popularity = np.diff(state.ratings.by_item.start)
    rated = [_rated(people, int(one)) for one in block]
    if score is None:
        bound = unseen_scores(_by_mean_field(state, people, block, "energy"), allowed, rated)
        looked = top_columns(bound, n)
        worth = np.take_along_axis(bound, looked, axis=1)
    else:
        looked, worth = _best(state, people, block, n, score, odds, popularity, allowed, rated)
    listed = worth > -np.inf
    place, column = np.nonzero(listed)
    items = looked[place, column]
    rating = state.distribution(people, block[place], items.astype(np.int32))
    figures = [worth[place, column], rating.mean(), rating.confidence()]
    if odds is not None:
        figures.append(expit(odds[place, items].astype(np.float64)))
    ends = np.cumsum(listed.sum(axis=1))[:-1]
    parts = zip(*(np.split(each, ends) for each in (items, *figures)), strict=True)
    for person, part in zip(block, parts, strict=True):
        yield Ranked(int(person), *part, *(() if odds is not None else (None,)))


def _best(
    state: FittedModel,
    people: People,
    block: Codes,
    n: int,
    score: Score,
    odds: Array | None,
    popularity: Array,
    allowed: Mask,
    rated: Iterable[Codes],
) -> tuple[Codes, Array]:
    """The n items with the best scores of each person, and these; -inf where there are fewer.

    A person is done when the n-th best score is above all bounds of what was not looked at. Where
    there are none, every item is; where machines cannot be asked at once, those that mean field has
    first.
    """
    n_items = len(popularity)
    n = min(n, n_items)
    are_bounds = score.needs_rating and score.needs_presence
    worth_of = score.level_worth(state.scale)
    if score.needs_presence:
        assert odds is not None
        limit, look = score.bound(odds, popularity, state.scale), n
        if score.needs_rating:
            look = FIRST_LOOK + 4 * n
    elif state.is_quick and worth_of is not None and not state.tables.links.neighbour.size:
        limit = state.tables.expected_at_most(people.tables(block), worth_of)
        look, are_bounds = FIRST_LOOK // 2 + n, True
    elif state.is_quick:
        limit, look = np.zeros((len(block), n_items)), n_items
    else:
        limit, look = _by_mean_field(state, people, block, "mean"), FIRST_LOOK + POOL * n
    bound = unseen_scores(limit, allowed, rated)
    items = np.zeros((len(block), n), np.int64)
    worth = np.full((len(block), n), -np.inf)
    left = np.arange(len(block))
    while len(left):
        look = min(look, n_items)
        short = top_columns(bound[left], look)
        limit = np.take_along_axis(bound[left], short, axis=1)
        place, column = np.nonzero(limit > -np.inf)
        asked = short[place, column]
        value = np.full(short.shape, -np.inf)
        value[place, column] = score.of(
            Facts(
                rating=_rating(state, people, block[left[place]], asked, score),
                log_odds=np.zeros(len(asked)) if odds is None else odds[left[place], asked],
                popularity=popularity[asked],
            )
        )
        best = np.lexsort((short, -value))[:, :n]
        items[left] = np.take_along_axis(short, best, axis=1)
        worth[left] = np.take_along_axis(value, best, axis=1)
        if n == 0 or look == n_items or not are_bounds:
            break
        left = left[~((worth[left, -1] > limit[:, -1]) | (limit[:, -1] == -np.inf))]
        look *= 4
    return items, worth


def _rating(
    state: FittedModel, people: People, person: Codes, items: Codes, score: Score
) -> RatingDistribution:
    """Of each pair; of none, where a score does not read it."""
    if not score.needs_rating:
        person, items = person[:0], items[:0]
    return state.distribution(people, person, items.astype(np.int32))


def _rated(people: People, person: int) -> Codes:
    return people.given.columns_of(person) if person >= 0 else np.zeros(0, np.int32)


def _by_mean_field(state: FittedModel, people: People, block: Codes, by: By) -> Array:
    """Energy or mean of all items by mean field, (people, items), averaged over machines."""
    values = level_values(state.scale)
    if isinstance(people, Users) and (block >= 0).all():
        return np.mean([one.scores(block, by, values) for one in state.catalogues], axis=0)
    rows = []
    nobody = FoldIns(state, np.array([-1]), [{}])
    for person in block.tolist():
        conditioned, code = people.conditioned(person) if person >= 0 else nobody.conditioned(0)
        one = np.array([code], np.int32)
        rows.append(
            np.mean([Catalogue(each).scores(one, by, values) for each in conditioned], axis=0)
        )
    return np.concatenate(rows)


def _diverse(state: FittedModel, ranked: Ranked, n: int, diversity: float) -> Ranked:
    """The n of a longer list that are good, and unlike what is listed before."""
    place = diverse_places(ranked.score, hidden_directions(state, ranked.items), n, diversity)
    person, items, score, mean, confidence, rated = ranked
    return Ranked(
        person, items[place], score[place], mean[place], confidence[place],
        None if rated is None else rated[place],
    )  # fmt: skip


def lines_of(
    state: FittedModel, presence: ConditionedPresence | None, ranked: Ranked
) -> list[Recommendation]:
    """The lines of one person's list, with the person's items that raise P(rated) most."""
    lines = recommendations(state.items, *ranked[1:5])
    if presence is None or ranked.rated is None:
        return lines
    return [
        line._replace(
            rated=rated,
            because=tuple(
                (state.items[other], added)
                for other, added in presence.reasons(ranked.person, item, REASONS)
            ),
        )
        for line, item, rated in zip(
            lines, ranked.items.tolist(), ranked.rated.tolist(), strict=True
        )
    ]
