"""Lists are a full sort of exact scores, and the same for one person as among everybody's."""

import numpy as np
import pytest

from answers import exactly
from ordbm.estimator import OrdinalBM
from ordbm.inference import ensemble_tables
from ordbm.inference.catalogue import Catalogue
from ordbm.inference.fitted import FittedModel
from ordbm.inference.people import Users
from ordbm.recommend import lists
from ordbm.recommend.criteria import (
    AtLeast,
    Energy,
    Facts,
    Gain,
    LongTail,
    MeanRating,
    Mixture,
    Rated,
    Score,
    score_of,
)
from ordbm.recommend.diversity import diverse_places, hidden_directions
from test_answers_for_everybody import KINDS, MORE, N_ITEMS, NEW, TINY, fitted, ratings


class Sure(Score):
    """A score without a bound."""

    def __repr__(self):
        return "Sure()"

    def of(self, facts):
        return facts.rating.confidence()


WAYS = [
    "liked",
    "rated",
    "mean",
    "gain",
    "energy",
    Energy(),
    AtLeast(3, 0.5),
    Gain({5: 2.0, 1: -4.0}),
    Mixture((AtLeast(), 1.0), (MeanRating(), 0.5)),
    Mixture((Rated(), 1.0), (MeanRating(), -0.5)),
    Mixture((Rated(), 0.0)),
    LongTail(AtLeast(), 0.7),
    Sure(),
]
PEOPLE = {4: MORE, "new": NEW, 9: {}, "silent": {}}
ASKS = [(4, None), (9, None), ("new", NEW), (4, MORE), ("silent", {}), (1000, None)]


@pytest.fixture(scope="module", params=["joint", "user", "item", "double", "links of users"])
def model(request):
    assert request.param in KINDS
    return fitted(request.param)


def sorted_by(model, user, given, by):
    """(item, score) of all that the person has not rated, best first, from all exact ratings."""
    state = model._state
    people, person = model._asked(user, given)
    items = np.arange(N_ITEMS, dtype=np.int32)
    if by == "energy":
        conditioned, code = state.conditioned, np.asarray(person)
        if given is not None or person[0] < 0:
            people, person = model._asked(user, given or {})
            conditioned, code = people.conditioned(0)[0], np.zeros(1, np.int32)
        score = np.mean([Catalogue(one).scores(code, by) for one in conditioned], axis=0)[0]
    else:
        facts = Facts(
            state.distribution(people, np.repeat(person, N_ITEMS), items),
            people.presence.log_odds(person)[0],
            np.diff(state.ratings.by_item.start),
        )
        score = score_of(by).of(facts)
    seen = people.given.columns_of(int(person[0])) if person[0] >= 0 else []
    left = [item for item in np.lexsort((items, -score)).tolist() if item not in seen]
    return [(state.items[item], float(score[item])) for item in left]


@pytest.mark.parametrize("by", WAYS, ids=repr)
@pytest.mark.parametrize("first_look", [0, lists.FIRST_LOOK])
def test_lists_are_a_full_sort(model, by, first_look, monkeypatch):
    """However few items are rated at first."""
    monkeypatch.setattr(lists, "FIRST_LOOK", first_look)
    if not model._state.is_quick and by == "mean" and not first_look:
        return  # mean field chooses what is looked at
    for user, given in ASKS:
        whole = sorted_by(model, user, given, by)
        for n in (1, 3, N_ITEMS):
            found = model.recommend(user, n=n, ratings=given, by=by)
            assert exactly([(line.item, line.score) for line in found]) == exactly(whole[:n])


def rows_of(frame, user):
    mine = frame[frame["user"] == user]
    assert mine["rank"].tolist() == list(range(1, len(mine) + 1))
    names = ["item", "score", "mean", "confidence", "p_rated"]
    return [tuple(row) for row in mine[names].itertuples(index=False)]


def lines(listed):
    return [(one.item, one.score, one.mean, one.confidence, one.rated) for one in listed]


@pytest.mark.parametrize("by", WAYS, ids=repr)
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"exclude": [1, 5]},
        {"candidates": [0, 2, 3, 8, 9, 12, 17]},
        {"candidates": lambda item: item % 3 != 0, "exclude": [4]},
        {"diversity": 0.4},
    ],
    ids=["all", "exclude", "candidates", "function", "diverse"],
)
def test_one_list_and_everybodys_agree(model, by, how):
    """In items, order and every bit of their figures."""
    frame = model.recommend_all(n=4, by=by, backend="pandas", **how)
    listed = set(frame["user"])
    assert list(dict.fromkeys(frame["user"])) == [user for user in model.users if user in listed]
    for user in model.users[::7]:
        alone = model.recommend(user, n=4, by=by, **how)
        assert exactly(lines(alone)) == exactly(rows_of(frame, user))
    frame = model.recommend_all(n=4, by=by, ratings=PEOPLE, backend="pandas", **how)
    for user, given in PEOPLE.items():
        alone = model.recommend(user, n=4, by=by, ratings=given, **how)
        assert exactly(lines(alone)) == exactly(rows_of(frame, user))


@pytest.mark.parametrize("name", ["linked", "similar_users"])
def test_candidates_of_each_user(name):
    model = fitted("joint")
    some = model.users[:9]
    frame = model.recommend_all(some, n=4, candidates=name, backend="pandas")
    for user in some:
        alone = model.recommend(user, n=4, candidates=name)
        assert exactly(lines(alone)) == exactly(rows_of(frame, user))


def test_plain_lists_are_those_of_the_frame():
    model = fitted("joint")
    frame = model.recommend_all(n=3, backend="pandas")
    plain = model.recommend_lists(n=3)
    assert list(plain) == model.users
    for user, listed in plain.items():
        assert listed == [row[:2] for row in rows_of(frame, user)]


def test_blocks_of_people_change_no_list(monkeypatch):
    model = fitted("joint")
    whole = [model.recommend_lists(n=4, by=by) for by in WAYS]
    monkeypatch.setattr(lists, "NUMBERS_AT_ONCE", N_ITEMS * 5 * 7)  # seven people at a time
    assert exactly(whole) == exactly([model.recommend_lists(n=4, by=by) for by in WAYS])


def test_diverse_lists_are_chosen_from_longer_ones(model):
    for user, given in ASKS[:4]:
        whole = sorted_by(model, user, given, "liked")[: 4 * lists.POOL]
        codes = model._state.items.codes([item for item, _ in whole])
        score = np.array([score for _, score in whole])
        place = diverse_places(score, hidden_directions(model._state, codes), 4, 0.6)
        found = model.recommend(user, n=4, ratings=given, by="liked", diversity=0.6)
        assert [line.item for line in found] == [whole[one][0] for one in place]


def test_few_items_are_rated(monkeypatch):
    """Beside the listed: none by P(rated), all by mean, by liked until bounds say enough."""
    model = fitted("joint")
    monkeypatch.setattr(lists, "FIRST_LOOK", 0)
    asked = []
    plain = FittedModel.distribution

    def counted(self, people, person, items, *rest):
        asked.append(len(items))
        return plain(self, people, person, items, *rest)

    monkeypatch.setattr(FittedModel, "distribution", counted)
    unseen = len(model.recommend(4, n=N_ITEMS, by="rated"))
    for by, most in (("rated", 0), ("mean", unseen), ("liked", unseen + 4)):
        asked.clear()
        assert len(model.recommend(4, n=1, by=by)) == 1
        assert asked[-1] == 1  # the line itself
        assert sum(asked[:-1]) <= most
    assert asked[0] == 4


UNLINKED = {
    "both": {}, "user": {"sides": "user", "hidden": 3}, "item": {"sides": "item", "hidden": 9},
    "double": {"dtype": "float64"}, "categorical": {"features": "categorical"},
}  # fmt: skip


@pytest.fixture(scope="module", params=UNLINKED)
def unlinked(request):
    told = {"item_links": 0, "presence": False} | UNLINKED[request.param]
    return OrdinalBM(**TINY | told).fit(ratings())


def test_bounds_of_means_are_never_below_them_and_close(unlinked, monkeypatch):
    monkeypatch.setattr(ensemble_tables, "TILE_NUMBERS", 100)  # several tiles, the last one short
    state = unlinked._state
    users = np.array([*range(12), -1], np.int32)
    values = state.scale.values
    bound = state.tables.expected_at_most(Users(state).tables(users), values)
    people, item = np.repeat(users, N_ITEMS), np.tile(np.arange(N_ITEMS), len(users))
    exact = state.distribution(Users(state), people, item).mean().reshape(bound.shape)
    unrated = np.isfinite(bound)
    assert (~unrated).sum() == np.diff(state.ratings.by_user.start)[:12].sum()
    assert (bound >= exact)[unrated].all()
    assert (bound - exact)[unrated].max() < 0.01


def test_a_bound_is_infinite_where_single_precision_does_not_tell(unlinked):
    state = unlinked._state
    tables = Users(state).tables(np.arange(2))
    far = tables._replace(
        bias=tables.bias + 200 * np.array([0, 1], tables.bias.dtype)[:, None, None]
    )
    bound = state.tables.expected_at_most(far, state.scale.values)
    assert np.isfinite(bound[0]).any()
    assert (bound[1] == np.inf).all()


@pytest.mark.parametrize("first_look", [0, 32])
def test_lists_by_mean_are_a_full_sort_however_few_are_looked_at(unlinked, first_look, monkeypatch):
    monkeypatch.setattr(lists, "FIRST_LOOK", first_look)
    found = unlinked.recommend_lists(n=5, by="mean")
    for user in list(found)[:8]:
        had = unlinked._state.ratings.by_user.columns_of(unlinked._state.users.codes([user])[0])
        left = np.setdiff1d(np.arange(N_ITEMS), had)
        items = [unlinked._state.items[code] for code in left]
        mean = unlinked.predict([user] * len(items), items)
        best = np.argsort(-mean, kind="stable")[:5]
        assert [item for item, _ in found[user]] == [items[place] for place in best]
