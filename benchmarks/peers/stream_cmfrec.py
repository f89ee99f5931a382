"""cmfrec's factorisation, learnt once, which folds in the users and items of a stream.

    python benchmarks/peers/stream_cmfrec.py ml-1m.zip time out.npz

Users with ratings in the stream are folded in before each batch, with all of theirs, and so are
items unknown to the fit; users and items that are both new are predicted by the biases that are
known. Writes predictions, and the seconds of processor time after the fit.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from cmfrec import CMF

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from stream_data import cut


def main() -> None:
    """Fit once, then fold in before each batch."""
    path, protocol, out = sys.argv[1:]
    learnt, batches = cut(Path(path), protocol)
    frame = pd.DataFrame({"UserId": learnt.user, "ItemId": learnt.item, "Rating": learnt.rating})
    model = CMF(k=40, lambda_=10.0, verbose=False, nthreads=1).fit(frame)
    users = {user: row for row, user in enumerate(np.asarray(model.user_mapping_).tolist())}
    items = {item: row for row, item in enumerate(np.asarray(model.item_mapping_).tolist())}
    mean = float(model.glob_mean_)
    swapped = model.swap_users_and_items()
    user_factor, item_factor = np.asarray(model.A_), np.asarray(model.B_)
    user_bias, item_bias = np.asarray(model.user_bias_), np.asarray(model.item_bias_)
    factors = {u: (user_factor[row], user_bias[row]) for u, row in users.items()}
    item_factors = {i: (item_factor[row], item_bias[row]) for i, row in items.items()}
    nothing = (np.zeros(user_factor.shape[1]), 0.0)
    of_user: dict[int, dict[int, int]] = {}
    of_item: dict[int, dict[int, int]] = {}
    columns = (column.tolist() for column in learnt[:3])
    for u, i, r in zip(*columns, strict=True):
        of_user.setdefault(u, {})[i] = r
    found, seconds = [], 0.0
    for batch in batches:
        rows = list(zip(batch.user.tolist(), batch.item.tolist(), strict=True))
        for user, item in rows:
            a, b = factors.get(user, nothing), item_factors.get(item, nothing)
            found.append(mean + a[1] + b[1] + float(a[0] @ b[0]))
        begun = time.process_time()
        for (user, item), r in zip(rows, batch.rating.tolist(), strict=True):
            of_user.setdefault(user, {})[item] = r
            if item not in items:
                of_item.setdefault(item, {})[user] = r
        for user in {user for user, _ in rows}:
            said = {i: r for i, r in of_user[user].items() if i in items}
            if said:
                factors[user] = warm(model, said)
        for item in {item for _, item in rows if item not in items}:
            said = {u: r for u, r in of_item[item].items() if u in users}
            if said:
                item_factors[item] = warm(swapped, said)
        seconds += time.process_time() - begun
    np.savez(out, prediction=np.array(found).clip(1, 5), seconds=seconds, how="folding in")


def warm(model: CMF, said: dict[int, int]) -> tuple[np.ndarray, float]:
    """Factors and bias of somebody, or something, with these ratings."""
    ids, values = np.array(list(said)), np.array(list(said.values()), float)
    factor, bias = model.factors_warm(X_col=ids, X_val=values, return_bias=True)
    return np.asarray(factor), float(bias)


if __name__ == "__main__":
    main()
