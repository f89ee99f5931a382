"""One measurement of the presence benchmark, in a process of its own. Prints JSON.

    python benchmarks/presence_measure.py '{"part": "fit", "data": "ml-1m", ...}' --files FOLDER

Everything is compiled before it is timed, on a few ratings.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
from data import sha256, stopwatch
from kept import MACHINES, kept
from protocol import peak_gb
from rate_ordbm import WARM_UP, about
from scipy.special import expit
from splits import DATA_SETS

import ordbm
from ordbm.metrics.bootstrap import percentile_interval, resampled_ratios
from ordbm.model.presence import ConditionedPresence, Presence, fold_in_presence
from ordbm.model.settings import Settings
from ordbm.runtime.threads import thread_count
from ordbm.training.presence_learning import learn_presence

Found = dict[str, Any]

WHOLE = "all"
SETS = {"ml-1m": DATA_SETS["ml-1m-80"], "netflix": DATA_SETS["netflix"]}  # of which all is used
NEWCOMERS = 0.1  # of the users
EDGES = np.geomspace(1e-4, 1, 17)  # of the bins of P(rated): four a decade; less is in the first
N = 10  # items of a list
SCORES = ("liked", "rated")


# --- data -----------------------------------------------------------------------------------------


def ratings_of(files: Path, data: str, size: str, seed: int) -> ordbm.Ratings:
    """All ratings, or those of users drawn until there are `size` millions of ratings."""
    table = SETS[data].read(files / SETS[data].file)
    columns = [table.user, table.item, table.rating]
    if size != WHOLE:
        _, user, counts = np.unique(table.user, return_inverse=True, return_counts=True)
        order = np.random.default_rng(seed).permutation(len(counts))
        enough = 1 + np.searchsorted(np.cumsum(counts[order]), 1e6 * float(size))
        drawn = np.zeros(len(counts), bool)
        drawn[order[:enough]] = True
        columns = [column[drawn[user]] for column in columns]
    return ordbm.Ratings(*columns, scale=np.unique(table.rating))


def some_ratings() -> ordbm.Ratings:
    """A few, to compile with."""
    return ordbm.load_dataset("movielens-small").select(np.arange(WARM_UP))


def counts(ratings: ordbm.Ratings) -> Found:
    """How large the data are."""
    return {"ratings": len(ratings), "users": ratings.n_users, "items": ratings.n_items}


def learnt_presence(ratings: ordbm.Ratings, seed: int, budget: float | None = None) -> Presence:
    """Presence alone, as `OrdinalBM()` learns it."""
    told = Settings()
    return learn_presence(
        ratings.by_user,
        ratings.n_items,
        precision=told.presence_precision,
        budget=told.presence_budget if budget is None else budget,
        seed=seed,
        threads=thread_count(None),
        tell=lambda _: None,
        rules=told.presence_rules,
    )


# --- the parts ------------------------------------------------------------------------------------


def reliability(files: Path, data: str, size: str, seed: int) -> Found:
    """P(rated) of people whom the machine has never seen, beside whether they rated."""
    ratings = ratings_of(files, data, size, seed)
    order = np.random.default_rng(seed).permutation(ratings.n_users)
    newcomers = np.sort(order[: max(1, round(NEWCOMERS * len(order)))])
    is_known = ~np.isin(ratings.user_codes, newcomers)
    item_ids = np.array(list(ratings.items))
    known = ordbm.Ratings(
        ratings.user_codes[is_known],
        item_ids[ratings.item_codes[is_known]],
        ratings.values[is_known],
        scale=ratings.scale,
    )
    started = time.perf_counter()
    conditioned = ConditionedPresence(
        learnt_presence(known, seed), known.by_user, thread_count(None)
    )
    place = known.items.codes(item_ids)
    sums: dict[str, list[np.ndarray]] = {"given": [], "left out": []}
    n_unknown = 0
    for user in newcomers:
        row = slice(*ratings.by_user.start[[user, user + 1]])
        items = place[ratings.by_user.column[row]]
        n_unknown += int((items < 0).sum())
        items = items[items >= 0]
        rated = np.zeros(known.n_items, bool)
        rated[items] = True
        given = proba_of(conditioned, items)
        left_out = given.copy()
        for item in items:
            left_out[item] = proba_of(conditioned, items[items != item])[item]
        sums["given"].append(user_sums(given, rated))
        sums["left out"].append(user_sums(left_out, rated))
    return {
        **counts(ratings),
        "newcomers": len(newcomers),
        "unknown_items": n_unknown,
        "run_seconds": time.perf_counter() - started,
        "curves": {name: curve(np.array(one), seed) for name, one in sums.items()},
    }


def proba_of(conditioned: ConditionedPresence, items: np.ndarray) -> np.ndarray:
    """P(rated) of every item for somebody new who rated these, (items,)."""
    odds = fold_in_presence(conditioned, items).log_odds(np.zeros(1, np.int32))[0]
    return expit(odds.astype(np.float64))


def user_sums(proba: np.ndarray, rated: np.ndarray) -> np.ndarray:
    """Pairs, summed probability and rated pairs in each bin, (3, bins)."""
    n_bins = len(EDGES) - 1
    place = np.clip(np.searchsorted(EDGES, proba) - 1, 0, n_bins - 1)
    return np.array([np.bincount(place, weight, n_bins) for weight in (None, proba, rated)])


def curve(sums: np.ndarray, seed: int) -> Found:
    """Predicted and observed shares by bin, with intervals over samples of newcomers; the error.

    `sums` is (newcomers, 3, bins).
    """
    total = sums.sum(axis=0)
    shown = total[0] > 0
    count, predicted, observed = total[:, shown]
    samples = resampled_ratios(sums[:, 2, shown], sums[:, 0, shown], seed=seed)
    gap = np.abs(predicted - observed).sum()
    return {
        "low_edge": np.where(np.arange(len(shown)) > 0, EDGES[:-1], 0)[shown].tolist(),
        "high_edge": EDGES[1:][shown].tolist(),
        "count": count.astype(int).tolist(),
        "predicted": (predicted / count).tolist(),
        "observed": (observed / count).tolist(),
        "interval": [percentile_interval(column) for column in samples.T],
        "expected_calibration_error": float(gap / count.sum()),
        "error_per_rating": float(gap / observed.sum()),
    }


def fit(files: Path, data: str, size: str, seed: int) -> Found:
    """A whole fit without presence and with it, one after the other."""
    ratings = ratings_of(files, data, size, seed)
    ordbm.OrdinalBM(epochs=1).fit(some_ratings())
    found: Found = {**counts(ratings)}
    for name, presence in (("without", False), ("with", True)):
        with stopwatch() as took:
            ordbm.OrdinalBM(seed=seed, presence=presence).fit(ratings)
        found[f"{name}_seconds"], found[f"{name}_cpu_seconds"] = took.wall, took.cpu
    return {**found, **about(seed=seed), "peak_gb": peak_gb()}


def growth(files: Path, data: str, size: str, seed: int, share: float) -> Found:
    """Presence alone, with a share of the work of links."""
    ratings = ratings_of(files, data, size, seed)
    some = some_ratings()
    learnt_presence(some, seed, share * linked_work(some))
    budget = share * linked_work(ratings) if share < 1 else np.inf
    with stopwatch() as took:
        presence = learnt_presence(ratings, seed, budget)
    return {
        **counts(ratings),
        "linked": len(presence.linked),
        "seconds": took.wall,
        "cpu_seconds": took.cpu,
    }


def linked_work(ratings: ordbm.Ratings) -> float:
    """Links that a pass over all users looks at: ratings of linked items times these."""
    rules = Settings().presence_rules
    count = np.sort(np.diff(ratings.by_item.start))[::-1][: rules.most_linked]
    count = count[count >= rules.least_linked]
    return float(count.sum() * len(count))


def machine(files: Path, data: str, size: str, seed: int) -> Found:
    """A default machine that is kept for the lists, and what its fit took."""
    name = f"presence-{data}-{sha256(files / SETS[data].file)[:8]}-{size}-seed{seed}"
    ratings = ratings_of(files, data, size, seed)
    ordbm.OrdinalBM(epochs=1).fit(some_ratings())
    settings = {"seed": seed}
    _, took = kept(name, settings, lambda: ordbm.OrdinalBM(**settings).fit(ratings))
    return {"name": name, **counts(ratings), **took}


def lists(name: str) -> Found:
    """Lists for everybody by a machine that is loaded from its file, which is all this reads."""
    few = ordbm.OrdinalBM(epochs=1, members=1).fit(some_ratings())
    for score in SCORES:
        few.recommend_lists(n=N, by=score)
    started = time.perf_counter()
    model = ordbm.load(MACHINES / f"{name}.ordbm")
    found: Found = {"load_seconds": time.perf_counter() - started, "load_peak_gb": peak_gb()}
    for score in SCORES:  # the first also works out what the machine keeps from then on
        with stopwatch() as took:
            listed = model.recommend_lists(n=N, by=score)
        found[f"{score}_seconds"], found[f"{score}_cpu_seconds"] = took.wall, took.cpu
        found["users"] = len(listed)
        del listed
    return {**found, "members": len(model.machines), "peak_gb": peak_gb()}


PARTS = {
    "reliability": reliability, "fit": fit, "growth": growth, "machine": machine, "lists": lists,
}  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measurement", type=json.loads, help="JSON")
    parser.add_argument("--files", type=Path, required=True, help="folder of the data files")
    arguments = parser.parse_args()
    told = dict(arguments.measurement)
    part = told.pop("part")
    where = {} if part == "lists" else {"files": arguments.files}
    packages = ("ordbm", "numba", "numpy", "scipy")
    print(
        json.dumps(
            {
                "code_sha256": about()["code_sha256"],
                **PARTS[part](**where, **told),
                "versions": {
                    "python": platform.python_version(),
                    **{name: importlib.metadata.version(name) for name in packages},
                },
            }
        )
    )


if __name__ == "__main__":
    main()
