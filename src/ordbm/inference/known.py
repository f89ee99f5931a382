"""The ids, the scale and the ratings that a model knows, and what it can be asked."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ordbm.data.context_columns import UNKNOWN
from ordbm.data.ids import IdMap
from ordbm.data.lookup import (
    Ids,
    aligned_pairs,
    check_ids_of_type,
    check_not_several,
    listed_ids,
    several,
    warn_of_strangers,
)
from ordbm.data.ratings import Ratings
from ordbm.data.scale import Scale
from ordbm.errors import SHOWN_ROWS, LeftOutWarning, RatingsError, SettingsError
from ordbm.runtime.arrays import Codes, Mask
from ordbm.runtime.printable import shown


class Known:
    """The ids and the scale that a model was fitted to, and which of them have ratings."""

    def __init__(
        self, users: IdMap, items: IdMap, scale: Scale, rated_users: Mask, rated_items: Mask
    ) -> None:
        self.users, self.items, self.scale = users, items, scale
        self.rated_users, self.rated_items = rated_users, rated_items
        self.modelled_users, self.modelled_items = rated_users, rated_items  # or described

    def codes(self, ids: Ids, known: IdMap, modelled: Mask, *, may_be_new: bool = False) -> Codes:
        """Codes of ids; -1 for the unknown and for those that are not among `modelled`.

        What looks like a mistake, as ids of another type, is an error or a warning; strangers alone
        are none if they `may_be_new`.
        """
        codes = known.codes(ids)
        if len(codes) and codes.min() < 0:
            self._check_strangers(ids, codes, known, may_be_new)
        return np.where((codes >= 0) & modelled[codes], codes, -1).astype(np.int32)

    def _check_strangers(self, ids: Ids, codes: Codes, known: IdMap, may_be_new: bool) -> None:
        what = "user" if known is self.users else "item"
        strangers = [value for value, code in zip(ids, codes, strict=True) if code < 0]
        if len(ids) == 1:
            check_not_several(strangers[0], known)
        check_ids_of_type(strangers, known, what)
        if len(strangers) == len(ids) and not may_be_new:
            warn_of_strangers(strangers, known, what)

    def user_code(self, user: Any) -> int:
        """A user's code; -1 if nothing is known of them."""
        return int(self.codes([user], self.users, self.modelled_users)[0])

    def item_code(self, item: Any) -> int:
        """An item's code; -1 if nothing is known of it."""
        return int(self.codes([item], self.items, self.modelled_items)[0])

    def known_users(self, users: Ids) -> Mask:
        """Whether there are ratings by each of these users."""
        return _have_ratings(self.users.codes(several(users)), self.rated_users)

    def known_items(self, items: Ids) -> Mask:
        """Whether there are ratings of each of these items."""
        return _have_ratings(self.items.codes(several(items)), self.rated_items)

    def pair_codes(self, users: Ids, items: Ids) -> tuple[Codes, Codes]:
        """The codes of each pair's user and item."""
        user_list, item_list = aligned_pairs(users, items)
        return (
            self.codes(user_list, self.users, self.modelled_users),
            self.codes(item_list, self.items, self.modelled_items),
        )

    def user_codes(self, users: Ids | None) -> Codes:
        """Codes of users that must be modelled here; all with ratings if None."""
        if users is None:
            return np.flatnonzero(self.rated_users).astype(np.int32)
        chosen = several(users)
        codes = self.codes(chosen, self.users, self.modelled_users)
        if (codes < 0).any():
            unknown = list(chosen)[int(np.argmax(codes < 0))]
            raise RatingsError(
                f"user {shown(unknown)} has no ratings in this model: use recommend(ratings=…)"
            )
        return codes

    def validation_codes(self, ratings: Ratings) -> tuple[Codes, Codes]:
        """User and item codes of held-out ratings, which must be on the same scale."""
        if not len(ratings):
            raise RatingsError("no validation ratings: leave validation out, or hold out more")
        both_continuous = ratings.is_continuous and self.scale.is_continuous
        if ratings.scale != self.scale and not both_continuous:
            raise RatingsError(
                f"validation ratings are on {ratings.scale}, training ratings on {self.scale}: "
                "give both the same scale"
            )
        users = self.codes(ratings.users.ids, self.users, self.modelled_users)
        items = self.codes(ratings.items.ids, self.items, self.modelled_items)
        return users[ratings.user_codes], items[ratings.item_codes]

    def learnt_ratings(self, given: Mapping[Any, Any]) -> dict[Any, Any]:
        """Those of a fold-in user's ratings {item: rating} whose items have ratings here.

        The parameters of an item that nobody has rated are as they were drawn before learning. Its
        id is known, so there is a warning, where an unknown id is an error.
        """
        learnt = self.modelled_items[self.given_codes(given)]
        left_out = [item for item, kept in zip(given, learnt, strict=True) if not kept]
        if left_out:
            shown = ", ".join(map(repr, left_out[:SHOWN_ROWS]))
            more = f" and {len(left_out) - SHOWN_ROWS:,} more" if len(left_out) > SHOWN_ROWS else ""
            warnings.warn(
                f"nobody has rated item {shown}{more} in this model: left out of the given ratings",
                LeftOutWarning,
                stacklevel=3,
            )
        return {item: given[item] for item, kept in zip(given, learnt, strict=True) if kept}

    def given_codes(self, given: Mapping[Any, Any]) -> Codes:
        """Codes of the items that a fold-in user has rated."""
        items = self.items.codes(list(given))
        if (items < 0).any():
            unknown = list(given)[int(np.argmax(items < 0))]
            check_ids_of_type([unknown], self.items, "item")
            raise RatingsError(f"item {shown(unknown)} is not in this model: leave it out")
        return items


def _have_ratings(codes: Codes, rated: Mask) -> Mask:
    found: Mask = (codes >= 0) & rated[codes]
    return found


def check_trainable(ratings: Ratings) -> None:
    """An error unless there are ratings to learn from."""
    if not len(ratings):
        raise RatingsError("no ratings to learn from: a hold-out of all ratings leaves none")
    for name, values in zip(ratings.context.names, ratings.context.values.T, strict=True):
        if (values == UNKNOWN).all():
            raise RatingsError(f"context {shown(name)} is missing everywhere: leave it out")


def check_request(user: Any, ratings: Any) -> None:
    """An error unless a question is about one user, or somebody who gave ratings, or both."""
    if user is None and ratings is None:
        raise SettingsError("say either who it is for, user=…, or what they rated, ratings={…}")
    if ratings is not None and not isinstance(ratings, Mapping):
        raise SettingsError("ratings must be a dict of what somebody rated: {item: rating}")
    if listed_ids(user) is not None:
        raise SettingsError("recommend is for one user: use recommend_all(users) for several")
