"""What features of users and items give where there are no ratings, beside other libraries.

    benchmarks/features [--data ml-100k,ml-1m] [--models ordbm,plain,myfm] [--members 1]

- cells: a fifth of the users and of the items held out wholly; known pairs, new items, new users,
  and both new
- new users who gave 0, 1, 3, 5, 10 and 20 ratings: ordbm folds them in, others are fitted anew

Each fit is a row of `benchmarks/results/features.jsonl`; starting again goes on with those that are
missing. Errors of each user are kept below `build/features`; where ours and another's are there,
`features-differences.json` has intervals. `features.md` is written from both. Nothing is chosen on
these ratings.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from features_data import GIVEN, Table, cut, first_given, read, scores
from features_report import CALLED, page, write_differences
from provenance import commit, cpu_model

import ordbm

HERE = Path(__file__).resolve().parent
BY_USER = HERE.parent / "build" / "features"
FILES = HERE.parent.parent / "shared" / "data"
PEERS = {"myfm": "peers", "cmfrec": "peers-features", "lightfm": "peers-features"}  # environments
Row = dict[str, Any]


def frame(table: Table, key: str) -> dict[str, list[Any]]:
    """The table by columns."""
    names = next(iter(table.values()))
    return {key: list(table), **{name: [row[name] for row in table.values()] for name in names}}


def ours(path: Path, data: str, seed: int, members: int | None, *, features: bool) -> Row:
    """One fit; new users are folded in."""
    ratings, users, items = read(path, data)
    made = cut(ratings, seed)
    model = ordbm.OrdinalBM(members=members, seed=seed)
    about = {"user_features": frame(users, "user"), "item_features": frame(items, "item")}
    started = time.perf_counter()
    model.fit(ordbm.Ratings(*made.train.T, scale=[1, 2, 3, 4, 5]), **(about if features else {}))
    seconds = time.perf_counter() - started
    found = {
        name: scores(model.predict_proba(cell[:, 0], cell[:, 1]), cell)
        for name, cell in made.cells.items()
    }
    asked = made.asked
    for n in GIVEN:
        said: dict[int, dict[int, int]] = {user: {} for user in np.unique(asked[:, 0]).tolist()}
        for user, item, rating in first_given(made.given, n).tolist():
            said[user][item] = rating
        told = {"ratings": said} if n else {}
        proba = model.predict_proba(asked[:, 0].tolist(), asked[:, 1].tolist(), **told)
        found[f"{n} given"] = scores(proba, asked)
    return {"seconds": seconds, "scores": found, "members": len(model.machines)}


def peer(model: str, path: Path, data: str, seed: int, given: int) -> Row:
    """A fit with so many ratings of each new user, in an environment of its own."""
    command = [
        python_of(PEERS[model]), str(HERE / "peers" / "rate_features.py"), model, str(path), data,
        "--given", str(given), "--seed", str(seed),
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def python_of(environment: str) -> str:
    """The Python of an environment, which is made if it is not there."""
    told = os.environ.get(f"PYTHON_{environment.upper().replace('-', '_')}")
    if told:
        return told
    made = subprocess.run(  # noqa: S603
        [str(HERE / "environment"), environment], stdout=subprocess.PIPE, check=True, text=True
    )
    return made.stdout.strip()


def main() -> None:
    """Measure what is missing and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-100k,ml-1m")
    parser.add_argument("--models", default=",".join(CALLED))
    parser.add_argument("--members", type=int, help="machines of ours (default: as by the ratings)")
    parser.add_argument("--seed", type=int, default=0, help="of cells and machines")
    parser.add_argument("--files", type=Path, default=FILES, help="folder of the data files")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "features.jsonl")
    told = parser.parse_args()
    warnings.simplefilter("ignore", ordbm.errors.UnknownIdsWarning)
    results: Path = told.results
    rows: list[Row] = []
    if results.exists():
        rows = [json.loads(line) for line in results.read_text().splitlines()]
    for data in told.data.split(","):
        path = told.files / f"{data}.zip"
        if not path.exists():
            parser.error(f"no {path}: say where the data files are with --files")
        asked = [
            (model, given)
            for model in told.models.split(",")
            for given in (GIVEN if model in PEERS else (None,))
        ]
        for model, given in asked:
            what = {"data": data, "model": model, "seed": told.seed, "given": given}
            if any(what.items() <= row.items() for row in rows):
                continue
            print(json.dumps(what), flush=True)
            if given is None:
                features = model == "ordbm"
                found = ours(path, data, told.seed, told.members, features=features)
            else:
                found = peer(model, path, data, told.seed, given)
            kept: Path = BY_USER / f"{data}-{model}-{told.seed}-{given}.json"
            kept.parent.mkdir(parents=True, exist_ok=True)
            cells = found["scores"].items()
            kept.write_text(json.dumps({name: one.pop("by_user") for name, one in cells}))
            now = datetime.now(UTC).isoformat(timespec="seconds")
            rows.append(what | found | {"time": now, "commit": commit(), "cpu": cpu_model()})
            results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    differences = results.with_name(f"{results.stem}-differences.json")
    results.with_suffix(".md").write_text(page(rows, write_differences(rows, BY_USER, differences)))
    print(results.with_suffix(".md"))


if __name__ == "__main__":
    main()
