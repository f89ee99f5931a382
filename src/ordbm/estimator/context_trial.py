"""Links between ratings of about one time, learnt from a trial machine's held-out ratings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ordbm.data.ratings import Ratings
from ordbm.data.split import hold_out
from ordbm.inference.context_forces import context_forces
from ordbm.inference.distributions import LevelDistribution
from ordbm.inference.people import Users
from ordbm.model.context_links import SCALES, SHRINKAGE, ContextLinks, level_basis
from ordbm.training.context_learning import HELD_OUT, TRIAL_RATINGS, context_weights


def learnt_context(trial: Any, ratings: Ratings, seed: int) -> ContextLinks:
    """What times are good for, by the ratings that `trial`, a model not yet fitted, has not seen.

    In those that a machine has learnt from, it has explained part of what hangs together.
    """
    learn, held_out = hold_out(_of_some_users(ratings, seed), HELD_OUT, seed)
    state = trial.fit(learn)._state
    scales = np.array(SCALES)
    users, items = held_out.user_codes, held_out.item_codes
    found = state.distribution(Users(state), users, items)
    assert isinstance(found, LevelDistribution)
    force = context_forces(state, Users(state), users, items, held_out.times, scales, SHRINKAGE)
    basis = level_basis(found.scale.values)
    weight = context_weights(found.proba, basis, force, held_out.levels)
    return ContextLinks(scales, SHRINKAGE, weight)


def _of_some_users(ratings: Ratings, seed: int) -> Ratings:
    """All ratings of users drawn until they have TRIAL_RATINGS."""
    order = np.random.default_rng((seed, 2)).permutation(ratings.n_users)
    before = np.cumsum(ratings.by_user.sizes_of(order)) - ratings.by_user.sizes_of(order)
    drawn = np.zeros(ratings.n_users, bool)
    drawn[order[before < TRIAL_RATINGS]] = True
    return ratings.select(drawn[ratings.user_codes])
