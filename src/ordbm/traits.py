"""Traits of users and items: what is known of them by who rated what, whatever the levels.

Who rated what has a few strong directions, such as the kinds of films there are. Couplings are
expected to follow them: those of a column are normal around the projection of all columns'
couplings on the traits, so that a column with few ratings is like others that were rated by the
same rows. Traits are the first singular vectors of the table of which pairs were rated, each pair
weighed by one over the root of both counts. A row's hidden units add up what all its ratings say:
where these are many, what they have in common would drown what each says, and less is expected.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ordbm.kernels.traits import add_products, fill_products, fill_row_sums
from ordbm.machine import Array, Orientations
from ordbm.parallel import run_on_threads, share
from ordbm.rows import Rows

COLUMNS_PER_TRAIT = 20  # at least, of each side: traits could tell apart any few columns
RATINGS_PER_TRAIT = 3_000  # at least
MOST_PER_ROW = 150  # ratings, on average, with which all is expected of traits
LEAST_WEIGHT = 0.01  # of traits; with less they are not worth their time
SPARE = 8  # directions followed beside those that are kept
ROUNDS = 6  # of subspace iteration
LEAST = 1e-6  # of the strongest direction; what is weaker is rounding
LANES = 16  # columns of a table that one thread has at least, so that vectors end at the same place


class Traits(NamedTuple):
    """Traits of all users and all items, and how to read those of somebody new.

    Those of users, and those of items, are orthogonal, with the root of their weight as length: the
    projection of couplings on them has that weight. Without weight there are none, (.., 0).
    """

    of_user: Array  # (users, r)
    of_item: Array  # (items, s)
    by_item: Array  # (items, r) summed over the items a user rated, over the root of their number

    def of_newcomer(self, items: Array) -> Array:
        """The traits (r,) of a user who rated these items."""
        total: Array = self.by_item[items].sum(axis=0, dtype=np.float64)
        return total / np.sqrt(max(len(items), 1))

    def of_columns(self, side: int) -> Array:
        """Items own the user side's couplings, users the item side's."""
        return self.of_user if side else self.of_item


def traits_of(ratings: Orientations, most: int, threads: int = 1) -> Traits:
    """So many traits, or fewer where there are few users, items or ratings."""
    by_user, by_item = ratings
    n_ratings = len(by_user.column)
    fewest = min(by_user.n_rows, by_item.n_rows)
    n = min(most, fewest // COLUMNS_PER_TRAIT, n_ratings // RATINGS_PER_TRAIT)
    weights = [_weight(rows) for rows in ratings]
    if n < 1 or max(weights) == 0:
        of_user, of_item = (np.zeros((rows.n_rows, 0)) for rows in ratings)
        return Traits(of_user, of_item, of_item)
    user_weight, item_weight = (
        1 / np.sqrt(np.maximum(np.diff(rows.start), 1.0)) for rows in ratings
    )

    def user_sums(of_item: Array) -> Array:
        return _row_sums(by_user, user_weight, of_item * item_weight[:, None], threads)

    def item_sums(of_user: Array) -> Array:
        return _row_sums(by_item, item_weight, of_user * user_weight[:, None], threads)

    rng = np.random.default_rng(0)
    of_item = _orthonormal(rng.normal(size=(by_item.n_rows, n + SPARE)), threads)
    for _ in range(ROUNDS):
        of_item = _orthonormal(item_sums(user_sums(of_item)), threads)
    of_user = user_sums(of_item)
    square, axes = np.linalg.eigh(products(of_user, of_user, threads))
    kept = np.flatnonzero(square > LEAST * square[-1])[-n:]
    axes, strength = np.ascontiguousarray(axes[:, kept]), np.sqrt(square[kept])
    of_item = applied(of_item, axes, threads)
    of_user = applied(of_user, axes / strength, threads)
    by_item = of_item * item_weight[:, None] / strength
    # The rows of the user side are users, and its columns items.
    return Traits(
        _weighed(of_user, weights[1]), _weighed(of_item, weights[0]), _weighed(by_item, weights[1])
    )


def products(x: Array, y: Array, threads: int = 1) -> Array:
    """x' y in float64, for tables (C, a) and (C, b)."""
    total = np.zeros((x.shape[1], y.shape[1]))
    parts = -(-y.shape[1] // LANES)

    def work(thread: int) -> None:
        first, last = (LANES * part for part in share(parts, thread, threads))
        add_products(x, y, first, min(last, y.shape[1]), total)

    run_on_threads(threads, work)
    return total


def applied(x: Array, y: Array, threads: int = 1) -> Array:
    """x y in the type of x, for tables (C, a) and (a, b)."""
    out = np.empty((len(x), y.shape[1]), x.dtype)
    y = y.astype(x.dtype)
    run_on_threads(
        threads, lambda thread: fill_products(x, y, *share(len(x), thread, threads), out)
    )
    return out


def _weight(rows: Rows) -> float:
    """Of what is expected of couplings to these rows' hidden units."""
    mean = len(rows.column) / max(rows.n_rows, 1)
    weight = float(min(1.0, MOST_PER_ROW / max(mean, 1.0)) ** 4)
    return weight if weight >= LEAST_WEIGHT and len(rows.column) else 0.0


def _weighed(traits: Array, weight: float) -> Array:
    return traits * np.sqrt(weight) if weight else traits[:, :0]


def _row_sums(rows: Rows, weight: Array, table: Array, threads: int) -> Array:
    out = np.empty((rows.n_rows, table.shape[1]))
    fill = partial(fill_row_sums, rows.start, rows.column, weight, table)
    run_on_threads(threads, lambda thread: fill(*share(rows.n_rows, thread, threads), out))
    return out


def _orthonormal(table: Array, threads: int) -> Array:
    """An orthonormal basis of the table's columns, without those that the others explain."""
    square, axes = np.linalg.eigh(products(table, table, threads))
    kept = square > LEAST * square[-1]
    return applied(table, axes[:, kept] / np.sqrt(square[kept]), threads)
