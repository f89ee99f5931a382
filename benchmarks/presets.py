"""The presets of ordbm side by side: what each costs and gives, from the rows of `accuracy`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from models import OURS, PRESETS
from splits import DATA_SETS, family, split

import ordbm

Row = dict[str, Any]
MEASURES = {"mae": "MAE", "rmse": "RMSE", "log_loss": "log-loss"}
ONE_RUN = timedelta(hours=3)  # between rows whose times are compared


@cache
def work(data: str, seed: int, setting: str, files: Path) -> float:
    """What a fit of the training ratings is expected to take, up to the pace of the machine."""
    from protocol import training  # noqa: PLC0415 - where its folder is known

    part, _ = training(split(data, seed, files).train)
    ratings = ordbm.Ratings(part.user, part.item, part.rating, scale=part.values)
    return ordbm.OrdinalBM(**PRESETS[setting], threads=1).estimate(ratings).seconds


def mean(rows: Sequence[Row], name: str) -> float:
    """Over the splits."""
    return sum(row[name] for row in rows) / len(rows)


def cpu_share(rows: Sequence[Row], beside: Sequence[Row]) -> str:
    """Processor time beside the default's, if both were taken in one run."""
    for one, other in zip(rows, beside, strict=True):
        if (
            abs(datetime.fromisoformat(one["time"]) - datetime.fromisoformat(other["time"]))
            > ONE_RUN
        ):
            return "–"
    return f"{mean(rows, 'fit_cpu_seconds') / mean(beside, 'fit_cpu_seconds'):.2f}"


def best_peer(rows: Sequence[Row], splits: set[tuple[str, int]], name: str) -> str:
    """The best figure of any other model and setting on all of these splits, by the test."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["model"] != OURS and (row["data"], row["seed"]) in splits and row[name] is not None:
            groups.setdefault((row["model"], row["setting"]), []).append(row)
    whole = [group for group in groups.values() if len(group) == len(splits)]
    return f"{min(mean(group, name) for group in whole):.4f}" if whole else "–"


def table(rows: Sequence[Row], files: Path) -> str:
    """A line for each preset on each data set, on the splits that all three have run on."""
    lines = [
        "| data | preset | work | cpu | MAE | RMSE | log-loss |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys(map(family, DATA_SETS)):
        found = {
            setting: {
                (row["data"], row["seed"]): row
                for row in rows
                if row["model"] == OURS
                and row["setting"] == setting
                and family(row["data"]) == name
            }
            for setting in PRESETS
        }
        splits = set.intersection(*(set(one) for one in found.values()))
        if not splits:
            continue
        where = ", ".join(sorted(data.removeprefix(f"{name}-") for data, _ in splits))
        label = name if where == name else f"{name} ({where})"
        chosen = {key: [one[at] for at in sorted(splits)] for key, one in found.items()}
        default_work = sum(work(*at, "default", files) for at in splits)
        for setting, own in chosen.items():
            share = sum(work(*at, setting, files) for at in splits) / default_work
            figures = " | ".join(f"{mean(own, key):.4f}" for key in MEASURES)
            cpu = cpu_share(own, chosen["default"])
            lines.append(f"| {label} | {setting} | {share:.2f} | {cpu} | {figures} |")
        peers = " | ".join(best_peer(rows, splits, key) for key in MEASURES)
        lines.append(f"| {label} | *best peer* | | | {peers} |")
    return "\n".join(lines)
