"""Plans of a training: blocks on both sides and their tiles, against the ratings themselves."""

import numpy as np
import pytest

import referee
from ordbm.kernels.plan import reorder
from ordbm.model.learners import PseudoLikelihood
from ordbm.runtime.scratch import Scratch
from ordbm.training.plan import CHUNK_ENTRIES, MOST_CHUNKS, Cut, cut_rows, lay_out, uncut

SIZES = [
    {"column_ratings": 1e9, "fewest_blocks": 1},
    {"block_rows": 1},
    {"block_rows": 7},
    {"column_ratings": 2.0},
]


def orientations():
    rng = np.random.default_rng(2)
    machine = referee.random_machine(rng, "ordinal", "user")
    table = referee.random_table(rng, gaussian=False, n_users=120, n_items=50, rated=0.6)
    table[[3, 77]] = np.nan
    table[:, 9] = np.nan
    return referee.orientations(table, machine)


def cuts_of(ratings, sides=("user", "item"), **size):
    return [
        cut_rows(np.diff(ratings[number].start), ratings[1 - number].n_rows,
                 PseudoLikelihood(**size).optimiser, 4 + number)
        if side in sides else None
        for number, side in enumerate(("user", "item"))
    ]  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("sides", [("user",), ("item",), ("user", "item")], ids=str)
def test_blocks_hold_every_rating_once_by_column(size, sides):
    ratings = orientations()
    cuts = cuts_of(ratings, sides, **size)
    group = np.array([0, 0, 1], np.uint8)
    laid_out = lay_out(ratings, cuts, group, Scratch())
    for number, (blocks, cut) in enumerate(zip(laid_out, cuts, strict=True)):
        rows, across = ratings[number], cuts[1 - number] or uncut(ratings[1 - number].n_rows)
        if cut is None:
            assert blocks == []
            continue
        order = across.order(ratings[1 - number].n_rows)
        np.testing.assert_array_equal(np.sort(order), np.arange(len(order)))
        in_blocks = np.sort(np.concatenate([block.row for block in blocks]))
        np.testing.assert_array_equal(in_blocks, np.flatnonzero(np.diff(rows.start)))
        positions = np.sort(np.concatenate([block.entries.position for block in blocks]))
        np.testing.assert_array_equal(positions, np.arange(len(rows.column)))
        for block in blocks:
            check_block(block, rows, order, group)


def check_block(block, rows, order, group):
    length = np.diff(rows.start)[block.row]
    assert np.all(np.diff(block.row) > 0)
    np.testing.assert_array_equal(np.diff(block.row_slot), length)
    np.testing.assert_array_equal(block.row_slot[:-1] + block.row_shift, rows.start[block.row])
    entries = block.entries
    assert len(entries.position) == length.sum()
    np.testing.assert_array_equal(rows.row[entries.position], block.row[entries.row])
    np.testing.assert_array_equal(rows.level[entries.position], entries.level)
    np.testing.assert_array_equal(group[entries.level], entries.group)
    assert np.all(np.diff(entries.column) > 0)
    width = np.diff(entries.column_entry)
    assert np.all(width > 0)
    column = np.repeat(order[entries.column], width)
    np.testing.assert_array_equal(rows.column[entries.position], column)
    chunk = block.chunk_column
    assert 1 <= len(chunk) - 1 <= MOST_CHUNKS
    assert (chunk[0], chunk[-1]) == (0, len(entries.column))
    assert np.all(np.diff(chunk) > 0)
    if length.sum() > 2 * CHUNK_ENTRIES:
        assert len(chunk) > 2


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_both_sides_reach_a_rating_at_one_place_and_a_tile_at_one_run(size):
    ratings = orientations()
    users, items = cuts_of(ratings, **size)
    by_user, by_item = lay_out(ratings, (users, items), np.arange(3), Scratch())
    block_of_user, _ = users.whereabouts(ratings.by_user.n_rows)
    seen = []
    for block in by_user:
        entries = block.entries
        assert entries.score.size == 0
        place = entries.first + np.arange(len(entries.row))
        seen.append(np.stack([ratings.by_user.in_transpose[entries.position], place]))
    at = np.empty(len(ratings.by_user.column), int)
    position, place = np.concatenate(seen, axis=1)
    at[position] = place
    for block in by_item:
        entries = block.entries
        np.testing.assert_array_equal(entries.score, at[entries.position])
        user_block = block_of_user[ratings.by_item.column[entries.position]]
        assert np.all(np.diff(user_block) >= 0)
        for tile in range(users.n_blocks):
            here = np.sort(entries.score[user_block == tile])
            assert np.all(np.diff(here) == 1)


def test_columns_can_go_by_number_and_entries_without_position():
    ratings = orientations()
    cuts = cuts_of(ratings, block_rows=7)
    by_place = lay_out(ratings, cuts, np.arange(3), Scratch())
    by_number = lay_out(ratings, cuts, np.arange(3), Scratch(), (False, False), in_place=False)
    for number, (one, two) in enumerate(zip(by_place, by_number, strict=True)):
        order = cuts[1 - number].order(ratings[1 - number].n_rows)
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(order[a.entries.column], b.entries.column)
            np.testing.assert_array_equal(a.entries.row, b.entries.row)
            np.testing.assert_array_equal(a.entries.score, b.entries.score)
            assert b.entries.position.size == 0


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_cut_holds_the_rows_that_have_ratings(size):
    count = np.random.default_rng(0).integers(0, 9, 200)
    optimiser = PseudoLikelihood(**size).optimiser
    cut = cut_rows(count, 40, optimiser, 3)
    np.testing.assert_array_equal(np.sort(cut.row), np.flatnonzero(count))
    of_block = np.add.reduceat(count[cut.row], cut.first[:-1])
    rows = np.diff(cut.first)
    if optimiser.block_rows:
        assert set(rows[:-1]) <= {optimiser.block_rows}
    else:
        wanted = optimiser.ratings_per_block(count.sum(), 40)
        assert np.all(of_block[:-1] >= wanted)
        assert np.all(of_block < wanted + 9)


def test_a_part_of_the_users_keeps_the_blocks_of_all():
    """Of users that a worker does not have no block knows; blocks may be empty."""
    ratings = orientations()
    users, items = cuts_of(ratings, block_rows=20)
    few = users.row[: users.first[1]]
    mine = np.diff(users.first) * 0
    mine[0] = len(few)
    part = Cut(few, np.concatenate([[0], np.cumsum(mine)]))
    kept = np.isin(ratings.by_user.row, few)
    table = np.full((ratings.by_user.n_rows, ratings.by_item.n_rows), np.nan)
    table[ratings.by_user.row[kept], ratings.by_user.column[kept]] = ratings.by_user.level[kept]
    rng = np.random.default_rng(2)
    own = referee.orientations(table, referee.random_machine(rng, "ordinal", "user"))
    by_user, by_item = lay_out(own, (part, items), np.arange(3), Scratch())
    assert [len(block.entries.row) for block in by_user[1:]] == [0] * (users.n_blocks - 1)
    assert [len(block.row) for block in by_item] == np.diff(items.first).tolist()
    assert sum(len(block.entries.row) for block in by_item) == kept.sum()


def test_rows_are_put_in_order_in_place():
    rng = np.random.default_rng(0)
    for order in (np.arange(40), np.arange(40)[::-1].copy(), rng.permutation(40)):
        table = rng.normal(size=(40, 3))
        expected = table[order]
        reorder(table, order, np.empty(3), np.zeros(40, bool))
        np.testing.assert_array_equal(table, expected)
