"""Features as tables: the paper's definitions, and what follows from them in level space."""

from __future__ import annotations

import numpy as np
import pytest

from ordbm.data.level_counts import log_frequencies
from ordbm.data.ratings import Ratings
from ordbm.data.standardiser import machine_ratings, standardiser_of
from ordbm.errors import SettingsError
from ordbm.model.features import features


def test_ordinal_features_are_the_papers() -> None:
    """f_down_t(s) = (t - s)[t < s] and f_up_t(s) = (t - s)[t > s], for t, s = 1…n (section 2.1)."""
    n = 5
    table = features("ordinal", n).single
    for s in range(1, n + 1):
        down = [(t - s) * (t < s) for t in range(1, n)]
        up = [(t - s) * (t > s) for t in range(2, n + 1)]
        np.testing.assert_array_equal(table[s - 1], down + up)


def test_left_out_features_vanish_everywhere() -> None:
    """Down at the top level and up at the bottom level are zero for every rating."""
    levels = np.arange(1, 8)
    assert not np.any((7 - levels) * (levels > 7))
    assert not np.any((1 - levels) * (levels < 1))


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_every_level_table_is_reachable(n: int) -> None:
    """Ordinal and categorical machines are the same family: both tables have full rank."""
    for kind in ("ordinal", "categorical"):
        assert np.linalg.matrix_rank(features(kind, n).single) == n


def test_pair_features() -> None:
    s = np.arange(4)
    np.testing.assert_array_equal(features("ordinal", 4).pair[0], np.abs(s[:, None] - s[None, :]))
    np.testing.assert_array_equal(features("categorical", 4).pair[0], s[:, None] == s[None, :])
    assert features("gaussian", 4).pair.shape == (1, 1, 1)


def test_smoothing_moves_near_levels_alike() -> None:
    """A step on one level moves its neighbours more than far levels."""
    smoothing = features("ordinal", 5).smoothing
    assert np.all(np.diff(smoothing[0]) < 0)
    np.testing.assert_allclose(smoothing, smoothing[::-1, ::-1])
    np.testing.assert_array_equal(features("categorical", 5).smoothing, np.eye(5))


@pytest.mark.parametrize(("n_levels", "n_groups"), [(100, 12), (21, 12), (5, 5), (7, 3), (4, 9)])
def test_groups_are_runs_of_levels_of_about_the_same_length(n_levels: int, n_groups: int) -> None:
    table = features("ordinal", n_levels, n_groups)
    lengths = np.bincount(table.group)
    assert np.all(np.diff(table.group.astype(int)) >= 0)
    assert len(lengths) == table.n_groups == min(n_levels, n_groups)
    assert lengths.max() - lengths.min() <= 1
    np.testing.assert_array_equal(table.of_group, features("ordinal", table.n_groups).single)
    np.testing.assert_array_equal(table.coupling, table.of_group[table.group])
    full = features("ordinal", n_levels)
    np.testing.assert_array_equal(table.single, full.single)
    np.testing.assert_array_equal(table.pair, full.pair)
    np.testing.assert_array_equal(full.coupling, full.single)


def test_levels_without_an_order_have_no_groups() -> None:
    assert features("categorical", 30, 12).n_groups == 30


def test_unknown_kind_names_the_remedy() -> None:
    with pytest.raises(SettingsError, match="categorical, ordinal, gaussian"):
        features("cardinal", 5)


def test_one_level() -> None:
    for kind in ("ordinal", "categorical", "gaussian"):
        assert features(kind, 1).single.shape == (1, 1)


def test_standard_units() -> None:
    """The paper's unit gives N(0, 1); the residual unit is what two means leave unexplained."""
    rng = np.random.default_rng(0)
    users, items = np.divmod(np.arange(60 * 40), 40)
    effect = rng.normal(0, 1, 60)[users] + rng.normal(0, 1, 40)[items]
    ratings = Ratings(users, items, effect + rng.normal(0, 0.5, len(users)), scale="continuous")
    whole = machine_ratings(ratings, standardiser_of(ratings)).by_user.value
    np.testing.assert_allclose([whole.mean(), whole.std()], [0, 1], atol=1e-5)
    assert standardiser_of(ratings, 10.0).deviation == pytest.approx(0.5, rel=0.15)
    constant = Ratings(["a", "b"], ["x", "x"], [3.0, 3.0], scale="continuous")
    assert standardiser_of(constant, 10.0).deviation == 1.0


def test_gaussian_encoding_keeps_both_orientations_alike() -> None:
    ratings = Ratings([1, 1, 2, 3], ["a", "b", "a", "b"], [1, 5, 3, 4], scale=[1, 2, 3, 4, 5])
    by_user, by_item = machine_ratings(ratings, standardiser_of(ratings))
    np.testing.assert_array_equal(by_item.value, by_user.value[by_item.in_transpose])
    assert not by_user.level.any()
    discrete = machine_ratings(ratings, None)
    assert discrete.by_user is ratings.by_user


def test_log_frequencies_know_unseen_levels() -> None:
    shares = np.exp(log_frequencies(np.array([0, 0, 2]), 4))
    assert shares.sum() == pytest.approx(1)
    assert shares[1] == shares[3] > 0
    np.testing.assert_array_equal(log_frequencies(np.array([0, 0]), 1), [0])
