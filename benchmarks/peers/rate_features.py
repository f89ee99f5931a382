"""Factorisations with features of users and items: myFM's ordered probit, cmfrec's, LightFM's.

    python benchmarks/peers/rate_features.py myfm ml-100k.zip ml-100k --given 5 --seed 0

None folds in a user as another does, so all are fitted anew with the given ratings of new users
among theirs. Features are one-hot (ages and years in steps, genres one by one); cmfrec also needs
them for all users and items, which the sets have. LightFM knows likes and dislikes: what it says of
a pair becomes a distribution of ratings by a multinomial regression on a tenth of the training
ratings, by which its size and epochs are chosen too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from features_data import Table, cut, first_given, read, scores

STEP = {"age": 10, "year": 5}
LIKED, TENTH = 4, 0.1
Predict = Callable[[np.ndarray], np.ndarray]


def one_hot(table: Table, ids: np.ndarray) -> scipy.sparse.csr_matrix:
    """Indicators of all values of all columns, (ids, values)."""
    place: dict[tuple[str, Any], int] = {}
    entries = []
    for row, one in enumerate(ids.tolist()):
        for name, value in table[one].items():
            values = value.split("|") if isinstance(value, str) else [value]
            for each in values:
                if each is not None:
                    part = int(each // STEP[name]) if name in STEP else each
                    entries.append((row, place.setdefault((name, part), len(place))))
    rows, columns = np.array(entries).T
    return scipy.sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), (len(ids), len(place)))


def fit_myfm(train: np.ndarray, users: Table, items: Table, draws: int) -> Predict:
    """Bayesian ordered probit: ids and features one-hot, a group of priors for each."""
    import myfm  # noqa: PLC0415

    blocks, ids, groups = [], [], []
    for table in (users, items):
        known = np.array(sorted(table))
        about = one_hot(table, known)
        blocks.append(scipy.sparse.hstack([scipy.sparse.identity(len(known)), about], "csr"))
        ids.append(known)
        groups += [len(known), about.shape[1]]

    def asked(pairs: np.ndarray) -> tuple[None, list[Any]]:
        return None, [
            myfm.RelationBlock(np.searchsorted(known, pairs[:, side]), block)
            for side, (known, block) in enumerate(zip(ids, blocks, strict=True))
        ]

    model = myfm.MyFMOrderedProbit(10, random_seed=0)
    nothing, relations = asked(train)
    model.fit(
        nothing, train[:, 2] - 1, relations, n_iter=draws, n_kept_samples=draws * 3 // 4,
        group_shapes=groups,
    )  # fmt: skip
    return lambda pairs: model.predict_proba(*asked(pairs))


def fit_cmfrec(train: np.ndarray, users: Table, items: Table, _: int) -> Predict:
    """Collective factorisation with biases."""
    import pandas as pd  # noqa: PLC0415
    from cmfrec import CMF  # noqa: PLC0415

    def frame(table: Table, key: str) -> Any:
        ids = np.array(sorted(table))
        found = pd.DataFrame(one_hot(table, ids).toarray()).add_prefix("x")
        return found.assign(**{key: ids})

    model = CMF(k=40, lambda_=10.0, w_main=0.5, w_user=0.25, w_item=0.25, verbose=False, nthreads=1)
    model.fit(
        pd.DataFrame(train, columns=["UserId", "ItemId", "Rating"]),
        U=frame(users, "UserId"),
        I=frame(items, "ItemId"),
    )
    return lambda pairs: model.predict(pairs[:, 0], pairs[:, 1])


def fit_lightfm(train: np.ndarray, users: Table, items: Table, _: int) -> Predict:
    """Hybrid factorisation of likes (4 and more) and dislikes, ids and features both."""
    from lightfm import LightFM  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    ids = [np.array(sorted(table)) for table in (users, items)]
    user_features, item_features = (
        scipy.sparse.hstack(
            [scipy.sparse.identity(len(known)), one_hot(table, known)], "csr", dtype=np.float32
        )
        for table, known in zip((users, items), ids, strict=True)
    )
    about = {"user_features": user_features, "item_features": item_features}

    def codes(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        user, item = (np.searchsorted(known, pairs[:, k]) for k, known in enumerate(ids))
        return user.astype(np.int32), item.astype(np.int32)

    def fitted(pairs: np.ndarray, components: int, epochs: int) -> LightFM:
        liked = np.where(pairs[:, 2] >= LIKED, 1, -1).astype(np.int32)
        shape = len(ids[0]), len(ids[1])
        interactions = scipy.sparse.coo_matrix((liked, codes(pairs)), shape)
        model = LightFM(no_components=components, loss="logistic", random_state=0)
        return model.fit(interactions, epochs=epochs, num_threads=1, **about)

    def seen(model: LightFM, pairs: np.ndarray) -> np.ndarray:
        score = model.predict(*codes(pairs), num_threads=1, **about)
        return np.stack([score, score**2], axis=1)

    apart = np.random.default_rng(0).random(len(train)) < TENTH
    level = train[apart, 2]
    tried = []
    for components, epochs in ((c, e) for c in (10, 30) for e in (5, 15, 40)):
        x = seen(fitted(train[~apart], components, epochs), train[apart])
        to_levels = LogisticRegression(max_iter=1000).fit(x, level)
        loss = -to_levels.predict_log_proba(x)[np.arange(len(level)), level - 1].mean()
        tried.append((loss, components, epochs, to_levels))
    _, components, epochs, to_levels = min(tried, key=lambda one: one[0])
    model = fitted(train, components, epochs)
    return lambda pairs: to_levels.predict_proba(seen(model, pairs))


FITS = {"myfm": fit_myfm, "cmfrec": fit_cmfrec, "lightfm": fit_lightfm}


def main() -> None:
    """Fit, predict, and print the scores as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=tuple(FITS))
    parser.add_argument("zip", type=Path)
    parser.add_argument("data")
    parser.add_argument("--given", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=200)
    told = parser.parse_args()
    ratings, users, items = read(told.zip, told.data)
    made = cut(ratings, told.seed)
    train = np.concatenate([made.train, first_given(made.given, told.given)])
    started = time.perf_counter()
    predict = FITS[told.model](train, users, items, told.draws)
    found = {f"{told.given} given": scores(predict(made.asked), made.asked)}
    if told.given == 0:
        found |= {name: scores(predict(cell), cell) for name, cell in made.cells.items()}
    print(json.dumps({"seconds": time.perf_counter() - started, "scores": found}))


if __name__ == "__main__":
    main()
