"""myFM's ordered probit on the ML-1M split: fit seconds and test accuracy. Prints JSON.

    python benchmarks/peers/myfm_probit.py SPLIT.npz [--rank 20] [--draws 200] [--kept 200]

Set up as in myFM's own MovieLens tutorial: one-hot users and items, a group of priors for each,
every draw kept.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path

import myfm
import numpy as np
import scipy.sparse

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from data import LEVELS, load_split, scores, stopwatch


def one_hot(
    user: np.ndarray, item: np.ndarray, n_users: int, n_items: int
) -> scipy.sparse.csr_matrix:
    """Row (user, item) → ones at columns `user` and `n_users + item`."""
    columns = np.column_stack([user, n_users + item]).ravel()
    starts = np.arange(0, 2 * len(user) + 1, 2)
    return scipy.sparse.csr_matrix(
        (np.ones(len(columns)), columns, starts), shape=(len(user), n_users + n_items)
    )


def main() -> None:
    """Fit, score the test ratings, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("split", type=Path, help="the .npz that benchmarks/data.py made")
    parser.add_argument("--rank", type=int, default=20)
    parser.add_argument("--draws", type=int, default=200, help="Gibbs sweeps")
    parser.add_argument(
        "--kept", type=int, default=None, help="how many of the last draws predict (default: all)"
    )
    parser.add_argument("--seed", type=int, default=42, help="myFM's own default")
    arguments = parser.parse_args()
    name = f"myFM ordered probit, rank {arguments.rank}, {arguments.draws} draws"
    kept = arguments.draws if arguments.kept is None else arguments.kept

    split = load_split(arguments.split)
    shape = (split.n_users, split.n_items)
    train = one_hot(split.train_user, split.train_item, *shape)
    test = one_hot(split.test_user, split.test_item, *shape)
    level = split.train_rating.astype(np.int64) - LEVELS[0]

    model = myfm.MyFMOrderedProbit(rank=arguments.rank, random_seed=arguments.seed)
    with stopwatch() as fit:
        model.fit(
            train, level, n_iter=arguments.draws, n_kept_samples=kept, group_shapes=list(shape)
        )
    with stopwatch() as predict:
        proba = model.predict_proba(test)

    print(
        json.dumps(
            {
                "peer": name,
                "versions": {
                    "python": platform.python_version(),
                    "myfm": myfm.__version__,
                    "numpy": np.__version__,
                    "scipy": scipy.__version__,
                },
                "rank": arguments.rank,
                "draws": arguments.draws,
                "kept": kept,
                "seed": arguments.seed,
                "fit_seconds": fit.wall,
                "fit_cpu_seconds": fit.cpu,
                "predict_seconds": predict.wall,
                **scores(proba, split.test_rating),
            }
        )
    )


if __name__ == "__main__":
    main()
