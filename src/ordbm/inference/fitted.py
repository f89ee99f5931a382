"""Fitted machines with their ids, scale and ratings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.data.csr import CSRPair
from ordbm.data.ids import IdMap
from ordbm.data.level_counts import log_frequencies
from ordbm.data.numeric_columns import finite_numbers
from ordbm.data.scale import RatingScale, Scale
from ordbm.data.standardiser import Standardiser
from ordbm.inference.catalogue import Catalogue
from ordbm.inference.conditioned import ConditionedMachine, Method
from ordbm.inference.distributions import (
    LevelDistribution,
    RatingDistribution,
    mixture,
    predicted,
)
from ordbm.inference.fold_in import fold_in_machine
from ordbm.inference.known import Known
from ordbm.model.learners import Priors
from ordbm.model.machine import Machine
from ordbm.model.presence import ConditionedPresence, Presence, fold_in_presence
from ordbm.priors.fold_in_priors import FoldInPriors
from ordbm.runtime.arrays import Codes


class Origin(NamedTuple):
    """The version of ordbm by which a machine was learnt, and when (ISO 8601, UTC)."""

    version: str
    time: str

    @classmethod
    def now(cls) -> Origin:
        # By its name: the package itself also names, lazily, what stands above this file.
        version = import_module("ordbm").__version__
        return cls(version, datetime.now(UTC).isoformat(timespec="seconds"))


class FittedModel(Known):
    """Learnt machines, averaged in all they say, with the ids, scale and ratings behind them."""

    def __init__(
        self,
        users: IdMap,
        items: IdMap,
        scale: Scale,
        standardiser: Standardiser | None,
        machines: Sequence[Machine],
        ratings: CSRPair,
        threads: int,
        origin: Origin | None = None,
        presence: Presence | None = None,
    ) -> None:
        rated_users, rated_items = (np.diff(rows.start) > 0 for rows in ratings)
        super().__init__(users, items, scale, rated_users, rated_items)
        self.standardiser, self.machines, self.ratings = standardiser, tuple(machines), ratings
        self.threads, self.presence = threads, presence
        self._fold_in_priors: dict[Priors, FoldInPriors] = {}  # that were asked for
        self.origin = origin or Origin.now()

    @cached_property
    def conditioned(self) -> tuple[ConditionedMachine, ...]:
        """Of each machine."""
        return self.conditioned_now()

    def conditioned_now(self) -> tuple[ConditionedMachine, ...]:
        """While the machines are being learnt, what they say now."""
        return tuple(
            ConditionedMachine(machine, self.ratings, self.threads) for machine in self.machines
        )

    @cached_property
    def catalogues(self) -> tuple[Catalogue, ...]:
        return tuple(map(Catalogue, self.conditioned))

    @cached_property
    def conditioned_presence(self) -> ConditionedPresence | None:
        """What is known of which items get rated; None if it was not learnt."""
        if self.presence is None:
            return None
        return ConditionedPresence(self.presence, self.ratings.by_user, self.threads)

    def distribution(self, users: Codes, items: Codes, method: Method) -> RatingDistribution:
        """The distribution of each pair's rating; of two strangers', that of all ratings."""
        found = self.predicted(self.conditioned, users, items, method)
        strangers = (users < 0) & (items < 0)
        if isinstance(found, LevelDistribution) and self.standardiser is None:
            found.proba[strangers] = self.level_shares
        return found

    def predicted(
        self,
        conditioned: Iterable[ConditionedMachine],
        users: Codes,
        items: Codes,
        method: Method = "exact",
    ) -> RatingDistribution:
        """What machines with this evidence say of each pair's rating on average."""
        return mixture(
            [
                predicted(one, self.scale, self.standardiser, users, items, method)
                for one in conditioned
            ]
        )

    @cached_property
    def level_shares(self) -> NDArray[np.float64]:
        """The share of each level among the ratings learnt from."""
        return np.exp(log_frequencies(self.ratings.by_user.level, len(self.machines[0].level_bias)))

    def fold_in(self, given: Mapping[Any, Any], prior: Priors) -> tuple[ConditionedMachine, ...]:
        """Each machine conditioned on a fold-in user's ratings {item: rating}: `learnt_ratings`.

        `prior` has the precisions of a fold-in user's own parameters.
        """
        items = self.given_codes(given)
        level = np.zeros(len(items), np.uint8)
        value = np.zeros(0, np.float32)
        if isinstance(self.scale, RatingScale) and len(items):
            level = self.scale.codes(list(given.values()), item=list(given))
        if self.standardiser is not None and len(items):
            raw = (
                self.scale.values[level]
                if isinstance(self.scale, RatingScale)
                else finite_numbers(list(given.values()), item=list(given))
            )
            value = ((raw - self.standardiser.mean) / self.standardiser.deviation).astype(
                np.float32
            )
            level = np.zeros(len(items), np.uint8)
        if prior not in self._fold_in_priors:
            self._fold_in_priors[prior] = FoldInPriors.of(
                self.machines, self.ratings, prior, self.threads
            )
        priors = self._fold_in_priors[prior]
        return tuple(
            fold_in_machine(one, items, level, value, coupling, priors.bias)
            for one, coupling in zip(self.conditioned, priors.couplings(items), strict=True)
        )

    def fold_in_presence(self, given: Mapping[Any, Any]) -> ConditionedPresence | None:
        """Presence of a fold-in user who gave `learnt_ratings`; None if it was not learnt."""
        if self.conditioned_presence is None:
            return None
        return fold_in_presence(self.conditioned_presence, self.given_codes(given))


def strangers_apart(codes: Codes, ids: Iterable[Any]) -> Codes:
    """Codes in which each unknown id has a number of its own: -1, -2, …."""
    unknown = np.flatnonzero(codes < 0)
    values = list(ids)
    _, number = IdMap.of([values[place] for place in unknown])
    codes[unknown] = -1 - number
    return codes


def rows_or_prior(
    conditioned: Iterable[ConditionedMachine], side: int, codes: Codes | None
) -> NDArray[np.float32]:
    """P(h = 1) of users (side 0) or items (side 1); the hidden bias alone speaks for code -1."""
    return np.concatenate([_rows_or_prior(one, side, codes) for one in conditioned], axis=1)


def _rows_or_prior(
    conditioned: ConditionedMachine, number: int, codes: Codes | None
) -> NDArray[np.float32]:
    factors = conditioned.item_factors() if number else conditioned.user_factors()
    side = conditioned.machine.sides[number]
    if codes is None or side is None:
        return factors if codes is None else np.zeros((len(codes), 0), np.float32)
    prior = 1.0 / (1.0 + np.exp(-side.parameters.hidden_bias[: side.n_hidden]))
    return np.where((codes >= 0)[:, None], factors[codes], prior).astype(factors.dtype)
