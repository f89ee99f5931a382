"""Dense continuous ratings: `OrdinalBM()` beside myFM's regression.

    .venv/bin/python benchmarks/continuous.py [--sets jokes,factors] [--members 1]

No public set of this kind may be shipped, so these stand in: ratings simulated by a factor model
whose users and items are noisy to different degrees ("factors"); the same with scales of their own,
long tails and clipping, as of jokes rated on a slider ("jokes"); mixtures of few kinds of people
over kinds of items ("clusters"); the densest block of MovieLens 100K, its ratings taken as real
numbers ("ml-100k-dense"); and sliders with a middle and a reach of each user's own ("sliders"). A
fifth is the test, an eighth of the rest validation, on which myFM's rank is chosen; both are then
learnt from. Predictions are kept within the ratings learnt from. Some sets are measured and kept in
the cache; all of them also written, to `benchmarks/results/continuous.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from data import CACHE, HERE
from provenance import commit, cpu_model
from splits import columns_of

import ordbm

RESULTS = HERE / "results"
FILES = HERE.parent.parent / "shared" / "data"
RANKS = (4, 8, 12)
DRAWS = 120

Table = tuple[np.ndarray, np.ndarray, np.ndarray]  # users, items, ratings


def rated(rng: np.random.Generator, n_users: int, n_items: int, share: float) -> np.ndarray:
    """Pairs (2, N): some rate more than others, and some items are rated more."""
    of_user, of_item = np.exp(rng.normal(0, 0.35, n_users)), np.exp(rng.normal(0, 0.4, n_items))
    chance = np.clip(share * np.multiply.outer(of_user, of_item), 0.03, 0.97)
    return np.array(np.nonzero(rng.random(chance.shape) < chance))


def factors(n_users: int = 1200, n_items: int = 100) -> Table:
    """Biases, eight factors, and noise of each user and item."""
    rng = np.random.default_rng(10)
    user, item = rated(rng, n_users, n_items, 0.5)
    size = np.array([1.0, 0.8, 0.7, 0.5, 0.4, 0.3, 0.3, 0.2])
    taste, kind = rng.normal(size=(n_users, 8)) * size, rng.normal(size=(n_items, 8))
    mean = rng.normal(size=n_users)[user] + 0.8 * rng.normal(size=n_items)[item]
    mean += (taste[user] * kind[item]).sum(axis=1)
    noise = np.exp(rng.normal(0, 0.4, n_users))[user] * np.exp(rng.normal(0, 0.25, n_items))[item]
    return user, item, 3 * (mean + 1.8 * noise * rng.normal(size=len(user)))


def jokes(n_users: int = 1500, n_items: int = 100) -> Table:
    """Six factors on a scale of each user's own, noise with long tails, squeezed into -10..10."""
    rng = np.random.default_rng(20)
    user, item = rated(rng, n_users, n_items, 0.5)
    size = np.array([1.0, 0.7, 0.5, 0.4, 0.3, 0.3])
    taste, kind = rng.normal(size=(n_users, 6)) * size, 0.7 * rng.normal(size=(n_items, 6))
    liked = 0.25 + 0.5 * rng.normal(size=n_users)[user] + 0.45 * rng.normal(size=n_items)[item]
    liked += (taste[user] * kind[item]).sum(axis=1) + 0.9 * rng.standard_t(5, size=len(user))
    squeezed = np.tanh(np.exp(rng.normal(0, 0.45, n_users))[user] * liked * 0.4)
    return user, item, np.clip(10 * squeezed + 0.4 * rng.normal(size=len(user)), -10, 10).round(2)


def clusters(n_users: int = 1000, n_items: int = 150) -> Table:
    """Everybody is a mixture of two of 25 kinds of people; items are of twelve kinds."""
    rng = np.random.default_rng(30)
    user, item = rated(rng, n_users, n_items, 0.35)
    first, second = rng.integers(25, size=(2, n_users))
    share, kind = rng.beta(0.6, 0.6, size=n_users)[user], rng.integers(12, size=n_items)[item]
    opinion, own = 1.2 * rng.normal(size=(25, 12)), 0.4 * rng.normal(size=(25, n_items))
    mean = share * opinion[first[user], kind] + (1 - share) * opinion[second[user], kind]
    mean += own[first[user], item] + 0.6 * rng.normal(size=n_users)[user]
    mean += 0.5 * rng.normal(size=n_items)[item]
    noise = 1.1 * np.exp(rng.normal(0, 0.3, n_users))[user] * rng.normal(size=len(user))
    return user, item, 50 + 12 * (mean + noise)


def ml_100k_dense(n_users: int = 400, n_items: int = 300) -> Table:
    """The ratings of those who rate most of what is rated most."""
    user, item, rating = columns_of(FILES / "ml-100k.zip", "ml-100k/u.data").T
    often = [np.argsort(-np.bincount(ids.astype(int)), kind="stable") for ids in (user, item)]
    kept = np.isin(user, often[0][:n_users]) & np.isin(item, often[1][:n_items])
    user, item = (np.unique(ids[kept], return_inverse=True)[1] for ids in (user, item))
    return user, item, rating[kept]


def sliders(n_users: int = 900, n_items: int = 60) -> Table:
    """A slider from 0 to 100: few factors, a middle and a reach of each user's own, ends in favour.

    Written down after all settings were chosen.
    """
    rng = np.random.default_rng(40)
    user, item = rated(rng, n_users, n_items, 0.65)
    taste, kind = rng.laplace(size=(n_users, 4)), rng.normal(size=(n_items, 4))
    liked = 0.5 * (taste[user] * kind[item]).sum(axis=1) + 0.6 * rng.normal(size=n_items)[item]
    liked += 0.8 * rng.logistic(size=len(user)) * np.exp(rng.normal(0, 0.3, n_items))[item]
    reach, middle = rng.gamma(4, 0.25, n_users)[user], 0.5 * rng.normal(size=n_users)[user]
    place = 1 / (1 + np.exp(-(middle + reach * liked)))
    return user, item, np.clip(104 * place - 2, 0, 100).round(1)


SETS = {
    "factors": factors,
    "jokes": jokes,
    "clusters": clusters,
    "ml-100k-dense": ml_100k_dense,
    "sliders": sliders,
}

MYFM = """
import json, sys
import myfm, numpy as np
from scipy.sparse import csr_matrix
split = np.load(sys.argv[1])
user, item, rating = split["user"], split["item"], split["rating"]
n_users, n_items = int(user.max()) + 1, int(item.max()) + 1
def features(rows):
    columns = np.stack([user[rows], n_users + item[rows]], axis=1).ravel()
    place = (np.repeat(np.arange(len(rows)), 2), columns)
    return csr_matrix((np.ones(2 * len(rows)), place), shape=(len(rows), n_users + n_items))
def error(rank, known, asked):
    model = myfm.MyFMRegressor(rank, random_seed=0)
    model.fit(features(known), rating[known], n_iter=DRAWS, n_kept_samples=DRAWS - DRAWS // 10,
              group_shapes=[n_users, n_items])
    low, high = rating[known].min(), rating[known].max()
    found = np.clip(model.predict(features(asked)), low, high)
    return float(np.sqrt(np.mean((found - rating[asked]) ** 2)))
train, validation = split["train"], split["validation"]
tried = {rank: error(rank, train, validation) for rank in RANKS}
rank = min(tried, key=tried.get)
both = np.concatenate([train, validation])
print(json.dumps({"rank": rank, "rmse": error(rank, both, split["test"])}))
"""


def stored(name: str) -> Path:
    """The split, in a file that both can read."""
    user, item, rating = SETS[name]()
    order = np.random.default_rng(0).permutation(len(rating))
    test, validation, train = np.split(order, [len(order) // 5, len(order) // 5 + len(order) // 10])
    path = CACHE / f"continuous-{name}.npz"
    CACHE.mkdir(exist_ok=True)
    parts = {"train": train, "validation": validation, "test": test}
    np.savez(path, user=user, item=item, rating=rating, **parts)
    return path


def ours(path: Path, members: int | None) -> float:
    """RMSE of `OrdinalBM()` on the test ratings."""
    split = np.load(path)
    user, item, rating = split["user"], split["item"], split["rating"]
    known, asked = np.concatenate([split["train"], split["validation"]]), split["test"]
    scale = ordbm.ContinuousScale.of(rating[known])
    model = ordbm.OrdinalBM(members=members, presence=False)
    model.fit(ordbm.Ratings(user[known], item[known], rating[known], scale=scale))
    found = model.predict(user[asked], item[asked])
    found = np.clip(found, rating[known].min(), rating[known].max())
    return float(np.sqrt(np.mean((found - rating[asked]) ** 2)))


def myfm(path: Path) -> dict[str, Any]:
    """myFM's rank and RMSE."""
    python = subprocess.run(  # noqa: S603
        [HERE / "environment", "peers"], check=True, capture_output=True, text=True
    ).stdout.strip()
    script = MYFM.replace("DRAWS", str(DRAWS)).replace("RANKS", repr(RANKS))
    out = subprocess.run(  # noqa: S603
        [python, "-c", script, str(path)], check=True, capture_output=True, text=True
    ).stdout
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def page(found: dict[str, Any]) -> str:
    """The report."""
    lines = [
        "# Continuous ratings",
        "",
        (
            f"`{found['command']}`, commit {found['commit']}, {found['processor']}: RMSE on test "
            "ratings; what the sets are is in the script."
        ),
        "",
        "| data | ratings | ordbm | myFM's regression | its rank | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, row in found["sets"].items():
        ratio = row["ours"] / row["myfm"]["rmse"]
        lines.append(
            f"| {name} | {row['ratings']:,} | {row['ours']:.4f} | {row['myfm']['rmse']:.4f} | "
            f"{row['myfm']['rank']} | {ratio:.4f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS))
    parser.add_argument("--members", type=int, help="machines; the default's without")
    told = parser.parse_args()
    command = "benchmarks/continuous.py" + (f" --members {told.members}" if told.members else "")
    place = CACHE / f"continuous-{commit()}-{told.members or 0}.json"
    rows = json.loads(place.read_text()) if place.exists() else {}
    for name in told.sets:
        if name in rows:
            continue
        path = stored(name)
        rows[name] = {
            "ratings": len(np.load(path)["rating"]),
            "ours": ours(path, told.members),
            "myfm": myfm(path),
        }
        print(name, rows[name], flush=True)
        place.write_text(json.dumps(rows))
    if told.sets != list(SETS):
        return
    found = {
        "sets": {name: rows[name] for name in SETS},
        "command": command, "commit": commit(), "processor": cpu_model(),
    }  # fmt: skip
    (RESULTS / "continuous.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "continuous.md").write_text(page(found))
    print(page(found))


if __name__ == "__main__":
    main()
