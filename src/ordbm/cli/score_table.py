"""Scores of several models side by side, the best of each marked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from rich import box
from rich.table import Table
from rich.text import Text

from ordbm.runtime.printable import printable

GAP = 3  # between columns

SHORT = {
    "mae_mean": "MAE mean",
    "mae_median": "MAE median",
    "mae_mode": "MAE mode",
    "rmse": "RMSE",
    "log_loss": "log-loss",
    "rps": "RPS",
    "calibration_error": "calib. error",
    "mrr": "MRR",
    "half_life_utility": "half-life utility",
}


def score_tables(models: Mapping[str, Mapping[str, float]], width: int) -> Iterator[Table]:
    """Tables of the scores of predicted ratings, and of those of lists if there are any.

    Where a table would be wider than `width`, its columns are spread over several.
    """
    names = list(next(iter(models.values())))
    ranking = [name for name in names if is_larger_better(name)]
    rating = [name for name in names if name not in ranking]
    for chosen, remark in ((rating, "smaller is better"), (ranking, "larger is better")):
        room = width - max(map(len, models)) - GAP
        for part in _fitting({name: _width(models, name) for name in chosen}, room):
            yield _table(models, part, remark)


def _fitting(widths: Mapping[str, int], room: int) -> Iterator[dict[str, int]]:
    """Consecutive parts of the columns that fit into the room; at least one in each."""
    part: dict[str, int] = {}
    for name, width in widths.items():
        if part and sum(part.values()) + width + GAP * (len(part) + 1) > room:
            yield part
            part = {}
        part[name] = width
    if part:
        yield part


def _width(models: Mapping[str, Mapping[str, float]], name: str) -> int:
    """Of a column: headings may break at spaces, figures not at all."""
    words = SHORT.get(name, name).split()
    return max(map(len, words + [_figure(scores[name]) for scores in models.values()]))


def _figure(score: float) -> str:
    return f"{score:.4f}" if math.isfinite(score) else "–"


def is_larger_better(name: str) -> bool:
    """Of a list's score; those of predicted ratings are errors."""
    return "@" in name or name in ("mrr", "half_life_utility")


def best_of(models: Mapping[str, Mapping[str, float]], name: str) -> set[str]:
    """The models with the best score as it is printed; ties share."""
    shown = {model: round(scores[name], 4) for model, scores in models.items()}
    finite = [score for score in shown.values() if math.isfinite(score)]
    best = (max if is_larger_better(name) else min)(finite, default=math.nan)
    return {model for model, score in shown.items() if score == best}


def _table(
    models: Mapping[str, Mapping[str, float]], widths: Mapping[str, int], remark: str
) -> Table:
    found = Table(box=box.SIMPLE_HEAD, caption=remark, caption_justify="left")
    found.add_column("", min_width=max(map(len, models)))
    for name, width in widths.items():
        found.add_column(SHORT.get(name, name), justify="right", width=width)
    best = {name: best_of(models, name) for name in widths}
    for model, scores in models.items():
        cells = [
            Text(_figure(scores[name]), style="bold green" if model in best[name] else "")
            for name in widths
        ]
        found.add_row(Text(printable(model)), *cells)
    return found
