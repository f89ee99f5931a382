"""Users near somebody who gave ratings: anybody new, or a user who says more."""

from __future__ import annotations

import numpy as np

from ordbm.errors import RatingsError
from ordbm.explain.similarity import Similar, centred_space, hidden_space
from ordbm.inference.fitted import FittedModel
from ordbm.inference.people import FoldIns
from ordbm.inference.top_n import top_columns
from ordbm.runtime.checks import check_count


def nearest_users(state: FittedModel, people: FoldIns, person: int, n: int) -> list[Similar]:
    """The n users whose place in hidden space has the largest cosine with the person's.

    Both are seen from the middle of all users. A user who says more is not listed.
    """
    check_count("n", n)
    if not people.n_rated(np.array([person]))[0]:
        raise RatingsError("nobody is near somebody without ratings: give ratings={item: rating}")
    rated = state.rated_users
    space = state.kept("user space", lambda: centred_space(state, "user", rated))
    middle = state.kept(
        "user middle", lambda: hidden_space(state.conditioned, "user")[rated].mean(axis=0)
    )
    conditioned, code = people.conditioned(person)
    place = hidden_space(conditioned, "user")[code] - middle
    cosine = space @ (place / max(float(np.linalg.norm(place)), 1e-300)).astype(np.float32)
    cosine[~rated] = -np.inf
    user = int(people.users[person])
    if user >= 0:
        cosine[user] = -np.inf
    best = top_columns(cosine[None], min(n, int(np.isfinite(cosine).sum())))[0]
    return [Similar(state.users[one], min(1.0, float(cosine[one]))) for one in best.tolist()]
