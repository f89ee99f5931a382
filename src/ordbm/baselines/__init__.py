"""Simple and classical models in OrdinalBM's interface, to compare it with.

`BASELINES` has them by name.
"""

from ordbm.baselines.base import Baseline
from ordbm.baselines.bias import Bias
from ordbm.baselines.frequencies import (
    ItemFrequencies,
    LevelFrequencies,
    Popularity,
    UserFrequencies,
)
from ordbm.baselines.neighbourhood import ItemKNN, UserKNN
from ordbm.baselines.svd import SVD

__all__ = [
    "BASELINES",
    "SVD",
    "Baseline",
    "Bias",
    "ItemFrequencies",
    "ItemKNN",
    "LevelFrequencies",
    "Popularity",
    "UserFrequencies",
    "UserKNN",
]

BASELINES: dict[str, type[Baseline]] = {
    "global": LevelFrequencies,
    "item": ItemFrequencies,
    "user": UserFrequencies,
    "bias": Bias,
    "popularity": Popularity,
    "user-knn": UserKNN,
    "item-knn": ItemKNN,
    "svd": SVD,
}
