"""Every verb for everybody: users, new people, users who say more, and many of them in one call.

What is asked in one pass over all machines is compared with the machines one by one, each
conditioned on one person (`ConditionedMachine`, `fold_in_machine`).
"""

from functools import cache

import numpy as np
import pytest
from scipy.special import expit

from answers import exactly
from newcomers import machines_for
from ordbm import OrdinalBM, Ratings
from ordbm.errors import RatingsError, SettingsError, UnknownIdsWarning
from ordbm.explain.similarity import hidden_space
from ordbm.inference.tables import level_probabilities

N_USERS, N_ITEMS = 40, 18
TINY = {
    "hidden": (3, 4), "members": 3, "item_links": 4, "link_support": 2, "link_shrinkage": 0.0,
    "epochs": 2, "presence_precision": 5.0, "seed": 1,
}  # fmt: skip
KINDS = {
    "joint": {},
    "user": {"sides": "user", "hidden": 3},
    "item": {"sides": "item", "hidden": 4},
    "no links": {"item_links": 0},
    "categorical": {"features": "categorical"},
    "double": {"dtype": "float64"},
    "one": {"members": 1},
    "links of users": {"user_links": 3},
    "gaussian": {"features": "gaussian"},
    "gaussian, links of users": {"features": "gaussian", "user_links": 3},
}
NEW = {2: 5, 7: 1, 11: 4}
MORE = {2: 1, 3: 5, 16: 2}
ALL_ITEMS = list(range(N_ITEMS))


@cache
def ratings():
    """By users of two tastes."""
    rng = np.random.default_rng(3)
    share = np.linspace(0.8, 0.3, N_ITEMS)[:, None]
    item, user = np.nonzero(rng.random((N_ITEMS, N_USERS)) < share)
    alike = np.where(user % 2 == item % 2, 1.0, -0.5)
    value = 3 + alike + rng.normal(size=N_ITEMS)[item] + 0.7 * rng.normal(size=len(item))
    return Ratings(user, item, np.clip(np.round(value), 1, 5))


@cache
def fitted(kind):
    return OrdinalBM(**TINY | KINDS[kind]).fit(ratings())


@pytest.fixture(params=KINDS)
def model(request):
    return fitted(request.param)


# Who is asked about, as verbs take it: (user, what they say now).
PEOPLE = {
    "a user": (4, None),
    "somebody new": (None, NEW),
    "somebody new with a name": ("new", NEW),
    "a user who says more": (4, MORE),
    "a user who says nothing new": (4, {}),
    "a stranger": (1000, None),
    "somebody who says nothing": (None, {}),
}


@pytest.fixture(params=PEOPLE)
def who(request):
    return PEOPLE[request.param]


def machines_of(model, user, given):
    """Each machine that knows somebody, and who they are there."""
    state = model._state
    code = -1 if user is None else int(state.users.codes([user])[0])
    if given is None:
        return state.conditioned, code
    return machines_for(state, given, code), 0


def slow(model, user, given, items=ALL_ITEMS):
    """The distribution of each rating, machine by machine."""
    state = model._state
    conditioned, code = machines_of(model, user, given)
    codes = state.codes(items, state.items, state.rated_items)
    users = np.full(len(codes), code, np.int32)
    return state._slow_distribution(conditioned, users, codes, "exact")


def close(model, found, expected):
    exact = model.machines[0].dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 if exact else 1e-5)


# -- predictions ----------------------------------------------------------------------------------


def test_one_pass_says_what_the_machines_say_one_by_one(model, who):
    """Of what they have rated, too: a pair's own rating is left out on both sides."""
    user, given = who
    expected = slow(model, user, given)
    found = model.distribution(user, ALL_ITEMS, ratings=given)
    close(model, level_probabilities(found), level_probabilities(expected))
    close(model, model.predict_proba(user, ALL_ITEMS, ratings=given), level_probabilities(expected))
    close(model, model.predict(user, ALL_ITEMS, ratings=given), expected.mean())
    one = model.predict(user, ALL_ITEMS[5], ratings=given)
    many = model.predict(user, ALL_ITEMS, ratings=given)[5:6]
    np.testing.assert_allclose(one, many, rtol=1e-12)
    if model._state.is_quick:
        assert exactly(one) == exactly(many)
    stars = [1 + item % 5 for item in ALL_ITEMS]
    log_proba = model.log_probability(user, ALL_ITEMS, stars, given=given)
    at = level_probabilities(expected)[ALL_ITEMS, np.array(stars) - 1]
    np.testing.assert_allclose(log_proba, np.log(at), atol=1e-4)


def test_mean_field_is_asked_of_everybody(model, who):
    user, given = who
    found = model.predict_proba(user, ALL_ITEMS, "mean_field", ratings=given)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    exact = model.predict_proba(user, ALL_ITEMS, ratings=given)
    np.testing.assert_allclose(found, exact, atol=0.2)


def test_a_user_who_says_nothing_new_is_the_user(model):
    for ask in (model.predict_proba, model.rated_proba):
        np.testing.assert_allclose(ask(4, ALL_ITEMS, ratings={}), ask(4, ALL_ITEMS), atol=1e-6)
    state = model._state
    code = state.user_code(4)
    had = state.given.by_user
    same = {
        state.items[item]: state.scale.values[level]
        for item, level in zip(
            had.columns_of(code).tolist(),
            had.level[had.start[code] : had.start[code + 1]],
            strict=True,
        )
    }
    again = model.predict_proba(4, ALL_ITEMS, ratings=same)
    np.testing.assert_allclose(again, model.predict_proba(4, ALL_ITEMS), atol=1e-6)
    for ask in (model.user_factors, model.free_energy):
        np.testing.assert_allclose(ask(4, ratings={}), ask(4), atol=1e-5)
    new, old = (model.recommend(4, ratings=given) for given in ({}, None))
    assert [line.item for line in new] == [line.item for line in old]


def test_what_is_said_moves_predictions():
    model = fitted("joint")
    before = model.predict_proba(4, ALL_ITEMS)
    for given in (MORE, {16: 2}):
        assert np.abs(model.predict_proba(4, ALL_ITEMS, ratings=given) - before).max() > 1e-3
    liked, loathed = (model.predict(4, ratings={16: stars}, items=ALL_ITEMS) for stars in (5, 1))
    assert np.abs(liked - loathed).max() > 1e-3
    # What they say of a pair themselves never enters its prediction, but for what it tells of them.
    user_side = fitted("user")
    liked, loathed = (user_side.predict(4, 16, ratings={16: stars}) for stars in (5, 1))
    np.testing.assert_allclose(liked, loathed, atol=1e-6)


def test_many_people_in_one_call_are_each_answered_alone(model):
    given = {"new": NEW, 4: MORE, 9: {}, "else": {0: 3}}
    asked = [*given, 9, 1000, 7]
    users = [user for user in asked for _ in ALL_ITEMS]
    items = ALL_ITEMS * len(asked)
    order = np.random.default_rng(0).permutation(len(users))
    shuffled = [users[place] for place in order], [items[place] for place in order]
    together = np.empty((len(users), 5))
    together[order] = model.predict_proba(*shuffled, ratings=given)
    for user, rows in zip(asked, together.reshape(len(asked), N_ITEMS, 5), strict=True):
        alone = model.predict_proba(user, ALL_ITEMS, ratings=given.get(user, {}))
        assert exactly(rows) == exactly(alone)
        close(model, rows, level_probabilities(slow(model, user, given.get(user, {}))))


def test_tables_say_who_is_known(model):
    """A person with ratings of their own is known, whoever they are."""
    given = {"new": NEW, 4: MORE, "silent": {}}
    frame = model.predict_table([*given, 5], 3, backend="pandas", ratings=given)
    assert frame["user"].tolist() == ["new", 4, "silent", 5]
    assert frame["known_user"].tolist() == [True, True, False, True]
    means = model.predict([*given, 5], 3, ratings=given)
    np.testing.assert_array_equal(frame["mean"], means)
    alone = model.predict_table(items=[3, 1000], ratings=NEW, backend="pandas")
    np.testing.assert_array_equal(alone["mean"], model.predict(None, [3, 1000], ratings=NEW))


def test_unknown_items(model, who):
    user, given = who
    close(
        model,
        model.predict_proba(user, [1000], ratings=given),
        level_probabilities(slow(model, user, given, [1000]))
        if user == 4 or given or model.machines[0].features.is_gaussian
        else [model._state.level_shares],
    )


def test_joint_predictions_of_one_are_predictions(model, who):
    user, given = who
    found = model.predict_joint(user, [5], ratings=given, limit=10**6, draws=20_000)
    alone = model.predict_proba(user, [5], ratings=given)
    probability = [found.weight[found.values[:, 0] == stars].sum() for stars in range(1, 6)]
    loose = 0.02 if model.machines[0].features.is_gaussian else 1e-5
    np.testing.assert_allclose(probability, alone[0], atol=loose)


def test_joint_predictions_of_one_person_in_two_ways():
    model = fitted("joint")
    found = model.predict_joint(4, [1, 5], ratings=MORE)
    same = model.predict_joint([4, 4], [1, 5], ratings={4: MORE})
    assert exactly((found.values, found.weight)) == exactly((same.values, same.weight))


@pytest.mark.parametrize("kind", ["joint", "gaussian"])
def test_explanations_add_up_to_the_prediction(kind, who):
    model = fitted(kind)
    user, given = who
    told = model.explain(user, 5, ratings=given)
    mean = told.distribution.mean()[0]
    np.testing.assert_allclose(mean, model.predict(user, 5, ratings=given)[0], atol=1e-4)
    parts = told.base + sum(part.effect for part in told.parts)
    assert parts == pytest.approx(told.final, abs=1e-6)


# -- P(rated), factors, energies ------------------------------------------------------------------


def test_what_gets_rated(model, who):
    user, given = who
    found = model.rated_proba(user, ALL_ITEMS, ratings=given)
    listed = model.recommend(user, n=N_ITEMS, ratings=given, by="rated")
    np.testing.assert_allclose([line.score for line in listed], [
        np.log(found[line.item] / (1 - found[line.item])) for line in listed
    ], rtol=1e-3, atol=1e-4)  # fmt: skip
    together = model.rated_proba(["else", "x", 7], 3, ratings={"else": {1: 2}, "x": given or {}})
    alone = model.rated_proba("x", 3, ratings=given or {})
    assert exactly(together[1:2]) == exactly(alone)


def test_factors_and_energies(model, who):
    user, given = who
    conditioned, code = machines_of(model, user, given)
    expected = [
        one.user_factors()[code]
        if code >= 0 or one.machine.user_side is None
        else expit(one.machine.user_side.unknown_hidden_bias[: one.machine.user_side.n_hidden])
        for one in conditioned
    ]
    found = model.user_factors(user, ratings=given)
    np.testing.assert_allclose(found, [np.concatenate(expected)], rtol=1e-6)
    apart = model.user_factors(user, ratings=given, members="apart")
    assert exactly(apart) == exactly(np.stack(np.split(found, len(model.machines), axis=1)))
    energy = np.mean([one.user_free_energy(np.array([code])) for one in conditioned], axis=0)
    np.testing.assert_allclose(model.free_energy(user, ratings=given), energy, rtol=1e-6)


def test_factors_of_many(model):
    given = {"new": NEW, 4: MORE}
    users = ["new", 4, 9, 1000]
    found = model.user_factors(users, ratings=given)
    energy = model.free_energy(users, ratings=given)
    for place, user in enumerate(users):
        say = given.get(user, {})
        np.testing.assert_allclose(found[place], model.user_factors(user, ratings=say)[0])
        np.testing.assert_allclose(energy[place], model.free_energy(user, ratings=say)[0])
    assert exactly(model.user_factors(ratings=given)) == exactly(found[:2])


def test_factors_come_with_their_ids():
    model = fitted("joint")
    assert len(model.users) == N_USERS
    assert exactly(model.user_factors(model.users)) == exactly(model.user_factors())
    assert exactly(model.item_factors(model.items)) == exactly(model.item_factors())
    for place in (0, 3):
        user, item = model.users[place], model.items[place]
        assert exactly(model.user_factors(user)) == exactly(model.user_factors()[place : place + 1])
        assert exactly(model.item_factors(item)) == exactly(model.item_factors()[place : place + 1])
    assert model.item_factors(members="apart").shape == (3, N_ITEMS, 4)


@pytest.mark.parametrize("of", ["user", "item"])
def test_fewer_dimensions_are_principal_components(of):
    model = fitted("joint")
    factors = getattr(model, f"{of}_factors")
    whole = factors().astype(np.float64)
    centred = whole - whole.mean(axis=0)
    left, size, _ = np.linalg.svd(centred, full_matrices=False)
    for k in (1, 2, 5):
        found = factors(dimensions=k)
        assert found.shape == (len(whole), k)
        np.testing.assert_allclose(np.abs(found), np.abs(left * size)[:, :k], atol=1e-5)
        np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-6)
        np.testing.assert_allclose(found, factors(dimensions=5)[:, :k], atol=1e-6)
    ids = getattr(model, f"{of}s")[3:5]
    np.testing.assert_allclose(factors(ids, dimensions=2), factors(dimensions=2)[3:5], atol=1e-6)
    all_of = factors(dimensions=whole.shape[1]).astype(np.float64)
    distance = [np.linalg.norm(rows[:, None] - rows, axis=2) for rows in (all_of, whole)]
    np.testing.assert_allclose(*distance, atol=1e-5)  # a rotation


def test_fold_in_users_are_on_the_axes_of_users():
    model = fitted("joint")
    found = model.user_factors(4, ratings={}, dimensions=2)
    np.testing.assert_allclose(found, model.user_factors(4, dimensions=2), atol=1e-5)
    assert model.user_factors(ratings=NEW, dimensions=2).shape == (1, 2)


def test_wrong_factors():
    model = fitted("joint")
    with pytest.raises(SettingsError, match="members='together': use one of joined, apart"):
        model.user_factors(members="together")
    with pytest.raises(SettingsError, match="leave members='apart' out"):
        model.item_factors(members="apart", dimensions=2)
    with pytest.raises(SettingsError, match="dimensions=0: must be a whole number, 1 or more"):
        model.item_factors(dimensions=0)
    with pytest.raises(SettingsError, match="dimensions=13: must be at most 12"):
        model.item_factors(dimensions=13)


def test_users_like_somebody(model, who):
    """By the cosine of centred places in hidden space; nobody is near themselves."""
    user, given = who
    if given is None and user != 4:
        with pytest.raises(RatingsError, match="user 1000 has no ratings"):
            model.similar_users(user)
        return
    if not given and user is None:
        with pytest.raises(RatingsError, match="without ratings"):
            model.similar_users(ratings=given)
        return
    conditioned, code = machines_of(model, user, given)
    everybody = hidden_space(model._state.conditioned, "user")
    middle = everybody.mean(axis=0)
    place = hidden_space(conditioned, "user")[code] - middle
    others = everybody - middle
    length = np.linalg.norm(others, axis=1) * np.linalg.norm(place)
    cosine = dict(zip(model.users, others @ place / length, strict=True))
    cosine.pop(user, None)
    found = model.similar_users(user, n=5, ratings=given)
    expected = sorted(cosine.values(), reverse=True)[:5]
    np.testing.assert_allclose([one.similarity for one in found], expected, atol=1e-4)
    np.testing.assert_allclose([cosine[one.id] for one in found], expected, atol=1e-4)


# -- how people may be asked about ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda model: model.predict(None, [1]), "say either who it is for"),
        (lambda model: model.predict([4, 5], [1, 2], ratings=NEW), "say whose they are"),
        (lambda model: model.predict(None, [1], ratings={4: NEW}), "say which users"),
        (lambda model: model.predict(4, [1], ratings=[3]), "ratings must be what somebody rated"),
        (lambda model: model.recommend([4, 5]), r"use recommend_all\(users\)"),
        (lambda model: model.recommend_all(ratings=NEW), "say whose they are"),
        (lambda model: model.user_factors([4, 5], ratings=NEW), "say whose they are"),
        (lambda model: model.similar_users(), "say either who it is for"),
    ],
)
def test_wrong_questions(ask, message):
    with pytest.raises(SettingsError, match=message):
        ask(fitted("joint"))


def test_an_unknown_item_among_the_ratings_is_an_error():
    for given in ({1000: 3}, {4: {1000: 3}}):
        with pytest.raises(RatingsError, match="item 1000 is not in this model"):
            fitted("joint").predict(4, 1, ratings=given)


def test_people_who_give_ratings_may_be_new():
    """Without a warning, as there is where nothing is said; ids of another type are errors."""
    model = fitted("joint")
    assert len(model.recommend_all(n=2, ratings={"ann": NEW, "bob": {0: 3}}, backend="pandas")) == 4
    with pytest.warns(UnknownIdsWarning, match="taken for a stranger"):
        model.predict("ann", 3)
    with pytest.raises(RatingsError, match="user '4' is text"):
        model.predict("4", 3, ratings=NEW)


JOINT = {"limit": 10**6, "draws": 4_000}


def test_known_users_who_say_nothing_new_are_asked_together_as_ever(model):
    pairs = [4, 9, 4], [1, 5, 7]
    found = model.predict_joint(*pairs, ratings={4: {}, 9: {}}, **JOINT)
    expected = model.predict_joint(*pairs, **JOINT)
    if found.exact:
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_allclose(found.weight, expected.weight, atol=1e-5)
    else:
        np.testing.assert_allclose(found.mean(), expected.mean(), atol=0.15)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "gaussian" not in kind])
def test_people_who_say_something_meet_in_items_only(kind):
    model = fitted(kind)
    alone = model.predict_joint([4, 4], [1, 5], ratings={4: MORE}, **JOINT)
    told = {4: MORE, "new": NEW}
    beside = model.predict_joint([4, 4, "new"], [1, 5, 5], ratings=told, **JOINT)
    pairs, place = np.unique(beside.values[:, :2], axis=0, return_inverse=True)
    order = np.lexsort(alone.values.T[::-1])
    np.testing.assert_array_equal(alone.values[order], pairs)
    apart = np.abs(np.bincount(place.ravel(), beside.weight) - alone.weight[order]).max()
    if model.machines[0].item_side is None:
        assert apart < 1e-6
    else:
        assert apart > 1e-6
