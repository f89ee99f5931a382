"""LensKit's rating predictors, in its own pipeline with its fallback to biases."""

from __future__ import annotations

from typing import Any

import lenskit
import numpy as np
import pandas as pd
from lenskit.als import BiasedMFScorer
from lenskit.data import ItemList, from_interactions_df
from lenskit.knn import ItemKNNScorer
from lenskit.pipeline import predict_pipeline
from protocol import Predict, RatingsPart, learning_begins, run

SCORERS = {"BiasedMF": BiasedMFScorer, "ItemKNN": ItemKNNScorer}


def fit(ratings: RatingsPart, scorer: str, **settings: Any) -> Predict:
    """A scorer of LensKit with the given settings, the others at its defaults."""
    frame = pd.DataFrame(
        {"user_id": ratings.user, "item_id": ratings.item, "rating": ratings.rating}
    )
    train = from_interactions_df(frame)
    learning_begins()
    pipeline = predict_pipeline(SCORERS[scorer](**settings))
    pipeline.train(train, lenskit.training.TrainingOptions(rng=0))

    def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
        score = np.empty(len(user))
        order = np.argsort(user, kind="stable")
        users, begins = np.unique(user[order], return_index=True)
        for owner, pairs in zip(users, np.split(order, begins[1:]), strict=True):
            asked = ItemList(item_ids=item[pairs])
            found = lenskit.predict(pipeline, int(owner), asked)
            score[pairs] = found.scores()
        return score

    return predict


if __name__ == "__main__":
    run(fit, ["lenskit", "torch"])
