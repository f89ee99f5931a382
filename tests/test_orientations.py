"""Sorting in buckets, in memory or mapped files, is sorting; whatever the size of buckets."""

import copy
import pickle

import numpy as np
import pytest

import ordbm
from ordbm.data import orientations
from ordbm.data.csr import with_transpose
from ordbm.data.orientations import Unsorted, both_orientations, kept_rows, sorted_by_user
from ordbm.data.scale import RatingScale
from ordbm.runtime import scratch as scratch_module
from ordbm.runtime.scratch import IN_MEMORY, Scratch, is_mapped

SCALE = RatingScale([1, 2, 3, 4, 5])
N_USERS, N_ITEMS = 50, 30


@pytest.fixture(params=[(10**9, 10**9, False), (7, 13, False), (7, 13, True), (1, 1, True)])
def scratch(request, monkeypatch):
    """Buckets of all, some or single rows; in memory, or all in mapped files."""
    most, at_once, on_disk = request.param
    monkeypatch.setattr(orientations, "_MOST_ROWS", most)
    monkeypatch.setattr(orientations, "_LEAST_ROWS", 1)
    monkeypatch.setattr(orientations, "_AT_ONCE", at_once)
    if not on_disk:
        return IN_MEMORY
    monkeypatch.setattr(scratch_module, "_SMALL", 0)
    found = Scratch(2**20)
    found.memory = 0
    monkeypatch.setattr(orientations, "_rows_in_memory", lambda _: most)
    return found


def drawn(seed, n=400, *, repeats=True, times=False, value=False):
    rng = np.random.default_rng(seed)
    pair = rng.integers(0, N_USERS * N_ITEMS, n) if repeats else rng.permutation(1500)[:n]
    user = (pair // N_ITEMS).astype(np.int32)
    user[user == 17] = 18  # somebody without ratings
    return Unsorted(
        user,
        (pair % N_ITEMS).astype(np.int32),
        rng.integers(0, 5, n).astype(np.uint8),
        rng.normal(size=n) if value else np.empty(0, np.float32),
        rng.integers(0, 3, n).astype(float) if times else np.empty(0),
        rng.normal(size=(n, 2)),
        np.arange(n),
    )


def plainly_sorted(entries, *, means=False):
    """What must come out, pair by pair: {(user, item): (level, context)}."""
    found = {}
    for row in range(len(entries.user)):
        pair = int(entries.user[row]), int(entries.item[row])
        time = entries.times[row] if len(entries.times) else 0
        found.setdefault(pair, []).append((time, row))
    out = []
    for (user, item), given in sorted(found.items()):
        row = max(given)[1]
        level = int(entries.level[row])
        if means:
            level = int(np.floor(np.mean([entries.level[one] for _, one in given]) + 0.5))
        out.append((user, item, level, tuple(entries.context[row])))
    return out


@pytest.mark.parametrize("times", [False, True])
@pytest.mark.parametrize("means", [False, True])
def test_of_a_pair_the_last_or_the_mean_stays(scratch, times, means):
    entries = drawn(0, times=times)
    expected = plainly_sorted(entries, means=means)
    repeats = sorted(
        row for row in range(400)
        if (entries.user[row], entries.item[row])
        in set(zip(entries.user[:row].tolist(), entries.item[:row].tolist(), strict=True))
    )  # fmt: skip
    found = sorted_by_user(entries, N_USERS, N_ITEMS, SCALE, means, scratch)
    rows = found.rows
    users = np.repeat(np.arange(N_USERS), np.diff(rows.start))
    assert expected == [
        (int(u), int(i), int(level), tuple(context))
        for u, i, level, context in zip(users, rows.column, rows.level, found.context, strict=True)
    ]
    assert found.n_duplicates == 400 - len(expected) > 0
    if not times:
        assert found.repeats.tolist() == repeats


@pytest.mark.parametrize("value", [False, True])
def test_the_transpose_is_the_one_of_a_single_sort(scratch, value):
    entries = drawn(1, repeats=False, value=value)
    rows = sorted_by_user(entries, N_USERS, N_ITEMS, SCALE, False, IN_MEMORY).rows
    for found, expected in zip(
        both_orientations(rows, N_ITEMS, scratch), with_transpose(rows, N_ITEMS), strict=True
    ):
        for name in found._fields:
            one, other = getattr(found, name), getattr(expected, name)
            np.testing.assert_array_equal(one, other, name)
            assert one.dtype == other.dtype


def test_a_mask_keeps_what_it_says(scratch):
    entries = drawn(2, repeats=False)
    rows = sorted_by_user(entries, N_USERS, N_ITEMS, SCALE, False, scratch).rows
    keep = np.random.default_rng(3).random(len(rows.column)) < 0.4
    found = kept_rows(rows, keep, scratch)
    users = np.repeat(np.arange(N_USERS), np.diff(rows.start))[keep]
    np.testing.assert_array_equal(np.diff(found.start), np.bincount(users, minlength=N_USERS))
    np.testing.assert_array_equal(found.column, rows.column[keep])
    np.testing.assert_array_equal(found.level, rows.level[keep])


def test_ratings_in_mapped_files_can_be_copied_pickled_and_selected(monkeypatch):
    rng = np.random.default_rng(4)
    n = 2000
    pair = rng.permutation(100 * 100)[:n]
    told = pair // 100, pair % 100, rng.integers(1, 6, n)
    plain = ordbm.Ratings(*told)
    monkeypatch.setattr(scratch_module, "_SMALL", 0)
    monkeypatch.setattr(orientations, "_MOST_ROWS", 100)
    monkeypatch.setattr(orientations, "_LEAST_ROWS", 100)
    scratch = Scratch(2**20)
    taken = scratch.room(2**20, np.uint8)
    entries = Unsorted(plain.user_codes, plain.item_codes, plain.levels.copy(), plain.by_user.value)
    large, repeats = ordbm.Ratings.of_entries(
        plain.users, plain.items, plain.scale, entries, "last", scratch
    )
    assert len(taken)
    assert not len(repeats)
    assert all(map(is_mapped, (large.by_user.column, large.by_item.column)))
    assert is_mapped(large.by_user.in_transpose)
    shared = copy.deepcopy(large)
    assert shared.by_user.column is large.by_user.column
    back = pickle.loads(pickle.dumps(large))
    halves = ordbm.hold_out(large, 0.5)
    assert all(is_mapped(one.by_user.column) for one in halves)
    for found, expected in (
        (large, plain), (shared, plain), (back, plain),
        *zip(halves, ordbm.hold_out(plain, 0.5), strict=True),
    ):  # fmt: skip
        for side in ("by_user", "by_item"):
            for one, other in zip(getattr(found, side), getattr(expected, side), strict=True):
                np.testing.assert_array_equal(one, other)
