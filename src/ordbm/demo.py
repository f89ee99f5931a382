"""The main job on embedded data: learn from ratings, compare, recommend. `python -m ordbm.demo`."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ordbm.datasets import load_dataset, load_titles
from ordbm.encoding import log_frequencies
from ordbm.estimator import OrdinalBM
from ordbm.inference.distribution import LevelDistribution
from ordbm.learning.loop import EpochRecord
from ordbm.metrics.ratings import scores
from ordbm.ratings import Ratings
from ordbm.scale import RatingScale
from ordbm.split import hold_out

TASTE = {
    "Star Wars: Episode IV - A New Hope (1977)": 5.0,
    "Matrix, The (1999)": 5.0,
    "Alien (1979)": 4.5,
    "Titanic (1997)": 2.0,
}


def main() -> None:
    """Fit on 80 % of MovieLens latest-small, score the rest, recommend to two people."""
    ratings = load_dataset("movielens-small")
    print(ratings)
    train, test = hold_out(ratings, 0.2, seed=0)
    learn, validation = hold_out(train, 0.1, seed=1)
    started = time.perf_counter()
    model = OrdinalBM().fit(learn, validation=validation, callbacks=[_tell])
    print(f"\n{model!r} in {time.perf_counter() - started:.1f} s\n")

    users = [ratings.users[code] for code in test.user_codes]
    items = [ratings.items[code] for code in test.item_codes]
    found = {
        "level frequencies": scores(_frequencies(train, len(test)), test),
        "item averages": scores(_item_frequencies(train, test), test),
        "OrdinalBM": scores(model.distribution(users, items), test),
    }
    print(f"{f'{len(test):,} held-out ratings':<28}{'log-loss':>9}{'RMSE':>9}{'MAE':>9}")
    for name, row in found.items():
        print(f"{name:<28}{row['log_loss']:9.4f}{row['rmse']:9.4f}{row['mae']:9.4f}")

    titles = load_titles("movielens-small")
    _show_pair(model, titles, users[0], items[0], test.values[0])
    print(f"\nFor user {users[0]}, among what the 50 most similar users rated:")
    for line in model.recommend(users[0], 5, candidates="similar_users", by="mean"):
        print(f"  {line.mean:4.2f}  {titles[line.item]}")
    item_of = {title: item for item, title in titles.items()}
    given = {item_of[title]: value for title, value in TASTE.items()}
    counts = np.bincount(train.item_codes, minlength=train.n_items)
    known = [train.items[code] for code in np.flatnonzero(counts >= 20).tolist()]
    print("\nFor somebody new who rated " + ", ".join(f"{t} {v:g}" for t, v in TASTE.items()) + ":")
    for line in model.recommend(ratings=given, n=5, candidates=known, by="mean"):
        print(f"  {line.mean:4.2f}  {titles[line.item]}")


def _tell(record: EpochRecord) -> None:
    loss = record.validation["log_loss"]
    print(
        f"\repoch {record.epoch}/{record.epochs}: validation log-loss {loss:.4f}",
        end="",
        flush=True,
    )


def _frequencies(train: Ratings, n_pairs: int) -> LevelDistribution:
    assert isinstance(train.scale, RatingScale)
    share = np.exp(log_frequencies(train.levels, len(train.scale)))
    return LevelDistribution(train.scale, np.tile(share, (n_pairs, 1)))


def _item_frequencies(train: Ratings, test: Ratings, weight: float = 5.0) -> LevelDistribution:
    """Each item's level frequencies, with `weight` ratings of the population's added."""
    assert isinstance(train.scale, RatingScale)
    share = np.exp(log_frequencies(train.levels, len(train.scale)))
    count = np.zeros((train.n_items, len(share)))
    np.add.at(count, (train.item_codes, train.levels), 1.0)
    count += weight * share
    return LevelDistribution(
        train.scale, (count / count.sum(axis=1, keepdims=True))[test.item_codes]
    )


def _show_pair(model: OrdinalBM, titles: Any, user: Any, item: Any, truth: float) -> None:
    found = model.distribution([user], [item])
    assert isinstance(found, LevelDistribution)
    print(f"\nUser {user} on {titles[item]} (gave it {truth:g}; predicted {found.mean()[0]:.2f}):")
    for value, share in zip(found.scale.values, found.proba[0], strict=True):
        print(f"  {value:4g} {'█' * round(50 * share):<25} {100 * share:4.1f} %")


if __name__ == "__main__":
    main()
