"""What columns own after ratings that came and went, against finite differences and fold-in."""

from itertools import product

import numpy as np
import pytest

import referee
from newcomers import row_of
from ordbm.data.csr import CSRPair
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.inference.fold_in import OwnPrior, fold_in_machine
from ordbm.model.machine import Machine
from ordbm.priors.response_styles import BiasPrior
from ordbm.updates.column_steps import ColumnRules, fit_columns, step_biases

PRECISION, BIAS_PRECISION, BIAS_CURVATURE = 1.5, 0.7, 0.2
CASES = [one for one in referee.COMBINATIONS if one[1] == "joint"]


def prior_of(machine, number):
    n = len(machine.level_bias)
    return OwnPrior.of(machine, PRECISION, 1.0, BiasPrior(np.eye(n), BIAS_PRECISION), number)


def rules_of(machine, number, change=None):
    side = machine.sides[number]
    n = len(machine.level_bias)
    typical = np.tile(side.unknown_bias, (side.n_columns, 1))
    change = np.zeros_like(typical) if change is None else change
    couplings = {column: np.zeros((n, side.n_hidden)) for column in range(side.n_columns)}
    curvature = curvature_of(machine, number)
    return ColumnRules(prior_of(machine, number), curvature, typical, change, couplings)


def curvature_of(machine, number):
    return BIAS_CURVATURE * machine.features.curvature(machine.sides[number].n_hidden)


def by_column(ratings, number, places):
    """Where ratings at places by user stand among those of a side's columns."""
    return places if number else ratings.by_user.in_transpose[places]


def transposed(machine):
    return Machine(machine.features, machine.level_bias, machine.item_side, machine.user_side)


def log_probability(machine, ratings, place):
    """log P of the rating at a place given all others; a Gaussian one's is by mean field."""
    found, by_user = ConditionedMachine(machine, ratings, 1), ratings.by_user
    pair = by_user.row[[place]], by_user.column[[place]]
    if not machine.features.is_gaussian:
        scores = found.pair_scores(*pair)[0].astype(float)
        return scores[by_user.level[place]] - np.logaddexp.reduce(scores)
    mean = float(found.pair_scores(*pair, "mean_field")[0, 0])
    return -0.5 * (float(by_user.value[place]) - mean) ** 2


@pytest.mark.parametrize(("kind", "sides", "links"), CASES)
@pytest.mark.parametrize("number", [0, 1])
def test_a_step_follows_the_gradient_of_what_came(kind, sides, links, number):
    """By finite differences of log P(the rating | all others) in the bias of its column."""
    case = referee.case(kind, sides, links)
    ratings = case.ratings
    places = np.array([0, 2])
    own = case.machine.sides[number].parameters
    change = np.linspace(-1, 1, own.rating_bias.size).reshape(own.rating_bias.shape)

    def objective():
        return sum(log_probability(case.machine, ratings, place) for place in places)

    gradient = referee.finite_differences(objective, own.rating_bias)
    moved = referee.copied(case.machine)
    rules = rules_of(moved, number, change)
    step_biases(moved, ratings, number, by_column(ratings, number, places), rules, back=False)
    count = np.diff(ratings[1 - number].start)[:, None]
    by_user = ratings.by_user
    news = np.unique((by_user.row if number else by_user.column)[places])
    expected = np.zeros_like(gradient)
    expected[news] = (gradient + BIAS_PRECISION * change)[news]
    expected /= BIAS_PRECISION + curvature_of(moved, number) * count
    after = moved.sides[number].parameters
    np.testing.assert_allclose(after.rating_bias - own.rating_bias, expected, atol=1e-6)
    np.testing.assert_array_equal(after.coupling, own.coupling)


@pytest.mark.parametrize(("kind", "sides", "links"), CASES)
@pytest.mark.parametrize("number", [0, 1])
def test_a_step_is_taken_back(kind, sides, links, number):
    case = referee.case(kind, sides, links)
    moved = referee.copied(case.machine)
    before = case.machine.sides[number].parameters.rating_bias
    rules = rules_of(moved, number, np.ones_like(before) * [[0.3]])
    for back in (False, True):
        places = by_column(case.ratings, number, np.array([1, 3, 4]))
        step_biases(moved, case.ratings, number, places, rules, back=back)
        after = moved.sides[number].parameters.rating_bias
        assert back or np.abs(after - before).max() > 0.05
    np.testing.assert_allclose(after, before, atol=1e-3)


@pytest.mark.parametrize(("case_", "number"), list(product(CASES, [0, 1])))
def test_a_new_column_is_fitted_as_a_fold_in_user_is(case_, number):
    """A new item is a new user of the transposed problem, a new user is one as it is."""
    kind, sides, links = case_
    case = referee.case(kind, sides, links)
    machine = referee.extended(case.machine)
    given = {0: 2.0, 2: 0.0} if number else {0: 2.0, 1: 1.0}
    table = np.full(np.add(case.table.shape, 1), np.nan)
    table[:-1, :-1] = case.table
    for other, rating in given.items():
        table[(-1, other) if number else (other, -1)] = rating
    new = machine.sides[number].n_columns - 1
    ratings = referee.orientations(table, machine)
    moved = referee.copied(machine)
    fit_columns(moved, ratings, number, np.array([new], np.int32), rules_of(moved, number))
    # The same by fold-in, from the ratings without the new column's.
    known = referee.orientations(case.table, case.machine)
    plain = case.machine if number else transposed(case.machine)
    conditioned = ConditionedMachine(plain, known if number else CSRPair(*known[::-1]), 1)
    rating = np.array(list(given.values()))
    told = {"value": rating} if case.machine.features.is_gaussian else {"level": rating}
    mean = np.zeros((len(machine.level_bias), machine.sides[number].n_hidden))
    found = fold_in_machine(
        conditioned, row_of(list(given), **told), prior_of(plain, 1), mean
    ).machine.item_side
    own = moved.sides[number].parameters
    np.testing.assert_allclose(own.coupling[new], found.parameters.coupling[0], atol=1e-5)
    np.testing.assert_allclose(own.rating_bias[new], found.parameters.rating_bias[0], atol=1e-5)
