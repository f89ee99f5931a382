import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordbm import Ratings, hold_out, k_fold
from ordbm.data.split import given_n
from ordbm.errors import RatingsError, SettingsError

seeds = st.integers(0, 2**32)


@st.composite
def some_ratings(draw):
    pairs = draw(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), min_size=2, unique=True)
    )
    users, items = zip(*pairs, strict=True)
    return Ratings(users, items, [1 + (user + item) % 5 for user, item in pairs])


def pairs_of(ratings):
    return set(zip(ratings.user_codes.tolist(), ratings.item_codes.tolist(), strict=True))


def assert_parts(ratings, parts):
    """The parts are disjoint, make up the whole, and share ids and scale with it."""
    assert sum(map(len, parts)) == len(ratings)
    assert set().union(*map(pairs_of, parts)) == pairs_of(ratings)
    for part in parts:
        assert (part.users, part.items, part.scale) == (ratings.users, ratings.items, ratings.scale)


@given(some_ratings(), st.floats(0, 1), seeds)
def test_hold_out_takes_the_rounded_fraction_of_each_user(ratings, fraction, seed):
    train, test = hold_out(ratings, fraction, seed)
    assert_parts(ratings, (train, test))
    counts = np.diff(ratings.by_user.start)
    expected = [round(fraction * int(count)) for count in counts]
    assert np.diff(test.by_user.start).tolist() == expected


@given(some_ratings(), seeds)
def test_hold_out_by_item_and_by_rating(ratings, seed):
    _, test = hold_out(ratings, 0.5, seed, by="item")
    counts = np.diff(ratings.by_item.start)
    assert np.diff(test.by_item.start).tolist() == [round(0.5 * int(count)) for count in counts]
    assert len(hold_out(ratings, 0.5, seed, by="rating")[1]) == round(0.5 * len(ratings))


@given(some_ratings(), st.integers(2, 6), seeds)
def test_every_rating_is_tested_in_one_fold(ratings, folds, seed):
    folds = min(folds, len(ratings))
    parts = list(k_fold(ratings, folds, seed))
    assert len(parts) == folds
    assert_parts(ratings, [test for _, test in parts])
    for train, test in parts:
        assert_parts(ratings, (train, test))
    by_user = np.array([np.diff(test.by_user.start) for _, test in parts])
    assert np.all(by_user.max(axis=0) - by_user.min(axis=0) <= 1)
    assert max(len(test) for _, test in parts) - min(len(test) for _, test in parts) <= 1


@pytest.mark.parametrize("seed", range(10))
def test_no_fold_is_empty_with_one_rating_per_user(seed):
    tests = [test for _, test in k_fold(Ratings([1, 2, 3], [1, 1, 2], [1, 2, 3]), 3, seed)]
    assert [len(test) for test in tests] == [1, 1, 1]


@given(some_ratings(), st.integers(0, 10), seeds)
def test_given_n_leaves_n_of_each_user(ratings, n, seed):
    train, test = given_n(ratings, n, seed)
    assert_parts(ratings, (train, test))
    counts = np.diff(ratings.by_user.start)
    assert np.diff(train.by_user.start).tolist() == np.minimum(n, counts).tolist()


@pytest.mark.parametrize(
    "split",
    [
        hold_out,
        lambda r, seed: given_n(r, 10, seed),
        lambda r, seed: next(iter(k_fold(r, seed=seed))),
    ],
)
def test_the_seed_decides(split):
    ratings = Ratings(np.repeat(np.arange(20), 50), np.tile(np.arange(50), 20), [3] * 1000)
    first, again, other = (pairs_of(split(ratings, seed=seed)[1]) for seed in (1, 1, 2))
    assert first == again != other


def test_the_draw_is_fair():
    """Each item is held out about as often: 50 chi-square terms, p > 1e-6 under fairness."""
    ratings = Ratings(np.repeat(np.arange(400), 50), np.tile(np.arange(50), 400), [3] * 20_000)
    held_out = np.diff(hold_out(ratings, 0.2, seed=3)[1].by_item.start)
    chi_square = np.sum((held_out - 80) ** 2) / (80 * 0.8)
    assert chi_square < 115


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (lambda r: hold_out(r, 1.5), "fraction must be a number between 0 and 1, not 1.5"),
        (lambda r: hold_out(r, "a"), "fraction must be a number between 0 and 1, not 'a'"),
        (lambda r: hold_out(r, None), "not None"),
        (lambda r: hold_out(r, float("nan")), "not nan"),
        (lambda r: hold_out(r, seed=-1), "seed=-1: must be a whole number, 0 or more"),
        (lambda r: hold_out(r, seed="a"), "seed='a'"),
        (lambda r: hold_out(r, seed=None), "seed=None"),
        (lambda r: hold_out(r, by="film"), "not 'film'"),
        (lambda r: k_fold(r, 1), "folds=1: must be a whole number, 2 or more"),
        (lambda r: k_fold(r, 4), r"folds=4 is more than there are ratings \(3\).*fewer folds"),
        (lambda r: k_fold(r, 2.5), "folds=2.5"),
        (lambda r: k_fold(r, "2"), "folds='2'"),
        (lambda r: k_fold(r, 2, seed=-1), "seed=-1"),
        (lambda r: k_fold(r, 2, seed=0.5), "seed=0.5"),
        (lambda r: given_n(r, -1), "n=-1: must be a whole number, 0 or more"),
        (lambda r: given_n(r, 1.5), "n=1.5"),
        (lambda r: given_n(r, "a"), "n='a'"),
        (lambda r: given_n(r, 1, seed=-1), "seed=-1"),
    ],
)
def test_settings_out_of_range_are_refused(split, message):
    with pytest.raises(SettingsError, match=message):
        split(Ratings([1, 1, 2], [1, 2, 1], [1, 2, 3]))


@pytest.mark.parametrize("split", [hold_out, k_fold, lambda thing: given_n(thing, 1)])
@pytest.mark.parametrize("thing", [pd.DataFrame({"user": [1]}), [(1, 2)], None], ids=str)
def test_what_is_not_ratings_is_refused(split, thing):
    with pytest.raises(RatingsError, match=r"cannot tell which|not ratings|need ratings"):
        split(thing)
