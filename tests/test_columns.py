"""Which column is which and what a scale is are told in one place, to frames and files alike."""

import pandas as pd
import pytest

from ordbm import Ratings, RatingScale, read_ratings
from ordbm.data.columns import column_places
from ordbm.data.scale import ContinuousScale, given_scale, scale_for, scale_from_text
from ordbm.errors import RatingsError

ROWS = [(4, "a", 0, 7), (5, "b", 0, 8)]


def in_a_frame(names, _folder, **choices):
    return Ratings.from_frame(pd.DataFrame(ROWS, columns=names), **choices)


def in_text(names, folder, **choices):
    pd.DataFrame(ROWS, columns=names).to_csv(folder / "x.csv", index=False)
    return read_ratings(folder / "x.csv", **choices)


def in_parquet(names, folder, **choices):
    pd.DataFrame(ROWS, columns=names).to_parquet(folder / "x.parquet")
    return read_ratings(folder / "x.parquet", **choices)


@pytest.fixture(params=[in_a_frame, in_text, in_parquet])
def read(request, tmp_path):
    return lambda names, **choices: request.param(names.split(), tmp_path, **choices)


@pytest.mark.parametrize(
    ("names", "choices"),
    [
        ("rating item time user", {}),
        ("Stars Movie-ID time userId", {}),
        ("stars what time userId", {"item": "what"}),
        ("stars movie film userId", {"item": "movie"}),
        ("a b c d", {"user": "d", "item": "b", "rating": "a"}),
    ],
)
def test_columns_are_resolved_alike(read, names, choices):
    found = read(names, **choices)
    assert (found.users.ids, found.items.ids, found.values.tolist()) == ((7, 8), ("a", "b"), [4, 5])


@pytest.mark.parametrize(
    ("names", "choices", "wrong"),
    [
        ("stars movie film userId", {}, "columns 'movie', 'film' could all be the item: say which"),
        ("stars what time userId", {}, "cannot tell .*'stars', 'what', 'time', 'userId': .*say"),
        ("stars movie time userId", {"user": "who"}, "no column 'who'; the columns are 'stars', '"),
        ("stars movie time userId", {"user": "movie", "item": "movie"}, "cannot be two things"),
    ],
)
def test_columns_are_refused_alike(read, names, choices, wrong):
    with pytest.raises(RatingsError, match=wrong):
        read(names, **choices)


def test_a_frame_whose_columns_are_numbers():
    frame = pd.DataFrame(ROWS, columns=[3, 2, 1, 0])
    assert Ratings.from_frame(frame, user=0, item=2, rating=3).users.ids == (7, 8)


def test_columns_have_places():
    names = ["rating", "item", "user"]
    roles = ("user", "item", "rating")
    assert column_places(names, dict.fromkeys(roles)) == [2, 1, 0]
    assert column_places(names, {"user": 0, "item": 1}) == [0, 1]
    with pytest.raises(RatingsError, match="user=3 is not a column: there are 3, numbered from 0"):
        column_places(names, {"user": 3, "item": 1})


def test_a_scale_is_given_or_told_by_the_ratings():
    assert given_scale(None) is given_scale("continuous") is None
    assert given_scale([1, 2]) == RatingScale([1, 2])
    assert scale_for([1, 3, 5], None) == RatingScale([1, 3, 5])
    assert scale_for([1, 3], [1, 2, 3]) == RatingScale([1, 2, 3])
    assert scale_for([1, 3], "continuous") == ContinuousScale(2.0, 1.0)
    for wrong in ("stars", 5):
        with pytest.raises(RatingsError, match="scale"):
            given_scale(wrong)


def test_a_scale_in_one_line():
    for text, levels in {"1, 2,5": [1, 2, 5], "poor, good": ["poor", "good"]}.items():
        assert given_scale(scale_from_text(text)) == RatingScale(levels)
    assert given_scale(scale_from_text("bins:0,10,60")) == RatingScale.bins([0, 10, 60])
    assert scale_from_text("continuous") == "continuous"
    with pytest.raises(RatingsError, match="bins:a,b: the edges of bins must be numbers"):
        scale_from_text("bins:a,b")
