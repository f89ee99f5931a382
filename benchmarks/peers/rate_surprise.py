"""Surprise's rating predictors, by the names of their classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import surprise
from protocol import Predict, RatingsPart, learning_begins, run


def fit(ratings: RatingsPart, algorithm: str, **settings: Any) -> Predict:
    """An algorithm of Surprise with the given settings, the others at its defaults."""
    frame = pd.DataFrame({"user": ratings.user, "item": ratings.item, "rating": ratings.rating})
    reader = surprise.Reader(rating_scale=ratings.bounds)
    train = surprise.Dataset.load_from_df(frame, reader).build_full_trainset()
    learning_begins()
    if algorithm.startswith("KNN"):
        settings["verbose"] = False
    else:
        settings["random_state"] = 0
    model = getattr(surprise, algorithm)(**settings).fit(train)

    def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
        pairs = zip(user.tolist(), item.tolist(), strict=True)
        return np.array([model.predict(*pair).est for pair in pairs])

    return predict


if __name__ == "__main__":
    run(fit, ["scikit-surprise"])
