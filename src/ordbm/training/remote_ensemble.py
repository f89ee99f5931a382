"""An ensemble at workers: each has some of the machines and all ratings, or some users of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ordbm.data.csr import CSRPair
from ordbm.engines.interface import LostError, Seat, WorkerEngine
from ordbm.engines.shared_memory import as_own
from ordbm.errors import EngineError
from ordbm.model.feature_effects import Told
from ordbm.model.learners import Learner, PseudoLikelihood
from ordbm.model.machine import Machine, Parameters, Side
from ordbm.model.neighbours import Links, no_links
from ordbm.model.rules import FeatureRules
from ordbm.priors.resolved import ResolvedPriors
from ordbm.runtime.arrays import Array
from ordbm.runtime.kernel_cache import sources_digest
from ordbm.runtime.scratch import IN_MEMORY, Scratch
from ordbm.runtime.threads import share, thread_count
from ordbm.training.alternation import potentials
from ordbm.training.crew import Crew
from ordbm.training.engine import LOCAL
from ordbm.training.ensemble import Ensemble
from ordbm.training.shards import Shard, SummedAtSeat, bounds_of_shards, machine_of, ratings_of


class Shared(NamedTuple):
    """What all machines of an ensemble learn from, in the memory that workers share."""

    ratings: CSRPair
    links: tuple[Links, Links]
    priors: ResolvedPriors
    told: Told
    shard: Shard | None  # whose ratings these are, if they are not all


class Place(NamedTuple):
    """What a worker has: machines first to end, and users first_user to last_user."""

    first: int
    end: int
    first_user: int
    last_user: int


class GroupEpoch(NamedTuple):
    """Of an epoch of some machines."""

    objective: Array
    has_diverged: bool


class MemberGroup:
    """A worker: some machines of an ensemble, or one with some of its users."""

    _ensemble: Ensemble
    _done = 0  # epochs
    _share = 0.0  # of the epoch under way

    def begin(
        self,
        digest: str,
        shared: Shared,
        machines: Sequence[Machine],
        first: int,
        learner: Learner,
        seed: int,
        rules: FeatureRules | None,
        threads: int,
        seat: Seat | None,
    ) -> None:
        """Make ready to learn; `first` is the number of the first machine in the ensemble."""
        if digest != self._digest():
            raise EngineError(
                "a worker has another version of ordbm than this process, and would learn another "
                "model: install the same on all nodes"
            )
        shared = as_own(shared)
        self._ensemble = Ensemble(
            [_own_machine(machine, shared.links) for machine in machines],
            shared.ratings, learner, seed, threads, shared.priors, shared.told, rules, first=first,
            engine=LOCAL if seat is None else SummedAtSeat(seat), shard=shared.shard,
        )  # fmt: skip

    def epochs_done(self) -> int:
        return self._done

    def epoch(self, number: int) -> GroupEpoch:
        if number != self._done:
            raise EngineError(f"a worker was to learn epoch {number} after {self._done}")
        self._share = 0.0
        self._ensemble.epoch(number, self._note)
        self._done += 1
        return GroupEpoch(self._ensemble.objective, self._ensemble.has_diverged)

    def share(self) -> float:
        """How much of the epoch under way is done."""
        return self._share

    def arrays(self) -> list[Array]:
        return self._ensemble.arrays()

    def centres(self) -> list[tuple[Array, Array]]:
        return self._ensemble.centres

    def unknown_biases(self) -> list[Array]:
        return _unknown_biases([trainer.machine for trainer in self._ensemble.trainers])

    def state(self) -> dict[str, Array]:
        return self._ensemble.state()

    def kept_state(self) -> tuple[dict[str, Array], int]:
        return self.state(), self._done

    def restore(self, arrays: Mapping[str, Array], epochs: int) -> None:
        self._ensemble.restore(arrays, epochs)
        self._done = epochs

    def _digest(self) -> str:
        return sources_digest()

    def _note(self, share: float) -> None:
        self._share = share


class RemoteEnsemble:
    """`Ensemble` with its machines at the workers of an engine; the same bits.

    Parameters of `machines` are what they were at the last `collect`. Where there is room for
    several workers a machine its users are shared out, if it can be: the same up to rounding.
    """

    def __init__(
        self,
        engine: WorkerEngine,
        machines: Sequence[Machine],
        ratings: CSRPair,
        learner: Learner,
        seed: int,
        threads: int | None,
        priors: ResolvedPriors,
        told: Told = (None, None),
        feature_rules: FeatureRules | None = None,
    ) -> None:
        self.machines = machines
        n_workers, threads, n_shards = crew_shape(
            engine, len(machines), threads, can_share=can_be_shared(machines[0], learner, told)
        )
        parts = [share(len(machines), number, n_workers) for number in range(n_workers)]
        users = bounds_of_shards(ratings, n_shards)
        self._places = [Place(*part, *of) for part in parts for of in users]
        links = _links_of(machines[0])
        by_count = potentials(machines[0], ratings, learner) if n_shards > 1 else None
        shared = [
            engine.put(_shared(ratings, links, priors, told, first, last, by_count))
            for first, last in users
        ]
        self.crew = Crew(
            engine,
            MemberGroup,
            threads,
            [
                (
                    sources_digest(), shared[number % n_shards],
                    engine.put([*map(_alone, self._machines_at(place))]), place.first, learner,
                    seed, feature_rules, threads,
                )
                for number, place in enumerate(self._places)
            ],
            n_shards,
        )  # fmt: skip
        self._engine, self._n_shards, self._has_diverged = engine, n_shards, False
        for place, found in zip(self._places, self.crew.ask("unknown_biases"), strict=True):
            for bias, theirs in zip(_unknown_biases(self._machines_at(place)), found, strict=True):
                bias[...] = theirs

    def epoch(self, number: int, tell: Callable[[float], object] | None = None) -> float:
        """An epoch of every machine; their mean objective per rating."""
        learnt = self.crew.learn(number, self._shares_told(tell))
        if tell is not None:
            tell(1.0)
        self._has_diverged = any(one.has_diverged for one in learnt)
        # Of each machine: what its shards add up to.
        groups = [learnt[n : n + self._n_shards] for n in range(0, len(learnt), self._n_shards)]
        objective = [sum(one.objective for one in group) for group in groups]
        return float(np.concatenate(objective).mean())

    def collect(self) -> None:
        """Have the parameters here."""
        for place, found in zip(self._places, self.crew.ask("arrays"), strict=True):
            for array, learnt in zip(_arrays_of(self._machines_at(place)), found, strict=True):
                array[...] = learnt

    @property
    def centres(self) -> list[tuple[Array, Array]]:
        """What each machine has learnt that features say of the biases of users, and of items."""
        return [one for part in self.crew.ask("centres") for one in part]

    def arrays(self) -> list[Array]:
        """All parameters, as they were collected."""
        return _arrays_of(self.machines)

    @property
    def has_diverged(self) -> bool:
        return self._has_diverged

    def state(self) -> dict[str, Array]:
        """All that one epoch hands to the next, by name."""
        found = zip(self._places, self.crew.ask("state"), strict=True)
        return {
            self._prefix(place) + name: array
            for place, state in found
            for name, array in state.items()
        }

    def restore(self, arrays: Mapping[str, Array], epochs: int) -> None:
        """Go on from what `state` gave after so many epochs."""
        states = []
        for place in self._places:
            own, prefix = {str(n) for n in range(place.first, place.end)}, self._prefix(place)
            names = [name for name in arrays if name.startswith(prefix)]
            here = {name.removeprefix(prefix): arrays[name] for name in names}
            states.append({n: array for n, array in here.items() if n.split(".")[0] in own})
        self.crew.restore(states, epochs)

    def _prefix(self, place: Place) -> str:
        """Of names in a state: each shard has its own."""
        return f"users {place.first_user}." if self._n_shards > 1 else ""

    def _machines_at(self, place: Place) -> list[Machine]:
        """Those of a worker, with what its users own: views of ours."""
        machines = self.machines[place.first : place.end]
        return [machine_of(one, place.first_user, place.last_user) for one in machines]

    def _shares_told(self, tell: Callable[[float], object] | None) -> Callable[[], object]:
        """A function that asks for the shares that are done, and tells their mean when known."""
        asked: list[Any] = []

        def ask() -> None:
            nonlocal asked
            if tell is None:
                return
            if not asked:
                asked = self.crew.peek("share")
            elif len(self._engine.wait(asked, 0)) == len(asked):
                sizes = [place.end - place.first for place in self._places]
                with suppress(LostError):  # who was asked is gone
                    shares = [self._engine.value(one) for one in asked]
                    tell(float(np.average(shares, weights=sizes)))
                asked = []

        return ask


@contextmanager
def ensemble_on(
    engine: WorkerEngine | None,
    machines: Sequence[Machine],
    ratings: CSRPair,
    learner: Learner,
    seed: int,
    threads: int | None,
    priors: ResolvedPriors,
    told: Told = (None, None),
    feature_rules: FeatureRules | None = None,
    scratch: Scratch = IN_MEMORY,
    *,
    in_turn: bool = False,
) -> Iterator[Ensemble | RemoteEnsemble]:
    """The machines as an ensemble that learns by an engine, or by threads of this process.

    `scratch` and `in_turn` are for the latter.
    """
    given = (machines, ratings, learner, seed)
    if engine is None:
        yield Ensemble(
            *given, thread_count(threads), priors, told, feature_rules, scratch, in_turn=in_turn
        )
        return
    remote = RemoteEnsemble(engine, *given, threads, priors, told, feature_rules)
    try:
        yield remote
    finally:
        remote.crew.dismiss()


def crew_shape(
    engine: WorkerEngine, members: int, threads: int | None, *, can_share: bool
) -> tuple[int, int, int]:
    """How many workers or teams learn so many members, the threads of each worker, and team sizes.

    As many as there is room for, at most one a member; then as many threads each as leave room for
    so many, at most `threads` of them; then as many workers a member as there is still room for.
    """
    n_workers = min(members, engine.places(1))
    if not n_workers:
        raise EngineError("the cluster has no processor: start nodes with at least one CPU")
    each = 1
    while (threads is None or each < threads) and engine.places(each + 1) >= n_workers:
        each += 1
    shared = can_share and n_workers == members
    return n_workers, each, max(1, engine.places(each) // members) if shared else 1


def can_be_shared(machine: Machine, learner: Learner, told: Told) -> bool:
    """Whether users may be shared out: levels, exact scores, no links between users or features."""
    return (
        isinstance(learner, PseudoLikelihood)
        and learner.other_side == "exact"
        and not machine.features.is_gaussian
        and (machine.item_side is None or not machine.item_side.links.n_edges)
        and told == (None, None)
    )


def _shared(
    ratings: CSRPair,
    links: tuple[Links, Links],
    priors: ResolvedPriors,
    told: Told,
    first: int,
    last: int,
    by_count: Any,
) -> Shared:
    """What workers with these users share; `by_count` is None if they are all."""
    if by_count is None:
        return Shared(ratings, links, priors, told, None)
    of_items, (potential, unknown) = by_count
    counts = np.diff(ratings.by_user.start), np.diff(ratings.by_item.start)
    traits = priors.co_occurrence
    own = traits._replace(of_user=traits.of_user[first:last])
    return Shared(
        ratings_of(ratings, first, last),
        (links[0], no_links(last - first)),
        priors._replace(co_occurrence=own),
        told,
        Shard(first, last, counts, (of_items, (potential[first:last], unknown))),
    )


def _arrays_of(machines: Sequence[Machine]) -> list[Array]:
    """All parameters being learnt."""
    return [
        array
        for machine in machines
        for array in (
            machine.level_bias,
            *(one for side in machine.sides if side is not None for one in side.parameters),
        )
    ]


def _unknown_biases(machines: Sequence[Machine]) -> list[Array]:
    """Of all sides; they are set when learning begins, and stay."""
    return [side.unknown_bias for one in machines for side in one.sides if side is not None]


def _links_of(machine: Machine) -> tuple[Links, Links]:
    """Those of both sides, which all machines of an ensemble share."""
    first, second = (no_links(0) if side is None else side.links for side in machine.sides)
    return first, second


def _alone(machine: Machine) -> Machine:
    """The machine without its links."""
    user_side, item_side = (
        None if side is None else replace(side, links=no_links(side.n_columns))
        for side in machine.sides
    )
    return replace(machine, user_side=user_side, item_side=item_side)


def _own_machine(machine: Machine, links: tuple[Links, Links]) -> Machine:
    """A copy of its own to change, with these links."""
    user_side, item_side = (
        None if side is None else _own_side(side, one)
        for side, one in zip(machine.sides, links, strict=True)
    )
    bias = machine.level_bias.copy()
    return replace(machine, level_bias=bias, user_side=user_side, item_side=item_side)


def _own_side(side: Side, links: Links) -> Side:
    row_input = None if side.row_input is None else side.row_input.copy()
    return replace(
        side,
        parameters=Parameters(*(array.copy() for array in side.parameters)),
        links=links,
        unknown_bias=side.unknown_bias.copy(),
        row_input=row_input,
    )
