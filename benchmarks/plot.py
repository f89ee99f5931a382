"""Accuracy against time: what each model reaches within a budget of seconds. Needs matplotlib.

    benchmarks/plot [--data ml-1m-80] [--seed 0] [--out benchmarks/results/budgets.svg]

From the rows of `benchmarks/accuracy`, among them those of the settings made for budgets
(`benchmarks/accuracy --data ml-1m-80 --models '*:budget*'`). Writes the plot, and beside it a page
with the best of each model within each budget.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from accuracy import RESULTS, Row, is_current, stored_rows
from accuracy_report import MEASURES, data_lines, number, versions_line
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from models import BUDGET_DATA, BUDGET_SECONDS, MODELS, OURS, is_for_budget

MARKERS = "osD^v<>PX*hp"
SHOWN = 0.8  # of the points, from the best one on: the rest is far off


def learn_seconds(row: Row) -> float:
    """Wall clock without making the package's own data set, where the row has it."""
    return float(row.get("learn_seconds", row["fit_seconds"]))


# --- the plot -------------------------------------------------------------------------------------


def draw(axes: Axes, rows: Sequence[Row], key: str) -> None:
    """One measure: a point for each run, and the best so far of each model."""
    known = [row for row in rows if row[key] is not None]
    last = 1.2 * max(*map(learn_seconds, rows), BUDGET_SECONDS[-1])
    for place, model in enumerate(MODELS):
        points = sorted((learn_seconds(row), row[key]) for row in known if row["model"] == model)
        if not points:
            continue
        seconds, values = np.array(points).T
        ours = model == OURS
        colour = "black" if ours else f"C{place % 10}"
        marker, order = MARKERS[place % len(MARKERS)], 3 if ours else 2
        best = np.minimum.accumulate(values)
        axes.step(
            np.append(seconds, last),
            np.append(best, best[-1]),
            where="post",
            color=colour,
            linewidth=2.5 if ours else 1,
            zorder=order,
        )
        axes.plot(
            seconds,
            values,
            marker,
            color=colour,
            markersize=4,
            zorder=order,
            label="ordbm" if ours else model,
        )
    axes.set_xscale("log")
    axes.set_xticks(BUDGET_SECONDS, map(str, BUDGET_SECONDS))
    axes.minorticks_off()
    axes.set_xlim(0.7 * min(map(learn_seconds, rows)), last)
    values = [row[key] for row in known]
    if values:
        low, high = np.min(values), np.quantile(values, SHOWN)
        margin = 0.05 * (high - low) + 1e-4
        axes.set_ylim(low - margin, high + margin)
    axes.set_xlabel("seconds of learning")
    axes.set_title(MEASURES[key])
    axes.grid(alpha=0.3)


def plot(rows: Sequence[Row], out: Path) -> None:
    """RMSE large, the other measures small."""
    figure, places = plt.subplot_mosaic(
        [["rmse", "mae"], ["rmse", "log_loss"]],
        figsize=(13, 7),
        width_ratios=(2, 1),
        layout="constrained",
    )
    for key in MEASURES:
        draw(places[key], rows, key)
    figure.suptitle(f"{rows[0]['data']}: best so far by time of learning")
    figure.legend(*places["rmse"].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)


# --- the page -------------------------------------------------------------------------------------


def within(rows: Sequence[Row], model: str, key: str, seconds: float) -> float | None:
    """What a model reaches in time.

    A peer's best by this very measure, which the test ratings choose in its favour; for ordbm
    nothing is chosen by them: it is the longest of its settings for budgets that keeps to the time.
    """
    found = [
        row
        for row in rows
        if row["model"] == model and row[key] is not None and learn_seconds(row) <= seconds
    ]
    if model == OURS:
        found = [row for row in found if is_for_budget(row["setting"])]
        found = sorted(found, key=learn_seconds)[-1:]
    return min((row[key] for row in found), default=None)


def budget_table(rows: Sequence[Row], key: str) -> str:
    """A line for each model, a column for each budget, and how far ordbm is from the best peer."""
    reached = {
        model: [within(rows, model, key, seconds) for seconds in BUDGET_SECONDS]
        for model in MODELS
        if any(row["model"] == model and row[key] is not None for row in rows)
    }
    lines = [
        f"| {MEASURES[key]} | " + " | ".join(f"{seconds} s" for seconds in BUDGET_SECONDS) + " |",
        "| --- |" + " --- |" * len(BUDGET_SECONDS),
    ]
    for model, values in reached.items():
        name = "**ordbm**" if model == OURS else model
        lines.append(f"| {name} | {' | '.join(number(value, 4) for value in values)} |")
    ours = reached.pop(OURS, [None] * len(BUDGET_SECONDS))
    gaps = []
    for place, mine in enumerate(ours):
        peers = [values[place] for values in reached.values() if values[place] is not None]
        if mine is None:
            gaps.append("**no ordbm**" if peers else "–")
        else:
            gaps.append(f"{mine - min(peers):+.4f}" if peers else "no peer")
    return "\n".join([*lines, f"| *ordbm less the best peer* | {' | '.join(gaps)} |"])


def ratio_line(rows: Sequence[Row]) -> str:
    """ordbm's time to reach the most accurate peer's RMSE, over that peer's time."""
    peers = [row for row in rows if row["model"] != OURS]
    ours = [row for row in rows if row["model"] == OURS]
    if not (peers and ours):
        return "There are no runs of ordbm, or none of its peers, yet."
    best = min(peers, key=lambda row: row["rmse"])
    told = (
        f"The most accurate peer is {best['model']}, {best['setting']}: RMSE {best['rmse']:.4f} in "
        f"{learn_seconds(best):.1f} s."
    )
    there = [row for row in ours if row["rmse"] <= best["rmse"]]
    if not there:
        nearest = min(ours, key=lambda row: row["rmse"])
        return (
            f"{told} ordbm **does not reach it**: its best is {nearest['rmse']:.4f} "
            f"({nearest['setting']}, {learn_seconds(nearest):.1f} s)."
        )
    first = min(there, key=learn_seconds)
    ratio = learn_seconds(first) / learn_seconds(best)
    return (
        f"{told} ordbm reaches that with {first['setting']} ({first['rmse']:.4f}) in "
        f"{learn_seconds(first):.1f} s: **{ratio:.3f} of that peer's time**."
    )


def page(rows: Sequence[Row], picture: str) -> str:
    """The whole page in Markdown."""
    tables = "\n\n".join(budget_table(rows, key) for key in ("rmse", "mae", "log_loss"))
    loads = [row["load"] for row in rows]
    data, cores = rows[0]["data"], max(row["cores"] for row in rows)
    busy = " **Other work slowed some runs down.**" if max(loads) > cores else ""
    whole = sum("learn_seconds" not in row for row in rows)
    old = f" {whole} rows have only the time with that included." if whole else ""
    return f"""# Accuracy within budgets of time

Written by `benchmarks/plot` from `accuracy.jsonl`, the rows that `benchmarks/accuracy` writes with
`--data {data}` and with `--data {data} --models '*:budget*'`; each has its settings, versions,
checksums and command. Time is the wall clock of learning: reading ratings, making the package's own
data set of them, compiling, tuning and predicting are not in it.{old}

![Best so far by time of learning]({picture})

{ratio_line(rows)}

Of each peer, the best of all its settings that keep to the time, for each measure by itself: chosen
by the test ratings, in the peers' favour. Of ordbm, the longest of its settings for budgets that
keeps to the time, whatever it scores. A dash: nothing in this time, or no probabilities.

{tables}

The load average at the start of a run was between {min(loads):.1f} and {max(loads):.1f}.{busy}

{data_lines(rows)}
- machine: {"; ".join(sorted({f"{row['cpu']}, {row['cores']} cores" for row in rows}))}
- versions: {versions_line(rows)}
"""


def main() -> None:
    """Draw, write the page and say where they are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=BUDGET_DATA, help="data set (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the split (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=RESULTS / "accuracy.jsonl")
    parser.add_argument("--out", type=Path, default=RESULTS / "budgets.svg")
    arguments = parser.parse_args()
    rows = [
        row
        for row in stored_rows(arguments.results)
        if is_current(row) and (row["data"], row["seed"]) == (arguments.data, arguments.seed)
    ]
    if not rows:
        parser.error(
            f"no runs on {arguments.data} in {arguments.results}: start benchmarks/accuracy"
        )
    plot(rows, arguments.out)
    text = arguments.out.with_suffix(".md")
    text.write_text(page(rows, arguments.out.name))
    print(f"{arguments.out}\n{text}")


if __name__ == "__main__":
    main()
