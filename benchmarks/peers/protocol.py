"""What every model of the accuracy benchmark does: read ratings, fit, predict pairs, write a file.

A script says how to fit, `fit(ratings, **settings) -> predict(user, item)`, and calls `run`; within
`fit` it says by `learning_begins()` that the package's own data set is made. It is given the
training ratings and the pairs to predict, never the test ratings. A prediction is an expected
rating per pair, (pairs,), or a probability per level, (pairs, levels). A setting that is a list has
alternatives: each combination is fitted without the validation ratings, the one with the least RMSE
on them is chosen, and then fitted on all. Needs NumPy alone, as it runs in every environment.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from data import stopwatch


class RatingsPart(NamedTuple):
    """Ratings with users and items numbered from 0; the numbers also cover those of the test."""

    user: np.ndarray  # int32
    item: np.ndarray  # int32
    level: np.ndarray  # int16, the rating's place among `values`
    values: np.ndarray  # float64, the levels of the scale from lowest to highest
    n_users: int
    n_items: int

    @property
    def rating(self) -> np.ndarray:
        return self.values[self.level]

    @property
    def bounds(self) -> tuple[float, float]:
        return float(self.values[0]), float(self.values[-1])

    def select(self, chosen: np.ndarray) -> RatingsPart:
        return self._replace(
            user=self.user[chosen], item=self.item[chosen], level=self.level[chosen]
        )


Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]
Fit = Callable[..., Predict]


def training(path: Path) -> tuple[RatingsPart, np.ndarray]:
    """The ratings to learn from, and which of them are for validation."""
    with np.load(path) as stored:
        part = RatingsPart(
            stored["user"],
            stored["item"],
            stored["level"],
            stored["values"],
            int(stored["n_users"]),
            int(stored["n_items"]),
        )
        return part, stored["validation"]


def expected(prediction: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The expected rating of each pair, within the scale."""
    mean = prediction @ values if prediction.ndim == 2 else prediction
    return np.clip(mean, values[0], values[-1])


def combinations(settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each choice of one alternative per setting that is a list."""
    choices = [value if isinstance(value, list) else [value] for value in settings.values()]
    for chosen in itertools.product(*choices):
        yield dict(zip(settings, chosen, strict=True))


def best_settings(
    fit: Fit, ratings: RatingsPart, validation: np.ndarray, settings: dict[str, Any]
) -> dict[str, Any]:
    """The combination with the least RMSE on the validation ratings."""
    known, held_out = ratings.select(~validation), ratings.select(validation)

    def error(candidate: dict[str, Any]) -> float:
        prediction = fit(known, **candidate)(held_out.user, held_out.item)
        return float(
            np.nanmean((expected(prediction, ratings.values) - held_out.rating) ** 2) ** 0.5
        )

    candidates = list(combinations(settings))
    return min(candidates, key=error) if len(candidates) > 1 else candidates[0]


def without_gaps(prediction: np.ndarray, ratings: RatingsPart) -> tuple[np.ndarray, int]:
    """Pairs without an answer get the mean training rating (or frequencies); and their number."""
    gap = ~np.isfinite(prediction.reshape(len(prediction), -1)).all(axis=1)
    share = np.bincount(ratings.level, minlength=len(ratings.values)) / len(ratings.level)
    filled = prediction.astype(np.float64)
    filled[gap] = share if prediction.ndim == 2 else share @ ratings.values
    return filled, int(gap.sum())


def learning_begins() -> None:
    """What comes now is learning: time budgets are for that.

    A list of ratings takes some packages longer to read than to learn from.
    """
    _begun.append(time.perf_counter())


_begun: list[float] = []


def peak_gb() -> float:
    """Peak resident memory of this process alone: what ran before its start does not count."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def run(
    fit: Fit,
    packages: Sequence[str],
    warm_up: Fit | None = None,
    about: Callable[..., dict[str, Any]] | None = None,
) -> None:
    """Do what the command line asks for, and write predictions, times and versions.

    `about(**settings)` is what else the row should say.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("train", type=Path, help="training ratings (.npz)")
    parser.add_argument("pairs", type=Path, help="pairs to predict (.npz)")
    parser.add_argument("out", type=Path, help="where the predictions go (.npz)")
    parser.add_argument("--settings", type=json.loads, default={}, help="JSON")
    arguments = parser.parse_args()

    ratings, validation = training(arguments.train)
    with np.load(arguments.pairs) as stored:
        user, item = stored["user"], stored["item"]
    settings = arguments.settings
    first = next(combinations(settings))
    more = about(**first) if about is not None else {}
    if warm_up is not None:
        warm_up(ratings, **first)
    started = time.perf_counter()
    chosen = {}
    if any(isinstance(value, list) for value in settings.values()):
        best = best_settings(fit, ratings, validation, settings)
        chosen = {name: best[name] for name in settings if isinstance(settings[name], list)}
        settings = best
    tuned = time.perf_counter() - started
    learning_begins()  # for a script that does not say
    with stopwatch() as fitting:
        predict = fit(ratings, **settings)
    learnt = time.perf_counter() - _begun[-1]
    with stopwatch() as predicting:
        prediction = predict(user, item)
    prediction, n_gaps = without_gaps(prediction, ratings)
    report = {
        "fit_seconds": fitting.wall,
        "fit_cpu_seconds": fitting.cpu,
        "learn_seconds": learnt,
        "predict_seconds": predicting.wall,
        "tune_seconds": tuned if chosen else 0.0,
        "peak_gb": peak_gb(),
        "chosen": chosen,
        "without_answer": n_gaps,
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in (*packages, "numpy")},
        },
        **more,
    }
    np.savez(arguments.out, prediction=prediction, report=json.dumps(report))
