"""The page of the accuracy benchmark, written from its rows alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from models import OURS, is_for_budget
from splits import DATA_SETS, family

Row = dict[str, Any]
MEASURES = {"mae": "MAE", "rmse": "RMSE", "log_loss": "log-loss"}
COSTS = ("fit_seconds", "fit_cpu_seconds", "tune_seconds", "predict_seconds", "peak_gb")


class Summary:
    """A model with a setting on one data set: means over its splits."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.model: str = rows[0]["model"]
        self.setting: str = rows[0]["setting"]
        self.splits = {(row["data"], row["seed"]) for row in rows}
        self.figures: dict[str, float | None] = {
            name: sum(row[name] for row in rows) / len(rows)
            if all(row[name] is not None for row in rows)
            else None
            for name in (*MEASURES, *COSTS)
        }

    @property
    def is_default_ours(self) -> bool:
        return self.model == OURS and self.setting == "default"


def summaries(rows: Sequence[Row]) -> dict[str, list[Summary]]:
    """By data set, in the order of the list; within, the best RMSE first."""
    found: dict[str, list[Summary]] = {}
    for name in dict.fromkeys(map(family, DATA_SETS)):
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            if family(row["data"]) == name:
                groups.setdefault((row["model"], row["setting"]), []).append(row)
        if groups:
            found[name] = sorted(map(Summary, groups.values()), key=lambda s: s.figures["rmse"])
    return found


def ahead_table(found: dict[str, list[Summary]]) -> str:
    """ordbm's defaults beside the best peer by each measure, of those with the same splits."""
    lines = [
        "| data | measure | ordbm | best peer | which | difference | ahead |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, group in found.items():
        ours = next((one for one in group if one.is_default_ours), None)
        if ours is None:
            continue
        for key, measure in MEASURES.items():
            peers = [
                one
                for one in group
                if one.model != OURS and one.figures[key] is not None and one.splits >= ours.splits
            ]
            if not peers:
                continue
            best = min(peers, key=lambda one: one.figures[key])
            gap = ours.figures[key] - best.figures[key]
            lines.append(
                f"| {name} | {measure} | {ours.figures[key]:.4f} | {best.figures[key]:.4f} "
                f"| {best.model}, {best.setting} | {gap:+.4f} | {'yes' if gap < 0 else '**no**'} |"
            )
    return "\n".join(lines)


def code_note(rows: Sequence[Row]) -> str:
    """Whether the rows of ordbm are of one machine: it may have changed between runs."""
    defaults = [row for row in rows if (row["model"], row["setting"]) == (OURS, "default")]
    settings = {json.dumps(row.get("in_force"), sort_keys=True) for row in defaults}
    code = {row.get("code_sha256") for row in defaults}
    if len(settings) > 1:
        return (
            "**The rows of ordbm are of different default settings: run them again with "
            "`benchmarks/accuracy --models ours --again ours`.**\n\n"
        )
    if len(code) > 1:
        return "The rows of ordbm have the same settings, but not all the same code.\n\n"
    return ""


def number(value: float | None, digits: int) -> str:
    """A figure, or a dash."""
    return "–" if value is None else f"{value:.{digits}f}"


def splits_line(group: Sequence[Summary]) -> str:
    """Which splits there are so far: part of a data set must not pass for all of it."""
    splits = sorted(set().union(*(one.splits for one in group)))
    return "Splits so far: " + ", ".join(f"{data} seed {seed}" for data, seed in splits) + "."


def data_table(group: Sequence[Summary]) -> str:
    """All models on one data set, without the settings for budgets of time."""
    lines = [
        "| model | setting | MAE | RMSE | log-loss | fit s | cpu s | tune s | ask s | GB | n |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in group:
        if is_for_budget(one.setting):
            continue
        model = f"**{one.model}**" if one.is_default_ours else one.model
        figures = [number(one.figures[key], 4) for key in MEASURES]
        costs = [
            number(one.figures[key], digits)
            for key, digits in zip(COSTS, (2, 2, 0, 2, 2), strict=True)
        ]
        lines.append(
            f"| {model} | {one.setting} | {' | '.join((*figures, *costs))} | {len(one.splits)} |"
        )
    return "\n".join(lines)


def data_lines(rows: Sequence[Row]) -> str:
    """What each split is."""
    found = {(row["data"], row["seed"]): row for row in rows}
    return "\n".join(
        f"- {data}, seed {seed}: {row['n_users']:,} users, {row['n_items']:,} items, "
        f"{row['n_levels']} levels, {row['n_train']:,} + {row['n_test']:,} ratings; sha256 of the "
        f"file `{row['file_sha256'][:16]}…`, of the split `{row['split_sha256'][:16]}…`"
        for (data, seed), row in sorted(
            found.items(), key=lambda pair: list(DATA_SETS).index(pair[0][0])
        )
    )


def versions_line(rows: Sequence[Row]) -> str:
    """Every package that predicted, and its version or versions."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for name, version in row["versions"].items():
            found.setdefault(name, set()).add(version)
    return ", ".join(f"{name} {' / '.join(sorted(versions))}" for name, versions in found.items())


def page(rows: Sequence[Row], presets: str) -> str:
    """The whole page in Markdown; `presets` is the table of these."""
    if not rows:
        return "# Accuracy\n\nNo runs yet: start `benchmarks/accuracy`.\n"
    found = summaries(rows)
    tables = "\n\n".join(
        f"### {name}\n\n{splits_line(group)}\n\n{data_table(group)}"
        for name, group in found.items()
    )
    loads = [row["load"] for row in rows]
    busy = (
        ": other work slowed some runs down, so **times are not to be compared**; accuracy is not "
        "affected."
        if max(loads) > max(row["cores"] for row in rows)
        else "."
    )
    machines = sorted({f"{row['cpu']}, {row['cores']} cores" for row in rows})
    return f"""# Accuracy

Written by `benchmarks/accuracy`; a row of `accuracy.jsonl` for each run has its settings, versions,
checksums and command. Every model predicts the same test pairs from the same training ratings; test
ratings are read by the scorer alone. MAE is of the median where there is a distribution and of the
nearest level otherwise, RMSE of the mean within the scale; a dash is a model without probabilities.
"tuned" settings were chosen on a validation part of the training ratings (time under tuning) and
fitted again on all of it. ordbm runs as `OrdinalBM()`, without arguments.

## ordbm beside the best peer

The best peer by each measure, over all models and settings: chosen by the test ratings, in the
peers' favour. Below zero: ordbm is ahead.

{code_note(rows)}{ahead_table(found)}

## Presets of ordbm

`OrdinalBM(preset="fast")`, `OrdinalBM()` and `OrdinalBM(preset="best")`, on the splits that all
three have run on. Work is what `estimate` expects of a fit, beside the default's; cpu is processor
time beside the default's where both were taken in one run, and a dash elsewhere. Presets were
chosen on validation ratings (`benchmarks/trials --trials fast,best`); peers as above.

{presets}

## All models

Means over n splits; the best RMSE first. Times are wall clock; beside a fit's stands its processor
time, summed over threads; "ask" is predicting all test pairs. The load average at the start of a
run was between {min(loads):.1f} and {max(loads):.1f}{busy} Settings
for budgets of time are not shown: `benchmarks/plot` writes a page of their own, `budgets.md`.

{tables}

## Data and versions

{data_lines(rows)}
- machine: {"; ".join(machines)}
- versions: {versions_line(rows)}
"""
