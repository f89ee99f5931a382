"""The accuracy benchmark: ordbm and its peers on the same splits, by the same scorer.

    benchmarks/accuracy [--data filmtrust,ml-100k-u*] [--models ours,myfm-*:*draws200] [--plan]
    benchmarks/accuracy --models '*:budget*'   settings for budgets of time, left out otherwise

Each run is a process of its own, in the model's environment. A finished run is a row of
`benchmarks/results/accuracy.jsonl`; starting again goes on with those that are missing, and
`--again ours` does some afresh. `accuracy.md` is written from the rows after each run.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import presets
from accuracy_report import page
from data import CACHE, HERE
from models import BUDGET_DATA, BUDGETS, MODELS, OURS, is_for_budget, settings_of
from provenance import commit, cpu_model
from scoring import scores
from splits import DATA_SETS, Stored, split

sys.path.insert(0, str(HERE / "peers"))  # of the reader of splits
RESULTS = HERE / "results"
PREDICTIONS = CACHE / "predictions"
FILES = HERE.parent.parent / "shared" / "data"
QUIET = {"TQDM_DISABLE": "1", "LK_LOG_LEVEL": "ERROR"}

Row = dict[str, Any]


class Run(NamedTuple):
    """A model with a setting on a split."""

    data: str
    seed: int
    model: str
    setting: str

    @property
    def name(self) -> str:
        return f"{self.model}:{self.setting}"

    @property
    def settings(self) -> dict[str, Any]:
        return settings_of(self.model)[self.setting]

    def is_of(self, row: Row) -> bool:
        return self == (row["data"], row["seed"], row["model"], row["setting"])


# --- what to run ----------------------------------------------------------------------------------


def chosen(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The names that fit a pattern, `model:setting` also by the model alone; none is an error."""

    def fits(name: str, pattern: str) -> bool:
        return fnmatchcase(name, pattern) or fnmatchcase(name.partition(":")[0], pattern)

    for pattern in patterns:
        if not any(fits(name, pattern) for name in names):
            raise SystemExit(f"nothing is called {pattern!r}; there are: {', '.join(names)}")
    return [name for name in names if any(fits(name, pattern) for pattern in patterns)]


def chosen_models(patterns: Sequence[str]) -> list[str]:
    """`model:setting` by pattern; settings for a time budget only by patterns that name them."""
    ordinary = [f"{model}:{setting}" for model in MODELS for setting in MODELS[model].settings]
    budgets = [f"{model}:{setting}" for model in BUDGETS for setting in BUDGETS[model]]
    asked = [pattern for pattern in patterns if ":budget" in pattern]
    others = [pattern for pattern in patterns if ":budget" not in pattern]
    return chosen(ordinary, others) + chosen(budgets, asked)


def runs_of(data: Sequence[str], names: Sequence[str], seeds: Sequence[int]) -> list[Run]:
    """Data set by data set; an official split is there once, whatever the seeds."""
    runs = [
        Run(one, seed, *name.split(":"))
        for one in data
        for seed in (seeds[:1] if DATA_SETS[one].official else seeds)
        for name in names
    ]
    return [run for run in runs if run.data == BUDGET_DATA or not is_for_budget(run.setting)]


def expected_seconds(run: Run, n_train: int, rows: Sequence[Row]) -> float | None:
    """By the same model and setting elsewhere, in proportion to the ratings."""
    known = [row for row in rows if (row["model"], row["setting"]) == (run.model, run.setting)]
    if not known:
        return None
    nearest = min(known, key=lambda row: abs(np.log(row["n_train"] / n_train)))
    took = nearest["fit_seconds"] + nearest["tune_seconds"] + nearest["predict_seconds"]
    return float(took * n_train / nearest["n_train"])


# --- running --------------------------------------------------------------------------------------


@cache
def python_of(environment: str) -> str:
    """The environment's Python; the environment is made first if need be."""
    if environment == OURS:
        return sys.executable
    command = [str(HERE / "environment"), environment]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603
    return result.stdout.strip()


def predictions(run: Run, stored: Stored, limit: float | None) -> tuple[np.ndarray, Row]:
    """What the model predicts for the test pairs, and its report."""
    model = MODELS[run.model]
    PREDICTIONS.mkdir(parents=True, exist_ok=True)
    out = PREDICTIONS / f"{run.data}-seed{run.seed}-{run.model}-{run.setting}.npz"
    log = out.with_suffix(".log")
    command = [
        python_of(model.environment),
        str(HERE / "peers" / model.script),
        *map(str, (stored.train, stored.pairs, out)),
        "--settings",
        json.dumps(run.settings),
    ]
    with log.open("w") as told:
        subprocess.run(  # noqa: S603
            command,
            stdout=told,
            stderr=subprocess.STDOUT,
            check=True,
            env={**os.environ, **QUIET},
            timeout=limit,
        )
    with np.load(out) as found:
        return found["prediction"], json.loads(str(found["report"]))


def row_of(run: Run, stored: Stored, limit: float | None) -> Row:
    """Run, score, and say how it was made."""
    load = os.getloadavg()[0]
    prediction, report = predictions(run, stored, limit)
    command = ["benchmarks/accuracy", "--data", run.data, "--models", run.name]
    return {
        **run._asdict(),
        "settings": run.settings,
        **scores(prediction, stored.answers),
        **report,
        **stored.about,
        "command": shlex.join([*command, "--seeds", str(run.seed)]),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load": round(load, 2),
    }


def stored_rows(path: Path) -> list[Row]:
    """The finished runs."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def is_current(row: Row) -> bool:
    """Whether the row is of a data set, model and setting as the lists have them now."""
    return (
        row["data"] in DATA_SETS
        and row["model"] in MODELS
        and settings_of(row["model"]).get(row["setting"]) == row["settings"]
    )


def store(rows: Sequence[Row], path: Path, files: Path) -> None:
    """Write the rows, in the order of data sets and models, and the page of those that are current.

    A row that is out of date stays until its run is done again: it may have taken hours.
    """
    names = [name for model in MODELS for name in (model, *settings_of(model))]
    order = {name: place for place, name in enumerate([*DATA_SETS, *dict.fromkeys(names)])}

    def place(row: Row) -> list[int]:
        keys = row["data"], row["model"], row["setting"]
        data, model, setting = (order.get(key, len(order)) for key in keys)
        return [data, row["seed"], model, setting]

    path.parent.mkdir(exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in sorted(rows, key=place))
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text(text)
    partial.replace(path)
    current = [row for row in rows if is_current(row)]
    path.with_suffix(".md").write_text(page(current, presets.table(current, files)))


def told(seconds: float | None) -> str:
    """A duration for reading."""
    if seconds is None:
        return "?"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def do(run: Run, stored: Stored, limit: float | None) -> Row | None:
    """The row of a run, or None after saying why there is none."""
    try:
        row = row_of(run, stored, limit)
    except subprocess.TimeoutExpired:
        print(f"  stopped after {told(limit)}", flush=True)
    except subprocess.CalledProcessError as error:
        log = PREDICTIONS / f"{run.data}-seed{run.seed}-{run.model}-{run.setting}.log"
        last = log.read_text().splitlines()[-1:] if log.exists() else []
        print(f"  failed ({error.returncode}): {''.join(last)}\n  see {log}", flush=True)
    else:
        log_loss = "–" if row["log_loss"] is None else f"{row['log_loss']:.4f}"
        print(
            f"  MAE {row['mae']:.4f}  RMSE {row['rmse']:.4f}  log-loss {log_loss}  "
            f"fit {told(row['fit_seconds'])}  {row['peak_gb']:.2f} GB",
            flush=True,
        )
        return row
    return None


def main() -> None:
    """Run what is missing and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])

    def several(text: str) -> list[str]:
        return text.split(",")

    parser.add_argument("--data", type=several, default=["*"], help="data sets, by pattern")
    parser.add_argument(
        "--models", type=several, default=["*"], help="models, or model:setting, by pattern"
    )
    parser.add_argument("--seeds", type=several, default=["0"], help="seeds of the splits")
    parser.add_argument(
        "--again", type=several, default=[], help="models to run again though there is a row"
    )
    parser.add_argument("--files", type=Path, default=FILES, help="folder of the data files")
    parser.add_argument("--time-limit", type=float, default=None, help="seconds for each run")
    parser.add_argument("--plan", action="store_true", help="list the runs with expected times")
    parser.add_argument("--results", type=Path, default=RESULTS / "accuracy.jsonl")
    arguments = parser.parse_args()

    again = chosen_models(arguments.again)
    wanted = runs_of(
        chosen(list(DATA_SETS), arguments.data),
        chosen_models(arguments.models),
        [int(seed) for seed in arguments.seeds],
    )
    rows = stored_rows(arguments.results)
    started, failed = time.perf_counter(), 0
    for number, run in enumerate(wanted):
        stored = split(run.data, run.seed, arguments.files)
        n_train = stored.about["n_train"]
        done = any(
            run.is_of(row)
            and is_current(row)
            and row["split_sha256"] == stored.about["split_sha256"]
            for row in rows
        )
        if (done and run.name not in again) or n_train > MODELS[run.model].most_ratings:
            continue
        print(
            f"[{number + 1}/{len(wanted)}] {run.data} seed {run.seed} {run.name}, expected "
            f"{told(expected_seconds(run, n_train, rows))}",
            flush=True,
        )
        if arguments.plan:
            continue
        row = do(run, stored, arguments.time_limit)
        if row is None:
            failed += 1
            continue
        # Read again: another run may have finished meanwhile.
        rows = [one for one in stored_rows(arguments.results) if not run.is_of(one)] + [row]
        store(rows, arguments.results, arguments.files)
    if not arguments.plan:
        store(stored_rows(arguments.results), arguments.results, arguments.files)
        print(f"{told(time.perf_counter() - started)}; {failed} failed; {arguments.results}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
