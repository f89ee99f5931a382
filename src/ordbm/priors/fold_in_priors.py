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
from ordbm.priors.resolved import (
    ResolvedPriors,
    couplings_by_direction,
    feature_unit,
    priors_of,
)
from ordbm.priors.response_styles import BiasPrior
from ordbm.runtime.arrays import Array


class FoldInPriors(NamedTuple):
    """Priors of what a column of a side owns: users own those of the item side."""

    bias: BiasPrior
    precision: float  # of couplings
    unit: float  # of couplings' features: their table is multiplied by it
    read_by_row: Array  # (rows, r), see `CoOccurrence.read_by_item`
    by_direction: Sequence[Array]  # of each machine's couplings, (r, n, hidden units)

    @classmethod
    def of(
        cls,
        machines: Sequence[Machine],
        ratings: CSRPair,
        priors: Priors,
        threads: int,
        resolved: ResolvedPriors | None = None,
    ) -> FoldInPriors:
        """Those of learnt machines; `resolved` is what `priors_of` gives, if it is known already.

        Machines without an item side have nothing by direction.
        """
        one = machines[0]
        if resolved is None:  # the user side would have directions made for nothing
            item_side = Machine(one.features, one.level_bias, None, one.item_side)
            resolved = priors_of(item_side, ratings, priors, threads)
        bias, co_occurrence = resolved
        sides = [machine.item_side for machine in machines]
        n_hidden = 0 if sides[0] is None else sides[0].n_hidden
        by_direction = [
            np.zeros((co_occurrence.of_user.shape[1], len(one.level_bias), 0))
            if side is None
            else couplings_by_direction(side.parameters.coupling, co_occurrence.of_user, threads)
            for side in sides
        ]
        return cls(
            bias,
            count_adaptive_precision(
                priors, np.diff(ratings.by_user.start), n_hidden, one.features.tightness(n_hidden)
            ),
            feature_unit(one.features.of_group, priors),
            co_occurrence.read_by_item,
            [np.ascontiguousarray(table[..., :n_hidden]) for table in by_direction],
        )

    def coupling_means(self, rows: Array) -> list[Array]:
        """Where each machine expects couplings, (n, hidden units), of who rated these items."""
        own = fold_in_embedding(self.read_by_row, rows)
        return [np.tensordot(own, table, 1) for table in self.by_direction]
