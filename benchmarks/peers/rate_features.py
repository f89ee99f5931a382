"""Factorisations with features of users and items: myFM's ordered probit, and cmfrec's.

    python benchmarks/peers/rate_features.py myfm ml-100k.zip ml-100k --given 5 --seed 0

Neither folds in a user as the other does, so both are fitted anew with the given ratings of new
users among theirs. Features are one-hot (ages and years in steps, genres one by one); cmfrec also
needs them for all users and items, which the sets have.
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

    blocks, ids = [], []
    for table in (users, items):
        known = np.array(sorted(table))
        ids.append(known)
        blocks += [scipy.sparse.identity(len(known), format="csr"), one_hot(table, known)]
    groups = [block.shape[1] for block in blocks]

    def design(pairs: np.ndarray) -> scipy.sparse.csr_matrix:
        user, item = (np.searchsorted(known, pairs[:, side]) for side, known in enumerate(ids))
        rows = (user, user, item, item)
        return scipy.sparse.hstack([b[row] for b, row in zip(blocks, rows, strict=True)], "csr")

    model = myfm.MyFMOrderedProbit(10, random_seed=0)
    model.fit(
        design(train), train[:, 2] - 1, n_iter=draws, n_kept_samples=draws * 3 // 4,
        group_shapes=groups,
    )  # fmt: skip
    return lambda pairs: model.predict_proba(design(pairs))


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


def main() -> None:
    """Fit, predict, and print the scores as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=("myfm", "cmfrec"))
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
    fit = {"myfm": fit_myfm, "cmfrec": fit_cmfrec}[told.model]
    predict = fit(train, users, items, told.draws)
    found = {f"{told.given} given": scores(predict(made.asked), made.asked[:, 2])}
    if told.given == 0:
        found |= {name: scores(predict(cell), cell[:, 2]) for name, cell in made.cells.items()}
    print(json.dumps({"seconds": time.perf_counter() - started, "scores": found}))


if __name__ == "__main__":
    main()
