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

from ordbm.data.csr import CSR, CSRPair
from ordbm.kernels.co_occurrence import fill_row_sums
from ordbm.model.rules import EmbeddingRules
from ordbm.priors.products import cross_product, table_product
from ordbm.runtime.arrays import Array
from ordbm.runtime.threads import run_on_threads, share

LEAST = 1e-6  # of the strongest direction; what is weaker is rounding


class CoOccurrence(NamedTuple):
    """Traits of all users and all items, and how to read those of somebody new.

    Those of users, and those of items, are orthogonal, with the root of the trust in them as
    length: the projection of couplings on them has that factor. Without trust there are none.
    """

    of_user: Array  # (users, r)
    of_item: Array  # (items, s)
    read_by_item: Array  # (items, r) summed over a user's items, over the root of their number

    def of_columns(self, side: int) -> Array:
        """Items own the user side's couplings, users the item side's."""
        return self.of_user if side else self.of_item


def co_occurrence_embedding(
    ratings: CSRPair,
    most: int,
    rules: EmbeddingRules,
    threads: int = 1,
    *,
    sides: tuple[bool, bool] = (True, True),
) -> CoOccurrence:
    """So many traits, or fewer where there are few users, items or ratings.

    `sides` says whether traits of items, for the user side, and of users, for the item side, are
    asked for.
    """
    by_user, by_item = ratings
    n = direction_count(ratings, most, rules)
    in_items, in_users = (
        _prior_weight(rows, rules) if asked else 0.0
        for rows, asked in zip(ratings, sides, strict=True)
    )
    if n < 1 or max(in_items, in_users) == 0:
        of_user, of_item = (np.zeros((rows.n_rows, 0)) for rows in ratings)
        return CoOccurrence(of_user, of_item, of_item)
    user_weight, item_weight = (
        1 / np.sqrt(np.maximum(np.diff(rows.start), 1.0)) for rows in ratings
    )

    def user_sums(of_item: Array) -> Array:
        return _row_sums(by_user, user_weight, of_item * item_weight[:, None], threads)

    def item_sums(of_user: Array) -> Array:
        return _row_sums(by_item, item_weight, of_user * user_weight[:, None], threads)

    rng = np.random.default_rng(0)
    of_item = _orthonormal(rng.normal(size=(by_item.n_rows, n + rules.spare)), threads)
    for _ in range(rules.rounds):
        of_item = _orthonormal(item_sums(user_sums(of_item)), threads)
    of_user = user_sums(of_item)
    square, axes = np.linalg.eigh(cross_product(of_user, of_user, threads))
    kept = np.flatnonzero(square > LEAST * square[-1])[-n:]
    axes, strength = axes[:, kept], np.sqrt(square[kept])
    of_item = table_product(of_item, axes, threads)
    of_user = table_product(of_user, axes / strength, threads)
    return CoOccurrence(
        _weighted(of_user, in_users),
        _weighted(of_item, in_items),
        _weighted(of_item * item_weight[:, None] / strength, in_users),
    )


def direction_count(ratings: CSRPair, most: int, rules: EmbeddingRules) -> int:
    """How many directions there are at most, by the numbers of users, items and ratings."""
    fewest = min(rows.n_rows for rows in ratings)
    n_ratings = len(ratings.by_user.column)
    return min(
        most, fewest // rules.columns_per_direction, n_ratings // rules.ratings_per_direction
    )


def fold_in_embedding(read_by_row: Array, rows: Array) -> Array:
    """The traits (r,) of a user who rated these items, or of an item that these users rated."""
    total: Array = read_by_row[rows].sum(axis=0, dtype=np.float64)
    return total / np.sqrt(max(len(rows), 1))


def _prior_weight(rows: CSR, rules: EmbeddingRules) -> float:
    """Of what directions say about couplings to these rows' hidden units, from 0 to 1."""
    mean = len(rows.column) / max(rows.n_rows, 1)
    weight = float(min(1.0, rules.most_per_row / max(mean, 1.0)) ** rules.exponent)
    return weight if weight >= rules.least_weight else 0.0


def _weighted(co_occurrence: Array, weight: float) -> Array:
    return co_occurrence * np.sqrt(weight) if weight else np.zeros((len(co_occurrence), 0))


def _row_sums(rows: CSR, weight: Array, table: Array, threads: int) -> Array:
    out = np.empty((rows.n_rows, table.shape[1]))
    fill = partial(fill_row_sums, rows.start, rows.column, weight, table)
    run_on_threads(threads, lambda thread: fill(*share(rows.n_rows, thread, threads), out))
    return out


def _orthonormal(table: Array, threads: int) -> Array:
    """An orthonormal basis of the table's columns, without those that the others explain."""
    square, axes = np.linalg.eigh(cross_product(table, table, threads))
    kept = square > LEAST * square[-1]
    return table_product(table, axes[:, kept] / np.sqrt(square[kept]), threads)
