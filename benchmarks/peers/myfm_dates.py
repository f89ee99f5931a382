"""myFM's ordered probit with dates and implicit features, in the manner of timeSVD++. Prints JSON.

    python benchmarks/peers/myfm_dates.py PARTS.npz [--rank 32] [--draws 512] [--minutes M]

PARTS.npz has user, item, level (from 0) and time (seconds) of the training and of the test
ratings, as `benchmarks/context.py` writes them. One-hot users, items and days, and beside a user
the items they rated, beside an item those who rated it, each row of these scaled to unit length; a
group of priors for each. The first tenth of the draws is left out. After M minutes no more are
drawn, and what was drawn counts; every tenth draw the figures so far are said on stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import myfm
import numpy as np
from myfm import RelationBlock
from scipy import sparse

DAY = 86400.0


def unit_rows(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """Each row divided by the root of how many entries it has."""
    count = np.maximum(np.diff(matrix.indptr), 1)
    return sparse.diags(1 / np.sqrt(count)) @ matrix


def main() -> None:
    """Fit, predict the test ratings, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", type=Path)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--draws", type=int, default=512)
    parser.add_argument("--minutes", type=float)
    arguments = parser.parse_args()
    parts = np.load(arguments.parts)
    user, item, level, when = (parts[f"train_{name}"] for name in ("user", "item", "level", "time"))
    shape = int(parts["n_users"]), int(parts["n_items"])
    rated = sparse.csr_matrix((np.ones(len(user)), (user, item)), shape=shape)
    days, day = np.unique(np.floor(when / DAY), return_inverse=True)
    # A day without training ratings has no column of its own: all zero.
    test_day = np.searchsorted(days, np.floor(parts["test_time"] / DAY))
    known = np.isin(np.floor(parts["test_time"] / DAY), days)
    one_day = sparse.vstack([sparse.identity(len(days)), sparse.csr_matrix((1, len(days)))]).tocsr()
    of_user = sparse.hstack([sparse.identity(shape[0]), unit_rows(rated)]).tocsr()
    of_item = sparse.hstack([sparse.identity(shape[1]), unit_rows(rated.T.tocsr())]).tocsr()

    def blocks(users, items, dates):
        return [
            RelationBlock(codes.tolist(), table)
            for codes, table in ((users, of_user), (items, of_item), (dates, one_day))
        ]

    test_blocks = blocks(
        parts["test_user"], parts["test_item"], np.where(known, test_day, len(days))
    )
    values, truth = parts["values"], parts["test_level"]
    nothing = sparse.csr_matrix((len(truth), 0))
    total = np.zeros((len(truth), len(values)))
    started, first = time.perf_counter(), arguments.draws // 10
    kept = 0

    def figures() -> dict[str, float]:
        """Of the mean of the draws so far."""
        proba = total / kept
        error = proba @ values - values[truth]
        return {
            "rmse": float(np.sqrt(np.mean(error**2))),
            "mae_mean": float(np.mean(np.abs(error))),
            "log_loss": float(-np.log(np.maximum(proba[range(len(truth)), truth], 1e-300)).mean()),
        }

    def look(draw, fm, *_):
        """Adds a draw's probabilities, so that no draw has to be kept."""
        nonlocal kept
        spent = (time.perf_counter() - started) / 60
        if draw >= first:
            kept += 1
            total[:] += fm.oprobit_predict_proba(nothing, test_blocks, 0)
            if kept % 10 == 1:
                print(f"draw {draw + 1}, {spent:.1f} min: {figures()}", file=sys.stderr, flush=True)
        return bool(kept and arguments.minutes and spent > arguments.minutes), None

    model = myfm.MyFMOrderedProbit(rank=arguments.rank, random_seed=42)
    model.fit(
        None, level, X_rel=blocks(user, item, day), n_iter=arguments.draws, n_kept_samples=1,
        group_shapes=[shape[0], shape[1], shape[1], shape[0], len(days)], callback=look,
    )  # fmt: skip
    name = (
        f"myFM {myfm.__version__}, ordered probit with dates, rank {arguments.rank}, "
        f"{first + kept} draws"
    )
    print(json.dumps({"model": name, **figures(), "seconds": time.perf_counter() - started}))


if __name__ == "__main__":
    main()
