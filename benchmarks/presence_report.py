"""The page and the pictures of the presence benchmark, from its rows alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from accuracy_report import versions_line
from matplotlib import pyplot as plt
from ranking_report import table

Row = dict[str, Any]
NAMES = {"ml-1m": "MovieLens 1M", "netflix": "the Netflix subset"}
CURVES = {
    "left out": "the pair left out of everything",
    "given": "as it is told to newcomers",
}
MOST_TIMES = 4  # the cost of a fit without presence
MOST_LISTS = {"ml-1m": (2.0, None), "netflix": (120.0, 2.0)}  # seconds, GB


# --- reliability ----------------------------------------------------------------------------------


def draw_reliability(rows: Sequence[Row], out: Path) -> None:
    """Observed share against P(rated), both on logarithmic axes, and how many pairs there are."""
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(6, 7), height_ratios=(3, 1), sharex=True, layout="constrained"
    )
    curves = rows[0]["curves"]
    lowest = min(curve["predicted"][0] for curve in curves.values())
    above.plot([lowest, 1], [lowest, 1], color="grey", linewidth=1, label="perfect")
    for place, (name, label) in enumerate(CURVES.items()):
        curve = curves[name]
        observed = np.array(curve["observed"])
        reach = np.abs(np.array(curve["interval"]).T - observed)
        above.errorbar(
            curve["predicted"], observed, reach, fmt="o-", markersize=4, capsize=2,
            color=f"C{place}", label=label,
        )  # fmt: skip
        below.plot(curve["predicted"], curve["count"], "o-", markersize=4, color=f"C{place}")
    above.set_xscale("log")
    above.set_yscale("log")
    below.set_yscale("log")
    above.set_ylabel("share that is rated")
    below.set_ylabel("pairs")
    below.set_xlabel("P(rated)")
    above.legend()
    for axes in (above, below):
        axes.grid(alpha=0.3)
    figure.savefig(out, metadata={"Date": None})
    plt.close(figure)


def reliability_part(rows: Sequence[Row], picture: str) -> str:
    """People whom the machine has never seen: a line for each bin."""
    if not rows:
        return "Not measured yet."
    row = rows[0]
    curve = row["curves"]["left out"]
    lines = [
        [
            f"{low:.2g} to {high:.2g}",
            f"{count:,}",
            f"{100 * predicted:.3g} %",
            f"{100 * observed:.3g} %",
            f"{100 * ends[0]:.3g} to {100 * ends[1]:.3g} %",
        ]
        for low, high, count, predicted, observed, ends in zip(
            *(curve[name] for name in ("low_edge", "high_edge", "count", "predicted", "observed")),
            curve["interval"],
            strict=True,
        )
    ]
    errors = "; ".join(
        f"{label}: **{row['curves'][name]['expected_calibration_error']:.5f}**, or "
        f"{row['curves'][name]['error_per_rating']:.3f} for each rating there is"
        for name, label in CURVES.items()
    )
    pairs = sum(curve["count"])
    return f"""{row["newcomers"]:,} of the {row["users"]:,} users of {NAMES[row["data"]]}, drawn at
random, are people whom the machine never sees; presence is learnt from the others alone. Then each
of them gives their ratings, and P(rated) of every item is compared with whether they rated it:
{pairs:,} pairs ({row["unknown_items"]} ratings of items that nobody else rated are left out). A
newcomer's bias and gain follow from how many ratings they gave. In the table and in the first curve
a rated pair is left out of these too: its P(rated) is that for somebody who gave the other ratings
alone. The second curve is what newcomers are told, with bias and gain from all they gave.

![Observed share against P(rated)]({picture})

{table(["P(rated)", "pairs", "mean of P(rated)", "rated", "95 % interval"], lines)}

Intervals are over bootstrap samples of newcomers. Expected calibration error, the mean over pairs
of |predicted − observed| of their bin: {errors}."""


# --- cost -----------------------------------------------------------------------------------------


def fit_part(rows: Sequence[Row]) -> str:
    """A line for each data set, beside the bound."""
    if not rows:
        return "Not measured yet."
    lines = []
    for row in rows:
        times = row["with_seconds"] / row["without_seconds"]
        cpu = row["with_cpu_seconds"] / row["without_cpu_seconds"]
        lines.append(
            [
                NAMES[row["data"]],
                f"{row['ratings']:,}",
                f"{row['without_seconds']:.1f} s",
                f"{row['with_seconds']:.1f} s",
                f"**{times:.2f}**",
                f"{cpu:.2f}",
                "held" if times <= MOST_TIMES else "**not held**",
            ]
        )
    head = ["data", "ratings", "without", "with", "times", "times, processor", "bound"]
    return f"""`OrdinalBM()` without presence and with it, one after the other in one process. The
bound is {MOST_TIMES} times.

{table(head, lines)}"""


def kinds(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of all and of some conditionals, from few to many ratings."""
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (-row["share"], row["ratings"])):
        users = "all users" if row["share"] == 1 else f"{row['share']:g} of the users"
        name = f"links of {users}"
        found.setdefault(name, []).append(row)
    return found


def slope(rows: Sequence[Row]) -> tuple[float, float]:
    """Slope and intercept of log(seconds) against log(ratings), by least squares."""
    ratings, seconds = (np.log([row[name] for row in rows]) for name in ("ratings", "seconds"))
    found = np.polyfit(ratings, seconds, 1)
    return float(found[0]), float(found[1])


def draw_growth(rows: Sequence[Row], out: Path) -> None:
    """Seconds, with the fitted line, by the number of ratings."""
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for place, (name, group) in enumerate(kinds(rows).items()):
        ratings = np.array([row["ratings"] for row in group])
        label = name
        if len(group) > 1:
            grown, intercept = slope(group)
            axes.plot(ratings, np.exp(intercept) * ratings**grown, color=f"C{place}")
            label = f"{name}: slope {grown:.2f}"
        seconds = [row["seconds"] for row in group]
        axes.plot(ratings, seconds, "o", color=f"C{place}", label=label)
    ticks = sorted({row["ratings"] for row in rows})
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(ticks, [f"{tick / 1e6:.3g} M" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("ratings")
    axes.set_ylabel("seconds of learning presence")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(out, metadata={"Date": None})
    plt.close(figure)


def growth_part(rows: Sequence[Row], picture: str) -> str:
    """A line for each size, and the exponent of growth."""
    if not rows:
        return "Not measured yet."
    lines = [
        [
            name,
            f"{row['ratings']:,}",
            f"{row['users']:,}",
            f"{row['linked']:,}",
            f"{row['seconds']:.1f} s",
            f"{1e6 * row['seconds'] / row['ratings']:.2f} µs",
        ]
        for name, group in kinds(rows).items()
        for row in group
    ]
    grown = [
        f"ratings^{slope(group)[0]:.2f} with {name}"
        for name, group in kinds(rows).items()
        if len(group) > 1
    ]
    told = (
        f"By a straight line through these points on log-log axes, time grows as "
        f"{' and as '.join(grown)}; 1 would be exactly linear."
        if grown
        else "There are too few sizes yet to say how time grows."
    )
    head = ["", "ratings", "users", "linked items", "time", "per rating"]
    return f"""Learning presence alone. Samples of {NAMES["netflix"]} are of whole users drawn at
random, so that rows keep their length. With a part of the users the
budget is that part of the work of all of them.

![Seconds of learning presence by ratings]({picture})

{table(head, lines)}

{told}"""


# --- lists ----------------------------------------------------------------------------------------


def lists_part(rows: Sequence[Row]) -> str:
    """A line for each data set and score, beside the bounds."""
    if not rows:
        return "Not measured yet."
    lines = []
    for row in rows:
        seconds, memory = MOST_LISTS[row["data"]]
        bound = f"{seconds:g} s" + ("" if memory is None else f", {memory:g} GB")
        for score in ("liked", "rated"):
            took = row[f"{score}_seconds"]
            held = took <= seconds and (memory is None or row["peak_gb"] <= memory)
            lines.append(
                [
                    NAMES[row["data"]],
                    score,
                    f"{row['users']:,}",
                    f"{row['items']:,}",
                    str(row["members"]),
                    f"**{took:.2f} s**",
                    f"{row['load_peak_gb']:.2f} GB",
                    f"{row['peak_gb']:.2f} GB",
                    f"{bound}: {'held' if held else '**not held**'}",
                ]
            )
    head = ["data", "list by", "users", "items", "machines", "time", "peak, loaded", "peak"]
    return f"""`recommend_all(n=10)` of a default machine for all users over the whole catalogue, in
a process that loads the model from its file and does nothing else. Lists by "liked" come first and
contain what is worked out once. Peak memory is of the whole process, the lists themselves and
loading included.

{table([*head, "bound"], lines)}"""


# --- the page -------------------------------------------------------------------------------------


def made_how(rows: Sequence[Row]) -> str:
    """Data, machine, code and load."""
    digests = sorted({f"{row['data']} `{row['file_sha256'][:16]}…`" for row in rows})
    machines = sorted({f"{row['cpu']}, {row['cores']} cores" for row in rows})
    loads = [row["load"] for row in rows]
    parts = [
        f"- sha256 of the files: {', '.join(digests)}",
        f"- seeds: {sorted({row['seed'] for row in rows})}",
        f"- machine: {'; '.join(machines)}",
        f"- commit: {', '.join(sorted({row['commit'] for row in rows}))}",
        f"- load average at the start of a measurement: {min(loads):.1f} to {max(loads):.1f}",
        f"- versions: {versions_line(rows)}",
    ]
    if any(row["size"] != "all" for row in rows if row["part"] != "growth"):
        parts.append("- **small samples: this shows that it runs, and nothing else**")
    if len({row["code_sha256"] for row in rows}) > 1:
        parts.append("- **not all rows are of the same code: run them with `--again`**")
    return "\n".join(parts)


def page(parts: Mapping[str, Sequence[Row]], pictures: Mapping[str, str]) -> str:
    """The whole page in Markdown."""
    return f"""# Presence

What learning which items get rated gives and costs. Written by `benchmarks/presence`; a row of
`presence.jsonl` for each measurement has its command, versions and checksums. Each is a process of
its own; compiling is done before, on a few ratings, and in no time here.

## P(rated) means what it says

{reliability_part(parts["reliability"], pictures["reliability"])}

## The cost of a fit

{fit_part(parts["fit"])}

## Growth with ratings

{growth_part(parts["growth"], pictures["growth"])}

## Lists for everybody

{lists_part(parts["lists"])}

## How it was made

{made_how([row for rows in parts.values() for row in rows])}
"""
