"""Forged model files with right checksums: what they ask for is in proportion to their size."""

from contextlib import suppress

import numpy as np
import pytest

import ordbm
from ordbm import OrdinalBM, Ratings
from ordbm.errors import DivergedError, ModelFileError
from ordbm.explain import attribution
from ordbm.inference import joint
from ordbm.persistence import container, model_file
from ordbm.persistence.container import read_container, write_container
from plain_files import save_plain

TINY = {"members": 1, "epochs": 1, "threads": 1, "link_support": 2, "link_shrinkage": 0.0}


def simulated(scale=None, n=400):
    rng = np.random.default_rng(0)
    users, items, values = rng.integers(20, size=n), rng.integers(15, size=n), rng.normal(3, 1, n)
    if scale is None:
        values = np.clip(np.round(values), 1, 5)
    return Ratings(users, items, values, scale)


def forged(model, path, change):
    """A file of the model after `change(header, arrays)`, with a right checksum."""
    save_plain(model, path)
    header, arrays = read_container(path, "model")
    change(header, arrays)
    write_container(path, "model", header, arrays)
    return path


# -- sizes ----------------------------------------------------------------------------------------


def many_rows_and_units(n_units, n_users):
    """A change to a user-sided model of 3 items: so many hidden units, users without ratings."""

    def change(header, arrays):
        header["hidden"] = [n_units, 0]
        levels = arrays["user_side.coupling"].shape[1]
        n_items = len(arrays["item_ids.number"])
        for name in ("hidden_bias", "newcomer_input"):
            arrays[f"user_side.{name}"] = np.zeros(n_units, np.float32)
        arrays["user_side.coupling"] = np.zeros((n_items, levels, n_units), np.float32)
        arrays["user_ids.number"] = np.arange(n_users)
        start = arrays["ratings.start"]
        rest = np.full(n_users + 1 - len(start), start[-1])
        arrays["ratings.start"] = np.concatenate([start, rest])

    return change


def test_a_pair_asks_for_no_more_memory_than_the_file_makes_likely(tmp_path):
    ratings = Ratings([0, 0, 1, 1], [0, 1, 1, 2], [1, 2, 2, 1])
    model = OrdinalBM(sides="user", hidden=8, presence=False, item_links=0, **TINY).fit(ratings)
    path = forged(model, tmp_path / "a", many_rows_and_units(16_000, 120_000))
    assert path.stat().st_size < 5e6
    with pytest.raises(
        ModelFileError, match=r"answers would need 16,384,000,024: .* memory=1.8e\+10"
    ):
        ordbm.load(path)
    assert ordbm.load(path, memory=1e12).settings.sides == "user"  # if somebody wants it so
    path = forged(model, tmp_path / "b", many_rows_and_units(160, 12_000))
    assert ordbm.load(path).predict([0], [1]).shape == (1,)


def test_what_was_fitted_is_saved_whatever_its_answers_need(tmp_path, monkeypatch):
    model = OrdinalBM(hidden=8, **TINY).fit(simulated())
    monkeypatch.setattr(model_file, "TIMES_THE_FILE", 0)
    model.save(tmp_path / "a")
    with pytest.raises(ModelFileError, match="if you trust it"):
        ordbm.load(tmp_path / "a", memory=0)
    needed = model_file.bytes_for_answers(model._fitted)
    assert ordbm.load(tmp_path / "a", memory=needed).predict([0], [0]).shape == (1,)


def test_arrays_are_weighed_against_the_file_before_there_is_room_for_them(tmp_path, monkeypatch):
    save_plain(OrdinalBM(hidden=2, **TINY).fit(simulated()), tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    head = int.from_bytes(whole[:8], "little")
    text = whole[8 : 8 + head].replace(b'"shape":[15,5,8]', b'"shape":[2147483647,5,8]')
    assert len(text) > head
    (tmp_path / "a").write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + head :])
    room = []
    real = np.empty
    monkeypatch.setattr(container.np, "empty", lambda n, *rest: room.append(n) or real(n, *rest))
    with pytest.raises(ModelFileError, match="altered"):
        ordbm.load(tmp_path / "a")
    assert room == [len(text)]


def test_a_header_beyond_its_limit_is_refused_and_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "LONGEST_HEADER", 50)
    with pytest.raises(ModelFileError, match="too large to store"):
        write_container(tmp_path / "a", "model", {}, {})
    (tmp_path / "a").write_bytes((60).to_bytes(8, "little") + b"{" + b" " * 100)
    with pytest.raises(ModelFileError, match=r"has a header of 60 bytes, and ordbm reads .* 50"):
        ordbm.load(tmp_path / "a")


# -- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["link_weight", "rating_bias", "coupling"])
def test_gaussian_parameters_out_of_all_reach_are_refused(tmp_path, name):
    model = OrdinalBM("gaussian", hidden=4, item_links=4, **TINY).fit(simulated("continuous"))

    def change(_, arrays):
        arrays[f"user_side.{name}"][0, ..., 0] = 2e4

    path = forged(model, tmp_path / "a", change)
    with pytest.raises(ModelFileError, match=r"out of range: it has diverged"):
        ordbm.load(path)


@pytest.fixture
def looked_at(monkeypatch):
    """The inputs of hidden units that explanations look at, counted, piece by piece."""
    sizes = []
    real = attribution.Way.hidden_scores

    def counted(way, units):
        sizes.append(len(units.t) * way.grown.size)
        return real(way, units)

    monkeypatch.setattr(attribution.Way, "hidden_scores", counted)
    return sizes


@pytest.mark.parametrize("strength", [3.0, 30.0, 100.0, 300.0])
def test_forged_links_take_no_longer_than_others(tmp_path, looked_at, strength):
    model = OrdinalBM("gaussian", hidden=25, item_links=6, **TINY).fit(simulated("continuous"))

    def change(_, arrays):
        weight = arrays["user_side.link_weight"]
        weight[:] = np.random.default_rng(0).normal(0, strength, weight.shape)

    loaded = ordbm.load(forged(model, tmp_path / "a", change))
    with suppress(DivergedError):  # which says so
        loaded.explain(0, 0)
    assert sum(looked_at) < 4 * attribution._MOST_INPUTS


def test_parts_still_add_up_where_points_are_further_apart(tmp_path):
    model = OrdinalBM("gaussian", hidden=2, item_links=6, **TINY).fit(simulated("continuous"))

    def change(_, arrays):
        arrays["user_side.link_weight"][:] *= 1.5 / np.abs(arrays["user_side.link_weight"]).max()
        arrays["user_side.rating_bias"][:] = 150.0

    found = ordbm.load(forged(model, tmp_path / "a", change)).explain(0, 0)
    total = found.base + sum(part.effect for part in found.parts)
    assert total == pytest.approx(found.final, abs=1e-6)


def test_configurations_are_enumerated_in_blocks_to_the_same_bits(monkeypatch):
    model = OrdinalBM(hidden=9, item_links=6, **TINY).fit(simulated())
    whole = model.predict_joint([0, 0, 0], [0, 1, 2])
    monkeypatch.setattr(joint, "_INPUTS_AT_ONCE", 50)
    parts = model.predict_joint([0, 0, 0], [0, 1, 2])
    assert parts.weight.tobytes() == whole.weight.tobytes()
