"""Scales of many levels learn; what diverges, or cannot be held in memory, is said by `fit`."""

import numpy as np
import pytest

import ordbm
from ordbm import OrdinalBM, PseudoLikelihood, Ratings
from ordbm.errors import CostError, DivergedError, RatingsError
from ordbm.model.features import features
from ordbm.model.presence import Presence
from ordbm.runtime import memory

SMALL = {"hidden": 2, "members": 1, "threads": 1, "presence": False}


def simulated(n_levels, seed=0):
    """Ratings of tastes by 150 users and 40 items, in training and held-out ones."""
    rng = np.random.default_rng(seed)
    users, items = (part.ravel() for part in np.indices((150, 40)))
    kept = rng.random(len(users)) < 0.5
    users, items = users[kept], items[kept]
    taste = (rng.normal(size=(150, 2))[users] * rng.normal(size=(40, 2))[items]).sum(axis=1)
    wish = taste + rng.normal(size=40)[items] + 0.5 * rng.normal(size=len(users))
    level = np.clip(np.floor((wish + 4) / 8 * n_levels), 0, n_levels - 1) + 1
    held = rng.random(len(users)) < 0.2
    scale = list(range(1, n_levels + 1))
    return tuple(Ratings(users[part], items[part], level[part], scale) for part in (~held, held))


def losses(model, training, held):
    """Held-out log-loss of the model, and of the levels' frequencies."""
    pairs = [held.users[u] for u in held.user_codes], [held.items[i] for i in held.item_codes]
    share = np.bincount(training.by_user.level, minlength=len(training.scale.values)) + 1.0
    frequency = -np.log(share / share.sum())[held.by_user.level].mean()
    return -model.log_probability(*pairs, held.values).mean(), frequency


@pytest.mark.parametrize(
    ("n_levels", "sides"),
    [*((n, "user") for n in (2, 3, 10, 100, 101, 150, 255)), (5, "joint"), (150, "joint")],
)
def test_scales_of_any_number_of_levels_learn(n_levels, sides):
    training, held = simulated(n_levels)
    model = OrdinalBM(sides=sides, **SMALL).fit(training)
    ours, frequency = losses(model, training, held)
    assert ours < frequency - 0.05


def test_groups_of_levels_outlive_files_and_breaks(tmp_path):
    """Levels of a group have the same couplings, in a file, and after going on with a training."""
    training, held = simulated(30)
    pairs = held.user_codes, held.item_codes
    told = {**SMALL, "item_links": 5}
    whole = OrdinalBM(epochs=4, **told).fit(training)
    OrdinalBM(epochs=2, **told).fit(training, checkpoint=tmp_path / "kept")
    resumed = OrdinalBM(epochs=4, **told).fit(training, checkpoint=tmp_path / "kept", resume=True)
    whole.save(tmp_path / "model.ordbm")
    for model in (whole, resumed, ordbm.load(tmp_path / "model.ordbm")):
        table = model.machines[0].features
        assert table.n_groups == 12
        first = np.searchsorted(table.group, table.group)
        for side in model.machines[0].sides:
            coupling = side.parameters.coupling
            np.testing.assert_array_equal(coupling, coupling[:, first])
            assert np.abs(coupling).max() > 0
        np.testing.assert_array_equal(model.predict_proba(*pairs), whole.predict_proba(*pairs))


@pytest.mark.parametrize("n_levels", [40, 150, 255])
def test_links_on_many_levels_do_not_run_away(n_levels):
    """Links step by distances of levels: with these as they are, links made log-loss worse."""
    training, held = simulated(n_levels)
    with_links, without = (
        losses(OrdinalBM(sides="user", item_links=n, **SMALL).fit(training), training, held)[0]
        for n in (30, 0)
    )
    assert with_links < without + 0.02


@pytest.mark.parametrize("n_levels", [21, 101, 255])
@pytest.mark.parametrize("n_groups", [None, 12])
def test_couplings_start_as_wide_on_many_levels_as_on_five(n_levels, n_groups):
    def widest(n, groups):
        start = PseudoLikelihood().for_scale(n, groups).initialisation.spread
        return start * np.sqrt((features("ordinal", n, groups).coupling ** 2).sum(axis=1).max())

    assert 0.5 < widest(n_levels, n_groups) / widest(5, None) < 2
    plain = PseudoLikelihood()
    assert plain.for_scale(10) is plain is plain.for_scale(255, ordinal=False)


def test_the_largest_number_of_levels_is_said():
    assert len(ordbm.RatingScale(range(255))) == 255
    for n in (256, 1000):
        with pytest.raises(RatingsError, match=rf"1 to 255 levels, got {n}; for more, use"):
            Ratings([1, 2], [1, 2], [1, 2], list(range(n)))


WILD = [
    {"rate": 1e9}, {"rate": 1e14}, {"spread": 1e9}, {"hidden_spread": 1e9}, {"decay": 1e14},
]  # fmt: skip


@pytest.mark.parametrize("told", WILD, ids=str)
@pytest.mark.parametrize("kind", ["ordinal", "gaussian"])
@pytest.mark.parametrize("sides", ["user", "item", "joint"])
def test_what_diverges_is_said_by_fit(told, kind, sides):
    """Whatever parameters a file would be refused with, whichever way they came about."""
    rng = np.random.default_rng(0)
    ratings = Ratings(rng.integers(9, size=60), rng.integers(7, size=60), rng.integers(1, 6, 60))
    wild = PseudoLikelihood(**told)
    said = r"diverged in epoch .: lower the learner's rate"
    if told.keys() & {"spread", "hidden_spread"}:
        said = r"too large before anything is learnt: lower the learner's spread"
    with pytest.raises(DivergedError, match=said):
        OrdinalBM(kind, sides, learner=wild, epochs=4, **SMALL | {"members": 2}).fit(ratings)


def test_a_diverging_epoch_leaves_the_best_one():
    training, held = simulated(5)
    wild = PseudoLikelihood(decay=1e12)
    model = OrdinalBM(learner=wild, epochs=5, **SMALL).fit(training, validation=held)
    assert not model.machines[0].has_diverged
    assert len(model.history) < 5


def test_presence_that_diverged_is_known():
    rows = np.zeros(3, np.float32), np.zeros(2, np.float32), np.zeros(1, np.int32)
    sound = Presence(*rows, np.zeros((1, 1), np.float32), 1.0, 0.0, 1.0)
    assert not sound.has_diverged
    sound.user_bias[0] = np.nan
    assert sound.has_diverged


# -- what cannot be held --------------------------------------------------------------------------


@pytest.mark.parametrize("told", [{"hidden": 10**5}, {"hidden": (2, 10**5)}, {"members": 1000}])
def test_machines_that_no_memory_holds_are_refused_before_work_starts(told, monkeypatch):
    monkeypatch.setattr(memory, "memory_there_is", lambda: 10**6)
    training, _ = simulated(5)
    seen = []
    with pytest.raises(
        CostError, match=r"of memory, and there are .* fewer hidden units or members"
    ):
        OrdinalBM(**SMALL | told).fit(training, callbacks=seen.append)
    assert not seen


def many_items():
    """Two users who rated 200 items each: 200 · 199 links that may be."""
    users, items = (part.ravel() for part in np.indices((2, 200)))
    return Ratings(users, items, 1 + (users + items) % 5)


def test_links_that_no_memory_holds_are_refused(monkeypatch):
    training = many_items()
    OrdinalBM(item_links=10**9, epochs=1, **SMALL).fit(training)  # there are only so many items
    monkeypatch.setattr(memory, "memory_there_is", lambda: 60_000)
    with pytest.raises(CostError, match=r"would take at least .*: .*fewer .*links"):
        OrdinalBM(item_links=10**9, epochs=1, **SMALL | {"hidden": 0}).fit(training)
