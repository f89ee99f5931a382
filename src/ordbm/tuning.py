"""Settings found by trying them: `tune`, a search by Optuna that can be interrupted and resumed."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from ordbm.data.ratings import Ratings
from ordbm.data.split import hold_out
from ordbm.errors import (
    CostError,
    DivergedError,
    InterruptedWarning,
    OrdbmError,
    SettingsError,
)
from ordbm.estimator import OrdinalBM
from ordbm.model.learners import Learner, PseudoLikelihood
from ordbm.model.settings import identity
from ordbm.runtime.checks import check_count
from ordbm.runtime.interruption import listening, safe_point
from ordbm.runtime.printable import shown
from ordbm.training.loop import EpochRecord

Metric = Literal["log_loss", "rmse", "mae"]
Ended = Literal["complete", "pruned", "failed"]

EPOCHS = 40  # at most in a trial; the best epoch's number becomes the setting
STARTUP = 8  # trials at random before the search learns from them
STUDY = "ordbm"


class Between(NamedTuple):
    """Numbers from `low` to `high`, on a logarithmic scale; whole ones if both ends are."""

    low: float
    high: float

    def with_value(self, value: float) -> Between:
        """The same, made wide enough for `value`."""
        return Between(min(self.low, value), max(self.high, value)) if value > 0 else self


class OneOf(NamedTuple):
    """One of some values."""

    values: tuple[int, ...]

    def with_value(self, value: int) -> OneOf:
        """The same, with `value` among them."""
        return OneOf(tuple(sorted({*self.values, value})))


Space = Mapping[str, Between | OneOf]

MACHINE: Space = {
    "user_hidden": Between(5, 100),  # the two of hidden=(user side, item side)
    "item_hidden": Between(10, 200),
    "item_links": OneOf((0, 50, 100, 200)),
    "user_links": OneOf((0, 50)),
}
# Of the learner: precisions of the priors and the step; see `Learner`.
PSEUDO_LIKELIHOOD: Space = {
    "coupling_precision": Between(3.0, 60.0),
    "bias_precision": Between(0.3, 5.0),
    "link_precision": Between(100.0, 10_000.0),
    "rate": Between(0.2, 1.0),
}
CONTRASTIVE_DIVERGENCE: Space = {"rate": Between(0.01, 1.0), "spread": Between(0.003, 0.1)}


class Trial(NamedTuple):
    """What is told after each trial of settings."""

    number: int  # of finished trials, this one included
    trials: int  # planned
    ended: Ended
    score: float | None
    best: float | None  # so far
    arguments: dict[str, Any]  # of OrdinalBM


@dataclass(frozen=True)
class Tuning:
    """The best settings found.

    arguments: what to tell OrdinalBM.
    score: of the metric on the validation ratings; the search has seen them often, so it flatters.
    unsearched_score: that of the settings before any search.
    """

    arguments: dict[str, Any]
    metric: Metric
    score: float
    unsearched_score: float | None
    trials: int
    pruned: int
    failed: int
    seconds: float
    interrupted: bool

    def model(self) -> OrdinalBM:
        """A new machine with the best settings."""
        return OrdinalBM(**self.arguments)


def tune(
    ratings: Ratings,
    *,
    trials: int = 30,
    timeout: float | None = None,
    study: str | os.PathLike[str] | None = None,
    validation: float = 0.2,
    metric: Metric = "log_loss",
    seed: int = 0,
    callback: Callable[[Trial], object] | None = None,
    **fixed: Any,
) -> Tuning:
    """Search the settings of OrdinalBM that predict held-out ratings best.

    Of each user's ratings `validation` is held out; each trial learns from the rest and stops at
    its best epoch, and trials that are worse than most so far are given up early. A trial is of one
    machine, unless `members` are fixed; the model of the result has as many as ever. Keep a test
    set out of `ratings` if you want to know how good the result is. `fixed` settings of OrdinalBM
    are not searched. `study` is a file that keeps all trials: `trials` counts those already in it,
    so the same call goes on after an interruption. Ctrl-C ends the search with the best so far.
    """
    check_count("trials", trials, least=1)
    if metric not in get_args(Metric):
        raise SettingsError(
            f"metric={shown(metric)} is not known: use one of {', '.join(get_args(Metric))}"
        )
    learn, held_out = hold_out(ratings, validation, seed=seed)
    base = OrdinalBM(**{"epochs": EPOCHS, **fixed})
    base.set_params(hidden=base.settings.resolved(len(ratings)).hidden)
    check_count("epochs", base.settings.epochs, least=1)
    space = _space(base, fixed)
    if not space:
        raise SettingsError("all settings are fixed: leave out those to be searched")
    made = {
        "ratings": _digest(ratings),
        "fixed settings": repr(sorted(fixed.items())),
        "rules": _digest_of(identity(base.settings, base.learner, base.settings.epochs)),
        "settings to search": repr(space),
        "validation": validation,
        "metric": metric,
        "seed": seed,
    }
    started = time.perf_counter()
    interrupted = False
    with _opened(study, made, seed) as opened, listening() as listener:
        search = _Search(opened, base, space, learn, held_out, metric)
        try:
            opened.optimize(
                search.score,
                n_trials=max(0, trials - search.finished),
                timeout=timeout,
                catch=(DivergedError, CostError),
                callbacks=[lambda _, ended: callback and callback(search.trial(ended, trials))],
            )
            safe_point()
        except KeyboardInterrupt:
            interrupted = True
            listener.take()
        return search.result(time.perf_counter() - started, interrupted)


class _Search:
    """A study, and what its trials need."""

    def __init__(
        self,
        study: Any,
        base: OrdinalBM,
        space: Space,
        learn: Ratings,
        held_out: Ratings,
        metric: Metric,
    ) -> None:
        self.study, self.base, self.space, self.metric = study, base, space, metric
        self.learn, self.held_out = learn, held_out
        self.trouble: OrdbmError | None = None
        if not study.get_trials(deepcopy=False):
            first = _unsearched(base)
            study.enqueue_trial(
                {name: first[name] for name in space}, user_attrs={"unsearched": True}
            )

    @property
    def finished(self) -> int:
        return sum(map(self._count, get_args(Ended)))

    @property
    def best_score(self) -> float | None:
        return self.study.best_value if self._count("complete") else None

    def score(self, trial: Any) -> float:
        """Of the settings that a trial of Optuna's suggests: what the study makes small."""
        chosen = {name: _suggested(trial, name, where) for name, where in self.space.items()}
        # Several members cost as many times more, and are best with what is best for one; which
        # items get rated has no part in the score.
        one = {"members": self.base.settings.members or 1, "presence": False}
        model = OrdinalBM(**_arguments(self.base, chosen) | one)
        try:
            score = self._validated(trial, model)
        except (DivergedError, CostError) as trouble:
            self.trouble = trouble
            trial.set_user_attr("ended", "failed")
            raise
        except KeyboardInterrupt:
            self.study.enqueue_trial(chosen, user_attrs=trial.user_attrs)  # the next one to try
            raise
        trial.set_user_attr("score", score)
        if trial.should_prune():
            from optuna import TrialPruned  # noqa: PLC0415

            trial.set_user_attr("ended", "pruned")
            raise TrialPruned
        trial.set_user_attr("ended", "complete")
        return score

    def trial(self, ended: Any, trials: int) -> Trial:
        """What there is to say of a trial of Optuna's that has ended."""
        attributes = ended.user_attrs
        arguments = _arguments(self.base, ended.params)
        return Trial(
            self.finished, trials, attributes["ended"], attributes.get("score"), self.best_score,
            arguments,
        )  # fmt: skip

    def _validated(self, trial: Any, model: OrdinalBM) -> float:
        """The metric of the best epoch; a trial that is worse than most is given up before."""

        def given_up(record: EpochRecord) -> bool:
            trial.report(record.validation[self.metric], record.epoch)
            return bool(trial.should_prune())

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InterruptedWarning)
            model.fit(self.learn, validation=self.held_out, callbacks=[given_up])
        if model.interrupted:
            raise KeyboardInterrupt
        best = min(model.history, key=lambda record: record.validation["log_loss"])
        trial.set_user_attr("epochs", best.epoch)
        return float(best.validation[self.metric])

    def result(self, seconds: float, interrupted: bool) -> Tuning:
        """The best so far; what went wrong, if there is none."""
        if not self._count("complete"):
            if interrupted:
                raise KeyboardInterrupt
            raise self.trouble or SettingsError("no trial was finished in this time: give it more")
        best = self.study.best_trial
        unsearched = [
            trial for trial in self._trials("complete") if "unsearched" in trial.user_attrs
        ]
        return Tuning(
            arguments=_arguments(self.base, best.params) | {"epochs": best.user_attrs["epochs"]},
            metric=self.metric,
            score=best.value,
            unsearched_score=unsearched[0].value if unsearched else None,
            trials=self.finished,
            pruned=self._count("pruned"),
            failed=self._count("failed"),
            seconds=seconds,
            interrupted=interrupted,
        )

    def _trials(self, ended: Ended) -> list[Any]:
        """Trials that ended so; those interrupted or killed did not end."""
        trials = self.study.get_trials(deepcopy=False)
        return [
            trial
            for trial in trials
            if trial.state.is_finished() and trial.user_attrs.get("ended") == ended
        ]

    def _count(self, ended: Ended) -> int:
        return len(self._trials(ended))


def _space(base: OrdinalBM, fixed: Mapping[str, Any]) -> Space:
    """What is searched: all that is not fixed; a learner given as an object is left as it is."""
    searched = dict(MACHINE)
    if not isinstance(fixed.get("learner"), Learner):
        exact = isinstance(base.learner, PseudoLikelihood)
        searched |= PSEUDO_LIKELIHOOD if exact else CONTRASTIVE_DIVERGENCE
    for side in ("user", "item"):
        if fixed.get("hidden") is not None or base.settings.sides not in (side, "joint"):
            del searched[f"{side}_hidden"]
    now = _unsearched(base)
    return {
        name: where.with_value(now[name])
        for name, where in searched.items()
        if fixed.get(name) is None
    }


def _unsearched(base: OrdinalBM) -> dict[str, Any]:
    """The settings without any search: the first trial, so that no result is worse."""
    told = base.settings
    user_hidden, item_hidden = told.hidden_sizes
    return {
        "user_hidden": user_hidden,
        "item_hidden": item_hidden,
        "item_links": told.item_links,
        "user_links": told.user_links,
        **{name: getattr(base.learner, name) for name in _LEARNER_SETTINGS},
    }


_LEARNER_SETTINGS = PSEUDO_LIKELIHOOD.keys() | CONTRASTIVE_DIVERGENCE.keys()


def _suggested(trial: Any, name: str, where: Between | OneOf) -> Any:
    if isinstance(where, OneOf):
        return trial.suggest_categorical(name, where.values)
    if isinstance(where.low, int) and isinstance(where.high, int):
        return trial.suggest_int(name, where.low, where.high, log=True)
    return trial.suggest_float(name, where.low, where.high, log=True)


def _arguments(base: OrdinalBM, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """All that OrdinalBM is to be told: what the base was told, and what was chosen."""
    told = {name: value for name, value in base.get_params().items() if value is not None}
    found = dict(chosen)
    learner: dict[str, Any] = {
        name: float(f"{found.pop(name):.3g}") for name in _LEARNER_SETTINGS & found.keys()
    }
    if learner:
        told["learner"] = replace(base.learner, **learner)
    if {"user_hidden", "item_hidden"} & found.keys():
        user, item = base.settings.hidden_sizes
        told["hidden"] = (found.pop("user_hidden", user), found.pop("item_hidden", item))
    return told | found


@contextmanager
def _opened(
    path: str | os.PathLike[str] | None, made: Mapping[str, Any], seed: int
) -> Iterator[Any]:
    """The Optuna study, new or from the file; one made otherwise is refused."""
    try:
        import optuna  # noqa: PLC0415
        from sqlalchemy.engine import URL  # noqa: PLC0415
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415
        from sqlalchemy.pool import NullPool  # noqa: PLC0415
    except ImportError as missing:
        raise SettingsError(
            f'tuning needs {missing.name}: install it with pip install "ordbm[tune]"'
        ) from None

    optuna.logging.set_verbosity(optuna.logging.ERROR)  # trials that fail are counted instead
    storage = None
    try:
        if path is not None:
            url = URL.create("sqlite", database=str(Path(path))).render_as_string()
            # Connections are closed as they are given back: a file that turns out not to be a study
            # leaves none behind in an engine that nobody can reach.
            storage = optuna.storages.RDBStorage(url, engine_kwargs={"poolclass": NullPool})
        study = optuna.create_study(
            storage=storage,
            study_name=STUDY,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=3),
            load_if_exists=True,
        )
        for trial in study.get_trials(deepcopy=False):
            if trial.state == optuna.trial.TrialState.RUNNING:  # its process was killed
                study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    except (SQLAlchemyError, optuna.exceptions.OptunaError) as trouble:
        raise SettingsError(
            f"{path} cannot be used as a study: it is another kind of file or cannot be written; "
            "name a new file"
        ) from trouble
    try:
        _check_same(study, made, path)
        # A resumed search must not draw again what it drew before.
        study.sampler = optuna.samplers.TPESampler(
            n_startup_trials=STARTUP, seed=seed + len(study.get_trials(deepcopy=False))
        )
        yield study
    finally:
        if storage is not None:
            storage.remove_session()
            storage.engine.dispose()


def _check_same(study: Any, made: Mapping[str, Any], path: object) -> None:
    """An error unless the study was made with the same; a new one is told."""
    before = study.user_attrs
    for name, value in made.items():
        if before.get(name, value) != value:
            raise SettingsError(
                f"the study {path} was made with other {name}: go on with the same, or name a new "
                "file"
            )
        study.set_user_attr(name, value)


def _digest_of(settings: Mapping[str, Any]) -> str:
    """A fingerprint of all settings, those that nobody chose included."""
    return hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()[:16]


def _digest(ratings: Ratings) -> str:
    """A fingerprint of the ratings themselves, whatever the ids."""
    rows = ratings.by_user
    found = hashlib.sha256(str(ratings.scale).encode())
    for array in (rows.start, rows.column, rows.level, rows.value):
        found.update(array.tobytes())
    return found.hexdigest()[:16]
