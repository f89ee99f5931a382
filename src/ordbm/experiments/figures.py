"""Pictures of results, one function for each way that an experiment is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ordbm.errors import SettingsError
from ordbm.experiments.claims import Estimate, estimate
from ordbm.experiments.definition import MAE, OWN, Experiment
from ordbm.experiments.result_rows import Row
from ordbm.plots import BLUE, GREY, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GREEN, _PURPLE = "#009E73", "#CC79A7"  # two more of Okabe and Ito's
_COLOURS = (GREY, BLUE, ORANGE, _GREEN, _PURPLE)
_STYLES = {"energy as printed": ":", "mean": "--", "rated": ".-", "liked": "-."}
_MEASURES = {"precision": "precision", "recall": "recall", "utility": "half-life utility, %"}

Groups = Mapping[tuple[str, str, int], Sequence[Row]]  # (machine, learner, hidden) to seeds


def draw_curves(groups: Groups, learner: str) -> Axes:
    """MAE by iteration, with a band of one standard error over seeds."""
    ax = panels(1)[0]
    for number, ((machine, its, _), rows) in enumerate(_of_learner(groups, learner).items()):
        score = f"mae_{rows[0]['decode']}"
        _draw_curve(ax, rows, score, machine, _COLOURS[number])
        if its == "sgd":
            _draw_curve(ax, rows, "mae_rounded", f"{machine}, rounded", _COLOURS[number], "--")
    ax.set(xlabel="iteration", ylabel="MAE")
    ax.set_ylim(top=min(ax.get_ylim()[1], ax.get_ylim()[0] + 0.15))
    _name_lines(ax)
    return ax


def draw_sizes(groups: Groups, learner: str) -> Axes:
    """MAE by number of hidden units."""
    ax = panels(1)[0]
    found = _of_learner(groups, learner)
    for number, machine in enumerate(dict.fromkeys(name for name, *_ in found)):
        points = sorted(
            (hidden, estimate(_scores(rows, MAE)))
            for (name, _, hidden), rows in found.items()
            if name == machine
        )
        ax.errorbar(
            [hidden for hidden, _ in points],
            [one.mean for _, one in points],
            yerr=[one.error or 0.0 for _, one in points],
            color=_COLOURS[number], label=machine, marker="o", markersize=4, capsize=2,
        )  # fmt: skip
    ax.set(xlabel="hidden units", ylabel="MAE")
    _name_lines(ax)
    return ax


def draw_table(groups: Groups, experiment: Experiment) -> Axes:
    """MAE of each machine, a panel for each size: as reported, and with both learners."""
    axes = panels(len(experiment.hidden), (3.2, 3.8), sharex=True, sharey=True)
    machines = list(experiment.machines)
    places = np.arange(len(machines))[::-1]
    for ax, (number, hidden) in zip(axes, enumerate(experiment.hidden), strict=True):
        reported = [experiment.reported[machine][number] for machine in machines]
        ax.plot(reported, places, "o", color=GREY, fillstyle="none", label="the paper reports")
        for learners, colour, name in (
            (("paper", "sgd"), BLUE, "its learner"),
            (("ours",), ORANGE, "our learner"),
        ):
            shown = [
                (estimate(_scores(rows, MAE)).mean, places[machines.index(machine)])
                for (machine, learner, size), rows in groups.items()
                if learner in learners and size == hidden
            ]
            ax.plot([x for x, _ in shown], [y for _, y in shown], "o", color=colour, label=name)
        ax.set_title(f"K = {hidden}", fontsize=10)
        ax.set_xlabel("MAE")
        ax.grid(axis="y", color="#EEEEEE")
        ax.set_yticks(places, machines)
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
    return axes[0]


def draw_lists(groups: Groups, experiment: Experiment, learner: str) -> Axes:
    """Precision, recall and utility by length of the list."""
    axes = panels(len(_MEASURES), (3.4, 3.2))
    for ax, (score, name) in zip(axes, _MEASURES.items(), strict=True):
        for number, ((machine, _, _), rows) in enumerate(_of_learner(groups, learner).items()):
            for order in orders_of(rows):
                listed = [row["lists"][order][score] for row in rows if order in row["lists"]]
                by_length = zip(*listed, strict=True)
                values = [estimate(one) for one in by_length]
                label = machine if order == "popularity" else f"{machine}, by {order}"
                line = _COLOURS[number], _STYLES.get(order, "-")
                _draw_line(ax, experiment.lengths, values, label, *line)
        ax.set(xlabel="length of the list", ylabel=name)
        ax.set_ylim(bottom=0)
    _name_lines(axes[-1])
    return axes[0]


def orders_of(rows: Sequence[Row]) -> list[str]:
    """What lists were ranked by, in any of the rows: earlier ones may have had fewer orders."""
    return list(dict.fromkeys(order for row in rows for order in row["lists"]))


def panels(n: int, size: tuple[float, float] = (5.2, 3.6), **shared: Any) -> list[Axes]:
    """Axes side by side, bare of what carries no information."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise SettingsError('the report needs matplotlib: pip install "ordbm[plot]"') from None
    room = 2.4 if n > 1 else 2.6  # inches beside the panels, for names
    figure = Figure(figsize=(n * size[0] + room, size[1]), layout="constrained")
    axes = list(figure.subplots(1, n, squeeze=False, **shared)[0])
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return axes


def _of_learner(groups: Groups, learner: str) -> Groups:
    """Machines with this learner, and those that have one of their own."""
    return {key: rows for key, rows in groups.items() if key[1] in (learner, *OWN)}


def _scores(rows: Sequence[Row], name: str) -> list[float]:
    return [row["scores"][name] for row in rows]


def _draw_curve(
    ax: Axes, rows: Sequence[Row], score: str, name: str, colour: str, style: str = "-"
) -> None:
    by_epoch = zip(
        *([epoch["test"][score] for epoch in row["epochs"]] for row in rows), strict=True
    )
    values = [estimate(one) for one in by_epoch]
    _draw_line(ax, range(1, len(values) + 1), values, name, colour, style)


def _draw_line(
    ax: Axes, x: Sequence[int], values: Sequence[Estimate], name: str, colour: str, style: str
) -> None:
    mean = np.array([one.mean for one in values])
    error = np.array([one.error or 0.0 for one in values])
    ax.plot(x, mean, style, color=colour, label=name, linewidth=1.5)
    ax.fill_between(x, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)


def _name_lines(ax: Axes) -> None:
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
