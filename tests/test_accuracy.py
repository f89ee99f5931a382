"""Every learner learns: held-out scores on the embedded ratings, within bands.

The bands are wide on purpose: they are there to catch a learner that has stopped learning, not to
praise one. All of them lie below the item averages' RMSE, which is computed beside them.
"""

from __future__ import annotations

import numpy as np
import pytest

import ordbm
from ordbm.metrics.prediction import validation_scores

BANDS = {  # settings, most RMSE, most log-loss
    "default": ({"hidden": 20, "item_links": 20, "epochs": 12, "members": 2}, 0.88, 1.66),
    "paper": ({"preset": "paper", "epochs": 10}, 0.92, 1.86),
    "cd": ({"learner": "cd", "hidden": 20, "item_links": 0, "epochs": 10}, 0.93, 1.86),
    "categorical": ({"features": "categorical", "item_links": 0, "epochs": 12}, 0.92, 1.80),
    "gaussian": ({"features": "gaussian", "hidden": 10, "item_links": 0, "epochs": 8}, 0.92, 2.1),
    "item side": ({"sides": "item", "item_links": 0, "epochs": 12}, 0.92, 1.80),
}


@pytest.fixture(scope="module")
def split():
    return ordbm.hold_out(ordbm.load_dataset("movielens-small"), 0.2, seed=3)


@pytest.fixture(scope="module")
def item_rmse(split):
    train, test = split
    total = np.bincount(train.item_codes, train.values - train.values.mean(), train.n_items)
    mean = total / (np.bincount(train.item_codes, minlength=train.n_items) + 3)
    error = train.values.mean() + mean[test.item_codes] - test.values
    return np.sqrt(np.mean(error**2))


@pytest.mark.parametrize("name", BANDS)
def test_learning(name, split, item_rmse):
    settings, most_rmse, most_loss = BANDS[name]
    train, test = split
    model = ordbm.OrdinalBM(**{"members": 1, "presence": False, **settings}).fit(train)
    users = [test.users[code] for code in test.user_codes]
    items = [test.items[code] for code in test.item_codes]
    method = "mean_field" if name == "gaussian" else "exact"
    found = validation_scores(model.distribution(users, items, method), test)
    assert found["rmse"] < min(most_rmse, item_rmse)
    assert found["log_loss"] < most_loss


def test_habits_on_the_scale_are_learnt():
    """Of people who only give whole stars, few half stars are expected; of the others, more."""
    rng = np.random.default_rng(5)
    users = np.repeat(np.arange(60), 20)
    items = np.concatenate([rng.permutation(40)[:20] for _ in range(60)])
    steps = rng.integers(2, 11, len(users))
    steps[users < 30] += steps[users < 30] % 2
    ratings = ordbm.Ratings(users, items, np.minimum(steps, 10) / 2)
    halves = ratings.scale.values % 1 > 0
    found = []
    for response_style_share in (0.0, 0.5):
        learner = ordbm.PseudoLikelihood(
            response_style_share=response_style_share, bias_precision=1.0
        )
        model = ordbm.OrdinalBM(learner=learner, hidden=2, item_links=0, members=1).fit(ratings)
        share = model.predict_proba(np.arange(60), rng.permutation(60) % 40)[:, halves].sum(axis=1)
        found.append((share[:30].mean(), share[30:].mean()))
    assert found[1][0] < found[1][1] / 2
    assert found[1][0] < found[0][0] / 1.5


def test_diverging_learning_is_an_error(split):
    wild = ordbm.PseudoLikelihood(rate=1e6, momentum=0.99)
    told = {"item_links": 0, "hidden": 5, "epochs": 30, "members": 2, "presence": False}
    with pytest.raises(ordbm.errors.DivergedError, match="diverged in epoch"):
        ordbm.OrdinalBM(learner=wild, **told).fit(split[0])
