"""What is expected of those who were not learnt from, and how the shared potential follows."""

import numpy as np
import pytest
from scipy.special import expit, log_softmax

import ordbm
from ordbm import OrdinalBM
from ordbm.inference.people import FoldIns, Users
from ordbm.training.newcomer_learning import between
from ordbm.updates.shared_levels import moved_levels

SMALL = {"hidden": 4, "epochs": 6, "members": 2, "presence": False, "context": False, "seed": 1}


def simulated(n_users=80, n_items=40, seed=0, levels=(1, 2, 3, 4, 5)):
    """Ratings of users who give more than a few."""
    rng = np.random.default_rng(seed)
    taste, kind = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.5)
    score = (taste[user] * kind[item]).sum(axis=1) + 0.7 * kind[item, 0]
    score += 0.8 * rng.normal(size=len(user))
    cuts = np.quantile(score, np.linspace(0, 1, len(levels) + 1)[1:-1])
    return user, item, np.array(levels)[np.searchsorted(cuts, score)]


def without_expectations(model):
    """The same model as learning leaves it: nothing else is expected of newcomers."""
    plain = model.clone().fit(model.known_ratings())
    for machine in plain.machines:
        for side in machine.sides:
            if side is not None:
                side.unknown_bias[:] -= side.newcomer_bias
                side.newcomer_bias[:] = side.newcomer_input[:] = 0
    return plain


@pytest.fixture(scope="module")
def ratings():
    return ordbm.Ratings(*simulated(), scale=[1, 2, 3, 4, 5])


@pytest.fixture(scope="module")
def model(ratings):
    return OrdinalBM(**SMALL).fit(ratings)


@pytest.mark.parametrize("kind", ["user", "item"])
def test_ratings_are_likelier_as_those_of_newcomers(model, ratings, kind):
    users, items = (np.array(ids.ids) for ids in (ratings.users, ratings.items))
    asked = {
        "user": users[ratings.user_codes].tolist(),
        "item": items[ratings.item_codes].tolist(),
    }
    asked[kind] = ["nobody"] * len(ratings)
    plain = without_expectations(model)
    with pytest.warns(ordbm.errors.UnknownIdsWarning):
        found, before = (
            np.log(one.predict_proba(asked["user"], asked["item"]))[
                np.arange(len(ratings)), ratings.levels
            ].mean()
            for one in (model, plain)
        )
    assert found > before


def test_who_was_learnt_from_is_not_touched(model, ratings):
    plain = without_expectations(model)
    users, items = list(ratings.users.ids[:30]), list(ratings.items.ids[:30])
    for one, other in zip(model.machines, plain.machines, strict=True):
        for side, plain_side in zip(one.sides, other.sides, strict=True):
            assert np.abs(side.newcomer_bias).max() > 0
            for array, plain_array in zip(side.parameters, plain_side.parameters, strict=True):
                assert np.array_equal(array, plain_array)
    assert np.array_equal(model.predict_proba(users, items), plain.predict_proba(users, items))


@pytest.mark.parametrize("sides", ["user", "item", "joint"])
def test_all_ways_to_answer_agree_on_newcomers(ratings, sides):
    model = OrdinalBM(**SMALL | {"sides": sides}).fit(ratings)
    state = model._state
    users, items = np.array([-1, -1, 3, 3]), np.array([0, -1, -1, 5])
    pairs = users[[0, 2, 3]], items[[0, 2, 3]]
    quick = state._quick_distribution(state.tables, Users(state), *pairs).proba
    slow = state._slow_distribution(state.conditioned, *pairs, "exact").proba
    np.testing.assert_allclose(quick, slow, atol=1e-5)
    given = {int(item): 4 for item in ratings.items.ids[:3]}
    item = int(ratings.items.ids[7])
    found = model.predict_proba(None, [item], ratings=given)
    people = FoldIns(state, np.array([-1], np.int32), [given])
    code = state.codes([item], state.items, state.modelled_items)
    one_by_one = state._one_by_one(people, np.zeros(1, np.int32), code, "exact").proba
    np.testing.assert_allclose(found, one_by_one, atol=1e-5)


def test_inputs_of_those_who_came_have_what_is_expected(ratings, tmp_path):
    grown = OrdinalBM(**SMALL).fit(ratings)
    items = [int(item) for item in ratings.items.ids[:4]]
    grown.partial_fit([(1_001, item, 5) for item in items])
    state = grown._state
    code = state.users.codes([1_001])[0]
    assert np.flatnonzero(state.newcomers[0].new).tolist() == [code]
    for machine, factors in zip(
        grown.machines, grown.user_factors([1_001], members="apart"), strict=True
    ):
        side = machine.user_side
        columns = state.items.codes(items)
        said = side.parameters.coupling[columns, 4].sum(axis=0)
        share = 1 - len(items) * 80 / len(ratings)  # of four ratings, where 80 users gave all
        inputs = side.parameters.hidden_bias + share * side.newcomer_input + said
        np.testing.assert_allclose(factors[0], expit(inputs[: side.n_hidden]), rtol=1e-4)
    grown.save(tmp_path / "grown.ordbm")
    loaded = ordbm.load(tmp_path / "grown.ordbm")
    for kind, other in zip(loaded._state.newcomers, state.newcomers, strict=True):
        assert np.array_equal(kind.share, other.share)
    more = [(1_001, int(ratings.items.ids[9]), 2), (7, 5_000, 3)]
    one, other = grown.partial_fit(more), loaded.partial_fit(more)
    asked = [1_001, 3, 7], [int(ratings.items.ids[12])] * 2 + [5_000]
    assert np.array_equal(one.predict_proba(*asked), other.predict_proba(*asked))


def test_rows_count_for_about_the_root_of_their_ratings():
    start = np.array([0, 4, 4, 104, 10_104])
    rows, chosen = between(start, 1_120)
    assert rows.tolist() == [0, 2, 3]
    assert (np.diff(chosen) >= 0).all()
    assert np.unique(chosen[:20]).tolist() == [0, 1, 2, 3]
    of_row = np.histogram(chosen, start[[0, 2, 3, 4]])[0]
    assert of_row.tolist() == [20, 100, 1_000]


# -- the shared potential -------------------------------------------------------------------------


def test_the_shared_potential_takes_the_step_of_its_formula_and_takes_it_back():
    rng = np.random.default_rng(3)
    bias, scores = rng.normal(size=4), rng.normal(size=(12, 4))
    level, had = rng.integers(0, 4, 12), np.array([100.0, 0.0, 30.0, 7.0])
    none = np.zeros(0)
    found = moved_levels(bias, scores, level, none, had, back=False)
    expected = np.exp(log_softmax(scores, axis=1)).sum(axis=0)
    given = np.bincount(level, minlength=4)
    step = np.log((had + 0.5 + given) / (had + 0.5 + expected))
    np.testing.assert_allclose(found, bias + step)
    again = moved_levels(found, scores + step, level, none, had, back=True)
    np.testing.assert_allclose(again, bias, atol=1e-9)


def test_a_gaussian_machines_potential_follows_the_mean():
    value, scores = np.array([1.0, 3.0]), np.full((2, 1), 0.5)
    level, had = np.zeros(2, int), np.array([6.0])
    found = moved_levels(np.array([0.5]), scores, level, value, had, back=False)
    np.testing.assert_allclose(found, [0.5 + (0.5 + 2.5) / 8])
    again = moved_levels(found, scores + found - 0.5, level, value, had, back=True)
    np.testing.assert_allclose(again, [0.5], atol=1e-9)


def test_a_level_that_nobody_gave_before_becomes_likely():
    user, item, value = simulated()
    scale = [1, 2, 3, 3.5, 4, 5]
    old = user < 50
    model = OrdinalBM(**SMALL).fit(ordbm.Ratings(user[old], item[old], value[old], scale=scale))
    bias = [machine.level_bias.copy() for machine in model.machines]
    value = np.where((value == 3) & ~old, 3.5, value)
    late = user >= 65
    coming = ~old & ~late
    ids = user[late].tolist(), item[late].tolist()
    with pytest.warns(ordbm.errors.UnknownIdsWarning):
        before = model.predict_proba(*ids)[:, 3].mean()
    ratings = list(zip(user[coming], item[coming], value[coming], strict=True))
    model.partial_fit(ratings)
    with pytest.warns(ordbm.errors.UnknownIdsWarning):
        after = model.predict_proba(*ids)[:, 3].mean()
    assert after > 3 * before
    for was, machine in zip(bias, model.machines, strict=True):
        moved = machine.level_bias - was
        assert moved[3] > 2
        assert moved.argmin() == 2
    model.partial_fit(withdrawn=[pair[:2] for pair in ratings])
    for was, machine in zip(bias, model.machines, strict=True):
        np.testing.assert_allclose(machine.level_bias, was, atol=0.2)
