"""Scores of lists, against trec_eval, scikit-learn and hand-worked examples."""

from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from ordbm.errors import OrdbmError
from ordbm.metrics.ranking import (
    half_life_sums,
    half_life_utility,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)

POSITIONS = 12
CUTS = (1, 5, 10)


@st.composite
def judged_lists(draw):
    """(graded gains of listed items, gains of all relevant items): relevant ones may be missed."""
    n_users = draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    grades = random.integers(0, 4, (n_users, 20)) * (random.random((n_users, 20)) < 0.3)
    grades[:, 0] = 1  # at least one relevant item each
    lists = np.array([random.permutation(20)[:POSITIONS] for _ in range(n_users)])
    return np.take_along_axis(grades, lists, axis=1), grades, lists


def trec(grades, lists, measures):
    """{measure: one value per user} by trec_eval."""
    truth = {
        f"u{user}": {f"i{item}": int(grade) for item, grade in enumerate(row)}
        for user, row in enumerate(grades)
    }
    run = {
        f"u{user}": {f"i{item}": float(POSITIONS - place) for place, item in enumerate(row)}
        for user, row in enumerate(lists)
    }
    found = pytrec_eval.RelevanceEvaluator(truth, measures).evaluate(run)
    names = found["u0"]
    return {name: [found[f"u{user}"][name] for user in range(len(lists))] for name in names}


@given(judged_lists())
def test_trec_eval_gives_the_same(judged):
    gains, grades, lists = judged
    cuts = ",".join(map(str, CUTS))
    expected = trec(
        grades, lists, {f"P.{cuts}", f"recall.{cuts}", f"ndcg_cut.{cuts}", "recip_rank"}
    )
    hits, n_relevant = gains > 0, (grades > 0).sum(axis=1)
    for n in CUTS:
        np.testing.assert_allclose(precision(hits, n), expected[f"P_{n}"])
        np.testing.assert_allclose(recall(hits, n_relevant, n), expected[f"recall_{n}"])
        np.testing.assert_allclose(ndcg(gains, grades, n), expected[f"ndcg_cut_{n}"])
    np.testing.assert_allclose(reciprocal_rank(hits), expected["recip_rank"])


@given(judged_lists())
def test_binary_ndcg_is_that_of_trec_eval(judged):
    gains, grades, lists = judged
    expected = trec((grades > 0).astype(int), lists, {"ndcg_cut.10"})["ndcg_cut_10"]
    np.testing.assert_allclose(ndcg(gains > 0, grades > 0, 10), expected)


@given(st.integers(0, 2**32), st.integers(1, 8))
def test_ndcg_of_whole_rankings_is_that_of_scikit_learn(seed, n):
    random = np.random.default_rng(seed)
    grades, scores = random.integers(0, 5, (3, 8)), random.random((3, 8))
    grades[:, 0] = 2
    listed = np.take_along_axis(grades, np.argsort(-scores, axis=1), axis=1)
    assert ndcg(listed, grades, n).mean() == pytest.approx(ndcg_score(grades, scores, k=n))


def test_half_life_utility_by_hand():
    """α = 5: positions weigh 1, 2^-1/4, 2^-1/2, 2^-3/4, 1/2: after α − 1 = 4 more, half."""
    weight = 2.0 ** (-np.arange(5) / 4)
    assert weight[4] == 0.5
    hits = [[1, 0, 0, 0, 1], [0, 1, 0, 0, 0]]
    utility, best = half_life_sums(hits, [2, 3])
    np.testing.assert_allclose(utility, [1.5, weight[1]])
    np.testing.assert_allclose(best, [weight[:2].sum(), weight[:3].sum()])
    expected = 100 * (1.5 + weight[1]) / (weight[:2].sum() + weight[:3].sum())
    assert half_life_utility(hits, [2, 3]) == pytest.approx(expected)
    assert half_life_utility(hits, [2, 3]) != pytest.approx(100 * np.mean(utility / best))


def test_the_best_list_has_all_of_the_utility_and_a_short_one_does_not():
    assert half_life_utility([[1, 1, 1, 0]], [3]) == pytest.approx(100)
    assert half_life_utility([[1, 1]], [3]) < 80  # the best possible is not cut at two


def test_half_life_may_be_another():
    """α = 2: every position weighs half of the one before."""
    assert half_life_utility([[0, 1, 1]], [2], half_life=2) == pytest.approx(100 * 0.75 / 1.5)


def test_users_without_relevant_items_have_no_recall_and_no_ndcg():
    hits = [[0, 0], [1, 0]]
    np.testing.assert_array_equal(recall(hits, [0, 2], 2), [np.nan, 0.5])
    np.testing.assert_array_equal(ndcg(hits, [[0, 0], [1, 0]], 2), [np.nan, 1.0])
    assert half_life_utility(hits, [0, 1]) == pytest.approx(100)  # they weigh nothing


def test_short_and_empty_lists_miss():
    empty = np.zeros((2, 0))
    assert precision(empty, 5).tolist() == [0, 0]
    assert recall(empty, [1, 1], 5).tolist() == [0, 0]
    assert ndcg(empty, [[1], [1]], 5).tolist() == [0, 0]
    assert reciprocal_rank(empty).tolist() == [0, 0]
    assert half_life_utility(empty, [1, 1]) == 0
    assert precision([[1, 1]], 4).tolist() == [0.5]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: precision([[1, 0]], 0), "n=0"),
        (lambda: precision([[1, 2]], 1), "hits must be 0 or 1.*row 0"),
        (lambda: precision([1, 0], 1), "hits need two dimensions"),
        (lambda: precision([], 1), "hits need two dimensions"),
        (lambda: precision(np.zeros((0, 3)), 1), "no hits"),
        (lambda: recall([[1]], [1, 2], 1), "1 users, 2 counts"),
        (lambda: recall([[1]], [-1], 1), "must not be negative: row 0"),
        (lambda: ndcg([[-1.0]], [[1.0]], 1), "gains must be finite and not negative: row 0"),
        (lambda: ndcg([[np.nan]], [[1.0]], 1), "gains must be finite and not negative: row 0"),
        (lambda: ndcg([[1.0]], [[1.0], [1.0]], 1), "1 gains, 2 best"),
        (lambda: half_life_utility([[1]], [1], half_life=1), "half_life=1: must be above 1"),
        (lambda: half_life_utility([[0]], [0]), "no user has relevant items"),
    ],
)
def test_what_cannot_be_scored_is_an_error(ask, message):
    with pytest.raises(OrdbmError, match=message):
        ask()
