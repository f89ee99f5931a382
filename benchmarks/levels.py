"""What an epoch costs, and what it learns, on a scale of a hundred levels and on one of ten.

    .venv/bin/python benchmarks/levels.py [--ratings 100000] [--epochs 20]

The ratings are simulated on a hundred levels; on ten they are the same, ten levels merged into one.
Times are the median of an epoch's processor time, one machine on one thread, so that the ratio does
not depend on what else the computer does. Accuracy is on a tenth that was held out, on the hundred
levels' scale; a merged level predicts the mean of those within, each with its share. Writes
`benchmarks/results/levels.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import time
from statistics import median
from typing import Any

import numpy as np
from data import HERE

from ordbm import OrdinalBM, Ratings, RatingScale, hold_out, simulate
from ordbm.model.rules import SizeRules

LEVELS, FEW = 100, 10
HOW = (
    "one machine, one thread, processor time of an epoch; accuracy on a held-out tenth of "
    "simulated ratings on a hundred levels."
)
KINDS = {
    "10 levels": (FEW, SizeRules()),
    "100 levels, couplings by group": (LEVELS, SizeRules()),
    "100 levels, couplings of each": (LEVELS, SizeRules(own_levels=LEVELS)),
}


def pairs(ratings: Ratings) -> tuple[list[Any], list[Any]]:
    """The users and items of all ratings, by user."""
    users = [ratings.users[code] for code in ratings.user_codes]
    return users, [ratings.items[code] for code in ratings.item_codes]


def measured(training: Ratings, held: Ratings, n: int, rules: SizeRules, epochs: int) -> Any:
    """Seconds of an epoch, and log-loss and RMSE on what was held out."""
    merged = LEVELS // n
    level = training.by_user.level // merged
    ratings = Ratings(*pairs(training), level, scale=RatingScale(range(n)))
    ends = [time.process_time()]
    model = OrdinalBM(members=1, threads=1, presence=False, epochs=epochs, size_rules=rules)
    model.fit(ratings, callbacks=lambda _: ends.append(time.process_time()))
    share = np.bincount(training.by_user.level, minlength=LEVELS) + 1.0
    within = share.reshape(n, merged) / share.reshape(n, merged).sum(axis=1, keepdims=True)
    p = (model.predict_proba(*pairs(held))[:, :, None] * within).reshape(len(held), LEVELS)
    observed = held.by_user.level
    error = p @ np.arange(LEVELS) - observed
    return {
        "seconds": median(np.diff(ends)[1:]),
        "log_loss": float(-np.log(p[np.arange(len(p)), observed]).mean()),
        "rmse": float(np.sqrt((error**2).mean())),
    }


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ratings", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=20)
    told = parser.parse_args()
    simulated = simulate(943, 1682, told.ratings, levels=LEVELS, sweeps=5, seed=0).ratings
    training, held = hold_out(simulated, 0.1, seed=0)
    found = {
        kind: measured(training, held, n, rules, told.epochs) for kind, (n, rules) in KINDS.items()
    }
    first = found["10 levels"]["seconds"]
    lines = [
        "# Many levels", "",
        f"`benchmarks/levels.py --ratings {told.ratings} --epochs {told.epochs}`: {HOW}", "",
        "| | epoch, s | times that of 10 levels | log-loss | RMSE, in levels of 100 |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {kind} | {row['seconds']:.2f} | {row['seconds'] / first:.1f} | "
            f"{row['log_loss']:.4f} | {row['rmse']:.3f} |"
            for kind, row in found.items()
        ),
    ]  # fmt: skip
    text = "\n".join(lines) + "\n"
    (HERE / "results" / "levels.json").write_text(json.dumps(found, indent=1) + "\n")
    (HERE / "results" / "levels.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
