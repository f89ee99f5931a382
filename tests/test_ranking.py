"""Ranking: potentials of the whole catalogue, -ΔE, top-n lists, and the paper's candidates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import referee
from ordbm.errors import SettingsError
from ordbm.inference.catalogue import Catalogue
from ordbm.inference.conditioned import ConditionedMachine, softmax
from ordbm.inference.top_n import top_columns, top_lists, unseen_scores
from ordbm.model.correlation import group_correlations
from ordbm.model.features import features
from ordbm.model.machine import Machine
from ordbm.model.neighbours import correlation_links
from ordbm.recommend.candidates import SIMILAR_SUPPORT, rated_by, similar_rows

STARS = np.arange(1.0, 4.0)


def evidence_of(case, threads=1):
    return ConditionedMachine(case.machine, case.ratings, threads)


def everyone(case):
    return np.arange(len(case.table), dtype=np.int32)


def unseen(case):
    return np.argwhere(np.isnan(case.table)).astype(np.int32).T


def large_case(kind, links="both", seed=0):
    """300 users, more than are ranked at once."""
    rng = np.random.default_rng(seed)
    shape = {"n_users": 300, "n_items": 12}
    machine = referee.random_machine(
        rng, kind, "joint", links, spread=0.3, hidden=(3, 4), dtype=np.float32, **shape
    )
    table = referee.random_table(rng, gaussian=kind == "gaussian", rated=0.3, **shape)
    return referee.Case(machine, referee.orientations(table, machine), table)


# Potentials and scores


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("kind", "sides", "links"), referee.COMBINATIONS)
def test_potentials_are_mean_field_scores(kind, sides, links, threads):
    case = referee.case(kind, sides, links)
    potential = Catalogue(evidence_of(case, threads)).potentials(everyone(case))
    users, items = unseen(case)
    expected = evidence_of(case).pair_scores(users, items, "mean_field")
    np.testing.assert_allclose(potential[:, users, items].T, expected, rtol=1e-9, atol=1e-12)
    by_hand = [
        referee.mean_field_scores(case.machine, case.table, user, item)
        for user, item in zip(users[-2:], items[-2:], strict=True)
    ]
    if kind != "gaussian":  # potentials are so only up to a constant
        expected, by_hand = softmax(expected), softmax(np.array(by_hand))
    np.testing.assert_allclose(expected[-2:], by_hand, rtol=1e-9)


@pytest.mark.parametrize(("kind", "sides", "links"), referee.DISCRETE)
def test_energy_score_is_the_expected_energy_decrease(kind, sides, links):
    case = referee.case(kind, sides, links)
    catalogue = Catalogue(evidence_of(case))
    energy = catalogue.scores(everyone(case), "energy")
    mean = catalogue.scores(everyone(case), "mean", STARS)
    for user, item in unseen(case).T:
        # -E_Q(r) is what the energy loses when the rating is added to the table.
        soft = [h[None] for h in referee.hidden_posterior(case.machine, case.table)]
        before = referee.negative_energy(case.machine, case.table, *soft)[0]
        decrease = np.array(
            [
                referee.negative_energy(
                    case.machine, referee.with_rating(case.table, user, item, level), *soft
                )[0]
                - before
                for level in range(3)
            ]
        )
        q = referee.softmax(decrease)
        assert energy[user, item] == pytest.approx(q @ decrease, abs=2e-5)  # a fast exp
        assert mean[user, item] == pytest.approx(q @ STARS, abs=2e-5)


def test_gaussian_energy_score_is_the_expected_energy_decrease():
    case = referee.case("gaussian", "joint", "both")
    catalogue = Catalogue(evidence_of(case))
    mean, energy = (catalogue.scores(everyone(case), by) for by in ("mean", "energy"))
    r = np.linspace(-12, 12, 4001)
    for user, item in unseen(case).T:
        m = mean[user, item]
        decrease = r * m - r**2 / 2  # of the rating itself, r given the hidden means
        density = np.exp(decrease) / np.exp(decrease).sum()
        assert energy[user, item] == pytest.approx(density @ decrease)
        expected = referee.mean_field_scores(case.machine, case.table, user, item)[0]
        assert m == pytest.approx(expected)


def test_larger_scores_mean_lower_energy():
    """Two items alike but for a potential that lowers the energy of the second by 3."""
    machine = Machine(
        features("ordinal", 3),
        np.zeros(3),
        referee.random_side(
            np.random.default_rng(0), features("ordinal", 3), 2, 1, (), has_bias=True, spread=0.0,
            link_spread=0.0, dtype=np.float64,
        ),
        None,
    )  # fmt: skip
    machine.user_side.parameters.rating_bias[1] = 3.0
    ratings = referee.orientations(np.full((1, 2), np.nan), machine)
    scores = Catalogue(ConditionedMachine(machine, ratings, 1)).scores(
        np.zeros(1, np.int32), "energy"
    )
    assert scores[0, 1] - scores[0, 0] == pytest.approx(3.0)


@pytest.mark.parametrize("kind", ["ordinal", "categorical"])
def test_energies_of_items_have_no_common_zero(kind):
    """A constant on all levels of an item changes no rating's distribution, and its energy alone.

    So any order by energy can be had from machines that predict the same.
    """
    case = referee.case(kind, "joint", "both")
    catalogue, users = Catalogue(evidence_of(case)), everyone(case)
    before = [catalogue.scores(users, by, STARS) for by in ("energy", "mean")]
    pairs = unseen(case)
    exact = softmax(evidence_of(case).pair_scores(*pairs))
    constant = np.linspace(-50.0, 50.0, case.table.shape[1])
    case.machine.user_side.parameters.rating_bias[...] += constant[:, None]
    energy, mean = (catalogue.scores(users, by, STARS) for by in ("energy", "mean"))
    np.testing.assert_allclose(energy - before[0], np.tile(constant, (len(users), 1)), atol=1e-4)
    np.testing.assert_allclose(mean, before[1], atol=1e-4)
    np.testing.assert_allclose(softmax(evidence_of(case).pair_scores(*pairs)), exact, atol=1e-9)
    assert (np.argsort(energy) == np.arange(len(constant))).all()


def test_unknown_way_to_rank():
    case = referee.case("ordinal", "user", "none")
    with pytest.raises(SettingsError, match="by='stars' is not known: use one of energy, mean"):
        Catalogue(evidence_of(case)).scores(everyone(case), "stars")


# Lists


@given(
    scores=st.integers(0, 9).flatmap(
        lambda columns: arrays(
            np.float32,
            (3, columns),
            elements=st.sampled_from([-np.inf, -1.5, 0.0, 0.25, 1.0, 2.0]),
        )
    ),
    n=st.integers(0, 12),
)
def test_best_is_a_stable_sort(scores, n):
    np.testing.assert_array_equal(
        top_columns(scores, n), np.argsort(-scores, axis=1, kind="stable")[:, :n]
    )


@pytest.mark.parametrize("kind", ["ordinal", "gaussian"])
@pytest.mark.parametrize("by", ["energy", "mean"])
def test_scores_do_not_depend_on_who_else_is_asked_about(kind, by):
    """Not in their last bits: one person's list is the same among everybody's."""
    case = large_case(kind)
    users = np.random.default_rng(1).permutation(everyone(case)).astype(np.int32)
    whole = Catalogue(evidence_of(case, threads=2)).scores(users, by, STARS)
    alone = Catalogue(evidence_of(case))
    for row in range(len(users)):
        np.testing.assert_array_equal(alone.scores(users[row : row + 1], by, STARS)[0], whole[row])
    for size in (2, 3, 7, 16, 65):
        np.testing.assert_array_equal(alone.scores(users[:size], by, STARS), whole[:size])


@given(st.integers(0, 15), st.integers(0, 99))
def test_top_is_a_full_sort_of_unseen_items(n, seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, (3, 12)).astype(np.float64)
    allowed = rng.random(12) < 0.7
    rated = [np.flatnonzero(rng.random(12) < 0.3) for _ in scores]
    found = list(top_lists(unseen_scores(scores, allowed, rated), n))
    for row, seen, (items, worth) in zip(scores, rated, found, strict=True):
        may = np.flatnonzero(allowed & ~np.isin(np.arange(12), seen))
        assert items.tolist() == sorted(may, key=lambda item: (-row[item], item))[:n]
        assert worth.tolist() == row[items].tolist()


# The paper's candidates


def pearson(table, row, other):
    both = ~np.isnan(table[row]) & ~np.isnan(table[other])
    x, y = table[row, both], table[other, both]
    if both.sum() < SIMILAR_SUPPORT or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan, both.sum()
    return np.corrcoef(x, y)[0, 1], both.sum()


@given(
    table=arrays(
        np.int8, st.tuples(st.integers(1, 7), st.integers(1, 6)), elements=st.integers(-1, 4)
    ),
    continuous=st.booleans(),
    n=st.integers(0, 8),
)
def test_similar_rows_are_by_pearson(table, continuous, n):
    table = np.where(table < 0, np.nan, table)
    machine = referee.random_machine(
        np.random.default_rng(0), "gaussian" if continuous else "ordinal", "user", n_levels=5
    )
    by_row, by_column = referee.orientations(table, machine)
    values = None if continuous else np.array([0.5, 1.0, 2.0, 3.5, 5.0])
    numbers = (
        table
        if continuous
        else np.where(np.isnan(table), np.nan, values[np.nan_to_num(table).astype(int)])
    )
    for row in range(len(table)):
        found = similar_rows(by_row, by_column, row, values, n)
        like = [
            (other, *pearson(numbers, row, other)) for other in range(len(table)) if other != row
        ]
        order = sorted(
            ((-round(r, 9), -shared, other) for other, r, shared in like if r > 1e-9),
        )
        assert found.tolist() == [other for *_, other in order[:n]]


@given(
    pairs=arrays(np.int8, st.tuples(st.integers(0, 12), st.just(2)), elements=st.integers(0, 4)),
    centre=st.sampled_from([0.0, -2.0, 0.25]),
)
def test_correlations_of_groups(pairs, centre):
    x, y = pairs.T + centre
    found, n = group_correlations(np.ones(len(x), np.int32), x, y, 3)
    assert n.tolist() == [0, len(x), 0]
    varied = len(x) > 1 and np.ptp(x) > 0 and np.ptp(y) > 0
    expected = np.corrcoef(x, y)[0, 1] if varied else 0.0
    np.testing.assert_allclose(found, [0.0, expected, 0.0], atol=1e-12)


def test_correlations_with_one_row_are_those_of_links():
    """One formula in NumPy, of one row with all others, and one compiled, of all pairs."""
    case = large_case("ordinal")
    by_user, by_item = case.ratings
    links = correlation_links(
        by_item, by_user, STARS, n_neighbours=300, shrinkage=0.0, min_support=SIMILAR_SUPPORT,
        threads=1,
    )  # fmt: skip
    for user in range(0, 300, 37):
        part = slice(links.start[user], links.start[user + 1])
        assert set(similar_rows(by_user, by_item, user, STARS, 300)) == set(links.neighbour[part])
        for other, edge in zip(links.neighbour[part], links.edge[part], strict=True):
            both = ~np.isnan(case.table[[user, other]]).any(axis=0)
            x, y = STARS[case.table[[user, other]][:, both].astype(int)]
            found, _ = group_correlations(np.zeros(len(x), np.int32), x, y, 1)
            assert found[0] == pytest.approx(links.similarity[edge], rel=1e-6)


def test_candidates_are_what_similar_users_rated():
    case = large_case("ordinal")
    by_user, by_item = case.ratings
    similar = similar_rows(by_user, by_item, 3, STARS, 2)
    expected = (~np.isnan(case.table[similar])).any(axis=0)
    np.testing.assert_array_equal(rated_by(by_user, similar, 12), expected)
    assert not rated_by(by_user, similar[:0], 12).any()
