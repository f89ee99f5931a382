"""Learning which items get rated, by pseudo-likelihood over all pairs, the absent ones included.

The loss is convex: maximum a posteriori under Gaussian priors of links and of users' biases, by
L-BFGS on parameters in units of their curvature, ended early. Each user's links are scaled by the
number of all their ratings here; the conditional of a rated pair has one less, a part of 1 / 2N of
its links. Beyond a budget links are learnt from as many users, drawn at random; biases always from
everybody.

All is learnt twice: first without every tenth user, from whom the recalibration map is learnt that
turns the potentials of people not seen before into log-odds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

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

FEWEST_USERS = 100  # that links are learnt from, whatever the budget


class PresenceLoss:
    """Minus the log pseudo-likelihood of presence and its gradient, by blocks of users."""

    def __init__(self, rated: CSR, n_linked: int, degree_scale: Array, threads: int) -> None:
        self.by_user, self.by_item = linked_with_transpose(rated, n_linked)
        self.n_linked, self.degree_scale, self.threads = n_linked, degree_scale, threads

    def __call__(
        self, weight: Array, bias: Array, user_bias: Array
    ) -> tuple[float, Array, Array, Array]:
        """The loss, and its gradient by weight (L, L), each end by itself, bias and user bias."""
        n_users = self.by_user.n_rows
        loss, slope = np.zeros(n_users), np.zeros(n_users)
        by_weight, by_bias = np.zeros((self.n_linked, self.n_linked)), np.zeros(self.n_linked)
        for block in user_blocks(n_users, self.n_linked):
            odds = block_odds(
                block, self.by_user, self.degree_scale, weight, bias, user_bias, self.threads
            )
            work = partial(self._residuals, block, odds, loss[block], slope[block])
            run_on_threads(self.threads, work)
            run_on_threads(self.threads, partial(self._link_gradient, block, odds, by_weight))
            by_bias += odds.sum(axis=0, dtype=np.float64)
        return float(loss.sum()), by_weight, by_bias, slope

    def _residuals(self, block: slice, odds: Array, loss: Array, slope: Array, thread: int) -> None:
        start = self.by_user.start[block.start : block.stop + 1]
        kernels.residuals(
            *share(len(odds), thread, self.threads), start, self.by_user.column, odds, loss, slope
        )

    def _link_gradient(self, block: slice, residual: Array, by_weight: Array, thread: int) -> None:
        kernels.add_link_gradient(
            *share(self.n_linked, thread, self.threads), block.start, block.stop,
            self.by_item.start, self.by_item.column, self.degree_scale, residual,
            np.empty(self.n_linked, np.float32), by_weight,
        )  # fmt: skip


def user_blocks(n_users: int, n_linked: int) -> list[slice]:
    """Users whose log-odds are held at a time."""
    size = max(1, LOG_ODDS_BYTES // (4 * max(n_linked, 1)))
    return [slice(first, min(first + size, n_users)) for first in range(0, n_users, size)]


def block_odds(
    block: slice,
    rated: CSR,
    degree_scale: Array,
    weight: Array,
    bias: Array,
    user_bias: Array,
    threads: int,
) -> Array:
    """Those of a block of users, (users, L)."""
    users = np.arange(block.start, block.stop)
    odds = np.empty((len(users), len(weight)), np.float32)

    def work(thread: int) -> None:
        kernels.log_odds(
            *share(len(users), thread, threads), users, rated.start, rated.column, degree_scale,
            weight, bias, user_bias, odds,
        )  # fmt: skip

    run_on_threads(threads, work)
    return odds


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
    item: beyond, links are those of some users. `tell` is given the share that is done.
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
    scale = start.degree_scale(given)
    some = _some_users(rated, budget / max(len(linked), 1), seed)
    loss = PresenceLoss(rated.rows_of(some), len(linked), scale[some], threads)
    weight, bias, start.user_bias[some] = _fit_links(
        loss, start.item_bias[linked], start.user_bias[some], precision, rules, tell
    )
    bias = _level_biases(rated, scale, weight, bias, start.user_bias, rules, threads)
    # An item without links is rated as often as it was, by users with these biases; half a rating
    # is added, and half an absence.
    kept = n_users / (n_users + 1)
    item_bias = start.item_bias.copy()
    rest = ~np.isin(np.arange(n_items), linked)
    for times in np.unique(count[rest]):
        item_bias[rest & (count == times)] = fitting_bias(start.user_bias, (times + 0.5) * kept)
    item_bias[linked] = bias
    everybody = np.zeros(n_rows, np.float32)
    everybody[known] = start.user_bias
    unknown = fitting_bias(start.user_bias, 0.5 * kept)
    return Presence(
        item_bias, everybody, linked, weight, start.typical_degree, unknown, rules.user_precision
    )


def _some_users(rated: CSR, most_ratings: float, seed: int) -> Array:
    """As many users, drawn at random, as have no more ratings than these; at least a few."""
    if len(rated.column) <= most_ratings:
        return np.arange(rated.n_rows)
    order = np.random.default_rng(seed).permutation(rated.n_rows)
    n_kept = np.searchsorted(np.cumsum(rated.sizes_of(order)), most_ratings, "right")
    return np.sort(order[: max(int(n_kept), FEWEST_USERS)])


def _level_biases(
    rated: CSR,
    degree_scale: Array,
    weight: Array,
    bias: Array,
    user_bias: Array,
    rules: PresenceRules,
    threads: int,
) -> Array:
    """Biases by which users (changed in place) and items are expected to rate as often as they did.

    That is where the minimum has them, but for the prior of users; the steps of a descent that ends
    early leave them a little off.
    """
    given, none = np.diff(rated.start).astype(np.float64), np.zeros_like(user_bias)
    count = np.bincount(rated.column, minlength=len(weight))
    for _ in range(rules.levellings):
        expected = np.zeros(len(weight))
        for block in user_blocks(rated.n_rows, len(weight)):
            odds = block_odds(block, rated, degree_scale, weight, bias, none, threads)

            def fit(
                thread: int,
                odds: Array = odds,
                wanted: Array = given[block],
                own: Array = user_bias[block],
            ) -> None:
                kernels.fit_user_biases(
                    *share(len(own), thread, threads), wanted, rules.user_precision, odds, own
                )

            run_on_threads(threads, fit)
            expected += odds.sum(axis=0, dtype=np.float64)
        bias = bias + np.log(count / np.maximum(expected, 0.5)).astype(np.float32)
    return bias


def _fit_links(
    loss: PresenceLoss,
    bias: Array,
    user_bias: Array,
    precision: float | None,
    rules: PresenceRules,
    tell: Callable[[float], object],
) -> tuple[Array, Array, Array]:
    """Weights (L, L), biases (L,) and user biases at the minimum, from these biases on."""
    size, n = loss.n_linked, loss.by_user.n_rows
    if precision is None:
        precision = rules.precision * n ** (1 / 3)
    count, given = np.diff(loss.by_item.start), np.diff(loss.by_user.start)
    share_of = count / n
    spread = share_of * (1 - share_of)
    cross = np.outer(spread, count).astype(np.float32)
    # Each parameter in units of its curvature at the start.
    own = given * (1 - given / max(size, 1)) + rules.user_precision
    unit: Parts = [
        1 / np.sqrt(np.maximum((cross + cross.T) / 2 + np.float32(precision), np.float32(1))),
        (1 / np.sqrt(n * spread + 1)).astype(np.float32),
        (1 / np.sqrt(own)).astype(np.float32),
    ]
    np.fill_diagonal(unit[0], 0)
    # A link's weight is in the matrix twice: each copy has half of its gradient and of its prior.
    strength = (np.float32(precision / 2), np.float32(0), np.float32(rules.user_precision))

    def objective(free: Parts) -> tuple[float, Parts]:
        weight, bias, user_bias = (value * scale for value, scale in zip(free, unit, strict=True))
        total, by_weight, by_bias, by_user = loss(weight, bias, user_bias)
        by_weight = ((by_weight + by_weight.T) / 2).astype(np.float32)
        gradient = [by_weight, by_bias.astype(np.float32), by_user.astype(np.float32)]
        for value, slope, pull in zip((weight, bias, user_bias), gradient, strength, strict=True):
            np.add(slope, pull * value, out=slope)
            total += 0.5 * float(pull) * dot([value], [value])
        return total, [slope * scale for slope, scale in zip(gradient, unit, strict=True)]

    free = [
        np.zeros_like(unit[0]),
        bias / unit[1],
        user_bias / unit[2],
    ]
    found = minimise(objective, free, rules.iterations, tell)
    weight, bias, user_bias = (value * scale for value, scale in zip(found, unit, strict=True))
    return weight, bias, user_bias
