"""Ranking: the expected change of energy, candidates, and top-n lists.

The sign, once and for all: adding item j with rating r changes the energy by E_Q(r) (equation 2),
and Delta E_j is its expectation under Q. Low energy is good, so the score of an item is -Delta E_j,
the expected decrease of energy: larger is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ordbm.errors import SettingsError
from ordbm.inference.evidence import Evidence
from ordbm.kernels import catalogue
from ordbm.machine import Array
from ordbm.neighbours import no_links
from ordbm.parallel import run_on_threads, share
from ordbm.rows import Rows
from ordbm.scoring import Codes

By = Literal["energy", "mean"]

USERS_AT_ONCE = 256  # fewer if the catalogue is so large that their potentials pass AT_ONCE
AT_ONCE = 100_000_000  # bytes
SIMILAR_USERS = 50
SIMILAR_SUPPORT = 3  # common items; over two of them a correlation is always one


class Catalogue:
    """Mean-field level potentials of users for all items, a block of users at a time."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.n_items = evidence.ratings.by_item.n_rows

    @property
    def users_at_once(self) -> int:
        """Users whose potentials are held at a time."""
        machine = self.evidence.machine
        per_user = len(machine.level_bias) * self.n_items * machine.level_bias.itemsize
        return max(1, min(USERS_AT_ONCE, AT_ONCE // max(per_user, 1)))

    def potentials(self, users: Codes) -> Array:
        """-E_Q of each level, user and item: (n, users, items); mean rating if Gaussian.

        For each level one matrix product per side joins hidden means with parameters.
        """
        user_side, item_side = self.evidence.machine.sides
        level_bias = self.evidence.machine.level_bias
        potential: Array = np.empty((len(level_bias), len(users), self.n_items), level_bias.dtype)
        potential[...] = level_bias[:, None, None]
        if user_side is not None:
            own = user_side.parameters
            if own.rating_bias.size:
                potential += own.rating_bias.T[:, None, :]
            hidden = expit(self.evidence.user_input[users])
            for level in range(len(potential)):
                potential[level] += hidden @ own.coupling[:, level].T
        if item_side is not None:
            own = item_side.parameters
            if own.rating_bias.size:
                potential += own.rating_bias[users].T[:, :, None]
            coupling = own.coupling[users]
            for level in range(len(potential)):
                potential[level] += coupling[:, level] @ self.item_hidden.T
        self._add_links(users, potential)
        return potential

    @property
    def is_quick(self) -> bool:
        """Whether `add_probabilities` can be used: with levels, and no links between users."""
        item_side = self.evidence.machine.item_side
        linked = item_side is not None and item_side.links.n_edges > 0
        return not (linked or self.evidence.machine.features.is_gaussian)

    def add_probabilities(self, users: Codes, items: Codes, out: Array) -> None:
        """Q of each level for items (users, m) that the users have not rated, on out (users, m, n).

        Mean field, as `potentials`, for some items only; those below zero are passed over.
        """
        evidence = self.evidence
        user_side, item_side = evidence.machine.sides
        level_bias = evidence.machine.level_bias
        table, cube = np.zeros((0, 0), level_bias.dtype), np.zeros((0, 0, 0), level_bias.dtype)
        of_users: tuple[Any, ...] = (table, table, cube, no_links(0), table)
        of_items: tuple[Any, ...] = (table, cube, table)
        if user_side is not None:
            own = user_side.parameters
            hidden = expit(evidence.user_input[users])
            links = user_side.links
            of_users = (hidden, own.rating_bias, own.coupling, links, self.weight_by_neighbour)
        if item_side is not None:
            own = item_side.parameters
            of_items = (own.rating_bias, own.coupling, self.item_hidden)

        pair = evidence.tables.pair

        def work(thread: int) -> None:
            begin, end = share(len(users), thread, evidence.threads)
            seen = np.zeros(self.n_items, np.uint8 if len(level_bias) < 255 else np.int64)
            room = np.empty((1 + len(pair), 1 + len(level_bias)), level_bias.dtype)
            catalogue.add_probabilities(
                begin, end, users, items, evidence.ratings.by_user, level_bias, of_users, of_items,
                pair, seen, room, out,
            )  # fmt: skip

        run_on_threads(evidence.threads, work)

    @cached_property
    def weight_by_neighbour(self) -> Array:
        """The weight of each entry of the links between items, (entries, B)."""
        side = self.evidence.machine.user_side
        assert side is not None
        return side.parameters.link_weight[side.links.edge]

    @cached_property
    def item_hidden(self) -> Array:
        """P(h = 1 | ratings) of every item, (items, d)."""
        return expit(self.evidence.item_input)

    def _add_links(self, users: Codes, potential: Array) -> None:
        by_user = self.evidence.ratings.by_user
        pair = self.evidence.tables.pair
        user_side, item_side = self.evidence.machine.sides

        def work(thread: int) -> None:
            for place in range(*share(len(users), thread, self.evidence.threads)):
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
            run_on_threads(self.evidence.threads, work)

    def scores(self, users: Codes, by: By = "energy", values: Array | None = None) -> Array:
        """What items are ranked by, (users, items): -Delta E, or the mean rating on `values`."""
        if by not in get_args(By):
            raise SettingsError(f"by={by!r} is not known: use one of {', '.join(get_args(By))}")
        potential = self.potentials(users)
        if self.evidence.machine.features.is_gaussian:
            mean = potential[0]
            return mean if by == "mean" else (mean**2 - 1) / 2
        dtype = potential.dtype
        reward = np.zeros(0, dtype) if by == "energy" else np.asarray(values, dtype)
        out = np.empty(potential.shape[1:], dtype)

        def work(thread: int) -> None:
            begin, end = share(len(users), thread, self.evidence.threads)
            room = np.empty((3, self.n_items), dtype)
            catalogue.expectations(begin, end, potential, reward, room, out)

        run_on_threads(self.evidence.threads, work)
        return out


def top(
    catalogues: Sequence[Catalogue],
    users: Codes,
    n: int,
    by: By = "energy",
    values: Array | None = None,
    allowed: NDArray[np.bool_] | None = None,
) -> Iterator[tuple[int, Codes, Array]]:
    """(user, items, scores), best first, of the items each user has not rated.

    Scores are averaged over the catalogues of several machines. `allowed` (items,) or (users,
    items) says which items may appear. Ties go to the item that came first.
    """
    by_user = catalogues[0].evidence.ratings.by_user
    size = catalogues[0].users_at_once
    for first in range(0, len(users), size):
        block = users[first : first + size]
        scores = catalogues[0].scores(block, by, values)
        for other in catalogues[1:]:
            scores += other.scores(block, by, values)
        scores /= len(catalogues)
        if allowed is not None:
            may = allowed if allowed.ndim == 1 else allowed[first : first + size]
            scores = np.where(may, scores, -np.inf)
        for place, user in enumerate(block):
            scores[place, by_user.column[by_user.start[user] : by_user.start[user + 1]]] = -np.inf
        for user, items, score in zip(block, best(scores, n), scores, strict=True):
            listed = items[np.isfinite(score[items])]
            yield int(user), listed, score[listed]


def best(scores: Array, n: int) -> Codes:
    """The columns of the n largest scores of each row, best first; ties to the first column."""
    n = min(n, scores.shape[1])
    if n == 0:
        return np.zeros((len(scores), 0), np.int64)
    # The n-th largest value is a threshold; a stable sort of what reaches it settles ties.
    threshold = -np.partition(-scores, n - 1, axis=1)[:, n - 1 : n]
    found = np.empty((len(scores), n), np.int64)
    for row, (score, least) in enumerate(zip(scores, threshold, strict=True)):
        reaching = np.flatnonzero(score >= least)
        found[row] = reaching[np.argsort(-score[reaching], kind="stable")[:n]]
    return found


def similar_rows(rows: Rows, transposed: Rows, row: int, values: Array | None, n: int) -> Codes:
    """The n rows most similar to `row` by Pearson correlation over columns both rated.

    Only positive correlations over at least SIMILAR_SUPPORT columns count; ties go to more common
    columns, then to the first row.
    """
    mine = slice(rows.start[row], rows.start[row + 1])
    place = np.concatenate(
        [
            np.arange(transposed.start[column], transposed.start[column + 1])
            for column in rows.column[mine]
        ]
        or [np.zeros(0, np.int64)]
    ).astype(np.int64)
    count = np.diff(transposed.start)[rows.column[mine]]
    x = np.repeat(_values(rows, values, mine), count)
    y = _values(transposed, values, place)
    other = transposed.column[place]
    size = rows.n_rows
    shared = np.bincount(other, minlength=size).astype(np.float64)
    sums = [np.bincount(other, weight, size) for weight in (x, y, x * x, y * y, x * y)]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Times the number of shared columns, all is exact for levels: equal correlations do tie.
        covariance = shared * sums[4] - sums[0] * sums[1]
        spread = [shared * sums[2] - sums[0] ** 2, shared * sums[3] - sums[1] ** 2]
        correlation = covariance / np.sqrt(spread[0] * spread[1])
    varied = (spread[0] > 1e-12 * shared * sums[2]) & (spread[1] > 1e-12 * shared * sums[3])
    good = varied & (correlation > 0) & (shared >= SIMILAR_SUPPORT)
    good[row] = False
    found = np.flatnonzero(good)
    order = np.lexsort((found, -shared[found], -correlation[found]))
    return found[order[:n]]


def rated_by(rows: Rows, chosen: Codes, n_columns: int) -> NDArray[np.bool_]:
    """Which columns any of the chosen rows rated, (n_columns,)."""
    mask = np.zeros(n_columns, bool)
    for row in chosen:
        mask[rows.column[rows.start[row] : rows.start[row + 1]]] = True
    return mask


def _values(rows: Rows, values: Array | None, where: Codes | slice) -> Array:
    own = rows.value.size or values is None
    found: Array = rows.value[where] if own else np.asarray(values)[rows.level[where]]
    return found.astype(np.float64)
