"""The page and the plot of the scaling benchmark, from its rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt

Row = dict[str, Any]
MOST_MINUTES, MOST_GB = 30, 4  # of the full training


def epoch_seconds(row: Row) -> float:
    """The median epoch after the first, by the clock."""
    return float(np.median(row["epoch_seconds"][1:]))


def processor_seconds(row: Row) -> float:
    """The same in processor time of all threads: other work hardly changes it."""
    return float(np.median(row["processor_seconds"]))


def kinds(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each data set, from few to many ratings."""
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["items"], row["ratings"])):
        found.setdefault(f"{row['items']:,} items", []).append(row)
    return found


def growth(rows: Sequence[Row]) -> tuple[float, float]:
    """Slope and intercept of log(processor seconds) against log(ratings), by least squares."""
    ratings = np.log([row["ratings"] for row in rows])
    seconds = np.log([processor_seconds(row) for row in rows])
    slope, intercept = np.polyfit(ratings, seconds, 1)
    return float(slope), float(intercept)


def draw(rows: Sequence[Row], out: Path) -> None:
    """Seconds per epoch, and nanoseconds per rating and pass."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for place, (name, group) in enumerate(kinds(rows).items()):
        colour = f"C{place}"
        ratings = np.array([row["ratings"] for row in group])
        seconds = np.array([processor_seconds(row) for row in group])
        left.plot(ratings, seconds, "o-", color=colour, label=name)
        right.plot(ratings, 5e8 * seconds / ratings, "o-", color=colour, label=name)
    for axes in (left, right):
        axes.set_xscale("log")
        ticks = sorted({row["ratings"] for row in rows})
        axes.set_xticks(ticks, [f"{tick / 1e6:.1f} M" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("ratings")
        axes.grid(alpha=0.3)
        axes.legend()
    left.set_yscale("log")
    left.set_ylabel("processor seconds per epoch")
    right.set_ylim(bottom=0)
    right.set_ylabel("nanoseconds per rating and pass")
    figure.savefig(out, metadata={"Date": None})
    plt.close(figure)


def table(rows: Sequence[Row]) -> str:
    """A line for each size."""
    head = (
        "| data | ratings | users | threads | per rating and pass | epoch | reading | fit | peak |"
    )
    lines = [head, "| --- " * 9 + "|"]
    for name, group in kinds(rows).items():
        for row in group:
            pass_ns = 5e8 * processor_seconds(row) / row["ratings"]
            threads = row["settings"]["threads"] or "all"
            lines.append(
                f"| {name} | {row['ratings']:,} | {row['users']:,} | {threads} | {pass_ns:.0f} ns "
                f"| {epoch_seconds(row):.2f} s | {row['read_seconds']:.1f} s "
                f"| {row['fit_seconds']:.0f} s | {row['peak_gb']:.2f} GB |"
            )
    return "\n".join(lines)


def slopes(rows: Sequence[Row]) -> str:
    """The fitted growth of each machine in words."""
    if len(rows) < 2:
        return "There are too few sizes yet to say how time grows."
    return (
        "By a straight line through all points on log-log axes, processor time grows as "
        f"ratings^{growth(rows)[0]:.2f}; 1 would be exactly linear."
    )


def full_line(row: Row) -> str:
    """The full training, beside its bounds."""
    minutes, memory = row["fit_seconds"] / 60, row["peak_gb"]
    held = minutes < MOST_MINUTES and memory < MOST_GB
    return (
        f"All {row['ratings']:,} ratings, {row['settings']['item_links']} item links, "
        f"{row['settings']['epochs']} epochs: **{minutes:.1f} minutes** "
        f"(of which {row['links_seconds']:.1f} s finding links; reading took another "
        f"{row['read_seconds']:.1f} s) and **{row['peak_gb']:.2f} GB** at the peak. The bounds are "
        f"{MOST_MINUTES} minutes and {MOST_GB} GB: {'held' if held else '**not held**'}."
    )


def made_how(rows: Sequence[Row]) -> str:
    """Command, data, machine, code and load."""
    digests = {row["file_sha256"] for row in rows}
    loads = [row["load"] for row in rows]
    machines = {f"{row['cpu']}, {row['cores']} cores" for row in rows}
    parts = [
        f"- data: sha256 {', '.join(f'`{digest[:16]}…`' for digest in sorted(digests))}",
        f"- samples: seeds {sorted({row['sample_seed'] for row in rows})}",
        f"- machine: {'; '.join(sorted(machines))}",
        f"- commit: {', '.join(sorted({row['commit'] for row in rows}))}",
        f"- load average at the start of a run: {min(loads):.1f} to {max(loads):.1f}",
    ]
    if len({row["code_sha256"] for row in rows}) > 1:
        parts.append("- **not all rows are of the same code: run `benchmarks/scaling --again`**")
    versions = sorted({f"{k} {v}" for row in rows for k, v in row["versions"].items()})
    return "\n".join([*parts, f"- versions: {', '.join(versions)}"])


def page(short: Sequence[Row], full: Sequence[Row]) -> str:
    """The whole page in Markdown."""
    trained = "\n\n".join(map(full_line, full)) or "Not done yet."
    return f"""# Scaling

Written by `benchmarks/scaling`; a row of `scaling.jsonl` for each training has its settings,
versions, checksums and command. Joint ordinal machine, 20 hidden units a side, exact
pseudo-likelihood, without links and presence. Samples of the Netflix ratings, of 3,000 items and of
all, are of whole users drawn at random, so that rows keep their length; each training is a process
of its own.

![Seconds per epoch and nanoseconds per rating and pass](scaling.svg)

{table(short)}

{slopes(short)}

An epoch is the median of those after the first, which also compiles and prepares the training, and
has two passes, one of each side. Time per rating and pass is processor time of all
threads. Peak memory is of the whole
process, reading included.

## Full training

{trained}

## How it was made

{made_how([*short, *full])}
"""
