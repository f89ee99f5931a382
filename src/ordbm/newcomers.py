"""What learnt machines expect of somebody who was not there, seen in those who were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ordbm.habits import BiasPrior
from ordbm.inference.newcomer import CouplingPrior
from ordbm.learning.learners import Learner
from ordbm.learning.priors import couplings_by_trait, priors_of
from ordbm.machine import Array, Machine, Orientations
from ordbm.traits import newcomer_traits


class NewcomerPriors(NamedTuple):
    """Priors of the parameters that a user owns, which are those of the item side."""

    bias: BiasPrior
    precision: float  # of couplings
    read_by_item: Array  # (items, r), see `Traits`
    by_trait: Sequence[Array]  # each machine's users' couplings, by trait, (r, n, hidden units)

    @classmethod
    def of(
        cls, machines: Sequence[Machine], ratings: Orientations, learner: Learner, threads: int
    ) -> NewcomerPriors:
        """As `learner` had them; machines without an item side have nothing by traits."""
        one = machines[0]  # of which the user side would have traits made for nothing
        item_side = Machine(one.features, one.level_bias, None, one.item_side)
        bias, traits = priors_of(item_side, ratings, learner, threads)
        sides = [machine.item_side for machine in machines]
        n_hidden = 0 if sides[0] is None else sides[0].n_hidden
        by_trait = [
            np.zeros((traits.of_user.shape[1], 1, 0))
            if side is None
            else couplings_by_trait(side.parameters.coupling, traits.of_user, threads)
            for side in sides
        ]
        return cls(
            bias,
            learner.tightened(np.diff(ratings.by_user.start), n_hidden),
            traits.read_by_item,
            [table[..., :n_hidden] for table in by_trait],
        )

    def couplings(self, items: Array) -> list[CouplingPrior]:
        """The prior of each machine for somebody who rated these items."""
        own = newcomer_traits(self.read_by_item, items)
        means = [np.tensordot(own, table, 1) for table in self.by_trait]
        return [CouplingPrior(mean, self.precision) for mean in means]
