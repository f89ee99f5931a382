"""People and films whose features say what they are like, and ratings that follow it."""

import numpy as np

import ordbm

N_USERS, N_ITEMS = 120, 80
RATED_USERS, RATED_ITEMS = 100, 60
TASTE = np.array([[1.2, -1.2, 0.0], [-1.2, 1.2, 0.0]])
KEPT_SMALL = {"members": 1, "hidden": 4, "epochs": 8, "threads": 1}


def population(seed=0):
    """Who likes which genre, and ratings that follow it, of the first users and items."""
    rng = np.random.default_rng(seed)
    taste, genre = rng.integers(0, 2, N_USERS), rng.integers(0, 3, N_ITEMS)
    rows = [
        (u, i, int(np.clip(np.round(3 + TASTE[taste[u], genre[i]] + 0.7 * rng.normal()), 1, 5)))
        for u in range(RATED_USERS)
        for i in rng.choice(RATED_ITEMS, 15, replace=False)
    ]
    users = {
        "user": list(range(N_USERS)),
        "kind": [("left", "right")[one] for one in taste],
        "age": rng.normal(40, 10, N_USERS).tolist(),
    }
    items = {
        "item": list(range(N_ITEMS)),
        "genres": [f"{'abc'[one]}|film" for one in genre],
    }
    return ordbm.Ratings(*zip(*rows, strict=True)), users, items, taste, genre


RATINGS, USERS, ITEMS, TASTES, GENRES = population()


def truth(users, items):
    return 3 + TASTE[TASTES[np.asarray(users)], GENRES[np.asarray(items)]]
