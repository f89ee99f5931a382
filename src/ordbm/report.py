"""Evaluations as one self-contained HTML page: no scripts, fonts or links to anywhere."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2s
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ordbm import __version__
from ordbm.errors import ModelFileError, RatingsError
from ordbm.evaluation import CrossValidation, Evaluation
from ordbm.evaluation.evaluations import score_from_ratio, totals_of
from ordbm.metrics.calibration import BINS, Reliability, curve_of
from ordbm.plots import plot_learning, plot_reliability
from ordbm.runtime.atomic_files import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Evaluated = Evaluation | CrossValidation

# What a score is called, and whether larger is better.
NAMES = {
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
LARGER_IS_BETTER = {"precision", "recall", "ndcg", "mrr", "half_life_utility"}
BY_ACTIVITY = ("rmse", "log_loss")  # scores shown by number of a user's test ratings
ACTIVITY_GROUPS = 4


def write_report(
    evaluations: Evaluated | Sequence[Evaluated],
    path: str | os.PathLike[str],
    *,
    title: str = "Evaluation",
    command: str | None = None,
    data: str | Mapping[str, object] | None = None,
) -> Path:
    """Write a page about one or several evaluations or cross-validations; its path.

    `command` is how they were made; `data` says on what, in words or as names and values. The page
    appears whole or not at all.
    """
    found = [evaluations] if isinstance(evaluations, Evaluated) else list(evaluations)
    if not found:
        raise RatingsError("nothing to report: give one evaluation or more")
    facts = {} if data is None else dict(data) if isinstance(data, Mapping) else {"data": data}
    sections = [
        _facts(found, facts, command),
        _scores(found),
        _reliability(found),
        _calibration(found),
        _learning(found),
        _by_activity(found),
    ]
    template = Template((files("ordbm") / "templates" / "report.html").read_text(encoding="utf-8"))
    page = template.substitute(
        title=escape(title), body="\n".join(filter(None, sections)), version=__version__
    )
    target = Path(path)
    try:
        with atomic_file(target) as file:
            file.write(page.encode())
    except OSError as error:
        raise ModelFileError(
            f"cannot write {target}: {error.strerror or error}; choose a file name in a folder "
            "that exists and may be written to"
        ) from None
    return target


def _facts(found: Sequence[Evaluated], facts: Mapping[str, object], command: str | None) -> str:
    folds = _folds(found[0])
    lines = {name: escape(str(value)) for name, value in facts.items()}
    lines["models"] = "<br>".join(escape(one.model) for one in found)
    tested = f"{sum(fold.n_ratings for fold in folds):,} ratings by {folds[0].n_users:,} users"
    lines["tested on"] = tested if len(folds) == 1 else f"{tested}, in {len(folds)} folds"
    if command is not None:
        lines["command"] = f"<code>{escape(command)}</code>"
    return _list(lines)


def _list(lines: Mapping[str, str]) -> str:
    inside = "\n".join(f"<dt>{escape(name)}</dt><dd>{text}</dd>" for name, text in lines.items())
    return f"<dl>\n{inside}\n</dl>"


def _scores(found: Sequence[Evaluated]) -> str:
    """Scores by model, the best of each marked; then time taken and strangers met."""
    names = list(dict.fromkeys(name for one in found for name in one.scores))
    rows = [_score_row(found, name) for name in names]
    rows += [
        _row(words, [_figure(_total(one, field, name), form) for one in found])
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
    return f"<h2>Scores</h2>\n<p>{note}</p>\n{_table(['', *(one.model for one in found)], rows)}"


def _score_row(found: Sequence[Evaluated], name: str) -> str:
    values = [one.scores.get(name) for one in found]
    sign = 1 if name.partition("@")[0] in LARGER_IS_BETTER else -1
    best = max((sign * value for value in values if _is_number(value)), default=None)
    cells = []
    for one, value in zip(found, values, strict=True):
        mark = len(found) > 1 and _is_number(value) and sign * value == best
        spread = f"<small>{_spread(one, name)}</small>" if _spread(one, name) else ""
        kind = ' class="best"' if mark else ""
        cells.append(f"<td{kind}>{_number(value)}{spread}</td>")
    return _row(f"{_score_name(name)} {'↑' if sign > 0 else '↓'}", cells)


def _spread(one: Evaluated, name: str) -> str:
    if isinstance(one, CrossValidation):
        error = one.standard_errors.get(name)
        return "" if error is None else f"± {_number(error)}"
    if name not in one.intervals:
        return ""
    low, high = one.intervals[name]
    return f"({_number(low)} to {_number(high)})"


def _reliability(found: Sequence[Evaluated]) -> str:
    drawn = [(one.model, _curves(one)) for one in found]
    if not any(curves for _, curves in drawn):
        return ""
    figures = [_picture(plot_reliability(curves), model) for model, curves in drawn if curves]
    return (
        "<h2>Reliability</h2>\n<p>How often a rating at or above each threshold came true, by its "
        "predicted probability. On the dashed line, what was predicted came true as often; larger "
        f'dots stand for more ratings.</p>\n<div class="figures">{"".join(figures)}</div>'
    )


def _calibration(found: Sequence[Evaluated]) -> str:
    errors = [{curve.label: curve.error for curve in _curves(one)} for one in found]
    labels = list(dict.fromkeys(label for of_model in errors for label in of_model))
    if not labels:
        return ""
    rows = [_row(f"≥ {label}", [_figure(one.get(label)) for one in errors]) for label in labels]
    return (
        "<h2>Calibration by threshold</h2>\n<p>Mean distance of predicted probabilities from what "
        "came true; smaller is better.</p>\n"
        f"{_table(['rating', *(one.model for one in found)], rows)}"
    )


def _learning(found: Sequence[Evaluated]) -> str:
    figures = []
    for one in found:
        folds = _folds(one)
        if folds[0].history:
            caption = one.model + (", first fold" if len(folds) > 1 else "")
            figures.append(_picture(plot_learning(folds[0].history), caption))
    if not figures:
        return ""
    return f'<h2>Learning</h2>\n<div class="figures">{"".join(figures)}</div>'


def _by_activity(found: Sequence[Evaluated]) -> str:
    """Scores of users in groups of about equal size by how many test ratings they have."""
    weights = [fold.weights.get("log_loss", ()) for one in found for fold in _folds(one)]
    count = np.concatenate(weights)
    if not count.size:
        return ""
    shares = np.linspace(0, 1, ACTIVITY_GROUPS + 1)[1:]
    edges = [0.0, *np.unique(np.quantile(count, shares, method="lower")).tolist()]
    heads = [
        f"{low + 1:,.0f}" if high == low + 1 else f"{low + 1:,.0f} to {high:,.0f}"
        for low, high in pairwise(edges)
    ]
    tables = []
    for name in BY_ACTIVITY:
        rows = [
            _row(one.model, [_figure(value) for value in _grouped(one, name, edges)])
            for one in found
            if name in _folds(one)[0].weights
        ]
        if rows:
            tables.append(_table([_score_name(name), *heads], rows))
    return (
        "<h2>By number of a user's test ratings</h2>\n<p>Users in groups of about equal size; "
        f"smaller is better.</p>\n{''.join(tables)}"
    )


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
    return NAMES.get(kind, kind) + (f" at {length}" if at else "")


def _figure(value: float | None, form: str = "") -> str:
    return f"<td>{_number(value) if not form or value is None else format(value, form)}</td>"


def _number(value: float | None) -> str:
    """Four decimals, or as many digits where the scale is another; a dash for none."""
    if not _is_number(value):
        return "–"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.4g}"


def _is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and bool(np.isfinite(value))


def _row(head: str, cells: Sequence[str]) -> str:
    return f'<tr><th scope="row">{escape(head)}</th>{"".join(cells)}</tr>'


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    inside = "\n".join(rows)
    return (
        f'<div class="wide"><table>\n<thead><tr>{top}</tr></thead>\n'
        f"<tbody>\n{inside}\n</tbody></table></div>"
    )


def _picture(ax: Axes, caption: str) -> str:
    """A figure as inline SVG, with text as text and ids that no other picture has."""
    import matplotlib as mpl  # noqa: PLC0415

    drawn = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": caption}):
        ax.figure.canvas.figure.savefig(drawn, format="svg", metadata=nothing)
    svg = drawn.getvalue()
    svg = svg[svg.index("<svg") :]
    own = f"p{blake2s(svg.encode(), digest_size=6).hexdigest()}-"
    svg = re.sub(r'(\sid="|url\(#|href="#)', rf"\g<1>{own}", svg)
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
