"""The machine: parameters of its two sides and of the levels they share.

The energy of all ratings is a sum over two sides (section 3). On the user side every user owns
hidden units and every item owns parameters; the item side is the same on the transposed ratings.
Which sides are there, and which have links, makes the paper's variants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ordbm.kernels.structures import padded
from ordbm.model.features import Features
from ordbm.model.neighbours import Links, no_links
from ordbm.runtime.arrays import Array, Codes, Mask

LARGEST_PARAMETER = 1e6  # far beyond what any machine learns, far below what overflows in a sum
WIDEST = 1e4  # deviations that a column's bias, couplings or links may move a Gaussian mean by


class Parameters(NamedTuple):
    """Parameters of one side, in level space; also the shape of their velocities.

    n is the number of levels, C of columns, E of links, B of pair features; d is the number of
    hidden units rounded up to whole vectors.
    """

    hidden_bias: Array  # (d,) alpha, theta
    rating_bias: Array  # (C, n) beta, eta times the feature table; (0, n) if the side has none
    coupling: Array  # (C, n, d) gamma, nu times the feature table
    link_weight: Array  # (E, B) lambda, omega


class Newcomers(NamedTuple):
    """Rows that were not learnt from, and how much of what is expected of newcomers is of each.

    1 - c / typical of who has c ratings: with as many as those learnt from, nothing else is.
    """

    new: Mask  # (R,)
    share: Array  # (R,) zero of those learnt from
    typical: float  # number of ratings of a row learnt from

    @classmethod
    def of(cls, new: Mask, count: Array, typical: float) -> Newcomers:
        share = np.where(new, np.maximum(0, 1 - count / max(typical, 1)), 0)
        return cls(new, share.astype(np.float32), typical)

    @classmethod
    def together(cls, parts: Sequence[Newcomers]) -> Newcomers:
        """The rows of all parts, one after the other."""
        new, share = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("new", "share")
        )
        return cls(new, share, parts[0].typical)

    def of_rows(self, rows: Codes, count: Array) -> Newcomers:
        """Those of these rows, with so many ratings; -1 is somebody new."""
        new = rows < 0
        if self.new.any():
            new = new | self.new[rows]
        return self.of(new, count, self.typical)


@dataclass(frozen=True, eq=False)
class Side:
    """One side: its parameters, how many hidden units they hold, and which columns are linked."""

    parameters: Parameters
    n_hidden: int
    links: Links
    unknown_bias: Array  # (n,) the rating bias of a column that is not among them
    # (R, d) what is known of rows without ratings, added to the input of their hidden units.
    row_input: Array | None = None
    # What is expected of those not learnt from, beyond what learning expects (`learn_newcomers`):
    newcomer_bias: Array | None = None  # (n,) of a column; `unknown_bias` has it
    newcomer_input: Array | None = None  # (d,) added to the hidden bias of a row
    newcomers: Newcomers | None = None  # which rows these are; None if there are none

    @property
    def n_columns(self) -> int:
        return len(self.parameters.coupling)

    @property
    def unknown_hidden_bias(self) -> Array:
        """(d,) that of a row that was not learnt from."""
        bias = self.parameters.hidden_bias
        return bias if self.newcomer_input is None else bias + self.newcomer_input

    def of_rows(self, rows: Codes, count: Array) -> Side:
        """The side with these of its rows, with so many ratings; of -1 nothing else is known."""
        row_input, newcomers = self.row_input, self.newcomers
        if row_input is not None:
            row_input = np.where(rows[:, None] < 0, 0, row_input[rows]).astype(row_input.dtype)
        if newcomers is not None:
            newcomers = newcomers.of_rows(rows, count)
        return replace(self, row_input=row_input, newcomers=newcomers)

    def add_row_inputs(self, out: Array, rows: Codes | None = None) -> None:
        """Add to inputs (rows, d) what they have beside the ratings; all rows if not said."""
        if self.row_input is not None:
            out += self.row_input if rows is None else self.row_input[rows]
        if self.newcomers is not None and self.newcomer_input is not None:
            share = self.newcomers.share if rows is None else self.newcomers.share[rows]
            new = np.flatnonzero(share)
            out[new] += share[new, None] * self.newcomer_input


@dataclass(frozen=True, eq=False)
class Machine:
    """A Boltzmann machine over ratings: features, shared level potential, and its sides."""

    features: Features
    level_bias: Array  # (n,) potential of each level, shared by all columns of both sides
    user_side: Side | None
    item_side: Side | None

    @property
    def sides(self) -> tuple[Side | None, Side | None]:
        return self.user_side, self.item_side

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.level_bias.dtype

    def with_newcomers(self, newcomers: tuple[Newcomers, Newcomers]) -> Machine:
        """The machine with these among its users and items."""
        sides = (
            None if side is None else replace(side, newcomers=new)
            for side, new in zip(self.sides, newcomers, strict=True)
        )
        return Machine(self.features, self.level_bias, *sides)

    def of_columns(self, number: int, columns: Codes) -> Machine:
        """The machine with these columns of one side alone, without links."""
        side = self.sides[number]
        sides: list[Side | None] = [None, None]
        if side is not None:
            own = side.parameters
            bias = own.rating_bias[columns] if own.rating_bias.size else own.rating_bias
            few = own._replace(
                rating_bias=bias, coupling=own.coupling[columns], link_weight=own.link_weight[:0]
            )
            sides[number] = Side(few, side.n_hidden, no_links(len(columns)), side.unknown_bias)
        return Machine(self.features, self.level_bias, *sides)

    @property
    def has_diverged(self) -> bool:
        """Whether a parameter is no number, or of a size that cannot be reckoned with."""
        sides = [side for side in self.sides if side is not None]
        parameters = [array for side in sides for array in (side.unknown_bias, *side.parameters)]
        parameters += [side.newcomer_input for side in sides if side.newcomer_input is not None]
        if not all(map(is_within_reach, (self.level_bias, *parameters))):
            return True
        return self.features.is_gaussian and any(map(_moves_too_far, sides))


def _moves_too_far(side: Side) -> bool:
    """Whether a column's bias, couplings or links can move a Gaussian mean beyond all reason."""
    parameters, links = side.parameters, side.links
    column = np.repeat(np.arange(links.n_columns), np.diff(links.start))
    strength = np.abs(parameters.link_weight[links.edge]).sum(axis=1)
    moves = (
        np.abs(parameters.rating_bias),
        np.abs(parameters.coupling).sum(axis=2),
        np.bincount(column, strength, links.n_columns),
    )
    return any(bool((move > WIDEST).any()) for move in moves)


def is_within_reach(array: Array) -> bool:
    """Whether all of it are numbers of a size that can be reckoned with."""
    return bool(max(array.max(initial=0), -array.min(initial=0)) <= LARGEST_PARAMETER)


def new_side(
    features: Features,
    links: Links,
    n_hidden: int,
    *,
    has_bias: bool,
    spread: float,
    rng: np.random.Generator,
    dtype: Any = np.float32,
    hidden_spread: float = 0.0,
) -> Side:
    """A side with gamma ~ N(0, spread^2), alpha ~ N(0, hidden_spread^2) and all else zero.

    gamma are couplings in feature space, alpha hidden biases.
    """
    table = features.coupling
    n, n_features = table.shape
    coupling = np.zeros((links.n_columns, n, padded(n_hidden)), dtype)
    for column in range(0, links.n_columns, 4096):  # in parts, to keep float64 draws small
        part = coupling[column : column + 4096, :, :n_hidden]
        gamma = rng.normal(0.0, spread, (len(part), n_features, n_hidden))
        part[:] = np.einsum("sa,cak->csk", table, gamma)
    hidden_bias = np.zeros(padded(n_hidden), dtype)
    if hidden_spread:
        hidden_bias[:n_hidden] = rng.normal(0.0, hidden_spread, n_hidden)
    return Side(
        Parameters(
            hidden_bias=hidden_bias,
            rating_bias=np.zeros((links.n_columns if has_bias else 0, n), dtype),
            coupling=coupling,
            link_weight=np.zeros((links.n_edges, len(features.pair)), dtype),
        ),
        n_hidden,
        links,
        np.zeros(n, dtype),
        newcomer_bias=np.zeros(n, dtype),
        newcomer_input=np.zeros(padded(n_hidden), dtype),
    )
