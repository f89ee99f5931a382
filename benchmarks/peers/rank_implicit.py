"""implicit's rankers, by the names of their classes."""

from __future__ import annotations

from typing import Any

import implicit.als
import implicit.nearest_neighbours
import numpy as np
from rank_protocol import Rank, RatingsPart, by_score, presence, run
from threadpoolctl import threadpool_limits


def fit(ratings: RatingsPart, algorithm: str, **settings: Any) -> Rank:
    """A ranker of implicit with the given settings, the others at its defaults.

    Scored from its own arrays as its `recommend` does it, which can leave out only the items that
    it has learnt from.
    """
    rated = presence(ratings)
    if algorithm == "AlternatingLeastSquares":
        with threadpool_limits(1, "blas"):  # it has threads of its own, and asks for this
            model = implicit.als.AlternatingLeastSquares(random_state=0, **settings)
            model.fit(rated, show_progress=False)
        return by_score(lambda users: model.user_factors[users] @ model.item_factors.T)
    model = getattr(implicit.nearest_neighbours, algorithm)(**settings)
    model.fit(rated, show_progress=False)
    similarity = model.similarity.astype(np.float32)
    return by_score(lambda users: (rated[users] @ similarity).toarray())


if __name__ == "__main__":
    run(fit, ["implicit"])
