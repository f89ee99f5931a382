"""Surprise's SVD, or myFM's ordered probit, fitted anew so many times as the stream goes on.

    python benchmarks/peers/stream_refitted.py ml-1m.zip svd time 4 out.npz

The first fit is of what came before the stream, the others of everything before every so many
batches. Users and items that a fit has not seen are predicted by what it knows of the other.
Settings are those of the benchmark of accuracy for ML-1M. Writes predictions, and the seconds of
processor time of all fits after the first.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from stream_data import BATCHES, Stream, cut, in_groups

Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]


def fit_svd(known: Stream) -> Predict:
    """Surprise's SVD."""
    import pandas as pd  # noqa: PLC0415
    import surprise  # noqa: PLC0415

    frame = pd.DataFrame({"user": known.user, "item": known.item, "rating": known.rating})
    train = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=(1, 5)))
    model = surprise.SVD(n_factors=100, n_epochs=20, random_state=0)
    model.fit(train.build_full_trainset())

    def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
        pairs = zip(user.tolist(), item.tolist(), strict=True)
        return np.array([model.predict(*pair).est for pair in pairs])

    return predict


def fit_myfm(known: Stream) -> Predict:
    """myFM's ordered probit; who or what is unknown has no indicator, as in its own examples."""
    import myfm  # noqa: PLC0415
    import scipy.sparse  # noqa: PLC0415

    ids = [np.unique(known.user), np.unique(known.item)]

    def design(*columns: np.ndarray) -> scipy.sparse.csr_matrix:
        blocks = []
        for column, seen in zip(columns, ids, strict=True):
            place = np.minimum(np.searchsorted(seen, column), len(seen) - 1)
            there = np.flatnonzero(seen[place] == column)
            shape = (len(column), len(seen))
            blocks.append(
                scipy.sparse.csr_matrix((np.ones(len(there)), (there, place[there])), shape)
            )
        return scipy.sparse.hstack(blocks, "csr")

    model = myfm.MyFMOrderedProbit(10, random_seed=0)
    sizes = [len(seen) for seen in ids]
    model.fit(
        design(known.user, known.item),
        known.rating - 1,
        n_iter=100,
        n_kept_samples=80,
        group_shapes=sizes,
    )
    return lambda user, item: model.predict_proba(design(user, item))


def main() -> None:
    """Fit, predict a part of the batches, fit again."""
    path, name, protocol, refits, out = sys.argv[1:]
    learnt, batches = cut(Path(path), protocol)
    fit = {"svd": fit_svd, "myfm": fit_myfm}[name]
    known, found, seconds = [learnt], [], 0.0
    starts = np.linspace(0, BATCHES, int(refits) + 2).astype(int)[:-1]
    for number, batch in enumerate(batches):
        if number in starts:
            begun = time.process_time()
            predict = fit(in_groups(*(np.concatenate([p[c] for p in known]) for c in range(4))))
            seconds += (time.process_time() - begun) * (number > 0)
        found.append(predict(batch.user, batch.item))
        known.append(batch)
    how = f"refitted {refits} times" if int(refits) > 1 else "refitted once"
    np.savez(out, prediction=np.concatenate(found), seconds=seconds, how=how)


if __name__ == "__main__":
    main()
