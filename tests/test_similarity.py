"""Similar items and users: nearest in hidden space by the cosine of centred representations."""

import numpy as np
import pytest

from ordbm import OrdinalBM, Ratings, load_dataset
from ordbm.datasets import filter_items
from ordbm.errors import NotFittedError, RatingsError, SettingsError

TINY = {"hidden": 4, "members": 2, "item_links": 0, "epochs": 2}


def some_ratings():
    rng = np.random.default_rng(0)
    users, items = rng.integers(30, size=500), rng.integers(20, size=500)
    values = rng.integers(1, 6, size=500)
    return Ratings([f"u{u}" for u in users], [f"i{i}" for i in items], values)


@pytest.fixture(scope="module")
def model():
    return OrdinalBM(**TINY).fit(some_ratings())


def by_hand(ids, space, wanted):
    """All others by the cosine of rows less their mean, the largest first."""
    space = space - space.mean(axis=0)
    ids = list(ids)
    at = space[ids.index(wanted)]
    cosine = {
        one: float(row @ at / np.sqrt((row @ row) * (at @ at)))
        for one, row in zip(ids, space, strict=True)
        if one != wanted
    }
    return sorted(cosine.items(), key=lambda line: -line[1])


@pytest.mark.parametrize("sides", ["item", "joint"])
def test_items_by_their_hidden_units(sides):
    ratings = some_ratings()
    model = OrdinalBM(**TINY, sides=sides).fit(ratings)
    found = model.similar_items("i3", n=5)
    expected = by_hand(ratings.items, model.item_factors().astype(float), "i3")[:5]
    assert [near.id for near in found] == [item for item, _ in expected]
    similar, expected_similar = [near.similarity for near in found], [s for _, s in expected]
    np.testing.assert_allclose(similar, expected_similar, rtol=1e-5)


def test_items_without_hidden_units_by_their_couplings():
    ratings = some_ratings()
    model = OrdinalBM(**TINY, sides="user").fit(ratings)
    spaces = []
    for side in (machine.user_side for machine in model.machines):
        coupling = side.parameters.coupling[:, :, : side.n_hidden].astype(float)
        centred = coupling - coupling.mean(axis=1, keepdims=True)
        spaces.append(centred.reshape(len(coupling), -1))
    expected = by_hand(ratings.items, np.concatenate(spaces, axis=1), "i3")
    found = model.similar_items("i3", n=100)
    assert [near.id for near in found] == [item for item, _ in expected]
    similar, expected_similar = [near.similarity for near in found], [s for _, s in expected]
    np.testing.assert_allclose(similar, expected_similar, rtol=1e-5)


def test_users_likewise(model):
    ratings = some_ratings()
    expected = by_hand(ratings.users, model.user_factors().astype(float), "u7")[:4]
    assert [near.id for near in model.similar_users("u7", n=4)] == [user for user, _ in expected]
    own = OrdinalBM(**TINY, sides="item").fit(ratings)
    assert len(own.similar_users("u7")) == 10


def test_similarity_is_symmetric_and_at_most_one(model):
    items = list(some_ratings().items)
    table = {item: dict(model.similar_items(item, n=100)) for item in items}
    for item, near in table.items():
        assert item not in near
        assert set(near) == set(items) - {item}
        for other, similarity in near.items():
            assert -1 - 1e-12 <= similarity <= 1
            assert similarity == pytest.approx(table[other][item])


def test_twins_are_nearest():
    """Two items with the same ratings by the same users have the same hidden units."""
    rng = np.random.default_rng(0)
    users, items = np.repeat(range(40), 8), np.tile(range(8), 40)
    values = rng.integers(1, 6, size=320)
    values[items == 5] = values[items == 2]
    model = OrdinalBM(hidden=4, members=2, item_links=0, epochs=10, sides="item").fit(
        Ratings(users, items, values)
    )
    nearest = model.similar_items(2)[0]
    assert nearest.id == 5
    assert nearest.similarity == pytest.approx(1, abs=1e-6)


def test_films_in_a_series_are_near_each_other():
    ratings = filter_items(load_dataset(), 50)
    model = OrdinalBM(hidden=20, members=2, item_links=0, epochs=8, seed=0).fit(ratings)
    star_wars, two_towers = 260, 5952
    assert {1196, 1210} & {near.id for near in model.similar_items(star_wars, n=3)}
    assert {4993, 7153} == {near.id for near in model.similar_items(two_towers, n=2)}


def test_items_nobody_rated_are_not_listed():
    ratings = some_ratings()
    train = ratings.select(np.flatnonzero(ratings.item_codes != ratings.items.codes(["i4"])[0]))
    model = OrdinalBM(**TINY).fit(train)
    listed = [near.id for near in model.similar_items("i3", n=100)]
    assert len(listed) == 18
    assert "i4" not in listed
    with pytest.raises(RatingsError, match="'i4' has no ratings"):
        model.similar_items("i4")


def test_what_has_no_neighbours_says_so(model):
    with pytest.raises(RatingsError, match="item 'nothing' has no ratings in this model"):
        model.similar_items("nothing")
    with pytest.raises(SettingsError, match="say either who it is for"):
        model.similar_users(None)
    with pytest.raises(SettingsError, match="n=-1"):
        model.similar_items("i3", n=-1)
    assert model.similar_items("i3", n=0) == []
    bare = OrdinalBM(hidden=0, members=2, epochs=1).fit(some_ratings())
    with pytest.raises(SettingsError, match="without hidden units"):
        bare.similar_items("i3")
    with pytest.raises(NotFittedError):
        OrdinalBM().similar_items("i3")


def test_a_representation_that_does_not_vary_is_near_nothing():
    model = OrdinalBM(**{**TINY, "epochs": 0}).fit(some_ratings())
    for machine in model.machines:
        machine.item_side.parameters.coupling[:] = 0.0
    assert {near.similarity for near in model.similar_items("i3", n=100)} == {0.0}
