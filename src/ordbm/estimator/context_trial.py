"""Links between ratings of about one context, learnt from a trial machine's held-out ratings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ordbm.data.context_columns import context_places
from ordbm.data.ratings import Ratings
from ordbm.data.split import hold_out
from ordbm.inference.context_forces import context_forces
from ordbm.inference.distributions import LevelDistribution
from ordbm.inference.people import Users
from ordbm.model.context_links import ContextLinks, level_basis, links_to_learn
from ordbm.training.context_learning import HELD_OUT, TRIAL_RATINGS, context_weights


def learnt_context(trial: Any, ratings: Ratings, seed: int) -> ContextLinks:
    """What context is good for, by the ratings that `trial`, a model not yet fitted, has not seen.

    In those that a machine has learnt from, it has explained part of what hangs together.
    """
    learn, held_out = hold_out(of_some_users(ratings, seed), HELD_OUT, seed)
    state = trial.fit(learn)._state
    users, items = held_out.user_codes, held_out.item_codes
    found = state.distribution(Users(state), users, items)
    assert isinstance(found, LevelDistribution)
    links = links_to_learn(ratings.has_times, ratings.context)
    at = context_places(held_out.times, held_out.context.values, len(held_out))
    force = context_forces(state, Users(state), users, items, at, links)
    basis = level_basis(found.scale.values)
    weight = context_weights(found.proba, basis, force, held_out.levels)
    return replace(links, weight=weight)


def of_some_users(ratings: Ratings, seed: int) -> Ratings:
    """All ratings of users drawn until they have TRIAL_RATINGS."""
    order = np.random.default_rng((seed, 2)).permutation(ratings.n_users)
    before = np.cumsum(ratings.by_user.sizes_of(order)) - ratings.by_user.sizes_of(order)
    drawn = np.zeros(ratings.n_users, bool)
    drawn[order[before < TRIAL_RATINGS]] = True
    return ratings.select(drawn[ratings.user_codes])
