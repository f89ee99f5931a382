"""One run: a model fitted to the training part and scored on the test part."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.resources import files
from typing import Any

from ordbm.data.ratings import Ratings
from ordbm.data.scale import level_values
from ordbm.data.split import hold_out
from ordbm.experiments.definition import MAE, Run
from ordbm.experiments.experiment_data import Split
from ordbm.experiments.open_models import OpenMachine, OpenSVD
from ordbm.experiments.peak_memory import forget_peak, peak_bytes
from ordbm.experiments.ranking_protocol import (
    ORDERS,
    Counts,
    ListScore,
    list_hits,
    list_scores,
    machine_score,
    named_scores,
    popularity_score,
    presence_scores,
)
from ordbm.inference.catalogue import Catalogue
from ordbm.training.loop import EpochRecord

_WARM_USERS = 20  # whose ratings compile the kernels, so that no run's time has that in it

Outcome = dict[str, Any]


def model_of_run(run: Run, threads: int | None = None) -> OpenMachine | OpenSVD | None:
    """The model of a run, not fitted; counting needs none."""
    if run.model == "machine":
        settings = dict(run.settings)
        hidden_spread = settings.pop("hidden_spread", None)
        model = OpenMachine(**settings, threads=threads)
        if hidden_spread is not None:
            start = replace(model.learner.initialisation, hidden_spread=hidden_spread)
            model.set_params(learner=replace(model.learner, initialisation=start))
        return model
    return OpenSVD(**run.settings) if run.model == "svd" else None


_PRESENCE = ("presence", "presence_precision", "presence_budget")
_LEFT_ALONE = ("context", "structure", "structure_rules", "feature_rules")  # by every run
_FIRST_RULES = tomllib.loads((files("ordbm.experiments") / "first_rules.toml").read_text())


def settings_of_run(run: Run) -> dict[str, Any]:
    """All settings that a run depends on, those that nobody chose included."""
    model = model_of_run(run)
    if isinstance(model, OpenMachine):
        settings = model.settings
        unused = {"threads", "preset", "learner", *_LEFT_ALONE}
        unused |= set() if settings.presence else set(_PRESENCE)
        told = {name: value for name, value in asdict(settings).items() if name not in unused}
        own = dict(_flat(told))
        learner = dict(_flat(model.learner.identity(settings.epochs)))
        learner["kind"] = learner.pop("learner")
        own, learner = (
            {name: value for name, value in found.items() if _FIRST_RULES.get(name) != value}
            for found in (own, learner)
        )
        return own | {"learner": learner, "method": run.method}
    return {} if model is None else model.get_params()


def _flat(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Name and value of each setting, however they are grouped."""
    for name, value in settings.items():
        yield from _flat(value) if isinstance(value, Mapping) else [(name, value)]


class Measure:
    """Fits and scores the runs of one split."""

    def __init__(
        self,
        split: Split,
        counts: Counts | None,
        lengths: tuple[int, ...],
        *,
        each_epoch: bool,
        threads: int | None,
    ) -> None:
        self.split, self.counts, self.lengths = split, counts, lengths
        self.each_epoch, self.threads = each_epoch, threads

    def outcome(self, run: Run, callbacks: Sequence[Any]) -> Outcome:
        """Scores, by epoch and in the end, time and memory."""
        model = model_of_run(run, self.threads)
        if model is None:
            return self._counted(run.seed)
        self._warm_up(run)
        forget_peak()
        fitted = self._fitted(model, run, callbacks)
        started = time.perf_counter()
        scores = _scores(model, self.split.test, run)
        seconds = {"fit": fitted.pop("seconds"), "predict": time.perf_counter() - started}
        scores[MAE] = scores[f"mae_{run.decode}"]
        found = {**fitted, "scores": scores}
        if self.counts is not None and isinstance(model, OpenMachine):
            lists = self._ranked(model)
            found |= {"lists": lists, "scores": scores | named_scores(lists, self.lengths)}
        return {**found, "seconds": seconds, "peak_bytes": peak_bytes()}

    def _fitted(self, model: OpenMachine | OpenSVD, run: Run, callbacks: Sequence[Any]) -> Outcome:
        """Records of the epochs, the one kept, and seconds without those of scoring."""
        train, test = self.split
        how: dict[str, Any] = {}
        if run.validation:
            train, how["validation"] = hold_out(train, run.validation, run.seed)
        curve: list[dict[str, float]] = []
        scoring = 0.0

        def score(_: EpochRecord) -> None:
            nonlocal scoring
            started = time.perf_counter()
            curve.append(_scores(model, test, run))
            scoring += time.perf_counter() - started

        watching: list[Callable[[EpochRecord], None]] = [score] if self.each_epoch else []
        started = time.perf_counter()
        model.fit(train, callbacks=[*watching, *callbacks], **how)
        seconds = time.perf_counter() - started - scoring
        _check_whole(model)
        epochs = [_epoch(record) for record in model.history]
        for epoch, scores in zip(epochs, curve, strict=False):
            epoch["test"] = scores
        losses = [record.validation.get("log_loss", 0.0) for record in model.history]
        kept = 1 + losses.index(min(losses)) if run.validation else len(losses)
        return {"epochs": epochs, "kept_epoch": kept, "seconds": seconds}

    def _ranked(self, model: OpenMachine) -> dict[str, dict[str, list[float]]]:
        catalogue, scale = Catalogue(model.conditioned[0]), self.split.test.scale
        scores = {order: machine_score(catalogue, order, level_values(scale)) for order in ORDERS}
        scores |= presence_scores(catalogue, model.conditioned_presence, scale)
        return {order: self._listed(score) for order, score in scores.items()}

    def _counted(self, seed: int) -> Outcome:
        assert self.counts is not None
        started = time.perf_counter()
        lists = {"popularity": self._listed(popularity_score(self.counts, seed))}
        return {
            "epochs": [],
            "kept_epoch": 0,
            "scores": named_scores(lists, self.lengths),
            "lists": lists,
            "seconds": {"fit": 0.0, "predict": time.perf_counter() - started},
            "peak_bytes": None,
        }

    def _listed(self, score: ListScore) -> dict[str, list[float]]:
        assert self.counts is not None
        hits = list_hits(score, self.counts, self.split.test, self.lengths[-1])
        return list_scores(hits, self.split.test, self.lengths)

    def _warm_up(self, run: Run) -> None:
        """Load or compile what the run needs."""
        few = self.split.train.select(self.split.train.user_codes < _WARM_USERS)
        model = model_of_run(run._replace(settings={**run.settings, "epochs": 1}), self.threads)
        if not len(few) or model is None:
            return
        model.fit(few)
        _check_whole(model)
        _scores(model, few, run)


def _scores(model: OpenMachine | OpenSVD, test: Ratings, run: Run) -> dict[str, float]:
    if isinstance(model, OpenMachine):
        return model.scores(test, run.method)
    return model.scores(test)


def _check_whole(model: OpenMachine | OpenSVD) -> None:
    if model.interrupted:
        raise KeyboardInterrupt  # half a training is no result


def _epoch(record: EpochRecord) -> dict[str, Any]:
    found = {"epoch": record.epoch, "objective": record.objective, "seconds": record.seconds}
    return found | ({"validation": record.validation} if record.validation else {})
