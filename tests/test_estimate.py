"""What a fit is said to cost, beside what it takes."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import ordbm
from ordbm.training import estimate
from ordbm.training.estimate import LIBRARIES, duration
from ordbm.training.needs import SideSize


def some_ratings(n=20_000, users=400, items=300, levels=5):
    rng = np.random.default_rng(0)
    pairs = rng.choice(users * items, n, replace=False)
    return ordbm.Ratings(pairs // items, pairs % items, rng.integers(1, levels + 1, n))


RATINGS = some_ratings()
MACHINE = {"hidden": (40, 80), "members": 2, "epochs": 2, "presence": False, "item_links": 0}


def peak_of(model, ratings):
    """Bytes that a fit allocates at most, once all is compiled."""
    model.fit(ratings)
    tracemalloc.start()
    try:
        model.clone().fit(ratings)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"members": 4},
        {"hidden": (200, 16)},
        {"sides": "user"},
        {"dtype": "float64"},
        {"item_links": 20, "hidden": 8},
        {"presence": True, "hidden": 8, "members": 1},
    ],
    ids=str,
)
def test_memory_is_what_a_fit_allocates(told):
    model = ordbm.OrdinalBM(**MACHINE | told)
    peak = peak_of(model, RATINGS)
    assert 0.6 < peak / (model.estimate(RATINGS).memory - LIBRARIES) < 1.6


def test_levels_that_share_couplings_cost_what_their_groups_do():
    long_scale = some_ratings(levels=60)
    model = ordbm.OrdinalBM(**MACHINE)
    assert model._resolved(long_scale)[1].n_groups < 60
    assert 0.6 < peak_of(model, long_scale) / (model.estimate(long_scale).memory - LIBRARIES) < 1.6
    ten = model.estimate(some_ratings(levels=10)).seconds
    assert model.estimate(long_scale).seconds < 4 * ten


def estimated(monkeypatch, ratings=RATINGS, **told):
    monkeypatch.setattr(estimate, "pace", lambda: 1e-9)
    return ordbm.OrdinalBM(threads=1, **MACHINE | told).estimate(ratings)


def test_time_grows_as_the_work_does(monkeypatch):
    one = estimated(monkeypatch)
    for told in ({"epochs": 4}, {"members": 4}):
        assert estimated(monkeypatch, **told).seconds == pytest.approx(2 * one.seconds)
    assert estimated(monkeypatch, item_links=50).seconds > one.seconds
    assert estimated(monkeypatch, presence=True).seconds > one.seconds
    assert estimated(monkeypatch, ratings=some_ratings(levels=9)).seconds > 1.5 * one.seconds
    ten, hundred = (estimated(monkeypatch, ratings=some_ratings(levels=n)) for n in (10, 100))
    assert ten.seconds < hundred.seconds < 6 * ten.seconds  # levels of a long scale share couplings
    monkeypatch.setattr(estimate, "pace", lambda: 3e-9)
    slower = ordbm.OrdinalBM(threads=1, **MACHINE).estimate(RATINGS)
    assert slower.seconds == pytest.approx(3 * one.seconds)
    two = ordbm.OrdinalBM(threads=2, **MACHINE).estimate(RATINGS)
    assert two.seconds == pytest.approx(slower.seconds / 2)


def test_it_is_of_the_settings_that_fit_would_take():
    found = ordbm.OrdinalBM().estimate(RATINGS)
    assert (found.members, found.hidden) == (8, (25, 100))
    assert ordbm.OrdinalBM(preset="best").estimate(RATINGS).members == 16
    continuous = ordbm.Ratings([0, 0, 1], [0, 1, 1], [0.5, 1.25, 2.5], scale="continuous")
    assert ordbm.OrdinalBM().estimate(continuous).seconds > 0
    paper = ordbm.OrdinalBM(preset="paper").estimate(RATINGS)
    assert paper.members == 1
    assert paper.memory > LIBRARIES


def test_the_pace_is_measured_in_a_moment():
    assert 0 < estimate.pace() < 1e-6


def test_in_words(monkeypatch):
    text = str(estimated(monkeypatch))
    assert text.startswith("about 1 s and 0.2")
    assert text.endswith(" GB of memory")
    assert [duration(s) for s in (0.01, 99, 180, 3600, 9000)] == [
        "1 s", "99 s", "3 min", "60 min", "2.5 h",
    ]  # fmt: skip


def test_a_block_of_rows_has_their_ratings():
    side = SideSize(600, 30, 20, 5, 5, 8, 0, 4, False)
    learner = ordbm.PseudoLikelihood()
    told = replace(learner, optimiser=replace(learner.optimiser, block_rows=10))
    assert side.block_ratings(told) == 200
