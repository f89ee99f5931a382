from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordbm.data.scale import ContinuousScale, RatingScale
from ordbm.errors import RatingsError

distinct_levels = st.lists(
    st.integers(-100_000, 100_000).map(lambda cents: cents / 100),
    min_size=1,
    max_size=50,
    unique=True,
)


@given(distinct_levels)
def test_every_level_finds_itself_on_a_scale_with_any_gaps(levels):
    scale = RatingScale(levels)
    assert scale.values.tolist() == sorted(levels)
    codes = scale.codes(levels)
    assert codes.dtype == np.uint8
    assert scale.values[codes].tolist() == levels
    single = np.array(levels, np.float32)
    assert scale.codes(single).tolist() == codes.tolist()


@given(distinct_levels.filter(lambda levels: len(levels) > 1), st.data())
def test_what_lies_between_two_levels_is_off_the_scale(levels, data):
    scale = RatingScale(levels)
    below = data.draw(st.integers(0, len(scale) - 2))
    with pytest.raises(RatingsError, match=r"off the scale.*row 1 \(rating"):
        scale.codes([levels[0], scale.values[below : below + 2].mean()])


def test_labels_are_numbered_from_one():
    scale = RatingScale(["poor", "fair", "good"])
    assert scale.labels == ("poor", "fair", "good")
    assert scale.values.tolist() == [1, 2, 3]
    assert scale.codes(np.array(["good", "poor"])).tolist() == [2, 0]
    with pytest.raises(RatingsError, match=r"poor < fair < good.*row 1 \(rating 'Good'\)"):
        scale.codes(["good", "Good"])
    with pytest.raises(RatingsError, match=r"row 0 \(rating 3\)"):
        scale.codes([3])


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
        ([5, 1, 2], [1, 2, 3, 4, 5]),
        ([0.5, 1, 2, 3, 3.5, 4, 5, 4.5], np.arange(1, 11) / 2),
        ([10, 1, 2, 5, 6, 8], range(1, 11)),
        ([1, 5], [1, 5]),
        ([7], [7]),
        ([1, 2, 4, 8], [1, 2, 4, 8]),
        ([0, 0.1, 0.2, 0.1 + 0.2, 0.3], [0, 0.1, 0.2, 0.3]),
        ([-10, -9.5, -8.5], [-10, -9.5, -9, -8.5]),
        ([True, True], [0, 1]),
        (np.array([1, 3, 2], np.float32), [1, 2, 3]),
        ([Decimal("0.5"), Fraction(3, 2), 1], [0.5, 1, 1.5]),
    ],
    ids=str,
)
def test_inferred_levels(values, levels):
    scale = RatingScale.infer(values)
    np.testing.assert_allclose(scale.values, levels, rtol=1e-12)
    assert scale.codes(values).max() < len(scale)


@given(
    st.integers(1, 100),
    st.sampled_from([0.1, 0.25, 0.5, 1, 3]),
    st.integers(-20, 20),
    st.randoms(use_true_random=False),
)
def test_a_grid_more_than_half_seen_is_found_whole(n_levels, step, first, random):
    grid = [(first + k) * step for k in range(n_levels)]
    hidden = random.sample(grid[2:-1], min(len(grid[2:-1]), (n_levels - 1) // 2))
    seen = [level for level in grid if level not in hidden]
    np.testing.assert_allclose(RatingScale.infer(seen).values, grid, rtol=1e-9, atol=1e-9)


def test_over_a_hundred_distinct_values_are_continuous():
    values = np.random.default_rng(0).normal(3, 2, 500)
    scale = RatingScale.infer(values)
    assert scale.is_continuous
    assert scale == ContinuousScale(values.mean(), values.std())
    assert not RatingScale.infer(np.arange(100)).is_continuous
    assert RatingScale.infer(np.arange(101)).is_continuous
    assert ContinuousScale.of([4, 4]) == ContinuousScale(4, 1)


def test_large_numbers_close_together_stay_apart():
    seconds = 1.6e9 + np.arange(200)
    assert RatingScale.infer(seconds).is_continuous
    scale = RatingScale.infer(seconds[:5])
    assert scale.values.tolist() == seconds[:5].tolist()
    assert scale.codes(seconds[:5]).tolist() == [0, 1, 2, 3, 4]
    assert scale.nearest(seconds[:2] + 0.5).tolist() == [1, 2]


def test_bins_are_closed_below_and_the_last_one_above():
    scale = RatingScale.bins([0, 10, 60, 600])
    assert scale.values.tolist() == [5, 35, 330]
    assert scale.codes([0, 9.99, 10, 59, 60, 600]).tolist() == [0, 0, 1, 1, 2, 2]
    for outside in (-0.01, 600.01):
        with pytest.raises(RatingsError, match=r"off the scale.*3 bins"):
            scale.codes([outside])


@pytest.mark.parametrize(
    ("mean", "level"), [(1.49, 0), (1.5, 1), (2.5, 1), (3.5, 2), (99, 2), (-99, 0)]
)
def test_nearest_level_goes_up_from_halfway(mean, level):
    assert RatingScale([1, 2, 5]).nearest(np.array([mean])).tolist() == [level]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RatingScale([]), "at least one"),
        (lambda: RatingScale([1, 1, 2]), "distinct"),
        (lambda: RatingScale(["a", "b", "a"]), "distinct, got a, b, a; leave out"),
        (lambda: RatingScale(5), "levels: need a sequence, got int"),
        (lambda: RatingScale("abc"), "levels: got one string"),
        (lambda: RatingScale([1, float("nan")]), "finite"),
        (lambda: RatingScale([1, "good"]), r"text.*row 1 \(level 'good'\); give numbers only"),
        (lambda: RatingScale([1, 1e200]), r"too large.*row 1 \(level 1e\+200\)"),
        (lambda: RatingScale(range(256)), "1 to 255 levels"),
        (lambda: RatingScale.bins(5), "edges: need a sequence, got int"),
        (lambda: RatingScale.bins(["a", "b"]), r"row 0 \(edge 'a'\).*give numbers only"),
        (lambda: RatingScale.bins([0, [1]]), r"edges must be real.*row 1 \(edge \[1\]\)"),
        (lambda: RatingScale.bins([-1e308, 1.7e308]), "edges beyond 1e.150 are too large"),
        (lambda: RatingScale.bins([1]), "at least two"),
        (lambda: RatingScale.bins([1, 3, 2]), "strictly increasing"),
        (lambda: RatingScale.bins([0, float("inf")]), "finite"),
        (lambda: RatingScale.infer([]), "at least one"),
        (lambda: RatingScale.infer(["4.5", "3"]), r"row 0 \(rating '4.5'\).*float\(\)"),
        (lambda: RatingScale.infer(["good", "poor"]), r'scale=\["poor", "fair", "good"\]'),
        (lambda: RatingScale.infer([1, 1j]), r"real numbers: row 1 \(rating 1j\)"),
        (lambda: RatingScale.infer([1, None, 3]), r"finite numbers: row 1 \(rating None\)"),
        (lambda: RatingScale.infer([1, 10**400]), "finite numbers: row 1"),
        (lambda: ContinuousScale.of([1, -1e200]), r"overflow: row 1 \(rating -1e\+200\).*divide"),
        (lambda: RatingScale([1, 2]).codes([1, 2, 3]), r"row 2 \(rating 3\)"),
        (lambda: RatingScale([1, 2]).codes([9] * 9), "row 4.*; 9 in all"),
    ],
)
def test_what_is_wrong_is_said(make, message):
    with pytest.raises(RatingsError, match=message):
        make()


def test_equality_and_words():
    assert RatingScale([1, 2]) == RatingScale((2, 1)) != RatingScale([1, 3])
    assert RatingScale([1, 2]) != RatingScale(["1", "2"])
    assert hash(RatingScale([1, 2])) == hash(RatingScale([2, 1]))
    for scale in (RatingScale([1, 2.5]), RatingScale(["a", "b"]), RatingScale.bins([0, 1, 4])):
        assert eval(repr(scale), {"RatingScale": RatingScale}) == scale
    with pytest.raises(ValueError, match="read-only"):
        RatingScale([1, 2]).values[0] = 9


def test_levels_without_a_middle_are_not_distinct():
    with pytest.raises(RatingsError, match="must be distinct"):
        RatingScale([0, 5e-324])


def test_ratings_lost_beside_a_huge_one_are_an_error():
    with pytest.raises(RatingsError, match=r"0\.5, 5 cannot be told apart beside one of 1e\+31"):
        RatingScale.infer([0.5, 5, 1e31])
    assert len(RatingScale.infer([0.1 + 0.2 - 0.3, 0, 1, 0.5])) == 3


def test_how_far_from_a_level_a_rating_may_be():
    """A millionth of the largest level, the end included, or a quarter of the closest two."""
    scale = RatingScale([0, 1])
    assert scale.codes([1e-6, 0.0]).tolist() == [0, 0]
    with pytest.raises(RatingsError, match="row 0"):
        scale.codes([1.01e-6])
    close = RatingScale([0, 2**-20, 2**10])  # a millionth of 1024 is far beyond the second level
    assert close.codes([2**-22, 2**-20 + 2**-22]).tolist() == [0, 1]
    with pytest.raises(RatingsError, match="row 0"):
        close.codes([2**-20 + 2**-21])


def test_halfway_is_the_higher_level_up_to_rounding():
    """From a billionth of the largest level before it, or a millionth of the closest two."""
    assert RatingScale([0, 1]).nearest(np.array([0.5, 0.5 - 0.9e-9, 0.5 - 1.5e-9])).tolist() == [
        1, 1, 0,
    ]  # fmt: skip
    close = RatingScale([999, 999.001, 1000])  # a millionth of 0.001 is less than one of 1e-6
    middle = (999 + 999.001) / 2
    near = close.nearest(np.array([middle - 0.5e-9, middle - 5e-9]))
    assert near.tolist() == [1, 0]


def test_a_grid_is_found_in_single_precision():
    """Numbers of 24 bits are the further off their places, in steps, the more steps there are."""
    grid = np.arange(11, dtype=np.float32) / np.float32(10)
    assert RatingScale.infer(np.delete(grid, [5, 8])).n_levels == len(grid)
