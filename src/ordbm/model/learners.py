"""Learners: an objective with an optimiser, priors and a start, as settings.

`PseudoLikelihood` is exact for discrete ratings, one-sided or joint. `ContrastiveDivergence` is the
paper's; with two sides it runs inside the paper's alternation, where `other_side` says how the side
at rest enters: its hidden units at their posterior means ("mean_field_with_own": structured
pseudo-likelihood, section 3), or drawn from their posterior ("sample").

`why` has the reason of a default; measured ones are in `docs/results/what-moved-accuracy.md`, which
is what "measured" refers to.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, TypeVar, get_args

from ordbm.errors import SettingsError
from ordbm.model.declaration import (
    Checked,
    add_documentation,
    documentation,
    leaves,
    setting,
    with_reasons,
)
from ordbm.model.rules import EmbeddingRules, ResponseStyleRules
from ordbm.runtime.checks import check_choice, said

OtherSide = Literal["exact", "mean_field_with_own", "sample"]

FEW_LEVELS, MANY_LEVELS = 5, 10  # beyond the second, distances are measured as on the first


@with_reasons
@dataclass(frozen=True, kw_only=True)
class Optimiser(Checked):
    """A column with c ratings moves by rate / (precision + curvature c) times its gradient.

    Precisions are those of the priors, curvatures the typical second derivative per rating.
    """

    rate: float = setting(
        0.5,
        "Of the first epoch's steps.",
        above=0,
        why="measured: 0.35 helps some data and not others",
    )
    decay: float = setting(
        0.93, "Of the rate, from epoch to epoch.", above=0, why="measured: epochs and decay"
    )
    momentum: float = setting(0.5, "Share of the last step in the next.", below=1)
    per_row: float = setting(
        0.0, "Times the block's rows, added to a step's divisor: plain stochastic gradient."
    )
    coupling_curvature: float = setting(0.1, "Of couplings.")
    bias_curvature: float = setting(0.2, "Of biases.", why="five levels' p (1 - p), about")
    hidden_curvature: float = setting(0.1, "Of hidden biases.")
    link_curvature: float = setting(0.5, "Of link weights.")
    block_rows: int | None = setting(
        None, "Rows of a block; by `column_ratings` if not said.", kind=int, least=1, optional=True
    )
    column_ratings: float = setting(
        30.0, "Without `block_rows`: a column's ratings in a block, on average.",
        why="a step of a column costs the same however many ratings it has",
    )  # fmt: skip
    fewest_blocks: int = setting(
        8, "Steps per epoch that each side takes at least.", least=1,
        why="small data learn too little otherwise",
    )  # fmt: skip

    def ratings_per_block(self, n_ratings: int, n_columns: int) -> int | None:
        """How many ratings a block holds, about; None if blocks are counted in rows."""
        if self.block_rows is not None:
            return None
        blocks = max(self.fewest_blocks, n_ratings / max(self.column_ratings * n_columns, 1))
        return max(1, int(n_ratings / blocks))


@with_reasons
@dataclass(frozen=True, kw_only=True)
class Priors(Checked):
    """Gaussian priors of parameters, of deviations from what the ratings tell beforehand.

    People have response styles, such as whole stars only, that the order of the levels does not
    explain: `response_style_share` of the prior of their biases leaves room for them, and with
    `learn_response_styles` it is for those that the ratings show. Couplings are expected to follow
    up to `co_occurrence` directions of who rated what, fewer where data are few; without a
    precision of couplings, nothing follows.
    """

    coupling_precision: float = setting(8.0, "Of couplings.", why="measured: 5 and 12 tried")
    ratings_per_unit: float = setting(
        0.4, "Ratings of a column per hidden unit; with fewer, its couplings are held tighter.",
        why="couplings are fitted, not averaged over: many for few ratings fit noise; measured",
    )  # fmt: skip
    tightening: float = setting(
        11.0, "How many times tighter couplings get, beside once.",
        why="there is no gentle way from loose to tight; measured: typical counts",
    )  # fmt: skip
    scarcity: float = setting(
        4.0, "How many times too few ratings make couplings that tight; in between, in proportion.",
        above=1, why="measured: typical counts",
    )  # fmt: skip
    user_side_looseness: float = setting(
        1.0, "Of that precision on the user side: with fewer hidden units than usual, each may say "
        "more.", above=0, why="`structure` lets it follow the number of units",
    )  # fmt: skip
    item_side_looseness: float = setting(
        1.0, "The same on the item side.", above=0, why="as for the user side"
    )
    co_occurrence: int = setting(
        32, "Directions of who rated what that couplings follow, at most; 0: none.",
        why="measured: 8, 24 and 32 tried",
    )  # fmt: skip
    embedding: EmbeddingRules = setting(EmbeddingRules(), "Rules of these directions.")
    bias_precision: float = setting(2.0, "Of biases.", why="measured: 1, 2 and 3 tried")
    count_weight: float = setting(
        20.0, "Ratings by which levels' frequencies by count are drawn to all; 0: unused.",
        why="what few have rated is rated lower; measured",
    )  # fmt: skip
    response_style_share: float = setting(
        0.5, "Of the prior of users' own biases: knows no order of levels.", most=1,
        why="measured: half of it",
    )  # fmt: skip
    learn_response_styles: bool = setting(
        True, "That share follows what was seen; if not, all levels are alike.", why="measured"
    )
    response_styles: ResponseStyleRules = setting(ResponseStyleRules(), "Rules of that learning.")
    noise_weight: float = setting(
        10.0, "Gaussian ratings by which the noise of a user or an item is drawn to that of all; "
        "0: all have the same.",
        why="some rate more at random than others, and should count for less; simulated: "
        "benchmarks/continuous.py",
    )  # fmt: skip
    hidden_precision: float = setting(1.0, "Of hidden biases.")
    link_precision: float = setting(1000.0, "Of link weights.", why="measured: 300 and 3000 tried")
    unit_smoothing: bool = setting(
        True, "Scale feature tables so that a level's own step is one on average.",
        why="precisions then mean the same for all features and scales",
    )  # fmt: skip
    enough_levels: int = setting(
        5, "Levels of a scale; on fewer, priors are tighter and steps shorter.", least=1,
        why="a yes or no tells less of somebody's taste than five stars; measured: merged levels",
    )  # fmt: skip

    def times_tighter(self, n_levels: int) -> int:
        """By how much a scale of few levels tightens; a learner without priors has none to tighten.

        One level is that of Gaussian ratings, which are not levels.
        """
        if not 1 < n_levels < self.enough_levels or not self.coupling_precision:
            return 1
        return 1 + self.enough_levels - n_levels

    def of_side(self, number: int) -> Priors:
        """Those of the user side (0) or the item side (1)."""
        looseness = self.item_side_looseness if number else self.user_side_looseness
        return replace(
            self,
            coupling_precision=self.coupling_precision * looseness,
            user_side_looseness=1.0,
            item_side_looseness=1.0,
        )

    def for_scale(self, n_levels: int) -> Priors:
        """The same for a scale of so many levels."""
        tighter = self.times_tighter(n_levels)
        if tighter == 1:
            return self
        return replace(
            self,
            coupling_precision=self.coupling_precision * tighter,
            bias_precision=self.bias_precision * tighter,
        )


@with_reasons
@dataclass(frozen=True, kw_only=True)
class Initialisation(Checked):
    """Where learning starts, and in which unit."""

    spread: float = setting(
        0.02, "Deviation of the initial couplings.", why="measured: 0.007 to 0.07 tried"
    )
    hidden_spread: float = setting(
        0.0, "Deviation of the initial hidden biases.", why="couplings alone tell units apart"
    )
    shared_potential: bool = setting(True, "Learn a level potential shared by all columns too.")
    residual_unit: bool = setting(
        True, "Gaussian ratings in units of what user and item means leave unexplained.",
        why="given its hidden units a Gaussian rating has deviation one",
    )  # fmt: skip
    mean_weight: float = setting(
        10.0, "For that unit: ratings by which those means are drawn to that of all.", above=0,
        why="means of a few ratings fit noise",
    )  # fmt: skip

    own_unit_weight: float = setting(
        10.0, "Continuous ratings by which the width of each user's own unit is drawn to that of "
        "all; 0: all users have one unit.",
        why="people use a slider differently; simulated and measured: dense continuous ratings",
    )  # fmt: skip

    @property
    def unit_weight(self) -> float | None:
        """`mean_weight` where it has a use."""
        return self.mean_weight if self.residual_unit else None


PARTS: Mapping[str, type[Any]] = {
    "optimiser": Optimiser,
    "priors": Priors,
    "initialisation": Initialisation,
}


def _names(part: type) -> list[str]:
    return [one.name for one in fields(part)]


_PART_OF = {name: part for part, kind in PARTS.items() for name in _names(kind)}


@dataclass(frozen=True, init=False, repr=False)
class Learner:
    """An objective, with its optimiser, priors and initialisation.

    Settings of the parts can be given, and read, as if they were its own.
    """

    optimiser: Optimiser
    priors: Priors
    initialisation: Initialisation
    other_side: OtherSide  # how the side at rest enters, if there are two

    parts: ClassVar[Mapping[str, Any]]  # by default

    def __init__(self, **given: Any) -> None:
        own = {one.name: one for one in fields(self)}
        for name in given:
            if name not in own and name not in _PART_OF:
                raise TypeError(
                    f"{type(self).__name__} has no setting {name!r}: it has "
                    f"{', '.join([*_PART_OF, *own])}"
                )
        for name, one in own.items():
            value = given.get(name, one.default)
            if name in PARTS:
                part: Any = self.parts[name] if given.get(name) is None else given[name]
                if not isinstance(part, PARTS[name]):
                    raise SettingsError(
                        f"{said(name, part)}: must be a {PARTS[name].__name__} of ordbm"
                    )
                changed = {key: v for key, v in given.items() if _PART_OF.get(key) == name}
                value = replace(part, **changed) if changed else part
            object.__setattr__(self, name, value)
        self.check()

    def __getattr__(self, name: str) -> Any:
        if name in _PART_OF:
            return getattr(getattr(self, _PART_OF[name]), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        """What differs from the defaults; `eval` gives the learner back."""
        default = type(self)().settings()
        told = (f"{name}={v!r}" for name, v in self.settings().items() if v != default[name])
        return f"{type(self).__name__}({', '.join(told)})"

    def settings(self) -> dict[str, Any]:
        """All that the constructor can be told, by name, but for whole parts."""
        found: dict[str, Any] = {}
        for one in fields(self):
            part = getattr(self, one.name)
            if one.name in PARTS:
                found |= {name: getattr(part, name) for name in _names(PARTS[one.name])}
            else:
                found[one.name] = part
        return found

    def identity(self, epochs: int) -> dict[str, Any]:  # noqa: ARG002
        """All that decides what it learns in `epochs`, by name; rules within as `group.name`."""
        found: dict[str, Any] = {"learner": type(self).__name__}
        for one in fields(self):
            value = getattr(self, one.name)
            found |= dict(leaves(value)) if one.name in PARTS else {one.name: value}
        return found

    def check(self) -> None:
        """An error unless what it was told makes sense."""
        check_choice("other_side", self.other_side, get_args(OtherSide))

    def for_scale(
        self, n_levels: int, n_groups: int | None = None, *, ordinal: bool = True
    ) -> Learner:
        """The same with tighter priors and shorter steps where a scale has few levels.

        Where it has many, what multiplies a distance of `ordinal` levels is measured in steps of a
        scale of five: weights of links by the distance, w, so that their precision and curvature
        grow by w squared; and initial couplings, of `n_groups` groups of levels, by sums over w
        times as many of them of products with distances w times as long, whose deviation grows by
        w to the 3/2.
        """
        if ordinal and n_levels > MANY_LEVELS:
            width, group_width = (
                max(1.0, (count - 1) / (FEW_LEVELS - 1))
                for count in (n_levels, n_groups or n_levels)
            )
            optimiser, priors, start = self.optimiser, self.priors, self.initialisation
            return replace(
                self,
                optimiser=replace(optimiser, link_curvature=optimiser.link_curvature * width**2),
                priors=replace(priors, link_precision=priors.link_precision * width**2),
                initialisation=replace(start, spread=start.spread / group_width**1.5),
            )
        tighter = self.priors.times_tighter(n_levels)
        if tighter == 1:
            return self
        return replace(
            self,
            optimiser=replace(self.optimiser, rate=self.optimiser.rate / tighter**0.5),
            priors=self.priors.for_scale(n_levels),
        )


LearnerKind = TypeVar("LearnerKind", bound=Learner)


def _with_signature(learner: type[LearnerKind]) -> type[LearnerKind]:
    """The class with all of its settings in signature and documentation."""
    known = learner().settings()
    given: dict[str, Any] = dict.fromkeys(PARTS)  # whole parts, too
    learner.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in (known | given).items()
        ]
    )
    lines = (documentation(part, known) for part in PARTS.values())
    add_documentation(learner, "\n".join(lines))
    return learner


@_with_signature
@dataclass(frozen=True, init=False, repr=False)
class PseudoLikelihood(Learner):
    """Maximise sum log P(rating | all other ratings), plus log priors.

    Discrete ratings: exact (A.1), and for two sides the exact joint pseudo-likelihood, in which the
    sides' level scores add. Gaussian ratings: mean-field hidden units (A.2); `leave_out=False` lets
    a rating be evidence about itself, as the paper does.
    """

    leave_out: bool = True
    other_side: OtherSide = "exact"

    parts = {name: part() for name, part in PARTS.items()}  # noqa: RUF012

    def check(self) -> None:
        """An error unless what it was told makes sense."""
        super().check()
        if not isinstance(self.leave_out, bool):
            raise SettingsError(f"{said('leave_out', self.leave_out)}: use True or False")


@_with_signature
@dataclass(frozen=True, init=False, repr=False)
class ContrastiveDivergence(Learner):
    """Follow data minus a short Gibbs chain from the data (section 2.2), as the paper set it.

    `steps` is the length of the chain, or a function of the epoch (from 0) that gives it. Section
    4.1: blocks of 100, rate 0.1, no priors, and all that belongs to hidden units from N(0; 0.01).
    """

    steps: int | Callable[[int], int] = 1
    other_side: OtherSide = "sample"

    parts = {  # noqa: RUF012
        "optimiser": Optimiser(
            rate=0.1, decay=1.0, momentum=0.0, per_row=1.0, coupling_curvature=0.0,
            bias_curvature=0.0, hidden_curvature=0.0, link_curvature=0.0, block_rows=100,
            column_ratings=0.0,
        ),
        "priors": Priors(
            coupling_precision=0.0, ratings_per_unit=0.0, co_occurrence=0, bias_precision=0.0,
            count_weight=0.0, response_style_share=0.0, learn_response_styles=False,
            noise_weight=0.0, hidden_precision=0.0, link_precision=0.0, unit_smoothing=False,
        ),
        "initialisation": Initialisation(
            spread=0.01, hidden_spread=0.01, shared_potential=False, residual_unit=False,
            own_unit_weight=0.0,
        ),
    }  # fmt: skip

    def identity(self, epochs: int) -> dict[str, Any]:
        """All that decides what it learns in `epochs`; a function for `steps` by what it gives."""
        found = super().identity(epochs)
        if callable(self.steps):
            found["steps"] = tuple(map(self.chain_length, range(epochs)))
        return found

    def chain_length(self, epoch: int) -> int:
        """Gibbs steps in an epoch, counted from 0."""
        length = self.steps(epoch) if callable(self.steps) else self.steps
        if length < 1:
            raise SettingsError(f"steps={length} in epoch {epoch}: need at least 1")
        return int(length)


LEARNERS: dict[str, Learner] = {
    "pl": PseudoLikelihood(),
    "cd": ContrastiveDivergence(),
    "structured": ContrastiveDivergence(other_side="mean_field_with_own"),
}


def learner_of(learner: Any) -> Learner:
    """A learner by its name, or as it is."""
    if isinstance(learner, Learner):
        return learner
    if not isinstance(learner, str) or learner not in LEARNERS:
        raise SettingsError(
            f"{said('learner', learner)} is not known: use one of {', '.join(LEARNERS)}, or a "
            "learner object"
        )
    return LEARNERS[learner]
