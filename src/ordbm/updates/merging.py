"""The ratings of a model, and a batch of new, changed and withdrawn ones, put together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.data.columns import plain_column
from ordbm.data.context_columns import ContextColumns
from ordbm.data.csr import CSR, CSRPair, places_for, spliced, with_more, without_places
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
    context: Numbers  # (N, C) other context; (0, 0) without any

    @classmethod
    def of(cls, fitted: FittedModel, places: Places) -> RatedPairs:
        """Those at some places of the model's ratings by user."""
        rows = fitted.given.by_user
        user = np.searchsorted(rows.start, places, "right").astype(np.int32) - 1
        value, time, context = (
            part[places] if len(part) else part
            for part in (rows.value, fitted.times, fitted.context_columns.values)
        )
        return cls(user, rows.column[places], rows.level[places], value, time, context)

    def at(self, chosen: Any) -> RatedPairs:
        return RatedPairs._make(column[chosen] if len(column) else column for column in self)


class Heard(NamedTuple):
    """Ratings that came or left, and where they stand among those of the model that has them."""

    rated: RatedPairs
    by_user: Places
    by_item: Places

    def columns_of(self, number: int) -> tuple[Codes, Places]:
        """The columns of a side that they are of, and their places by column."""
        if number:
            return self.rated.user, self.by_user
        return self.rated.item[np.lexsort((self.rated.user, self.rated.item))], self.by_item


class RatingBatch(NamedTuple):
    """What a model is to take in: first some of its ratings leave, then others come."""

    users: IdMap  # with the new ones, as items
    items: IdMap
    context: ContextColumns  # of the model, with the new categories
    leaving: Places  # of those withdrawn and of those changed, among the model's
    coming: RatedPairs  # new ones, and changed ones as they are now
    n_changed: int
    n_same: int  # given again as they are, or older than what is there


def batch_for(fitted: FittedModel, new_ratings: Any, withdrawn: Any) -> RatingBatch:
    """What the model is to take in; an error if it cannot be."""
    rows = fitted.given.by_user
    leaving = NOWHERE
    if withdrawn is not None:
        leaving = _withdrawn_places(withdrawn, fitted.users, fitted.items, rows)
    users, items, context = fitted.users, fitted.items, fitted.context_columns
    new = RatedPairs.of(fitted, NOWHERE)
    if new_ratings is not None:
        users, items, context, new = _new_ratings(new_ratings, fitted)
    place = _places(rows, new.user, new.item)
    known = place >= 0
    both = np.intersect1d(place[known], leaving)
    if len(both):
        there = RatedPairs.of(fitted, both[:1])
        user, item = users[int(there.user[0])], items[int(there.item[0])]
        raise RatingsError(
            f"user {user!r} and item {item!r}: rated and withdrawn in one batch; say one of both"
        )
    if len(leaving) == len(rows.column) and not len(new.user):
        raise RatingsError("all ratings would be withdrawn: a model needs at least one")
    had, says = RatedPairs.of(fitted, place[known]), new.at(known)
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
        context,
        np.sort(np.concatenate([leaving, changed])),
        new.at(coming),
        len(changed),
        int(np.count_nonzero(same)),
    )


def without(fitted: FittedModel, leaving: Places) -> tuple[CSRPair, Numbers, ContextColumns, Heard]:
    """What is left when some ratings leave, with times and context, and these."""
    given, times, context = fitted.given, fitted.times, fitted.context_columns
    rated = RatedPairs.of(fitted, leaving)
    heard = Heard(rated, leaving, np.sort(places_for(given.by_item, rated.item, rated.user)))
    left = CSRPair(
        without_places(given.by_user, heard.by_user), without_places(given.by_item, heard.by_item)
    )
    times, values = (
        np.delete(column, leaving, axis=0) if len(column) else column
        for column in (times, context.values)
    )
    return left, times, replace(context, values=values), heard


def joined_by(
    fitted: FittedModel, batch: RatingBatch
) -> tuple[CSRPair, Numbers, ContextColumns, Heard]:
    """All ratings together, with times and context, and those that came."""
    coming, sizes = batch.coming, (len(batch.users), len(batch.items))
    wide = CSRPair(*(_with_rows(rows, n) for rows, n in zip(fitted.given, sizes, strict=True)))
    by_user, places = with_more(wide.by_user, coming.user, coming.item, coming.level, coming.value)
    before = places - np.arange(len(places))
    times, values = (
        spliced(column, before, more) if len(column) else column
        for column, more in (
            (fitted.times, coming.time), (fitted.context_columns.values, coming.context),
        )
    )  # fmt: skip
    turned = coming.at(np.lexsort((coming.user, coming.item)))
    by_item, places_by_item = with_more(
        wide.by_item, turned.item, turned.user, turned.level, turned.value
    )
    given = CSRPair(by_user, by_item)
    context = replace(batch.context, values=values)
    return given, times, context, Heard(coming, places, places_by_item)


def _with_rows(rows: CSR, n: int) -> CSR:
    """With empty rows below, until there are n."""
    return rows._replace(start=np.append(rows.start, np.full(n - rows.n_rows, rows.start[-1])))


# -- ratings that come ----------------------------------------------------------------------------


def _new_ratings(
    given: Any, fitted: FittedModel
) -> tuple[IdMap, IdMap, ContextColumns, RatedPairs]:
    """Ratings as `Ratings` takes them, on the model's scale; ids and categories with new ones.

    Where those of the model have times, new ones that have none are as late as the latest; other
    context that they have not is unknown.
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
    context, columns = fitted.context_columns.with_more(batch.context, len(batch))
    new = RatedPairs(user[rows.row], item[rows.column], level, value, times, columns)
    return users, items, context, new.at(np.argsort(_pair_keys(new, len(items)), kind="stable"))


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


def _withdrawn_places(pairs: Any, users: IdMap, items: IdMap, rows: CSR) -> Places:
    """Where the ratings of these pairs are; an error if one was never there, or is named twice."""
    if isinstance(pairs, Ratings):
        pairs = {
            "user": [pairs.users[code] for code in pairs.user_codes],
            "item": [pairs.items[code] for code in pairs.item_codes],
        }
    user_ids, item_ids = (list(plain_column(ids)) for ids in pair_columns(pairs))
    user, item = users.codes(user_ids), items.codes(item_ids)
    place = np.full(len(user), -1, np.int64)
    both = (user >= 0) & (item >= 0)
    place[both] = _places(rows, user[both], item[both])
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


def _places(rows: CSR, user: Codes, item: Codes) -> Places:
    """Where each pair is; -1 if it is not there."""
    place = np.full(len(user), -1, np.int64)
    known = np.flatnonzero(user < rows.n_rows)
    at = places_for(rows, user[known], item[known])
    there = at < rows.start[user[known] + 1]
    there[there] = rows.column[at[there]] == item[known][there]
    place[known[there]] = at[there]
    return place
