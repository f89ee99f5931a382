"""Settings by scikit-learn's conventions: get_params, set_params, clone, grids of settings."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from ordbm import ContrastiveDivergence, OrdinalBM, PseudoLikelihood, Ratings
from ordbm.errors import NotFittedError, OrdbmError, SettingsError
from ordbm.model.configurable import Configured

TOLD = {
    "features": "categorical",
    "sides": "user",
    "hidden": (3, 4),
    "item_links": 2,
    "learner": PseudoLikelihood(rate=0.25),
    "epochs": 1,
    "seed": 5,
    "link_support": 2,
}


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    return Ratings(rng.integers(9, size=60), rng.integers(8, size=60), rng.integers(1, 6, size=60))


def copies(model):
    return {"scikit-learn's": clone(model), "ours": model.clone()}


def test_get_params_names_every_argument_and_says_what_was_told():
    params = OrdinalBM(**TOLD).get_params()
    assert list(params) == [
        name for name in params if name in inspect.signature(OrdinalBM).parameters
    ]
    assert params.keys() == inspect.signature(OrdinalBM).parameters.keys()
    assert {name: params[name] for name in TOLD} == TOLD
    assert params["user_links"] is None
    assert params == OrdinalBM(**TOLD).get_params(deep=False)


def test_what_get_params_gives_can_be_changed_without_harm():
    model = OrdinalBM(**TOLD)
    model.get_params()["epochs"] = 99
    assert model.get_params()["epochs"] == 1


@pytest.mark.parametrize("learner", [None, "cd", ContrastiveDivergence(steps=2)])
def test_clones_have_the_same_settings(learner):
    model = OrdinalBM(**TOLD | {"learner": learner})
    for copied in copies(model).values():
        assert copied is not model
        assert copied.get_params() == model.get_params()
        assert copied.settings == model.settings
        assert copied.learner == model.learner


def test_clones_have_learnt_nothing_and_learn_the_same(ratings):
    model = OrdinalBM(**TOLD).fit(ratings)
    for copied in copies(model).values():
        with pytest.raises(NotFittedError):
            copied.predict(1, 1)
        assert copied.history == []
        again = copied.fit(ratings)
        assert again.predict(1, [1, 2]).tobytes() == model.predict(1, [1, 2]).tobytes()


def test_set_params_is_the_same_as_telling_the_constructor():
    changed = OrdinalBM(**TOLD).set_params(sides="joint", epochs=7, learner="cd")
    fresh = OrdinalBM(**TOLD | {"sides": "joint", "epochs": 7, "learner": "cd"})
    assert changed.get_params() == fresh.get_params()
    assert changed.settings == fresh.settings
    assert changed.learner == fresh.learner


def test_none_brings_a_default_back():
    assert OrdinalBM(**TOLD).set_params(sides=None).settings.sides == OrdinalBM().settings.sides


def test_set_params_forgets_what_was_learnt_unless_it_changes_nothing(ratings):
    model = OrdinalBM(**TOLD).fit(ratings)
    assert model.set_params() is model
    assert len(model.predict(1, [1, 2])) == 2
    assert model.set_params(epochs=2) is model
    with pytest.raises(NotFittedError):
        model.predict(1, 1)
    assert model.history == []


@pytest.mark.parametrize("wrong", [{"epochs": -1}, {"sides": "both"}, {"learner": "sgd"}])
def test_a_refused_setting_changes_nothing(ratings, wrong):
    model = OrdinalBM(**TOLD).fit(ratings)
    before = model.get_params(), model.settings, model.predict(1, [1, 2]).tobytes()
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        model.set_params(**wrong)
    assert (model.get_params(), model.settings, model.predict(1, [1, 2]).tobytes()) == before


def test_an_unknown_setting_is_a_value_error_that_lists_the_known():
    with pytest.raises(ValueError, match=r"unknown setting 'hiden' of OrdinalBM.*hidden") as caught:
        OrdinalBM().set_params(hiden=3)
    assert isinstance(caught.value, OrdbmError)


def test_a_grid_of_settings_can_be_searched(ratings):
    grid = ParameterGrid({"sides": ["user", "item"], "hidden": [2, 3], "epochs": [1]})
    base = OrdinalBM(item_links=0)
    fitted = [clone(base).set_params(**point).fit(ratings) for point in grid]
    assert len(fitted) == 4
    for model, point in zip(fitted, grid, strict=True):
        assert {name: model.get_params()[name] for name in point} == point
        assert model.settings.hidden == point["hidden"]
        assert np.isfinite(model.history[-1].objective)
    assert base.get_params()["sides"] is None


def test_a_class_without_settings_says_so():
    class Bare(Configured):
        def __init__(self):
            self._params = {}

    assert Bare().get_params() == {}
    assert isinstance(clone(Bare()), Bare)
    with pytest.raises(SettingsError, match="unknown setting 'a' of Bare: use one of none"):
        Bare().set_params(a=1)
