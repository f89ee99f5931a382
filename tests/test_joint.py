"""Several unseen ratings at once: enumeration of the whole energy, Gibbs, and the odd question."""

from itertools import product

import numpy as np
import pytest

import ordbm
import referee
from newcomers import row_of
from ordbm.errors import SettingsError
from ordbm.inference import joint
from ordbm.inference.conditioned import ConditionedMachine, softmax
from ordbm.inference.fold_in import OwnPrior, fold_in_machine
from ordbm.inference.joint import JointDistribution, joint_levels
from ordbm.inference.joint_question import AskedRow, Question
from ordbm.priors.response_styles import BiasPrior

# Of a user, of an item, mixed; some of these pairs are in the ratings, some are not.
QUESTIONS = {
    "user": [(0, 0), (0, 1), (0, 3)],
    "item": [(0, 0), (1, 0), (2, 0)],
    "mixed": [(0, 0), (0, 1), (1, 1), (2, 3)],
}
STRANGERS = [(-1, 0), (-1, 1), (-2, 0), (0, -1)]  # negative codes are users and items unknown
DRAWS = 20_000


def asked(case, pairs, **settings):
    users, items = np.array(pairs, np.int32).reshape(-1, 2).T
    return joint_levels(ConditionedMachine(case.machine, case.ratings, 1), users, items, **settings)


def joint_by_energy(machine, table, pairs):
    """P of every configuration of the asked ratings, by summing e^-E over all hidden states."""
    hidden = referee.configurations(machine, table)
    weight = []
    for levels in product(range(machine.features.n_levels), repeat=len(pairs)):
        changed = table.copy()
        for pair, level in zip(pairs, levels, strict=True):
            changed[pair] = level
        weight.append(referee.log_weight(machine, changed, hidden))
    return np.exp(weight - np.logaddexp.reduce(weight))


def normal_mixture(machine, table, pairs):
    """(weights, means, covariance): Gaussian asked ratings are normal given the hidden state.

    For a fixed state -E is c + a'v - v'Pv / 2 in the asked ratings v; a and P are read off by
    setting them to zero and one.
    """
    hidden = referee.configurations(machine, table)

    def at(*places):
        changed = table.copy()
        for place, pair in enumerate(pairs):
            changed[pair] = float(place in places)
        return referee.negative_energy(machine, changed, *hidden)

    n = len(pairs)
    zero = at()
    slope = np.stack([at(q) - zero + 0.5 for q in range(n)], axis=1)
    precision = np.eye(n)
    for q, other in product(range(n), repeat=2):
        if q != other:
            link = at(q, other) - at(q) - at(other) + zero
            precision[q, other] = -link[0]
    covariance = np.linalg.inv(precision)
    mean = slope @ covariance
    log_mass = zero + 0.5 * (slope * mean).sum(axis=1)
    return np.exp(log_mass - np.logaddexp.reduce(log_mass)), mean, covariance


def moments(weight, mean, covariance):
    centre = weight @ mean
    spread = mean - centre
    return centre, covariance + (spread * weight[:, None]).T @ spread


# Discrete ratings


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(("kind", "sides", "links"), referee.DISCRETE)
def test_enumeration_equals_the_whole_energy(kind, sides, links, question):
    case = referee.case(kind, sides, links, hidden=(1, 1))
    pairs = QUESTIONS[question]
    values, weight, exact = asked(case, pairs)
    assert exact
    assert values.tolist() == [list(c) for c in product(range(3), repeat=len(pairs))]
    expected = joint_by_energy(case.machine, case.table, pairs)
    np.testing.assert_allclose(weight, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("kind", "sides", "links"), referee.DISCRETE)
def test_strangers_are_themselves_in_all_their_ratings(kind, sides, links):
    case = referee.case(kind, sides, links, hidden=(1, 1))
    machine = referee.extended(referee.extended(case.machine))
    table = np.full(np.add(case.table.shape, 2), np.nan)
    table[:-2, :-2] = case.table
    _, weight, _ = asked(case, STRANGERS)
    # Only these users and items have hidden units that the asked ratings can move.
    hidden = referee.configurations(machine, table, [0, 3, 4], [0, 1, 5])
    expected = []
    for levels in product(range(3), repeat=len(STRANGERS)):
        changed = table.copy()
        for pair, level in zip(STRANGERS, levels, strict=True):
            changed[pair] = level
        expected.append(referee.log_weight(machine, changed, hidden))
    expected = np.exp(expected - np.logaddexp.reduce(expected))
    np.testing.assert_allclose(weight, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("kind", "sides", "links"), referee.DISCRETE)
def test_one_pair_is_the_exact_conditional(kind, sides, links):
    case = referee.case(kind, sides, links)
    pairs = np.array([*np.ndindex(referee.N_USERS, referee.N_ITEMS), (-1, 1), (2, -1), (-1, -1)])
    expected = softmax(ConditionedMachine(case.machine, case.ratings, 1).pair_scores(*pairs.T))
    for pair, conditional in zip(pairs, expected, strict=True):
        np.testing.assert_allclose(asked(case, [pair])[1], conditional, rtol=1e-9)


@pytest.mark.parametrize(("kind", "sides", "links"), referee.DISCRETE)
def test_own_ratings_are_left_out(kind, sides, links):
    case = referee.case(kind, sides, links)
    changed = case.table.copy()
    pairs = QUESTIONS["mixed"]
    for pair in pairs:
        changed[pair] = 2 - changed[pair]
    again = case._replace(ratings=referee.orientations(changed, case.machine), table=changed)
    np.testing.assert_allclose(asked(again, pairs)[1], asked(case, pairs)[1], rtol=1e-9)


@pytest.mark.parametrize(
    ("kind", "sides", "links", "question"),
    [
        ("ordinal", "joint", "both", "mixed"),
        ("ordinal", "user", "items", "user"),
        ("categorical", "joint", "none", "item"),
        ("categorical", "item", "users", "item"),
    ],
)
def test_gibbs_draws_what_enumeration_says(kind, sides, links, question):
    case = referee.case(kind, sides, links, spread=0.5)
    pairs = QUESTIONS[question]
    configurations, weight, _ = asked(case, pairs)
    values, share, exact = asked(case, pairs, limit=1, draws=DRAWS, seed=1)
    assert not exact
    assert values.shape == (DRAWS, len(pairs))
    np.testing.assert_allclose(share, 1 / DRAWS)
    code = values.astype(int) @ 3 ** np.arange(len(pairs))[::-1]
    frequency = np.bincount(code, minlength=len(weight)) / DRAWS
    # 200 chains of 100 draws. Even if only ten draws of a chain counted, a share would have this
    # deviation; the largest of up to 81 stays below 4.5 of them but for one run in two thousand.
    deviation = np.sqrt(weight * (1 - weight) / (DRAWS / 10))
    assert np.all(np.abs(frequency - weight) < 4.5 * deviation + 1e-4)
    assert configurations.shape == (3 ** len(pairs), len(pairs))


def test_gibbs_has_forgotten_its_start(monkeypatch):
    """Chains that need some thirty sweeps to leave where they start, one draw of each.

    Two linked pairs: their own potentials ask for level 0, their link for level 1 in both, and a
    chain has to flip one pair against both to get there. Two more share a hidden unit likewise.
    """
    monkeypatch.setattr(joint, "CHAINS", DRAWS)
    potential = np.tile([0.0, -3.5], (4, 1))
    together = np.array([[0.0, 0.0], [0.0, 11.0]])
    coupling = np.array([[[0.0], [7.0]], [[0.0], [7.0]]])
    shared = AskedRow(np.array([2, 3]), np.array([-5.0]), coupling)
    question = Question(potential, [shared], [(0, 1, together)])
    configurations, weight = joint._enumerate(question)
    values, share = joint._gibbs_levels(question, DRAWS, 0)
    np.testing.assert_allclose(share, 1 / DRAWS)
    both = [weight[(configurations[[q, q + 1]] == 1).all(axis=0)].sum() for q in (0, 2)]
    assert min(both) > 0.8
    for q, expected in zip((0, 2), both, strict=True):
        found = (values[:, [q, q + 1]] == 1).all(axis=1).mean()
        assert abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / DRAWS)


def test_gaussian_gibbs_has_forgotten_its_start(monkeypatch):
    """One hidden unit that a chain seldom turns on, and that is on most of the time."""
    monkeypatch.setattr(joint, "CHAINS", DRAWS)
    coupling, bias = 4.0, -6.0
    hidden = AskedRow(np.array([0]), np.array([bias]), np.array([[[coupling]]]))
    question = Question(np.zeros((1, 1)), [hidden], [])
    values, _ = joint._gibbs_gaussian(question, np.eye(1), DRAWS, 0)
    on = 1 / (1 + np.exp(-bias - coupling**2 / 2))  # the rating is N(coupling h, 1) given h
    assert on > 0.85
    variance = 1 + coupling**2 * on * (1 - on)
    assert abs(values.mean() - coupling * on) < 5 * np.sqrt(variance / DRAWS)
    assert abs(values.var() / variance - 1) < 0.1


def test_gibbs_sweeps_as_often_as_it_must(monkeypatch):
    """What is drawn after the start is forgotten is kept, round by round, and no more."""
    monkeypatch.setattr(joint, "BURN_IN", 3)
    case = referee.case("ordinal", "joint", "both")
    sweeps = []
    plain = joint._sample_states
    monkeypatch.setattr(joint, "_sample_states", lambda *a: sweeps.append(1) or plain(*a))
    asked(case, QUESTIONS["user"], limit=1, draws=401)
    n_pairs = len(QUESTIONS["user"])
    assert len(sweeps) == n_pairs * (1 + 3 + 3)  # the start, what is forgotten, 200 + 200 + 1


def test_gibbs_is_reproducible():
    case = referee.case("ordinal", "joint", "both")
    first, again, other = (
        asked(case, QUESTIONS["mixed"], limit=1, draws=500, seed=seed)[0] for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert asked(case, QUESTIONS["mixed"], limit=1, draws=7)[0].shape == (7, 4)


@pytest.mark.parametrize("kind", ["ordinal", "gaussian"])
def test_limit_decides_between_enumeration_and_draws(kind):
    case = referee.case(kind, "joint", "none")
    states = 25 if kind == "gaussian" else 3
    pairs = QUESTIONS["user"][:2]
    assert asked(case, pairs, limit=states**2)[2]
    assert not asked(case, pairs, limit=states**2 - 1, draws=10)[2]


# Gaussian ratings


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(("kind", "sides", "links"), referee.GAUSSIAN)
def test_points_equal_the_mixture_of_normals(kind, sides, links, question):
    case = referee.case(kind, sides, links, hidden=(1, 1))
    pairs = QUESTIONS[question][:3]
    found = JointDistribution(*asked(case, pairs))
    assert found.exact
    mean, covariance = moments(*normal_mixture(case.machine, case.table, pairs))
    np.testing.assert_allclose(found.mean(), mean, atol=1e-6)
    np.testing.assert_allclose(found.covariance(), covariance, atol=1e-6)


@pytest.mark.parametrize("links", ["none", "both"])
def test_gaussian_draws_equal_the_mixture_of_normals(links):
    case = referee.case("gaussian", "joint", links, hidden=(1, 1))
    pairs = QUESTIONS["mixed"]
    found = JointDistribution(*asked(case, pairs, draws=DRAWS, seed=2))
    assert not found.exact
    mean, covariance = moments(*normal_mixture(case.machine, case.table, pairs))
    # As above: no fewer than DRAWS / 10 draws count, so 4.5 deviations of a mean and of a product.
    deviation = np.sqrt(np.diag(covariance))
    error = 4.5 / np.sqrt(DRAWS / 10)
    assert np.all(np.abs(found.mean() - mean) < error * deviation)
    bound = error * np.sqrt(2) * np.outer(deviation, deviation)
    assert np.all(np.abs(found.covariance() - covariance) < bound)


def test_gaussian_own_values_are_left_out():
    case = referee.case("gaussian", "joint", "both")
    pairs = [(0, 0), (0, 1)]
    changed = case.table.copy()
    changed[0, :2] += 5.0
    again = case._replace(ratings=referee.orientations(changed, case.machine))
    for found, expected in zip(asked(again, pairs), asked(case, pairs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)  # ratings are kept as float32


@pytest.mark.parametrize("limit", [1, 20_000])
def test_links_too_strong_for_a_normal_distribution(limit):
    case = referee.case("gaussian", "user", "items")
    case.machine.user_side.parameters.link_weight[:] = 1.5
    with pytest.raises(SettingsError, match=r"links are too strong; ask for fewer"):
        asked(case, [(0, 0), (0, 1)], limit=limit)
    asked(case, [(0, 0), (0, 2)], limit=limit, draws=5)  # these two are not linked


# Questions of other kinds


def test_a_newcomers_ratings_jointly():
    case = referee.case("ordinal", "joint", "items")
    prior = BiasPrior(case.machine.features.smoothing, 1.0)
    someone = fold_in_machine(
        ConditionedMachine(case.machine, case.ratings, 1),
        row_of([1, 2], level=[2, 0]),
        OwnPrior.of(case.machine, 1.0, 1.0, prior),
        np.zeros((len(case.machine.level_bias), case.machine.item_side.n_hidden)),
    )
    users, items = np.zeros(3, np.int32), np.array([0, 1, 3], np.int32)
    for pair in range(3):
        single = joint_levels(someone, users[[pair]], items[[pair]])[1]
        expected = softmax(someone.pair_scores(users[[pair]], items[[pair]]))[0]
        np.testing.assert_allclose(single, expected, rtol=1e-9)
    assert joint_levels(someone, users, items)[1].sum() == pytest.approx(1)


@pytest.mark.parametrize("kind", ["ordinal", "gaussian"])
def test_nothing_asked(kind):
    values, weight, exact = asked(referee.case(kind, "joint", "none"), [])
    assert (values.shape, weight.tolist(), exact) == ((1, 0), [1.0], True)


def test_a_pair_asked_twice():
    case = referee.case("ordinal", "joint", "none")
    with pytest.raises(SettingsError, match="asked for more than once: ask for each pair once"):
        asked(case, [(0, 1), (1, 1), (0, 1)])
    with pytest.raises(SettingsError, match="draws=0"):
        asked(case, [(0, 1)], draws=0)


def test_questions_to_a_joint_distribution():
    joint = JointDistribution(
        np.array([[1.0, 1], [1, 2], [2, 1], [2, 2], [2, 2]]),
        np.array([0.1, 0.4, 0, 0.2, 0.3]),
        True,
    )
    np.testing.assert_allclose(joint.mean(), [1.5, 1.9])
    np.testing.assert_allclose(joint.covariance(), [[0.25, 0.05], [0.05, 0.09]])
    assert joint.most_likely().tolist() == [2, 2]
    np.testing.assert_allclose(joint.marginals(np.array([1.0, 2, 3]))[0], [0.5, 0.5, 0])
    assert joint.probability((joint.values >= 2).all(axis=1)) == pytest.approx(0.5)


def joint_of(case, pairs):
    return JointDistribution(*asked(case, pairs))


def single_predictions(case, pairs):
    users, items = np.array(pairs, np.int32).T
    return softmax(ConditionedMachine(case.machine, case.ratings, 1).pair_scores(users, items))


@pytest.mark.parametrize("kind", ["ordinal", "categorical"])
def test_marginals_are_those_with_all_asked_pairs_in_the_model(kind):
    """One unseen node more changes the others' marginals, so they are no single predictions."""
    case = referee.case(kind, "joint", "none")
    pairs = QUESTIONS["user"]
    found = joint_of(case, pairs).marginals(np.arange(3.0))
    whole = joint_by_energy(case.machine, case.table, pairs).reshape(3, 3, 3)
    expected = [whole.sum(axis=others) for others in ((1, 2), (0, 2), (0, 1))]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    for pair, marginal in zip(pairs, found, strict=True):
        alone = joint_of(case, [pair]).marginals(np.arange(3.0))[0]
        np.testing.assert_allclose(alone, single_predictions(case, [pair])[0], atol=1e-9)
        assert np.abs(alone - marginal).max() > 1e-3


def test_ratings_that_share_neither_user_nor_item_are_independent():
    """Then, and only then, the joint is the product of the single predictions."""
    case = referee.case("ordinal", "joint", "none")
    pairs = [(0, 0), (1, 1), (2, 3)]
    joint = joint_of(case, pairs)
    marginals = joint.marginals(np.arange(3.0))
    np.testing.assert_allclose(marginals, single_predictions(case, pairs), atol=1e-9)
    level = joint.values.astype(int)
    product_of = marginals[np.arange(3), level].prod(axis=1)
    np.testing.assert_allclose(joint.weight, product_of, atol=1e-9)


# Gaussian machines on a scale of levels


@pytest.fixture(scope="module")
def gaussian_on_levels():
    rng = np.random.default_rng(5)
    users, items = rng.integers(0, 12, 90), rng.integers(0, 9, 90)
    ratings = ordbm.Ratings(users, items, rng.integers(1, 6, 90), scale=[1, 2, 3, 4, 5])
    settings = {"features": "gaussian", "hidden": 4, "item_links": 3, "link_support": 2}
    return ordbm.OrdinalBM(members=2, epochs=4, dtype="float64", **settings).fit(ratings)


def test_gaussian_joint_answers_in_levels(gaussian_on_levels):
    """One rating alone is `predict_proba`'s; events of two agree, enumerated and drawn."""
    model = gaussian_on_levels
    levels = model.scale.values
    alone = model.predict_joint(0, 1)
    assert alone.exact
    np.testing.assert_allclose(alone.marginals(levels)[0], model.predict_proba(0, 1)[0], atol=1e-9)
    joint = model.predict_joint(0, [1, 2])
    assert joint.exact
    drawn = model.predict_joint(0, [1, 2], limit=0, draws=20_000)
    assert not drawn.exact
    for least in (2, 3):
        both = joint.probability((joint.values >= least).all(axis=1))
        # Five standard errors of 20,000 draws, taken as 2,000 independent ones.
        error = 5 * np.sqrt(both * (1 - both) / 2_000)
        assert abs(drawn.probability((drawn.values >= least).all(axis=1)) - both) < error


def test_continuous_joint_gives_probabilities_of_events():
    """P(rating below its median) is a half, which points on a grid would not give."""
    rng = np.random.default_rng(6)
    users, items = rng.integers(0, 12, 90), rng.integers(0, 9, 90)
    ratings = ordbm.Ratings(users, items, rng.normal(size=90), scale="continuous")
    model = ordbm.OrdinalBM(hidden=3, members=2, item_links=0, epochs=4).fit(ratings)
    joint = model.predict_joint(0, 1)
    assert not joint.exact
    mean = model.predict(0, 1)[0]
    assert abs(joint.probability((joint.values < mean).all(axis=1)) - 0.5) < 0.06
    assert abs(joint.mean()[0] - mean) < 0.1
    assert repr(joint) == "JointDistribution(1 ratings, 20,000 drawn)"
