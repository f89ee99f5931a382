"""Presence that grows: biases of new users and items, and of those of whom there is news."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit

from ordbm.data.csr import CSRPair
from ordbm.model.presence import ConditionedPresence, Presence, fitting_bias, fold_in_presence
from ordbm.runtime.arrays import Codes, Mask


def grown_presence(
    presence: Presence, before: CSRPair, now: CSRPair, people: Codes, threads: int
) -> Presence:
    """Presence with the ratings `now`, of which these `people` have others than `before`.

    A user's bias moves as it does for somebody who says more. An item's moves by what new users
    rated it beyond what was expected of them, as if all its raters had been there from the start.
    New items have no links, and are expected to be rated as often as they were.
    """
    n_users, n_items = before.by_user.n_rows, before.by_item.n_rows
    more_users, more_items = now.by_user.n_rows - n_users, now.by_item.n_rows - n_items
    item_bias = np.append(presence.item_bias, np.full(more_items, presence.unknown_bias))
    user_bias = np.append(presence.user_bias, np.zeros(more_users))
    wide = replace(
        presence,
        item_bias=item_bias.astype(np.float32),
        user_bias=user_bias.astype(np.float32),
    )
    was_there = np.where(people < n_users, people, -1).astype(np.int32)
    said = fold_in_presence(
        ConditionedPresence(wide, before.by_user, threads), now.by_user.rows_of(people), was_there
    )
    wide.user_bias[people] = said.user_bias
    _hear_new_users(wide, before, now, threads)
    count = np.diff(now.by_item.start)
    n_raters = np.count_nonzero(np.diff(now.by_user.start))
    new = count[n_items:]
    for times in np.unique(new):
        wide.item_bias[n_items:][new == times] = fitting_bias(
            wide.user_bias, (times + 0.5) * n_raters / (n_raters + 1)
        )
    return wide


def expect_typical(presence: Presence, items: Codes, rated: Mask) -> None:
    """Items known by their features alone are rated as often as a typical one of the `rated`."""
    if len(items):
        presence.item_bias[items] = np.median(presence.item_bias[rated])


def _hear_new_users(presence: Presence, before: CSRPair, now: CSRPair, threads: int) -> None:
    """Item biases after what new users rated, in their place."""
    n_items = before.by_item.n_rows
    new = np.arange(before.by_user.n_rows, now.by_user.n_rows, dtype=np.int32)
    conditioned = ConditionedPresence(presence, now.by_user, threads)
    rated = np.bincount(
        now.by_user.column[now.by_user.positions_of(new)], minlength=now.by_item.n_rows
    )
    expected = np.zeros(now.by_item.n_rows)
    for first in range(0, len(new), conditioned.users_at_once):
        some = new[first : first + conditioned.users_at_once]
        expected += expit(conditioned.potential(some)).sum(axis=0, dtype=np.float64)
    had = np.diff(before.by_item.start) + 0.5
    presence.item_bias[:n_items] += np.log(
        (had + rated[:n_items]) / (had + expected[:n_items])
    ).astype(np.float32)
