"""The potential of the levels, which all share, as ratings come and go.

With n_s ratings of level s before, m_s of it that came and e_s expected by the machine as it was,
m_s - e_s over about the information n_s + e_s on the potential is Newton's step; taken as

    b'_s = b_s + log((n_s + 1/2 + m_s) / (n_s + 1/2 + e_s)),

it also holds for levels that nobody gave before. A Gaussian machine's b is a mean, and moves by the
sum of the residuals over the number of ratings. What leaves takes the same step back: b is found
from b' as a step along the scale is (`column_steps.before_step`).
"""

from __future__ import annotations

import numpy as np

from ordbm.data.csr import CSRPair
from ordbm.inference.conditioned import ConditionedMachine, softmax
from ordbm.model.machine import Machine
from ordbm.runtime.arrays import Array, Codes, Numbers
from ordbm.updates.column_steps import before_step
from ordbm.updates.merging import RatedPairs

HALF = 0.5  # a rating, as if each level had been given


def scores_of(machine: Machine, ratings: CSRPair, rated: RatedPairs) -> Numbers:
    """What a machine that has these `ratings` says of others, (m, n); who is not in them is new."""
    user, item = (
        np.where(codes < rows.n_rows, codes, -1).astype(np.int32)
        for codes, rows in zip((rated.user, rated.item), ratings, strict=True)
    )
    asked: tuple[Codes, Codes] = (user, item)
    scores = ConditionedMachine(machine, ratings, 1, asked).pair_scores(*asked)
    return scores.astype(np.float64)


def moved_levels(
    bias: Array, scores: Numbers, level: Array, value: Array, had: Array, *, back: bool
) -> Numbers:
    """b' of b, or with `back` b of b'.

    `scores` (m, n) are with `bias`, and without these ratings of a `level` or, of a Gaussian
    machine, a `value`; `had` (n,) is how often each level was given without them.
    """
    given = np.bincount(level, minlength=len(bias))

    def step(own: Numbers) -> Numbers:
        at = scores + (own - bias)
        if len(value):
            found: Numbers = (value[:, None] - at).sum(axis=0)[None] / (had + len(value))
        else:
            expected = softmax(at).sum(axis=0)
            found = np.log((had + HALF + given) / (had + HALF + expected))[None]
        return found

    own = bias.astype(np.float64)[None]
    return (before_step(own, step) if back else own + step(own))[0]
