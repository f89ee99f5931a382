"""What is expected of somebody, or something, that was not learnt from.

A machine that has learnt from people with many ratings each says little of somebody who has none:
what it says then was never compared with a rating. So each rating is predicted as if its user had
no other, and what all users together are then found to be above what was expected,

    max over b, a of sum_{u,i} log P(r_ui | what others gave i; bias b of u, a added to u's inputs),

is expected of those who come later, from their first rating on; and the same of items, on the
transpose. Users count for the root of their ratings, since how much newcomers will rate nobody
can tell. Who has been learnt from is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ordbm.data.csr import CSRPair
from ordbm.model.machine import Machine
from ordbm.model.rules import FeatureRules
from ordbm.runtime.arrays import Array
from ordbm.training.feature_learning import EffectsLearning, some_of

# The feature is that of being new, which all have; see `FeatureRules`.
MOST_ROWS = 5_000
NEWCOMER_RULES = FeatureRules(most_ratings=20_000, rounds=1)


def learn_newcomers(machines: Sequence[Machine], ratings: CSRPair, threads: int) -> None:
    """Fills in what the machines expect of new users and items."""
    for kind, rows in enumerate(ratings):
        some, chosen = between(rows.start, NEWCOMER_RULES.most_ratings)
        everybody = np.ones((len(some), 1), np.float32)
        for machine in machines:
            columns, own = machine.sides[1 - kind], machine.sides[kind]
            one = np.zeros(1, np.int64)
            learning = EffectsLearning(
                machine, ratings, kind, everybody, one, None, NEWCOMER_RULES, threads,
                chosen=chosen, some=some, couplings=False,
            )  # fmt: skip
            learning.run()
            bias, _, hidden = learning.effects
            if columns is not None and columns.newcomer_bias is not None:
                columns.newcomer_bias[:] = bias[0]
                columns.unknown_bias[:] += bias[0]
            if own is not None and own.newcomer_input is not None:
                own.newcomer_input[: own.n_hidden] = hidden[0]


def between(start: Array, most: int) -> tuple[Array, Array]:
    """Some rows, and positions of about so many ratings in all, of each in proportion to the root.

    A position may come again. Halfway from a typical row to a typical rating's, as
    `count_potentials` has the unknown.
    """
    size = np.diff(start)
    rows = some_of(np.flatnonzero(size), MOST_ROWS)
    weight = np.sqrt(size[rows])
    wanted = min(most, int(start[-1]))
    count = np.ceil(weight * wanted / max(weight.sum(), 1)).astype(np.int64)
    row = np.repeat(rows, count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return rows, start[row] + (2 * place + 1) * size[row] // (2 * np.repeat(count, count))
