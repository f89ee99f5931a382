"""The ranking benchmark: whole-catalogue lists of ordbm and of rankers, on the same splits.

    benchmarks/ranking [--data ml-1m-80] [--rankers ours,ease:*] [--plan]

Each run is a process of its own, in the ranker's environment: one for each combination of settings
to try on the validation ratings, then one for the best by each measure of `TUNED_FOR`, taught all
training ratings. A finished run is a row of `benchmarks/results/ranking.jsonl`; starting again goes
on with those that are missing, and `--again ours` does some afresh. `ranking.md` is written from
the rows after each run.

ordbm's settings are scores of one machine: the first of its runs on a split learns it, and the
others list by it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accuracy import FILES, QUIET, RESULTS, chosen, python_of, stored_rows, told
from data import CACHE, HERE
from kept import MACHINES
from models import OURS
from peers.protocol import combinations
from provenance import commit, cpu_model
from rankers import RANKERS
from ranking_report import page, winners
from ranking_scoring import TUNED_FOR, held_out, scores
from splits import DATA_SETS, Stored, split

from ordbm.metrics.bootstrap import RESAMPLES

LISTS = CACHE / "lists"
# The others are there for those who ask: more of the same ratings, or a day of tuning.
DATA = ["filmtrust", "movielens-small", "ml-100k-u*", "ml-1m-80"]

Row = dict[str, Any]


class Target(NamedTuple):
    """A ranker with a setting, its alternatives included, on a split."""

    data: str
    seed: int
    ranker: str
    setting: str

    @property
    def name(self) -> str:
        return f"{self.ranker}:{self.setting}"

    @property
    def alternatives(self) -> list[dict[str, Any]]:
        return list(combinations(RANKERS[self.ranker].settings[self.setting]))

    def is_of(self, row: Row) -> bool:
        return self == (row["data"], row["seed"], row["ranker"], row["setting"])


class Run(NamedTuple):
    """One process."""

    target: Target
    settings: dict[str, Any]
    part: str  # "validation" or "test": what it is scored on

    def is_of(self, row: Row) -> bool:
        mine = self.settings, self.part
        return self.target.is_of(row) and mine == (row["settings"], row["part"])


# --- what to run ----------------------------------------------------------------------------------


def missing(target: Target, rows: Sequence[Row]) -> list[Run]:
    """The runs to do now: what was not tried yet, and after that what was chosen."""
    mine = [row for row in rows if target.is_of(row) and is_current(row)]

    def undone(settings: Sequence[dict[str, Any]], part: str) -> list[Run]:
        runs = [Run(target, one, part) for one in settings]
        return [run for run in runs if not any(run.is_of(row) for row in mine)]

    alternatives = target.alternatives
    if len(alternatives) == 1:
        return undone(alternatives, "test")
    trials = undone(alternatives, "validation")
    if trials:
        return trials
    best = winners(mine).values()
    return undone([one for one in alternatives if one in best], "test")


def expected_seconds(target: Target, n_train: int, rows: Sequence[Row]) -> float | None:
    """Of one run: the same ranker's mean on the data nearest in size, in proportion to ratings."""
    known = [row for row in rows if row["ranker"] == target.ranker]
    if not known:
        return None
    sizes = np.array([row["n_train"] for row in known])
    nearest = sizes[np.abs(np.log(sizes / n_train)).argmin()]
    took = [row["run_seconds"] for row in known if row["n_train"] == nearest]
    return float(np.mean(took) * n_train / nearest)


def left(targets: Sequence[Target], splits: dict[Target, Stored], rows: Sequence[Row]) -> str:
    """How much there is to do, for reading."""
    n_runs, seconds, unknown = 0, 0.0, False
    for target in targets:
        runs = missing(target, rows)
        n = len(runs) + (len(TUNED_FOR) if runs and runs[0].part == "validation" else 0)
        each = expected_seconds(target, splits[target].about["n_train"], rows)
        n_runs += n
        seconds += n * (each or 0.0)
        unknown = unknown or (n > 0 and each is None)
    return f"{n_runs} runs to go, {'more than ' if unknown else 'about '}{told(seconds)}"


# --- running --------------------------------------------------------------------------------------


def place_of(run: Run) -> Path:
    """Where a run's lists go; its log is beside them."""
    data, seed, ranker, setting = run.target
    return LISTS / f"{data}-seed{seed}-{ranker}-{setting}-{run.part}.npz"


def lists_of(run: Run, stored: Stored, limit: float | None) -> tuple[np.ndarray, Row]:
    """What the ranker lists, and its report."""
    model = RANKERS[run.target.ranker]
    LISTS.mkdir(parents=True, exist_ok=True)
    out = place_of(run)
    command = [
        python_of(model.environment),
        str(HERE / "peers" / model.script),
        *map(str, (stored.train, out)),
        "--settings",
        json.dumps(run.settings),
        *(["--validate"] if run.part == "validation" else []),
    ]
    with out.with_suffix(".log").open("w") as log:
        subprocess.run(  # noqa: S603
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=True,
            env={**os.environ, **QUIET},
            timeout=limit,
        )
    with np.load(out) as found:
        return found["lists"], json.loads(str(found["report"]))


def row_of(run: Run, stored: Stored, limit: float | None) -> Row:
    """Run, score, and say how it was made. A trial is scored by what decides, without intervals."""
    load, started = os.getloadavg()[0], time.perf_counter()
    lists, report = lists_of(run, stored, limit)
    trial = run.part == "validation"
    figures, intervals = scores(lists, held_out(stored, trial), 0 if trial else RESAMPLES)
    if trial:
        figures = {measure: figures[measure] for measure in TUNED_FOR}
    command = ["benchmarks/ranking", "--data", run.target.data, "--rankers", run.target.name]
    return {
        **run.target._asdict(),
        "part": run.part,
        "settings": run.settings,
        "figures": figures,
        "intervals": intervals,
        **report,
        **stored.about,
        "run_seconds": time.perf_counter() - started,
        "command": shlex.join([*command, "--seeds", str(run.target.seed)]),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load": round(load, 2),
    }


def is_current(row: Row) -> bool:
    """Whether the row is of a data set, ranker and settings as the lists have them now."""
    ranker = RANKERS.get(row["ranker"])
    return (
        row["data"] in DATA_SETS
        and ranker is not None
        and row["setting"] in ranker.settings
        and row["settings"] in combinations(ranker.settings[row["setting"]])
    )


def store(rows: Sequence[Row], path: Path) -> None:
    """Write the rows, in the order of data sets and rankers, and the page of the current ones."""
    data, rankers = list(DATA_SETS), list(RANKERS)

    def place(row: Row) -> list[Any]:
        known = row["data"] in data and row["ranker"] in rankers
        order = [data.index(row["data"]), rankers.index(row["ranker"])] if known else [1000, 0]
        return [order[0], row["seed"], order[1], row["setting"], row["part"]]

    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text("".join(json.dumps(row) + "\n" for row in sorted(rows, key=place)))
    partial.replace(path)
    path.with_suffix(".md").write_text(page([row for row in rows if is_current(row)]))


def do(run: Run, stored: Stored, limit: float | None) -> Row | None:
    """The row of a run, or None after saying why there is none."""
    try:
        row = row_of(run, stored, limit)
    except subprocess.TimeoutExpired:
        print(f"  stopped after {told(limit)}", flush=True)
    except subprocess.CalledProcessError as error:
        log = place_of(run).with_suffix(".log")
        last = log.read_text().splitlines()[-1:] if log.exists() else []
        print(f"  failed ({error.returncode}): {''.join(last)}\n  see {log}", flush=True)
    else:
        figures = "  ".join(f"{measure} {row['figures'][measure]:.4f}" for measure in TUNED_FOR)
        print(
            f"  {figures}  fit {told(row['fit_seconds'])}  lists {told(row['list_seconds'])}  "
            f"{row['peak_gb']:.2f} GB",
            flush=True,
        )
        return row
    return None


def main() -> None:
    """Run what is missing and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])

    def several(text: str) -> list[str]:
        return text.split(",")

    parser.add_argument("--data", type=several, default=DATA, help="data sets, by pattern")
    parser.add_argument(
        "--rankers", type=several, default=["*"], help="rankers, or ranker:setting, by pattern"
    )
    parser.add_argument("--seeds", type=several, default=["0"], help="seeds of the splits")
    parser.add_argument(
        "--again", type=several, default=[], help="rankers to run again though there are rows"
    )
    parser.add_argument("--files", type=Path, default=FILES, help="folder of the data files")
    parser.add_argument("--time-limit", type=float, default=None, help="seconds for each run")
    parser.add_argument("--plan", action="store_true", help="say what is missing, and run nothing")
    parser.add_argument("--results", type=Path, default=RESULTS / "ranking.jsonl")
    arguments = parser.parse_args()

    names = [f"{ranker}:{setting}" for ranker in RANKERS for setting in RANKERS[ranker].settings]
    again = chosen(names, arguments.again)
    if any(name.startswith(f"{OURS}:") for name in again) and not arguments.plan:
        shutil.rmtree(MACHINES / "ranking", ignore_errors=True)  # also learnt again
    seeds = [int(seed) for seed in arguments.seeds]
    targets = [
        Target(data, seed, *name.split(":"))
        for data in chosen(list(DATA_SETS), arguments.data)
        for seed in (seeds[:1] if DATA_SETS[data].official else seeds)
        for name in chosen(names, arguments.rankers)
    ]
    splits = {target: split(target.data, target.seed, arguments.files) for target in targets}
    began = datetime.now(UTC).isoformat(timespec="seconds")

    def counting() -> list[Row]:
        """The rows that stand; those to be done again count from now on."""
        checksums = {target[:2]: one.about["split_sha256"] for target, one in splits.items()}
        return [
            row
            for row in stored_rows(arguments.results)
            if checksums.get((row["data"], row["seed"]), row["split_sha256"]) == row["split_sha256"]
            and (f"{row['ranker']}:{row['setting']}" not in again or row["time"] >= began)
        ]

    started, failed = time.perf_counter(), 0
    for number, target in enumerate(targets):
        while runs := missing(target, rows := counting()):
            if arguments.plan:
                print(f"{target.data} seed {target.seed} {target.name}: {len(runs)} {runs[0].part}")
                break
            run = runs[0]
            print(
                f"{target.data} seed {target.seed} {target.name} {json.dumps(run.settings)}, "
                f"{run.part}; {left(targets[number:], splits, rows)}",
                flush=True,
            )
            row = do(run, splits[target], arguments.time_limit)
            if row is None:
                failed += 1
                break
            # Read again: another run may have finished meanwhile.
            others = [one for one in stored_rows(arguments.results) if not run.is_of(one)]
            store([*others, row], arguments.results)
    if arguments.plan:
        print(left(targets, splits, counting()))
    else:
        store(stored_rows(arguments.results), arguments.results)
        print(f"{told(time.perf_counter() - started)}; {failed} failed; {arguments.results}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
