"""Machines side by side: what items and people bring to a pair, as tables over all machines.

Items are prepared once, each when it is first asked about (`prepare`); people for each question.
Codes of -1 are the last row of a table: somebody or something unknown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from scipy.special import expit

from ordbm.data.csr import CSR, CSRPair
from ordbm.inference.fold_in import (
    Evidence,
    KnownUsers,
    Own,
    OwnPrior,
    expected_of,
    fitted_own,
    own_of,
    same_ratings,
    side_of,
)
from ordbm.kernels import catalogue
from ordbm.kernels import ensemble as kernels
from ordbm.kernels.ensemble import ItemTables, LinkTables, PeopleTables, RatingsByPerson, ScoreRoom
from ordbm.kernels.structures import LANES, padded
from ordbm.model.machine import Machine
from ordbm.model.neighbours import no_links
from ordbm.model.side_scores import inputs_of_rows
from ordbm.priors.fold_in_priors import FoldInPriors
from ordbm.runtime.arrays import Array, Codes, Mask, Numbers
from ordbm.runtime.threads import run_on_threads, share

STEEPEST = 8.0  # the largest |W| of machines that are laid side by side; usual ones have two
CUT = 80.0  # |W| of somebody new beyond this is cut, so that e^W is a float32
WORK_TO_SHARE = 4_000_000  # hidden units times levels below which one thread is as quick as several
SCORES_AT_ONCE = 8_000_000  # numbers
PEOPLE_BYTES, MOST_PEOPLE = 4_000_000, 512  # whose tables are held at a time
FOLD_IN_PASSES = 50  # over the ratings, or so, that fitting what somebody owns takes
NO_VALUES = np.zeros(0)
IN_RANGE = 80.0  # logarithms of products that single precision has room for
TILE_NUMBERS, MOST_IN_TILE = 16_384, 256  # of items whose means are worked out at a time


class EnsembleTables:
    """Learnt machines of one shape, with levels and without links between users."""

    def __init__(self, machines: Sequence[Machine], ratings: CSRPair, threads: int) -> None:
        self.machines, self.ratings, self.threads = tuple(machines), ratings, threads
        self.n_items = ratings.by_item.n_rows
        one = self.machines[0]
        self.n_levels, self.dtype = len(one.level_bias), one.dtype
        self.n_user_hidden, self.n_item_hidden = (
            0 if side is None else padded(side.n_hidden) for side in one.sides
        )
        self._lock = threading.Lock()

    @staticmethod
    def serve(machines: Sequence[Machine]) -> bool:
        """Whether such machines can be laid side by side.

        Where couplings are steep, 1 - p and e^W - 1 are too coarse in single precision.
        """
        return all(
            not machine.features.is_gaussian
            and (machine.item_side is None or not machine.item_side.links.n_edges)
            and all(_is_gentle(side.parameters.coupling) for side in filter(None, machine.sides))
            for machine in machines
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(machines, levels)."""
        return len(self.machines), self.n_levels

    @property
    def people_at_once(self) -> int:
        """People whose tables are held at a time: as many as a cache has room for, or so."""
        each = len(self.machines) * self.n_levels * self.n_item_hidden * self.dtype.itemsize
        return max(1, min(MOST_PEOPLE, PEOPLE_BYTES // max(each, 1)))

    # -- items ------------------------------------------------------------------------------------

    @cached_property
    def _items(self) -> ItemTables:
        """Room for all items; the unknown one is filled in."""
        m, n = self.shape
        rows = self.n_items + 1
        tables = ItemTables(
            on=np.zeros((rows, m, self.n_item_hidden), self.dtype),
            growth=np.zeros((rows, m, n, self.n_user_hidden), self.dtype),
            reach=np.zeros((rows, m), self.dtype),
            bias=np.zeros((rows, m, n), self.dtype),
        )
        for number, machine in enumerate(self.machines):
            user_side, item_side = machine.sides
            tables.bias[:, number] = machine.level_bias
            if user_side is not None:
                tables.bias[-1, number] += user_side.unknown_bias
            if item_side is not None:
                tables.on[-1, number] = expit(item_side.unknown_hidden_bias)
        return tables

    @cached_property
    def _prepared(self) -> Mask:
        return np.zeros(self.n_items, bool)

    def items(self, asked: Codes | None = None) -> ItemTables:
        """The tables, in which these items (all if not said) are filled in."""
        with self._lock:
            tables = self._items
            if asked is None:
                asked = np.arange(self.n_items)
            new: Codes = asked[(asked >= 0) & ~self._prepared[asked]]
            if len(new):
                self._prepare(np.unique(new), tables)
                self._prepared[new] = True
        return tables

    def _prepare(self, new: Array, tables: ItemTables) -> None:
        work = len(new) * self.n_user_hidden * self.n_levels * len(self.machines)
        ratings = int(np.diff(self.ratings.by_item.start)[new].sum())
        work += ratings * self.n_item_hidden * len(self.machines)

        def prepare(number: int) -> None:
            user_side, item_side = self.machines[number].sides
            if user_side is not None:
                growth, reach = growth_and_reach(user_side.parameters.coupling[new])
                tables.growth[new, number], tables.reach[new, number] = growth, reach
                if user_side.parameters.rating_bias.size:
                    tables.bias[new, number] += user_side.parameters.rating_bias[new]
            if item_side is not None:
                inputs = inputs_of_rows(item_side, self.ratings.by_item, new)
                tables.on[new, number] = expit(inputs)

        self._each_machine(prepare, work)

    @cached_property
    def links(self) -> LinkTables:
        m, _ = self.shape
        sides = [machine.user_side for machine in self.machines]
        links = no_links(0) if sides[0] is None else sides[0].links
        pair = self.machines[0].features.pair.astype(self.dtype)
        weight = np.zeros((links.n_edges, m, len(pair)), self.dtype)
        for number, side in enumerate(sides):
            if side is not None and links.n_edges:
                weight[:, number] = side.parameters.link_weight
        return LinkTables(links.start, links.neighbour, links.edge, weight, pair)

    # -- people -----------------------------------------------------------------------------------

    def known_people(self, users: Codes) -> PeopleTables:
        """Users of these codes; -1 is somebody without ratings."""
        known = users >= 0
        rows = self.ratings.by_user.rows_of(users)
        on, coupling, reach, bias = self.room_for(len(users))
        self.fill_on(rows, users, on)
        for number, machine in enumerate(self.machines):
            side = machine.item_side
            if side is None:
                continue
            own = side.parameters
            np.take(own.coupling, users, axis=0, out=coupling[:, number], mode="wrap")
            if own.rating_bias.size:
                bias[:, number] = own.rating_bias[users]
            if not known.all():
                coupling[~known, number] = 0
                bias[~known, number] = side.unknown_bias
        growth, reach = growth_and_reach(coupling)
        rated = _rated(rows)
        return PeopleTables(on, growth, reach, bias, rated, rated, growth)

    def fold_in_people(
        self, rows: CSR, known: Codes, priors: FoldInPriors, users: KnownUsers
    ) -> PeopleTables:
        """People with these ratings, a row each: of `users` the `known` codes, or new ones (-1)."""
        before = self.known_people(known)
        on, growth, reach, bias = self.room_for(rows.n_rows)
        self.fill_on(rows, known, on)
        sides = [machine.item_side for machine in self.machines]
        if sides[0] is not None:
            own = self._fitted_own(rows, on, known, before, priors, users)
            for number, (people, trained) in enumerate(zip(own, sides, strict=True)):
                assert trained is not None
                side = side_of(people, trained)
                growth[:, number], reach[:, number] = growth_and_reach(side.parameters.coupling)
                if side.parameters.rating_bias.size:
                    bias[:, number] = side.parameters.rating_bias
        return PeopleTables(on, growth, reach, bias, _rated(rows), before.rated, before.growth)

    def _fitted_own(
        self,
        rows: CSR,
        on: Array,
        known: Codes,
        before: PeopleTables,
        priors: FoldInPriors,
        users: KnownUsers,
    ) -> list[list[Own]]:
        """What each person owns of each machine's item side."""
        evidence = self._evidence(_rated(rows), on, before)
        had = self.ratings.by_user.rows_of(known)
        people = range(len(known))
        same = [
            known[person] >= 0
            and same_ratings(*(part.rows_of(np.array([person])) for part in (rows, had)))
            for person in people
        ]
        size = np.diff(rows.start).tolist()
        means = [priors.coupling_means(rows.columns_of(person)) for person in people]

        def own(person: int, number: int, prior: OwnPrior) -> Own:
            user, side = int(known[person]), self.machines[number].item_side
            assert side is not None
            if same[person]:
                return own_of(side, user)
            told = expected_of(
                prior, means[person][number], users, side, number, user, size[person]
            )
            return fitted_own(*told, evidence(person, number))

        found: list[list[Own]] = [[] for _ in self.machines]

        def fit(number: int) -> None:
            prior = OwnPrior.of(self.machines[number], priors.precision, priors.unit, priors.bias)
            found[number] = [own(person, number, prior) for person in people]

        work = len(rows.column) * self.n_levels * self.n_item_hidden * len(self.machines)
        self._each_machine(fit, work * FOLD_IN_PASSES)
        return found

    def _evidence(
        self, rated: RatingsByPerson, on: Array, before: PeopleTables
    ) -> Callable[[int, int], Evidence]:
        """A function of person and machine: what is known of the person's ratings."""
        _, growth, reach, bias = self.room_for(len(on))
        nothing = RatingsByPerson(np.zeros_like(rated.start), rated.column[:0], rated.level[:0])
        people = PeopleTables(on, growth, reach, bias, rated, nothing, growth)
        person = np.repeat(np.arange(len(on)), np.diff(rated.start))
        rest = self.level_scores(people, person, rated.column)
        item_on = self.items(rated.column).on
        held = before.rated

        def of(one: int, number: int) -> Evidence:
            mine = slice(rated.start[one], rated.start[one + 1])
            theirs = slice(held.start[one], held.start[one + 1])
            column = rated.column[mine]
            share = item_on[column, number].astype(np.float64)
            _, place, at = np.intersect1d(column, held.column[theirs], return_indices=True)
            if len(place):
                grown = 1.0 + before.growth[one, number][held.level[theirs][at]]
                share[place] /= share[place] + (1.0 - share[place]) * grown
            side = self.machines[number].item_side
            assert side is not None
            hidden = share[:, : side.n_hidden]
            return Evidence(rated.level[mine], NO_VALUES, rest[mine, number], hidden)

        return of

    def room_for(self, n_people: int) -> tuple[Array, Array, Array, Array]:
        """Empty tables of so many people: on, growth, reach and bias."""
        m, n = self.shape
        return (
            np.zeros((n_people, m, self.n_user_hidden), self.dtype),
            np.zeros((n_people, m, n, self.n_item_hidden), self.dtype),
            np.zeros((n_people, m), self.dtype),
            np.zeros((n_people, m, n), self.dtype),
        )

    def fill_on(self, rows: CSR, users: Codes, on: Array) -> None:
        """P(h = 1 | ratings) of the user side for each row, of `users`, into on (rows, M, d)."""
        listed, count = np.arange(rows.n_rows), np.diff(rows.start)

        def fill(number: int) -> None:
            side = self.machines[number].user_side
            if side is not None:
                on[:, number] = expit(inputs_of_rows(side.of_rows(users, count), rows, listed))

        self._each_machine(fill, len(rows.column) * self.n_user_hidden * len(self.machines))

    # -- pairs ------------------------------------------------------------------------------------

    def level_scores(self, people: PeopleTables, person: Codes, item: Codes) -> Array:
        """Potential of each level of each pair by each machine, (pairs, M, n), and constants."""
        m, n = self.shape
        order = None
        if len(person) > 1 and (person[1:] < person[:-1]).any():
            order = np.argsort(person, kind="stable")
            person, item = person[order], item[order]
        tables, links = self.items(item), self.links
        person, item = (np.ascontiguousarray(codes, np.int64) for codes in (person, item))
        out = np.empty((len(item), m, n), self.dtype)
        units = self.n_user_hidden + self.n_item_hidden
        threads = self._threads_for(len(item) * m * n * units)

        def work(thread: int) -> None:
            begin, end = share(len(item), thread, threads)
            room = self._score_room(links)
            kernels.level_scores(begin, end, person, item, people, tables, links, room, out)

        run_on_threads(threads, work)
        if order is None:
            return out
        found = np.empty_like(out)
        found[order] = out
        return found

    def probabilities(self, people: PeopleTables, person: Codes, item: Codes) -> Numbers:
        """P(level) of each pair, the mean over machines, (pairs, n)."""
        m, n = self.shape
        out = np.empty((len(item), n))
        size = max(1, SCORES_AT_ONCE // (m * n))
        for first in range(0, len(item), size):
            part = slice(first, first + size)
            scores = self.level_scores(people, person[part], item[part])
            kernels.mean_probabilities(0, len(scores), scores, out[part])
        return out

    def expected_at_most(self, people: PeopleTables, values: Numbers) -> Array:
        """What the mean over levels of these values is at most, (people, items), without links.

        It is what all factors give, and what single precision may have taken off. Of items that
        somebody rated, and where it does not tell, it is infinite.
        """
        tables = self.items()
        m, n = self.shape
        low, high = float(values.min()), float(values.max())
        reward = np.asarray((values - low) / ((high - low) or 1.0), self.dtype)
        out = np.empty((len(people.on), self.n_items), self.dtype)
        units = self.n_user_hidden + self.n_item_hidden
        size = int(np.clip(TILE_NUMBERS // max(n * self.n_user_hidden, 1), LANES, MOST_IN_TILE))
        threads = min(self._threads_for(out.size * m * n * units), len(out))

        def work(thread: int) -> None:
            room = catalogue.ItemRoom(
                *(
                    np.empty((*shape, size), self.dtype)
                    for shape in ((self.n_item_hidden,), (n, self.n_user_hidden), (n,), (), (), ())
                )
            )
            begin, end = share(len(out), thread, threads)
            catalogue.mean_ratings(begin, end, people, tables, reward, room, out)

        run_on_threads(max(threads, 1), work)
        # Of factors and logarithms, in this form and the exact one: errors add up along units.
        slack = units * 32 * float(np.finfo(self.dtype).eps)
        far = people.reach.max(axis=1) + np.abs(people.bias).max(axis=(1, 2))
        far += self._farthest
        bound: Array = low + (high - low) * (out + slack).astype(np.float64)
        bound[far >= IN_RANGE] = np.inf
        for person in np.flatnonzero(np.diff(people.held.start)):
            held = slice(people.held.start[person], people.held.start[person + 1])
            bound[person, people.held.column[held]] = np.inf
        return bound

    @cached_property
    def _farthest(self) -> float:
        """How far items may move the logarithm of a product of all factors."""
        tables = self.items()
        return float(tables.reach.max() + np.abs(tables.bias).max())

    def _score_room(self, links: LinkTables) -> ScoreRoom:
        m, n = self.shape
        return ScoreRoom(
            np.empty(self.n_user_hidden, self.dtype),
            np.empty(self.n_item_hidden, self.dtype),
            np.empty((m, len(links.pair), n), self.dtype),
            np.full(self.n_items if links.neighbour.size else 0, -1, np.int64),
            np.empty(int(np.diff(links.start).max(initial=0)) + 1, np.int64),
        )

    def _threads_for(self, work: int) -> int:
        return max(1, min(self.threads, work // WORK_TO_SHARE))

    def _each_machine(self, task: Callable[[int], None], work: int) -> None:
        """task(number) for every machine, on several threads where there is work enough."""
        threads = min(self._threads_for(work), len(self.machines))

        def part(thread: int) -> None:
            for number in range(*share(len(self.machines), thread, threads)):
                task(number)

        run_on_threads(threads, part)


def _rated(rows: CSR) -> RatingsByPerson:
    return RatingsByPerson(rows.start, np.asarray(rows.column, np.int32), rows.level)


def _is_gentle(coupling: Array) -> bool:
    return bool(max(coupling.max(initial=0), -coupling.min(initial=0)) <= STEEPEST)


def growth_and_reach(coupling: Array) -> tuple[Array, Array]:
    """e^W - 1 of columns (..., n, d), and sum_k max_s |W[s, k]| of each, (...)."""
    largest = np.maximum(coupling.max(axis=-2, initial=0), -coupling.min(axis=-2, initial=0))
    growth = np.exp(np.clip(coupling, -CUT, CUT))
    growth -= 1
    return growth, largest.sum(axis=-1)
