"""The models of the accuracy benchmark and their settings, from quick to strong.

A setting that is a list is chosen on the validation ratings (see `peers/protocol.py`); what is not
said is at the package's own default. The figures of ordbm are those of "default", `OrdinalBM()`;
"fast" and "best" are its other presets, and the rest is for the plot of accuracy against time.

`BUDGETS` has more settings, for that plot alone: what each model can do in 1, 3, 10, 30, 100 and
300 seconds of learning on one data set.

Rankers, with a protocol and a scorer of their own, are in `rankers.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

OURS = "ours"  # the name of the environment, and of the model, that is ordbm
PRESETS = {"fast": {"preset": "fast"}, "default": {}, "best": {"preset": "best"}}


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
            **PRESETS,
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

BUDGET_DATA = "ml-1m-80"  # the data set that the settings below are made for
BUDGET_SECONDS = (1, 3, 10, 30, 100, 300)


def myfm_budgets(sizes: dict[str, tuple[int, int]], **kind: Any) -> dict[str, dict[str, Any]]:
    """Rank and draws for each budget; the later half of the draws is kept, as the start is poor."""
    return {
        name: {"rank": rank, "draws": draws, "kept": (draws + 1) // 2, **kind}
        for name, (rank, draws) in sizes.items()
    }


def for_ratings(settings: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """ordbm without which items get rated: that is for lists."""
    return {name: {**told, "presence": False} for name, told in settings.items()}


def cornac_budget(k: int, max_iter: int, **grid: list[float]) -> dict[str, Any]:
    """Without a seed, so that Cornac runs on all cores."""
    return {"seed": None, "k": k, "max_iter": max_iter, **grid}


# Sized by seconds per epoch, draw or iteration to stay within a budget with some room. Alternatives
# are in what costs no time: rates and regularisation.
RATES = [0.005, 0.01, 0.02, 0.03]
DECAYS = [0.02, 0.05, 0.1]
BUDGETS: dict[str, dict[str, dict[str, Any]]] = {
    OURS: for_ratings(
        {
            # Chosen on validation ratings, but for epochs and members of budget3 to budget100,
            # which keep to the time; a list of one is that one, so pairs stand in lists.
            "budget1": {
                "hidden": [[20, 30]],
                "item_links": 0,
                "epochs": 8,
                "members": 1,
                "learner": {
                    "rate": 0.45,
                    "decay": 0.85,
                    "column_ratings": 15.0,
                    "co_occurrence": 0,
                },
            },
            "budget3": {
                "hidden": [[25, 60]],
                "item_links": 0,
                "epochs": 10,
                "members": 2,
                "learner": {"decay": 0.88, "column_ratings": 15.0, "co_occurrence": 0},
            },
            "budget10": {
                "hidden": [[25, 100]],
                "item_links": 0,
                "epochs": 14,
                "members": 3,
                "learner": {"decay": 0.91, "co_occurrence": 0},
            },
            "budget30": {"hidden": [[25, 100]], "item_links": 0, "members": 6},
            "budget100": {"item_links": 0, "members": 12},
            "budget300": {},
        }
    ),
    "surprise-svd": surprise(
        "SVD",
        {
            "budget1": {"n_factors": 20, "n_epochs": 12, "lr_all": RATES, "reg_all": DECAYS},
            "budget3": {"n_factors": 20, "n_epochs": 45, "lr_all": RATES, "reg_all": DECAYS},
            "budget3-f100": {"n_factors": 100, "n_epochs": 14, "lr_all": RATES, "reg_all": DECAYS},
            "budget10": {"n_factors": 100, "n_epochs": 50, "lr_all": RATES, "reg_all": DECAYS},
            "budget30": {"n_factors": 100, "n_epochs": 150, "reg_all": DECAYS},
            "budget100": {"n_factors": 200, "n_epochs": 280, "reg_all": DECAYS[1:]},
            "budget300": {"n_factors": 400, "n_epochs": 400, "reg_all": 0.1},
        },
    ).settings,
    "surprise-svdpp": surprise(
        "SVDpp",
        {
            "budget10": {"n_factors": 5, "n_epochs": 2, "lr_all": [0.007, 0.02]},
            "budget30": {"n_factors": 5, "n_epochs": 6, "lr_all": [0.007, 0.02]},
            "budget100": {"n_factors": 20, "n_epochs": 8, "reg_all": [0.02, 0.05]},
            "budget300": {"n_factors": 20, "n_epochs": 25, "reg_all": 0.05},
        },
    ).settings,
    "surprise-knn": surprise(
        "KNNBaseline",
        {
            "budget30": {
                "k": [20, 40, 80],
                "sim_options": {"name": "pearson_baseline", "user_based": False},
            },
        },
    ).settings,
    "lenskit-biasedmf": lenskit(
        "BiasedMF",
        {
            "budget1": {"embedding_size": 20, "epochs": 3, "regularization": [0.03, 0.1, 0.3]},
            "budget3": {"embedding_size": 20, "epochs": 14, "regularization": [0.03, 0.1, 0.3]},
            "budget10": {"embedding_size": 50, "epochs": 18, "regularization": [0.03, 0.1, 0.3]},
            "budget30": {"embedding_size": 100, "epochs": 18, "regularization": [0.1, 0.3]},
            "budget100": {"embedding_size": 100, "epochs": 60, "regularization": [0.1, 0.3]},
            "budget300": {"embedding_size": 200, "epochs": 40, "regularization": 0.1},
        },
    ).settings,
    "cornac-mf": {
        "budget1": cornac_budget(20, 50, learning_rate=RATES, lambda_reg=DECAYS),
        "budget1-k100": cornac_budget(100, 14, learning_rate=RATES, lambda_reg=DECAYS),
        "budget3": cornac_budget(50, 75, learning_rate=RATES, lambda_reg=DECAYS),
        "budget3-k200": cornac_budget(200, 25, learning_rate=RATES, lambda_reg=DECAYS),
        "budget10": cornac_budget(100, 150, learning_rate=RATES[:2], lambda_reg=DECAYS),
        "budget10-k200": cornac_budget(200, 80, learning_rate=RATES[:2], lambda_reg=DECAYS),
        "budget30": cornac_budget(200, 250, learning_rate=[0.0025, 0.005], lambda_reg=DECAYS[1:]),
        "budget100": cornac_budget(400, 400, learning_rate=[0.0025, 0.005], lambda_reg=[0.1]),
        "budget300": cornac_budget(400, 1200, learning_rate=[0.0025], lambda_reg=[0.1]),
    },
    "myfm-regression": myfm_budgets(
        {
            "budget1": (4, 4),
            "budget3": (8, 10),
            "budget10": (8, 40),
            "budget30": (20, 40),
            "budget100": (20, 140),
            "budget300": (32, 250),
        },
        ordered=False,
    ),
    "myfm-probit": myfm_budgets(
        {
            "budget3": (8, 3),
            "budget10": (8, 14),
            "budget30": (8, 50),
            "budget30-rank20": (20, 27),
            "budget100": (20, 95),
            "budget300": (32, 190),
        }
    ),
    "myfm-probit-implicit": myfm_budgets(
        {
            "budget3": (8, 2),
            "budget10": (8, 9),
            "budget30": (8, 30),
            "budget30-rank20": (20, 16),
            "budget100": (20, 55),
            "budget300": (20, 170),
            "budget300-rank32": (32, 120),
        },
        implicit=True,
    ),
    "i-autorec": {
        "budget30": {"iterations": 15, "weight_decay": [30.0, 100.0]},
        "budget100": {"iterations": 50, "weight_decay": [30.0, 100.0]},
        "budget300": {"iterations": 400, "weight_decay": 100.0},
    },
    "sparsefc": {
        f"budget{seconds}": {
            "iterations": iterations,
            "weight_decay": 60.0,
            "sparsity": 0.013,
            "layers": 2,
        }
        for seconds, iterations in ((100, 120), (300, 380))
    },
}


def settings_of(model: str) -> dict[str, dict[str, Any]]:
    """All settings of a model, those for a time budget among them."""
    return {**MODELS[model].settings, **BUDGETS.get(model, {})}


def is_for_budget(setting: str) -> bool:
    """Whether a setting, by its name, is one of `BUDGETS`."""
    return setting.startswith("budget")
