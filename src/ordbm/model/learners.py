"""Learners: how a machine's parameters follow its ratings, as settings.

`PseudoLikelihood` is exact for discrete ratings, one-sided or joint. `ContrastiveDivergence` is the
paper's; with two sides it runs inside the paper's alternation, where `other_side` says how the side
at rest enters: its hidden units at their posterior means ("mean_field_with_own": structured
pseudo-likelihood, section 3), or drawn from their posterior ("sample").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ordbm.errors import SettingsError
from ordbm.kernels.structures import Step

OtherSide = Literal["exact", "mean_field_with_own", "sample"]

FEWEST_BLOCKS = 8  # steps per epoch that each side takes at least
TIGHTENING = 11.0  # of couplings, where columns have a quarter or less of what they should have
ENOUGH_LEVELS = 5  # of a scale: on fewer, a rating tells less


@dataclass(frozen=True, kw_only=True)
class Learner:
    """Steps under Gaussian priors, scaled by how many ratings a parameter has seen.

    A column with c ratings moves by rate / (precision + curvature c); precisions are those of the
    priors (of deviations from the population's level potential, if that is shared), curvatures the
    typical second derivative per rating. `per_row` above zero adds per_row times the block's rows
    to that scale instead: plain stochastic gradient. People have response styles, such as whole
    stars only, that the order of the levels does not explain: `response_style_share` of the prior
    of their biases leaves room for them, and with `learn_response_styles` it is for those that the
    ratings show. Couplings are expected to follow up to `co_occurrence` directions of who rated
    what, fewer where data are few; without a precision of couplings, nothing follows.
    """

    rate: float
    decay: float
    momentum: float
    per_row: float
    coupling_precision: float
    coupling_curvature: float
    ratings_per_unit: float  # of a column; with fewer, its couplings are held tighter
    co_occurrence: int  # at most, of users and of items; 0: couplings are expected to be zero
    bias_precision: float
    bias_curvature: float
    count_weight: float  # ratings by which levels' frequencies by count are drawn to all; 0: unused
    response_style_share: float  # of the prior of users' own biases: knows no order of levels
    learn_response_styles: bool  # that share follows what was seen; if not, all levels are alike
    hidden_precision: float
    hidden_curvature: float
    link_precision: float
    link_curvature: float
    block_rows: int | None
    column_ratings: float  # without block_rows: a column's ratings in a block, on average
    spread: float  # deviation of the initial couplings
    shared_potential: bool  # a level potential shared by all columns, learnt too
    unit_smoothing: bool  # feature tables scaled so that a level's own step is one on average
    residual_unit: bool  # Gaussian ratings in units of what user and item means leave unexplained
    other_side: OtherSide  # how the side at rest enters, if there are two

    def __post_init__(self) -> None:
        for name, (allowed, words) in _BOUNDS.items():
            value = getattr(self, name)
            if not isinstance(value, Real):
                raise SettingsError(f"{name}={value!r}: must be a number")
            if not allowed(value):
                raise SettingsError(f"{name}={value!r}: must {words}")
        if self.other_side not in get_args(OtherSide):
            raise SettingsError(
                f"other_side={self.other_side!r} is not known: use one of "
                f"{', '.join(get_args(OtherSide))}"
            )
        if not isinstance(self.learn_response_styles, bool):
            raise SettingsError(
                f"learn_response_styles={self.learn_response_styles!r}: use True or False"
            )
        if type(self.co_occurrence) is not int or self.co_occurrence < 0:
            raise SettingsError(
                f"co_occurrence={self.co_occurrence!r}: must be a whole number, or 0 for none"
            )
        if self.block_rows is not None and self.block_rows < 1:
            raise SettingsError(f"block_rows={self.block_rows!r}: must be at least 1, or None")

    def ratings_per_block(self, n_ratings: int, n_columns: int) -> int | None:
        """How many ratings a block holds, about; None if blocks are counted in rows.

        A step of a column costs the same however many ratings it has, so blocks are no smaller than
        column_ratings makes them, unless there were fewer than FEWEST_BLOCKS of them.
        """
        if self.block_rows is not None:
            return None
        blocks = max(FEWEST_BLOCKS, n_ratings / max(self.column_ratings * n_columns, 1))
        return max(1, int(n_ratings / blocks))

    def count_adaptive_precision(self, column_counts: NDArray[Any], n_hidden: int) -> float:
        """The precision of couplings of columns with these many ratings to so many hidden units.

        Couplings are fitted, not averaged over. Where there are many for few ratings they fit
        noise, and a tighter prior makes up for it. The typical count is the root of the mean
        square: between that of a column and that of a rating's column.
        """
        counts = np.asarray(column_counts, np.float64)
        n_rated = np.count_nonzero(counts)
        typical = np.sqrt((counts**2).sum() / max(n_rated, 1))
        short = self.ratings_per_unit * n_hidden / max(typical, 1.0)
        lack = np.clip((short - 1.0) / 3.0, 0.0, 1.0)
        return float(self.coupling_precision * (1.0 + TIGHTENING * lack))

    def for_scale(self, n_levels: int) -> Learner:
        """The same with tighter priors and shorter steps where a scale has few levels.

        A yes or no tells less of somebody's taste than five stars: there is less to find, and more
        noise to fit. One level is that of Gaussian ratings, which are not levels. A learner without
        priors stays as it is.
        """
        if not 1 < n_levels < ENOUGH_LEVELS or not self.coupling_precision:
            return self
        tighter = 1 + ENOUGH_LEVELS - n_levels
        return replace(
            self,
            rate=self.rate / tighter**0.5,
            coupling_precision=self.coupling_precision * tighter,
            bias_precision=self.bias_precision * tighter,
        )

    def step(self, epoch: int, curvature: float, dtype: Any) -> Step:
        """The step of an epoch, counted from 0; `curvature` multiplies all curvatures."""
        number = np.dtype(dtype).type
        factors = (getattr(self, name) * (curvature if "curv" in name else 1) for name in _PRIORS)
        return Step(
            number(self.rate * self.decay**epoch),
            number(self.momentum),
            number(self.per_row),
            *map(number, factors),
        )


_PRIORS = (
    "coupling_precision", "coupling_curvature", "bias_precision", "bias_curvature",
    "hidden_precision", "hidden_curvature", "link_precision", "link_curvature",
)  # fmt: skip

Bound = tuple[Callable[[Any], bool], str]
_BOUNDS: dict[str, Bound] = {
    **dict.fromkeys(("rate", "decay"), (lambda x: x > 0, "be above 0")),
    "momentum": (lambda x: 0 <= x < 1, "be at least 0 and below 1"),
    "response_style_share": (lambda x: 0 <= x <= 1, "be between 0 and 1"),
    **dict.fromkeys(
        ("per_row", "spread", "column_ratings", "ratings_per_unit", "count_weight", *_PRIORS),
        (lambda x: x >= 0, "not be negative"),
    ),
}


@dataclass(frozen=True, kw_only=True)
class PseudoLikelihood(Learner):
    """Maximise sum log P(rating | all other ratings), plus log priors.

    Discrete ratings: exact (A.1), and for two sides the exact joint pseudo-likelihood, in which the
    sides' level scores add. Gaussian ratings: mean-field hidden units (A.2); `leave_out=False` lets
    a rating be evidence about itself, as the paper does.
    """

    rate: float = 0.5
    decay: float = 0.93
    momentum: float = 0.5
    per_row: float = 0.0
    coupling_precision: float = 8.0
    coupling_curvature: float = 0.1
    ratings_per_unit: float = 0.4
    co_occurrence: int = 32
    bias_precision: float = 2.0
    bias_curvature: float = 0.2
    count_weight: float = 20.0
    response_style_share: float = 0.5
    learn_response_styles: bool = True
    hidden_precision: float = 1.0
    hidden_curvature: float = 0.1
    link_precision: float = 1000.0
    link_curvature: float = 0.5
    block_rows: int | None = None
    column_ratings: float = 30.0
    spread: float = 0.02
    shared_potential: bool = True
    unit_smoothing: bool = True
    residual_unit: bool = True
    leave_out: bool = True
    other_side: OtherSide = "exact"


@dataclass(frozen=True, kw_only=True)
class ContrastiveDivergence(Learner):
    """Follow data minus a short Gibbs chain from the data (section 2.2), as the paper set it.

    `steps` is the length of the chain, or a function of the epoch (from 0) that gives it.
    """

    rate: float = 0.1
    decay: float = 1.0
    momentum: float = 0.0
    per_row: float = 1.0
    coupling_precision: float = 0.0
    coupling_curvature: float = 0.0
    ratings_per_unit: float = 0.0
    co_occurrence: int = 0
    bias_precision: float = 0.0
    bias_curvature: float = 0.0
    count_weight: float = 0.0
    response_style_share: float = 0.0
    learn_response_styles: bool = False
    hidden_precision: float = 0.0
    hidden_curvature: float = 0.0
    link_precision: float = 0.0
    link_curvature: float = 0.0
    block_rows: int | None = 100
    column_ratings: float = 0.0
    spread: float = 0.01
    shared_potential: bool = False
    unit_smoothing: bool = False
    residual_unit: bool = False
    steps: int | Callable[[int], int] = 1
    other_side: OtherSide = "sample"

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
            f"learner={learner!r} is not known: use one of {', '.join(LEARNERS)}, or a learner "
            "object"
        )
    return LEARNERS[learner]
