"""myFM: Bayesian factorization machines by Gibbs sampling, with a Gaussian or an ordered rating.

Set up as in myFM's own MovieLens examples: users and items one-hot with a group of priors for each,
every draw kept if not said otherwise. With `implicit`, a user also has the items he rated and an
item the users who rated it, each scaled to unit length, as SVD++ has them; they come as relation
blocks.
"""

from __future__ import annotations

from typing import Any

import myfm
import numpy as np
import scipy.sparse
from protocol import Predict, RatingsPart, learning_begins, run


def with_history(
    owner: np.ndarray, other: np.ndarray, n_owners: int, n_others: int
) -> scipy.sparse.csr_matrix:
    """Each owner's own column, then the others met in the training ratings, of unit length."""
    count = np.bincount(owner, minlength=n_owners)
    weight = 1 / np.sqrt(count[owner])
    met = scipy.sparse.csr_matrix((weight, (owner, other)), shape=(n_owners, n_others))
    return scipy.sparse.hstack([scipy.sparse.identity(n_owners), met], format="csr")


def fit(
    ratings: RatingsPart,
    rank: int,
    draws: int,
    ordered: bool = True,
    implicit: bool = False,
    kept: int | None = None,
) -> Predict:
    """A factorization machine of users and items; the last `kept` draws predict, or all."""
    n_users, n_items = ratings.n_users, ratings.n_items
    if implicit:
        of_user = with_history(ratings.user, ratings.item, n_users, n_items)
        of_item = with_history(ratings.item, ratings.user, n_items, n_users)
        groups = [n_users, n_items, n_items, n_users]
    else:
        of_user, of_item = (scipy.sparse.identity(n, format="csr") for n in (n_users, n_items))
        groups = [n_users, n_items]

    def features(user: np.ndarray, item: np.ndarray) -> dict[str, Any]:
        if not implicit:
            return {"X": scipy.sparse.hstack([of_user[user], of_item[item]], format="csr")}
        blocks = [myfm.RelationBlock(user, of_user), myfm.RelationBlock(item, of_item)]
        return {"X": None, "X_rel": blocks}

    if ordered:
        model, target = myfm.MyFMOrderedProbit(rank), ratings.level.astype(np.int64)
    else:
        model, target = myfm.MyFMRegressor(rank), ratings.rating
    known = features(ratings.user, ratings.item)
    learning_begins()
    model.fit(
        **known,
        y=target,
        n_iter=draws,
        n_kept_samples=draws if kept is None else kept,
        group_shapes=groups,
    )

    def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
        asked = features(user, item)
        return model.predict_proba(**asked) if ordered else model.predict(**asked)

    return predict


if __name__ == "__main__":
    run(fit, ["myfm", "scipy"])
