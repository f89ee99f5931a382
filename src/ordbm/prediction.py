"""What all models share on the way in and out: ids, candidates, and tables of predictions."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.errors import RatingsError, SettingsError
from ordbm.frames import Backend, frame_of
from ordbm.ids import IdMap
from ordbm.inference.distribution import LevelDistribution, RatingDistribution
from ordbm.ratings import Ratings, Scale
from ordbm.scale import RatingScale, finite_numbers
from ordbm.settings import check_count

Ids = Any
Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]
Numbers = NDArray[np.float64]
Candidates = Iterable[Any] | Callable[[Any], bool] | str | None


class Recommendation(NamedTuple):
    """One line of a list: the item, what it was ranked by, and its predicted rating.

    With presence also P(rated), and the items of the person's that raise it most, each with what it
    adds to the potential of which the log-odds are a curve.
    """

    item: Any
    score: float
    mean: float
    confidence: float
    rated: float | None = None
    because: tuple[tuple[Any, float], ...] = ()


class KnownUser(NamedTuple):
    """Candidates that follow from who it is: masks of items, made when they are asked for."""

    similar_users: Callable[[], Mask]  # what the most similar users rated
    linked: Callable[[], Mask] | None = None  # what is linked to what the user rated


class Known:
    """The ids and the scale that a model was fitted to, and which of them have ratings."""

    def __init__(
        self, users: IdMap, items: IdMap, scale: Scale, rated_users: Mask, rated_items: Mask
    ) -> None:
        self.users, self.items, self.scale = users, items, scale
        self.rated_users, self.rated_items = rated_users, rated_items

    def codes(self, ids: Ids, known: IdMap, rated: Mask) -> Codes:
        """Codes of ids; -1 for the unknown and for those without ratings."""
        codes = known.codes(ids)
        if len(ids) == 1 and codes[0] < 0:
            _check_not_several(next(iter(ids)), known)
        return np.where((codes >= 0) & rated[codes], codes, -1).astype(np.int32)

    def known_users(self, users: Ids) -> Mask:
        """Whether there are ratings by each of these users."""
        return self.codes(several(users), self.users, self.rated_users) >= 0

    def known_items(self, items: Ids) -> Mask:
        """Whether there are ratings of each of these items."""
        return self.codes(several(items), self.items, self.rated_items) >= 0

    def pair_codes(self, users: Ids, items: Ids) -> tuple[Codes, Codes]:
        """The codes of each pair's user and item."""
        user_list, item_list = aligned(users, items)
        return (
            self.codes(user_list, self.users, self.rated_users),
            self.codes(item_list, self.items, self.rated_items),
        )

    def user_codes(self, users: Ids | None) -> Codes:
        """Codes of users that must have ratings here; all such users if None."""
        if users is None:
            return np.flatnonzero(self.rated_users).astype(np.int32)
        chosen = several(users)
        codes = self.codes(chosen, self.users, self.rated_users)
        if (codes < 0).any():
            unknown = list(chosen)[int(np.argmax(codes < 0))]
            raise RatingsError(
                f"user {unknown!r} has no ratings in this model: use recommend(ratings=…)"
            )
        return codes

    def validation_codes(self, ratings: Ratings) -> tuple[Codes, Codes]:
        """User and item codes of held-out ratings, which must be on the same scale."""
        if not isinstance(ratings, Ratings):
            raise RatingsError(f"validation needs ordbm.Ratings, not {type(ratings).__name__}")
        if not len(ratings):
            raise RatingsError("no validation ratings: leave validation out, or hold out more")
        both_continuous = ratings.is_continuous and self.scale.is_continuous
        if ratings.scale != self.scale and not both_continuous:
            raise RatingsError(
                f"validation ratings are on {ratings.scale}, training ratings on {self.scale}: "
                "give both the same scale"
            )
        users = self.codes(ratings.users.ids, self.users, self.rated_users)
        items = self.codes(ratings.items.ids, self.items, self.rated_items)
        return users[ratings.user_codes], items[ratings.item_codes]

    def given_codes(self, given: Mapping[Any, Any]) -> Codes:
        """Codes of the items that somebody new has rated."""
        items = self.items.codes(list(given))
        if (items < 0).any():
            unknown = list(given)[int(np.argmax(items < 0))]
            raise RatingsError(f"item {unknown!r} is not in this model: leave it out")
        return items

    def allowed(
        self, candidates: Candidates, about: KnownUser | None, exclude: Iterable[Any] = ()
    ) -> Mask:
        """Which items may be listed, (items,): the candidates that somebody has rated.

        `about` is None if the user is somebody new; `exclude` is an id to leave out, or several, of
        which some may be unknown.
        """
        excluded = [] if isinstance(exclude, tuple) and not exclude else list(several(exclude))
        codes = self.items.codes(excluded)
        if len(excluded) == 1 and codes[0] < 0:
            _check_not_several(excluded[0], self.items)
        kept = self.rated_items.copy()
        kept[codes[codes >= 0]] = False
        return kept & self._candidates(candidates, about)

    def _candidates(self, candidates: Candidates, about: KnownUser | None) -> Mask:
        if candidates is None or (isinstance(candidates, str) and candidates == "all"):
            return self.rated_items
        if isinstance(candidates, str) and candidates in KnownUser._fields:
            if about is None:
                raise SettingsError(
                    f"candidates={candidates!r} needs a known user: use None for somebody new"
                )
            found: Callable[[], Mask] | None = getattr(about, candidates)
            if found is None:
                raise SettingsError(f"candidates={candidates!r}: this model has no links")
            return found()
        if callable(candidates):
            return np.array([bool(candidates(item)) for item in self.items], bool)
        listed = listed_ids(candidates)
        if listed is None:
            raise SettingsError(
                f"candidates={candidates!r}: use 'all', 'similar_users', 'linked', a list of item "
                "ids, or a function of an id"
            )
        wanted = list(listed)
        codes = self.items.codes(wanted)
        if (codes < 0).any():
            unknown = wanted[int(np.argmax(codes < 0))]
            raise RatingsError(f"candidate {unknown!r} is not an item of this model: leave it out")
        allowed = np.zeros(len(self.items), bool)
        allowed[codes] = True
        return allowed


def check_trainable(ratings: Any) -> None:
    """An error that says what `fit` needs, unless these are ratings to learn from."""
    if not isinstance(ratings, Ratings):
        raise RatingsError(
            f"fit needs ordbm.Ratings, not {type(ratings).__name__}: make them with "
            "ordbm.Ratings(users, items, values) or ordbm.Ratings.from_frame(frame)"
        )
    if not len(ratings):
        raise RatingsError("no ratings to learn from: a hold-out of all ratings leaves none")


def check_request(user: Any, n: int, ratings: Any) -> None:
    """An error unless a list of n items is for one user, or for somebody who gave ratings."""
    if (user is None) == (ratings is None):
        raise SettingsError("say either who it is for, user=…, or what they rated, ratings={…}")
    if ratings is not None and not isinstance(ratings, Mapping):
        raise SettingsError("ratings must be a dict of what somebody new rated: {item: rating}")
    if listed_ids(user) is not None:
        raise SettingsError("recommend is for one user: use recommend_all(users) for several")
    check_count("n", n)


def level_probabilities(found: RatingDistribution) -> Numbers:
    """P(level) of each pair, or an error if the ratings have no levels."""
    if not isinstance(found, LevelDistribution):
        raise SettingsError(
            "these ratings are continuous and have no levels: use predict_table or "
            "distribution, which give mean and deviation"
        )
    return found.proba


def log_probabilities(found: RatingDistribution, ratings: Any) -> Numbers:
    """log P of a rating for each pair (log density on a continuous scale)."""
    given = several(ratings)
    if isinstance(found, LevelDistribution):
        codes = found.scale.codes(given)
        if len(codes) != len(found.proba):
            raise RatingsError(f"{len(codes)} ratings for {len(found.proba)} pairs")
        return found.log_probability(codes)
    numbers = finite_numbers(given)
    if len(numbers) != len(found.mean()):
        raise RatingsError(f"{len(numbers)} ratings for {len(found.mean())} pairs")
    return found.log_probability(numbers)


def prediction_table(
    pairs: tuple[Sequence[Any], Sequence[Any]],
    codes: tuple[Codes, Codes],
    found: RatingDistribution,
    backend: Backend | None,
) -> Any:
    """A frame with a row per pair: ids, mean, median, mode, deviation, confidence, known, p_…."""
    columns: dict[str, Any] = {
        "user": list(pairs[0]),
        "item": list(pairs[1]),
        "mean": found.mean(),
        "median": found.median(),
        "mode": found.mode(),
        "deviation": found.deviation(),
        "confidence": found.confidence(),
        "known_user": codes[0] >= 0,
        "known_item": codes[1] >= 0,
    }
    if isinstance(found, LevelDistribution):
        names = found.scale.labels or [f"{value:.15g}" for value in found.scale.values]
        columns |= {f"p_{name}": found.proba[:, s] for s, name in enumerate(names)}
    return frame_of(columns, backend)


def recommendations(
    items: IdMap, listed: NDArray[Any], score: NDArray[Any], rating: RatingDistribution
) -> list[Recommendation]:
    """The listed items with their scores and predicted ratings."""
    figures = zip(listed.tolist(), score, rating.mean(), rating.confidence(), strict=True)
    return [
        Recommendation(items[item], float(rank), float(mean), float(sure))
        for item, rank, mean, sure in figures
    ]


def level_values(scale: Scale) -> Numbers | None:
    """The number of each level; None on a continuous scale."""
    return scale.values if isinstance(scale, RatingScale) else None


def aligned(users: Ids, items: Ids) -> tuple[Sequence[Any], Sequence[Any]]:
    """Users and items of equal length; a single id stands for as many as needed."""
    users, items = _plain(users), _plain(items)
    user_list, item_list = listed_ids(users), listed_ids(items)
    if user_list is None and item_list is None:
        return [users], [items]
    if user_list is None:
        return [users] * len(item_list), item_list
    if item_list is None:
        return user_list, [items] * len(user_list)
    if len(user_list) != len(item_list):
        raise RatingsError(
            f"{len(user_list)} users and {len(item_list)} items: pairs need as many of both, or a "
            "single id on one side"
        )
    return user_list, item_list


def several(ids: Ids) -> Any:
    """A sequence of ids; a single id is the only one."""
    listed = listed_ids(_plain(ids))
    return [_plain(ids)] if listed is None else listed


def _plain(ids: Ids) -> Ids:
    """An id in an array without dimensions is that id."""
    return ids.item() if isinstance(ids, np.ndarray) and ids.ndim == 0 else ids


def _check_not_several(value: Any, known: IdMap) -> None:
    """An error if an unknown id is a tuple of known ones: a tuple is one id."""
    if isinstance(value, tuple) and any(member in known for member in value):
        raise RatingsError(
            f"{reprlib.repr(value)} is one id, a tuple, and not known: give several in a list"
        )


def listed_ids(ids: Ids) -> Any:
    """A sequence of ids, or None for a single id."""
    if isinstance(ids, str | bytes | tuple | frozenset) or not hasattr(ids, "__iter__"):
        return None
    return ids if hasattr(ids, "__len__") else list(ids)
