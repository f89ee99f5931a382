"""The rankers of the ranking benchmark and their settings.

A setting that is a list has alternatives: all combinations are tried on the validation ratings, for
each measure by itself. "liked" rankers learn only from ratings of at least `least_share` of the way
up the scale (see `peers/rank_protocol.py`). What is not said is at the package's own default.
"""

from __future__ import annotations

from typing import Any

from models import OURS, Model

LIKED = {"least_share": 0.75}  # 4 of 1 to 5, as the scorer's relevant ratings


def ranker(script: str, environment: str, **settings: Any) -> Model:
    """A ranker of presence, taught by all ratings and by the liked ones alone."""
    return Model(script, environment, {"all": settings, "liked": settings | LIKED})


def implicit(algorithm: str, **settings: Any) -> Model:
    """A ranker of implicit."""
    return ranker("rank_implicit.py", "peers-rankers", algorithm=algorithm, **settings)


RANKERS: dict[str, Model] = {
    # One machine, learnt once for each split, listed by several scores.
    OURS: Model(
        "rank_ordbm.py",
        OURS,
        {
            "default": {},
            **{score: {"by": score} for score in ("rated", "mean", "energy")},
            "tuned": {"entropy": [0.0, 0.5, 1.0], "long_tail": [0.0, 0.1, 0.2]},
        },
    ),
    "popularity": ranker("rank_popularity.py", OURS),
    "item-knn-cosine": implicit("CosineRecommender", K=[10, 20, 50, 100, 200, 500]),
    "item-knn-bm25": implicit(
        "BM25Recommender", K=[10, 20, 50, 100, 200], K1=[0.1, 1.2, 100.0], B=[0.1, 0.3, 0.75]
    ),
    "als": implicit(
        "AlternatingLeastSquares",
        factors=[32, 64, 128, 256],
        regularization=[3.0, 10.0, 30.0, 100.0, 300.0],
        alpha=[1.0, 3.0, 10.0, 30.0],
    ),
    "ease": ranker("rank_ease.py", OURS, l2=[20, 50, 100, 200, 300, 500, 700, 1000, 2000]),
}
