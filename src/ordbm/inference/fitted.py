"""Fitted machines with their ids, scale and ratings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.data.csr import CSR, CSRPair
from ordbm.data.ids import IdMap
from ordbm.data.level_counts import log_frequencies
from ordbm.data.scale import Scale, levels_and_values
from ordbm.data.standardiser import Standardiser, standardised, standardised_pair
from ordbm.inference.catalogue import Catalogue
from ordbm.inference.conditioned import ConditionedMachine, Method
from ordbm.inference.distributions import (
    LevelDistribution,
    RatingDistribution,
    mixture,
    predicted_distribution,
)
from ordbm.inference.fold_in import fold_in_machine
from ordbm.inference.known import Known
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
        given: CSRPair,
        threads: int,
        origin: Origin | None = None,
        presence: Presence | None = None,
        fold_in_priors: FoldInPriors | None = None,
    ) -> None:
        rated_users, rated_items = (np.diff(rows.start) > 0 for rows in given)
        super().__init__(users, items, scale, rated_users, rated_items)
        self.standardiser, self.machines = standardiser, tuple(machines)
        self.given = self.ratings = given  # on their scale, and as the machines read them
        if standardiser is not None:
            self.ratings = standardised_pair(given, scale, standardiser)
        self.threads, self.presence = threads, presence
        self.fold_in_priors = fold_in_priors  # None until the machines are learnt
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
        found = self.ensemble_distribution(self.conditioned, users, items, method)
        strangers = (users < 0) & (items < 0)
        if isinstance(found, LevelDistribution) and self.standardiser is None:
            found.proba[strangers] = self.level_shares
        return found

    def ensemble_distribution(
        self,
        conditioned: Iterable[ConditionedMachine],
        users: Codes,
        items: Codes,
        method: Method = "exact",
    ) -> RatingDistribution:
        """What these conditioned machines say of each pair's rating on average."""
        return mixture(
            [
                predicted_distribution(one, self.scale, self.standardiser, users, items, method)
                for one in conditioned
            ]
        )

    @cached_property
    def level_shares(self) -> NDArray[np.float64]:
        """The share of each level among the ratings learnt from."""
        return np.exp(log_frequencies(self.ratings.by_user.level, len(self.machines[0].level_bias)))

    def fold_in(self, given: Mapping[Any, Any]) -> tuple[ConditionedMachine, ...]:
        """Each machine conditioned on a fold-in user's ratings {item: rating}: `learnt_ratings`."""
        row = self.given_row(given)
        if self.standardiser is not None:
            row = standardised(row, self.scale, self.standardiser)
        priors = self.fold_in_priors
        assert priors is not None
        return tuple(
            fold_in_machine(one, row.column, row.level, row.value, coupling, priors.bias)
            for one, coupling in zip(self.conditioned, priors.couplings(row.column), strict=True)
        )

    def given_row(self, given: Mapping[Any, Any]) -> CSR:
        """A fold-in user's ratings {item: rating} on their scale, as one row."""
        items = self.given_codes(given)
        level, value = np.zeros(0, np.uint8), np.zeros(0, np.float32)
        if len(items):
            level, value = levels_and_values(list(given.values()), self.scale, item=list(given))
        order = np.argsort(items)
        return CSR(
            start=np.array([0, len(items)], np.int64),
            column=items[order],
            level=level[order],
            value=value[order] if len(value) else value,
            in_transpose=np.zeros(0, np.int32),
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
