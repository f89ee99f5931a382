"""All machines in one pass, and Newton's fold-in: against softplus, enumeration and SciPy."""

import numpy as np
import pytest
from scipy.optimize import minimize

import referee
from ordbm.inference import ensemble_tables
from ordbm.inference.conditioned import ConditionedMachine, softmax
from ordbm.inference.ensemble_tables import EnsembleTables
from ordbm.kernels import fold_in as kernels
from ordbm.kernels.fold_in import ColumnData, ColumnPoint, ColumnRoom

QUICK = [each for each in referee.DISCRETE if each[2] not in ("users", "both")]


def tables_of(case, threads=1, machines=1):
    return EnsembleTables([case.machine] * machines, case.ratings, threads)


def everything(case):
    """All pairs, of the unknown user and item, too."""
    users, items = np.meshgrid(
        np.arange(-1, len(case.table)), np.arange(-1, case.table.shape[1]), indexing="ij"
    )
    return users.ravel().astype(np.int32), items.ravel().astype(np.int32)


def probabilities(tables, users, items):
    asked, person = np.unique(users, return_inverse=True)
    return tables.probabilities(tables.known_people(asked), person, items)


def softplus_scores(case, user, item):
    """The potential of each level with hidden units summed out, a rating of the pair left out."""
    machine = case.machine
    table = case.table.copy()
    if user >= 0 and item >= 0:
        table[user, item] = np.nan
    scores = machine.level_bias.astype(np.float64)
    sides = (machine.user_side, user, item, table), (machine.item_side, item, user, table.T)
    for side, row, column, rated in sides:
        if side is None:
            continue
        own = side.parameters
        if column < 0:
            scores = scores + side.unknown_bias
            continue
        x = own.hidden_bias.astype(np.float64)
        if row >= 0:
            for other in np.flatnonzero(~np.isnan(rated[row])):
                x = x + own.coupling[other, int(rated[row, other])]
        scores = scores + own.rating_bias[column]
        grown = np.logaddexp(0, x + own.coupling[column].astype(np.float64)) - np.logaddexp(0, x)
        scores = scores + grown.sum(axis=1)
    return scores


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("kind", "sides", "links"), QUICK)
def test_one_pass_is_each_machine_alone(kind, sides, links, dtype):
    case = referee.case(kind, sides, links, dtype=dtype)
    users, items = everything(case)
    expected = softmax(ConditionedMachine(case.machine, case.ratings, 1).pair_scores(users, items))
    found = probabilities(tables_of(case, machines=3), users, items)
    close = 1e-9 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found, expected, atol=close)
    for user, item in ((0, 0), (len(case.table) - 1, case.table.shape[1] - 1)):
        hidden = referee.configurations(case.machine, case.table)
        by_hand = referee.conditional(case.machine, case.table, user, item, hidden)
        place = np.flatnonzero((users == user) & (items == item))[0]
        np.testing.assert_allclose(found[place], by_hand, atol=close)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sides", referee.SIDES)
@pytest.mark.parametrize("spread", [0.1, 1.5, 3.0])
def test_couplings_beyond_the_range_of_a_product(sides, spread, dtype):
    """Products of growths leave the range of float32, their logarithms do not."""
    case = referee.case("ordinal", sides, "none", hidden=(90, 80), spread=spread, dtype=dtype)
    users, items = everything(case)
    unseen = (users < 0) | (items < 0) | np.isnan(case.table[users, items])
    users, items = users[unseen], items[unseen]
    tables = tables_of(case)
    reach = tables.items().reach.max() + tables.known_people(np.arange(3)).reach.max()
    assert (reach > 80) == (spread > 1)
    expected = softmax(
        np.array([softplus_scores(case, *pair) for pair in zip(users, items, strict=True)])
    )
    found = probabilities(tables, users, items)
    close = 1e-9
    if dtype == np.float32:  # 1 + p (e^W - 1) cancels where p is all but 1 and W is far below 0
        close = 1e-4 if spread < 2 else 5e-3
    np.testing.assert_allclose(found, expected, atol=close)


def test_threads_give_the_same_bits(monkeypatch):
    monkeypatch.setattr(ensemble_tables, "WORK_TO_SHARE", 1)
    case = referee.case("ordinal", "joint", "items", dtype=np.float32)
    users, items = everything(case)
    found = [probabilities(tables_of(case, threads, 3), users, items) for threads in (1, 2, 5)]
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])
    order = np.random.default_rng(0).permutation(len(users))
    shuffled = probabilities(tables_of(case, 2, 3), users[order], items[order])
    np.testing.assert_array_equal(shuffled, found[0][order])


def test_few_people_and_pairs_at_a_time_change_nothing(monkeypatch):
    case = referee.case("ordinal", "joint", "items", dtype=np.float32)
    users, items = everything(case)
    whole = probabilities(tables_of(case, machines=2), users, items)
    monkeypatch.setattr(ensemble_tables, "SCORES_AT_ONCE", 7)
    np.testing.assert_array_equal(probabilities(tables_of(case, machines=2), users, items), whole)


# -- what a fold-in user owns ---------------------------------------------------------------------


N_RATED, N_LEVELS, N_HIDDEN = 7, 5, 3


def column(seed=0, n_bias=4, spread=1.0):
    """A column's data at random, and a point."""
    rng = np.random.default_rng(seed)
    data = ColumnData(
        rng.random((N_RATED, N_HIDDEN)),
        rng.integers(N_LEVELS, size=N_RATED).astype(np.uint8),
        rng.normal(size=(N_RATED, N_LEVELS)),
        spread * rng.normal(size=(N_LEVELS, N_HIDDEN)),
        rng.normal(size=(N_LEVELS, 4)),
        np.float64(0.7),
        rng.normal(size=N_LEVELS),
        rng.normal(size=(N_LEVELS, n_bias)),
        np.float64(1.3),
    )
    return data, point_of(rng, n_bias)


def point_of(rng, n_bias):
    return ColumnPoint(0.5 * rng.normal(size=(4, N_HIDDEN)), 0.5 * rng.normal(size=n_bias))


def room_of(point):
    def like():
        return ColumnPoint(np.zeros_like(point.coupling), np.zeros_like(point.bias))

    m, n, d = N_RATED, N_LEVELS, N_HIDDEN
    return ColumnRoom(
        np.empty((n, d)), np.empty((m, n, d)), np.empty((m, n)), np.empty((m, n)),
        np.empty((m, n)), np.empty((n, d)), np.empty((n, d)), *(like() for _ in range(6)),
    )  # fmt: skip


def flat(point):
    return np.concatenate([point.coupling.ravel(), point.bias])


def unflat(values, n_bias):
    size = 4 * N_HIDDEN
    return ColumnPoint(
        values[:size].reshape(4, N_HIDDEN).copy(), values[size : size + n_bias].copy()
    )


def plain_loss(data, values):
    """-log likelihood and prior, as the formulas have it."""
    n_bias = data.bias_root.shape[1]
    point = unflat(values, n_bias)
    coupling = data.mean + data.root @ point.coupling
    bias = data.typical + data.bias_root @ point.bias
    grown = np.log1p(data.on[:, None] * np.expm1(coupling)).sum(axis=2)
    proba = softmax(data.rest + bias + grown)
    total = -np.log(proba[np.arange(N_RATED), data.level]).sum()
    total += 0.5 * data.precision * (point.coupling**2).sum()
    return total + 0.5 * data.bias_precision * (point.bias**2).sum()


def slope(function, at, step=1e-5):
    moves = step * np.eye(len(at))
    return np.array([(function(at + move) - function(at - move)) / (2 * step) for move in moves])


def gradient(data, values):
    point = unflat(values, data.bias_root.shape[1])
    room = room_of(point)
    kernels.column_gradient(data, point, room)
    return flat(room.gradient), room


@pytest.mark.parametrize("n_bias", [0, 4])
@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_finite_differences(seed, n_bias):
    data, point = column(seed, n_bias)
    found, _ = gradient(data, flat(point))
    np.testing.assert_allclose(
        found, slope(lambda at: plain_loss(data, at), flat(point)), atol=1e-7
    )


@pytest.mark.parametrize("n_bias", [0, 4])
@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_the_least_loss_is_that_of_l_bfgs(n_bias, spread):
    for seed in range(3):
        data, _ = column(seed, n_bias, spread)
        point = unflat(np.zeros(4 * N_HIDDEN + n_bias), n_bias)
        steps = kernels.fit_column(data, point, room_of(point))
        at, _ = gradient(data, flat(point))
        assert steps < 30
        assert np.abs(at).max() < 1e-3
        best = minimize(
            lambda at, data=data: (plain_loss(data, at), gradient(data, at)[0]),
            flat(point), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9},
        )  # fmt: skip
        assert plain_loss(data, flat(point)) < best.fun + 1e-7
        np.testing.assert_allclose(flat(point), best.x, atol=1e-3)


def test_newton_steps_follow_the_hessian():
    """One full step from close by leaves a gradient that is smaller by its square."""
    data, _ = column(1)
    point = unflat(np.zeros(4 * N_HIDDEN + 4), 4)
    kernels.fit_column(data, point, room_of(point))
    hessian = np.array(
        [slope(lambda at, k=k: gradient(data, at)[0][k], flat(point)) for k in range(16)]
    )
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-6)
    near = unflat(flat(point) + 1e-3 * np.ones(16), 4)
    expected = flat(near) - np.linalg.solve(hessian, gradient(data, flat(near))[0])
    kernels.fit_column(data, near, room_of(near))
    np.testing.assert_allclose(flat(near), expected, atol=1e-4)
