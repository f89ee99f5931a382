"""Surprise's SVD on the ML-1M split: seconds per epoch, and per `predict` call. Prints JSON.

    python benchmarks/peers/surprise_svd.py SPLIT.npz [--factors 20] [--repeats 3] [--pairs 200000]

An epoch's cost is the difference of two fits, (t(long) − t(short)) / (long − short), so that fixed
costs drop out. Processor seconds stand beside wall clock: where they are well below it, the machine
was busy with something else.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import surprise

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from data import Seconds, Split, load_split, stopwatch


def training_set(split: Split) -> surprise.Trainset:
    """The training ratings as Surprise wants them."""
    frame = pd.DataFrame(
        {"user": split.train_user, "item": split.train_item, "rating": split.train_rating}
    )
    reader = surprise.Reader(rating_scale=(1, 5))
    return surprise.Dataset.load_from_df(frame, reader).build_full_trainset()


def fit_seconds(
    train: surprise.Trainset, factors: int, epochs: int, seed: int
) -> tuple[Seconds, surprise.SVD]:
    """Time of a fit, and the fitted model."""
    model = surprise.SVD(n_factors=factors, n_epochs=epochs, random_state=seed)
    with stopwatch() as seconds:
        model.fit(train)
    return seconds, model


def predict_seconds(model: surprise.SVD, users: list[int], items: list[int]) -> float:
    """Seconds per plain `predict(uid, iid)`, the bare loop around it included."""
    with stopwatch() as seconds:
        for user, item in zip(users, items, strict=True):
            model.predict(user, item)
    return seconds.wall / len(users)


def main() -> None:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("split", type=Path, help="the .npz that benchmarks/data.py made")
    parser.add_argument("--factors", type=int, default=20)
    parser.add_argument("--epochs", type=int, nargs=2, default=(2, 12), metavar=("SHORT", "LONG"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--pairs", type=int, default=200_000, help="pairs to predict, drawn from all users × items"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    split = load_split(arguments.split)
    train = training_set(split)
    short, long = arguments.epochs
    rng = np.random.default_rng(arguments.seed)
    users = rng.integers(split.n_users, size=arguments.pairs).tolist()
    items = rng.integers(split.n_items, size=arguments.pairs).tolist()

    epoch_seconds, epoch_cpu_seconds, call_seconds = [], [], []
    for _ in range(arguments.repeats):
        short_seconds, _ = fit_seconds(train, arguments.factors, short, arguments.seed)
        long_seconds, model = fit_seconds(train, arguments.factors, long, arguments.seed)
        epoch_seconds.append((long_seconds.wall - short_seconds.wall) / (long - short))
        epoch_cpu_seconds.append((long_seconds.cpu - short_seconds.cpu) / (long - short))
        call_seconds.append(predict_seconds(model, users, items))

    print(
        json.dumps(
            {
                "peer": f"Surprise SVD(n_factors={arguments.factors})",
                "versions": {
                    "python": platform.python_version(),
                    "scikit-surprise": surprise.__version__,
                    "numpy": np.__version__,
                },
                "epochs": [short, long],
                "pairs": arguments.pairs,
                "seed": arguments.seed,
                "epoch_seconds": epoch_seconds,
                "epoch_seconds_min": min(epoch_seconds),
                "epoch_seconds_median": float(np.median(epoch_seconds)),
                "epoch_cpu_seconds_median": float(np.median(epoch_cpu_seconds)),
                "predict_seconds": call_seconds,
                "predict_seconds_min": min(call_seconds),
                "predict_seconds_median": float(np.median(call_seconds)),
            }
        )
    )


if __name__ == "__main__":
    main()
