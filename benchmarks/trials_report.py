"""The page of the trials, written from their rows alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from accuracy_report import versions_line
from splits import DATA_SETS, family

Row = dict[str, Any]
CSR = dict[tuple[str, int], Row]  # of one trial, by data set and seed
MEASURES = ("log_loss", "rmse", "mae")
LINE = "| {} |".format


class Table(NamedTuple):
    """The trials of a group; the first is the base, to which the others are compared."""

    group: str
    question: str
    trials: dict[str, CSR]


def identity(in_force: dict[str, Any]) -> str:
    """Settings as a text, without what a trial is repeated over or does not depend on."""
    counted = {name: in_force[name] for name in in_force if name not in ("seed", "threads")}
    return json.dumps(counted, sort_keys=True)


def by_family(rows: CSR) -> dict[str, CSR]:
    """The rows of each data set; folds are one."""
    found: dict[str, CSR] = {}
    for place in sorted(rows, key=lambda place: (list(DATA_SETS).index(place[0]), place[1])):
        found.setdefault(family(place[0]), {})[place] = rows[place]
    return found


def means(rows: Sequence[Row]) -> np.ndarray:
    """Log-loss, RMSE and MAE, averaged over the rows."""
    return np.mean([[row[name] for name in MEASURES] for row in rows], axis=0)


def standard_error(rows: CSR, base: CSR) -> float:
    """Of the mean difference in log-loss, trial by trial on the same validation ratings."""
    differences = [
        np.subtract(row["log_loss_parts"], base[place]["log_loss_parts"])
        for place, row in rows.items()
    ]
    squared = [np.var(parts, ddof=1) / len(parts) for parts in differences]
    return float(np.sqrt(np.sum(squared)) / len(squared))


class Difference(NamedTuple):
    """A trial beside its base on one data set, over the splits that both have."""

    measures: np.ndarray
    error: float  # of the first
    cost: float  # ratio of processor times


def difference(rows: CSR, base: CSR) -> Difference:
    """Trial minus base."""
    pairs = [(row, base[place]) for place, row in rows.items()]
    mine, theirs = zip(*pairs, strict=True)
    costs = [np.log(row["fit_cpu_seconds"] / other["fit_cpu_seconds"]) for row, other in pairs]
    return Difference(
        means(mine) - means(theirs), standard_error(rows, base), float(np.exp(np.mean(costs)))
    )


def group_section(table: Table, default: CSR) -> str:
    """The trials of a group on each data set, and how they differ from the base."""
    heading = f"## {table.group}\n\n{table.question}"
    (first, compared), *others = table.trials.items()
    base = by_family(compared)
    shown = {label: rows for label, rows in others if rows}
    if not base or all(rows == compared for rows in shown.values()):
        return f"{heading}\n\nNo runs yet."
    if compared not in shown.values():  # else it has the name that says what is compared
        shown = {first: compared, **shown}
    n_splits = {name: len(splits) for name, splits in base.items()}
    columns = [f"{name} ({n})" if n > 1 else name for name, n in n_splits.items()]
    figures = [LINE(" | ".join(["trial", *columns]))]
    changes = [LINE(" | ".join(["trial", *columns, "mean log-loss", "time"]))]
    for lines in (figures, changes):
        lines.append(LINE(" | ".join(["---"] * (lines[0].count("|") - 1))))
    for label, rows in shown.items():
        name = f"**{label}**" if rows == compared else label
        name += " (default)" if rows == default and label != "default" else ""
        mine = by_family(rows)
        shared = {
            data: {place: row for place, row in mine.get(data, {}).items() if place in splits}
            for data, splits in base.items()
        }
        cells = [
            " / ".join(f"{value:.4f}" for value in means(list(of.values())))
            + (f" ({len(of)} of {n_splits[data]})" if len(of) < n_splits[data] else "")
            if of
            else "–"
            for data, of in shared.items()
        ]
        figures.append(LINE(" | ".join([name, *cells])))
        if rows != compared:
            changes.append(LINE(" | ".join([name, *change_cells(shared, base)])))
    return f"{heading}\n\n" + "\n".join(figures) + "\n\n" + "\n".join(changes)


def change_cells(shared: dict[str, CSR], base: dict[str, CSR]) -> list[str]:
    """Differences on each data set; their mean if none is missing; and the cost."""
    found = {data: difference(of, base[data]) if of else None for data, of in shared.items()}
    cells = [
        "–"
        if one is None
        else f"{one.measures[0]:+.4f} ± {one.error:.4f} / {one.measures[1]:+.4f} / "
        f"{one.measures[2]:+.4f}"
        for one in found.values()
    ]
    known = [one for one in found.values() if one is not None]
    whole = all(len(of) == len(base[data]) for data, of in shared.items())
    if whole:
        mean = np.mean([one.measures[0] for one in known])
        error = np.sqrt(np.sum([one.error**2 for one in known])) / len(known)
        cells.append(f"{mean:+.4f} ± {error:.4f}")
    else:
        cells.append("–")
    cost = np.exp(np.mean([np.log(one.cost) for one in known])) if known else None
    cells.append("–" if cost is None else f"× {cost:.2f}")
    return cells


def data_lines(rows: Sequence[Row]) -> str:
    """What was learnt from and what was predicted."""
    lines = {
        (list(DATA_SETS).index(row["data"]), row["seed"]): f"- {row['data']}, seed {row['seed']}: "
        f"{row['n_fitted']:,} + {row['n_validation']:,} ratings; sha256 of the file "
        f"`{row['file_sha256'][:16]}…`, of the split `{row['split_sha256'][:16]}…`"
        for row in rows
    }
    return "\n".join(lines[place] for place in sorted(lines))


def page(tables: Sequence[Table], default: CSR) -> str:
    """The whole page in Markdown; `default` is the rows of `OrdinalBM()`."""
    used = [row for table in tables for rows in table.trials.values() for row in rows.values()]
    if not used:
        return "# Trials\n\nNo runs yet: start `benchmarks/trials`.\n"
    sections = "\n\n".join(group_section(table, default) for table in tables)
    note = (
        "**Not all rows are of the same code: `benchmarks/trials --again` does the others again.**"
        "\n\n"
        if len({row["code_sha256"] for row in used}) > 1
        else ""
    )
    machines = sorted({f"{row['cpu']}, {row['cores']} cores" for row in used})
    return f"""# Trials

Written by `benchmarks/trials`; a row of `trials.jsonl` for each run has its settings, seed,
versions, checksums and command. A trial is `OrdinalBM()` with the settings named; it learns from
the training ratings of a split without those marked for validation, and its figures are of these.
No test rating is opened.

In each group: log-loss / RMSE of the mean / MAE of the median, and below them the differences to
the trial in bold (below zero: better). A number behind a data set's name is that of its splits,
which figures are means over; "1 of 2" has fewer. After ± is the standard error of the difference in
log-loss on the same ratings, from {len(used[0]["log_loss_parts"])} parts of the users: what other
ratings would change, not what another seed of the machine would. The mean has all data sets count
the same. Time is processor time as a multiple of the base's.

{note}{sections}

## Data and versions

Ratings learnt from + predicted:

{data_lines(used)}
- machine: {"; ".join(machines)}
- load average at the start of a run: {min(row["load"] for row in used):.1f} to \
{max(row["load"] for row in used):.1f}
- versions: {versions_line(used)}
"""
