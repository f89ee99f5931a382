"""A machine together with the ratings it has seen: hidden units, and scores of any pair."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from ordbm.data.csr import CSR, CSRPair
from ordbm.kernels.structures import Tables
from ordbm.model.machine import Machine, Side
from ordbm.model.side_scores import hidden_inputs, side_log_densities, side_scores
from ordbm.runtime.arrays import Array, Codes
from ordbm.runtime.threads import thread_count

Method = Literal["exact", "mean_field"]


class ConditionedMachine:
    """What `machine` knows from `ratings`; user -1 and item -1 stand for somebody unknown.

    A pair's own rating never enters what is said about it, except where a method says so. With
    `listed` users and items, only these can be asked about.
    """

    def __init__(
        self,
        machine: Machine,
        ratings: CSRPair,
        threads: int | None = None,
        listed: tuple[Codes | None, Codes | None] = (None, None),
    ) -> None:
        self.machine, self.listed = machine, listed
        self.ratings = ratings
        self.threads = thread_count(threads)

    @cached_property
    def tables(self) -> Tables:
        features = self.machine.features
        smoothing = features.smoothing.astype(self.machine.dtype)
        pair = features.pair.astype(self.machine.dtype)
        nowhere = np.zeros((0, len(smoothing)), self.machine.dtype)
        return Tables(smoothing, smoothing, pair, nowhere, nowhere[:, :, None])

    @cached_property
    def user_input(self) -> Array:
        """x of every user, (users, d)."""
        return _inputs(self.machine.user_side, self.ratings.by_user, self.threads, self.listed[0])

    @cached_property
    def item_input(self) -> Array:
        """x of every item, (items, d)."""
        return _inputs(self.machine.item_side, self.ratings.by_item, self.threads, self.listed[1])

    def user_factors(self) -> Array:
        """P(h_k = 1 | ratings) of every user, (users, hidden units)."""
        side = self.machine.user_side
        return _factors(side, self.user_input, self.ratings.by_user.n_rows)

    def item_factors(self) -> Array:
        """P(h_k = 1 | ratings) of every item, (items, hidden units)."""
        side = self.machine.item_side
        return _factors(side, self.item_input, self.ratings.by_item.n_rows)

    def pair_scores(
        self, users: Codes, items: Codes, method: str = "exact", seed: int = 0
    ) -> Array:
        """Potential of each level for each pair, up to a constant per pair: (pairs, n).

        For a Gaussian machine, the mean of the pair's rating: (pairs, 1).
        """
        scores = np.tile(self.machine.level_bias, (len(users), 1))
        for number, (side, ratings, inputs, rows, columns) in enumerate(self._sides(users, items)):
            scores += side_scores(
                side, ratings, inputs, rows, columns, self.tables, method, self.threads,
                2 * seed + number,
            )  # fmt: skip
            scores[columns < 0] += side.unknown_bias
        return scores

    def pair_log_densities(self, users: Codes, items: Codes, grid: Array) -> Array:
        """Log density of a Gaussian rating at grid (pairs, points), up to a constant per pair."""
        density: Array = grid * self.machine.level_bias[0] - 0.5 * grid * grid
        for side, ratings, inputs, rows, columns in self._sides(users, items):
            density = density + side_log_densities(
                side, ratings, inputs, rows, columns, self.tables, grid, self.threads
            )
            density[columns < 0] += grid[columns < 0] * side.unknown_bias
        return density

    def user_free_energy(self, users: Codes | None = None) -> NDArray[np.float64]:
        """F(r_u) = -log sum_h e^-E(h, r_u) of each user's ratings on the user side, (users,).

        Of all users if not said; user -1 has no ratings, only hidden units.
        """
        found = self._user_free_energies()
        if users is None:
            return found
        side = self.machine.user_side
        bias = side.unknown_hidden_bias[: side.n_hidden] if side else np.zeros(0)
        alone = -np.logaddexp(0.0, bias.astype(np.float64)).sum()
        return np.where(users >= 0, found[users], alone)

    def _user_free_energies(self) -> NDArray[np.float64]:
        """Of every user.

        Each rating adds its level's shared potential, its bias and its links with the user's other
        ratings (each pair once); each hidden unit adds softplus of its input.
        """
        by_user = self.ratings.by_user
        row = by_user.row
        weight = by_user.value.astype(np.float64) if by_user.value.size else np.ones(len(row))
        term = weight * self.machine.level_bias[by_user.level]
        if by_user.value.size:
            term -= 0.5 * weight**2
        side = self.machine.user_side
        total: NDArray[np.float64] = np.bincount(row, term, by_user.n_rows).astype(np.float64)
        if side is None:
            return -total
        parameters = side.parameters
        if parameters.rating_bias.size:
            bias = parameters.rating_bias[by_user.column, by_user.level]
            total += np.bincount(row, weight * bias, by_user.n_rows)
        if side.links.n_edges:
            bare = Side(
                parameters._replace(
                    coupling=parameters.coupling[:, :, :0],
                    hidden_bias=parameters.hidden_bias[:0],
                    rating_bias=parameters.rating_bias[:0],
                ),
                0,
                side.links,
                side.unknown_bias,
            )
            linked = side_scores(
                bare, by_user, np.zeros((by_user.n_rows, 0), self.machine.dtype), row,
                by_user.column, self.tables, "mean_field", self.threads,
            )  # fmt: skip
            at_level = linked[np.arange(len(row)), by_user.level]
            total += 0.5 * np.bincount(row, weight * at_level, by_user.n_rows)
        inputs = self.user_input[:, : side.n_hidden].astype(np.float64)
        return -(total + np.logaddexp(0.0, inputs).sum(axis=1))

    def _sides(self, users: Codes, items: Codes) -> list[tuple[Side, CSR, Array, Codes, Codes]]:
        found = []
        if self.machine.user_side is not None:
            found.append(
                (self.machine.user_side, self.ratings.by_user, self.user_input, users, items)
            )
        if self.machine.item_side is not None:
            found.append(
                (self.machine.item_side, self.ratings.by_item, self.item_input, items, users)
            )
        return found


def softmax(scores: Array) -> NDArray[np.float64]:
    """Probabilities from potentials, in float64; rows sum to one."""
    scores = scores.astype(np.float64)
    return np.exp(scores - logsumexp(scores, axis=1, keepdims=True))


def _inputs(side: Side | None, ratings: CSR, threads: int, listed: Codes | None) -> Array:
    if side is None:
        return np.zeros((ratings.n_rows, 0), np.float32)
    return hidden_inputs(side, ratings, threads, listed)


def _factors(side: Side | None, inputs: Array, n_rows: int) -> Array:
    if side is None:
        return np.zeros((n_rows, 0), np.float32)
    return expit(inputs[:, : side.n_hidden])
