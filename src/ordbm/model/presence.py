"""Which items get rated: the state *absent* of every pair, and the log-odds against it.

Ratings alone leave the zero of an item's energy open: a constant added to all of its level
potentials changes no rating's distribution. Here the zero is that of *absent*. A pair's levels
together have the potential pi = c_u + b_i + g sum_j s_ij over the other items j that the user has
rated, and share it as the rating machines say: P(absent) = 1 / (1 + e^pi) and
P(level) = P(rated) P(level | rated). The links s are symmetric and signed: the feature of a link is
that both items are present. Degree normalisation, g = sqrt(typical degree / number of these j),
keeps the sum of many links as large as that of a typical user. So pi depends on what else the user
has rated and on the parameters, not on whether the pair itself is rated.

The priors that give the best lists draw probabilities together. Log-odds are therefore an
increasing function of pi, the recalibration map, learnt from people whom the machine had not seen:
it changes nobody's order by pi, and makes P(rated) mean what it says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.special import expit

from ordbm.data.csr import CSR, with_transpose
from ordbm.kernels import presence as kernels
from ordbm.model.machine import is_within_reach
from ordbm.runtime.arrays import Array, Codes
from ordbm.runtime.threads import run_on_threads, share

LOG_ODDS_BYTES = 32_000_000  # that are held at a time
PAIRS_TO_SHARE = 10_000  # below which one thread is as quick as several
KNOTS = np.arange(-10, 6.5, 0.5, dtype=np.float32)  # potentials: the recalibration map's knots


@dataclass(frozen=True, eq=False)
class Presence:
    """The parameters of presence."""

    item_bias: Array  # (items,)
    user_bias: Array  # (users,)
    linked: Array  # (L,) the items that have links, increasing
    weight: Array  # (L, L) symmetric, zero diagonal
    typical_degree: float  # ratings of a user whose links count once
    unknown_bias: float  # of an item without ratings
    user_precision: float  # of the prior of a user's bias
    # What log-odds are above the potentials KNOTS; straight between these, the same beyond.
    recalibration: Array = field(default_factory=lambda: np.zeros_like(KNOTS))

    @property
    def has_diverged(self) -> bool:
        """Whether a parameter is no number, or of a size that cannot be reckoned with."""
        numbers = np.array([self.typical_degree, self.unknown_bias, self.user_precision])
        tables = (self.item_bias, self.user_bias, self.weight, self.recalibration)
        return not all(map(is_within_reach, (numbers, *tables)))

    @cached_property
    def place(self) -> Codes:
        """Of each item among the linked ones, or -1, (items,)."""
        place = np.full(len(self.item_bias), -1, np.int32)
        place[self.linked] = np.arange(len(self.linked), dtype=np.int32)
        return place

    def degree_scale(self, count: Array) -> Array:
        """sqrt(typical degree / count): how much each link of this many rated items counts."""
        return np.sqrt(self.typical_degree / np.maximum(count, 1)).astype(np.float32)


class ConditionedPresence:
    """What `presence` says of users with these ratings."""

    def __init__(
        self, presence: Presence, by_user: CSR, threads: int, user_bias: Array | None = None
    ) -> None:
        self.presence, self.by_user, self.threads = presence, by_user, threads
        self.user_bias = presence.user_bias if user_bias is None else user_bias

    @cached_property
    def rated(self) -> CSR:
        """The ratings of linked items alone, by user."""
        return linked_rows(self.by_user, self.presence.linked, len(self.presence.item_bias))

    @cached_property
    def degree_scale(self) -> Array:
        """Of every user, for items not rated, (users,)."""
        return self.presence.degree_scale(self._count)

    @cached_property
    def _scale_without_own(self) -> Array:
        """Of every user, for an item that is one of those rated, (users,)."""
        return self.presence.degree_scale(self._count - 1)

    @cached_property
    def _count(self) -> Array:
        """Ratings of each user."""
        return np.diff(self.by_user.start)

    @property
    def users_at_once(self) -> int:
        """Users whose log-odds are held at a time."""
        return max(1, LOG_ODDS_BYTES // (4 * max(len(self.presence.item_bias), 1)))

    def log_odds(self, users: Codes) -> Array:
        """log P(rated) / P(absent) for all items, (users, items), given what else is rated.

        User -1 is somebody of whom nothing is known.
        """
        out = self._recalibrate(users, self.potential(users))
        # Without their only rating somebody has rated nothing, and the map is not for them.
        place = np.flatnonzero((users >= 0) & (self._count[users] == 1))
        item = self.by_user.column[self.by_user.start[users[place]]]
        out[place, item] = self.presence.item_bias[item] + self.user_bias[users[place]]
        return out

    def potential(self, users: Codes) -> Array:
        """pi, (users, items), to which those who have rated something add the recalibration map."""
        presence = self.presence
        out = np.empty((len(users), len(presence.linked)), np.float32)
        known = np.where(users >= 0, users, 0).astype(np.int64)
        bias = presence.item_bias[presence.linked]

        threads = max(1, min(self.threads, len(users)))

        def work(thread: int) -> None:
            begin, end = share(len(known), thread, threads)
            kernels.log_odds(
                begin, end, known, self.rated.start, self.rated.column, self.degree_scale,
                presence.weight, bias, self.user_bias, out,
            )  # fmt: skip

        run_on_threads(threads, work)
        self._leave_own_out(known, bias, out)
        if len(presence.linked) < len(presence.item_bias):
            linked, out = out, presence.item_bias + self.user_bias[known][:, None]
            out[:, presence.linked] = linked
        out[users < 0] = presence.item_bias
        return out

    def _leave_own_out(self, users: Codes, bias: Array, potential: Array) -> None:
        """Scale the links of pairs that are rated by the number of the user's other ratings."""
        row = np.repeat(np.arange(len(users)), self.rated.sizes_of(users))
        column = self.rated.column[self.rated.positions_of(users)]
        count = self._count[users]
        other = self.presence.degree_scale(count - 1) / self.degree_scale[users]
        alone = bias[column] + self.user_bias[users][row]
        potential[row, column] = alone + (potential[row, column] - alone) * other[row]

    def _recalibrate(self, users: Codes, potential: Array) -> Array:
        """Log-odds for rows of potentials, (users, any), in their place."""
        has_rated = (users >= 0) & (self._count[users] > 0)
        first, step = KNOTS[0], KNOTS[1] - KNOTS[0]

        threads = max(1, min(self.threads, len(users)))

        def work(thread: int) -> None:
            begin, end = share(len(users), thread, threads)
            kernels.recalibrate(
                begin, end, has_rated, first, step, self.presence.recalibration, potential
            )

        run_on_threads(threads, work)
        return potential

    def pair_log_odds(self, users: Codes, items: Codes) -> Array:
        """log P(rated) / P(absent) of each pair, (pairs,); -1 stands for the unknown."""
        presence, count = self.presence, self._count
        known = np.maximum(users, 0)
        of_user = np.where(users >= 0, self.user_bias[known], np.float32(0))
        out = np.where(items >= 0, presence.item_bias[items], presence.unknown_bias) + of_user
        place = np.where((users >= 0) & (items >= 0), presence.place[items], -1)
        linked = np.flatnonzero(place >= 0)
        out[linked] = self._linked_pairs(users[linked], place[linked])
        self._recalibrate(users, out[:, None])
        alone = np.flatnonzero((users >= 0) & (count[known] == 1))
        alone = alone[self.by_user.column[self.by_user.start[users[alone]]] == items[alone]]
        out[alone] = presence.item_bias[items[alone]] + of_user[alone]
        return out

    def _linked_pairs(self, users: Codes, place: Codes) -> Array:
        """pi of users and linked items, by the places of these among them."""
        out = np.empty(len(users), np.float32)
        bias = self.presence.item_bias[self.presence.linked]
        threads = max(1, min(self.threads, len(users) // PAIRS_TO_SHARE))

        def work(thread: int) -> None:
            begin, end = share(len(users), thread, threads)
            kernels.pair_log_odds(
                begin, end, users, place, self.rated.start, self.rated.column, self.degree_scale,
                self._scale_without_own, self.presence.weight, bias, self.user_bias, out,
            )  # fmt: skip

        run_on_threads(threads, work)
        return out

    def reasons(self, user: int, item: int, n: int) -> list[tuple[int, float]]:
        """The n of the user's items that raise an item's potential most, and by how much."""
        linked = self.presence.linked
        place = int(np.searchsorted(linked, item))
        if place == len(linked) or linked[place] != item:
            return []
        mine = self.rated.columns_of(user)
        added = self.degree_scale[user] * self.presence.weight[place, mine]
        best = np.argsort(-added, kind="stable")[:n]
        return [(int(linked[mine[one]]), float(added[one])) for one in best if added[one] > 0]


def fold_in_presence(
    conditioned: ConditionedPresence, rows: CSR, users: Codes
) -> ConditionedPresence:
    """What is said of people who rated these items, a row each: `users` of codes, or new ones (-1).

    The bias of somebody new is where the machine expects them to rate as many items as they did,
    drawn to that of a typical user; that of a user moves as this does from what they had rated.
    """
    bias = _fitting_biases(conditioned, rows)
    known = np.flatnonzero(users >= 0)
    if len(known):
        had = conditioned.by_user.rows_of(users[known])
        bias[known] -= _fitting_biases(conditioned, had)
        bias[known] += conditioned.user_bias[users[known]]
    return ConditionedPresence(conditioned.presence, rows, conditioned.threads, bias)


def _fitting_biases(conditioned: ConditionedPresence, rows: CSR) -> Array:
    """Of people who rated these items, one by one."""
    bias = np.zeros(rows.n_rows, np.float32)
    found = ConditionedPresence(conditioned.presence, rows, conditioned.threads, bias)
    for person, count in enumerate(np.diff(rows.start)):
        if count:
            without_bias = found.potential(np.array([person], np.int32))[0]
            bias[person] = fitting_bias(without_bias, count, conditioned.presence.user_precision)
    return bias


def fitting_bias(potential: Array, count: float, precision: float = 0.0) -> float:
    """c where sum sigmoid(potential + c) + precision c = count, by Newton's method in a bracket."""
    potential = potential.astype(np.float64)
    low, high, c = -50.0, 50.0, 0.0
    for _ in range(100):
        proba = expit(potential + c)
        excess = proba.sum() + precision * c - count
        low, high = (low, c) if excess > 0 else (c, high)
        step = c - excess / max((proba * (1 - proba)).sum() + precision, 1e-300)
        new = step if low < step < high else (low + high) / 2
        if abs(new - c) < 1e-9:
            break
        c = new
    return float(c)


def linked_rows(rows: CSR, linked: Array, n_items: int) -> CSR:
    """The ratings of linked items alone, by their places among these."""
    place = np.full(n_items, -1, np.int32)
    place[linked] = np.arange(len(linked), dtype=np.int32)
    column = place[rows.column]
    kept = column >= 0
    start = np.concatenate([[0], np.cumsum(kept)])[rows.start]
    return CSR(
        start.astype(np.int64), column[kept], rows.level[:0], rows.value[:0], np.zeros(0, np.int32)
    )


def linked_with_transpose(rows: CSR, n_linked: int) -> tuple[CSR, CSR]:
    """Linked ratings by user and by item."""
    return with_transpose(rows._replace(level=np.zeros(len(rows.column), np.uint8)), n_linked)
