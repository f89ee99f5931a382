"""Fitted machines with their ids, scale and ratings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.encoding import log_frequencies
from ordbm.errors import SettingsError
from ordbm.features import Standard
from ordbm.ids import IdMap
from ordbm.inference.distribution import (
    LevelDistribution,
    RatingDistribution,
    averaged,
    predicted,
)
from ordbm.inference.evidence import Evidence, Method
from ordbm.inference.newcomer import newcomer_evidence
from ordbm.learning.learners import Learner
from ordbm.machine import Machine, Orientations
from ordbm.metrics.ratings import scores
from ordbm.newcomers import NewcomerPriors
from ordbm.prediction import Codes, Known, Mask, level_values
from ordbm.presence import Presence, PresenceEvidence, newcomer_presence
from ordbm.ranking import SIMILAR_USERS, Catalogue, rated_by, similar_rows
from ordbm.ratings import Ratings, Scale
from ordbm.scale import RatingScale, finite_numbers

LISTS_AT_ONCE = 2_000
Ranked = tuple[int, NDArray[Any], NDArray[Any]]  # a user, items, scores


class Origin(NamedTuple):
    """The version of ordbm by which a machine was learnt, and when (ISO 8601, UTC)."""

    version: str
    time: str

    @classmethod
    def now(cls) -> Origin:
        # By its name: the package itself also names, lazily, what stands above this file.
        version = import_module("ordbm").__version__
        return cls(version, datetime.now(UTC).isoformat(timespec="seconds"))


class Fitted(Known):
    """Learnt machines, averaged in all they say, with the ids, scale and ratings behind them."""

    def __init__(
        self,
        users: IdMap,
        items: IdMap,
        scale: Scale,
        standard: Standard | None,
        machines: Sequence[Machine],
        ratings: Orientations,
        threads: int,
        origin: Origin | None = None,
        presence: Presence | None = None,
    ) -> None:
        rated_users, rated_items = (np.diff(rows.start) > 0 for rows in ratings)
        super().__init__(users, items, scale, rated_users, rated_items)
        self.standard, self.machines, self.ratings = standard, tuple(machines), ratings
        self.threads, self.presence = threads, presence
        self._newcomer_priors: dict[Learner, NewcomerPriors] = {}  # that were asked for
        self.origin = origin or Origin.now()

    @cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        """Of each machine."""
        return self._evidence_now()

    def _evidence_now(self) -> tuple[Evidence, ...]:
        """While the machines are being learnt, what they say now."""
        return tuple(Evidence(machine, self.ratings, self.threads) for machine in self.machines)

    @cached_property
    def catalogues(self) -> tuple[Catalogue, ...]:
        return tuple(map(Catalogue, self.evidence))

    @cached_property
    def presence_evidence(self) -> PresenceEvidence | None:
        """What is known of which items get rated; None if it was not learnt."""
        if self.presence is None:
            return None
        return PresenceEvidence(self.presence, self.ratings.by_user, self.threads)

    def distribution(self, users: Codes, items: Codes, method: Method) -> RatingDistribution:
        """The distribution of each pair's rating; of two strangers', that of all ratings."""
        found = self.predicted(self.evidence, users, items, method)
        strangers = (users < 0) & (items < 0)
        if isinstance(found, LevelDistribution) and self.standard is None:
            found.proba[strangers] = self.level_shares
        return found

    def predicted(
        self, evidence: Iterable[Evidence], users: Codes, items: Codes, method: Method = "exact"
    ) -> RatingDistribution:
        """What machines with this evidence say of each pair's rating on average."""
        return averaged(
            [predicted(one, self.scale, self.standard, users, items, method) for one in evidence]
        )

    @cached_property
    def level_shares(self) -> NDArray[np.float64]:
        """The share of each level among the ratings learnt from."""
        return np.exp(log_frequencies(self.ratings.by_user.level, len(self.machines[0].level_bias)))

    def by_exact_mean(self, ranked: Iterable[Ranked], n: int) -> Iterator[Ranked]:
        """The n best of each list by exact means instead of mean-field ones, as many at a time."""
        lists = iter(ranked)
        while part := list(islice(lists, LISTS_AT_ONCE)):
            users = np.concatenate([np.full(len(items), user, np.int32) for user, items, _ in part])
            items = np.concatenate([items.astype(np.int32) for _, items, _ in part])
            mean = self.distribution(users, items, "exact").mean()
            ends = np.cumsum([len(listed) for _, listed, _ in part])[:-1]
            for (user, listed, _), score in zip(part, np.split(mean, ends), strict=True):
                order = np.argsort(-score, kind="stable")[:n]
                yield user, listed[order], score[order]

    def newcomer(self, given: Mapping[Any, Any], prior: Learner) -> tuple[Evidence, ...]:
        """Each machine's evidence about somebody new who gave these ratings {item: rating}.

        `prior` has the precisions of a newcomer's own parameters.
        """
        items = self.given_codes(given)
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
        if prior not in self._newcomer_priors:
            self._newcomer_priors[prior] = NewcomerPriors.of(
                self.machines, self.ratings, prior, self.threads
            )
        priors = self._newcomer_priors[prior]
        return tuple(
            newcomer_evidence(one, items, level, value, coupling, priors.bias)
            for one, coupling in zip(self.evidence, priors.couplings(items), strict=True)
        )

    def newcomer_presence(self, given: Mapping[Any, Any]) -> PresenceEvidence | None:
        """What somebody new who rated these items is likely to rate; None if it was not learnt."""
        if self.presence_evidence is None:
            return None
        return newcomer_presence(self.presence_evidence, self.given_codes(given))

    def linked_items(self, user: int) -> Mask:
        """The items that links of the machines join with what this user has rated, (items,)."""
        side = self.machines[0].user_side
        if side is None or not side.links.n_edges:
            raise SettingsError("candidates='linked' needs links between items: item_links=…")
        mask = np.zeros(len(self.items), bool)
        by_user, links = self.ratings.by_user, side.links
        for item in by_user.column[by_user.start[user] : by_user.start[user + 1]]:
            mask[links.neighbour[links.start[item] : links.start[item + 1]]] = True
        return mask

    def similar_items(self, user: int) -> Mask:
        """The items that the users most similar to this one have rated, (items,)."""
        by_user, by_item = self.ratings
        similar = similar_rows(by_user, by_item, user, level_values(self.scale), SIMILAR_USERS)
        return rated_by(by_user, similar, len(self.items))

    def validator(self, ratings: Ratings) -> Any:
        """A function that scores the machines, as they are, on held-out ratings."""
        users, items = self.validation_codes(ratings)

        def validate() -> dict[str, float]:
            # A Gaussian machine learns by mean field, which is also far cheaper to score.
            method: Method = "exact" if self.standard is None else "mean_field"
            return scores(self.predicted(self._evidence_now(), users, items, method), ratings)

        return validate


def told_apart(codes: Codes, ids: Iterable[Any]) -> Codes:
    """Codes in which each unknown id has a number of its own: -1, -2, …."""
    unknown = np.flatnonzero(codes < 0)
    values = list(ids)
    _, number = IdMap.of([values[place] for place in unknown])
    codes[unknown] = -1 - number
    return codes


def rows_or_prior(
    evidence: Iterable[Evidence], side: int, codes: Codes | None
) -> NDArray[np.float32]:
    """P(h = 1) of users (side 0) or items (side 1); the hidden bias alone speaks for code -1."""
    return np.concatenate([_rows_or_prior(one, side, codes) for one in evidence], axis=1)


def _rows_or_prior(evidence: Evidence, number: int, codes: Codes | None) -> NDArray[np.float32]:
    factors = evidence.item_factors() if number else evidence.user_factors()
    side = evidence.machine.sides[number]
    if codes is None or side is None:
        return factors if codes is None else np.zeros((len(codes), 0), np.float32)
    prior = 1.0 / (1.0 + np.exp(-side.parameters.hidden_bias[: side.n_hidden]))
    return np.where((codes >= 0)[:, None], factors[codes], prior).astype(factors.dtype)
