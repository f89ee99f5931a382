"""Tables as people have them give the ratings that three columns give."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import ordbm
from ordbm import Ratings
from ordbm.baselines import Bias
from ordbm.errors import OrdbmError, RatingsError, SettingsError

USERS = [7, 8, 7, 9]
ITEMS = ["a", "b", "b", "c"]
STARS = [5, 3, 1, 4]
COLUMNS = {"user": USERS, "item": ITEMS, "rating": STARS}
RECORDS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(USERS, ITEMS, STARS, strict=True)]
BATCH = pa.record_batch(COLUMNS)


class Row(NamedTuple):
    stars: Any
    film: Any
    customer: Any


TABLES = {
    "pandas": pd.DataFrame(COLUMNS),
    "polars": pl.DataFrame(COLUMNS),
    "lazy": pl.LazyFrame(COLUMNS),
    "arrow table": pa.table(COLUMNS),
    "record batch": BATCH,
    "dict of lists": COLUMNS,
    "dict of arrays": {name: np.array(column) for name, column in COLUMNS.items()},
    "dict of series": {name: pd.Series(column) for name, column in COLUMNS.items()},
    "list of dicts": RECORDS,
    "more keys here and there": [{**RECORDS[0], "note": 1}, *RECORDS[1:]],
    "other names": [dict(zip(("userId", "movie", "Stars"), r.values())) for r in RECORDS],  # noqa: B905
    "structured array": np.array(
        list(zip(USERS, ITEMS, STARS, strict=True)),
        [("user", int), ("item", "U1"), ("rating", float)],
    ),
    "record array": pd.DataFrame(COLUMNS).to_records(index=False),
    "tuples": list(zip(USERS, ITEMS, STARS, strict=True)),
    "lists with more in them": [[*row, 0] for row in zip(USERS, ITEMS, STARS, strict=True)],
    "named tuples": [Row(s, i, u) for u, i, s in zip(USERS, ITEMS, STARS, strict=True)],
    "exact names first": {"user_id": [0] * 4, **COLUMNS},
}


def as_dict(ratings):
    pairs = zip(ratings.user_codes, ratings.item_codes, ratings.values, strict=True)
    return {(ratings.users[u], ratings.items[i]): float(value) for u, i, value in pairs}


EXPECTED = as_dict(Ratings(USERS, ITEMS, STARS))


@pytest.mark.parametrize("name", TABLES)
def test_a_table_gives_what_its_columns_give(name):
    found = Ratings(TABLES[name])
    assert as_dict(found) == EXPECTED
    assert [type(user) for user in found.users] == [int] * 3
    assert found.scale == Ratings(USERS, ITEMS, STARS).scale


def test_what_can_be_read_once_is_read_once():
    assert as_dict(Ratings(pa.RecordBatchReader.from_batches(BATCH.schema, [BATCH]))) == EXPECTED
    assert as_dict(Ratings(iter(RECORDS))) == EXPECTED


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_stored_entries_of_a_sparse_matrix_are_ratings(form, kind):
    dense = np.array([[0, 5, 0], [0, 0, 0], [1, 0, 2]])
    matrix = getattr(sparse, f"{form}_{kind}")(dense)
    assert as_dict(Ratings(matrix, missing=0)) == {(0, 1): 5.0, (2, 0): 1.0, (2, 2): 2.0}


def test_a_stored_zero_is_a_rating_unless_said_otherwise():
    matrix = sparse.coo_array(([5.0, 0.0], ([0, 1], [1, 0])), shape=(2, 2))
    assert as_dict(Ratings(matrix)) == {(0, 1): 5.0, (1, 0): 0.0}
    assert as_dict(Ratings(matrix, missing=0)) == {(0, 1): 5.0}


def test_ordered_categories_bring_their_scale():
    stars = pd.Categorical(["good", "poor", "good", "fair"], ["poor", "fair", "good"], ordered=True)
    assert Ratings(pd.DataFrame({**COLUMNS, "rating": stars})).scale.labels == (
        "poor",
        "fair",
        "good",
    )


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (5, "need ratings, got int: give a pandas"),
        (None, "need ratings, got NoneType"),
        ("ratings.csv", r"read a file with ordbm\.read_ratings"),
        (pd.Series(USERS), "Series cannot be read as a table"),
        (np.ones((2, 3)), r"shape \(2, 3\) may be a table or a matrix"),
        (np.ones(3), r"shape \(3,\) is not ratings"),
        ([], "no ratings"),
        ([1, 2, 3], "a list of int is not ratings"),
        ([("u", "i")], "a list of tuple is not ratings"),
        ([("u", "i", 5), ("u", "i")], r"row 0 is a row of 3, row 1 is not \(it is a tuple\)"),
        ([RECORDS[0], 5], r"row 0 is a dict, row 1 is not \(it is a int\)"),
        ([RECORDS[0], {"user": 1, "item": 2}], r"row 1 \(user 1, item 2, rating None\)"),
        ([RECORDS[0], {"item": 2, "rating": 2}], r"users must not be missing: row 1"),
        ({"user": [1, 2], "item": [1], "rating": [3]}, "lengths differ"),
        ({"user": 1, "item": 1, "rating": 3}, "need a sequence"),
        ({"user": "a", "item": "b", "rating": "c"}, "got one string"),
        ({"a": [1], "b": [2], "c": [3]}, "cannot tell which column is the user"),
        ({"uid": [1], "userId": [2], "item": [3], "rating": [4]}, "could all be the user"),
        (pd.DataFrame([[1, 2, 3, 4]], columns=["user", "user", "item", "rating"]), "user' 2 times"),
        (pa.table([[1], [1], [2], [3]], ["user", "user", "item", "rating"]), "user' 2 times"),
        (sparse.coo_array(np.ones(3)), "two dimensions; got 1"),
        (sparse.csr_array((3, 3)), "no ratings"),
        (object(), "need ratings, got object"),
    ],
)
def test_what_is_no_table_of_ratings_is_refused(table, words):
    with pytest.raises(RatingsError, match=words):
        Ratings(table)


def test_half_of_the_columns_are_refused():
    with pytest.raises(RatingsError, match="give users, items and values, or one table"):
        Ratings(USERS, ITEMS)
    with pytest.raises(RatingsError, match="leave user= out"):
        Ratings.from_frame(sparse.csr_array(np.eye(2)), user="who")


# -- where tables are taken ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many():
    random = np.random.default_rng(0)
    pairs = random.choice(30 * 20, 400, replace=False)
    return Ratings(pairs // 20, pairs % 20, random.integers(1, 6, 400))


@pytest.mark.parametrize("kind", [ordbm.OrdinalBM, Bias])
def test_fit_and_evaluate_take_tables(many, kind):
    told = {"epochs": 2, "hidden": 3, "members": 1, "item_links": 3} if kind is not Bias else {}
    train, held_out = ordbm.hold_out(many, 0.2, seed=0)
    few = held_out.select(held_out.values > 3)  # whose own scale would be another
    with pytest.raises(OrdbmError):
        kind(**told).fit(train, validation=Ratings(few.to_frame(), scale=[4, 5]))
    frame = train.to_frame("pandas")
    by_ratings = kind(**told).fit(Ratings(frame), validation=few)
    by_table = kind(**told).fit(frame, validation=few.to_frame("pyarrow").to_pylist())
    pairs = ([many.users[code] for code in many.user_codes], many.item_codes.tolist())
    np.testing.assert_array_equal(by_table.predict(*pairs), by_ratings.predict(*pairs))
    scores = [
        ordbm.evaluate(by_table, test, bootstrap=0).scores for test in (few.to_frame("polars"), few)
    ]
    assert scores[0] == pytest.approx(scores[1])
    with pytest.raises(RatingsError, match="need ratings, got int"):
        kind(**told).fit(5)


def test_splits_and_folds_take_tables(many):
    frame = many.to_frame("polars")
    for made, of in zip(ordbm.hold_out(frame), ordbm.hold_out(Ratings(frame)), strict=True):
        assert as_dict(made) == as_dict(of)
    assert len(ordbm.given_n(frame, 3)[0]) == 3 * many.n_users
    assert len(list(ordbm.k_fold(frame, 3))) == 3
    assert (
        ordbm.cross_validate(Bias(), frame, 2, bootstrap=0).scores
        == ordbm.cross_validate(Bias(), Ratings(frame), 2, bootstrap=0).scores
    )


# -- values that mean "not rated" ------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "missing", "kept"),
    [
        ([5, 0, 3, 0], 0, [0, 2]),
        (np.array([5.0, 0.0, 3.0, -1.0]), [0, -1], [0, 2]),
        ([5, None, 3, NAN], NAN, [0, 2]),
        (np.array([5.0, NAN, 3.0, 0.0]), NAN, [0, 2, 3]),
        (pd.Series([5, None, 3, 2], dtype="Int64"), NAN, [0, 2, 3]),
        ([5, "NA", 3, ""], ["NA", ""], [0, 2]),
        ([5, 4, 3, 2], 0, [0, 1, 2, 3]),
        ([5, 4, 3, 0], False, [0, 1, 2]),
    ],
    ids=str,
)
def test_what_means_not_rated_is_left_out_and_counted(values, missing, kept):
    found = Ratings(USERS, ITEMS, values, scale=range(6), missing=missing)
    expected = {(USERS[row], ITEMS[row]): float(values[row]) for row in kept}
    assert as_dict(found) == expected
    assert found.n_missing == 4 - len(kept)
    assert ("not rated left out" in repr(found)) == (len(kept) < 4)
    frame = pd.DataFrame({**COLUMNS, "rating": pd.Series(list(values), dtype=object)})
    assert as_dict(Ratings.from_frame(frame, scale=range(6), missing=missing)) == expected


def test_who_rated_nothing_is_not_there():
    assert Ratings([1, 2], [1, 2], [0, 5], missing=0).users.ids == (2,)
    labels = Ratings([1, 2], [1, 2], ["?", "good"], scale=["bad", "good"], missing="?")
    assert labels.users.ids == (2,)


def test_what_cannot_mean_not_rated_is_refused():
    with pytest.raises(RatingsError, match=r"all 2 are missing=0"):
        Ratings([1, 2], [1, 2], [0, 0], missing=0)
    with pytest.raises(SettingsError, match=r"missing=\(1,\)"):
        Ratings([1], [1], [1], missing=[(1,)])
    with pytest.raises(SettingsError, match="missing=<object"):
        Ratings([1], [1], [1], missing=object())
    with pytest.raises(RatingsError, match=r"row 1 .*rating nan"):
        Ratings([1, 2], [1, 2], [1, NAN], missing=0)


# -- ids that are whole numbers --------------------------------------------------------------------


def test_whole_floats_of_a_column_are_integers():
    frame = pd.DataFrame({"user": [1.0, 2.0], "item": [1.5, 2.0], "rating": [1, 2]})
    for table in (frame, pl.from_pandas(frame), {name: frame[name].to_numpy() for name in frame}):
        found = Ratings(table)
        assert found.users.ids == (1, 2)
        assert [type(user) for user in found.users] == [int, int]
        assert found.items.ids == (1.5, 2.0)  # one that is not whole, and all stay
    assert Ratings(np.array([2.0**60]), [1], [1]).users.ids == (2.0**60,)
    assert type(Ratings(np.array([2.0**60]), [1], [1]).users[0]) is float
    with pytest.raises(RatingsError, match="users must not be missing: row 1"):
        Ratings(np.array([1.0, NAN]), [1, 1], [1, 2])
