"""Several machines learnt side by side, to be averaged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import gcd

import numpy as np

from ordbm.data.csr import CSRPair
from ordbm.model.feature_effects import Told
from ordbm.model.initialisation import member_seed
from ordbm.model.learners import Learner
from ordbm.model.machine import Machine
from ordbm.model.rules import FeatureRules
from ordbm.priors.resolved import ResolvedPriors, priors_of
from ordbm.runtime.arrays import Array
from ordbm.runtime.interruption import safe_point
from ordbm.runtime.scratch import IN_MEMORY, Scratch
from ordbm.runtime.threads import run_on_threads
from ordbm.training.alternation import Trainer
from ordbm.training.engine import LOCAL, Engine
from ordbm.training.shards import Shard
from ordbm.training.state import copy_arrays


class Ensemble:
    """New machines that learn from the same ratings, each by a seed of its own, an epoch at a time.

    As many as there are threads learn at once, each on one: apart they never wait for each other.
    Those left over after that share all threads out evenly, several at once where that goes. With
    `in_turn` one learns after the other, on all threads: each reads its ratings in an order of its
    own, and these need not all be in memory.
    """

    def __init__(
        self,
        machines: Sequence[Machine],
        ratings: CSRPair,
        learner: Learner,
        seed: int = 0,
        threads: int = 1,
        priors: ResolvedPriors | None = None,
        told: Told = (None, None),
        feature_rules: FeatureRules | None = None,
        scratch: Scratch = IN_MEMORY,
        *,
        first: int = 0,
        in_turn: bool = False,
        engine: Engine = LOCAL,
        shard: Shard | None = None,
    ) -> None:
        """`first` is the number of the first machine, where these are some of an ensemble's.

        `engine` and `shard` are those of `Trainer`.
        """
        self.threads, self.first = threads, first
        at_once = 1 if in_turn else threads
        # So many learn on one thread each, or else in so many teams.
        self.n_alone = 0 if in_turn else len(machines) - len(machines) % threads
        self.n_teams = gcd(at_once, len(machines) - self.n_alone)
        priors = priors or priors_of(machines[0], ratings, learner.priors, threads)
        self.trainers = [
            Trainer(
                machine,
                ratings,
                learner,
                member_seed(seed, first + number),
                1 if number < self.n_alone else threads // self.n_teams,
                is_new=True,
                priors=priors,
                told=told,
                feature_rules=feature_rules,
                scratch=scratch,
                engine=engine,
                shard=shard,
            )
            for number, machine in enumerate(machines)
        ]

    def epoch(self, number: int, tell: Callable[[float], object] | None = None) -> float:
        """An epoch of every machine; their mean objective per rating.

        `tell` is given the share of it all that is done, now and then.
        """
        self.objective = objective = np.zeros(len(self.trainers))  # of each, per rating
        done = np.zeros(len(self.trainers))
        lock = threading.Lock()

        def told(member: int, share: float) -> None:
            safe_point()
            if tell is not None:
                with lock:
                    done[member] = share
                    tell(float(done.mean()))

        def work(waiting: Iterator[int], _: int) -> None:
            while (member := next(waiting, None)) is not None:
                objective[member] = self.trainers[member].epoch(number, partial(told, member))

        for teams, members in (
            (self.threads, range(self.n_alone)),
            (self.n_teams, range(self.n_alone, len(self.trainers))),
        ):
            if members:
                run_on_threads(teams, partial(work, iter(members)))
        return float(objective.mean())

    def arrays(self) -> list[Array]:
        """All parameters being learnt."""
        return [array for trainer in self.trainers for array in trainer.arrays()]

    @property
    def centres(self) -> list[tuple[Array, Array]]:
        """What each machine has learnt that features say of the biases of users, and of items."""
        return [trainer.centres for trainer in self.trainers]

    @property
    def has_diverged(self) -> bool:
        """Whether parameters of one are no longer numbers that can be reckoned with."""
        return any(trainer.machine.has_diverged for trainer in self.trainers)

    def state(self) -> dict[str, Array]:
        """All that one epoch hands to the next, by name."""
        return {
            f"{number}.{name}": array
            for number, trainer in enumerate(self.trainers, self.first)
            for name, array in trainer.state().items()
        }

    def collect(self) -> None:
        """Parameters are here at any time."""

    def restore(self, arrays: Mapping[str, Array], epochs: int) -> None:  # noqa: ARG002
        """Go on from what `state` gave after so many epochs."""
        copy_arrays(arrays, self.state())
