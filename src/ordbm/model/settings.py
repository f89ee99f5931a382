"""What an OrdinalBM can be told, and the presets that fill in what it is not told."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, Literal, get_args

from ordbm.engines.choice import check_engine
from ordbm.errors import SettingsError
from ordbm.model.declaration import Checked, leaves, setting
from ordbm.model.learners import LEARNERS, Learner, PseudoLikelihood, learner_of
from ordbm.model.rules import FeatureRules, PresenceRules, SizeRules, StructureRules
from ordbm.runtime.checks import check_choice, check_count, said
from ordbm.runtime.memory import bytes_of

FeatureKind = Literal["categorical", "ordinal", "gaussian"]
Sides = Literal["user", "item", "joint"]
DType = Literal["float32", "float64"]

MACHINE_PANEL, LEARNING_PANEL = "The machine", "Learning"  # panels of the command line's help

MOST_HIDDEN = 100_000  # of a user or an item: far more than ratings could teach

SIZES = SizeRules()
PRESETS: dict[str, dict[str, Any]] = {
    # A fifteenth of the default's work on ML-1M, a tenth on small data; chosen on validation
    # ratings by `benchmarks/trials --trials fast`. Items that few rate have no presence links.
    "fast": {
        "size_rules": replace(SIZES, most_members=2, times_hidden=1),
        "item_links": 0,
        "epochs": 14,
        "learner": PseudoLikelihood(decay=0.91),
        "presence_rules": PresenceRules(most_linked=1000),
    },
    "default": {},
    # Twice the machines, where data allow for it; `benchmarks/trials --trials best`.
    "best": {
        "size_rules": replace(
            SIZES,
            most_members=2 * SIZES.most_members,
            learnt_at_once=2 * SIZES.learnt_at_once,
            most_couplings=2 * SIZES.most_couplings,
        ),
    },
    # Section 4.1: 20 hidden units, top 100 positive Pearson neighbours on both sides, CD-1 inside
    # the alternation, blocks of 100, rate 0.1, N(0, 0.01): the last four are the learner's own.
    # The paper predicts the mode of mean field: `predict(users, items, decode="mode",
    # method="mean_field")`; without these two it is the exact mean, for this preset as for any.
    "paper": {
        "hidden": 20,
        "item_links": 100,
        "user_links": 100,
        "link_shrinkage": 0.0,
        "link_support": 3,
        "learner": "structured",
        "members": 1,
        "presence": False,
        "context": False,
    },
}


def _check_hidden(name: str, value: Any) -> None:
    sizes = value if isinstance(value, tuple | list) else (value, value)
    if len(sizes) != 2:
        raise SettingsError(f"{said(name, value)}: a number, or (user side, item side)")
    for size in sizes:
        check_count(name, size, most=MOST_HIDDEN)


@dataclass(frozen=True)
class Settings(Checked):
    """The shape of a machine and how it is learnt; the defaults are meant to serve all data.

    `resolved` fills in what follows the number of ratings.
    """

    features: FeatureKind = setting(
        "ordinal", "How levels enter the energy; Gaussian is taken for continuous ratings.",
        choices=get_args(FeatureKind), panel=MACHINE_PANEL,
    )  # fmt: skip
    sides: Sides = setting(
        "joint", "Who has hidden units and biases: users, items, or both.",
        choices=get_args(Sides), panel=MACHINE_PANEL,
    )  # fmt: skip
    hidden: int | tuple[int, int] | None = setting(
        None, "Hidden units per user and per item: a number, or two for user and item side.",
        kind=str, optional=True, check=_check_hidden, metavar="N[,N]", panel=MACHINE_PANEL,
        default="25,100; 50,200 from 500,000 ratings", why="measured: hidden units; see SizeRules",
    )  # fmt: skip
    item_links: int = setting(
        100, "Neighbours that each item is linked to, 0 for none.", panel=MACHINE_PANEL,
        why="-0.003 in log-loss; measured: item links",
    )  # fmt: skip
    user_links: int = setting(
        0, "Neighbours that each user is linked to, 0 for none.", panel=MACHINE_PANEL,
        why="no gain; measured: links between users",
    )  # fmt: skip
    learner: Any = setting(
        "pl", "Exact pseudo-likelihood, contrastive divergence, or the paper's structured one; in "
        "Python also a learner object.",
        check=lambda _, value: learner_of(value), metavar="|".join(LEARNERS),
        panel=LEARNING_PANEL,
    )  # fmt: skip
    epochs: int = setting(
        20, "Epochs at most.", panel=LEARNING_PANEL, why="measured: twice the epochs"
    )
    seed: int = setting(0, "Of the initial parameters and of sampling.", panel=LEARNING_PANEL)
    _: KW_ONLY
    preset: str = setting(
        "default", "Where settings not given come from: for speed, for all uses, for accuracy, or "
        "the paper's section 4.1.",
        choices=tuple(PRESETS), panel=MACHINE_PANEL,
    )  # fmt: skip
    structure: str | None = setting(
        None, "Sizes that the ratings ask for: hidden units of each side, directions, and links by "
        "their evidence, from those that are given or follow the number of ratings; takes several "
        "times as long.", kind=str, choices=("auto",), optional=True, panel=MACHINE_PANEL,
        default="sizes by rule",
    )  # fmt: skip
    link_shrinkage: float = setting(
        100.0, "A correlation over c common ratings counts by c / (c + X).", panel=MACHINE_PANEL,
        why="correlations over few ratings are chance",
    )  # fmt: skip
    link_support: int = setting(
        5, "Common ratings that a link needs at least.", least=2, panel=MACHINE_PANEL,
        why="as for link_shrinkage",
    )  # fmt: skip
    link_budget: float = setting(
        5e10, "Co-rated pairs that finding links may visit; beyond, it is refused with the cost.",
        most=math.inf, panel=MACHINE_PANEL,
        why="some minutes of one thread; all of the Netflix ratings have 3e10",
    )  # fmt: skip
    patience: int = setting(
        3, "With validation ratings: epochs without a better log-loss before stopping; 0: never.",
        panel=LEARNING_PANEL,
    )  # fmt: skip
    members: int | None = setting(
        None, "Machines to learn from different seeds; predictions are averages of theirs.",
        kind=int, least=1, most=1000, optional=True, panel=LEARNING_PANEL,
        default="8; fewer for over 2 M ratings or 300 M couplings",
        why="most of all that was tried; measured: averaging; see SizeRules",
    )  # fmt: skip
    presence: bool = setting(
        True, "Learn also which items get rated, for lists; predicted ratings stay the same.",
        panel=MACHINE_PANEL,
    )  # fmt: skip
    context: bool = setting(
        True, "Learn how ratings of about one time hang together, where times are known; without "
        "a time predicted ratings stay the same.", panel=MACHINE_PANEL,
        why="-0.016 and -0.025 in log-loss; benchmarks/results/context.md",
    )  # fmt: skip
    presence_precision: float | None = setting(
        None, "Of the prior of presence links; larger draws them to zero.", kind=float,
        optional=True, panel=MACHINE_PANEL, default="8 times the cube root of the number of users",
    )  # fmt: skip
    presence_budget: float = setting(
        2.5e10, "Ratings times items that one pass over presence may look at; beyond, links are "
        "learnt from some of the users.", most=math.inf, panel=MACHINE_PANEL,
        why="some minutes of one thread; a quarter of the users serve better than a quarter of the "
        "items of each: measured, ML-1M",
    )  # fmt: skip
    threads: int | None = setting(
        None, "Threads to use; results do not depend on it.", kind=int, least=1, optional=True,
        panel=LEARNING_PANEL, default="all cores",
    )  # fmt: skip
    engine: str | None = setting(
        None, "Where machines are learnt: on Ray, which this machine has to itself, or a cluster "
        "has at an address; results are the same.", kind=str, optional=True, check=check_engine,
        panel=LEARNING_PANEL, metavar="ray[:ADDRESS]", default="this process",
    )  # fmt: skip
    memory: Any = setting(
        None, 'What learning may take in memory, the process and its ratings included, in bytes or '
        'as "8GB"; what is read in turn is in mapped files beyond.', kind=str, optional=True,
        check=lambda _, value: bytes_of(value), default="most of what is free",
    )  # fmt: skip
    dtype: DType = setting(
        "float32", "Numbers to compute with.", choices=get_args(DType), panel=LEARNING_PANEL
    )
    size_rules: SizeRules = setting(SizeRules(), "How hidden units and members follow the data.")
    presence_rules: PresenceRules = setting(PresenceRules(), "How presence is learnt.")
    feature_rules: FeatureRules = setting(FeatureRules(), "How features are learnt from.")
    structure_rules: StructureRules = setting(StructureRules(), "How `structure` finds sizes.")

    @property
    def hidden_sizes(self) -> tuple[int, int]:
        """Hidden units of the user side and of the item side, before `sides` has its say."""
        if self.hidden is None:
            return self.size_rules.user_hidden, self.size_rules.item_hidden
        if isinstance(self.hidden, tuple | list):
            return self.hidden[0], self.hidden[1]
        return self.hidden, self.hidden

    def resolved(self, n_ratings: int, levels: tuple[int, int] = (0, 0)) -> Settings:
        """The same for this many ratings, hidden units and members included.

        `levels` are those of all items, which a user's hidden unit is coupled with, and of all
        users.
        """
        rules = self.size_rules
        hidden = self.hidden
        if hidden is None:
            times = rules.times_hidden if n_ratings >= rules.many_ratings else 1
            hidden = (times * rules.user_hidden, times * rules.item_hidden)
        sized = replace(self, hidden=hidden)
        if self.members is not None:
            return sized
        couplings = sum(
            n_levels * n_hidden
            for side, n_levels, n_hidden in zip(
                ("user", "item"), levels, sized.hidden_sizes, strict=True
            )
            if self.sides in (side, "joint")
        )
        affordable = (
            rules.learnt_at_once // max(n_ratings, 1),
            rules.most_couplings // max(couplings, 1),
        )
        return replace(sized, members=max(1, min(rules.most_members, *affordable)))


# These change no epoch, only how many there are or how soon they are done.
WITHOUT_EFFECT = (
    "preset", "epochs", "patience", "threads", "engine", "memory", "link_budget",
)  # fmt: skip


def identity(settings: Settings, learner: Learner, epochs: int) -> dict[str, Any]:
    """All settings by name that decide what so many epochs do, whoever set them."""
    own = leaves(replace(settings, hidden=settings.hidden_sizes, learner="pl"))
    found = dict(own) | learner.identity(epochs)
    return {name: value for name, value in found.items() if name not in WITHOUT_EFFECT}


def settings_of(preset: str = "default", **given: Any) -> Settings:
    """The preset's settings with those that were given (not None) in their place."""
    check_choice("preset", preset, tuple(PRESETS))
    known = {field.name for field in fields(Settings)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise SettingsError(
            f"unknown setting {unknown[0]!r}: use one of {', '.join(sorted(known))}"
        )
    chosen = {name: value for name, value in given.items() if value is not None}
    return Settings(**{**PRESETS[preset], **chosen, "preset": preset})
