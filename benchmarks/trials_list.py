"""The trials: which settings are tried, and which question they answer.

A trial is the settings that differ from its group's base; `learner` has those of
`PseudoLikelihood`. A base is the settings that differ from `OrdinalBM()`. Averaging machines asks
for other settings than one machine alone does, so the groups without a base follow the default.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from accuracy import chosen

import ordbm

Settings = dict[str, Any]


class Group(NamedTuple):
    """Trials that answer one question."""

    question: str
    trials: list[Settings]
    base: Settings = {}  # noqa: RUF012  (never changed)


def each(name: str, values: Iterable[Any]) -> list[Settings]:
    """A trial per value of a setting."""
    return [{name: value} for value in values]


def each_learner(name: str, values: Iterable[Any]) -> list[Settings]:
    """A trial per value of a setting of the learner."""
    return [{"learner": {name: value}} for value in values]


ONE, EIGHT = {"members": 1}, {"members": 8}
RATINGS_ALONE = {"presence": False}  # which items get rated has no part in predicted ratings
QUICK = {"hidden": (25, 60), "item_links": 0, "epochs": 10, "members": 2}
QUICK_STEPS = {"decay": 0.88, "column_ratings": 15.0}

GROUPS: dict[str, Group] = {
    "members": Group(
        "How many machines of different seeds are averaged?", each("members", (1, 2, 4, 8, 16))
    ),
    "coupling-precision": Group(
        "How strong is the prior of the couplings, for one machine?",
        each_learner("coupling_precision", (5.0, 8.0, 12.0, 16.0)),
        ONE,
    ),
    "coupling-precision-of-8": Group(
        "How strong is the prior of the couplings, for eight machines averaged?",
        each_learner("coupling_precision", (5.0, 8.0, 12.0, 16.0)),
        EIGHT,
    ),
    "hidden": Group(
        "How many hidden units has a user, and an item?",
        each("hidden", ((50, 50), (25, 50), (25, 100), (50, 100), (25, 200), (50, 200))),
    ),
    "item-links": Group(
        "How many neighbours is an item linked to?", each("item_links", (0, 50, 100, 200))
    ),
    "user-links": Group("Is a user linked to neighbours?", each("user_links", (0, 50))),
    "link-shrinkage": Group(
        "How much are correlations over few common ratings shrunk?",
        each("link_shrinkage", (30.0, 100.0, 300.0)),
    ),
    "link-precision": Group(
        "How strong is the prior of the links?",
        each_learner("link_precision", (300.0, 1000.0, 3000.0)),
    ),
    "epochs": Group("How long is the training?", each("epochs", (10, 15, 20, 30))),
    "decay": Group(
        "How fast do steps become smaller, and do more epochs help if slower?",
        [
            *each_learner("decay", (0.9, 0.93, 0.95)),
            {"epochs": 10, "learner": {"decay": 0.87}},
            {"epochs": 30, "learner": {"decay": 0.95}},
        ],
    ),
    "rate": Group("How large are the first steps?", each_learner("rate", (0.3, 0.5, 0.7))),
    "habit": Group(
        "How much of the prior of users' own biases knows no order of levels?",
        each_learner("response_style_share", (0.0, 0.5, 1.0)),
    ),
    "learn-habits": Group(
        "Is that part how people are seen to vary, or are all levels alike?",
        each_learner("learn_response_styles", (True, False)),
    ),
    "traits": Group(
        "Are couplings expected to follow who rated what, and along how many directions?",
        each_learner("co_occurrence", (0, 8, 16, 32, 64)),
    ),
    "bias-precision": Group(
        "How strong is the prior of the biases?",
        each_learner("bias_precision", (0.5, 1.0, 2.0, 4.0)),
    ),
    "ratings-per-unit": Group(
        "Are couplings held tighter where columns have few ratings for their hidden units?",
        each_learner("ratings_per_unit", (0.0, 0.2, 0.4, 0.7)),
    ),
    "count-weight": Group(
        "Does the prior of biases know how often a column was rated?",
        each_learner("count_weight", (0.0, 5.0, 20.0, 100.0)),
    ),
    "spread": Group(
        "How far apart do the couplings start?",
        each_learner("spread", (0.007, 0.02, 0.045)),
        ONE,
    ),
    "features": Group(
        "What do levels have in common?", each("features", ("categorical", "ordinal", "gaussian"))
    ),
    "sides": Group("Who has hidden units?", each("sides", ("user", "item", "joint"))),
    "fast": Group(
        "What costs least for its accuracy? Towards the preset of that name.",
        [
            {**QUICK, "learner": {**QUICK_STEPS, "co_occurrence": 0}},
            {**QUICK, "learner": QUICK_STEPS},
            {**QUICK, "members": 4, "learner": QUICK_STEPS},
            {**QUICK, "hidden": (25, 100), "epochs": 14, "learner": {"decay": 0.91}},
        ],
        RATINGS_ALONE,
    ),
    "best": Group(
        "What is more accurate at any cost? Towards the preset of that name.",
        [
            {"members": 16},
            {"members": 16, "learner": {"rate": 0.35, "decay": 0.95}, "epochs": 30},
            {"members": 16, "learner": {"spread": 0.03}},
        ],
        RATINGS_ALONE,
    ),
}


# --- what they come to --------------------------------------------------------------------------


class Trial(NamedTuple):
    """What `OrdinalBM` is told."""

    group: str
    label: str
    settings: Settings

    @property
    def name(self) -> str:
        return f"{self.group}:{self.label}"

    @property
    def arguments(self) -> dict[str, Any]:
        """The settings as `OrdinalBM` takes them."""
        if "learner" not in self.settings:
            return self.settings
        return {**self.settings, "learner": ordbm.PseudoLikelihood(**self.settings["learner"])}

    def in_force(self, n_ratings: int) -> dict[str, Any]:
        """All settings, also those that follow the number of ratings, as JSON gives them back."""
        model = ordbm.OrdinalBM(**self.arguments)
        found = {
            **dataclasses.asdict(model.settings.resolved(n_ratings)),
            "learner": dataclasses.asdict(model.learner),
        }
        return json.loads(json.dumps(found))


def label_of(settings: Settings) -> str:
    """Settings in words: `members=8 response_style_share=0.5`, `hidden=25/100`."""
    flat = {**settings, **settings.get("learner", {})}
    flat.pop("learner", None)
    words = {
        name: "/".join(map(str, value)) if isinstance(value, tuple) else value
        for name, value in flat.items()
    }
    return " ".join(f"{name}={value}" for name, value in words.items()) or "default"


DEFAULT = Trial("default", "default", {})
TRIALS: dict[str, list[Trial]] = {  # the base of each group first
    name: [
        Trial(name, label_of(group.base), group.base),
        *(Trial(name, label_of(more), {**group.base, **more}) for more in group.trials),
    ]
    for name, group in GROUPS.items()
}


def wanted_trials(patterns: Sequence[str]) -> list[Trial]:
    """Those that fit, and what they are compared to, which goes first."""
    names = [trial.name for group in TRIALS.values() for trial in group]
    fitting = set(chosen(names, patterns))
    groups = [group for group in TRIALS.values() if any(one.name in fitting for one in group)]
    return [
        *(base for base, *_ in groups),
        *(one for group in groups for one in group if one.name in fitting),
    ]
