"""Several machines learnt side by side, to be averaged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ordbm.data.csr import CSRPair
from ordbm.model.initialisation import member_seed
from ordbm.model.learners import Learner
from ordbm.model.machine import Machine
from ordbm.priors.resolved import ResolvedPriors, priors_of
from ordbm.runtime.arrays import Array
from ordbm.runtime.threads import run_on_threads
from ordbm.training.alternation import Trainer


class Ensemble:
    """New machines that learn from the same ratings, each by a seed of its own, an epoch at a time.

    As many as there are threads learn at once: apart they never wait for each other.
    """

    def __init__(
        self,
        machines: Sequence[Machine],
        ratings: CSRPair,
        learner: Learner,
        seed: int = 0,
        threads: int = 1,
        priors: ResolvedPriors | None = None,
    ) -> None:
        self.teams = min(threads, len(machines))
        priors = priors or priors_of(machines[0], ratings, learner.priors, threads)
        self.trainers = [
            Trainer(
                machine,
                ratings,
                learner,
                member_seed(seed, number),
                threads // self.teams,
                is_new=True,
                priors=priors,
            )
            for number, machine in enumerate(machines)
        ]

    def epoch(self, number: int, tell: Callable[[float], object] | None = None) -> float:
        """An epoch of every machine; their mean objective per rating.

        `tell` is given the share of it all that is done, now and then.
        """
        objective = np.zeros(len(self.trainers))
        waiting = iter(range(len(self.trainers)))
        done = np.zeros(len(self.trainers))
        lock = threading.Lock()
        stopped = threading.Event()

        def told(member: int, share: float) -> None:
            if stopped.is_set():
                raise KeyboardInterrupt
            if tell is not None:
                with lock:
                    done[member] = share
                    tell(float(done.mean()))

        def work(_: int) -> None:
            while (member := next(waiting, None)) is not None:
                objective[member] = self.trainers[member].epoch(number, partial(told, member))

        run_on_threads(self.teams, work, stop=stopped.set)
        return float(objective.mean())

    def arrays(self) -> list[Array]:
        """All parameters being learnt."""
        return [array for trainer in self.trainers for array in trainer.arrays()]

    def state(self) -> dict[str, Array]:
        """All that one epoch hands to the next, by name."""
        return {
            f"{number}.{name}": array
            for number, trainer in enumerate(self.trainers)
            for name, array in trainer.state().items()
        }
