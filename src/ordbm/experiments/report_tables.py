"""The tables of the reproduction report."""

from __future__ import annotations

from collections.abc import Sequence

from ordbm.experiments.claims import ClaimCheck, estimate
from ordbm.experiments.definition import BOTH, MAE, Experiment
from ordbm.experiments.effect_sizes import AdvantageCurve, EffectSize
from ordbm.experiments.figures import Groups, orders_of
from ordbm.experiments.result_rows import Row
from ordbm.report.page import Table

LEARNER_NAMES = {"paper": "the paper's learner", "ours": "our learner"}


def effect_table(experiment: Experiment, effects: Sequence[EffectSize]) -> Table:
    """Advantages as the paper reports them and as they are here, and how much of them is left."""
    sizes = " / ".join(map(str, experiment.hidden))
    return Table(
        [
            f"advantage in MAE, K = {sizes}",
            "the paper reports",
            "here, its learner",
            "here, our learner",
            "its learner ÷ reported",
            "our learner ÷ reported",
        ],
        [
            (
                one.claim.text,
                [
                    _advantages(one.reported),
                    *(_advantages(one.measured[learner]) for learner in BOTH),
                    *(_share(one.kept(learner)) for learner in BOTH),
                ],
            )
            for one in effects
        ],
    )


def progress_table(experiment: Experiment, progress: Sequence[AdvantageCurve]) -> Table:
    """Advantages in MAE of validation ratings after some epochs."""
    sizes = " / ".join(map(str, experiment.hidden))
    epochs = sorted({epoch for one in progress for epoch in one.by_epoch})
    return Table(
        [
            f"advantage in validation MAE, K = {sizes}",
            *(f"{epoch} epoch{'s' * (epoch > 1)}" for epoch in epochs),
        ],
        [
            (
                f"{one.claim.text}, {LEARNER_NAMES[one.learner]}",
                [_advantages(one.by_epoch.get(epoch, ())) for epoch in epochs],
            )
            for one in progress
        ],
    )


def _advantages(values: Sequence[float | None]) -> str:
    return " / ".join("–" if one is None else f"{one:.3f}" for one in values)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def table_beside_the_papers(experiment: Experiment, groups: Groups) -> Table:
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
        rows.append((machine, cells))
    return Table(["MAE", *heads], rows)


def list_table(experiment: Experiment, groups: Groups) -> Table:
    """Precision, recall and utility of every order."""
    shown = [
        (name, length)
        for name in ("precision", "recall", "utility")
        for length in (10, experiment.lengths[-1])
    ]
    rows = [
        (
            f"{machine}, {_by(order)}{_learner(learner)}",
            [_mean(own, f"{order} {name}@{length}") for name, length in shown],
        )
        for (machine, learner, _), own in groups.items()
        for order in orders_of(own)
    ]
    return Table(["lists", *(f"{name} at {length}" for name, length in shown)], rows)


def _by(order: str) -> str:
    return "by counts" if order == "popularity" else f"by {order}"


def _learner(learner: str) -> str:
    return f", {LEARNER_NAMES[learner]}" if learner in LEARNER_NAMES else ""


def claim_table(checks: Sequence[ClaimCheck]) -> Table:
    """What holds, one line for each claim, learner and size."""
    return Table(
        ["claim", "learner", "hidden units", "advantage", "95 % interval", "verdict"],
        [
            (
                one.claim.text + ("" if one.claim.of_the_paper else " (our check)"),
                [
                    LEARNER_NAMES[one.learner],
                    "" if one.hidden is None else str(one.hidden),
                    f"{one.advantage.mean:+.4f}",
                    _span(one.interval),
                    one.verdict,
                ],
            )
            for one in checks
        ],
    )


def measurement_table(groups: Groups) -> Table:
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
            (
                f"{machine}, {hidden}{_learner(learner)}",
                [
                    *(_mean(rows, name) for name in shown),
                    f"{estimate([row['kept_epoch'] for row in rows]).mean:.0f}",
                    f"{estimate([row['seconds']['fit'] for row in rows]).mean:.1f}",
                    _memory(rows),
                    str(len(rows)),
                ],
            )
            for (machine, learner, hidden), rows in rated.items()
        ],
    )


def _span(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{interval[0]:+.4f} to {interval[1]:+.4f}"


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
