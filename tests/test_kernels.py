"""The small parts that the engine stands on: numbers, vectors, random streams, threads, plans."""

import signal
import threading
import time
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from numba import njit
from scipy.special import expit
from scipy.stats import chi2

import referee
from cli_runs import HANGS
from ordbm.inference.conditioned import ConditionedMachine, softmax
from ordbm.kernels import stages, steps, unit_rows
from ordbm.kernels.conditional import fill_level_exp
from ordbm.kernels.hidden import softplus
from ordbm.kernels.numerics import (
    VECTOR_MATH,
    fast_exp,
    fast_log,
    normal,
    sigmoid,
    stream,
    uniform,
)
from ordbm.kernels.structures import LANES, LEVELS, padded
from ordbm.model.learners import PseudoLikelihood
from ordbm.runtime.interruption import safe_point
from ordbm.runtime.threads import run_on_threads, share
from ordbm.training.alternation import Trainer
from ordbm.training.blocks import parts as parts_of

# Exponentials and logarithms


@njit(fastmath=VECTOR_MATH)
def all_numerics(x, positive):
    size = x.size
    out = np.empty((4, size), x.dtype)
    for j in range(size):
        out[0, j] = fast_exp(x[j])
        out[1, j] = fast_log(positive[j])
        out[2, j] = sigmoid(x[j])
        out[3, j] = softplus(x[j])
    return out


def test_single_precision_numerics():
    x = np.concatenate([np.linspace(-87, 88, 400_001), np.linspace(-1, 1, 400_000)])
    x = x.astype(np.float32)
    positive = np.exp(np.linspace(-87, 88, x.size)).astype(np.float32)
    positive[:1000] = np.linspace(0.99, 1.01, 1000)
    exp, log, sigma, plus = all_numerics(x, positive).astype(float)
    wide, wide_positive = x.astype(float), positive.astype(float)
    assert np.abs(exp / np.exp(wide) - 1).max() < 4e-6
    expected = np.log(wide_positive)
    assert (np.abs(log - expected) / np.maximum(1, np.abs(expected))).max() < 3e-7
    assert np.abs(sigma - expit(wide)).max() < 1e-6
    assert np.abs(plus - np.logaddexp(0, wide)).max() < 5e-6
    assert fast_exp_single(0.0) == 1


def test_double_precision_numerics():
    x = np.linspace(-700, 700, 10_001)
    positive = np.exp(x)
    exp, log, sigma, plus = all_numerics(x, positive)
    np.testing.assert_allclose(exp, np.exp(x), rtol=1e-13)
    np.testing.assert_allclose(log, x, rtol=1e-13)
    np.testing.assert_allclose(sigma, expit(x), rtol=1e-13)
    np.testing.assert_allclose(plus, np.logaddexp(0, x), rtol=1e-13, atol=3e-16)


def fast_exp_single(x):
    return all_numerics(np.array([x], np.float32), np.ones(1, np.float32))[0, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes_do_not_overflow(dtype):
    x = np.array([-np.inf, -1e4, -200, 0, 200, 1e4, np.inf], dtype)
    _, _, sigma, plus = all_numerics(x, np.ones(7, dtype))
    np.testing.assert_allclose(sigma, [0, 0, 0, 0.5, 1, 1, 1], atol=1e-37)
    np.testing.assert_allclose(plus[1:], [0, 0, np.log(2), 200, 1e4, np.inf], atol=1e-37, rtol=1e-6)


# Vectors


@njit
def level_step(row, level, on, rest, weights, bias, work, sums, gradient, context):
    """The stages of a tile of ratings, as `level_conditionals` takes it through them."""
    up, down, mean, product, scores, safe = work
    fill_level_exp(weights, up, down)
    stages.level_terms(row, level, on, rest, down, up, mean, product)
    all_safe = stages.log_products(product, scores, safe)
    ratios = scores.copy()
    gap, total = stages.level_residual(scores, bias, level, sums)
    stages.spread_residual(scores, mean, row, level, on, gradient, context)
    return all_safe, ratios, gap - np.log(total)


@njit
def units_and_levels(row, group, table, sums, total, index, levels, stored):
    """Rows of hidden units added up by groups and all in all, levels stored where they belong."""
    unit_rows.add_context_rows(row, group, table[0], sums)
    unit_rows.add_level_rows(0, row.size, group, row, table, total)
    stages.store_levels(levels, index, stored)


@njit
def inputs_and_exchange(row, group, coupling, total, index, levels, table):
    unit_rows.add_coupling_rows(row, group, coupling, total)
    stages.exchange_levels(levels, index, table)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(1, 8), (3, 24), (5, 40), (11, 72)])
def test_inputs_of_rows_are_summed_and_levels_exchanged(n, d, dtype):
    """Exact sums in float64; what was in the table is added, what was said is left there."""
    rng = np.random.default_rng(n * 100 + d)
    coupling, total = rng.normal(size=(3, d)).astype(dtype), rng.normal(size=(6, d))
    row, group = rng.integers(6, size=9).astype(np.int32), rng.integers(3, size=9).astype(np.uint8)
    levels = rng.normal(size=(4, padded(n, LEVELS))).astype(dtype)
    table, index = rng.normal(size=(7, n)).astype(dtype), np.array([6, 0, 3, 2])
    expected_total, said, kept = total.copy(), levels[:, :n].copy(), table.copy()
    np.add.at(expected_total, row, coupling[group].astype(np.float64))
    padding = levels[:, n:].copy()
    inputs_and_exchange(row, group, coupling, total, index, levels, table)
    np.testing.assert_allclose(total, expected_total, rtol=1e-14)
    np.testing.assert_array_equal(levels[:, :n], said + kept[index])
    np.testing.assert_array_equal(table[index], said)
    np.testing.assert_array_equal(table[[1, 4, 5]], kept[[1, 4, 5]])
    np.testing.assert_array_equal(levels[:, n:], padding)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(1, 8), (3, 24), (5, 40), (11, 72)])
def test_rows_of_units_and_levels(n, d, dtype):
    """Padding and what no index names stay as they are."""
    rng = np.random.default_rng(n * 100 + d)
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    table = rng.normal(size=(2, 6, d)).astype(dtype)
    row, group = rng.integers(6, size=9).astype(np.int32), rng.integers(2, size=9).astype(np.uint8)
    sums, total = rng.normal(size=(2, d)).astype(dtype), rng.normal(size=d)
    levels = rng.normal(size=(4, padded(n, LEVELS))).astype(dtype)
    stored, index = rng.normal(size=(7, n)).astype(dtype), np.array([6, 0, 3, 2])
    expected_sums, expected_total, expected_stored = sums.copy(), total.copy(), stored.copy()
    for r, g in zip(row, group, strict=True):
        expected_sums[g] += table[0, r]
        expected_total += table[g, r]
    expected_stored[index] = levels[:, :n]
    units_and_levels(row, group, table, sums, total, index, levels, stored)
    np.testing.assert_allclose(sums, expected_sums, **close)
    np.testing.assert_allclose(total, expected_total, **close)
    np.testing.assert_array_equal(stored, expected_stored)


@njit
def move_coupling(w, v, gradient, mean, smoothing, pull, momentum, rate):
    steps.move_coupling(w, v, gradient, mean, smoothing, pull, momentum, rate)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(1, 8), (2, 0), (5, 24), (8, 40), (11, 48)])
def test_level_vectors(n, d, dtype):
    """The vector stages against NumPy: ratios, residual, gradient and context of one rating."""
    rng = np.random.default_rng(n * 100 + d)
    close = {"rtol": 2e-5, "atol": 2e-6} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-13}
    weights = rng.normal(0, 0.5, (n, d)).astype(dtype)
    on = rng.uniform(0.05, 0.95, (3, d)).astype(dtype)
    rest = 1 - on
    wide = padded(n, LEVELS)
    bias = np.full(wide, -1e30, dtype)
    bias[:n] = rng.normal(size=n)
    row = np.array([2, 0], np.int32)
    level = rng.integers(n, size=2).astype(np.uint8)
    work = (
        np.zeros((n, d), dtype), np.zeros((n, d), dtype), np.zeros((2, n, d), dtype),
        np.ones((2, wide, LEVELS), dtype), np.zeros((2, wide), dtype),
        np.zeros((2, wide // LEVELS), np.uint8),
    )  # fmt: skip
    if d:
        work[3][:, :n] = 7  # left over from other ratings
    gradient = np.zeros((n, d), dtype)
    context = np.zeros((3, d), dtype)
    sums = np.arange(wide, dtype=dtype)
    safe, ratios, objective = level_step(
        row, level, on, rest, weights, bias, work, sums, gradient, context
    )
    assert safe
    np.testing.assert_allclose(sums, np.arange(wide) + work[4].sum(axis=0), **close)
    expected = np.zeros((n, d))
    log_chance = 0.0
    for t, (r, own) in enumerate(zip(row, level, strict=True)):
        part = on[r] * np.exp(weights - weights[own])
        score = np.log(rest[r] + part).sum(axis=1)
        np.testing.assert_allclose(ratios[t, :n], score, **close)
        chance = np.exp(score + bias[:n])
        chance /= chance.sum()
        log_chance += np.log(chance[own])
        residual = (np.arange(n) == own) - chance
        np.testing.assert_allclose(work[4][t, :n], residual, **close)
        asked = residual[:, None] * part / (rest[r] + part)
        np.testing.assert_allclose(context[r], asked.sum(axis=0), **close)
        expected += asked
        expected[own] -= asked.sum(axis=0)
    np.testing.assert_allclose(objective, log_chance, **close)
    np.testing.assert_allclose(gradient, expected, **close)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, LANES, 2 * LANES, 5 * LANES])
def test_a_column_moves_by_its_smoothed_gradient(size, dtype):
    rng = np.random.default_rng(size)
    close = {"rtol": 1e-5 if dtype == np.float32 else 1e-13}
    n = 3
    w, v, g, mean = rng.normal(size=(4, n, size)).astype(dtype)
    smoothing = rng.normal(size=(n, n)).astype(dtype)
    expected_v = 0.5 * v + smoothing @ g - 0.2 * (w - mean)
    expected_w = w + 0.1 * expected_v
    move_coupling(w, v, g, mean, smoothing, dtype(0.2), dtype(0.5), dtype(0.1))
    np.testing.assert_allclose(v, expected_v, rtol=close["rtol"], atol=1e-5)
    np.testing.assert_allclose(w, expected_w, rtol=close["rtol"], atol=1e-5)


def test_padded_is_whole_vectors():
    assert [padded(n) for n in (0, 1, LANES, LANES + 1)] == [0, LANES, LANES, 2 * LANES]


# Random numbers


@njit
def draws(seed, rows, size):
    """Uniform and normal numbers of the first `rows` rows' streams."""
    flat = np.empty((rows, size))
    bell = np.empty((rows, size))
    for row in range(rows):
        state = stream(seed, 3, row)
        for j in range(size):
            state, flat[row, j] = uniform(state)
        for j in range(size):
            state, bell[row, j] = normal(state)
    return flat, bell


def test_random_numbers():
    """z- and chi-square tests with a fixed seed; over seeds, a false alarm in under 1e-6."""
    flat, bell = draws(11, 400, 500)
    n = flat.size
    assert flat.min() >= 0
    assert flat.max() < 1
    count = np.bincount((flat.ravel() * 64).astype(int), minlength=64)
    assert chi2.sf(((count - n / 64) ** 2 / (n / 64)).sum(), 63) > 1e-7
    error = 1 / np.sqrt(n)
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((bell**power).mean() - moment) < 6 * np.sqrt(variance) * error
    # Neither within a row, nor between rows, nor between seeds is anything repeated.
    centred = (flat - 0.5) * np.sqrt(12)
    other = (draws(12, 400, 500)[0] - 0.5) * np.sqrt(12)
    for a, b in (
        (centred[:, 1:], centred[:, :-1]),
        (centred[1:], centred[:-1]),
        (centred[1:, :-1], centred[:-1, 1:]),
        (centred, other),
    ):
        assert abs((a * b).mean()) < 6 / np.sqrt(a.size)
    again, _ = draws(11, 2, 500)
    np.testing.assert_array_equal(again, flat[:2])


# Threads


def test_errors_in_threads_are_raised_after_all_have_ended():
    ended = []

    def work(thread):
        try:
            if thread == 1:
                raise ValueError("from a thread")
        finally:
            ended.append(thread)

    with pytest.raises(ValueError, match="from a thread"):
        run_on_threads(3, work)
    assert sorted(ended) == [0, 1, 2]


def test_ctrl_c_while_threads_start_is_heard_after_all_have_ended(monkeypatch):
    start, started, ended = threading.Thread.start, [], []

    def interrupted_start(thread):
        if not started:
            signal.raise_signal(signal.SIGINT)
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted_start)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_on_threads(3, ended.append)
    assert sorted(ended) == [0, 1, 2]
    assert signal.getsignal(signal.SIGINT) is handler


def working_until_ended(started, ended, then):
    """Work of three threads that goes on for ever but for its safe points."""

    def work(thread):
        started.release()
        if thread == 2:
            for _ in range(3):
                assert started.acquire(timeout=HANGS)
            then()
        try:
            while True:
                safe_point()
                time.sleep(0.001)
        finally:
            ended.append(thread)

    return work


def test_ctrl_c_ends_long_work_at_its_safe_points():
    ended = []
    pressed = partial(signal.raise_signal, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_on_threads(3, working_until_ended(threading.Semaphore(0), ended, pressed))
    assert sorted(ended) == [0, 1, 2]


def test_an_error_ends_the_long_work_of_others():
    def fails():
        raise ValueError("from a thread")

    ended = []
    with pytest.raises(ValueError, match="from a thread"):
        run_on_threads(3, working_until_ended(threading.Semaphore(0), ended, fails))
    assert sorted(ended) == [0, 1]


def test_a_handler_that_raises_ends_long_work():
    def raises(*_):
        raise TimeoutError("mine")

    ended = []
    pressed = partial(signal.raise_signal, signal.SIGINT)
    before = signal.signal(signal.SIGINT, raises)
    try:
        work = working_until_ended(threading.Semaphore(0), ended, pressed)
        with pytest.raises(TimeoutError, match="mine"):
            run_on_threads(3, work)
    finally:
        signal.signal(signal.SIGINT, before)
    assert sorted(ended) == [0, 1, 2]


def test_ctrl_c_that_is_no_error_stops_nothing():
    heard, ended = [], []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append("Ctrl-C"))
    try:
        run_on_threads(2, lambda _: ended.append(signal.raise_signal(signal.SIGINT)))
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard
    assert len(ended) == 2


@pytest.mark.parametrize("total", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_shares_cover_the_work_once(total, threads):
    parts = [share(total, thread, threads) for thread in range(threads)]
    assert parts[0][0] == 0
    assert parts[-1][1] == total
    assert all(one[1] == two[0] for one, two in pairwise(parts))
    # Shares of a block: whole rows or columns, by the ratings that come before them.
    sizes = np.random.default_rng(total).integers(1, 9, total)
    cut = parts_of(np.concatenate([[0], np.cumsum(sizes)]), threads)
    assert (cut[0], cut[-1]) == (0, total)
    assert np.all(np.diff(cut) >= 0)


# Large numbers in learning


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 2e-4)])
@pytest.mark.parametrize("spread", [0.5, 4.0, 12.0])
def test_steep_couplings_stay_exact_in_learning(spread, dtype, tolerance):
    """Products of many ratios leave the range of floats: the pass agrees with summed softplus.

    Learning cuts couplings at 43; these stay below.
    """
    rng = np.random.default_rng(3)
    machine = referee.random_machine(
        rng, "categorical", "user", hidden=(37, 0), n_users=12, n_items=9, spread=spread
    )
    p = machine.user_side.parameters
    np.clip(p.coupling, -40, 40, out=p.coupling)
    table = referee.random_table(rng, gaussian=False, n_users=12, n_items=9)
    ratings = referee.orientations(table, machine)
    users, items = np.nonzero(~np.isnan(table))
    proba = softmax(ConditionedMachine(machine, ratings, 1).pair_scores(users, items))
    own = table[users, items].astype(int)
    expected = np.log(proba[np.arange(len(own)), own]).mean()
    narrow = machine_as(machine, dtype)
    trainer = Trainer(narrow, ratings, PseudoLikelihood(rate=1e-30, block_rows=referee.ONE_BLOCK))
    np.testing.assert_allclose(trainer.epoch(0), expected, rtol=tolerance)


def machine_as(machine, dtype):
    copy = referee.copied(machine)
    side = copy.user_side
    parameters = type(side.parameters)(*(a.astype(dtype) for a in side.parameters))
    side = type(side)(parameters, side.n_hidden, side.links, side.unknown_bias.astype(dtype))
    return type(machine)(machine.features, machine.level_bias.astype(dtype), side, None)
