"""Bootstrap intervals: what they cover, and that they resample users."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap as scipy_bootstrap

from ordbm.errors import OrdbmError
from ordbm.metrics import bootstrap
from ordbm.metrics.bootstrap import percentile_interval, resampled_ratios


def users(random, n):
    """Sums of squared errors of users who differ: mean error 1 per rating, and their counts."""
    count = random.integers(1, 20, n).astype(float)
    return count * random.gamma(4.0, 0.25, n), count


def test_intervals_cover_the_truth_as_often_as_they_say():
    random = np.random.default_rng(0)
    covered = 0
    for seed in range(300):
        total, weight = users(random, 80)
        low, high = percentile_interval(
            resampled_ratios(total[:, None], weight[:, None], 400, seed)[:, 0]
        )
        covered += low <= 1 <= high
    assert 0.90 <= covered / 300 <= 0.98  # three deviations of a binomial around 94 %


def test_scipy_finds_the_same_interval():
    values = np.random.default_rng(1).gamma(2.0, size=200)
    ours = percentile_interval(resampled_ratios(values[:, None], np.ones((200, 1)), 20_000)[:, 0])
    theirs = scipy_bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.03 * width)


def test_a_paired_difference_is_surer_than_two_scores():
    """Users differ far more from each other than the two models do."""
    random = np.random.default_rng(3)
    total, weight = users(random, 200)
    other = total * 1.05
    both = resampled_ratios(np.column_stack([total, other]), np.column_stack([weight, weight]))
    low, high = percentile_interval(both[:, 1] - both[:, 0])
    assert 0 < low < high
    alone = [percentile_interval(both[:, column]) for column in (0, 1)]
    assert alone[1][0] < alone[0][1]  # the single intervals overlap


def test_the_seed_decides_and_blocks_do_not(monkeypatch):
    total, weight = users(np.random.default_rng(4), 30)
    columns = total[:, None], weight[:, None]
    first, other = resampled_ratios(*columns, 50, seed=1), resampled_ratios(*columns, 50, seed=2)
    assert not np.array_equal(first, other)
    monkeypatch.setattr(bootstrap, "_DRAWS_AT_ONCE", 100)
    np.testing.assert_allclose(resampled_ratios(*columns, 50, seed=1), first)


def test_resamples_without_weight_are_left_out():
    found = resampled_ratios([[1.0], [0.0]], [[1.0], [0.0]], 100)
    assert np.isnan(found).any()
    assert percentile_interval(found[:, 0]) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: resampled_ratios([[1.0]], [[1.0], [1.0]]), "must be alike"),
        (lambda: resampled_ratios([1.0], [1.0]), r"totals must be \(users, scores\)"),
        (lambda: resampled_ratios(np.zeros((0, 1)), np.zeros((0, 1))), "totals must be"),
        (lambda: resampled_ratios([[np.nan]], [[1.0]]), "totals must be finite"),
        (lambda: resampled_ratios([[1.0]], [[1.0]], resamples=0), "resamples=0"),
        (lambda: resampled_ratios([[1.0]], [[1.0]], seed=-1), "seed=-1"),
        (lambda: percentile_interval([1.0, 2.0], level=95), "level=95"),
        (lambda: percentile_interval([np.nan]), "no resampled values"),
    ],
)
def test_what_has_no_interval_is_an_error(ask, message):
    with pytest.raises(OrdbmError, match=message):
        ask()
