"""Settings by scikit-learn's conventions: get_params, set_params, clone, grids of settings."""

import inspect
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from ordbm import ContrastiveDivergence, OrdinalBM, PseudoLikelihood, Ratings, load
from ordbm.errors import NotFittedError, OrdbmError, SettingsError
from ordbm.model.configurable import Configured
from ordbm.model.declaration import declaration
from ordbm.model.rules import EmbeddingRules, SizeRules
from ordbm.model.settings import WITHOUT_EFFECT, Settings
from ordbm.persistence.checkpoint import Checkpoint

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


# -- one declaration per setting ------------------------------------------------------------------


def groups(settings):
    """The settings and all groups of settings within."""
    yield settings
    for one in fields(settings):
        if is_dataclass(getattr(settings, one.name)):
            yield from groups(getattr(settings, one.name))


EVERYTHING = [*groups(Settings()), *groups(PseudoLikelihood().optimiser)]
EVERYTHING += [*groups(PseudoLikelihood().priors), *groups(PseudoLikelihood().initialisation)]
DECLARED = [(type(group), one) for group in EVERYTHING for one in fields(group)]


def test_the_constructor_has_every_setting_in_its_signature_and_documentation():
    parameters = inspect.signature(OrdinalBM).parameters
    assert set(parameters) == {one.name for one in fields(Settings)}
    positional = ["features", "sides", "hidden", "item_links", "user_links", "learner", "epochs"]
    positional.append("seed")
    assert list(parameters)[:8] == positional
    for name, parameter in parameters.items():
        is_positional = parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        assert is_positional == (name in positional)
        assert parameter.default == ("default" if name == "preset" else None)
        assert f"\n{name}: " in OrdinalBM.__doc__
    model = OrdinalBM("categorical", "user", (3, 4), 2, 1, "cd", 1, 5)
    assert list(model.get_params().values())[:8] == [
        "categorical", "user", (3, 4), 2, 1, "cd", 1, 5,
    ]  # fmt: skip
    with pytest.raises(TypeError, match=r"OrdinalBM: .*'hiden'; it takes features, sides, hidden"):
        OrdinalBM(hiden=3)


@pytest.mark.parametrize("learner", [PseudoLikelihood, ContrastiveDivergence])
def test_a_learner_has_the_settings_of_its_parts_as_its_own(learner):
    parameters = inspect.signature(learner).parameters
    plain = learner()
    for part in ("optimiser", "priors", "initialisation"):
        for one in fields(getattr(plain, part)):
            value = getattr(getattr(plain, part), one.name)
            assert parameters[one.name].default == getattr(plain, one.name) == value
            assert f"\n{one.name}: " in learner.__doc__
    changed = learner(rate=0.25, coupling_precision=3, spread=0.5)
    assert (changed.optimiser.rate, changed.priors.coupling_precision) == (0.25, 3)
    assert changed.initialisation.spread == 0.5
    assert changed == replace(plain, rate=0.25, coupling_precision=3, spread=0.5)
    assert changed == learner(
        optimiser=changed.optimiser, priors=changed.priors, initialisation=changed.initialisation
    )
    assert repr(changed) == f"{learner.__name__}(rate=0.25, coupling_precision=3, spread=0.5)"
    assert (repr(plain), eval(repr(changed))) == (f"{learner.__name__}()", changed)
    assert hash(changed) != hash(plain)
    with pytest.raises(TypeError, match=r"has no setting 'rates': it has rate, "):
        learner(rates=1)
    with pytest.raises(AttributeError, match="rates"):
        plain.rates  # noqa: B018
    with pytest.raises(SettingsError, match="priors=3: must be a Priors"):
        learner(priors=3)


@pytest.mark.parametrize(("group", "one"), DECLARED, ids=lambda value: getattr(value, "name", ""))
def test_every_setting_says_what_it_is_and_refuses_what_it_cannot_be(group, one):
    about = declaration(one)
    assert about.help.endswith(".")
    about.check(one.name, one.default)
    wrong = object()
    with pytest.raises(SettingsError, match=f"^{one.name}="):
        group(**{one.name: wrong})


def changed(value):
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value / 2 or 1.0
    return value + 1 if isinstance(value, int) else None


def with_change(settings, path, value):
    """The settings with one of them, by its names from group to group, changed."""
    first, *rest = path
    inner = with_change(getattr(settings, first), rest, value) if rest else value
    return replace(settings, **{first: inner})


def paths(settings, before=()):
    for one in fields(settings):
        value = getattr(settings, one.name)
        if is_dataclass(value):
            yield from paths(value, (*before, one.name))
        elif changed(value) is not None and (*before, one.name) not in FREE:
            yield (*before, one.name), changed(value)


FREE = {(name,) for name in WITHOUT_EFFECT}


def test_every_number_that_decides_what_a_machine_becomes_is_part_of_a_runs_identity(
    ratings, tmp_path
):
    """A changed rule must not pass as the same run."""
    before = Checkpoint(tmp_path, Settings(), PseudoLikelihood(), ratings)._origin(3)
    count = 0
    for path, value in paths(Settings()):
        other = with_change(Settings(), path, value)
        found = Checkpoint(tmp_path, other, PseudoLikelihood(), ratings)._origin(3)
        assert ".".join(path) in {name for name in found if found[name] != before.get(name)}
        count += 1
    for path, value in paths(PseudoLikelihood()):
        other = with_change(PseudoLikelihood(), path, value)
        found = Checkpoint(tmp_path, Settings(), other, ratings)._origin(3)
        assert [name for name in found if found[name] != before.get(name)], path
        count += 1
    assert count > 60


def test_models_with_other_rules_are_stored_with_them(ratings, tmp_path):
    told = {**TOLD, "size_rules": SizeRules(user_hidden=3), "hidden": None}
    told["learner"] = PseudoLikelihood(embedding=EmbeddingRules(rounds=2), tightening=3.0)
    model = OrdinalBM(**told).fit(ratings)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert loaded.learner.priors.embedding.rounds == 2
