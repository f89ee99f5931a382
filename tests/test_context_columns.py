"""Columns of context beside ratings: how they are read, kept, learnt from and asked with."""

import json
from dataclasses import replace

import numpy as np
import pytest

import ordbm
from cli_runs import answer, json_answer
from ordbm import (
    OrdinalBM,
    Ratings,
    hold_out,
    progressive_validation,
    read_ratings,
    write_ratings,
)
from ordbm.data.context_columns import UNKNOWN, context_columns
from ordbm.datasets import read_pairs
from ordbm.errors import ModelFileError, RatingsError, SettingsError
from ordbm.kernels.context import FIRST_COLUMN
from ordbm.persistence.container import read_container, write_container

TINY = {"hidden": 2, "members": 1, "epochs": 4, "item_links": 0, "presence": False}
MOODS = ("glad", "sad", "sleepy")


def moody(seed=0, n_users=60, n_items=40):
    """Ratings on three devices and at a temperature, which move what each person says."""
    rng = np.random.default_rng(seed)
    user, item = np.divmod(rng.permutation(n_users * n_items)[: n_users * 24], n_items)
    mood, warmth = rng.integers(3, size=len(user)), rng.uniform(-10, 30, len(user))
    moves = rng.standard_normal((n_users, 3))[user, mood]
    moves += rng.standard_normal(n_users)[user] * (warmth > 10)
    liking = rng.standard_normal(n_items)[item]
    level = np.clip(np.round(3 + liking + moves + 0.3 * rng.standard_normal(len(user))), 1, 5)
    names = np.array(MOODS, object)[mood]
    names[rng.random(len(user)) < 0.05] = None
    context = {"mood": names, "warmth": warmth}
    return Ratings(user, item, level, scale=[1, 2, 3, 4, 5], context=context)


@pytest.fixture(scope="module")
def split():
    return hold_out(moody(), 0.2)


@pytest.fixture(scope="module")
def model(split):
    return OrdinalBM(**TINY).fit(split[0])


def asked(ratings):
    """The ids of each rating, and what was so beside it."""
    pairs = (
        [ratings.users[code] for code in ratings.user_codes],
        [ratings.items[code] for code in ratings.item_codes],
    )
    return pairs, {name: ratings.context.column(name) for name in ratings.context.names}


def test_columns_go_with_their_ratings():
    columns = {"user": ["b", "a", "a"], "item": [1, 2, 1], "rating": [3, 4, 5]}
    beside = {"mood": ["glad", None, "sad"], "warmth": [1.5, 2, None], "home": [True, False, True]}
    whole = Ratings(columns | beside, context=["mood", "warmth", "home"])
    assert "with mood, warmth, home" in repr(whole)
    assert whole.context.categories == (("glad", "sad"), None, ("False", "True"))
    frame = whole.to_frame("polars")
    assert frame["user"].to_list() == ["b", "a", "a"]
    assert frame["item"].to_list() == [1, 1, 2]
    assert frame["mood"].to_list() == ["glad", "sad", None]
    assert frame["warmth"].to_list() == [1.5, None, 2.0]
    some = whole.select([0, 2])
    assert some.context.column("mood") == ["glad", None]
    again = Ratings(frame, context=["mood", "warmth", "home"])
    np.testing.assert_array_equal(again.context.values, whole.context.values)
    plain = Ratings(columns["user"], columns["item"], columns["rating"], context=beside)
    np.testing.assert_array_equal(plain.context.values, whole.context.values)
    assert not Ratings(columns | beside).context
    last = Ratings(["a", "a"], [1, 1], [2, 3], context={"mood": ["glad", "sad"]})
    assert last.context.column("mood") == ["sad"]
    rated = Ratings(["a", "b"], [1, 1], [0, 3], missing=0, context={"mood": ["glad", "sad"]})
    assert rated.context.column("mood") == ["sad"]


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"mood": ["glad"]}, "1 values of context 'mood'"),
        ({"rating": [1, 2]}, "a context column is called 'rating'"),
        ({3: [1, 2]}, "a context column is called 3"),
        ({"warmth": [1.0, float("inf")]}, "warmth.*row 1"),
        ({"mood": [["a"], ["b"]]}, "not plain"),
        (["mood"], "names are of a table's columns"),
    ],
)
def test_bad_columns_are_named(context, words):
    with pytest.raises(RatingsError, match=words):
        Ratings(["a", "b"], [1, 2], [3, 4], context=context)


def test_a_column_that_is_missing_everywhere_cannot_be_learnt_from():
    nothing = Ratings(["a", "b"], [1, 2], [3, 4], context={"mood": [None, ""]})
    with pytest.raises(RatingsError, match="'mood' is missing everywhere"):
        OrdinalBM(**TINY).fit(nothing)


def test_a_stream_goes_with_its_context(split):
    train, _ = split
    times = np.random.default_rng(3).uniform(0, 1e6, len(train)).astype(int) * 1.0
    timed = Ratings.of_rows(
        train.users, train.items, train.scale, train.by_user, times, train.context
    )
    found = progressive_validation(OrdinalBM(**TINY), timed, first=0.7, batch=100)
    bare = Ratings.of_rows(train.users, train.items, train.scale, train.by_user, times)
    without = progressive_validation(OrdinalBM(**TINY), bare, first=0.7, batch=100)
    assert found.scores["rmse"] < without.scores["rmse"]


def test_a_column_that_is_not_in_the_table_is_named():
    with pytest.raises(RatingsError, match="mood"):
        Ratings({"user": ["a"], "item": [1], "rating": [3]}, context=["mood"])


def by_pair(ratings):
    pairs, context = asked(ratings)
    beside = zip(context["mood"], context["warmth"], strict=True)
    return dict(zip(zip(*pairs, strict=True), beside, strict=True))


@pytest.mark.parametrize("name", ["r.csv", "r.tsv.gz", "r.parquet"])
def test_files_keep_columns(tmp_path, name):
    whole = moody(n_users=8, n_items=30)
    write_ratings(whole, tmp_path / name)
    again = read_ratings(tmp_path / name, context=["warmth", "mood"])
    assert again.context.names == ("warmth", "mood")
    assert by_pair(again) == by_pair(whole)
    assert not read_ratings(tmp_path / name).context
    pairs = read_pairs(tmp_path / name, context=["mood"])
    written = [value or None for value in pairs.context["mood"]]
    assert written == whole.context.column("mood")
    with pytest.raises(RatingsError, match="weather"):
        read_ratings(tmp_path / name, context=["weather"])


def test_context_is_found_and_helps(model, split):
    _, test = split
    pairs, context = asked(test)
    errors = [
        np.sqrt(np.mean((model.predict(*pairs, **told) - test.values) ** 2))
        for told in ({"context": context}, {"context": {"mood": context["mood"]}}, {})
    ]
    assert errors[0] < errors[1] < 0.95 * errors[2]
    assert ordbm.evaluate(model, test, bootstrap=0).scores["rmse"] == pytest.approx(errors[0])
    assert set(model.context.axes.tolist()) == {FIRST_COLUMN, FIRST_COLUMN + 1}


def test_unknown_and_new_categories_are_near_nothing(model):
    pairs = [1, 2, 2], [3, 3, 4]
    plain = model.predict_proba(*pairs)
    for unknown in (None, "furious"):
        found = model.predict_proba(*pairs, context={"mood": unknown})
        np.testing.assert_allclose(found, plain, rtol=1e-12)
    one = model.predict_proba(*pairs, context={"mood": "sad"})
    np.testing.assert_array_equal(one, model.predict_proba(*pairs, context={"mood": ["sad"] * 3}))
    assert not np.allclose(one, plain)
    said = {1: 5, 2: 5, 3: 5, 4: 5}
    pleased = model.predict(items=[10], ratings=said, context={"mood": "sad"})
    assert pleased[0] > model.predict(items=[10], ratings=said)[0]
    part = [one for one in model.explain(2, 3, context={"mood": "sad"}).parts
            if one.kind == "context"]  # fmt: skip
    assert len(part) == 1


@pytest.mark.parametrize(
    ("context", "kind", "words"),
    [
        ({"weather": "wet"}, SettingsError, "no column 'weather'.*'mood', 'warmth'"),
        ({"mood": ["sad", "glad"]}, SettingsError, "2 values for 3 pairs"),
        ({"warmth": "warm"}, RatingsError, "'warmth' is a number"),
    ],
)
def test_bad_questions_are_named(model, context, kind, words):
    with pytest.raises(kind, match=words):
        model.predict([1, 2, 2], [3, 3, 4], context=context)


def test_order_of_categories_and_units_do_not_matter(split):
    train, test = split
    pairs, context = asked(test)
    other = {"glad": "z", "sad": "y", "sleepy": "x", None: None}
    _, said = asked(train)
    said = {
        "mood": [other[mood] for mood in said["mood"]],
        "warmth": [32 + 1.8 * w for w in said["warmth"]],
    }
    columns = context_columns(said, len(train))
    turned = Ratings.of_rows(train.users, train.items, train.scale, train.by_user, context=columns)
    one, two = (OrdinalBM(**TINY).fit(ratings) for ratings in (train, turned))
    asked_of_two = {
        "mood": [other[mood] for mood in context["mood"]],
        "warmth": [32 + 1.8 * w for w in context["warmth"]],
    }
    np.testing.assert_allclose(
        one.predict(*pairs, context=context), two.predict(*pairs, context=asked_of_two), rtol=1e-6
    )


def test_a_saved_model_answers_the_same_and_grows(model, split, tmp_path):
    _, test = split
    pairs, context = asked(test)
    model.save(tmp_path / "model")
    grown = ordbm.load(tmp_path / "model")
    np.testing.assert_array_equal(
        grown.predict_proba(*pairs, context=context), model.predict_proba(*pairs, context=context)
    )
    new = {"user": [7, 7], "item": [38, 39], "rating": [5, 5], "mood": ["cross", "sad"]}
    new = Ratings(new, scale=[1, 2, 3, 4, 5], context=["mood"])
    grown.partial_fit(new)
    known = grown.known_ratings()
    assert known.context.categories[0] == (*MOODS, "cross")
    place = next(row for row, pair in enumerate(zip(*asked(known)[0], strict=True))
                 if pair == (7, 38))  # fmt: skip
    assert known.context.column("mood")[place] == "cross"
    assert known.context.column("warmth")[place] is None
    plain, cross = grown.predict(7, 3), grown.predict(7, 3, context={"mood": "cross"})
    assert cross > plain
    strange = Ratings([7], [38], [5], scale=[1, 2, 3, 4, 5], context={"weather": ["wet"]})
    with pytest.raises(SettingsError, match="weather"):
        grown.partial_fit(strange)


@pytest.mark.parametrize(
    "change",
    [
        lambda header, _: header.update(context=[["mood", ["a"]], ["warmth", None]]),
        lambda header, _: header.update(context=[["mood", None]]),
        lambda header, _: header.update(context=[["mood", ["a", "a", "b"]], ["warmth", None]]),
        lambda header, _: header.update(context=[["x", list("abc")], ["x", None]]),
        lambda header, _: header.update(context=[[1, list("abc")], ["x", None]]),
        lambda header, _: header.update(context="mood"),
        lambda header, _: header.update(context=None),
        lambda _, arrays: arrays["ratings.context"].__setitem__((0, 1), np.nan),
        lambda _, arrays: arrays["ratings.context"].__setitem__((0, 0), -1.0),
        lambda _, arrays: arrays["ratings.context"].__setitem__((0, 0), 0.5),
        lambda _, arrays: arrays.pop("ratings.context"),
    ],
)
def test_wrong_columns_in_a_file_are_refused(model, tmp_path, change):
    model.save(tmp_path / "model")
    header, arrays = read_container(tmp_path / "model", "model")
    arrays["ratings.context"] = arrays["ratings.context"].copy()
    change(header, arrays)
    write_container(tmp_path / "bad", "model", header, arrays)
    with pytest.raises(ModelFileError):
        ordbm.load(tmp_path / "bad")


def test_the_command_line_takes_columns(tmp_path, split):
    train, test = split
    write_ratings(train, tmp_path / "train.csv")
    write_ratings(test.select(np.arange(20)), tmp_path / "test.csv")
    told = ("--context-column", "mood", "--context-column", "warmth")
    settings = ("--hidden", "2", "--members", "1", "--epochs", "2", "--no-presence")
    model = tmp_path / "model"
    answer("fit", tmp_path / "train.csv", "-o", model, *settings, *told)
    found = json_answer("predict", model, tmp_path / "test.csv", *told)
    fitted = ordbm.load(model)
    pairs, context = asked(test.select(np.arange(20)))
    expected = fitted.predict(*pairs, context=context)
    np.testing.assert_allclose([row["mean"] for row in found], expected)
    plain = json_answer("predict", model, tmp_path / "test.csv")
    np.testing.assert_allclose([row["mean"] for row in plain], fitted.predict(*pairs))
    words = answer("inspect", model)
    assert "mood" in words
    assert json.loads(json.dumps(found))


def test_a_column_keeps_what_is_unknown():
    context = moody().context
    values = context.values[:, 0]
    assert (values == UNKNOWN).mean() == pytest.approx(0.05, abs=0.02)
    shifted = replace(context, values=context.values + 0.0)
    assert shifted.column("mood") == context.column("mood")
