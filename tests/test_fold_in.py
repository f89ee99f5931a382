"""Somebody new, told by a handful of ratings: no training, the machine's own predictions."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import pearsonr

import ordbm
import referee
from newcomers import machines_for, row_of
from ordbm.datasets import filter_items
from ordbm.errors import LeftOutWarning, RatingsError
from ordbm.inference.conditioned import ConditionedMachine, softmax
from ordbm.inference.fold_in import OwnPrior, _root, fold_in_machine, user_part
from ordbm.model.learners import Priors
from ordbm.priors.fold_in_priors import FoldInPriors
from ordbm.priors.resolved import feature_unit
from ordbm.priors.response_styles import BiasPrior

COUPLING_PRECISION, BIAS_PRECISION = 1.5, 0.7
GIVEN = {0: 2.0, 2: 0.0, 3: 1.0}  # what the newcomer gave to which item
UNSEEN = 1


def bias_prior(machine, response_style_share=0.0):
    """Order of the levels, and levels alone."""
    smoothing = machine.features.smoothing
    smoothing = smoothing / np.trace(smoothing) * len(smoothing)
    blend = (1 - response_style_share) * smoothing + response_style_share * np.eye(len(smoothing))
    return BiasPrior(blend, BIAS_PRECISION)


def fold_in(case, given, *, prior=None, mean=None, precision=COUPLING_PRECISION, known=-1):
    items = np.array(list(given), np.int32)[::-1]  # in any order
    rating = np.array(list(given.values()))[::-1]
    gaussian = case.machine.features.is_gaussian
    row = row_of(items, value=rating) if gaussian else row_of(items, level=rating)
    conditioned, side = ConditionedMachine(case.machine, case.ratings, 1), case.machine.item_side
    if side is None:
        return user_part(conditioned, row, np.array([-1]))
    unit = feature_unit(case.machine.features.of_group, Priors())
    own = OwnPrior.of(case.machine, precision, unit, prior or bias_prior(case.machine))
    mean = np.zeros((len(case.machine.level_bias), side.n_hidden)) if mean is None else mean
    return fold_in_machine(conditioned, row, own, mean, known)


def asked(conditioned, user, items, method="exact"):
    items = np.array(items, np.int32)
    users = np.full(len(items), user, np.int32)
    if not conditioned.machine.features.is_gaussian:
        return softmax(conditioned.pair_scores(users, items, method))
    grid = np.tile(np.linspace(-3, 3, 13), (len(items), 1))
    return softmax(conditioned.pair_log_densities(users, items, grid))


def with_newcomer(case, side, given):
    """The machine and table with the newcomer as one more user, and one more item nobody rates."""
    machine = referee.extended(case.machine)
    table = np.full(np.add(case.table.shape, 1), np.nan)
    table[:-1, :-1] = case.table
    for item, rating in given.items():
        table[-1, item] = rating
    if side is not None:
        parameters = machine.item_side.parameters
        parameters.coupling[-1] = side.parameters.coupling[0]
        if len(parameters.rating_bias):
            parameters.rating_bias[-1] = side.parameters.rating_bias[0]
    return machine, table


def fitted_objective(machine, table):
    """The newcomer's log-likelihood: each rating given everything else (Gaussian: mean field)."""
    user = len(table) - 1
    total = 0.0
    for item, rating in GIVEN.items():
        if machine.features.is_gaussian:
            mean = referee.mean_field_scores(machine, table, user, item)[0]
            total -= (rating - mean) ** 2 / 2
        else:
            hidden = referee.configurations(machine, table, [user], [item])
            near = np.full_like(table, np.nan)
            near[user], near[:, item] = table[user], table[:, item]
            total += np.log(referee.conditional(machine, near, user, item, hidden)[int(rating)])
    return total


# A machine with a user side alone


@pytest.mark.parametrize(("kind", "links"), list(product(referee.KINDS, ["none", "items"])))
def test_same_ratings_same_predictions_on_the_user_side(kind, links):
    case = referee.case(kind, "user", links)
    for user, row in enumerate(case.table):
        rated = np.flatnonzero(~np.isnan(row))
        someone = fold_in(case, {item: row[item] for item in rated})
        known = ConditionedMachine(case.machine, case.ratings, 1)
        items = range(referee.N_ITEMS)  # own ratings are left out of both
        np.testing.assert_allclose(asked(someone, 0, items), asked(known, user, items), rtol=1e-9)


# A machine with an item side: the newcomer's parameters are fitted


@pytest.mark.parametrize("response_style_share", [0.0, 0.4])
@pytest.mark.parametrize(
    ("kind", "sides", "links"),
    list(product(referee.KINDS, ["item", "joint"], ["none", "both"])),
)
def test_fitted_parameters_are_the_most_probable(kind, sides, links, response_style_share):
    """Moving any feature's parameter by a little lowers the penalised likelihood, either way."""
    case = referee.case(kind, sides, links, hidden=(1, 2), spread=0.5)
    prior = bias_prior(case.machine, response_style_share)
    single = case.machine.features.single
    mean = single @ np.random.default_rng(3).normal(0.0, 0.5, (single.shape[1], 2))
    side = fold_in(case, GIVEN, prior=prior, mean=mean).machine.item_side
    scale = np.sqrt(len(single) / np.trace(single @ single.T))  # steps of one on average
    features = single * scale
    coupling = side.parameters.coupling[0]
    mean = np.pad(mean, [(0, 0), (0, coupling.shape[1] - 2)])
    gamma = np.linalg.pinv(features) @ (coupling - mean)
    variance, axes = np.linalg.eigh(prior.smoothing)  # the prior of the bias by its square root
    root = axes * np.sqrt(np.maximum(variance, 0))
    typical = case.machine.item_side.unknown_bias  # the mean of that prior
    beta = np.linalg.pinv(root) @ (side.parameters.rating_bias[0] - typical)

    def objective(gamma, beta):
        machine, table = with_newcomer(case, side, GIVEN)
        machine.item_side.parameters.coupling[-1] = mean + features @ gamma
        machine.item_side.parameters.rating_bias[-1] = typical + root @ beta
        penalty = COUPLING_PRECISION * (gamma**2).sum()
        penalty += BIAS_PRECISION * (beta**2).sum()
        return fitted_objective(machine, table) - penalty / 2

    step = 1e-4
    for level in range(len(beta)):
        move = np.zeros_like(beta)
        move[level] = step
        slope = (objective(gamma, beta + move) - objective(gamma, beta - move)) / (2 * step)
        assert abs(slope) < 2e-4
    for feature in range(len(gamma)):
        moves = [np.zeros_like(gamma) for _ in range(2)]
        for unit, move in enumerate(moves):
            move[feature, unit] = step
        slopes = [
            (objective(gamma + move, beta) - objective(gamma - move, beta)) / (2 * step)
            for move in moves
        ]
        assert np.abs(slopes).max() < 2e-4
    assert np.abs(gamma).max() > 1e-3


@pytest.mark.parametrize(("kind", "sides", "links"), referee.DISCRETE)
def test_predictions_are_of_the_machine_with_one_more_user(kind, sides, links):
    case = referee.case(kind, sides, links, hidden=(1, 1))
    someone = fold_in(case, GIVEN)
    machine, table = with_newcomer(case, someone.machine.item_side, GIVEN)
    user = len(table) - 1
    found = asked(someone, 0, range(referee.N_ITEMS))
    for item in range(referee.N_ITEMS):
        hidden = referee.configurations(machine, table)
        expected = referee.conditional(machine, table, user, item, hidden)
        np.testing.assert_allclose(found[item], expected, rtol=1e-8)


@pytest.mark.parametrize("gives", [{}, {0: 2.0}, {1: 0.0, 3: 2.0}])
@pytest.mark.parametrize(("kind", "links"), list(product(referee.KINDS, ["none", "items"])))
def test_a_known_user_who_says_more_is_one_whom_the_items_never_heard(kind, links, gives):
    """As if what they had said were told now, together with what is new."""
    case = referee.case(kind, "joint", links)
    user = 1
    row = case.table[user].copy()
    for item, rating in gives.items():
        row[item] = rating if row[item] != rating else 2.0 - rating
    said = {item: row[item] for item in np.flatnonzero(~np.isnan(row))}
    again = fold_in(case, said, known=user)
    table = case.table.copy()
    table[user] = np.nan
    without = case._replace(table=table, ratings=referee.orientations(table, case.machine))
    asked_items = range(referee.N_ITEMS)
    found = asked(again, 0, asked_items)
    if gives:
        expected = asked(fold_in(without, said), 0, asked_items)
    else:  # nothing new said, nothing moves
        expected = asked(ConditionedMachine(case.machine, case.ratings, 1), user, asked_items)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize(("kind", "sides", "links"), referee.COMBINATIONS)
def test_without_ratings_a_newcomer_is_a_stranger(kind, sides, links):
    case = referee.case(kind, sides, links)
    items = range(referee.N_ITEMS)
    stranger = asked(ConditionedMachine(case.machine, case.ratings, 1), -1, items)
    np.testing.assert_allclose(asked(fold_in(case, {}), 0, items), stranger, rtol=1e-9)


def test_a_tight_prior_keeps_the_newcomer_at_the_population():
    case = referee.case("ordinal", "item", "none")
    stranger = asked(ConditionedMachine(case.machine, case.ratings, 1), -1, [UNSEEN])
    still = bias_prior(case.machine)._replace(precision=1e9)
    tight = fold_in(case, GIVEN, precision=1e9, prior=still)
    loose = fold_in(case, GIVEN)
    np.testing.assert_allclose(asked(tight, 0, [UNSEEN]), stranger, rtol=1e-6)
    assert np.abs(asked(loose, 0, [UNSEEN]) - stranger).max() > 1e-3


# Through the front door, on real ratings


@pytest.fixture(scope="module")
def ratings():
    return filter_items(ordbm.load_dataset(), 60)


@pytest.fixture(scope="module")
def model(ratings):
    return ordbm.OrdinalBM(hidden=5, members=2, item_links=10, epochs=6).fit(ratings)


def test_predictions_for_a_newcomer_are_close_to_the_known_twins(ratings, model):
    by_user = ratings.by_user
    counts = np.diff(by_user.start)
    everything = []
    for user in np.flatnonzero((counts > 20) & (counts < 200))[:12].tolist():
        row = slice(by_user.start[user], by_user.start[user + 1])
        given = {
            ratings.items[item]: ratings.scale.values[level]
            for item, level in zip(by_user.column[row], by_user.level[row], strict=True)
        }
        listed = model.recommend(ratings=given, n=10_000)
        items = [line.item for line in listed]
        assert not set(items) & set(given)
        in_transpose = model.predict(ratings.users[user], items)
        mean = np.array([line.mean for line in listed])
        assert pearsonr(mean, in_transpose)[0] > 0.97
        everything.append(mean - in_transpose)
    assert np.sqrt(np.mean(np.concatenate(everything) ** 2)) < 0.1


def test_more_stars_for_an_item_lift_its_neighbours(model):
    star_wars, empire = 260, 1196
    low, high = (
        {line.item: line.mean for line in model.recommend(ratings={star_wars: r}, n=10_000)}
        for r in (0.5, 5.0)
    )
    assert high[empire] > low[empire]
    assert star_wars not in high


@pytest.mark.parametrize("by", ["energy", "mean"])
def test_nothing_given_or_an_unknown_user_is_the_prior(model, by):
    listed = model.recommend(ratings={}, n=20, by=by)
    assert listed == model.recommend(-1, n=20, by=by)
    expected = model.predict(-1, [line.item for line in listed])
    np.testing.assert_allclose([line.mean for line in listed], expected, rtol=1e-5)


def test_what_a_newcomer_cannot_say(model):
    with pytest.raises(RatingsError, match="item 'Solaris' is not in this model: leave it out"):
        model.recommend(ratings={260: 5, "Solaris": 5})
    with pytest.raises(RatingsError, match=r"off the scale .*item 260, rating 4\.2"):
        model.recommend(ratings={1196: 4, 260: 4.2})
    with pytest.raises(RatingsError, match=r"finite numbers: row 0 \(item 260, rating nan\)"):
        model.recommend(ratings={260: float("nan")})


@pytest.mark.parametrize(
    ("rating", "message"), [(float("inf"), "finite numbers: row 1"), ("good", "text, not numbers")]
)
def test_what_a_newcomer_cannot_say_on_a_continuous_scale(rating, message):
    rng = np.random.default_rng(0)
    numbers = ordbm.Ratings(rng.integers(0, 9, 200), rng.integers(0, 9, 200), rng.normal(size=200))
    model = ordbm.OrdinalBM(hidden=2, members=2, item_links=0, epochs=1).fit(numbers)
    assert len(model.recommend(ratings={1: 0.5, 2: -1.25}, n=3)) == 3
    with pytest.raises(RatingsError, match=message):
        model.recommend(ratings={1: 0.5, 2: rating})


def test_priors_of_a_fold_in_user_are_those_of_learning(model):
    """As they would be made anew from what was learnt."""
    state, priors = model._fitted, model.learner.priors
    found = FoldInPriors.of(state.machines, state.ratings, priors, 1)
    kept = state.fold_in_priors
    assert kept.precision == found.precision
    assert kept.unit == found.unit
    assert kept.bias.precision == found.bias.precision
    assert kept.bias.smoothing.tobytes() == found.bias.smoothing.tobytes()
    assert kept.read_by_row.tobytes() == found.read_by_row.tobytes()
    for mine, other in zip(kept.by_direction, found.by_direction, strict=True):
        assert mine.tobytes() == other.tobytes()


def test_couplings_are_smoothed_as_they_were_in_learning():
    """F' F with or without a unit of its own: steps, and priors, in that of the learner."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(30, size=400), rng.integers(20, size=400)
    ratings = ordbm.Ratings(users, items, rng.integers(1, 6, size=400), scale=[1, 2, 3, 4, 5])
    told = {"hidden": 3, "members": 1, "item_links": 0, "epochs": 2, "presence": False}
    units = {}
    for smoothed in (True, False):
        learner = ordbm.PseudoLikelihood(unit_smoothing=smoothed)
        model = ordbm.OrdinalBM(**told, learner=learner).fit(ratings)
        units[smoothed] = model._fitted.fold_in_priors.unit
    assert units[False] == 1.0
    table = model.machines[0].features.single
    assert units[True] == pytest.approx(np.sqrt(5 / np.trace(table @ table.T)))
    # A tighter prior in a larger unit is the same prior.
    plain = model._fitted.fold_in_priors
    scaled = plain._replace(unit=2.0, precision=4.0 * plain.precision)
    found = []
    for priors in (plain, scaled, plain._replace(unit=2.0)):
        model._fitted.fold_in_priors = priors
        (one,) = machines_for(model._fitted, {0: 5, 3: 1, 7: 4})
        found.append(one.machine.item_side.parameters.coupling)
    np.testing.assert_allclose(found[0], found[1], atol=2e-4)
    assert np.abs(found[0] - found[2]).max() > 1e-3


@pytest.mark.parametrize("sides", ["user", "joint"])
def test_items_nobody_has_rated_are_no_evidence(ratings, sides):
    """Their parameters are as they were drawn; they moved hidden units at random."""
    unrated = [ratings.items[code] for code in (3, 5)]
    rest = ratings.select(~np.isin(ratings.item_codes, (3, 5)))
    model = ordbm.OrdinalBM(sides=sides, hidden=5, members=1, epochs=1).fit(rest)
    given = {260: 5.0, 1196: 2.0}
    more = {unrated[0]: 0.5, **given, unrated[1]: 5.0}
    with pytest.warns(LeftOutWarning, match="nobody has rated item .* in this model: left out"):
        listed = model.recommend(ratings=more, n=10_000)
    assert listed == model.recommend(ratings=given, n=10_000)
    assert not {line.item for line in listed} & set(more)
    with pytest.warns(LeftOutWarning):
        found = model.explain(item=listed[0].item, ratings=more)
    assert found.parts == model.explain(item=listed[0].item, ratings=given).parts
    with pytest.raises(RatingsError, match="item 'Solaris' is not in this model"):
        model.recommend(ratings={**more, "Solaris": 5})


@pytest.mark.parametrize("unit", [1e-10, 1.0, 1e10])
def test_the_root_of_a_covariance_does_not_depend_on_the_unit(unit):
    wide = np.random.default_rng(0).normal(size=(5, 3))
    covariance = unit * wide @ wide.T
    root = _root(covariance)
    assert root.shape == (5, 3)
    np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-9, atol=1e-9 * unit)
