"""What the times of ratings tell: the default with a time and without, and myFM with dates.

    benchmarks/context [--data ml-1m,ml-100k,ml-small] [--split 0.2,0.1,time] [--members N] [--peer]
                       [--minutes M] [--validation] [--checkpoint FOLDER]

Splits are 80/20 and 90/10 by user at random, those of the accuracy table on MovieLens 1M
(`table-0.2` and `table-0.1`: movies with at least 20 ratings), and the latest fifth of all ratings
(`time`). A random split holds out ratings between those of the same evening. `--validation` holds a
tenth out of the training part instead, and leaves the test ratings alone.
With `--checkpoint` a call that was ended goes on where it was when it is said again.
Each finished measurement is a row of `benchmarks/results/context.jsonl`, and `context.md` a table
of them all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import splits
from data import MIN_RATINGS
from provenance import commit, cpu_model

import ordbm

HERE = Path(__file__).resolve().parent
FILES = HERE.parents[1] / "shared" / "data"
SETS = {"ml-1m": "ml-1m.zip", "ml-100k": "ml-100k.zip", "ml-small": "ml-latest-small-2016.zip"}
SPLITS: dict[str, tuple[float, Any]] = {
    "0.2": (0.2, "user"),
    "0.1": (0.1, "user"),
    "time": (0.2, "time"),
}
TABLE = {"table-0.2": "ml-1m-80", "table-0.1": "ml-1m-90"}
ROWS, PAGE = HERE / "results" / "context.jsonl", HERE / "results" / "context.md"
SCORES = {"rmse": "RMSE", "mae_mean": "MAE", "log_loss": "log-loss"}

Row = dict[str, Any]


def untimed(ratings: ordbm.Ratings) -> ordbm.Ratings:
    """The same without times."""
    return ordbm.Ratings.of_rows(ratings.users, ratings.items, ratings.scale, ratings.by_user)


def table_parts(
    ratings: ordbm.Ratings, split: str, files: Path
) -> tuple[ordbm.Ratings, ordbm.Ratings]:
    """(train, test) of the accuracy table, with their times."""
    stored = splits.split(TABLE[split], 0, files)
    frame = ratings.to_frame()
    user, item, when = (np.asarray(frame[name]) for name in ("user", "item", "time"))
    movies, count = np.unique(item, return_counts=True)
    kept = np.isin(item, movies[count >= MIN_RATINGS])
    (_, user), (movies, item) = (
        np.unique(column[kept], return_inverse=True) for column in (user, item)
    )
    pair = user * len(movies) + item
    order = np.argsort(pair)
    train, pairs, answers = (np.load(path) for path in (stored.train, stored.pairs, stored.answers))
    parts = []
    for asked, levels in ((train, train), (pairs, answers)):
        place = np.searchsorted(
            pair[order], asked["user"].astype(np.int64) * len(movies) + asked["item"]
        )
        values = levels["values"]
        parts.append(
            ordbm.Ratings(
                asked["user"],
                asked["item"],
                values[levels["level"]],
                scale=values.tolist(),
                times=when[kept][order][place],
            )
        )
    return parts[0], parts[1]


def ours(
    train: ordbm.Ratings, test: ordbm.Ratings, members: int | None, folder: Path | None
) -> list[Row]:
    """Scores of one model, asked without times and with them."""
    started = time.perf_counter()
    model = ordbm.OrdinalBM(members=members, presence=False)
    model.fit(train, checkpoint=folder, resume=folder is not None)
    seconds = time.perf_counter() - started
    size = f", {members} machine{'s' * (members > 1)}" if members else ""
    rows = []
    for name, asked in (("without times", untimed(test)), ("with times", test)):
        scores = ordbm.evaluate(model, asked, bootstrap=0).scores
        figures = {key: scores[key] for key in SCORES}
        rows.append({"model": f"ordbm {name}{size}", **figures, "seconds": seconds})
    return rows


def peer(train: ordbm.Ratings, test: ordbm.Ratings, minutes: float | None) -> Row:
    """myFM on the same parts, in the environment of peers."""
    python = subprocess.run(  # noqa: S603 - our own script
        [HERE / "environment", "peers"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    columns = {
        f"{name}_{column}": getattr(part, attribute)
        for name, part in (("train", train), ("test", test))
        for column, attribute in (
            ("user", "user_codes"), ("item", "item_codes"), ("level", "levels"), ("time", "times"),
        )
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "parts.npz"
        np.savez(
            path, n_users=train.n_users, n_items=train.n_items, values=train.scale.values, **columns
        )
        told = [python, HERE / "peers" / "myfm_dates.py", path]
        told += ["--minutes", str(minutes)] if minutes else []
        done = subprocess.run(  # noqa: S603 - our own script
            told, check=True, stdout=subprocess.PIPE, text=True
        )
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def page(rows: list[Row]) -> str:
    """A table of all rows."""
    lines = [
        "# Times of ratings",
        "",
        "Written by `make context`; the latest row of each kind.",
        "",
        f"| data | split | model | {' | '.join(SCORES.values())} | commit |",
        f"| --- | --- | --- |{' ---: |' * len(SCORES)} --- |",
    ]
    latest = {(row["data"], row["split"], row["model"]): row for row in rows}
    for key in sorted(latest):
        figures = " | ".join(f"{latest[key][name]:.4f}" for name in SCORES)
        lines.append(f"| {' | '.join(key)} | {figures} | {latest[key].get('commit', '–')} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, a row at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=",".join(SETS))
    parser.add_argument("--split", default=",".join(SPLITS))
    parser.add_argument("--members", type=int)
    parser.add_argument("--peer", action="store_true", help="myFM instead of ordbm")
    parser.add_argument("--minutes", type=float, help="after which the peer draws no more")
    parser.add_argument("--validation", action="store_true")
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--files", type=Path, default=FILES)
    told = parser.parse_args()
    where = {"commit": commit(), "cpu": cpu_model()}
    for data in told.data.split(","):
        ratings = ordbm.read_ratings(told.files / SETS[data])
        for name in told.split.split(","):
            by: Any = SPLITS[name][1] if name in SPLITS else "user"
            if name in TABLE:
                train, test = table_parts(ratings, name, told.files)
            else:
                train, test = ordbm.hold_out(ratings, SPLITS[name][0], seed=0, by=by)
            if told.validation:
                train, test = ordbm.hold_out(train, 0.1, seed=1, by=by)
            split = f"{name}{', validation' if told.validation else ''}"
            if told.peer:
                found = [peer(train, test, told.minutes)]
            else:
                folder = told.checkpoint and told.checkpoint / f"{data} {split} {told.members}"
                found = ours(train, test, told.members, folder)
            with ROWS.open("a") as file:
                for scores in found:
                    row = {"data": data, "split": split, **scores, **where}
                    print(json.dumps(row), flush=True)
                    file.write(json.dumps(row) + "\n")
            rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
            PAGE.write_text(page(rows))


if __name__ == "__main__":
    main()
