"""Parameters in quanta: what is left of them, how they are packed, and what a file may claim."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ordbm
from ordbm.errors import ModelFileError
from ordbm.model.features import features
from ordbm.model.rounding import (
    MOST_AXES,
    PRESENCE_QUANTUM,
    QUANTUM,
    in_quanta,
    level_axes,
    restore_table,
    round_machine,
    rounded_table,
)
from ordbm.persistence.container import read_container, write_container
from ordbm.persistence.packed import packed_planes, unpacked_planes
from plain_files import save_plain

TINY = {"hidden": (3, 4), "members": 2, "epochs": 2, "item_links": 3, "threads": 1}


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    users, items = rng.integers(30, size=600), rng.integers(20, size=600)
    return ordbm.Ratings(users, items, rng.integers(1, 6, size=600), scale=[1, 2, 3, 4, 5])


@pytest.fixture(scope="module")
def model(ratings):
    return ordbm.OrdinalBM(**TINY).fit(ratings)


@given(st.lists(st.integers(-(2**30) + 1, 2**30 - 1), max_size=50))
def test_whole_numbers_are_packed_without_loss(numbers):
    whole = np.array(numbers, np.int32)
    lengths, data = packed_planes(whole)
    np.testing.assert_array_equal(unpacked_planes(lengths, data, whole.shape), whole)


def test_planes_are_as_many_as_the_numbers_need():
    for largest, planes in ((0, 1), (127, 1), (-128, 1), (128, 2), (-129, 2), (2**15, 3)):
        assert len(packed_planes(np.array([0, largest], np.int32))[0]) == planes


@pytest.mark.parametrize("lengths", [[], [1], "ab", [-1, 10], [True, 9], [3] * 9, None])
def test_planes_that_do_not_add_up_are_refused(lengths):
    _, data = packed_planes(np.arange(5, dtype=np.int32))
    with pytest.raises(ValueError, match="packed numbers"):
        unpacked_planes(lengths, data, (5,))


def test_bytes_that_are_no_planes_are_refused():
    lengths, data = packed_planes(np.arange(500, dtype=np.int32))
    for damaged in (data[::-1].copy(), np.zeros_like(data)):
        with pytest.raises(ValueError, match="packed numbers"):
            unpacked_planes(lengths, damaged, (500,))
    with pytest.raises(ValueError, match="packed numbers"):
        unpacked_planes(lengths, data, (499,))


@pytest.mark.parametrize("n_levels", [2, 5, MOST_AXES, MOST_AXES + 1])
def test_a_rounded_table_is_near_and_stays_as_it_is(n_levels):
    table = np.random.default_rng(1).normal(0, 0.5, (7, n_levels, 8)).astype(np.float32)
    table[:, :, 6:] = 0
    axes = level_axes(features("ordinal", n_levels))
    once, twice = np.zeros_like(table), np.zeros_like(table)
    whole = rounded_table(table, axes, 6, 1)
    restore_table(whole, axes, 1, once)
    assert np.abs(once - table).max() < QUANTUM * np.sqrt(n_levels)
    assert np.abs(once - table).max() > 0
    again = rounded_table(once, axes, 6, 2)
    np.testing.assert_array_equal(again, whole)
    restore_table(again, axes, 2, twice)
    assert twice.tobytes() == once.tobytes()


def test_what_was_learnt_is_in_quanta_already(model):
    for machine in model.machines:
        before = [side.parameters.coupling.copy() for side in machine.sides]
        round_machine(machine, 1)
        for side, old in zip(machine.sides, before, strict=True):
            assert side.parameters.coupling.tobytes() == old.tobytes()
    weight = model._fitted.presence.weight
    assert in_quanta(weight, PRESENCE_QUANTUM).tobytes() == weight.tobytes()


def test_rounding_moves_no_prediction_by_much(model):
    """Parameters moved by as much as rounding may move them, at random."""
    rng = np.random.default_rng(2)
    users, items = np.repeat(np.arange(30), 20), np.tile(np.arange(20), 30)
    before = model.predict_proba(users, items)
    moved = ordbm.OrdinalBM(**TINY)
    moved._fitted = model._fitted
    for machine in moved.machines:
        for side in machine.sides:
            table = side.parameters.coupling[..., : side.n_hidden]
            table += rng.uniform(-QUANTUM / 2, QUANTUM / 2, table.shape).astype(np.float32)
    moved._fitted.__dict__.pop("tables", None)
    assert 0 < np.abs(moved.predict_proba(users, items) - before).max() < 1e-4


def test_a_packed_file_and_a_plain_one_hold_the_same(ratings, tmp_path):
    model = ordbm.OrdinalBM(**TINY).fit(ratings)
    model.save(tmp_path / "packed")
    save_plain(model, tmp_path / "plain")
    header, arrays = read_container(tmp_path / "packed", "model")
    assert {"user_side.coupling", "member1.item_side.coupling", "presence.link"} <= set(
        header["packed"]
    )
    assert "user_side.coupling" not in arrays
    packed, plain = (ordbm.load(tmp_path / name) for name in ("packed", "plain"))
    for one, other in zip(packed.machines, plain.machines, strict=True):
        for mine, theirs in zip(one.sides, other.sides, strict=True):
            assert mine.parameters.coupling.tobytes() == theirs.parameters.coupling.tobytes()
            assert mine.parameters.link_weight.tobytes() == theirs.parameters.link_weight.tobytes()
    assert packed._fitted.presence.weight.tobytes() == plain._fitted.presence.weight.tobytes()
    packed.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "packed").read_bytes()


def test_what_is_not_in_quanta_is_stored_as_it_is(ratings, tmp_path):
    model = ordbm.OrdinalBM(**TINY).fit(ratings)
    model.machines[0].user_side.parameters.coupling[0, 0, 0] += 0.3 * QUANTUM
    model.save(tmp_path / "a")
    header, arrays = read_container(tmp_path / "a", "model")
    assert "user_side.coupling" in arrays
    assert "user_side.coupling" not in header["packed"]
    coupling = ordbm.load(tmp_path / "a").machines[0].user_side.parameters.coupling
    assert coupling.tobytes() == model.machines[0].user_side.parameters.coupling.tobytes()


def test_double_precision_is_kept(ratings, tmp_path):
    model = ordbm.OrdinalBM(**TINY, dtype="float64", presence=False).fit(ratings)
    coupling = model.machines[0].user_side.parameters.coupling
    assert np.abs(coupling / QUANTUM - np.rint(coupling / QUANTUM)).max() > 0.1
    model.save(tmp_path / "a")
    assert read_container(tmp_path / "a", "model")[1]["user_side.coupling"].dtype == np.float64


def test_a_file_may_not_claim_more_than_its_size_makes_likely(ratings, tmp_path):
    """Zeros pack so well that a few bytes could ask for any memory."""
    model = ordbm.OrdinalBM(**TINY | {"members": 1}, presence=False).fit(ratings)
    model.save(tmp_path / "a")
    header, arrays = read_container(tmp_path / "a", "model")
    header["hidden"] = [90_000, 90_000]
    for side, columns in (("user", 20), ("item", 30)):
        arrays[f"{side}_side.hidden_bias"] = np.zeros(90_000, np.float32)
        whole = np.zeros((5, columns, 90_000), np.int32)
        name = f"{side}_side.coupling"
        header["packed"][name], arrays[f"{name}.packed"] = packed_planes(whole)
    write_container(tmp_path / "a", "model", header, arrays)
    assert (tmp_path / "a").stat().st_size < 1_000_000
    with pytest.raises(ModelFileError, match="if you trust it, load it with"):
        ordbm.load(tmp_path / "a", memory=1e7)
