"""The report: our figures beside the paper's, and its orderings one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from ordbm.errors import ModelFileError, SettingsError
from ordbm.experiments.claims import Checked, Verdict, checked, estimate
from ordbm.experiments.definition import MAE, NAMES, Experiment, experiment_of
from ordbm.experiments.pages import (
    Facts,
    Heading,
    Paragraph,
    Part,
    Picture,
    Table,
    write_pages,
)
from ordbm.experiments.pictures import (
    Groups,
    draw_curves,
    draw_lists,
    draw_sizes,
    draw_table,
    orders_of,
)
from ordbm.experiments.results import Row, rows_of

TITLE = "The paper's experiments, reproduced"
ABOUT = (
    "Tran, Phung and Venkatesh, Ordinal Boltzmann Machines for Collaborative Filtering, section 4. "
    "No setting was chosen on test ratings. Figures are means over seeds ± standard error; a seed "
    "is that of the split into training and test ratings, of initial parameters and of sampling."
)
QUICK = (
    "Quick mode: samples of users and fewer seeds. It shows that all of it runs, and how; its "
    "figures do not compare with the paper's."
)
OWN_DATA = "These are not the ratings of the paper: its figures do not compare."
LEARNERS = {"paper": "the paper's learner", "ours": "our learner"}


def write_report(results: Path) -> list[Path]:
    """Write `report.html` and `report.md` from the rows in a folder of results; their paths."""
    found = {}
    for name in NAMES:
        rows = rows_of(results / f"{name}.jsonl")
        if rows:
            found[name] = chosen(rows)
    if not found:
        raise SettingsError(
            f"{results} has no results yet: run ordbm reproduce figure3 --data PATH first, or name "
            "their folder with --results"
        )
    checks: list[Checked] = []
    sections: list[Part] = []
    for name, rows in found.items():
        experiment = _as_run(experiment_of(name), rows)
        _check_known(experiment, rows, results)
        own = checked(experiment, rows)
        checks += own
        sections += _section(experiment, rows, own)
    return write_pages(results, TITLE, [Paragraph(ABOUT), *_summary(found, checks), *sections])


def chosen(rows: Sequence[Row]) -> list[Row]:
    """The last row of each run; quick ones only where there are no others."""
    full = [row for row in rows if not row["quick"]]
    last = {
        (row["machine"], row["learner"], row["hidden"], row["seed"]): row for row in full or rows
    }
    return list(last.values())


def _as_run(experiment: Experiment, rows: Sequence[Row]) -> Experiment:
    return experiment.quickly() if rows[0]["quick"] else experiment


def _check_known(experiment: Experiment, rows: Sequence[Row], results: Path) -> None:
    for row in rows:
        if row["machine"] not in experiment.machines or row["learner"] not in experiment.learners:
            raise ModelFileError(
                f"{results / experiment.name}.jsonl has a run that is no part of this experiment: "
                f"{row['machine']}, {row['learner']}; take its lines out, or choose another folder"
            )


def _summary(found: dict[str, list[Row]], checks: Sequence[Checked]) -> Iterator[Part]:
    """What holds of what the paper claims."""
    if any(rows[0]["quick"] for rows in found.values()):
        yield Paragraph(QUICK)
    yield Heading("Orderings that the paper claims")
    yield Paragraph(
        "Each is checked with each learner, at each number of hidden units: it holds if the whole "
        "95 % interval of the difference, seed by seed on the same split, is on its side of zero, "
        "and is undecided if the interval has zero in it. From one seed there is no interval."
    )
    counted: dict[str, dict[str, int]] = {}
    for one in checks:
        if one.claim.of_the_paper:
            of_learner = counted.setdefault(one.learner, {})
            of_learner[one.verdict] = of_learner.get(one.verdict, 0) + 1
    verdicts = [name for name in get_args(Verdict) if any(name in one for one in counted.values())]
    yield Table(
        ["", *verdicts],
        [
            [LEARNERS[learner], *(str(one.get(verdict, 0)) for verdict in verdicts)]
            for learner, one in counted.items()
        ],
    )


def _section(
    experiment: Experiment, rows: Sequence[Row], checks: Sequence[Checked]
) -> Iterator[Part]:
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: _order(experiment, row)):
        groups.setdefault((row["machine"], row["learner"], row["hidden"]), []).append(row)
    yield Heading(experiment.title)
    yield Paragraph(experiment.about)
    if rows[0]["quick"]:
        yield Paragraph(QUICK)
    elif not all(row["data"]["is_the_papers"] for row in rows):
        yield Paragraph(OWN_DATA)
    yield from _pictures(experiment, groups)
    yield from _tables(experiment, groups)
    yield _claims(checks)
    yield _scores(groups)
    yield _facts(experiment, rows)


def _order(experiment: Experiment, row: Row) -> tuple[Any, ...]:
    machines, learners = list(experiment.machines), list(experiment.learners)
    place = machines.index(row["machine"]), learners.index(row["learner"])
    return *place, row["hidden"], row["seed"]


def _pictures(experiment: Experiment, groups: Groups) -> Iterator[Part]:
    if experiment.shown_as == "table":
        yield Picture(draw_table(groups, experiment), experiment.name, _caption(experiment))
        return
    for learner in dict.fromkeys(its for _, its, _ in groups if its in LEARNERS):
        if experiment.shown_as == "curves":
            ax = draw_curves(groups, learner)
        elif experiment.shown_as == "sizes":
            ax = draw_sizes(groups, learner)
        else:
            ax = draw_lists(groups, experiment, learner)
        caption = f"{_caption(experiment)}, {LEARNERS[learner]}"
        yield Picture(ax, f"{experiment.name}-{learner}", caption)


def _caption(experiment: Experiment) -> str:
    return experiment.title + (" (quick mode)" if experiment.is_quick else "")


def _tables(experiment: Experiment, groups: Groups) -> Iterator[Part]:
    if experiment.shown_as == "lists":
        yield _lists(experiment, groups)
    if experiment.shown_as == "table":
        yield _beside_the_paper(experiment, groups)


def _beside_the_paper(experiment: Experiment, groups: Groups) -> Table:
    """MAE at each size: as reported, by the paper's learner, by ours."""
    heads = [
        f"{who}, K = {hidden}"
        for hidden in experiment.hidden
        for who in ("reported", "its learner", "our learner")
    ]
    rows = []
    for machine, reported in experiment.reported.items():
        cells = []
        for value, hidden in zip(reported, experiment.hidden, strict=True):
            own = [
                groups.get((machine, learner, hidden), [])
                for learner in (("sgd", "sgd") if machine == "SVD" else ("paper", "ours"))
            ]
            by_paper = _mean(own[0], MAE)
            by_ours = _mean(own[1], "mae_median" if machine == "SVD" else MAE)
            cells += [f"{value:.3f}", by_paper, by_ours]
        rows.append([machine, *cells])
    return Table(["MAE", *heads], rows)


def _lists(experiment: Experiment, groups: Groups) -> Table:
    shown = [
        (name, length)
        for name in ("precision", "recall", "utility")
        for length in (10, experiment.lengths[-1])
    ]
    rows = [
        [f"{machine}, {_by(order)}{_learner(learner)}"]
        + [_mean(own, f"{order} {name}@{length}") for name, length in shown]
        for (machine, learner, _), own in groups.items()
        for order in orders_of(own)
    ]
    return Table(["lists", *(f"{name} at {length}" for name, length in shown)], rows)


def _by(order: str) -> str:
    return "by counts" if order == "popularity" else f"by {order}"


def _learner(learner: str) -> str:
    return f", {LEARNERS[learner]}" if learner in LEARNERS else ""


def _claims(checks: Sequence[Checked]) -> Table:
    return Table(
        ["claim", "learner", "hidden units", "advantage", "95 % interval", "verdict"],
        [
            [
                one.claim.text + ("" if one.claim.of_the_paper else " (our check)"),
                LEARNERS[one.learner],
                "" if one.hidden is None else str(one.hidden),
                f"{one.advantage.mean:+.4f}",
                "" if one.interval is None else f"{one.interval[0]:+.4f} to {one.interval[1]:+.4f}",
                one.verdict,
            ]
            for one in checks
        ],
    )


def _scores(groups: Groups) -> Table:
    """Everything that was measured, a line for each machine, learner and size."""
    names = {
        "mae_mode": "MAE of mode", "mae_median": "of median", "mae_mean": "of mean",
        "mae_rounded": "of mean, rounded", "mae_point": "of point",
        "mae_point_rounded": "of point, rounded", "rmse": "RMSE", "log_loss": "log-loss",
    }  # fmt: skip
    rated = {key: rows for key, rows in groups.items() if MAE in rows[0]["scores"]}
    shown = [name for name in names if any(name in rows[0]["scores"] for rows in rated.values())]
    return Table(
        [
            "machine",
            *(names[name] for name in shown),
            "epochs",
            "seconds to fit",
            "peak MB",
            "seeds",
        ],
        [
            [f"{machine}, {hidden}{_learner(learner)}"]
            + [_mean(rows, name) for name in shown]
            + [
                f"{estimate([row['kept_epoch'] for row in rows]).mean:.0f}",
                f"{estimate([row['seconds']['fit'] for row in rows]).mean:.1f}",
                _memory(rows),
                str(len(rows)),
            ]
            for (machine, learner, hidden), rows in rated.items()
        ],
    )


def _memory(rows: Sequence[Row]) -> str:
    known = [row["peak_bytes"] for row in rows if row["peak_bytes"]]
    return f"{max(known) / 1e6:.0f}" if known else ""


def _mean(rows: Sequence[Row], score: str) -> str:
    """Mean ± standard error; empty where there is nothing."""
    values = [row["scores"][score] for row in rows if score in row["scores"]]
    if not values:
        return ""
    found = estimate(values)
    decimals = 2 if "utility" in score else 4
    error = "" if found.error is None else f" ± {found.error:.{decimals}f}"
    return f"{found.mean:.{decimals}f}{error}"


def _facts(experiment: Experiment, rows: Sequence[Row]) -> Facts:
    """How it was done, so that it can be done again."""

    def several(*values: Any) -> str:
        return "; ".join(dict.fromkeys(str(value) for value in values))

    data, split = [row["data"] for row in rows], [row["split"] for row in rows]
    return Facts(
        {
            "data": several(
                *(
                    f"{experiment.data.title}: {one['ratings']:,} ratings by {one['users']:,} "
                    f"users of {one['items']:,} items"
                    for one in data
                )
            ),
            "file": several(*(f"{one['file']}, SHA-256 {one['sha256']}" for one in data)),
            "split": f"{100 * split[0]['test_fraction']:.0f} % of each user's ratings to test on, "
            f"seeds {several(*sorted({one['seed'] for one in split}))}",
            **{
                f"learner {name}": f"{one['about']}{_length(one)}"
                for name, one in experiment.learners.items()
            },
            "version": several(*(f"ordbm {row['version']}" for row in rows)),
            "command": several(*(row["command"] for row in rows)),
        }
    )


def _length(learner: Any) -> str:
    if "epochs" not in learner:
        return ""
    if not learner.get("validation"):
        return f"; {learner['epochs']} epochs"
    share = f"{100 * learner['validation']:.0f} % of the training ratings"
    return f"; up to {learner['epochs']} epochs, the one kept with the best log-loss on {share}"
