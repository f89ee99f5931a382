"""The models of the accuracy benchmark and their settings, from quick to strong.

A setting that is a list is chosen on the validation ratings (see `peers/protocol.py`); what is not
said is at the package's own default. The figures of ordbm are those of "default", `OrdinalBM()`;
its other settings are for the plot of accuracy against time.

Rankers (popularity, item-kNN, implicit's ALS, EASE) belong here as well, with a protocol and a
scorer of their own; there are none yet.
"""

from __future__ import annotations

from typing import Any, NamedTuple

OURS = "ours"  # the name of the environment, and of the model, that is ordbm


class Model(NamedTuple):
    """How a model is run."""

    script: str  # in peers/
    environment: str  # of `benchmarks/environment`, or ours
    settings: dict[str, dict[str, Any]]
    most_ratings: float = float("inf")  # beyond these it needs more memory or hours than there are


def myfm(**kind: Any) -> Model:
    """A factorization machine of myFM, from few draws to as many as its author uses."""
    settings = {
        f"rank{rank}-draws{draws}": {"rank": rank, "draws": draws, **kind}
        for rank, draws in ((20, 10), (20, 50), (20, 200), (32, 512))
    }
    return Model("rate_myfm.py", "peers", settings, most_ratings=2e6)


def surprise(
    algorithm: str, settings: dict[str, dict[str, Any]], most_ratings: float = 2e7
) -> Model:
    """A predictor of Surprise."""
    told = {name: {"algorithm": algorithm, **more} for name, more in settings.items()}
    return Model("rate_surprise.py", "peers", told, most_ratings)


def lenskit(scorer: str, settings: dict[str, dict[str, Any]]) -> Model:
    """A predictor of LensKit."""
    told = {name: {"scorer": scorer, **more} for name, more in settings.items()}
    return Model("rate_lenskit.py", "peers-lenskit", told)


def autoencoder(settings: dict[str, dict[str, Any]]) -> Model:
    """An autoencoder over whole rows of ratings."""
    return Model("rate_autoencoder.py", "peers-lenskit", settings, most_ratings=2e6)


MODELS: dict[str, Model] = {
    OURS: Model(
        "rate_ordbm.py",
        OURS,
        {
            "default": {},
            "quick": {"hidden": 20, "item_links": 0, "epochs": 5},
        },
    ),
    "surprise-svd": surprise(
        "SVD",
        {
            "quick": {"n_factors": 20, "n_epochs": 10},
            "default": {},
            "tuned": {
                "n_factors": [20, 100, 200],
                "n_epochs": [20, 50, 100],
                "reg_all": [0.05, 0.1, 0.15],
            },
        },
    ),
    "surprise-svdpp": surprise("SVDpp", {"quick": {"n_epochs": 5}, "default": {}}, 2e6),
    "surprise-knn": surprise(
        "KNNBaseline",
        {
            "default": {},
            "items": {"sim_options": {"name": "pearson_baseline", "user_based": False}},
        },
        2e6,
    ),
    "lenskit-biasedmf": lenskit(
        "BiasedMF",
        {
            "quick": {"embedding_size": 20, "epochs": 3},
            "default": {},
            "tuned": {
                "embedding_size": [10, 50],
                "epochs": 20,
                "regularization": [0.03, 0.1, 0.3],
            },
        },
    ),
    "lenskit-itemknn": lenskit(
        "ItemKNN", {"default": {}, "tuned": {"max_nbrs": [20, 40, 80, 160]}}
    ),
    "cornac-mf": Model(
        "rate_cornac.py",
        "peers-cornac",
        {
            "default": {},
            "strong": {"k": 100, "max_iter": 100},
            "tuned": {
                "k": [20, 100, 200],
                "max_iter": [50, 200],
                "learning_rate": [0.0025, 0.005, 0.01],
                "lambda_reg": [0.05, 0.1, 0.2],
            },
        },
    ),
    "myfm-regression": myfm(ordered=False),
    "myfm-probit": myfm(),
    "myfm-probit-implicit": myfm(implicit=True),
    "i-autorec": autoencoder(
        {
            "quick": {"iterations": 20, "weight_decay": 30.0},
            "tuned": {"iterations": 80, "weight_decay": [10.0, 30.0, 100.0]},
        }
    ),
    "sparsefc": autoencoder(
        {
            f"iterations{n}": {
                "iterations": n,
                "weight_decay": 60.0,
                "sparsity": 0.013,
                "layers": 2,
            }
            for n in (50, 200, 500)
        }
    ),
}
