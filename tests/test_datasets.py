import sys
from functools import cache
from importlib.resources import files

import numpy as np
import pytest

from cli_runs import answer, fault, json_answer
from ordbm import Ratings, RatingScale, load_dataset
from ordbm.datasets import embedded, filter_items, load_genres, load_titles, read_ratings
from ordbm.errors import SettingsError


def without_data_package(monkeypatch):
    """Make the package impossible to import, and forget what was read of it."""
    monkeypatch.setitem(sys.modules, "ordbm_movielens_small", None)
    monkeypatch.setattr(embedded, "_arrays", cache(embedded._arrays.__wrapped__))


def test_embedded_ratings_are_all_there():
    ratings = load_dataset("movielens-small")
    assert (len(ratings), ratings.n_users, ratings.n_items) == (100_004, 671, 9_066)
    assert ratings.n_duplicates == 0
    assert ratings.scale == RatingScale([0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5])
    assert all(type(item) is int for item in ratings.items)
    titles, genres = load_titles("movielens-small"), load_genres("movielens-small")
    assert len(titles) == len(genres) == 9_125
    assert set(ratings.items) <= set(titles)
    assert titles[1] == "Toy Story (1995)"
    assert titles[164979] == "Women of '69, Unboxed"
    assert "Comedy" in genres[1]


def test_embedded_ratings_are_those_of_the_archive(data_file):
    embedded, archive = load_dataset(), read_ratings(data_file("ml-latest-small-2016.zip"))
    assert (embedded.users, embedded.items, embedded.scale) == (
        archive.users,
        archive.items,
        archive.scale,
    )
    for ours, theirs in zip(embedded.by_user, archive.by_user, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_terms_are_beside_the_embedded_ratings():
    package = files("ordbm_movielens_small")
    assert "may redistribute the data set" in (package / "movielens-small.txt").read_text()
    assert (package / "movielens-small.npz").stat().st_size < 700_000


@pytest.mark.parametrize("load", [load_dataset, load_titles, load_genres])
def test_without_the_data_package_the_error_says_what_to_install(monkeypatch, load):
    without_data_package(monkeypatch)
    with pytest.raises(SettingsError, match=r'not installed: pip install "ordbm\[data\]"'):
        load("movielens-small")


@pytest.mark.parametrize(
    "command", [("demo",), ("fit", "movielens-small", "-o", "none.ordbm", "--quiet")]
)
def test_without_the_data_package_commands_say_what_to_install(monkeypatch, command):
    without_data_package(monkeypatch)
    assert 'not installed: pip install "ordbm[data]"' in fault(*command)


def test_data_list_says_whether_the_data_package_is_there(monkeypatch):
    assert json_answer("data", "list")[0]["installed"] is True
    without_data_package(monkeypatch)
    assert json_answer("data", "list")[0]["installed"] is False
    assert "ready to use" not in answer("data", "list")


def test_unknown_names_are_refused():
    with pytest.raises(SettingsError, match="'movielens-small'"):
        load_dataset("movielens-huge")


def test_filter_items_drops_rare_items_and_no_user():
    ratings = Ratings([1, 2, 3, 1, 4], ["a", "a", "b", "c", "c"], [1, 2, 3, 4, 5])
    part = filter_items(ratings, 2)
    assert part.items.ids == ("a", "c")
    assert part.users == ratings.users
    assert part.scale == ratings.scale
    assert part.item_codes.tolist() == [0, 1, 0, 1]
    assert part.values.tolist() == [1, 4, 2, 5]
    assert part.by_item.column.tolist() == [0, 1, 0, 3]


def test_movielens_1m_has_the_counts_of_the_paper(data_file):
    path = data_file("ml-1m.zip")
    ratings = read_ratings(path)
    assert (len(ratings), ratings.n_users, ratings.n_items) == (1_000_209, 6_040, 3_706)
    paper = filter_items(ratings, 20)
    assert (len(paper), paper.n_users, paper.n_items) == (995_492, 6_040, 3_043)
    assert paper.scale == RatingScale([1, 2, 3, 4, 5])
    assert np.diff(paper.by_item.start).min() >= 20


def test_movielens_100k_has_its_counts(data_file):
    ratings = read_ratings(data_file("ml-100k.zip"))
    assert (len(ratings), ratings.n_users, ratings.n_items) == (100_000, 943, 1_682)


def test_filmtrust_duplicates_are_counted(data_file):
    ratings = read_ratings(data_file("filmtrust.zip"))
    assert (len(ratings), ratings.n_users, ratings.n_items) == (35_494, 1_508, 2_071)
    assert ratings.n_duplicates == 3
    assert ratings.scale == RatingScale(np.arange(1, 9) / 2)


@pytest.mark.slow
def test_netflix_subset_has_the_counts_of_the_paper(data_file):
    ratings = read_ratings(data_file("netflix-3000.parquet"))
    counts = (len(ratings), ratings.n_users, ratings.n_items)
    assert counts == (13_641_183, 208_332, 3_000)
    assert ratings.scale == RatingScale([1, 2, 3, 4, 5])
