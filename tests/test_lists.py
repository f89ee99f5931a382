"""Lists for people: who may be on them, in which order, why, and the same again from a file."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

import ordbm
import referee
from answers import exactly, predictions
from ordbm import OrdinalBM, Ratings
from ordbm.errors import ModelFileError, RatingsError, SettingsError
from ordbm.persistence.container import read_container, write_container
from ordbm.recommend import recommendation
from ordbm.recommend.criteria import NAMED, AtLeast, Energy, Facts, LongTail, Rated
from ordbm.recommend.diversity import diverse_places, hidden_directions
from ordbm.recommend.lists import REASONS
from ordbm.recommend.recommendation import Recommendation

SAMPLES = Path(__file__).parent / "samples"
TINY = {
    "hidden": 3,
    "members": 2,
    "item_links": 4,
    "link_support": 2,
    "link_shrinkage": 0.0,
    "epochs": 2,
    "presence_precision": 5.0,
}
N_USERS, N_ITEMS = 80, 24
EVERYTHING = 99  # more than there are
UNRATED = "unrated"
ALL_SCORES = [*NAMED, "energy", Energy(), AtLeast(3, 0.5), LongTail(Rated(), 0.3)]
GIVEN = {2: 5, 7: 1, 11: 4}


def simulated(*, continuous=False):
    """Ratings by users of two tastes, popular items first; one known item has none."""
    rng = np.random.default_rng(3)
    taste = np.arange(N_USERS) % 2 == np.arange(N_ITEMS)[:, None] % 2
    share = np.linspace(0.6, 0.1, N_ITEMS)[:, None] * np.where(taste, 1.4, 0.6)
    item, user = np.nonzero(rng.random((N_ITEMS, N_USERS)) < share)
    value = 3 + rng.normal(size=N_ITEMS)[item] + rng.normal(size=len(item))
    value = value if continuous else np.clip(np.round(value), 1, 5)
    users, items = [*user.tolist(), 0], [*item.tolist(), UNRATED]
    ratings = Ratings(users, items, [*value, value[0]], "continuous" if continuous else None)
    return ratings.select(ratings.item_codes != ratings.items.codes([UNRATED])[0])


@pytest.fixture(scope="module")
def ratings():
    return simulated()


@pytest.fixture(scope="module")
def model(ratings):
    return OrdinalBM(**TINY).fit(ratings)


def rated_by(ratings, user):
    code = ratings.users.codes([user])[0]
    return {ratings.items[item] for item in ratings.item_codes[ratings.user_codes == code]}


def ids(listed):
    return [line.item for line in listed]


def item_codes(model, items):
    return model._state.items.codes(list(items))


# -- who may be on a list -------------------------------------------------------------------------


@pytest.mark.parametrize("by", ALL_SCORES, ids=repr)
def test_all_items_but_those_rated_and_those_without_ratings(model, ratings, by):
    for user in (0, 5):
        listed = ids(model.recommend(user, n=EVERYTHING, by=by))
        assert sorted(listed) == sorted(set(range(N_ITEMS)) - rated_by(ratings, user))
        all_of = [item for item, _ in model.recommend_lists([user], n=EVERYTHING, by=by)[user]]
        assert sorted(all_of) == sorted(listed)
    listed = ids(model.recommend(ratings=GIVEN, n=EVERYTHING, by=by))
    assert sorted(listed) == sorted(set(range(N_ITEMS)) - set(GIVEN))
    assert sorted(ids(model.recommend(-1, n=EVERYTHING, by=by))) == list(range(N_ITEMS))


@pytest.mark.parametrize("by", ALL_SCORES, ids=repr)
def test_best_first_and_no_more_than_asked_for(model, by):
    whole = model.recommend(4, n=EVERYTHING, by=by)
    scores = [line.score for line in whole]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 1
    for n in (0, 1, 3):
        assert ids(model.recommend(4, n=n, by=by)) == ids(whole)[:n]
        assert len(model.recommend_lists([4], n=n, by=by)[4]) == n


@pytest.mark.parametrize(
    "kind", [list, set, iter, np.array, dict.fromkeys], ids=lambda kind: kind.__name__
)
def test_excluded_items(model, kind):
    before = ids(model.recommend(4, n=EVERYTHING))
    for count in (1, 2, len(before)):
        found = model.recommend(4, n=EVERYTHING, exclude=kind(before[:count]))
        assert ids(found) == before[count:]
    assert ids(model.recommend(4, n=EVERYTHING, exclude=kind([]))) == before


def test_excluded_items_may_be_one_or_unknown(model):
    before = ids(model.recommend(4, n=EVERYTHING))
    assert ids(model.recommend(4, n=EVERYTHING, exclude=before[0])) == before[1:]
    assert ids(model.recommend(4, n=EVERYTHING, exclude="nothing")) == before
    assert ids(model.recommend(4, n=EVERYTHING, exclude=["nothing", before[1]])) == (
        before[:1] + before[2:]
    )


def test_a_tuple_of_excluded_items_is_not_ignored(model):
    """A tuple is one id everywhere else, with an error where its members are known."""
    before = ids(model.recommend(4, n=EVERYTHING))
    with pytest.raises(RatingsError, match="give several in a list"):
        model.recommend(4, n=EVERYTHING, exclude=tuple(before[:2]))


def test_candidates(model, ratings):
    whole = ids(model.recommend(4, n=EVERYTHING))
    assert ids(model.recommend(4, n=EVERYTHING, candidates="all")) == whole
    some = [3, 4, 9, 10, 15]
    expected = [item for item in whole if item in some]
    assert expected
    assert ids(model.recommend(4, n=EVERYTHING, candidates=some)) == expected
    assert ids(model.recommend(4, n=EVERYTHING, candidates=np.array(some))) == expected
    assert ids(model.recommend(4, candidates=some, exclude=expected[:1])) == expected[1:]
    assert ids(model.recommend(4, candidates=[UNRATED, *rated_by(ratings, 4)])) == []

    def even(item):
        return item != UNRATED and item % 2 == 0

    assert ids(model.recommend(4, n=EVERYTHING, candidates=even)) == [*filter(even, whole)]
    new = ids(model.recommend(ratings=GIVEN, n=EVERYTHING))
    found = model.recommend(ratings=GIVEN, n=EVERYTHING, candidates=even)
    assert ids(found) == [*filter(even, new)]


def test_linked_candidates(model, ratings):
    links = model.machines[0].user_side.links
    mine = item_codes(model, rated_by(ratings, 70))
    near = {
        model._state.items[int(other)]
        for item in mine
        for other in links.neighbour[links.start[item] : links.start[item + 1]]
    }
    whole = ids(model.recommend(70, n=EVERYTHING))
    expected = [item for item in whole if item in near]
    assert 0 < len(expected) < len(whole)
    assert ids(model.recommend(70, n=EVERYTHING, candidates="linked")) == expected


def test_wrong_candidates(model):
    for name in ("linked", "similar_users"):
        with pytest.raises(SettingsError, match=f"candidates='{name}' needs a known user"):
            model.recommend(ratings=GIVEN, candidates=name)
    with pytest.raises(SettingsError, match=r"candidates='near': use 'all', .* or a function"):
        model.recommend(4, candidates="near")
    with pytest.raises(RatingsError, match="candidate 'nothing' is not an item of this model"):
        model.recommend(4, candidates=["nothing"])


# -- scores on lists ------------------------------------------------------------------------------


def facts(model, user, items):
    rating = model.distribution(user, list(items))
    odds = model._state.conditioned_presence.log_odds(model._state.users.codes([user]))[0]
    popularity = np.diff(model._state.ratings.by_item.start)
    codes = item_codes(model, items)
    return Facts(rating, odds[codes], popularity[codes])


@pytest.mark.parametrize("score", [*NAMED.values(), *ALL_SCORES[-3:]], ids=repr)
def test_scores_are_those_of_the_pairs(model, score):
    """With exact ratings."""
    listed = model.recommend(6, n=EVERYTHING, by=score)
    found = facts(model, 6, ids(listed))
    np.testing.assert_allclose([line.score for line in listed], score.of(found), rtol=1e-6)
    np.testing.assert_allclose([line.mean for line in listed], found.rating.mean())
    np.testing.assert_allclose([line.rated for line in listed], expit(found.log_odds), rtol=1e-6)
    np.testing.assert_allclose(
        [line.rated for line in listed], model.rated_proba(6, ids(listed)), rtol=1e-6
    )
    items, scores = zip(*model.recommend_lists([6], n=EVERYTHING, by=score)[6], strict=True)
    assert items == tuple(ids(listed))
    assert scores == tuple(line.score for line in listed)


def test_lists_of_some_users_are_those_of_all(model):
    whole = model.recommend_lists(n=4)
    assert list(whole) == list(model._state.users)
    some = [9, 2, 31]
    found = model.recommend_lists(some, n=4)
    assert exactly(found) == exactly({user: whole[user] for user in some})


def test_the_default_is_what_will_be_liked(model):
    assert exactly(model.recommend(4)) == exactly(model.recommend(4, by="liked"))
    assert exactly(model.recommend_lists(n=3)) == exactly(model.recommend_lists(n=3, by=AtLeast()))


def test_a_longer_tail_lists_less_popular_items(model):
    popularity = np.diff(model._state.ratings.by_item.start)

    def average(strength):
        lists = model.recommend_lists(n=5, by=LongTail(Rated(), strength)).values()
        return np.mean([popularity[item_codes(model, [i])] for rows in lists for i, _ in rows])

    assert average(0.0) > average(1.0) + 1 > average(3.0) + 2


def test_more_of_the_same_taste(model, ratings):
    """Users rate the items of one of two tastes far more often, and the lists know it."""
    same = [
        item % 2 == user % 2
        for user, listed in model.recommend_lists(n=3, by="rated").items()
        for item, _ in listed
    ]
    left = [
        item % 2 == user % 2
        for user in ratings.users
        for item in set(range(N_ITEMS)) - rated_by(ratings, user)
    ]
    assert np.mean(left) < 0.5
    assert np.mean(same) > 0.6


@pytest.mark.parametrize("told", [{"features": "gaussian"}, {}], ids=["gaussian", "continuous"])
def test_lists_of_other_ratings(told):
    other = OrdinalBM(**TINY | told).fit(simulated(continuous=not told))
    for by in ("liked", "rated", "mean", Energy()):
        listed = other.recommend(4, n=3, by=by)
        assert len(listed) == len(other.recommend(ratings=GIVEN, n=3, by=by)) == 3
        assert np.isfinite([line.score for line in listed]).all()
    if not told:
        with pytest.raises(SettingsError, match="these ratings are continuous"):
            other.recommend(4, by="gain")


def test_only_lines_that_are_kept_are_built(model, monkeypatch):
    built = []

    def line(*values):
        built.append(values)
        return Recommendation(*values)

    monkeypatch.setattr(recommendation, "Recommendation", line)
    for by in ("liked", "mean", "energy"):
        built.clear()
        assert len(model.recommend(4, n=3, by=by)) == len(built) == 3


# -- diversity ------------------------------------------------------------------------------------


def likeness(model, items):
    """The largest similarity between two listed items."""
    return max(
        other.similarity
        for item in items
        for other in model.similar_items(item, EVERYTHING)
        if other.id in items
    )


@pytest.mark.parametrize("by", ["liked", "mean", "energy"])
def test_no_diversity_is_none(model, by):
    plain = model.recommend(4, n=6, by=by)
    assert exactly(model.recommend(4, n=6, by=by, diversity=0.0)) == exactly(plain)


@pytest.mark.parametrize("by", ["liked", "mean", "energy"])
@pytest.mark.parametrize(
    "told",
    [{}, {"sides": "user"}, {"sides": "item"}, {"sides": "user", "user_links": 3}],
    ids=["joint", "user", "item", "user with links of users"],
)
def test_diverse_lists_spread(ratings, by, told):
    model = OrdinalBM(**TINY | told | {"members": 1}).fit(ratings)
    users = range(0, N_USERS, 9)
    spread = []
    for diversity in (0.0, 1.0):
        lists = [model.recommend(user, n=5, by=by, diversity=diversity) for user in users]
        assert all(len(set(ids(listed))) == 5 for listed in lists)
        spread.append(np.mean([likeness(model, ids(listed)) for listed in lists]))
        first = [listed[0].item for listed in lists]
        assert first == [model.recommend(user, n=1, by=by)[0].item for user in users]
    assert spread[1] < spread[0] - 0.01


def test_directions_are_centred_and_of_length_one(model):
    items = np.arange(N_ITEMS)
    length = np.linalg.norm(hidden_directions(model._state, items), axis=1)
    np.testing.assert_allclose(length, 1.0, rtol=1e-5)


@pytest.mark.parametrize("diversity", [0.0, 0.3, 0.7, 1.0])
def test_maximal_marginal_relevance(diversity):
    """Each next item has the best of (1 - d) score - d (likeness to the nearest listed)."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=30)
    direction = rng.normal(size=(30, 4))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    worth = (score - score.min()) / np.ptp(score)
    chosen = []
    for _ in range(12):

        def value(one, listed=tuple(chosen)):
            near = max((direction[one] @ direction[other] for other in listed), default=0.0)
            return (1 - diversity) * worth[one] - diversity * near

        chosen.append(max((one for one in range(30) if one not in chosen), key=value))
    assert diverse_places(score, direction, 12, diversity).tolist() == chosen
    assert sorted(diverse_places(score, direction, 50, diversity)) == list(range(30))


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan")])
def test_diversity_is_a_share(model, wrong):
    with pytest.raises(SettingsError, match=r"diversity=.*: must be from 0 to 1"):
        model.recommend(4, diversity=wrong)


def test_diversity_of_short_lists(model):
    assert model.recommend(4, n=0, diversity=0.5) == []
    assert model.recommend(4, candidates=[], diversity=0.5) == []
    alone = ids(model.recommend(4, n=1))
    assert ids(model.recommend(4, candidates=alone, diversity=0.5)) == alone


# -- reasons --------------------------------------------------------------------------------------


def contributions(presence, gain, mine, item):
    """{item of mine: gain times the weight of its link} to an item's potential."""
    place = {int(code): number for number, code in enumerate(presence.linked)}
    if item not in place:
        return {}
    return {one: gain * presence.weight[place[item], place[one]] for one in mine if one in place}


@pytest.mark.parametrize("who", [{"user": 4}, {"user": 70}, {"ratings": GIVEN}], ids=repr)
@pytest.mark.parametrize("by", ["liked", "rated", "mean", "energy"])
def test_reasons_add_up(model, ratings, who, by):
    presence = model._state.presence
    rated = GIVEN if "ratings" in who else rated_by(ratings, who["user"])
    mine = item_codes(model, rated).tolist()
    gain = np.sqrt(presence.typical_degree / len(mine))
    listed = model.recommend(**who, n=EVERYTHING, by=by)
    own = []
    for line in listed:
        item = int(item_codes(model, [line.item])[0])
        added = contributions(presence, gain, mine, item)
        because = {int(item_codes(model, [one])[0]): value for one, value in line.because}
        for one, value in because.items():
            assert value == pytest.approx(added[one], rel=1e-5)
        positive = sorted((value for value in added.values() if value > 0), reverse=True)
        assert [*because.values()] == pytest.approx(positive[:REASONS], rel=1e-5)
        # What is left of the potential are the biases: the item's, and one for the whole list.
        potential = referee.potential_of(line.rated, presence.recalibration)
        own.append(potential - sum(added.values()) - presence.item_bias[item])
    assert np.ptp(own) < 1e-4
    if "user" in who:
        code = model._state.users.codes([who["user"]])[0]
        assert own[0] == pytest.approx(presence.user_bias[code], abs=1e-4)
    assert sum(len(line.because) for line in listed) > 5


def test_nobody_has_no_reasons(model):
    for listed in (model.recommend(-1, n=5), model.recommend(ratings={}, n=5)):
        assert [line.because for line in listed] == [()] * 5
        expected = model.rated_proba(-1, ids(listed))
        np.testing.assert_allclose([line.rated for line in listed], expected, rtol=1e-6)


# -- ratings stay as they were --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ordinal", "gaussian"])
def test_presence_changes_no_predicted_rating(ratings, kind):
    told = predictions(OrdinalBM(kind, **TINY).fit(ratings), [1, 2, -1], range(N_ITEMS))
    without = OrdinalBM(kind, **TINY, presence=False).fit(ratings)
    expected = predictions(without, [1, 2, -1], range(N_ITEMS))
    for method in ("exact", "mean_field", "factors"):
        assert told[method] == expected[method]


# -- files ----------------------------------------------------------------------------------------


def everything_listed(model):
    told = {}
    for by in ALL_SCORES:
        told[repr(by)] = [
            model.recommend_lists(n=5, by=by),
            model.recommend(4, n=5, by=by, diversity=0.4),
            model.recommend(ratings=GIVEN, n=5, by=by, exclude=[1]),
            model.recommend(-1, n=5, by=by),
        ]
    told["linked"] = model.recommend(70, candidates="linked")
    told["proba"] = model.rated_proba([3, "nobody", 3] * 2, [*range(5), "nothing"])
    return exactly(told)


@pytest.fixture(scope="module")
def stored(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("lists") / "model.ordbm"
    model.save(path)
    return path


def test_lists_are_the_same_after_loading(model, stored, tmp_path):
    loaded = ordbm.load(stored)
    assert everything_listed(loaded) == everything_listed(model)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == stored.read_bytes()


def test_a_model_without_presence_comes_back_without(ratings, tmp_path):
    model = OrdinalBM(**TINY, presence=False).fit(ratings)
    model.save(tmp_path / "model")
    loaded = ordbm.load(tmp_path / "model")
    assert not [name for name in read_container(tmp_path / "model", "model")[1] if "pres" in name]
    assert exactly(loaded.recommend(4)) == exactly(model.recommend(4))
    with pytest.raises(SettingsError, match=r"OrdinalBM\(presence=True\)"):
        loaded.recommend(4, by="liked")


def with_value(name, place, value):
    def change(_, arrays):
        arrays[name] = arrays[name].copy()
        arrays[name][place] = value

    return change


def with_array(name, make):
    def change(_, arrays):
        arrays[name] = make(arrays[name])

    return change


def with_links(make):
    """Links as they are, not packed."""

    def change(header, arrays):
        del header["packed"]["presence.link"], arrays["presence.link.packed"]
        n = len(arrays["presence.linked"])
        arrays["presence.link"] = make(np.zeros(n * (n - 1) // 2, np.float32))

    return change


def with_header(**told):
    def change(header, _):
        header["presence"] = {**header["presence"], **told}

    return change


FORGED = {
    "no number": with_links(lambda link: np.full_like(link, np.nan)),
    "infinite": with_value("presence.item_bias", 0, np.inf),
    "huge": with_value("presence.user_bias", -1, -1e30),
    "beyond the items": with_value("presence.linked", -1, N_ITEMS + 1),
    "below the items": with_value("presence.linked", 0, -1),
    "twice": with_array("presence.linked", lambda array: array[[0, *range(len(array) - 1)]]),
    "out of order": with_array("presence.linked", lambda array: array[::-1].copy()),
    "a link short": with_links(lambda link: link[:-1]),
    "a linked item short": with_array("presence.linked", lambda array: array[:-1]),
    "an item short": with_array("presence.item_bias", lambda array: array[:-1]),
    "a user more": with_array("presence.user_bias", lambda array: np.append(array, array[:1])),
    "wide numbers": with_links(lambda link: link.astype(np.float64)),
    "wide places": with_array("presence.linked", lambda array: array.astype(np.int64)),
    "a table": with_array("presence.item_bias", lambda array: array[None]),
    "a curve that falls": with_value("presence.recalibration", 5, -2.0),
    "a curve that falls at its end": with_value("presence.recalibration", -1, -2.0),
    "a knot short": with_array("presence.recalibration", lambda array: array[:-1]),
    "nothing": lambda _, arrays: arrays.pop("presence.link.packed"),
    "something more": lambda _, arrays: arrays.update({"presence.more": np.zeros(3)}),
    "unsaid": lambda header, _: header.update(presence=None),
    "left out": lambda header, _: header.pop("presence"),
    "text": lambda header, _: header.update(presence="yes"),
    "without typical": lambda header, _: header["presence"].pop("typical_degree"),
    "no ratings are typical": with_header(typical_degree=0.0),
    "fewer than none": with_header(typical_degree=-3.0),
    "whole": with_header(typical_degree=3),
    "true": with_header(typical_degree=True),
    "far off": with_header(unknown_bias=-1e300),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_corrupted_presence_is_refused(stored, tmp_path, change):
    header, arrays = read_container(stored, "model")
    change(header, arrays)
    write_container(tmp_path / "forged", "model", header, arrays)
    with pytest.raises(ModelFileError, match="does not hold a model that ordbm could have written"):
        ordbm.load(tmp_path / "forged")


def test_links_need_not_be_packed(stored, tmp_path):
    header, arrays = read_container(stored, "model")
    with_links(lambda link: link)(header, arrays)
    write_container(tmp_path / "plain", "model", header, arrays)
    assert not ordbm.load(tmp_path / "plain")._state.presence.weight.any()


def test_what_is_stored_unchanged_loads(stored, tmp_path):
    write_container(tmp_path / "same", "model", *read_container(stored, "model"))
    assert exactly(ordbm.load(tmp_path / "same").recommend(4)) == exactly(
        ordbm.load(stored).recommend(4)
    )


def test_a_presence_that_cannot_be_stored_is_refused_when_saved(ratings, tmp_path):
    model = OrdinalBM(**TINY).fit(ratings)
    model._state.presence.item_bias[0] = np.nan
    with pytest.raises(ModelFileError, match="cannot be stored: a parameter of presence"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())
