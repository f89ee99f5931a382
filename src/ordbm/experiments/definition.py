"""Experiments as data: what a TOML file says, and the runs that follow from it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from ordbm.errors import SettingsError
from ordbm.inference.conditioned import Method
from ordbm.runtime.printable import shown

EXPERIMENT_NAMES = ("table1", "figure3", "figure4", "figure5")

Shape = Literal["curves", "sizes", "table", "lists"]
Model = Literal["machine", "svd", "popularity"]
Decoding = Literal["mean", "median", "mode", "point"]

MAE = "mae"  # by the decoding of the run
BOTH = ("paper", "ours")  # the learners that machines are learnt with
OWN = ("sgd", "counts")  # those of models that have their own


class DataSet(NamedTuple):
    """The ratings of an experiment, with the counts that tell the paper's own."""

    name: str
    title: str
    file: str
    min_item_ratings: int
    ratings: int
    users: int
    items: int
    get: str  # how to come by it
    test_fraction: float = 0.2


class Run(NamedTuple):
    """One model to be fitted and scored; its seed is that of the split too."""

    machine: str
    learner: str
    hidden: int
    seed: int
    model: Model
    settings: dict[str, Any]  # what the model's constructor is told
    validation: float  # share of the training ratings that say when to stop; 0 for no stop
    method: Method
    decode: Decoding

    def __str__(self) -> str:
        size = f", {self.hidden} hidden" if self.model == "machine" else ""
        rank = f", rank {self.hidden}" if self.model == "svd" else ""
        learner = f", {self.learner}" if self.model == "machine" else ""
        return f"{self.machine}{size}{rank}{learner}, seed {self.seed}"


class Claim(NamedTuple):
    """One machine scores better than another."""

    text: str
    better: str
    worse: str
    better_hidden: int | None = None  # if not said, at every size
    worse_hidden: int | None = None
    score: str = MAE
    worse_score: str | None = None  # if another one
    larger_is_better: bool = False
    of_the_paper: bool = True


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of the paper."""

    name: str
    title: str
    about: str
    shown_as: Shape
    data: DataSet
    hidden: tuple[int, ...]
    seeds: int
    machines: Mapping[str, Mapping[str, Any]]
    learners: Mapping[str, Mapping[str, Any]]
    claims: tuple[Claim, ...]
    reported: Mapping[str, list[float]]  # the paper's figures by machine, for each hidden size
    quick: Mapping[str, Any]
    lengths: tuple[int, ...] = ()  # of ranked lists
    discussion: tuple[str, ...] = ()  # paragraphs about what came out of the whole
    sampled_users: int | None = None  # a quick run's; all, if None

    @property
    def is_quick(self) -> bool:
        return self.sampled_users is not None

    def quickly(self) -> Experiment:
        """The same on a sample of users, with fewer seeds and sizes."""
        return replace(
            self,
            sampled_users=self.quick["users"],
            seeds=self.quick["seeds"],
            hidden=tuple(self.quick.get("hidden", self.hidden)),
        )

    def runs(self, seeds: int | None = None) -> list[Run]:
        """All runs, seed by seed, so that what an early end leaves is of use."""
        return [
            self._run(machine, learner, hidden, seed)
            for seed in range(self.seeds if seeds is None else seeds)
            for machine, own in self.machines.items()
            for learner in own.get("learners", BOTH)
            for hidden in own.get("hidden", self.hidden)
        ]

    def _run(self, machine: str, learner: str, hidden: int, seed: int) -> Run:
        own = dict(self.machines[machine])
        told = {**self.learners[learner], **own, **own.get(learner, {})}
        model: Model = told.get("model", "machine")
        settings: dict[str, Any] = {"seed": seed}
        if model == "machine":
            settings |= {"hidden": hidden, **{name: told[name] for name in _MACHINE_SETTINGS}}
            if "hidden_spread" in told:
                settings["hidden_spread"] = told["hidden_spread"]
            settings["members"] = 1  # the paper's machines are one each
            settings["link_budget"] = 2e10  # its default when the results were made; changes none
            settings["presence"] = told.get("presence", False)  # for lists alone
        elif model == "svd":
            settings |= {"rank": hidden, **{name: told[name] for name in _FACTOR_SETTINGS}}
        return Run(
            machine,
            learner,
            hidden,
            seed,
            model,
            settings,
            validation=told.get("validation", 0.0),
            method=told.get("method", "exact"),
            decode=told.get("decode", "mean"),
        )


_FACTOR_SETTINGS = ("epochs", "biases", "regularisation")
_MACHINE_SETTINGS = ("preset", "features", "sides", "item_links", "user_links", "epochs")


def experiment_of(name: str) -> Experiment:
    """The experiment of this name."""
    if name not in EXPERIMENT_NAMES:
        raise SettingsError(f"no experiment {shown(name)}: there is {', '.join(EXPERIMENT_NAMES)}")
    return experiment_from(name, _toml(name))


def experiment_from(name: str, told: Mapping[str, Any]) -> Experiment:
    """The experiment that a TOML document describes, with what all have in common."""
    shared = _toml("shared")
    return Experiment(
        name=name,
        title=told["title"],
        about=told["about"],
        shown_as=told["shown_as"],
        data=DataSet(name=told["data"], **shared["data"][told["data"]]),
        hidden=tuple(told["hidden"]),
        seeds=told["seeds"],
        machines={one: shared["machines"][one] for one in told["machines"]},
        learners={one: {**shared["learners"][one], **own} for one, own in told["learners"].items()},
        claims=tuple(Claim(**claim) for claim in told["claims"]),
        reported=told.get("reported", {}),
        quick=told["quick"],
        lengths=tuple(told.get("lengths", ())),
        discussion=tuple(told.get("discussion", ())),
    )


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))
