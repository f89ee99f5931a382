"""Potentials of users for all items, and what ranking reads off them.

The sign, once and for all: adding item j with rating r changes the energy by E_Q(r) (equation 2),
and Delta E_j is its expectation under Q. Low energy is good, so the score of an item is -Delta E_j,
the expected decrease of energy: larger is better.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy.special import expit

from ordbm.errors import SettingsError
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.kernels import catalogue
from ordbm.runtime.arrays import Array, Codes
from ordbm.runtime.printable import shown
from ordbm.runtime.threads import run_on_threads, share

By = Literal["energy", "mean"]

USERS_IN_BLOCK = 256  # users whose scores are made at a time
MULTIPLIED = 8  # rows of every matrix product


class Catalogue:
    """Mean-field level potentials of users for all items, a block of users at a time."""

    def __init__(self, conditioned: ConditionedMachine) -> None:
        self.conditioned = conditioned
        self.n_items = conditioned.ratings.by_item.n_rows

    def potentials(self, users: Codes) -> Array:
        """-E_Q of each level, user and item: (n, users, items); mean rating if Gaussian.

        For each level matrix products join hidden means with parameters.
        """
        user_side, item_side = self.conditioned.machine.sides
        level_bias = self.conditioned.machine.level_bias
        potential: Array = np.empty((len(level_bias), len(users), self.n_items), level_bias.dtype)
        potential[...] = level_bias[:, None, None]
        if user_side is not None:
            own = user_side.parameters
            if own.rating_bias.size:
                potential += own.rating_bias.T[:, None, :]
            hidden = expit(self.conditioned.user_input[users])
            for level in range(len(potential)):
                potential[level] += _products(hidden, own.coupling[:, level].T)
        if item_side is not None:
            own = item_side.parameters
            if own.rating_bias.size:
                potential += own.rating_bias[users].T[:, :, None]
            coupling = own.coupling[users]
            for level in range(len(potential)):
                potential[level] += _products(coupling[:, level], self.item_hidden.T)
        self._add_links(users, potential)
        return potential

    @cached_property
    def item_hidden(self) -> Array:
        """P(h = 1 | ratings) of every item, (items, d)."""
        return expit(self.conditioned.item_input)

    def _add_links(self, users: Codes, potential: Array) -> None:
        by_user = self.conditioned.ratings.by_user
        pair = self.conditioned.tables.pair
        user_side, item_side = self.conditioned.machine.sides

        def work(thread: int) -> None:
            for place in range(*share(len(users), thread, self.conditioned.threads)):
                user = users[place]
                if user_side is not None and user_side.links.n_edges:
                    catalogue.add_row_links(
                        place, by_user.start[user], by_user.start[user + 1], by_user.column,
                        by_user.level, by_user.value, user_side.links,
                        user_side.parameters.link_weight, pair, potential,
                    )  # fmt: skip
                if item_side is not None and item_side.links.n_edges:
                    catalogue.add_column_links(
                        place, user, by_user.start, by_user.column, by_user.level, by_user.value,
                        item_side.links, item_side.parameters.link_weight, pair, potential,
                    )  # fmt: skip

        if any(side is not None and side.links.n_edges for side in (user_side, item_side)):
            run_on_threads(self.conditioned.threads, work)

    def scores(self, users: Codes, by: By, values: Array | None = None) -> Array:
        """What items are ranked by, (users, items): -Delta E, or the mean rating on `values`."""
        if by not in get_args(By):
            raise SettingsError(
                f"by={shown(by)} is not known: use one of {', '.join(get_args(By))}"
            )
        potential = self.potentials(users)
        if self.conditioned.machine.features.is_gaussian:
            mean = potential[0]
            return mean if by == "mean" else (mean**2 - 1) / 2
        dtype = potential.dtype
        reward, unit = np.zeros(0, dtype), 1.0
        if by == "mean":
            unit = _unit(np.asarray(values, np.float64))
            reward = np.asarray(np.asarray(values) / unit, dtype)
        out = np.empty(potential.shape[1:], dtype)

        def work(thread: int) -> None:
            begin, end = share(len(users), thread, self.conditioned.threads)
            room = np.empty((3, self.n_items), dtype)
            catalogue.expectations(begin, end, potential, reward, room, out)

        run_on_threads(self.conditioned.threads, work)
        return out if unit == 1.0 else out.astype(np.float64) * unit


def _products(rows: Array, table: Array) -> Array:
    """rows (users, d) times table (d, items), so many rows at a time.

    A library of linear algebra adds up in an order that depends on the shape: now no user's
    numbers depend on who else is asked about.
    """
    out = np.empty((len(rows), table.shape[1]), np.result_type(rows, table))
    some = np.zeros((MULTIPLIED, rows.shape[1]), rows.dtype)
    for first in range(0, len(rows), MULTIPLIED):
        part = rows[first : first + MULTIPLIED]
        some[: len(part)] = part
        out[first : first + MULTIPLIED] = (some @ table)[: len(part)]
    return out


def _unit(values: Array) -> float:
    """One, or the largest of `values` where these are no numbers of single precision."""
    largest = float(np.abs(values).max(initial=0))
    return 1.0 if largest == 0 or 1e-30 < largest < 1e30 else largest
