"""Steps downhill: to the minimum of what has one, none where there is no way down."""

import numpy as np

from ordbm.training.lbfgs import minimise


def quadratic(size=6, seed=0):
    """(value and gradient, minimum) of x'Ax / 2 - b'x, in two parts of single precision."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size))
    A, b = root @ root.T + np.eye(size), rng.normal(size=size)

    def objective(parts):
        x = np.concatenate(parts).astype(float)
        slope = (A @ x - b).astype(np.float32)
        return 0.5 * x @ A @ x - b @ x, [slope[:2], slope[2:]]

    return objective, np.linalg.solve(A, b)


def test_the_minimum_of_a_quadratic_is_found():
    objective, expected = quadratic()
    start = [np.ones(2, np.float32), np.ones(4, np.float32)]
    told = []
    found = np.concatenate(minimise(objective, start, 40, told.append))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_every_step_goes_down():
    objective, _ = quadratic(seed=1)
    start = [np.full(2, 5, np.float32), np.full(4, -5, np.float32)]
    values = [objective(minimise(objective, start, n, lambda _: None))[0] for n in range(8)]
    assert values[0] == objective(start)[0]
    assert np.all(np.diff(values) < 0)


def test_without_a_way_down_nothing_moves():
    """Where the slope promises a descent that no length of step keeps."""
    asked = []

    def objective(parts):
        asked.append(parts)
        return float(parts[0][0]), [np.array([-1.0], np.float32)]

    start, told = [np.zeros(1, np.float32)], []
    assert minimise(objective, start, 5, told.append) is start
    assert told == [1.0]
    lengths = [float(parts[0][0]) for parts in asked[1:]]
    assert lengths[0] == 1.0
    assert lengths == [0.5**n for n in range(len(lengths))]


def test_the_first_step_has_length_one():
    """Whatever the slope: 1 / |slope| of it."""
    asked = []

    def objective(parts):
        asked.append(parts[0].copy())
        return 0.5 * 400.0 * float(parts[0] @ parts[0]), [np.float32(400.0) * parts[0]]

    minimise(objective, [np.array([3.0, 4.0], np.float32)], 1, lambda _: None)
    np.testing.assert_allclose(asked[1], [3 - 0.6, 4 - 0.8], rtol=1e-6)
