"""The ratings of a model, and a batch of new, changed and withdrawn ones, put together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import plain_column
from ordbm.data.csr import CSR, starts
from ordbm.data.ids import IdMap
from ordbm.data.lookup import check_ids_of_type
from ordbm.data.rating_tables import pair_columns
from ordbm.data.ratings import Ratings
from ordbm.data.scale import Scale, levels_and_values
from ordbm.data.times import NO_TIMES
from ordbm.errors import RatingsError, offending_rows
from ordbm.inference.fitted import FittedModel
from ordbm.runtime.arrays import Codes, Numbers

Places = NDArray[np.int64]
NOWHERE: Places = np.zeros(0, np.int64)


class RatedPairs(NamedTuple):
    """Ratings in the order of (user, item), each pair once."""

    user: Codes
    item: Codes
    level: NDArray[np.uint8]
    value: NDArray[Any]  # (0,) with levels
    time: Numbers  # (0,) if times are not known

    @classmethod
    def of(cls, rows: CSR, times: Numbers) -> RatedPairs:
        return cls(rows.row, rows.column, rows.level, rows.value, times)

    def at(self, chosen: Any) -> RatedPairs:
        value, time = (
            column[chosen] if len(column) else column for column in (self.value, self.time)
        )
        return RatedPairs(self.user[chosen], self.item[chosen], self.level[chosen], value, time)

    def rows(self, n_users: int) -> CSR:
        """By user, without transpose."""
        return CSR(starts(self.user, n_users), self.item, self.level, self.value, self.item[:0])


class RatingBatch(NamedTuple):
    """What a model is to take in: first some of its ratings leave, then others come."""

    users: IdMap  # with the new ones, as items
    items: IdMap
    leaving: Places  # of those withdrawn and of those changed, among the model's
    coming: RatedPairs  # new ones, and changed ones as they are now
    n_changed: int
    n_same: int  # given again as they are, or older than what is there


def batch_for(fitted: FittedModel, new_ratings: Any, withdrawn: Any) -> RatingBatch:
    """What the model is to take in; an error if it cannot be."""
    there = RatedPairs.of(fitted.given.by_user, fitted.times)
    leaving = NOWHERE
    if withdrawn is not None:
        leaving = _withdrawn_places(withdrawn, fitted.users, fitted.items, there)
    users, items, new = fitted.users, fitted.items, there.at(NOWHERE)
    if new_ratings is not None:
        users, items, new = _new_ratings(new_ratings, fitted)
    place = _places(there, new, len(items))
    known = place >= 0
    both = np.intersect1d(place[known], leaving)
    if len(both):
        user, item = users[int(there.user[both[0]])], items[int(there.item[both[0]])]
        raise RatingsError(
            f"user {user!r} and item {item!r}: rated and withdrawn in one batch; say one of both"
        )
    if len(leaving) == len(there.user) and not len(new.user):
        raise RatingsError("all ratings would be withdrawn: a model needs at least one")
    had, says = there.at(place[known]), new.at(known)
    same = had.level == says.level
    if len(had.value):
        same &= had.value == says.value
    if len(had.time):
        same |= says.time < had.time
    coming = ~known
    coming[np.flatnonzero(known)[~same]] = True
    changed = place[known][~same]
    return RatingBatch(
        users,
        items,
        np.sort(np.concatenate([leaving, changed])),
        new.at(coming),
        len(changed),
        int(np.count_nonzero(same)),
    )


def without(there: RatedPairs, leaving: Places) -> RatedPairs:
    """What is left when some ratings leave."""
    kept = np.ones(len(there.user), bool)
    kept[leaving] = False
    return there.at(kept)


def joined_by(there: RatedPairs, coming: RatedPairs, n_items: int) -> tuple[RatedPairs, Places]:
    """All ratings together, and the places among them of those that came."""
    user, item, level, value, time = (
        np.concatenate([getattr(part, name) for part in (there, coming)])
        for name in RatedPairs._fields
    )
    both = RatedPairs(user, item, level, value, time)
    order = np.argsort(_pair_keys(both, n_items), kind="stable")
    return both.at(order), np.flatnonzero(order >= len(there.user))


# -- ratings that come ----------------------------------------------------------------------------


def _new_ratings(given: Any, fitted: FittedModel) -> tuple[IdMap, IdMap, RatedPairs]:
    """Ratings as `Ratings` takes them, on the model's scale, and the ids with new ones.

    Where those of the model have times, new ones that have none are as late as the latest.
    """
    scale = fitted.scale
    batch = given if isinstance(given, Ratings) else Ratings(given, scale=scale)
    rows = batch.by_user
    level, value = rows.level, rows.value
    if batch.scale != scale:
        level, value = _on_scale(batch, scale)
    users, user = _with_more(fitted.users, batch.users, "user")
    items, item = _with_more(fitted.items, batch.items, "item")
    times = batch.times if len(fitted.times) else NO_TIMES
    if len(fitted.times) and not batch.has_times:
        times = np.full(len(batch), fitted.times.max())
    new = RatedPairs(user[rows.row], item[rows.column], level, value, times)
    return users, items, new.at(np.argsort(_pair_keys(new, len(items)), kind="stable"))


def _on_scale(batch: Ratings, scale: Scale) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    labels = getattr(batch.scale, "labels", None)
    given = [labels[one] for one in batch.levels] if labels else batch.values
    return levels_and_values(
        given,
        scale,
        user=[batch.users[code] for code in batch.user_codes],
        item=[batch.items[code] for code in batch.item_codes],
    )


def _with_more(known: IdMap, more: IdMap, what: str) -> tuple[IdMap, Codes]:
    together, codes = known.with_more(more)
    new = np.flatnonzero(codes >= len(known))
    check_ids_of_type([more[int(place)] for place in new], known, what)
    return together, codes


# -- ratings that leave ---------------------------------------------------------------------------


def _withdrawn_places(pairs: Any, users: IdMap, items: IdMap, there: RatedPairs) -> Places:
    """Where the ratings of these pairs are; an error if one was never there, or is named twice."""
    if isinstance(pairs, Ratings):
        pairs = {
            "user": [pairs.users[code] for code in pairs.user_codes],
            "item": [pairs.items[code] for code in pairs.item_codes],
        }
    user_ids, item_ids = (list(plain_column(ids)) for ids in pair_columns(pairs))
    user, item = users.codes(user_ids), items.codes(item_ids)
    asked = there.at(NOWHERE)._replace(user=user, item=item)
    place = np.where((user < 0) | (item < 0), -1, _places(there, asked, len(items)))
    beside = {"user": user_ids, "item": item_ids}
    missing = np.flatnonzero(place < 0)
    if len(missing):
        for ids, codes, known, what in (
            (user_ids, user, users, "user"), (item_ids, item, items, "item"),
        ):  # fmt: skip
            check_ids_of_type([ids[at] for at in np.flatnonzero(codes < 0)], known, what)
        raise RatingsError(
            f"cannot withdraw a rating that is not there: {offending_rows(missing, **beside)}; "
            "leave it out"
        )
    order = np.argsort(place, kind="stable")
    again = np.sort(order[1:][place[order][1:] == place[order][:-1]])
    if len(again):
        raise RatingsError(
            f"a rating is withdrawn more than once: {offending_rows(again, **beside)}; name it once"
        )
    return place


def _pair_keys(rated: RatedPairs, n_items: int) -> Places:
    """One number for each pair, in the order of (user, item)."""
    return rated.user.astype(np.int64) * max(n_items, 1) + rated.item


def _places(there: RatedPairs, wanted: RatedPairs, n_items: int) -> Places:
    """Where the pair of each of the wanted is; -1 if it is not there."""
    key, sought = _pair_keys(there, n_items), _pair_keys(wanted, n_items)
    place = np.minimum(np.searchsorted(key, sought), len(key) - 1)
    return np.where(key[place] == sought, place, -1)
