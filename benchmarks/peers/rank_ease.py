"""EASE (Steck, 2019): linear regression of each item's presence on all others, in closed form."""

from __future__ import annotations

import numpy as np
from rank_protocol import Rank, RatingsPart, by_score, presence, run


def fit(ratings: RatingsPart, l2: float) -> Rank:
    """B_ij = −P_ij / P_jj with a zero diagonal, P = (XᵀX + l2 I)⁻¹; scores are X B."""
    rated = presence(ratings)
    together = (rated.T @ rated).toarray().astype(np.float64)
    together[np.diag_indices(ratings.n_items)] += l2
    inverse = np.linalg.inv(together)
    weight = (inverse / -np.diag(inverse)).astype(np.float32)
    np.fill_diagonal(weight, 0)
    return by_score(lambda users: rated[users] @ weight)


if __name__ == "__main__":
    run(fit, [])
