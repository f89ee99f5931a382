"""People as a question has them: users of the model, and those who say something new.

`person` numbers them: the codes of users, or 0, 1, … of fold-in people. All else — distributions,
lists, explanations — asks these few methods, so that every verb serves everybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ordbm.data.csr import CSR, stacked
from ordbm.data.lookup import Ids, listed_ids, several
from ordbm.data.standardiser import OwnUnits, standardised
from ordbm.errors import SettingsError
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.inference.fold_in import OwnPrior, expected_of, fold_in_machine, together, user_part
from ordbm.kernels.ensemble import PeopleTables, RatingsByPerson
from ordbm.model.presence import ConditionedPresence, fold_in_presence
from ordbm.runtime.arrays import Codes, Mask, Numbers

if TYPE_CHECKING:
    from ordbm.inference.ensemble_tables import EnsembleTables
    from ordbm.inference.fitted import FittedModel


class People(Protocol):
    """What is known of some people."""

    @property
    def given(self) -> CSR:
        """Their ratings on the scale, a row each."""

    @property
    def given_places(self) -> Numbers:
        """The time and other context of each, (N, P); NaN is that of the question."""

    @property
    def presence(self) -> ConditionedPresence | None:
        """What is known of which items they rate; None if it was not learnt."""

    @property
    def user_parts(self) -> tuple[ConditionedMachine, ...]:
        """Each machine, of whose user side these people's ratings are the rows."""

    def own_units(self, person: Codes) -> OwnUnits:
        """In which each of these gives Gaussian ratings."""

    def n_rated(self, person: Codes) -> Codes:
        """How many items each of these has rated."""

    def are_strangers(self, person: Codes) -> Mask:
        """Of whom of these nothing is known."""

    def tables(self, person: Codes) -> PeopleTables:
        """Some of them, as all machines see them at once."""

    def conditioned(self, person: int) -> tuple[tuple[ConditionedMachine, ...], int]:
        """Each machine with one person's ratings, and the person's code there."""


class Users:
    """Those whom the machines were learnt from; -1 is somebody of whom nothing is known."""

    def __init__(self, state: FittedModel, tables: EnsembleTables | None = None) -> None:
        self._state, self._tables = state, tables

    @property
    def given(self) -> CSR:
        return self._state.given.by_user

    @property
    def given_places(self) -> Numbers:
        return self._state.places

    @property
    def presence(self) -> ConditionedPresence | None:
        return self._state.conditioned_presence

    @property
    def user_parts(self) -> tuple[ConditionedMachine, ...]:
        return self._state.conditioned

    def own_units(self, person: Codes) -> OwnUnits:
        return self._state.own_units.of(person)

    def n_rated(self, person: Codes) -> Codes:
        return np.where(person >= 0, self.given.sizes_of(np.maximum(person, 0)), 0)

    def are_strangers(self, person: Codes) -> Mask:
        return person < 0

    def tables(self, person: Codes) -> PeopleTables:
        return (self._tables or self._state.tables).known_people(person)

    def conditioned(self, person: int) -> tuple[tuple[ConditionedMachine, ...], int]:
        return self._state.conditioned, person


class FoldIns:
    """People who gave ratings: somebody new (user -1), or a user with more or other ratings."""

    def __init__(
        self, state: FittedModel, users: Codes, given: Sequence[Mapping[Any, Any]]
    ) -> None:
        self._state, self.users = state, users
        rows = [state.given_row(ratings, user) for user, ratings in zip(users, given, strict=True)]
        self.given = stacked(rows)
        self._rows = self.given
        if state.standardiser is not None:
            self._rows = standardised(self.given, state.scale, state.standardiser)
        self._said = [state.given_codes(ratings) for ratings in given]

    @cached_property
    def given_places(self) -> Numbers:
        places = np.full((len(self.given.column), self._state.places.shape[1]), np.nan)
        for person, (user, said) in enumerate(zip(self.users.tolist(), self._said, strict=True)):
            if user < 0:
                continue
            mine = slice(self.given.start[person], self.given.start[person + 1])
            had = self._state.given.by_user.start[user : user + 2]
            column = self._state.given.by_user.column[slice(*had)]
            kept = ~np.isin(self.given.column[mine], said)
            places[mine][kept] = self._state.places[slice(*had)][~np.isin(column, said)]
        return places

    @cached_property
    def presence(self) -> ConditionedPresence | None:
        if self._state.conditioned_presence is None:
            return None
        return fold_in_presence(self._state.conditioned_presence, self.given, self.users)

    @cached_property
    def user_parts(self) -> tuple[ConditionedMachine, ...]:
        return tuple(user_part(one, self._rows, self.users) for one in self._state.conditioned)

    @cached_property
    def _all_tables(self) -> PeopleTables:
        priors = self._state.fold_in_priors
        assert priors is not None
        known = self._state.about_users
        return self._state.tables.fold_in_people(self._rows, self.users, priors, known)

    def own_units(self, person: Codes) -> OwnUnits:
        assert self._state.standardiser is not None
        return self._state.standardiser.of_users(self.given).of(person)

    def n_rated(self, person: Codes) -> Codes:
        return self.given.sizes_of(person)

    def are_strangers(self, person: Codes) -> Mask:
        return (self.n_rated(person) == 0) & (self.users[person] < 0)

    def tables(self, person: Codes) -> PeopleTables:
        everybody = self._all_tables
        if len(person) == len(self.users):
            return everybody
        rated, held = (_chosen(one, person) for one in (everybody.rated, everybody.held))
        return PeopleTables(
            everybody.on[person],
            everybody.growth[person],
            everybody.reach[person],
            everybody.bias[person],
            rated,
            held,
            everybody.held_growth[person],
        )

    @cached_property
    def _conditioned(self) -> dict[int, tuple[ConditionedMachine, ...]]:
        return {}

    def conditioned(self, person: int) -> tuple[tuple[ConditionedMachine, ...], int]:
        if person not in self._conditioned:
            state, priors = self._state, self._state.fold_in_priors
            assert priors is not None
            row, user = self._rows.rows_of(np.array([person])), int(self.users[person])
            means = priors.coupling_means(row.column)
            found: list[ConditionedMachine] = []
            for number, (one, mean) in enumerate(zip(state.conditioned, means, strict=True)):
                side = one.machine.item_side
                if side is None:
                    found.append(user_part(one, row, self.users[[person]]))
                    continue
                prior = OwnPrior.of(one.machine, priors.precision, priors.unit, priors.bias)
                n, users = len(row.column), state.about_users
                told = expected_of(prior, mean, users, side, number, user, n)
                found.append(fold_in_machine(one, row, *told, user))
            self._conditioned[person] = tuple(found)
        return self._conditioned[person], 0

    def together(self, person: Codes) -> tuple[tuple[ConditionedMachine, ...], Codes]:
        """Each machine with the ratings of all of these, and the code of each there."""
        asked, place = np.unique(person, return_inverse=True)
        machines = [self.conditioned(one)[0] for one in asked.tolist()]
        size = [people[0].ratings.by_user.n_rows for people in machines]
        code = np.cumsum([0, *size[:-1]])[place].astype(np.int32)
        found = tuple(
            together(one, people)
            for one, people in zip(
                self._state.conditioned, zip(*machines, strict=True), strict=True
            )
        )
        return found, code


def fold_ins_of(
    state: FittedModel, users: Ids, ratings: Mapping[Any, Any]
) -> tuple[FoldIns, Codes]:
    """People who gave `ratings`, and the number of each of `users` among them.

    {item: rating} is of one person: a user, or somebody new if `users` is None.
    {user: {item: rating}} is of several, of whom those without an entry say nothing new.
    """
    if not isinstance(ratings, Mapping):
        raise SettingsError(
            "ratings must be what somebody rated, {item: rating}, or what each of several did, "
            "{user: {item: rating}}"
        )
    if not are_of_several(ratings):
        if listed_ids(users) is not None:
            raise SettingsError(
                "ratings of one person with several users: say whose they are, "
                "ratings={user: {item: rating}}"
            )
        code: Codes = np.full(1, -1, np.int32)
        if users is not None:
            code = state.codes(several(users), state.users, state.modelled_users, may_be_new=True)
        return FoldIns(state, code, [state.learnt_ratings(ratings)]), np.zeros(1, np.int32)
    if users is None:
        raise SettingsError("say which users the pairs are of: users=[…]")
    asked = list(several(users))
    number: dict[Any, int] = {}
    person = np.array([number.setdefault(user, len(number)) for user in asked], np.int32)
    codes = state.codes(list(number), state.users, state.modelled_users, may_be_new=True)
    given = [state.learnt_ratings(ratings.get(user, {})) for user in number]
    return FoldIns(state, codes, given), person


def are_of_several(ratings: Any) -> bool:
    """Whether ratings are {user: {item: rating}}."""
    if not isinstance(ratings, Mapping) or not ratings:
        return False
    return all(isinstance(each, Mapping) for each in ratings.values())


def _chosen(rated: RatingsByPerson, person: Codes) -> RatingsByPerson:
    rows = CSR(*rated, value=np.zeros(0, np.float32), in_transpose=rated.column[:0])
    start, column, level, *_ = rows.rows_of(person)
    return RatingsByPerson(start, np.asarray(column, np.int32), level)
