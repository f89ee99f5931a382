"""An ensemble at workers: each has some of the machines, and all of the ratings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ordbm.data.csr import CSRPair
from ordbm.engines.interface import LostError, WorkerEngine
from ordbm.engines.shared_memory import as_own
from ordbm.errors import EngineError
from ordbm.model.feature_effects import Told
from ordbm.model.learners import Learner
from ordbm.model.machine import Machine, Parameters, Side
from ordbm.model.neighbours import Links, no_links
from ordbm.model.rules import FeatureRules
from ordbm.priors.resolved import ResolvedPriors
from ordbm.runtime.arrays import Array
from ordbm.runtime.kernel_cache import sources_digest
from ordbm.runtime.scratch import IN_MEMORY, Scratch
from ordbm.runtime.threads import share, thread_count
from ordbm.training.crew import Crew
from ordbm.training.ensemble import Ensemble
from ordbm.training.loop import Learning


class Shared(NamedTuple):
    """What all machines of an ensemble learn from, in the memory that workers share."""

    ratings: CSRPair
    links: tuple[Links, Links]
    priors: ResolvedPriors
    told: Told


class GroupEpoch(NamedTuple):
    """Of an epoch of some machines."""

    objective: Array
    has_diverged: bool


class MemberGroup:
    """A worker: some machines of an ensemble."""

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

    Parameters of `machines` are what they were at the last `collect`.
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
        n_workers, threads = crew_size(engine, len(machines), threads)
        parts = [share(len(machines), number, n_workers) for number in range(n_workers)]
        links = _links_of(machines[0])
        shared = engine.put(Shared(ratings, links, priors, told))
        self.crew = Crew(
            engine,
            MemberGroup,
            threads,
            [
                (
                    sources_digest(), shared, engine.put([*map(_alone, machines[first:end])]),
                    first, learner, seed, feature_rules, threads,
                )
                for first, end in parts
            ],
        )  # fmt: skip
        self._engine, self._parts, self._has_diverged = engine, parts, False
        found = [bias for part in self.crew.ask("unknown_biases") for bias in part]
        for bias, theirs in zip(_unknown_biases(machines), found, strict=True):
            bias[...] = theirs

    def epoch(self, number: int, tell: Callable[[float], object] | None = None) -> float:
        """An epoch of every machine; their mean objective per rating."""
        learnt = self.crew.learn(number, self._shares_told(tell))
        if tell is not None:
            tell(1.0)
        self._has_diverged = any(one.has_diverged for one in learnt)
        return float(np.concatenate([one.objective for one in learnt]).mean())

    def collect(self) -> None:
        """Have the parameters here."""
        found = [array for part in self.crew.ask("arrays") for array in part]
        for array, learnt in zip(self.arrays(), found, strict=True):
            array[...] = learnt

    def arrays(self) -> list[Array]:
        """All parameters, as they were collected."""
        return [
            array
            for machine in self.machines
            for array in (
                machine.level_bias,
                *(one for side in machine.sides if side is not None for one in side.parameters),
            )
        ]

    @property
    def has_diverged(self) -> bool:
        return self._has_diverged

    def state(self) -> dict[str, Array]:
        """All that one epoch hands to the next, by name."""
        return {name: array for part in self.crew.ask("state") for name, array in part.items()}

    def restore(self, arrays: Mapping[str, Array], epochs: int) -> None:
        """Go on from what `state` gave after so many epochs."""
        states = [
            {
                name: array
                for name, array in arrays.items()
                if name.split(".")[0] in {str(number) for number in range(first, end)}
            }
            for first, end in self._parts
        ]
        self.crew.restore(states, epochs)

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
                sizes = [end - first for first, end in self._parts]
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
) -> Iterator[Learning]:
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


def crew_size(engine: WorkerEngine, members: int, threads: int | None) -> tuple[int, int]:
    """How many workers learn so many members, and the threads of each.

    As many workers as there is room for, at most one a member; then as many threads each as leave
    room for so many, at most `threads` of them.
    """
    n_workers = min(members, engine.places(1))
    if not n_workers:
        raise EngineError("the cluster has no processor: start nodes with at least one CPU")
    each = 1
    while (threads is None or each < threads) and engine.places(each + 1) >= n_workers:
        each += 1
    return n_workers, each


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
