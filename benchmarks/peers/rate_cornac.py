"""Cornac's matrix factorization (C++). With a seed (0 unless the settings say None) it runs on one
thread and gives the same results each time.
"""

from __future__ import annotations

from typing import Any

import cornac
import numpy as np
from protocol import Predict, RatingsPart, learning_begins, run


def fit(ratings: RatingsPart, **settings: Any) -> Predict:
    """`cornac.models.MF` with the given settings, the others at its defaults.

    Predicted from its own arrays, all pairs at once, as its `rate` does for one pair: an unknown
    user has no bias and no factors, an unknown item gets the mean rating.
    """
    triples = zip(
        ratings.user.tolist(), ratings.item.tolist(), ratings.rating.tolist(), strict=True
    )
    train = cornac.data.Dataset.from_uir(triples)
    learning_begins()
    model = cornac.models.MF(**{"seed": 0, **settings}).fit(train)
    user_place = places(train.uid_map, ratings.n_users)
    item_place = places(train.iid_map, ratings.n_items)

    def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
        row, column = user_place[user], item_place[item]
        known = row >= 0
        score = model.global_mean + model.i_biases[column].astype(np.float64)
        row, met = row[known], column[known]
        product = np.einsum("pk,pk->p", model.u_factors[row], model.i_factors[met])
        score[known] += model.u_biases[row] + product
        score[column < 0] = model.global_mean
        return score

    return predict


def places(numbers: dict[int, int], n: int) -> np.ndarray:
    """Our number → Cornac's, or −1."""
    place = np.full(n, -1)
    place[list(numbers)] = list(numbers.values())
    return place


if __name__ == "__main__":
    run(fit, ["cornac"])
