"""Settings of ordbm tried on validation ratings: how its defaults are chosen.

    benchmarks/trials [--data filmtrust,ml-100k-u*] [--trials members,habit:*=0.5] [--plan]

A trial (see `trials_list.py`) learns from the training ratings of a split without those marked for
validation, and is scored on these; test ratings are never opened. A finished run is at once a row
of `benchmarks/results/trials.jsonl`, known by all its settings in force, the split and the seed:
starting again does what is missing, also after a default has changed. `trials.md` is written from
the rows.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accuracy import FILES, RESULTS, chosen, stored_rows, told
from data import CACHE, HERE, stopwatch
from provenance import commit, cpu_model
from scoring import LEAST, scores
from splits import DATA_SETS, Stored, split
from trials_list import DEFAULT, GROUPS, TRIALS, Trial, wanted_trials
from trials_report import CSR, Row, Table, identity, page

import ordbm
from ordbm.errors import OrdbmError

sys.path.insert(0, str(HERE / "peers"))
from protocol import RatingsPart, training
from rate_ordbm import about, warm_up

PARTS = 50  # of the validation users, from which the error of a log-loss is estimated
Key = tuple[str, int, str, str]  # data set, seed, checksum of the split, settings in force
USUAL = "filmtrust,movielens-small,ml-100k-u1,ml-100k-u2,ml-1m-80,ml-1m-given*"


class Run(NamedTuple):
    """A trial on a split, whose seed is also that of the machines."""

    data: str
    seed: int
    stored: Stored
    n_ratings: int  # to learn from
    trial: Trial

    @property
    def in_force(self) -> dict[str, Any]:
        return {**self.trial.in_force(self.n_ratings), "seed": self.seed}

    @property
    def key(self) -> Key:
        return self.data, self.seed, self.stored.about["split_sha256"], identity(self.in_force)


def runs_of(stored: dict[tuple[str, int], Stored], trials: Sequence[Trial]) -> dict[Key, Run]:
    """Split by split; trials that come to the same settings there are one run."""
    found: dict[Key, Run] = {}
    for (data, seed), made in stored.items():
        _, marked = training(made.train)
        for trial in trials:
            run = Run(data, seed, made, int((~marked).sum()), trial)
            found.setdefault(run.key, run)
    return found


def finished(path: Path, code: str | None = None) -> dict[Key, Row]:
    """The rows there are, the latest of each run; those of this code alone if it is given."""
    return {
        (row["data"], row["seed"], row["split_sha256"], identity(row["in_force"])): row
        for row in stored_rows(path)
        if code is None or row["code_sha256"] == code
    }


def validation_answers(validation: RatingsPart, stored: Stored) -> Path:
    """A file of validation ratings for the scorer, which then treats them as test ratings."""
    path = CACHE / "validation" / f"{stored.folder.name}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, level=validation.level, values=validation.values)
    return path


def log_loss_parts(prediction: np.ndarray, validation: RatingsPart) -> list[float]:
    """PARTS numbers whose mean is the log-loss, each from users of its own.

    How differently they change between two trials gives the standard error of the change, without
    a loss kept per rating.
    """
    likelihood = prediction[np.arange(len(validation.level)), validation.level]
    loss = -np.log(np.maximum(likelihood, LEAST))
    sums = np.bincount(validation.user % PARTS, loss, PARTS)
    return [round(float(part), 6) for part in sums * PARTS / len(loss)]


def row_of(run: Run, provenance: Row) -> Row:
    """Learn, predict, score, and say how it was made."""
    load = os.getloadavg()[0]
    ratings, marked = training(run.stored.train)
    known, validation = ratings.select(~marked), ratings.select(marked)
    train = ordbm.Ratings(known.user, known.item, known.rating, scale=known.values)
    warm_up(known, **{**run.trial.settings, "epochs": 1})
    model = ordbm.OrdinalBM(**run.trial.arguments, seed=run.seed)
    with stopwatch() as fitting:
        model.fit(train)
    if model.interrupted:
        raise KeyboardInterrupt  # half a training is no result
    prediction = model.predict_proba(validation.user, validation.item)
    command = ["benchmarks/trials", "--data", run.data, "--trials", run.trial.name]
    return {
        "data": run.data,
        "seed": run.seed,
        "trial": run.trial.name,
        "settings": run.trial.settings,
        **scores(prediction, validation_answers(validation, run.stored)),
        "log_loss_parts": log_loss_parts(prediction, validation),
        "fit_seconds": fitting.wall,
        "fit_cpu_seconds": fitting.cpu,
        "in_force": run.in_force,
        "n_fitted": len(known.level),
        "n_validation": len(validation.level),
        "file_sha256": run.stored.about["file_sha256"],
        "split_sha256": run.stored.about["split_sha256"],
        "command": shlex.join([*command, "--seeds", str(run.seed)]),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": round(load, 2),
        **provenance,
    }


def provenance_now() -> Row:
    """What ran; asked once at the start, as the code is then loaded and may change on the disk."""
    return {
        "commit": commit(),
        "code_sha256": about()["code_sha256"],
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("ordbm", "numba", "numpy")},
        },
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
    }


def work(in_force: dict[str, Any], n_ratings: int) -> float:
    """What a training costs, up to a factor."""
    hidden = in_force["hidden"]
    units = sum(hidden) if isinstance(hidden, list) else 2 * hidden
    return float(n_ratings * in_force["members"] * in_force["epochs"] * (units + 50))


def expected_seconds(run: Run, rows: dict[Key, Row]) -> float | None:
    """By a row of about as many ratings, of the same settings if there is one."""
    settings = run.key[-1]

    def distance(key: Key) -> tuple[float, bool]:
        return abs(round(np.log(rows[key]["n_fitted"] / run.n_ratings))), key[-1] != settings

    if not rows:
        return None
    row = rows[min(rows, key=distance)]
    share = work(run.in_force, run.n_ratings) / work(row["in_force"], row["n_fitted"])
    return float(row["fit_seconds"] * share)


def write_page(results: Path) -> None:
    """The page beside the rows: of each trial, the row of its settings on each split."""
    rows = finished(results)
    splits = {(row["data"], row["seed"]): row for row in rows.values() if row["data"] in DATA_SETS}

    def rows_of(trial: Trial) -> CSR:
        found = {}
        for place, one in splits.items():
            key = (*place, one["split_sha256"], identity(trial.in_force(one["n_fitted"])))
            if key in rows:
                found[place] = rows[key]
        return found

    tables = [
        Table(name, GROUPS[name].question, {one.label: rows_of(one) for one in trials})
        for name, trials in TRIALS.items()
    ]
    results.with_suffix(".md").write_text(page(tables, rows_of(DEFAULT)))


def main() -> None:
    """Run what is missing and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])

    def several(text: str) -> list[str]:
        return text.split(",")

    parser.add_argument(
        "--data", type=several, default=several(USUAL), help=f"data sets, by pattern ({USUAL})"
    )
    parser.add_argument(
        "--trials", type=several, default=["*"], help="groups, or group:trial, by pattern"
    )
    parser.add_argument("--seeds", type=several, default=["0"], help="of splits and machines")
    parser.add_argument("--files", type=Path, default=FILES, help="folder of the data files")
    parser.add_argument("--plan", action="store_true", help="list the runs with expected times")
    parser.add_argument(
        "--again", action="store_true", help="do again what other code than this has done"
    )
    parser.add_argument("--results", type=Path, default=RESULTS / "trials.jsonl")
    arguments = parser.parse_args()

    stored = {
        (data, int(seed)): split(data, int(seed), arguments.files)
        for data in chosen(list(DATA_SETS), arguments.data)
        for seed in arguments.seeds
    }
    wanted = runs_of(stored, wanted_trials(arguments.trials))
    provenance = provenance_now()
    code = provenance["code_sha256"] if arguments.again else None
    done = finished(arguments.results, code)
    missing = [run for key, run in wanted.items() if key not in done]
    started, failed = time.perf_counter(), 0
    for number, run in enumerate(missing):
        if run.key in finished(arguments.results, code):
            continue  # another process has done it meanwhile
        rows = finished(arguments.results)
        expected = [expected_seconds(one, rows) for one in missing[number:]]
        left = None if None in expected else sum(expected)
        print(
            f"[{number + 1}/{len(missing)}] {run.data} seed {run.seed} {run.trial.name}, expected "
            f"{told(expected[0])}, in all {told(left)} left",
            flush=True,
        )
        if arguments.plan:
            continue
        try:
            row = row_of(run, provenance)
        except KeyboardInterrupt:
            sys.exit("stopped; starting again goes on from here")
        except OrdbmError as error:
            failed += 1
            print(f"  failed: {error}", flush=True)
            continue
        with arguments.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(
            f"  log-loss {row['log_loss']:.4f}  RMSE {row['rmse']:.4f}  MAE {row['mae']:.4f}  "
            f"fit {told(row['fit_seconds'])}",
            flush=True,
        )
        write_page(arguments.results)
    if not arguments.plan:
        write_page(arguments.results)
        print(f"{told(time.perf_counter() - started)}; {failed} failed; {arguments.results}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
