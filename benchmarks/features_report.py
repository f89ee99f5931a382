"""The page of the benchmark of features: scores, and how sure it is who is ahead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from features_data import GIVEN

from ordbm.metrics.bootstrap import percentile_interval, resampled_ratios

CALLED = {
    "ordbm": "ordbm", "plain": "ordbm without features", "myfm": "myFM", "cmfrec": "cmfrec",
    "lightfm": "LightFM",
}  # fmt: skip
CELLS = ("known", "new item", "new user", "both", *(f"{n} given" for n in GIVEN))
KEY = ("data", "model", "cell", "measure")  # of a difference
MEASURES = {"log_loss": "log-loss", "rmse": "RMSE", "mae": "MAE"}

Row = dict[str, Any]
Difference = dict[str, Any]

ABOUT = """\
Written by `benchmarks/features`. A fifth of the users and a fifth of the items are held out wholly,
and a tenth of the ratings of known pairs. New users who gave 0 to 20 ratings are asked about known
items; ordbm folds them in, others are fitted anew. LightFM knows likes alone: its score becomes a
distribution by a multinomial regression on a tenth of the training ratings; cmfrec gives means.
In brackets, how far a score is above that of ordbm: 95 % of 1,000 bootstrap samples of users, who
are the same in all seeds."""


def page(rows: list[Row], differences: list[Difference]) -> str:
    """Tables of all scores, means over the seeds, the best of each row in bold."""
    lines = ["# Features of users and items", "", ABOUT, ""]
    between = {_key(one): f" ({one['low']:+.4f} to {one['high']:+.4f})" for one in differences}
    for data in dict.fromkeys(row["data"] for row in rows):
        mine, models, seeds = comparable(rows, data)
        if not mine:
            continue
        for measure, words in MEASURES.items():
            named = " | ".join(CALLED[name] for name in models)
            lines += [f"## {data}: {words}", "", f"| | {named} |"]
            lines += ["| --- |" + " ---: |" * len(models)]
            for cell in CELLS:
                means = {name: _mean(mine, name, cell, measure) for name in models}
                best = min((mean for mean in means.values() if mean is not None), default=None)
                said = []
                for name, mean in means.items():
                    text = "–" if mean is None else f"{mean:.4f}"
                    apart = between.get((data, name, cell, measure), "")
                    said.append(f"**{text}**{apart}" if mean == best else f"{text}{apart}")
                lines.append(f"| {cell} | {' | '.join(said)} |")
            lines.append("")
        members = {row["members"] for row in mine if row["model"] == "ordbm"}
        of_seeds, of_members = (", ".join(map(str, some)) for some in (seeds, sorted(members)))
        lines += [f"Seeds: {of_seeds}. Machines of ordbm: {of_members}.", ""]
    return "\n".join(lines)


def comparable(rows: list[Row], data: str) -> tuple[list[Row], list[str], list[int]]:
    """Rows of the seeds that all models of a data set have; these models, and seeds."""
    mine = [row for row in rows if row["data"] == data]
    models = [name for name in CALLED if any(row["model"] == name for row in mine)]
    seeds = set.intersection(
        *({row["seed"] for row in mine if row["model"] == name} for name in models)
    )
    return [row for row in mine if row["seed"] in seeds], models, sorted(seeds)


def write_differences(rows: list[Row], folder: Path, results: Path) -> list[Difference]:
    """Of each model to ordbm, where errors of all users are in the folder; else those written."""
    known: list[Difference] = json.loads(results.read_text()) if results.exists() else []
    found = {_key(one): one for one in known}
    for data in dict.fromkeys(row["data"] for row in rows):
        mine, models, seeds = comparable(rows, data)
        for name in models:
            for cell in CELLS:
                if name == "ordbm" or any(_mean(mine, one, cell, "rmse") is None
                                          for one in ("ordbm", name)):  # fmt: skip
                    continue
                ours, theirs = (
                    [_sums(mine, folder, seed, one, cell) for seed in seeds]
                    for one in ("ordbm", name)
                )
                if None in ours or None in theirs:
                    continue
                for measure in MEASURES:
                    if _mean(mine, name, cell, measure) is not None:
                        key = data, name, cell, measure
                        found[key] = dict(zip(KEY, key, strict=True))
                        found[key] |= _difference(ours, theirs, measure)
    results.write_text(json.dumps(list(found.values()), indent=0) + "\n")
    return list(found.values())


def _key(one: Difference) -> tuple[str, ...]:
    return tuple(one[name] for name in KEY)


def _sums(rows: list[Row], folder: Path, seed: int, name: str, cell: str) -> Any:
    """Of each user of a cell; None if they were not kept."""
    for row in rows:
        if (row["seed"], row["model"]) == (seed, name) and cell in row["scores"]:
            path = folder / f"{row['data']}-{name}-{seed}-{row['given']}.json"
            return json.loads(path.read_text())[cell] if path.exists() else None
    return None


def _difference(ours: list[Any], theirs: list[Any], measure: str) -> Difference:
    """The mean over seeds of the other's score less ours."""
    users = sorted({user for one in ours for user in one["user"]})
    place = {user: number for number, user in enumerate(users)}
    column = 1 + list(MEASURES).index(measure)
    totals, weights = np.zeros((2, len(users), 2 * len(ours)))
    for number, one in enumerate((*ours, *theirs)):
        at = [place[user] for user in one["user"]]
        sums = np.array(one["sums"])
        totals[at, number], weights[at, number] = sums[:, column], sums[:, 0]
    ratios = resampled_ratios(totals, weights)
    if measure == "rmse":
        ratios = np.sqrt(ratios)
    mine, others = np.hsplit(ratios, 2)
    low, high = percentile_interval((others - mine).mean(axis=1))
    return {"low": low, "high": high}


def _mean(rows: list[Row], model: str, cell: str, measure: str) -> float | None:
    found = [row["scores"][cell][measure]
             for row in rows if row["model"] == model and cell in row["scores"]]  # fmt: skip
    return float(np.mean(found)) if found and None not in found else None
