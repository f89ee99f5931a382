"""`memory=`: what does not fit is in mapped files, to the same bits, or refused with what would."""

import re
from dataclasses import replace

import numpy as np
import pytest

import ordbm
from ordbm.errors import CostError, SettingsError
from ordbm.runtime import scratch
from ordbm.training.ensemble import Ensemble
from ordbm.training.needs import LIBRARIES, held_bytes, training_needs

MB = 2**20
MACHINE = {
    "hidden": (16, 24), "members": 3, "epochs": 2, "presence": False, "item_links": 0, "threads": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    users, items = 3000, 150
    pairs = rng.choice(users * items, 60_000, replace=False)
    return ordbm.Ratings(pairs // items, pairs % items, rng.integers(1, 6, len(pairs)))


def needs_of(model, ratings):
    settings, table = model._resolved(ratings)
    return training_needs(settings, model.learner, table, ratings)


def base_of(ratings):
    return LIBRARIES + held_bytes(ratings)


def parameters(model):
    return [
        array
        for machine in model.machines
        for side in machine.sides
        for array in side.parameters
    ]  # fmt: skip


@pytest.mark.parametrize("links", [0, 10])
def test_in_mapped_files_learning_has_the_same_bits(ratings, links, monkeypatch):
    made, in_turn = [], []
    mapped, start = scratch.mapped, Ensemble.__init__

    def counted(shape, dtype, folder=None):
        made.append(np.prod(shape) * np.dtype(dtype).itemsize)
        return mapped(shape, dtype, folder)

    def noted(self, *told, **named):
        in_turn.append(named["in_turn"])
        start(self, *told, **named)

    monkeypatch.setattr(scratch, "mapped", counted)
    monkeypatch.setattr(Ensemble, "__init__", noted)
    machine = {**MACHINE, "item_links": links}
    whole = ordbm.OrdinalBM(**machine, memory="8GB").fit(ratings)
    assert made == []
    needs = needs_of(whole, ratings)
    little = base_of(ratings) + needs.fixed + 2 * MB
    small = ordbm.OrdinalBM(**machine, memory=little).fit(ratings)
    assert sum(made) > needs.in_turn / 3
    assert in_turn == [False, True]
    assert small.history == whole.history
    for one, two in zip(parameters(whole), parameters(small), strict=True):
        np.testing.assert_array_equal(one, two)


def test_an_estimate_says_what_is_in_files(ratings):
    model = ordbm.OrdinalBM(**MACHINE, memory="8GB")
    needs, base = needs_of(model, ratings), base_of(ratings)
    assert model.estimate(ratings).on_disk == 0
    assert "files" not in str(model.estimate(ratings))
    little = base + needs.fixed + 2 * MB
    found = model.clone().set_params(memory=little).estimate(ratings)
    assert found.memory == pytest.approx(little, rel=1e-3)
    assert found.on_disk == base + sum(needs) - little
    assert str(found).endswith(" in mapped files")


def test_what_cannot_fit_is_refused_before_it_starts_with_settings_that_would(ratings):
    model = ordbm.OrdinalBM(**MACHINE | {"hidden": (40, 200)}, memory="8GB")
    needs = needs_of(model, ratings)
    small = model.clone().set_params(memory=base_of(ratings) + needs.fixed // 4)
    seen = []
    with pytest.raises(CostError, match=r"by memory=.*would fit") as refusal:
        small.fit(ratings, callbacks=seen.append)
    assert seen == []
    hidden, members = re.search(
        r": hidden=(\(.*?\)) and members=(\d+) would", str(refusal.value)
    ).groups()
    hidden = tuple(map(int, hidden.strip("()").split(",")))
    small.clone().set_params(hidden=hidden, members=int(members)).fit(ratings)


def test_nonsense_is_refused():
    with pytest.raises(SettingsError, match="memory="):
        ordbm.OrdinalBM(memory="a lot")


def test_memory_changes_no_bit_of_a_checkpoint(ratings, tmp_path):
    model = ordbm.OrdinalBM(**MACHINE, memory="8GB").fit(ratings, checkpoint=tmp_path)
    needs = needs_of(model, ratings)
    little = base_of(ratings) + needs.fixed + 2 * MB
    longer = {**MACHINE, "epochs": 3}
    resumed = ordbm.OrdinalBM(**longer, memory=little).fit(
        ratings, checkpoint=tmp_path, resume=True
    )
    whole = ordbm.OrdinalBM(**longer).fit(ratings)
    assert len(resumed.history) == 3
    for one, two in zip(parameters(whole), parameters(resumed), strict=True):
        np.testing.assert_array_equal(one, two)


def test_needs_grow_with_what_is_learnt(ratings):
    def needs(**told):
        return needs_of(ordbm.OrdinalBM(**MACHINE | told), ratings)

    one = needs(members=1)
    assert needs(members=2) == (2 * one.fixed, 2 * one.in_turn)
    assert needs(members=1, hidden=(16, 48)).fixed > one.fixed
    assert needs(members=1, dtype="float64").in_turn > one.in_turn
    plain = replace(ordbm.PseudoLikelihood(), priors=replace(
        ordbm.PseudoLikelihood().priors, co_occurrence=0))  # fmt: skip
    assert needs(members=1, learner=plain).fixed < one.fixed
