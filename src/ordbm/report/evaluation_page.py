"""Evaluations as one page: scores, reliability, learning, and users by how much they rated."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from ordbm.errors import RatingsError
from ordbm.evaluation import CrossValidation, Evaluation
from ordbm.evaluation.evaluations import score_from_ratio, totals_of
from ordbm.metrics.calibration import BINS, Reliability, curve_of
from ordbm.plots import plot_learning, plot_reliability
from ordbm.report.page import (
    Cell,
    FactList,
    Gallery,
    PagePart,
    Paragraph,
    Picture,
    SectionHeading,
    Table,
    html_page,
    write_page,
)

Evaluated = Evaluation | CrossValidation

# What a score is called, and whether larger is better.
_SCORE_NAMES = {
    "mae_mean": "MAE of the mean",
    "mae_median": "MAE of the median",
    "mae_mode": "MAE of the mode",
    "rmse": "RMSE",
    "log_loss": "log-loss",
    "rps": "ranked probability score",
    "calibration_error": "calibration error",
    "precision": "precision",
    "recall": "recall",
    "ndcg": "nDCG",
    "mrr": "mean reciprocal rank",
    "half_life_utility": "half-life utility, %",
}
_LARGER_IS_BETTER = {"precision", "recall", "ndcg", "mrr", "half_life_utility"}
_BY_ACTIVITY = ("rmse", "log_loss")  # scores shown by number of a user's test ratings
_ACTIVITY_GROUPS = 4


def write_report(
    evaluations: Evaluated | Sequence[Evaluated],
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    date: dt.date | None = None,
    command: str | None = None,
    data: str | Mapping[str, object] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a page about one or several evaluations or cross-validations; its path.

    Without `title` it is called after the models, without `date` it has today's. `command` is how
    they were made; `data` says on what, in words or as names and values. The page appears whole or
    not at all; of files that are there, it replaces such pages only, or any with `overwrite`.
    """
    found = [evaluations] if isinstance(evaluations, Evaluated) else list(evaluations)
    if not found:
        raise RatingsError("nothing to report: give one evaluation or more")
    facts = {} if data is None else dict(data) if isinstance(data, Mapping) else {"data": data}
    day = date or dt.datetime.now(dt.UTC).date()
    parts = [
        _facts(found, {"date": day.isoformat(), **facts}, command),
        *_scores(found),
        *_reliability(found),
        *_calibration(found),
        *_learning(found),
        *_by_activity(found),
    ]
    target = Path(path)
    page = html_page(title or evaluation_title(found), parts)
    write_page(target, page, overwrite=overwrite)
    return target


def evaluation_title(found: Sequence[Evaluated]) -> str:
    """`Evaluation of OrdinalBM beside bias, item-knn`: models without their settings."""
    first, *others = (one.model.partition("(")[0] for one in found)
    return f"Evaluation of {first}" + (f" beside {', '.join(others)}" if others else "")


def _facts(
    found: Sequence[Evaluated], facts: Mapping[str, object], command: str | None
) -> FactList:
    folds = _folds(found[0])
    lines = {name: str(value) for name, value in facts.items()}
    lines["models"] = "\n".join(one.model for one in found)
    tested = f"{sum(fold.n_ratings for fold in folds):,} ratings by {folds[0].n_users:,} users"
    lines["tested on"] = tested if len(folds) == 1 else f"{tested}, in {len(folds)} folds"
    if command is not None:
        lines["command"] = command
    return FactList(lines)


def _scores(found: Sequence[Evaluated]) -> Iterator[PagePart]:
    """Scores by model, the best of each marked; then time taken and strangers met."""
    names = list(dict.fromkeys(name for one in found for name in one.scores))
    rows = [_score_row(found, name) for name in names]
    rows += [
        (words, [_number(_total(one, field, name), form) for one in found])
        for words, field, name, form in (
            ("seconds to fit", "seconds", "fit", ",.2f"),
            ("seconds to predict", "seconds", "predict", ",.2f"),
            ("seconds to rank", "seconds", "rank", ",.2f"),
            ("test ratings by unknown users", "unknown", "users", ",.0f"),
            ("test ratings of unknown items", "unknown", "items", ",.0f"),
        )
        if any(_total(one, field, name) is not None for one in found)
    ]
    note = "↓ smaller is better, ↑ larger is better."
    if len(found) > 1:
        note += " The best of each is bold."
    if any(isinstance(one, CrossValidation) for one in found):
        note += " Cross-validation: mean of the folds ± standard error."
    if any(isinstance(one, Evaluation) and one.intervals for one in found):
        note += " In parentheses, 95 % of bootstrap samples of users."
    yield SectionHeading("Scores")
    yield Paragraph(note)
    yield Table(["", *(one.model for one in found)], rows)


def _score_row(found: Sequence[Evaluated], name: str) -> tuple[str, Sequence[Cell | str]]:
    values = [one.scores.get(name) for one in found]
    sign = 1 if name.partition("@")[0] in _LARGER_IS_BETTER else -1
    best = max((sign * value for value in values if _is_number(value)), default=None)
    cells = [
        Cell(
            _number(value),
            _spread(one, name),
            is_best=len(found) > 1 and _is_number(value) and sign * value == best,
        )
        for one, value in zip(found, values, strict=True)
    ]
    return f"{_score_name(name)} {'↑' if sign > 0 else '↓'}", cells


def _spread(one: Evaluated, name: str) -> str:
    if isinstance(one, CrossValidation):
        error = one.standard_errors.get(name)
        return "" if error is None else f"± {_number(error)}"
    if name not in one.intervals:
        return ""
    low, high = one.intervals[name]
    return f"({_number(low)} to {_number(high)})"


def _reliability(found: Sequence[Evaluated]) -> Iterator[PagePart]:
    drawn = [(one.model, _curves(one)) for one in found]
    pictures = [
        Picture(plot_reliability(curves), f"reliability-{number}", model)
        for number, (model, curves) in enumerate(drawn)
        if curves
    ]
    if pictures:
        yield SectionHeading("Reliability")
        yield Paragraph(
            "How much more often a rating at or above each threshold came true than was predicted, "
            "by its predicted probability. On its dashed line, it came true as often; larger dots "
            "stand for more ratings."
        )
        yield Gallery(pictures)


def _calibration(found: Sequence[Evaluated]) -> Iterator[PagePart]:
    errors = [{curve.label: curve.error for curve in _curves(one)} for one in found]
    labels = list(dict.fromkeys(label for of_model in errors for label in of_model))
    if labels:
        yield SectionHeading("Calibration by threshold")
        yield Paragraph(
            "Mean distance of predicted probabilities from what came true; smaller is better."
        )
        rows = [(f"≥ {label}", [_number(one.get(label)) for one in errors]) for label in labels]
        yield Table(["rating", *(one.model for one in found)], rows)


def _learning(found: Sequence[Evaluated]) -> Iterator[PagePart]:
    pictures = []
    for number, one in enumerate(found):
        folds = _folds(one)
        if folds[0].history:
            caption = one.model + (", first fold" if len(folds) > 1 else "")
            pictures.append(Picture(plot_learning(folds[0].history), f"learning-{number}", caption))
    if pictures:
        yield SectionHeading("Learning")
        yield Gallery(pictures)


def _by_activity(found: Sequence[Evaluated]) -> Iterator[PagePart]:
    """Scores of users in groups of about equal size by how many test ratings they have."""
    weights = [fold.weights.get("log_loss", ()) for one in found for fold in _folds(one)]
    count = np.concatenate(weights)
    if not count.size:
        return
    shares = np.linspace(0, 1, _ACTIVITY_GROUPS + 1)[1:]
    edges = [0.0, *np.unique(np.quantile(count, shares, method="lower")).tolist()]
    heads = [
        f"{low + 1:,.0f}" if high == low + 1 else f"{low + 1:,.0f} to {high:,.0f}"
        for low, high in pairwise(edges)
    ]
    yield SectionHeading("By number of a user's test ratings")
    yield Paragraph("Users in groups of about equal size; smaller is better.")
    for name in _BY_ACTIVITY:
        rows = [
            (one.model, [_number(value) for value in _grouped(one, name, edges)])
            for one in found
            if name in _folds(one)[0].weights
        ]
        if rows:
            yield Table([_score_name(name), *heads], rows)


def _grouped(one: Evaluated, name: str, edges: Sequence[float]) -> list[float | None]:
    """The score of the users whose number of test ratings is in each group, over all folds."""
    sums = np.zeros((2, len(edges) - 1))
    for fold in _folds(one):
        total, weight = totals_of(name, fold.per_user[name], fold.weights[name])
        group = np.searchsorted(edges, weight) - 1
        for row, amount in enumerate((total, weight)):
            sums[row] += np.bincount(group, amount, len(edges) - 1)
    return [
        float(score_from_ratio(name, total / weight)) if weight > 0 else None
        for total, weight in sums.T
    ]


def _curves(one: Evaluated) -> list[Reliability]:
    """Reliability curves, those of all folds pooled."""
    folds = _folds(one)
    if len(folds) == 1:
        return folds[0].reliability
    pooled: dict[tuple[float, str], NDArray[np.float64]] = {}
    inner = np.linspace(0.0, 1.0, BINS + 1)[1:-1]
    for fold in folds:
        for curve in fold.reliability:
            sums = pooled.setdefault((curve.threshold, curve.label), np.zeros((3, BINS)))
            place = np.searchsorted(inner, curve.predicted)
            parts = (
                curve.count,
                curve.count * curve.predicted,
                curve.count * curve.observed,
            )
            for row, part in zip(sums, parts, strict=True):
                np.add.at(row, place, part)
    return [curve_of(sums, *key) for key, sums in sorted(pooled.items())]


def _folds(one: Evaluated) -> list[Evaluation]:
    return one.evaluations if isinstance(one, CrossValidation) else [one]


def _total(one: Evaluated, field: str, name: str) -> float | None:
    values = [getattr(fold, field).get(name) for fold in _folds(one)]
    return None if None in values else float(sum(values))


def _score_name(name: str) -> str:
    kind, at, length = name.partition("@")
    return _SCORE_NAMES.get(kind, kind) + (f" at {length}" if at else "")


def _number(value: float | None, form: str = "") -> str:
    """Four decimals, or as many digits where the scale is another; a dash for none."""
    if not _is_number(value):
        return "–"
    return format(value, form or (".4f" if abs(value) < 100 else ",.4g"))


def _is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and bool(np.isfinite(value))
