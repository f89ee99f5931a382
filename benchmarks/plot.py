"""Accuracy against fit time, a row of plots for each data set. Needs matplotlib.

    benchmarks/plot [--data ml-1m-80,ml-100k] [--out benchmarks/results/accuracy.svg]

Each point is a model with one setting; lines join the settings of a model from quick to strong.
Tuning is not part of the time.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from accuracy import RESULTS, chosen, is_current, stored_rows
from accuracy_report import MEASURES, Summary, summaries
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from models import MODELS, OURS

MARKERS = "osD^v<>PX*hp"
SHOWN = 0.8  # of the points, from the best one on: the rest is far off
BUDGETS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)  # seconds


def draw(axes: Axes, group: list[Summary], key: str) -> None:
    """One measure on one data set."""
    known = [one for one in group if one.figures[key] is not None]
    for place, model in enumerate(MODELS):
        points = sorted(
            (one.figures["fit_seconds"], one.figures[key]) for one in known if one.model == model
        )
        if points:
            ours = model == OURS
            axes.plot(
                *zip(*points, strict=True),
                marker=MARKERS[place % len(MARKERS)],
                color="black" if ours else f"C{place % 10}",
                linewidth=2.5 if ours else 1,
                zorder=3 if ours else 2,
                label="ordbm" if ours else model,
            )
    axes.set_xscale("log")
    axes.set_xticks(BUDGETS, map(str, BUDGETS))
    axes.minorticks_off()
    values = [one.figures[key] for one in known]
    if values:
        low, high = np.min(values), np.quantile(values, SHOWN)
        margin = 0.05 * (high - low)
        axes.set_ylim(low - margin, high + margin)
    axes.grid(alpha=0.3)


def main() -> None:
    """Draw and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="*", help="data sets, by pattern")
    parser.add_argument("--results", type=Path, default=RESULTS / "accuracy.jsonl")
    parser.add_argument("--out", type=Path, default=RESULTS / "accuracy.svg")
    arguments = parser.parse_args()
    found = summaries([row for row in stored_rows(arguments.results) if is_current(row)])
    if not found:
        parser.error(f"no runs in {arguments.results}: start benchmarks/accuracy first")
    names = chosen(list(found), arguments.data.split(","))
    size = 4.2 * len(MEASURES), 3.2 * len(names) + 1.2
    figure, grid = plt.subplots(
        len(names), len(MEASURES), figsize=size, squeeze=False, sharex="row", layout="constrained"
    )
    for row, name in zip(grid, names, strict=True):
        for axes, (key, measure) in zip(row, MEASURES.items(), strict=True):
            draw(axes, found[name], key)
            seconds = [one.figures["fit_seconds"] for one in found[name]]
            axes.set_xlim(0.7 * min(seconds), 1.4 * max(seconds))
            axes.set_title(f"{name}: {measure}")
    for axes in grid[-1]:
        axes.set_xlabel("fit time, seconds")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    figure.savefig(
        arguments.out, metadata={"Date": None} if arguments.out.suffix == ".svg" else None
    )
    print(arguments.out)


if __name__ == "__main__":
    main()
