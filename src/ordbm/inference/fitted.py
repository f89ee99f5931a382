"""Fitted machines with their ids, scale and ratings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ordbm.data.context_columns import NO_CONTEXT, ContextColumns, context_places
from ordbm.data.csr import CSR, CSRPair
from ordbm.data.ids import IdMap
from ordbm.data.level_counts import level_counts, log_shares
from ordbm.data.scale import RatingScale, Scale, levels_and_values
from ordbm.data.standardiser import OwnUnits, Standardiser, standardised_pair
from ordbm.data.times import NO_TIMES
from ordbm.inference.catalogue import Catalogue
from ordbm.inference.conditioned import ConditionedMachine, Method
from ordbm.inference.context_forces import context_forces
from ordbm.inference.distributions import (
    LevelDistribution,
    NormalDistribution,
    RatingDistribution,
    check_known_method,
    mixture,
    predicted_distribution,
    reordered,
)
from ordbm.inference.ensemble_tables import EnsembleTables
from ordbm.inference.fold_in import KnownUsers
from ordbm.inference.known import Known
from ordbm.inference.people import People, Users
from ordbm.model.context_links import ContextLinks, level_basis
from ordbm.model.feature_effects import Described
from ordbm.model.machine import Machine, Newcomers
from ordbm.model.presence import ConditionedPresence, Presence
from ordbm.model.structure import Structure
from ordbm.priors.fold_in_priors import FoldInPriors
from ordbm.runtime.arrays import Array, Codes, Mask, Numbers

_T = TypeVar("_T")

# Drift from which learning anew gains 0.005 of log-loss or more, on MovieLens 1M
# (`benchmarks/stream`) and about so on MovieLens 100K. Where use of the scale changes it gains that
# much sooner: movielens-small by time, 0.03 at a tenth (`benchmarks/drift`).
WORTH_REFITTING = 0.2


class Origin(NamedTuple):
    """The version of ordbm by which a machine was learnt, and when (ISO 8601, UTC)."""

    version: str
    time: str

    @classmethod
    def now(cls) -> Origin:
        # By its name: the package itself also names, lazily, what stands above this file.
        version = import_module("ordbm").__version__
        return cls(version, datetime.now(UTC).isoformat(timespec="seconds"))


class Growth(NamedTuple):
    """How much was learnt from, and how many ratings came, changed and went since."""

    ratings: int
    users: int  # their codes are those below
    items: int
    new: int = 0
    changed: int = 0
    withdrawn: int = 0

    @property
    def drift(self) -> float:
        """(new + changed + withdrawn) / ratings learnt from."""
        return (self.new + self.changed + self.withdrawn) / self.ratings

    @property
    def wants_refit(self) -> bool:
        """Whether learning anew is worth while."""
        return self.drift >= WORTH_REFITTING

    def __str__(self) -> str:
        return (
            f"{self.new:,} new, {self.changed:,} changed and {self.withdrawn:,} withdrawn since "
            f"learning from {self.ratings:,}: {100 * self.drift:.1f} %"
        )


class LevelCounts(NamedTuple):
    """How often each level was given, a row for each user or item, (rows, n)."""

    by_user: Array
    by_item: Array


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
        times: Numbers = NO_TIMES,
        growth: Growth | None = None,
        described: Described = (None, None),
        structure: Structure | None = None,
        context: ContextLinks | None = None,
        context_columns: ContextColumns = NO_CONTEXT,
        newcomers: tuple[Mask, Mask] | None = None,
    ) -> None:
        counts = tuple(np.diff(rows.start) for rows in given)
        rated_users, rated_items = (count > 0 for count in counts)
        super().__init__(users, items, scale, rated_users, rated_items)
        self.growth = growth or Growth(len(given.by_user.column), len(users), len(items))
        self.standardiser = standardiser
        # Users and items that were not learnt from.
        new_users, new_items = newcomers or (~rated_users, ~rated_items)
        self.newcomers = (
            self._newcomers(new_users, counts[0]), self._newcomers(new_items, counts[1])
        )  # fmt: skip
        self.machines = tuple(machine.with_newcomers(self.newcomers) for machine in machines)
        self.given = self.ratings = given  # on their scale, and as the machines read them
        self.context = context  # None until it is learnt, or if nothing of it is known
        self.context_columns = context_columns  # of each rating by user
        self.times = times  # (N,) of each rating by user, in seconds; (0,) if they are not known
        if standardiser is not None:
            self.ratings = standardised_pair(given, scale, standardiser)
        self.threads, self.presence = threads, presence
        self.fold_in_priors = fold_in_priors  # None until the machines are learnt
        self.origin = origin or Origin.now()
        self.describe(described)
        self.structure = structure  # where it was searched
        self._kept: dict[str, Any] = {}

    @cached_property
    def conditioned(self) -> tuple[ConditionedMachine, ...]:
        """Of each machine."""
        return self._conditioned_now()

    def _conditioned_now(self) -> tuple[ConditionedMachine, ...]:
        """While the machines are being learnt, what they say now."""
        return tuple(
            ConditionedMachine(machine, self.ratings, self.threads) for machine in self.machines
        )

    @cached_property
    def catalogues(self) -> tuple[Catalogue, ...]:
        return tuple(map(Catalogue, self.conditioned))

    def describe(self, described: Described) -> None:
        """Features of users and items: those of whom something is known are answered for."""
        self.described = described
        self.modelled_users, self.modelled_items = (
            rated if about is None else rated | about.described
            for rated, about in zip((self.rated_users, self.rated_items), described, strict=True)
        )

    def _newcomers(self, new: Mask, count: Array) -> Newcomers:
        return Newcomers.of(new, count, self.growth.ratings / max(1, int((~new).sum())))

    @property
    def about_users(self) -> KnownUsers:
        return KnownUsers(self.newcomers[0], self.described[0])

    def kept(self, name: str, make: Callable[[], _T]) -> _T:
        """What `make` returned when it was first asked for by this name."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    def prepare(self) -> None:
        """Make now what the first questions would make: it is all kept."""
        if self.is_quick:
            self.tables.items()
        else:
            for one in self.conditioned:
                _ = one.user_input, one.item_input
        if self.conditioned_presence is not None:
            _ = self.conditioned_presence.rated

    @cached_property
    def conditioned_presence(self) -> ConditionedPresence | None:
        """What is known of which items get rated; None if it was not learnt."""
        if self.presence is None:
            return None
        return ConditionedPresence(self.presence, self.ratings.by_user, self.threads)

    @cached_property
    def tables(self) -> EnsembleTables:
        """The machines side by side, if they can be laid so (`is_quick`)."""
        return EnsembleTables(self.machines, self.ratings, self.threads)

    @cached_property
    def is_quick(self) -> bool:
        """Whether all machines can be asked in one pass."""
        return EnsembleTables.serve(self.machines)

    def distribution(
        self, people: People, person: Codes, items: Codes, method: Method = "exact"
    ) -> RatingDistribution:
        """The distribution of each pair's rating; of two strangers', that of all ratings.

        A pair is one of the `people` and an item, by their codes.
        """
        check_known_method(method)
        found: RatingDistribution
        if self.is_quick and method == "exact":
            found = self._quick_distribution(self.tables, people, person, items)
        elif isinstance(people, Users):
            found = self._slow_distribution(self.conditioned, person, items, method)
        else:
            found = self._one_by_one(people, person, items, method)
        if isinstance(found, NormalDistribution):
            return self._in_own_units(found, people, person)
        if self.standardiser is None:
            found.proba[(items < 0) & people.are_strangers(person)] = self.level_shares
        return found

    def distribution_at(
        self,
        people: People,
        person: Codes,
        items: Codes,
        at: Numbers | None,
        method: Method = "exact",
    ) -> RatingDistribution:
        """The same in the context of the questions, (pairs, P) like `places`, if that is said."""
        found = self.distribution(people, person, items, method)
        if at is None or self.context is None or not isinstance(found, LevelDistribution):
            return found
        force = context_forces(self, people, person, items, at, self.context)
        basis = level_basis(found.scale.values)
        return LevelDistribution(found.scale, self.context.in_context(found.proba, force, basis))

    @cached_property
    def places(self) -> Numbers:
        """The time of each rating, and then the other columns of its context, (N, P)."""
        n_ratings = len(self.given.by_user.column)
        return context_places(self.times, self.context_columns.values, n_ratings)

    def distribution_now(
        self, users: Codes, items: Codes, method: Method = "exact"
    ) -> RatingDistribution:
        """What the machines say of users' pairs while they are being learnt."""
        if self.is_quick and method == "exact":
            tables = EnsembleTables(self.machines, self.ratings, self.threads)
            return self._quick_distribution(tables, Users(self, tables), users, items)
        found = self._slow_distribution(self._conditioned_now(), users, items, method)
        if isinstance(found, NormalDistribution):
            return self._in_own_units(found, Users(self), users)
        return found

    @cached_property
    def own_units(self) -> OwnUnits:
        """In which each user gives Gaussian ratings."""
        assert self.standardiser is not None
        return self.standardiser.of_users(self.given.by_user)

    def _in_own_units(
        self, found: NormalDistribution, people: People, person: Codes
    ) -> NormalDistribution:
        assert self.standardiser is not None
        if not self.standardiser.weight:
            return found
        return found.in_own_units(self.standardiser, people.own_units(person))

    def _quick_distribution(
        self, tables: EnsembleTables, people: People, person: Codes, items: Codes
    ) -> LevelDistribution:
        """By tables of some people at a time."""
        assert isinstance(self.scale, RatingScale)
        proba = np.empty((len(items), tables.n_levels))
        order = np.argsort(person, kind="stable")
        asked, first = np.unique(person[order], return_index=True)
        ends = np.append(first, len(items))
        for begin in range(0, len(asked), tables.people_at_once):
            block = asked[begin : begin + tables.people_at_once]
            place = order[ends[begin] : ends[begin + len(block)]]
            number = np.searchsorted(block, person[place])
            proba[place] = tables.probabilities(people.tables(block), number, items[place])
        return LevelDistribution(self.scale, proba)

    def _slow_distribution(
        self,
        conditioned: Iterable[ConditionedMachine],
        users: Codes,
        items: Codes,
        method: Method,
    ) -> RatingDistribution:
        """Machine by machine, for any kind of machine and method."""
        return mixture(
            [
                predicted_distribution(one, self.scale, self.standardiser, users, items, method)
                for one in conditioned
            ]
        )

    def _one_by_one(
        self, people: People, person: Codes, items: Codes, method: Method
    ) -> RatingDistribution:
        """Person by person, where each has machines of their own."""
        if not len(person):
            return self._slow_distribution(self.conditioned, person, items, method)
        order = np.argsort(person, kind="stable")
        asked, first = np.unique(person[order], return_index=True)
        parts = []
        for one, place in zip(asked, np.split(order, first[1:]), strict=True):
            conditioned, code = people.conditioned(int(one))
            codes = np.full(len(place), code, np.int32)
            parts.append(self._slow_distribution(conditioned, codes, items[place], method))
        return reordered(parts, np.argsort(order))

    @cached_property
    def level_shares(self) -> NDArray[np.float64]:
        """The share of each level among the ratings learnt from."""
        return np.exp(log_shares(self.level_counts.by_user.sum(axis=0)))

    @cached_property
    def level_counts(self) -> LevelCounts:
        """How often each user gave, and each item was given, each level."""
        n = len(self.machines[0].level_bias)
        return LevelCounts(*(level_counts(rows, n) for rows in self.ratings))

    def count_levels_from(
        self, before: FittedModel, user: Codes, item: Codes, level: Array, times: int
    ) -> None:
        """`level_counts` of a model with (1) or without (-1) these ratings, from one before."""
        tables = zip(before.level_counts, self.ratings, strict=True)
        found = LevelCounts(*(_with_rows(table, rows) for table, rows in tables))
        for table, code in zip(found, (user, item), strict=True):
            read = np.minimum(level, table.shape[1] - 1)  # Gaussian machines have one level
            np.add.at(table, (code, read), times)
        self.level_counts = found

    def given_row(self, given: Mapping[Any, Any], user: int = -1) -> CSR:
        """Ratings {item: rating} on their scale as one row; those of a user besides, if known."""
        items = self.given_codes(given)
        level, value = np.zeros(0, np.uint8), np.zeros(0, np.float32)
        if len(items):
            level, value = levels_and_values(list(given.values()), self.scale, item=list(given))
        if user >= 0:
            had = self.given.by_user.rows_of(np.array([user]))
            kept = ~np.isin(had.column, items)
            items = np.concatenate([items, had.column[kept]])
            level = np.concatenate([level, had.level[kept]])
            value = np.concatenate([value, had.value[kept]]) if had.value.size else value
        order = np.argsort(items)
        return CSR(
            start=np.array([0, len(items)], np.int64),
            column=items[order].astype(np.int32),
            level=level[order],
            value=value[order] if len(value) else value,
            in_transpose=np.zeros(0, np.int32),
        )


def _with_rows(table: Array, rows: CSR) -> Array:
    """A copy with as many rows; further ones are zero."""
    return np.concatenate(
        [table, np.zeros((rows.n_rows - len(table), table.shape[1]), table.dtype)]
    )


def strangers_apart(codes: Codes, ids: Iterable[Any]) -> Codes:
    """Codes in which each unknown id has a number of its own: -1, -2, …."""
    unknown = np.flatnonzero(codes < 0)
    values = list(ids)
    _, number = IdMap.of([values[place] for place in unknown])
    codes[unknown] = -1 - number
    return codes
