"""What learnt machines expect of somebody who was not there, seen in those who were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ordbm.data.csr import CSRPair
from ordbm.model.learners import Priors
from ordbm.model.machine import Machine
from ordbm.priors.co_occurrence import fold_in_embedding
from ordbm.priors.counts import count_adaptive_precision
from ordbm.priors.resolved import couplings_by_direction, priors_of
from ordbm.priors.response_styles import BiasPrior
from ordbm.runtime.arrays import Array


class FoldInPriors(NamedTuple):
    """Priors of the parameters that a user owns, which are those of the item side."""

    bias: BiasPrior
    precision: float  # of couplings
    read_by_item: Array  # (items, r), see `CoOccurrence`
    by_direction: Sequence[Array]  # each machine's users' couplings, by trait, (r, n, hidden units)

    @classmethod
    def of(
        cls, machines: Sequence[Machine], ratings: CSRPair, priors: Priors, threads: int
    ) -> FoldInPriors:
        """As learning had them; machines without an item side have nothing by traits."""
        one = machines[0]  # of which the user side would have traits made for nothing
        item_side = Machine(one.features, one.level_bias, None, one.item_side)
        bias, co_occurrence = priors_of(item_side, ratings, priors, threads)
        sides = [machine.item_side for machine in machines]
        n_hidden = 0 if sides[0] is None else sides[0].n_hidden
        by_direction = [
            np.zeros((co_occurrence.of_user.shape[1], 1, 0))
            if side is None
            else couplings_by_direction(side.parameters.coupling, co_occurrence.of_user, threads)
            for side in sides
        ]
        return cls(
            bias,
            count_adaptive_precision(priors, np.diff(ratings.by_user.start), n_hidden),
            co_occurrence.read_by_item,
            [table[..., :n_hidden] for table in by_direction],
        )

    def couplings(self, items: Array) -> list[CouplingPrior]:
        """The prior of each machine for somebody who rated these items."""
        own = fold_in_embedding(self.read_by_item, items)
        means = [np.tensordot(own, table, 1) for table in self.by_direction]
        return [CouplingPrior(mean, self.precision) for mean in means]


class CouplingPrior(NamedTuple):
    """Normal in feature space."""

    mean: Array  # (n, hidden units) in level space
    precision: float
