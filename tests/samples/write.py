"""Write the samples of the present format: `python tests/samples/write.py`.

Never run it to replace samples of a format that was released: old files cannot be written again.
"""

import json
from dataclasses import asdict
from itertools import product
from pathlib import Path

import numpy as np

import ordbm
from ordbm.persistence.container import FORMAT

MIXED = [1, "1", 2**70, ("a", None), b"\0", "\ud83d\ude00", 1.5]
WORDS = ["alpha", "βήτα", "gamma", "delta"]


def ratings(users, items, scale=None):
    """Seven in ten of all pairs, rated by a rule."""
    everything = product(range(len(users)), range(len(items)))
    pairs = [(u, i) for u, i in everything if (3 * u + 7 * i) % 10 < 7]
    values = [1 + (u * u + 2 * i) % 5 for u, i in pairs]
    if scale == "continuous":
        values = [value + 0.1 * i for value, (_, i) in zip(values, pairs, strict=True)]
    elif scale is not None:
        values = [scale[value - 1] for value in values]
    return ordbm.Ratings([users[u] for u, _ in pairs], [items[i] for _, i in pairs], values, scale)


def samples():
    """(name, fitted model) of each."""
    tiny = {"link_support": 2, "link_shrinkage": 1.0, "epochs": 3, "threads": 1, "members": 2}
    learner = ordbm.PseudoLikelihood(rate=0.25, coupling_precision=2)
    yield (
        "joint",
        ordbm.OrdinalBM(hidden=(3, 2), item_links=2, user_links=2, learner=learner, **tiny).fit(
            ratings(MIXED, WORDS, ["poor", "fair", "good", "fine", "best"])
        ),
    )
    yield (
        "gaussian",
        ordbm.OrdinalBM(sides="user", hidden=4, item_links=2, dtype="float64", **tiny).fit(
            ratings(range(8), range(2**40, 2**40 + 6), "continuous")
        ),
    )


GIVEN = {  # by somebody new
    "joint": {"alpha": "best", "gamma": "poor"},
    "gaussian": {2**40: 4.5, 2**40 + 2: 1.0},
}


def newcomer_means(name, model):
    """The means of what somebody new may like best."""
    return [round(line.mean, 6) for line in model.recommend(ratings=GIVEN[name], n=2, by="mean")]


def write(folder):
    for name, model in samples():
        path = folder / f"model-{FORMAT['model']}-{name}.ordbm"
        model.save(path)
        users, items = model._fitted.users.ids, model._fitted.items.ids
        told = {
            "users": [repr(value) for value in users],
            "items": [repr(value) for value in items],
            "scale": repr(model.scale),
            "settings": {key: repr(value) for key, value in model.get_params().items()},
            "learner": {key: repr(value) for key, value in asdict(model.learner).items()},
            "means": [np.round(model.predict(user, list(items)), 6).tolist() for user in users],
            "recommended": [repr(line.item) for line in model.recommend(users[0], n=3, by="mean")],
            "newcomer": newcomer_means(name, model),
        }
        path.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    write(Path(__file__).parent)
