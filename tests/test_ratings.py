import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordbm import Ratings, RatingScale
from ordbm.data.scale import ContinuousScale
from ordbm.data.standardiser import machine_ratings, standardiser_of
from ordbm.errors import RatingsError

USERS = ["u", "v", "u", "w"]
ITEMS = [30, 10, 10, 20]
STARS = [5, 3, 1, 4]

triples = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 8), st.integers(1, 5)), min_size=1, max_size=60
)


def as_dict(ratings):
    pairs = zip(ratings.user_codes, ratings.item_codes, ratings.values, strict=True)
    return {(ratings.users[u], ratings.items[i]): float(value) for u, i, value in pairs}


def assert_sound(ratings):
    """Rows are sorted, agree with each other through their twins, and have the right types."""
    sides = ((ratings.by_user, ratings.by_item), (ratings.by_item, ratings.by_user))
    assert (ratings.by_user.n_rows, ratings.by_item.n_rows) == (ratings.n_users, ratings.n_items)
    for rows, other in sides:
        types = [rows.start.dtype, rows.column.dtype, rows.level.dtype, rows.value.dtype]
        real = np.float64 if ratings.is_continuous else np.float32
        assert types == [np.int64, np.int32, np.uint8, real]
        assert rows.in_transpose.dtype == np.int32
        assert rows.start[0] == 0
        assert rows.start[-1] == len(rows.column) == len(rows.level) == len(ratings)
        for first, last in zip(rows.start[:-1], rows.start[1:], strict=True):
            assert np.all(np.diff(rows.column[first:last]) > 0)
        np.testing.assert_array_equal(
            other.in_transpose[rows.in_transpose], np.arange(len(ratings))
        )
        np.testing.assert_array_equal(other.row[rows.in_transpose], rows.column)
        np.testing.assert_array_equal(other.column[rows.in_transpose], rows.row)
        np.testing.assert_array_equal(other.level[rows.in_transpose], rows.level)
        if ratings.is_continuous:
            np.testing.assert_array_equal(other.value[rows.in_transpose], rows.value)
            assert not rows.level.any()
        else:
            assert len(rows.value) == 0


@given(triples, st.sampled_from(["last", "mean"]))
def test_both_orientations_hold_what_was_given(given_triples, duplicates):
    users, items, values = zip(*given_triples, strict=True)
    ratings = Ratings(users, items, values, scale=range(1, 6), duplicates=duplicates)
    assert_sound(ratings)
    of_pair = {}
    for user, item, value in given_triples:
        of_pair.setdefault((user, item), []).append(value)
    if duplicates == "last":
        expected = {pair: values[-1] for pair, values in of_pair.items()}
    else:
        expected = {pair: int(np.mean(values) + 0.5) for pair, values in of_pair.items()}
    assert as_dict(ratings) == expected
    assert ratings.n_duplicates == len(given_triples) - len(of_pair)


@given(triples)
def test_continuous_ratings_keep_their_values(given_triples):
    users, items, values = zip(*given_triples, strict=True)
    values = np.array(values) + 0.125
    ratings = Ratings(users, items, values, scale="continuous", duplicates="mean")
    assert_sound(ratings)
    frame = pd.DataFrame({"u": users, "i": items, "r": values})
    means = frame.groupby(["u", "i"]).r.mean()
    assert as_dict(ratings) == pytest.approx(means.to_dict(), rel=1e-12)
    assert ratings.scale == ContinuousScale(values.mean(), values.std() or 1)


@given(triples, st.data())
def test_select_keeps_ids_scale_and_just_those_ratings(given_triples, data):
    users, items, values = zip(*given_triples, strict=True)
    scale = data.draw(st.sampled_from([None, "continuous"]))
    ratings = Ratings(users, items, values, scale=scale)
    mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(ratings), max_size=len(ratings)))
    )
    part = ratings.select(mask)
    assert_sound(part)
    assert (part.users, part.items, part.scale) == (ratings.users, ratings.items, ratings.scale)
    chosen = list(as_dict(ratings).items())
    expected = dict(pair for pair, keep in zip(chosen, mask, strict=True) if keep)
    assert as_dict(part) == expected
    positions = data.draw(st.permutations(np.flatnonzero(mask).tolist()))
    assert as_dict(ratings.select(positions)) == expected


def test_select_refuses_what_it_cannot_mean():
    ratings = Ratings(USERS, ITEMS, STARS)
    with pytest.raises(RatingsError, match="distinct"):
        ratings.select([1, 1])
    with pytest.raises(RatingsError, match="one value per rating"):
        ratings.select([True])
    with pytest.raises(IndexError):
        ratings.select([4])
    assert len(ratings.select([])) == 0


frames = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "arrow": pa.table,
}


@pytest.mark.parametrize("make", frames.values(), ids=frames)
def test_frames_give_what_lists_give(make):
    frame = make({"who": USERS, "what": ITEMS, "stars": STARS})
    ratings = Ratings.from_frame(frame, user="who", item="what", rating="stars")
    expected = Ratings(USERS, ITEMS, STARS)
    assert as_dict(ratings) == as_dict(expected)
    assert (ratings.users, ratings.items, ratings.scale) == (
        expected.users,
        expected.items,
        expected.scale,
    )
    with pytest.raises(
        RatingsError, match=r"no column 'score'; the columns are 'who', 'what', 'stars'"
    ):
        Ratings.from_frame(frame, user="who", item="what", rating="score")


@pytest.mark.parametrize("make", frames.values(), ids=frames)
def test_columns_with_usual_names_are_found(make):
    frame = make({"userId": USERS, "Movie_ID": ITEMS, "stars": STARS})
    assert as_dict(Ratings.from_frame(frame)) == as_dict(Ratings(USERS, ITEMS, STARS))


def test_the_name_itself_goes_before_usual_ones_and_two_usual_ones_are_asked_about():
    frame = pd.DataFrame({"rating": STARS, "score": 1, "uid": USERS, "item": ITEMS, "movie": 0})
    assert as_dict(Ratings.from_frame(frame)) == as_dict(Ratings(USERS, ITEMS, STARS))
    frame["customer"] = USERS
    with pytest.raises(RatingsError, match=r"'uid', 'customer' could all be the user.* user="):
        Ratings.from_frame(frame)
    assert len(Ratings.from_frame(frame, user="uid")) == len(Ratings(USERS, ITEMS, STARS))


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(USERS),
        pd.Series(USERS, dtype="category"),
        pd.Series(USERS, dtype=object),
        pd.Index(USERS),
        pl.Series(USERS),
        pl.Series(USERS, dtype=pl.Categorical),
        pa.array(USERS),
        pa.chunked_array([USERS[:1], USERS[1:]]),
        pa.chunked_array([pa.array(USERS).dictionary_encode()]),
        np.array(USERS),
        tuple(USERS),
        (user for user in USERS),
    ],
    ids=lambda column: type(column).__module__ + "." + type(column).__name__,
)
def test_columns_of_any_kind_are_ids(column):
    assert Ratings(column, ITEMS, STARS).users.ids == ("u", "v", "w")


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"user": [1], "item": [2], "rating": ["fair"]}).assign(
            rating=lambda f: f.rating.astype(pd.CategoricalDtype(["poor", "fair"], ordered=True))
        ),
        pl.DataFrame(
            {"user": [1], "item": [2], "rating": ["fair"]},
            schema_overrides={"rating": pl.Enum(["poor", "fair"])},
        ),
    ],
    ids=["pandas", "polars"],
)
def test_ordered_categories_are_a_scale(frame):
    ratings = Ratings.from_frame(frame)
    assert ratings.scale == RatingScale(["poor", "fair"])
    assert ratings.levels.tolist() == [1]


def test_labels_need_a_scale_and_are_kept():
    answers = ["good", "poor", "fair", "good"]
    ratings = Ratings(USERS, ITEMS, answers, scale=["poor", "fair", "good"])
    assert ratings.values.tolist() == [3, 2, 1, 3]
    frame = ratings.to_frame()
    assert frame.rating.tolist() == ["good", "fair", "poor", "good"]
    back = Ratings.from_frame(frame, scale=ratings.scale)
    assert as_dict(back) == as_dict(ratings)
    with pytest.raises(RatingsError, match=r"labels.*scale="):
        Ratings(USERS, ITEMS, answers)
    with pytest.raises(RatingsError, match=r"text.*'4.5'.*float\(\)"):
        Ratings(USERS, ITEMS, ["4.5", "3", "2", "1"])


def test_bins_and_booleans():
    scale = RatingScale.bins([0, 2, 6])
    assert Ratings(USERS, ITEMS, STARS, scale).levels.tolist() == [1, 0, 1, 1]
    liked = Ratings(USERS, ITEMS, [True] * 4)
    assert liked.scale == RatingScale([0, 1])
    assert liked.levels.tolist() == [1] * 4


def test_one_single_level_is_a_scale():
    ratings = Ratings(USERS, ITEMS, [3] * 4)
    assert_sound(ratings)
    assert ratings.scale.n_levels == 1
    assert ratings.values.tolist() == [3] * 4


def test_many_distinct_values_are_continuous():
    values = np.linspace(0, 1, 101)
    ratings = Ratings(np.arange(101), np.zeros(101, int), values)
    assert ratings.is_continuous
    np.testing.assert_array_equal(ratings.values, values)


@pytest.mark.parametrize("scale", [None, "continuous", ContinuousScale(1.6e9, 60)], ids=str)
def test_large_values_close_together_are_not_rounded(scale):
    seconds = 1.6e9 + np.arange(150) / 4
    ratings = Ratings(np.arange(150), np.arange(150) % 7, seconds, scale)
    np.testing.assert_array_equal(ratings.values, seconds)
    assert len(np.unique(ratings.by_item.value)) == 150
    standardised = machine_ratings(ratings, standardiser_of(ratings)).by_user.value
    assert standardised.dtype == np.float32
    np.testing.assert_allclose(
        standardised, (seconds - seconds.mean()) / seconds.std(), rtol=1e-5, atol=1e-6
    )


def test_values_beyond_single_precision_are_kept():
    ratings = Ratings(USERS, ITEMS, [1e39, 2e39, -3e39, 5e39], "continuous")
    assert sorted(ratings.values) == [-3e39, 1e39, 2e39, 5e39]
    assert np.isfinite(ratings.scale.deviation)


@pytest.mark.parametrize("scale", [None, "continuous", ContinuousScale(0, 1)], ids=str)
def test_values_whose_deviation_overflows_are_named(scale):
    with pytest.raises(RatingsError, match=r"too large.*row 1 \(user 'v', item 10, rating 1e\+200"):
        Ratings(USERS, ITEMS, [1, 1e200, 2, 3], scale)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [], []), "no ratings"),
        ((np.array([]), np.array([]), np.array([])), "no ratings"),
        ((USERS, ITEMS, STARS[:3]), "4 users, 4 items, 3 ratings; from row 3"),
        ((USERS, ITEMS, np.ones((4, 1))), r"ratings: need one dimension.*\(4, 1\)"),
        ((np.ones((4, 2)), ITEMS, STARS), r"users: need one dimension"),
        ((USERS, ITEMS, 5), "ratings: need a sequence, got int"),
        ((USERS, ITEMS, [1, np.nan, 2, 3]), r"row 1 \(user 'v', item 10, rating nan\); .*drop"),
        ((USERS, ITEMS, [1, 2, 3, np.inf]), r"row 3 \(user 'w', item 20, rating inf\)"),
        ((USERS, ITEMS, [1, 2, None, 3]), r"row 2 \(user 'u', item 10, rating None\)"),
        ((USERS, ITEMS, STARS, [1, 2, 3, 4]), r"off.*row 0 \(user 'u', item 30, rating 5\)"),
        ((USERS, ITEMS, [1, 2, np.nan, 4], [1, 2, 3, 4]), r"finite.*row 2 \(user 'u'"),
        ((USERS, [1, None, 2, 3], STARS), r"items must not be missing: row 1 \(id None\)"),
        ((USERS, ITEMS, np.array(5)), r"ratings: need a sequence, got one value \(5\)"),
        ((USERS, ITEMS, STARS, "stars"), "not 'stars'"),
        ((USERS, ITEMS, STARS, 5), r"scale=5: need all levels.*scale=\[1, 2, 3, 4, 5\]"),
        (([1, [2], 3, 4], ITEMS, STARS), r"users must be hashable: row 1 \(id \[2\]\)"),
        ((USERS, ITEMS, STARS, None, "first"), "not 'first'"),
        ((USERS, ITEMS, np.ma.masked_array(STARS, [0, 1, 0, 0])), "row 1.*None"),
    ],
)
def test_what_is_wrong_is_said_with_its_row(arguments, message):
    with pytest.raises(RatingsError, match=message):
        Ratings(*arguments)


def test_duplicates_can_be_refused_and_are_counted():
    users, items, values = [1, 2, 1, 1], [7, 7, 7, 7], [1, 2, 3, 5]
    with pytest.raises(RatingsError, match=r"row 2 \(user 1, item 7\), row 3 \(user 1, item 7\);"):
        Ratings(users, items, values, duplicates="error")
    ratings = Ratings(users, items, values)
    assert ratings.n_duplicates == 2
    assert "2 duplicates" in repr(ratings)
    assert as_dict(ratings) == {(1, 7): 5, (2, 7): 2}


@pytest.mark.parametrize(
    ("scale", "values", "merged"),
    [([1, 2, 3, 4, 5], [2, 3], 3), ([0.1, 0.2, 0.4], [0.1, 0.2], 0.2), ([1, 2, 10], [2, 10], 10)],
)
def test_mean_of_duplicates_goes_up_from_halfway(scale, values, merged):
    ratings = Ratings([1, 1], [1, 1], values, scale, duplicates="mean")
    assert ratings.values.tolist() == [merged]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames_come_back(backend):
    ratings = Ratings(USERS, ITEMS, STARS)
    back = Ratings.from_frame(ratings.to_frame(backend))
    assert as_dict(back) == as_dict(ratings)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_ids_of_several_kinds_make_a_frame(backend):
    users = [1, "1", (2, 3), 4.5]
    back = Ratings.from_frame(Ratings(users, ITEMS, STARS).to_frame(backend))
    if backend == "pandas":
        assert back.users.ids == tuple(users)
    else:
        assert back.users.ids == ("1", "(2, 3)", "4.5")


def test_words():
    assert repr(Ratings(USERS, ITEMS, STARS)) == (
        "Ratings(4 by 3 users of 3 items, 44.4 % of all pairs; 5 levels: 1, 2, 3, 4, 5)"
    )


def test_importing_is_light():
    import subprocess
    import sys

    code = (
        "import sys, ordbm, ordbm.data.ratings, ordbm.datasets; ordbm.load_dataset; "
        "print(*{'numba', 'pandas', 'pyarrow', 'polars'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
