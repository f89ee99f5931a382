"""How long answers take: `OrdinalBM()` on MovieLens 1M, and the same with one machine.

    .venv/bin/python benchmarks/answers.py [--data ../shared/data/ml-1m.zip] [--again]

Models are learnt once from four fifths of the ratings and kept in benchmarks/.cache (`--again`
learns them anew). Times are the least of many calls, in one process, or of several fresh processes;
ratios are against the exponentials that exact answers would need (one for each machine, hidden unit
and level of a pair) and against Surprise's `predict` and implicit's `recommend`, in the same run.
Work that does not depend on the machine's mood, such as the items rated for a list, is counted.
Writes `benchmarks/results/answers.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from data import CACHE, DEFAULT_ZIP, HERE, cached_split, load_split
from numba.core.registry import cpu_target
from provenance import commit, cpu_model

import ordbm
from ordbm.inference.ensemble_tables import EnsembleTables

RESULTS = HERE / "results"
PAIRS = 200_000
STARTS = 9  # fresh processes
GIVEN = 20  # ratings of somebody new
RATIO = "bulk_by_exponentials"
BOUNDS = {  # milliseconds, but for the file and bulk
    "pair_ms": 1.0,
    "list_ms": 5.0,
    "new_list_ms": 15.0,
    "bulk_us": 8.0,
    RATIO: 4.0,
    "explain_ms": 10.0,
    "similar_items_ms": 2.0,
    "load_s": 0.5,
    "first_answer_s": 0.1,
    "file_mb": 90.0,
}
WORDS = {
    "pair_ms": "`predict_proba` of one pair, ms",
    "list_ms": "`recommend` for a known user, all items, ms",
    "new_list_ms": f"`recommend` for somebody new with {GIVEN} ratings, ms",
    "more_list_ms": "`recommend` for a known user with one rating more, ms",
    "bulk_us": "exact distributions in bulk, µs a pair",
    "bulk_by_exponentials": "the same by the time of its exponentials",
    "explain_ms": "`explain` one pair, ms",
    "similar_items_ms": "`similar_items`, ms",
    "all_lists_s": "`recommend_all` for all users, s",
    "numba_s": "Numba's own start, once a process, s",
    "load_s": "loading, s",
    "first_answer_s": "the first pair after loading, s",
    "first_list_s": "the first list after loading, s",
    "file_mb": "model file, MB",
    "rated_for_a_list": "items rated for a list, median of 200 users",
    "pair_by_surprise": "one pair by the time of Surprise's `predict`",
    "list_by_implicit": "a list by the time of implicit's `recommend`",
}


def least(ask: Callable[[], Any], times: int) -> float:
    """Seconds of the quickest of so many calls."""
    ask()
    found = []
    for _ in range(times):
        started = time.perf_counter()
        ask()
        found.append(time.perf_counter() - started)
    return min(found)


def learnt(split_path: Path, members: int | None, again: bool) -> Path:
    """The model file of this many machines; the default's without a number."""
    path = CACHE / f"answers-{members or 'default'}.ordbm"
    if again or not path.exists():
        split = load_split(split_path)
        ratings = ordbm.Ratings(
            split.train_user, split.train_item, split.train_rating, scale=[1, 2, 3, 4, 5]
        )
        ordbm.OrdinalBM(members=members).fit(ratings, progress=True).save(path)
    return path


def started(path: Path) -> tuple[ordbm.OrdinalBM, dict[str, float]]:
    """The model, and what a process takes until its first answers."""
    times = [time.perf_counter()]

    def lap() -> float:
        times.append(time.perf_counter())
        return times[-1] - times[-2]

    ordbm.OrdinalBM()  # imports are not what loading takes,
    lap()
    cpu_target.target_context.refresh()  # nor are those that Numba puts off to its first kernel
    cpu_target.typing_context.refresh()
    found = {"numba_s": lap()}
    model = ordbm.load(path)
    found["load_s"] = lap()
    user, item = model.users[7], model.items[9]
    lap()
    model.predict_proba(user, item)
    found["first_answer_s"] = lap()
    model.recommend(user)
    return model, found | {"first_list_s": lap()}


def figures(path: Path) -> dict[str, float]:
    """What one model takes, once it is loaded."""
    model, _ = started(path)
    users, items = list(model.users), list(model.items)
    rng = np.random.default_rng(0)
    model.warm_up()
    asked = [users[k] for k in rng.integers(0, len(users), PAIRS)]
    about = [items[k] for k in rng.integers(0, len(items), PAIRS)]
    rows = model.conditioned[0].ratings.by_user
    of_somebody = [items[code] for code in rows.columns_of(5)][:GIVEN]
    given = dict(zip(of_somebody, [5, 4, 3, 4, 5, 2, 1, 4, 5, 3] * 2, strict=False))
    one = model.machines[0]
    per_pair = len(model.machines) * sum(
        side.n_hidden * len(one.level_bias) for side in one.sides if side is not None
    )
    numbers = rng.normal(size=(100, per_pair)).astype(np.float32)
    bulk = least(lambda: model.predict_proba(asked, about), 3) / PAIRS
    exponentials = least(lambda: np.exp(numbers), 9) / len(numbers)
    other = next(item for item in items if item not in given)
    return {
        "pair_ms": 1e3 * least(lambda: model.predict_proba(users[5], items[7]), 200),
        "list_ms": 1e3 * least(lambda: model.recommend(users[5]), 100),
        "new_list_ms": 1e3 * least(lambda: model.recommend(ratings=given), 30),
        "more_list_ms": 1e3 * least(lambda: model.recommend(users[5], ratings={other: 5}), 20),
        "bulk_us": 1e6 * bulk,
        "bulk_by_exponentials": bulk / exponentials,
        "explain_ms": 1e3 * least(lambda: model.explain(users[5], items[7]), 20),
        "similar_items_ms": 1e3 * least(lambda: model.similar_items(items[7]), 50),
        "all_lists_s": least(lambda: model.recommend_lists(n=10), 1),
        "file_mb": path.stat().st_size / 1e6,
        "rated_for_a_list": rated_for_a_list(model, users[:200]),
    }


def rated_for_a_list(model: ordbm.OrdinalBM, users: list[Any]) -> float:
    """How many pairs are rated exactly to make a list of ten: the median over users."""
    counts: list[int] = []
    real = EnsembleTables.probabilities

    def counted(tables: EnsembleTables, people: Any, person: Any, item: Any) -> Any:
        counts[-1] += len(item)
        return real(tables, people, person, item)

    EnsembleTables.probabilities = counted  # type: ignore[method-assign]
    try:
        for user in users:
            counts.append(0)
            model.recommend(user)
    finally:
        EnsembleTables.probabilities = real  # type: ignore[method-assign]
    return float(np.median(counts))


def in_new_processes(path: Path) -> dict[str, float]:
    """All figures; those of starting are the least of several processes.

    The first process compiles what is not in the cache, and the system may be slow to give a
    process memory that it has not used before.
    """

    def asked(what: str) -> dict[str, float]:
        command = [sys.executable, __file__, what, str(path)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
        return json.loads(out.splitlines()[-1])

    found = asked("--figures")
    starts = [asked("--start") for _ in range(STARTS)]
    return found | {name: min(start[name] for start in starts) for name in starts[0]}


def peers(split_path: Path) -> dict[str, float]:
    """Seconds of one `predict` of Surprise and one `recommend` of implicit."""
    found = {}
    scripts = {"surprise": ("peers", SURPRISE), "implicit": ("peers-rankers", IMPLICIT)}
    for name, (environment, script) in scripts.items():
        python = subprocess.run(  # noqa: S603
            [HERE / "environment", environment], check=True, capture_output=True, text=True
        ).stdout.strip()
        out = subprocess.run(  # noqa: S603
            [python, "-c", script, str(split_path)], check=True, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(HERE), "OPENBLAS_NUM_THREADS": "1"},
        ).stdout  # fmt: skip
        found[name] = float(out.splitlines()[-1])
    return found


LEAST = """
import sys, time
from pathlib import Path
from data import load_split
split = load_split(Path(sys.argv[1]))
def least(ask, times):
    ask()
    found = []
    for _ in range(times):
        started = time.perf_counter()
        ask()
        found.append(time.perf_counter() - started)
    return min(found)
"""
SURPRISE = (
    LEAST
    + """
import pandas as pd, surprise
frame = pd.DataFrame({"u": split.train_user, "i": split.train_item, "r": split.train_rating})
train = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=(1, 5)))
model = surprise.SVD(n_epochs=5, random_state=0).fit(train.build_full_trainset())
print(least(lambda: model.predict(5, 7), 2000))
"""
)
IMPLICIT = (
    LEAST
    + """
import implicit.als, numpy as np
from scipy.sparse import csr_matrix
ones = np.ones(len(split.train_user), np.float32)
rated = csr_matrix((ones, (split.train_user, split.train_item)))
model = implicit.als.AlternatingLeastSquares(random_state=0, iterations=5, num_threads=2)
model.fit(rated, show_progress=False)
print(least(lambda: model.recommend(5, rated[5], N=10), 500))
"""
)


def page(found: dict[str, Any]) -> str:
    """The report."""
    lines = [
        "# How long answers take",
        "",
        (
            f"`{found['command']}`, commit {found['commit']}, {found['processor']}, "
            f"{found['cores']} cores. Least of many calls in one process, or of {STARTS} fresh "
            "processes for starting, loading and first answers; ratios are of one run."
        ),
        "",
        "| | `OrdinalBM()` | to reach | `members=1` | to reach | of the default's |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, words in WORDS.items():
        whole, single = found["default"].get(name), found["single"].get(name)
        if whole is None:
            continue
        bound = f"≤ {BOUNDS[name]:g}" if name in BOUNDS else ""
        quarter = f"≤ {BOUNDS[name] / 4:g}" if name in BOUNDS and name != RATIO else ""
        share = "" if single is None else f"{single / whole:.2f}"
        alone = "" if single is None else f"{single:.3g}"
        lines.append(f"| {words} | {whole:.3g} | {bound} | {alone} | {quarter} | {share} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DEFAULT_ZIP)
    parser.add_argument("--again", action="store_true", help="learn the models anew")
    parser.add_argument("--figures", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--start", type=Path, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.figures or told.start:
        print(json.dumps(figures(told.figures) if told.figures else started(told.start)[1]))
        return
    split_path = cached_split(told.data, 0)
    paths = {
        name: learnt(split_path, members, told.again)
        for name, members in (("default", None), ("single", 1))
    }
    found: dict[str, Any] = {name: in_new_processes(path) for name, path in paths.items()}
    timed = peers(split_path)
    for name in ("default", "single"):
        found[name]["pair_by_surprise"] = found[name]["pair_ms"] / 1e3 / timed["surprise"]
        found[name]["list_by_implicit"] = found[name]["list_ms"] / 1e3 / timed["implicit"]
    found |= {
        "peers_s": timed, "commit": commit(), "processor": cpu_model(), "cores": os.cpu_count(),
        "command": "benchmarks/answers.py",
    }  # fmt: skip
    (RESULTS / "answers.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "answers.md").write_text(page(found))
    print(page(found))


if __name__ == "__main__":
    main()
