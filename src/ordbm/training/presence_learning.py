"""Learning which items get rated, by pseudo-likelihood over all pairs, the absent ones included.

The loss is convex: maximum a posteriori under Gaussian priors of links and of users' biases, by
L-BFGS on parameters in units of their curvature, ended early. Each user's links are scaled by the
number of all their ratings here; the conditional of a rated pair has one less, a part of 1 / 2N of
its links. Beyond a budget the conditionals of some items are left out for some users, and those
that are in count as many times more: loss and gradient keep their expectation.

All is learnt twice: first without every tenth user, from whom the recalibration map is learnt that
turns the potentials of people not seen before into log-odds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.data.csr import CSR
from ordbm.errors import DivergedError
from ordbm.kernels import presence as kernels
from ordbm.model.presence import (
    LOG_ODDS_BYTES,
    ConditionedPresence,
    Presence,
    fitting_bias,
    fold_in_presence,
    linked_rows,
    linked_with_transpose,
)
from ordbm.model.rules import PresenceRules
from ordbm.runtime.arrays import Array
from ordbm.runtime.threads import run_on_threads, share
from ordbm.training.lbfgs import Parts, dot, minimise
from ordbm.training.recalibration import cell_counts, recalibration_map


class SampledBlock(NamedTuple):
    """A block of users, the items whose conditionals are taken there, and how often each counts."""

    first: int
    last: int
    columns: Array  # (S,)
    times: Array  # (S,)


class PresenceLoss:
    """Minus the log pseudo-likelihood of presence and its gradient, by blocks of users."""

    def __init__(self, rated: CSR, n_linked: int, degree_scale: Array, threads: int) -> None:
        self.by_user, self.by_item = linked_with_transpose(rated, n_linked)
        self.n_linked, self.degree_scale, self.threads = n_linked, degree_scale, threads

    @property
    def n_users(self) -> int:
        return self.by_user.n_rows

    def samples(self, share_of: Array, seed: int) -> list[SampledBlock]:
        """Blocks of users with each item's conditionals taken there with probability `share_of`."""
        rng = np.random.default_rng(seed)
        size = max(1, LOG_ODDS_BYTES // (4 * max(self.n_linked, 1)))
        found = []
        for first in range(0, self.n_users, size):
            columns = np.flatnonzero(rng.random(self.n_linked) < share_of)
            times = (1 / share_of[columns]).astype(np.float32)
            found.append(SampledBlock(first, min(first + size, self.n_users), columns, times))
        return found

    def __call__(
        self,
        weight: Array,
        bias: Array,
        user_bias: Array,
        samples: list[SampledBlock],
        *,
        links: bool = True,
    ) -> tuple[float, Array, Array, Array]:
        """The loss, and its gradient by weight (L, L), each end by itself, bias and user bias.

        Without `links` that by weight is left out.
        """
        loss, slope = np.zeros(self.n_users), np.zeros(self.n_users)
        by_weight = np.zeros((self.n_linked, self.n_linked) if links else (0, 0))
        by_bias = np.zeros(self.n_linked)
        for sample in samples:
            self._add(sample, (weight, bias, user_bias), (loss, slope, by_weight, by_bias))
        return float(loss.sum()), by_weight, by_bias, slope

    def _add(
        self,
        sample: SampledBlock,
        parameters: tuple[Array, Array, Array],
        totals: tuple[Array, Array, Array, Array],
    ) -> None:
        first, last, columns, times = sample
        if not len(columns):
            return
        weight, bias, user_bias = parameters
        loss, slope, by_weight, by_bias = totals
        users = np.arange(first, last)
        part = weight if len(columns) == self.n_linked else np.ascontiguousarray(weight[:, columns])
        where = np.full(self.n_linked, -1, np.int64)
        where[columns] = np.arange(len(columns))
        residual = np.empty((last - first, len(columns)), np.float32)
        rated, raters = self.by_user, self.by_item

        def residuals(thread: int) -> None:
            begin, end = share(last - first, thread, self.threads)
            kernels.log_odds(
                begin, end, users, rated.start, rated.column, self.degree_scale, part,
                bias[columns], user_bias, residual,
            )  # fmt: skip
            kernels.residuals(
                begin, end, first, rated.start, rated.column, where, times, residual, loss, slope
            )

        def link_gradient(thread: int) -> None:
            begin, end = share(self.n_linked, thread, self.threads)
            room = np.empty(len(columns), np.float32)
            kernels.add_link_gradient(
                begin, end, first, last, raters.start, raters.column, self.degree_scale, columns,
                residual, room, by_weight,
            )  # fmt: skip

        run_on_threads(self.threads, residuals)
        if by_weight.size:
            run_on_threads(self.threads, link_gradient)
        by_bias[columns] += residual.sum(axis=0, dtype=np.float64)


def learn_presence(
    by_user: CSR,
    n_items: int,
    *,
    precision: float | None,
    budget: float,
    seed: int,
    threads: int,
    tell: Callable[[float], object],
    rules: PresenceRules,
) -> Presence:
    """Presence from ratings. `precision` is that of the prior of links; by a rule if not said.

    `budget` is how many links may be looked at in one pass over the ratings, each with each linked
    item; `tell` is given the share that is done.
    """

    def learn(rows: CSR, done: float) -> Presence:
        return _learn(
            rows,
            n_items,
            precision=precision,
            budget=budget,
            seed=seed,
            threads=threads,
            tell=lambda share: tell((done + share) / 2),
            rules=rules,
        )

    given = np.diff(by_user.start)
    by_given = np.argsort(given, kind="stable")[np.count_nonzero(given == 0) :]
    apart = max(rules.unseen_apart, -(-len(by_given) // rules.most_unseen))
    unseen = by_given[apart // 2 :: apart]
    others = _without_rows(by_user, unseen)
    conditioned = ConditionedPresence(learn(others, 0), others, threads)
    counts = sum(
        (_counts(conditioned, by_user, user, rules.cells) for user in unseen),
        cell_counts(np.zeros(0), np.zeros(0), rules.cells),
    )
    found = replace(learn(by_user, 1), recalibration=recalibration_map(counts, rules))
    if found.has_diverged:
        raise DivergedError(
            "presence diverged: leave presence_precision and presence_rules at their defaults, or "
            "say presence=False"
        )
    return found


def _without_rows(rows: CSR, some: Array) -> CSR:
    """The rows with some of them made empty."""
    count = np.diff(rows.start)
    is_kept = np.ones(rows.n_rows, bool)
    is_kept[some] = False
    return rows._replace(
        start=np.concatenate([[0], np.cumsum(count * is_kept)]),
        column=rows.column[np.repeat(is_kept, count)],
    )


def _counts(conditioned: ConditionedPresence, by_user: CSR, user: int, cells: int) -> Array:
    """`cell_counts` of all items for a user whom the evidence has not seen."""
    items = by_user.column[by_user.start[user] : by_user.start[user + 1]]
    rated = np.zeros(len(conditioned.presence.item_bias))
    rated[items] = 1
    alone = fold_in_presence(conditioned, by_user.rows_of(np.array([user])), np.array([-1]))
    return cell_counts(alone.potential(np.zeros(1, np.int32))[0], rated, cells)


def _learn(
    by_user: CSR,
    n_items: int,
    *,
    precision: float | None,
    budget: float,
    seed: int,
    threads: int,
    tell: Callable[[float], object],
    rules: PresenceRules,
) -> Presence:
    """Presence with potentials for log-odds."""
    n_rows = by_user.n_rows
    given = np.diff(by_user.start)
    known = np.flatnonzero(given)  # users without ratings are none who rated nothing
    given, n_users = given[known], len(known)
    by_user = by_user._replace(start=np.append(by_user.start[known], by_user.start[-1]))
    count = np.bincount(by_user.column, minlength=n_items)
    most = np.argsort(-count, kind="stable")[: rules.most_linked]
    linked = np.sort(most[count[most] >= rules.least_linked]).astype(np.int32)
    start = Presence(
        item_bias=np.log((count + 0.5) / (n_users - count + 0.5)).astype(np.float32),
        user_bias=np.log((given + 1) / (given.mean() + 1)).astype(np.float32),
        linked=linked,
        weight=np.zeros((len(linked), len(linked)), np.float32),
        typical_degree=float(np.exp(np.log(given).mean())),
        unknown_bias=0.0,
        user_precision=rules.user_precision,
    )
    rated = linked_rows(by_user, linked, n_items)
    loss = PresenceLoss(rated, len(linked), start.degree_scale(given), threads)
    work = len(rated.column) * len(linked)
    share_of = _item_shares(count[linked], min(1.0, budget / max(work, 1)), rules.least_share)
    samples = loss.samples(share_of, seed)
    if precision is None:
        precision = rules.precision * n_users ** (1 / 3)
    weight, bias, user_bias = _fit_links(
        loss, samples, start, count[linked], precision, rules.iterations, tell
    )
    bias, user_bias = _level_biases(loss, samples, weight, bias, user_bias, rules)
    # An item without links is rated as often as it was, by users with these biases; half a rating
    # is added, and half an absence.
    kept = n_users / (n_users + 1)
    item_bias = start.item_bias.copy()
    rest = ~np.isin(np.arange(n_items), linked)
    for times in np.unique(count[rest]):
        item_bias[rest & (count == times)] = fitting_bias(user_bias, (times + 0.5) * kept)
    item_bias[linked] = bias
    everybody = np.zeros(n_rows, np.float32)
    everybody[known] = user_bias
    unknown = fitting_bias(user_bias, 0.5 * kept)
    return Presence(
        item_bias, everybody, linked, weight, start.typical_degree, unknown, rules.user_precision
    )


def _level_biases(
    loss: PresenceLoss,
    samples: list[SampledBlock],
    weight: Array,
    bias: Array,
    user_bias: Array,
    rules: PresenceRules,
) -> tuple[Array, Array]:
    """Biases by which items are expected to be rated, and users to rate, as often as they did.

    That is where the minimum has them, but for the prior of users; the steps of a descent that ends
    early leave them a little off.
    """
    count, given = np.diff(loss.by_item.start), np.diff(loss.by_user.start)
    for _ in range(rules.levellings):
        _, _, excess, _ = loss(weight, bias, user_bias, samples, links=False)
        bias = bias + np.log(count / np.maximum(count + excess, 0.5)).astype(np.float32)
        _, _, _, excess = loss(weight, bias, user_bias, samples, links=False)
        wanted = np.maximum(given - rules.user_precision * user_bias, 0.5)
        user_bias = user_bias + np.log(wanted / np.maximum(given + excess, 0.5)).astype(np.float32)
    return bias, user_bias


def _item_shares(count: NDArray[np.int64], share_of_work: float, least: float) -> Array:
    """How often each item's conditionals are taken: more often those of items that many rated."""
    if share_of_work >= 1 or not len(count):
        return np.ones(len(count))
    size = np.sqrt(count)
    return np.clip(share_of_work * size / size.mean(), least, 1.0)


def _fit_links(
    loss: PresenceLoss,
    samples: list[SampledBlock],
    start: Presence,
    count: NDArray[np.int64],
    precision: float,
    iterations: int,
    tell: Callable[[float], object],
) -> tuple[Array, Array, Array]:
    """Weights (L, L), biases (L,) and user biases at the minimum."""
    n, size = loss.n_users, loss.n_linked
    share_of = count / n
    spread = share_of * (1 - share_of)
    given = np.diff(loss.by_user.start)
    cross = np.outer(spread, count).astype(np.float32)
    # Each parameter in units of its curvature at the start.
    unit: Parts = [
        1 / np.sqrt(np.maximum((cross + cross.T) / 2 + np.float32(precision), np.float32(1))),
        (1 / np.sqrt(n * spread + 1)).astype(np.float32),
        (1 / np.sqrt(given * (1 - given / max(size, 1)) + start.user_precision)).astype(np.float32),
    ]
    np.fill_diagonal(unit[0], 0)
    # A link's weight is in the matrix twice: each copy has half of its gradient and of its prior.
    strength = (np.float32(precision / 2), np.float32(0), np.float32(start.user_precision))

    def objective(free: Parts) -> tuple[float, Parts]:
        weight, bias, user_bias = (value * scale for value, scale in zip(free, unit, strict=True))
        total, by_weight, by_bias, by_user = loss(weight, bias, user_bias, samples)
        by_weight = ((by_weight + by_weight.T) / 2).astype(np.float32)
        gradient = [by_weight, by_bias.astype(np.float32), by_user.astype(np.float32)]
        for value, slope, pull in zip((weight, bias, user_bias), gradient, strength, strict=True):
            np.add(slope, pull * value, out=slope)
            total += 0.5 * float(pull) * dot([value], [value])
        return total, [slope * scale for slope, scale in zip(gradient, unit, strict=True)]

    free = [
        np.zeros_like(unit[0]),
        start.item_bias[start.linked] / unit[1],
        start.user_bias / unit[2],
    ]
    found = minimise(objective, free, iterations, tell)
    weight, bias, user_bias = (value * scale for value, scale in zip(found, unit, strict=True))
    return weight, bias, user_bias
