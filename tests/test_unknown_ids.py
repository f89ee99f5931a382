"""Ids that cannot be meant as they are: of another type, missing, or all of them unknown."""

import warnings

import numpy as np
import pytest

import ordbm
from ordbm import Ratings
from ordbm.baselines import Bias
from ordbm.data.lookup import listed_ids
from ordbm.errors import RatingsError, UnknownIdsWarning
from ordbm.inference.fitted import strangers_apart

NAN = float("nan")


@pytest.fixture(scope="module", params=["machine", "baseline"])
def make(request):
    """A function that fits a model to ratings with these ids."""

    def fitted(users, items):
        pairs = [(u, i) for u in range(len(users)) for i in range(len(items))]
        ratings = Ratings(
            [users[u] for u, _ in pairs],
            [items[i] for _, i in pairs],
            [1 + (u * 3 + i) % 5 for u, i in pairs],
        )
        if request.param == "baseline":
            return Bias().fit(ratings)
        return ordbm.OrdinalBM(hidden=2, members=1, item_links=2, epochs=1).fit(ratings)

    return fitted


@pytest.fixture(scope="module")
def numbered(make):
    return make([1, 2, 3], [10, 20, 30, 40])


@pytest.fixture(scope="module")
def named(make):
    return make(["1", "2", "3"], ["10", "20", "30", "40"])


ASKS = {
    "predict": lambda model, user, item: model.predict(user, item),
    "predict_proba": lambda model, user, item: model.predict_proba([user], [item]),
    "predict_table": lambda model, user, item: model.predict_table(user, [item]),
    "array": lambda model, user, item: model.predict(np.array([user], object), item),
}


@pytest.mark.parametrize("ask", ASKS)
def test_a_known_id_of_another_type_is_an_error_that_says_so(numbered, named, ask):
    words = "user '1' is text, and this model's users are numbers: give 1$"
    with pytest.raises(RatingsError, match=words):
        ASKS[ask](numbered, "1", 10)
    with pytest.raises(RatingsError, match=r"item '10' is text, .* items are numbers: give 10$"):
        ASKS[ask](numbered, 1, "10")
    with pytest.raises(RatingsError, match=r"user 1 is a number, .* users are text: give '1'$"):
        ASKS[ask](named, 1, "10")


def test_one_among_known_ids_is_found_too(numbered):
    with pytest.raises(RatingsError, match="user '2' is text"):
        numbered.predict([1, "2", 3], 10)
    with pytest.raises(RatingsError, match="user '2' is text"):
        numbered.recommend("2")
    with pytest.raises(RatingsError, match="item '20' is text"):
        numbered.recommend(ratings={"20": 5})
    with pytest.raises(RatingsError, match="user '2' is text"):
        numbered.recommend_all(["2"])


@pytest.mark.parametrize("missing", [None, NAN, np.datetime64("NaT")])
@pytest.mark.parametrize("ask", ["predict_proba", "array"])
def test_missing_values_are_no_ids(numbered, named, missing, ask):
    for model, known in ((numbered, 10), (named, "10")):
        with pytest.raises(RatingsError, match=r"user .* is a missing value, not an id"):
            ASKS[ask](model, missing, known)


def test_an_id_whose_type_no_id_has_gives_a_warning(numbered, named):
    with pytest.warns(UnknownIdsWarning, match="user 'ann' is text, and this model's users are nu"):
        numbered.predict("ann", 10)
    with pytest.warns(UnknownIdsWarning, match="item 7 is a number, and this model's items are t"):
        named.predict("1", 7)
    with pytest.warns(UnknownIdsWarning, match=r"user b'1' is bytes"):
        numbered.predict([b"1", b"2"], 10)


def test_where_none_of_several_is_known_there_is_a_warning(numbered):
    with pytest.warns(UnknownIdsWarning, match="none of these 2 users .*are 1, 2, 3, ...: all"):
        numbered.predict([8, 9], 10)
    with pytest.warns(UnknownIdsWarning, match="none of these 2 items"):
        numbered.predict(1, [8, 9])


def test_strangers_of_the_right_type_are_no_mistake(numbered, named):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model, user, item in ((numbered, 1, 10), (named, "1", "10")):
            stranger = 9 if model is numbered else "ann"
            model.predict(stranger, item)
            model.predict([user, stranger], item)
            model.predict(user, [item, stranger])
            model.recommend(stranger, 2)
        numbered.predict([1.0, np.int64(2), np.float64(3)], 10)
        numbered.predict([1, "ann"], 10)  # whoever gives known ids knows their type
        assert numbered.known_users([1, "1", None]).tolist() == [True, False, False]


def test_evaluations_say_how_many_were_unknown(numbered):
    test = Ratings([1, 8, 8, 2], [10, 10, 20, 99], [1, 2, 3, 4], scale=[1, 2, 3, 4, 5])
    found = ordbm.evaluate(numbered, test, bootstrap=0)
    assert (found.n_users, found.n_items) == (3, 3)
    assert found.unknown_ids == {"users": 1, "items": 1}
    line = "  unknown to the model: 1 of 3 users (2 ratings), 1 of 3 items (1 rating)"
    assert repr(found).splitlines()[-1] == line
    assert found.to_dict()["unknown_ids"] == {"users": 1, "items": 1}
    known = test.select(test.user_codes == 0)
    assert repr(ordbm.evaluate(numbered, known, bootstrap=0)).endswith("0 of 1 users, 0 of 1 items")
    folds = ordbm.cross_validate(Bias(), test, 2, bootstrap=0)
    assert repr(folds).splitlines()[-1].startswith("  unknown to the model: ")


def test_strangers_have_numbers_of_their_own_that_nobody_known_has():
    codes = strangers_apart(np.array([3, -1, -1, -1, 0]), ["a", "x", "y", "x", "b"])
    assert codes.tolist() == [3, -1, -2, -1, 0]


def test_several_ids_are_what_has_a_length():
    several = [1, 2]
    assert listed_ids(several) is several
    assert listed_ids(iter(several)) == several
    assert listed_ids((1, 2)) is None  # one id


def test_a_known_tuple_is_excluded_though_its_members_are_items_too():
    items = [("a", 1), "a", 1]
    ratings = Ratings([1, 1, 1, 2, 2, 2], items * 2, [1, 2, 3, 4, 5, 1])
    model = ordbm.OrdinalBM(hidden=2, members=1, item_links=0, epochs=1).fit(ratings)
    listed = model.recommend(ratings={}, exclude=[items[0]])
    assert {line.item for line in listed} == {"a", 1}
