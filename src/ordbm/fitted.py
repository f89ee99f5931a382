"""A fitted machine with its ids, scale and ratings; and ids as people give them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.encoding import log_frequencies
from ordbm.errors import RatingsError, SettingsError
from ordbm.features import Standard
from ordbm.ids import IdMap
from ordbm.inference.distribution import LevelDistribution, RatingDistribution, predicted
from ordbm.inference.evidence import Evidence, Method
from ordbm.inference.newcomer import newcomer_evidence
from ordbm.learning.learners import Learner
from ordbm.machine import Machine, Orientations, Side
from ordbm.metrics.ratings import scores
from ordbm.ranking import SIMILAR_USERS, Catalogue, rated_by, similar_rows
from ordbm.ratings import Ratings, Scale
from ordbm.scale import RatingScale, finite_numbers

Ids = Any
Codes = NDArray[np.int32]
Ranked = tuple[int, NDArray[Any], NDArray[Any]]  # a user, items, scores


class Fitted:
    """A learnt machine with the ids, scale and ratings it was learnt from."""

    def __init__(
        self,
        users: IdMap,
        items: IdMap,
        scale: Scale,
        standard: Standard | None,
        machine: Machine,
        ratings: Orientations,
        threads: int,
    ) -> None:
        self.users, self.items, self.scale, self.standard = users, items, scale, standard
        self.machine = machine
        self.ratings = ratings
        self.threads = threads
        self.rated_users = np.diff(ratings.by_user.start) > 0
        self.rated_items = np.diff(ratings.by_item.start) > 0

    @cached_property
    def evidence(self) -> Evidence:
        return Evidence(self.machine, self.ratings, self.threads)

    @cached_property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.evidence)

    def codes(self, ids: Ids, known: IdMap, rated: NDArray[np.bool_]) -> Codes:
        """Codes of ids; -1 for the unknown and for those without ratings."""
        codes = known.codes(ids)
        return np.where((codes >= 0) & rated[codes], codes, -1).astype(np.int32)

    def distribution(self, users: Codes, items: Codes, method: Method) -> RatingDistribution:
        """The distribution of each pair's rating; of two strangers', that of all ratings."""
        found = predicted(self.evidence, self.scale, self.standard, users, items, method)
        strangers = (users < 0) & (items < 0)
        if isinstance(found, LevelDistribution) and self.standard is None:
            found.proba[strangers] = self.level_shares
        return found

    @cached_property
    def level_shares(self) -> NDArray[np.float64]:
        """The share of each level among the ratings learnt from."""
        return np.exp(log_frequencies(self.ratings.by_user.level, len(self.machine.level_bias)))

    def by_exact_mean(self, ranked: Iterable[Ranked]) -> Iterator[Ranked]:
        """Lists of the catalogue, ordered and scored by exact means instead of mean-field ones."""
        lists = list(ranked)
        users = [np.full(len(items), user, np.int32) for user, items, _ in lists]
        items = [items.astype(np.int32) for _, items, _ in lists]
        if not lists:
            return
        mean = self.distribution(np.concatenate(users), np.concatenate(items), "exact").mean()
        ends = np.cumsum([len(listed) for listed in items])[:-1]
        for (user, listed, _), score in zip(lists, np.split(mean, ends), strict=True):
            order = np.argsort(-score, kind="stable")
            yield user, listed[order], score[order]

    def newcomer(self, given: Mapping[Any, Any], prior: Learner) -> Evidence:
        """Evidence about somebody new who gave these ratings {item: rating}.

        `prior` has the precisions of a newcomer's own parameters.
        """
        items = self.items.codes(list(given))
        if (items < 0).any():
            unknown = list(given)[int(np.argmax(items < 0))]
            raise RatingsError(f"item {unknown!r} is not in this model: leave it out")
        level = np.zeros(len(items), np.uint8)
        value = np.zeros(0, np.float32)
        if isinstance(self.scale, RatingScale) and len(items):
            level = self.scale.codes(list(given.values()), item=list(given))
        if self.standard is not None and len(items):
            raw = (
                self.scale.values[level]
                if isinstance(self.scale, RatingScale)
                else finite_numbers(list(given.values()), item=list(given))
            )
            value = ((raw - self.standard.mean) / self.standard.deviation).astype(np.float32)
            level = np.zeros(len(items), np.uint8)
        return newcomer_evidence(
            self.evidence, items, level, value, prior.coupling_precision, prior.bias_precision
        )

    def allowed(
        self, candidates: Iterable[Any] | str | None, evidence: Evidence, code: int
    ) -> NDArray[np.bool_]:
        """Which items may be listed, (items,): the candidates that somebody has rated."""
        if candidates is None or (isinstance(candidates, str) and candidates == "all"):
            return self.rated_items
        if isinstance(candidates, str) and candidates == "similar_users":
            by_user, by_item = self.evidence.ratings
            if evidence is not self.evidence:
                raise SettingsError(
                    "candidates='similar_users' needs a known user: use None for somebody new"
                )
            values = self.scale.values if isinstance(self.scale, RatingScale) else None
            similar = similar_rows(by_user, by_item, code, values, SIMILAR_USERS)
            return rated_by(by_user, similar, len(self.items))
        listed = listed_ids(candidates)
        if listed is None:
            raise SettingsError(
                f"candidates={candidates!r}: use 'all', 'similar_users' or a list of item ids"
            )
        wanted = list(listed)
        codes = self.items.codes(wanted)
        if (codes < 0).any():
            unknown = wanted[int(np.argmax(codes < 0))]
            raise RatingsError(f"candidate {unknown!r} is not an item of this model: leave it out")
        allowed = np.zeros(len(self.items), bool)
        allowed[codes] = True
        return allowed & self.rated_items

    def validator(self, ratings: Ratings) -> Any:
        """A function that scores a machine on held-out ratings, given what it was trained on."""
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
        users = self.codes(ratings.users.ids, self.users, self.rated_users)[ratings.user_codes]
        items = self.codes(ratings.items.ids, self.items, self.rated_items)[ratings.item_codes]

        def validate(machine: Machine) -> dict[str, float]:
            evidence = Evidence(machine, self.ratings, self.threads)
            # A Gaussian machine learns by mean field, which is also far cheaper to score.
            method: Method = "exact" if self.standard is None else "mean_field"
            found = predicted(evidence, self.scale, self.standard, users, items, method)
            return scores(found, ratings)

        return validate


def aligned(users: Ids, items: Ids) -> tuple[Sequence[Any], Sequence[Any]]:
    """Users and items of equal length; a single id stands for as many as needed."""
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
    listed = listed_ids(ids)
    return [ids] if listed is None else listed


def told_apart(codes: Codes, ids: Sequence[Any]) -> Codes:
    """Codes in which each unknown id has a number of its own: -1, -2, …."""
    unknown = np.flatnonzero(codes < 0)
    values = list(ids)
    _, number = IdMap.of([values[place] for place in unknown])
    codes[unknown] = -1 - number
    return codes


def listed_ids(ids: Ids) -> Any:
    """A sequence of ids, or None for a single id."""
    if isinstance(ids, str | bytes | tuple | frozenset) or not hasattr(ids, "__iter__"):
        return None
    return ids if hasattr(ids, "__len__") else list(ids)


def rows_or_prior(factors: Any, codes: Codes | None, side: Side | None) -> NDArray[np.float32]:
    """Rows of `factors`; the hidden bias alone speaks for code -1."""
    if codes is None or side is None:
        return factors if codes is None else np.zeros((len(codes), 0), np.float32)
    prior = 1.0 / (1.0 + np.exp(-side.parameters.hidden_bias[: side.n_hidden]))
    return np.where((codes >= 0)[:, None], factors[codes], prior).astype(factors.dtype)
