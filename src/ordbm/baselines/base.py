"""What every baseline does with what it has learnt: predict, tabulate, recommend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from ordbm.data.frames import Backend
from ordbm.data.lookup import Ids, aligned_pairs
from ordbm.data.numeric_columns import finite_numbers
from ordbm.data.ratings import Ratings, as_ratings
from ordbm.data.scale import RatingScale, Scale
from ordbm.errors import NotFittedError, SettingsError
from ordbm.inference.distributions import Decode, RatingDistribution
from ordbm.inference.distributions import decode as decoded
from ordbm.inference.known import Known, check_request, check_trainable
from ordbm.inference.tables import level_probabilities, log_probabilities, prediction_table
from ordbm.inference.top_n import top_lists, unseen_scores
from ordbm.model.configurable import Configured
from ordbm.recommend.candidates import (
    UserCandidates,
    allowed_items,
    items_of_similar_users,
)
from ordbm.recommend.list_frame import list_dict, list_frame
from ordbm.recommend.recommendation import Ranked, Recommendation, recommendations
from ordbm.runtime.arrays import Codes, Mask, Numbers
from ordbm.runtime.checks import check_count
from ordbm.training.loop import Callback, EpochRecord

_USERS_AT_ONCE = 256  # fewer if the catalogue is so large that their scores pass these bytes:
SCORE_BYTES = 100_000_000


class Learnt(ABC):
    """What a baseline has learnt. Code -1 is an unknown user or item."""

    @abstractmethod
    def distribution(self, users: Codes, items: Codes) -> RatingDistribution:
        """The distribution of each pair's rating."""

    @abstractmethod
    def scores(self, users: Codes) -> Numbers:
        """What items are ranked by, (users, items): larger is better."""

    @abstractmethod
    def fold_in(self, items: Codes, values: Numbers) -> Learnt:
        """The same for a fold-in user, who is user 0 and gave these ratings."""


class Watch(NamedTuple):
    """What a model with epochs needs beside its ratings."""

    known: Known
    validation: Ratings | None
    callbacks: Sequence[Callback]


class _State(NamedTuple):
    known: Known
    ratings: Ratings
    learnt: Learnt


class Baseline(Configured, ABC):
    """A model with OrdinalBM's interface that subclasses fill by `_learn`.

    `history` has a record per epoch, and `interrupted` says whether Ctrl-C ended the training
    early; only SVD has epochs. To all others validation ratings and callbacks mean nothing, and
    they take them so that any model can be fitted the same way.
    """

    def __init__(self, **told: Any) -> None:
        self._params = told
        self.history: list[EpochRecord] = []
        self.interrupted = False
        self._fitted: _State | None = None

    @abstractmethod
    def _learn(self, ratings: Ratings, watch: Watch) -> Learnt:
        """What these ratings teach."""

    def fit(
        self,
        ratings: Any,
        validation: Any = None,
        callbacks: Callback | Iterable[Callback] = (),
    ) -> Self:
        """Learn from ratings, given as `OrdinalBM.fit` takes them."""
        ratings = as_ratings(ratings)
        if validation is not None:
            validation = as_ratings(validation, scale=ratings.scale)
        check_trainable(ratings)
        rated_users, rated_items = (
            np.diff(rows.start) > 0 for rows in (ratings.by_user, ratings.by_item)
        )
        known = Known(ratings.users, ratings.items, ratings.scale, rated_users, rated_items)
        if validation is not None:
            known.validation_codes(validation)  # an error if these cannot be used
        told = (callbacks,) if callable(callbacks) else tuple(callbacks)
        learnt = self._learn(ratings, Watch(known, validation, told))
        self._fitted = _State(known, ratings, learnt)
        return self

    # -- predicting -------------------------------------------------------------------------------

    def distribution(self, users: Ids, items: Ids) -> RatingDistribution:
        """The predicted distribution of each pair's rating, as an object with mean, median, mode…

        Unknown users and items get what is known of the other, or of all ratings.
        """
        state = self._state
        return state.learnt.distribution(*state.known.pair_codes(users, items))

    def predict_proba(self, users: Ids, items: Ids) -> Numbers:
        """P(level) of each pair, (pairs, levels); rows sum to one."""
        return level_probabilities(self.distribution(users, items))

    def predict(self, users: Ids, items: Ids, decode: Decode = "mean") -> Numbers:
        """The mean, median or mode of each pair's predicted distribution."""
        return decoded(self.distribution(users, items), decode)

    def predict_table(self, users: Ids, items: Ids, backend: Backend | None = None) -> Any:
        """A frame with a row per pair: ids, mean, median, mode, deviation, confidence, known, p_….

        `backend` is the kind of frame, "pandas", "polars" or "pyarrow"; the first one installed if
        not said.
        """
        state = self._state
        pairs = aligned_pairs(users, items)
        codes = state.known.pair_codes(*pairs)
        return prediction_table(pairs, codes, state.learnt.distribution(*codes), backend)

    def log_probability(self, users: Ids, items: Ids, ratings: Any) -> Numbers:
        """log P of a rating for each pair (log density on a continuous scale)."""
        return log_probabilities(self.distribution(users, items), ratings)

    # -- ranking ----------------------------------------------------------------------------------

    def recommend(
        self,
        user: Any = None,
        n: int = 10,
        candidates: Iterable[Any] | Literal["all", "similar_users"] | None = None,
        *,
        ratings: Mapping[Any, Any] | None = None,
    ) -> list[Recommendation]:
        """The n best items for a known user, or for somebody new who gave `ratings` {item: rating}.

        Items already rated are left out, and so are those nobody has rated; ties go to the item
        that came first. `candidates`: all items (None or "all"), the items that the 50 most similar
        users rated ("similar_users"), or item ids. An unknown user is somebody new without ratings.
        """
        check_request(user, ratings)
        check_count("n", n)
        if user is not None and ratings is not None:
            raise SettingsError("say either who it is for, user=…, or what they rated, ratings={…}")
        known, seen, learnt = self._state
        code = known.user_code(user) if ratings is None else -1
        about = (
            UserCandidates(
                partial(items_of_similar_users, seen.by_user, seen.by_item, code, seen.scale)
            )
            if code >= 0
            else None
        )
        allowed = allowed_items(known, candidates, about)
        if code >= 0:
            rated = seen.by_user.columns_of(code)
        else:
            rated, values = _given(known, ratings or {})
            learnt, code = learnt.fold_in(rated, values), 0
        score = unseen_scores(learnt.scores(np.array([code], np.int32)), allowed, [rated])
        listed, found = next(top_lists(score, n))
        users = np.full(len(listed), code, np.int32)
        rating = learnt.distribution(users, listed.astype(np.int32))
        return recommendations(known.items, listed, found, rating.mean(), rating.confidence())

    def recommend_all(
        self,
        users: Sequence[Any] | None = None,
        n: int = 10,
        *,
        backend: Backend | None = None,
    ) -> Any:
        """The lists of `recommend` for all known users or those given, as a frame.

        Its columns are user, rank, item, score, mean and confidence. Works in blocks of users:
        there is never a users × items table.
        """
        return list_frame(self._state.known.items, *self._everybody(users, n), backend)

    def recommend_lists(
        self, users: Sequence[Any] | None = None, n: int = 10
    ) -> dict[Any, list[tuple[Any, float]]]:
        """{user: [(item, score), …]}: what `recommend_all` has, without a frame library."""
        return list_dict(self._state.known.items, *self._everybody(users, n))

    def _everybody(
        self, users: Sequence[Any] | None, n: int
    ) -> tuple[Sequence[Any], Iterator[Ranked]]:
        check_count("n", n)
        known = self._state.known
        codes = known.user_codes(users)
        return [known.users[code] for code in codes.tolist()], self._ranked(codes, n)

    def _ranked(self, codes: Codes, n: int) -> Iterator[Ranked]:
        known, seen, learnt = self._state
        at_once = max(1, min(_USERS_AT_ONCE, SCORE_BYTES // (8 * len(known.items))))
        for first in range(0, len(codes), at_once):
            block = codes[first : first + at_once]
            rated = map(seen.by_user.columns_of, block)
            score = unseen_scores(learnt.scores(block), known.rated_items, rated)
            for user, (listed, found) in zip(block.tolist(), top_lists(score, n), strict=True):
                pairs = np.full(len(listed), user, np.int32), listed.astype(np.int32)
                rating = learnt.distribution(*pairs)
                yield Ranked(user, listed, found, rating.mean(), rating.confidence(), None)

    # -- what is known ----------------------------------------------------------------------------

    def known_users(self, users: Ids) -> Mask:
        """Whether the model has ratings by each of these users."""
        return self._state.known.known_users(users)

    def known_items(self, items: Ids) -> Mask:
        """Whether the model has ratings of each of these items."""
        return self._state.known.known_items(items)

    @property
    def scale(self) -> Scale:
        return self._state.known.scale

    @property
    def _state(self) -> _State:
        if self._fitted is None:
            raise NotFittedError("this model has not been fitted: call fit(ratings) first")
        return self._fitted

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self._params.items())
        return f"{type(self).__name__}({told})"


def _given(known: Known, given: Mapping[Any, Any]) -> tuple[Codes, Numbers]:
    """Item codes, increasing, and the numbers of what a fold-in user rated."""
    items = known.given_codes(given)
    if not len(items):
        return items, np.zeros(0)
    answers, order = list(given.values()), np.argsort(items)
    if isinstance(known.scale, RatingScale):
        values = known.scale.values[known.scale.codes(answers, item=list(given))]
    else:
        values = finite_numbers(answers, item=list(given))
    return items[order], values[order]
