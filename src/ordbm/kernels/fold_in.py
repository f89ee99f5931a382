"""The parameters that one column owns, fitted to its ratings by Newton's method, all else fixed.

A column's couplings are V = mean + R z and its biases b = typical + S y, with z and y standard
normal but for their precisions. With p the hidden means of the m rows that rated it,

    loss(z, y) = -sum_q log P(level_q) + precision |z|^2 / 2 + bias precision |y|^2 / 2,
    log P(s) = rest[q, s] + b[s] + sum_k log(1 + p[q, k] (e^V[s, k] - 1)) - log of the sum over s.

Newton's equations are solved by conjugate gradients; each product with the Hessian is exact and
costs as much as a gradient. All in float64.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ordbm.kernels.options import INNER, KERNEL
from ordbm.kernels.structures import Floats

_STEPS, _ITERATIONS, _HALVINGS = 50, 200, 30
_CLOSE = 1e-9  # what a step may still promise, relative to the loss


class ColumnData(NamedTuple):
    """Of one column in one machine."""

    on: Floats  # (m, D) hidden means of the rows that rated it
    level: NDArray[np.uint8]  # (m,)
    rest: Floats  # (m, n) what else is known of these ratings
    mean: Floats  # (n, D)
    root: Floats  # (n, r)
    precision: np.floating
    typical: Floats  # (n,)
    bias_root: Floats  # (n, R)
    bias_precision: np.floating


class ColumnPoint(NamedTuple):
    """Parameters, or what else has their shape."""

    coupling: Floats  # (r, D) z
    bias: Floats  # (R,) y


class ColumnRoom(NamedTuple):
    """Where one column is fitted."""

    growth: Floats  # (n, D)
    share: Floats  # (m, n, D) P(h = 1 | level)
    proba: Floats  # (m, n)
    residual: Floats  # (m, n)
    change: Floats  # (m, n)
    curve: Floats  # (n, D) -sum_q residual P(h) P(not h)
    table: Floats  # (n, D)
    gradient: ColumnPoint
    step: ColumnPoint
    left: ColumnPoint  # of conjugate gradients: what is left of the equations,
    way: ColumnPoint  # the way to go,
    image: ColumnPoint  # and the Hessian along it
    tried: ColumnPoint


@njit(**INNER)
def inner(a, b):
    total = 0.0
    for j in range(a.coupling.shape[0]):
        for k in range(a.coupling.shape[1]):
            total += a.coupling[j, k] * b.coupling[j, k]
    for j in range(a.bias.size):
        total += a.bias[j] * b.bias[j]
    return total


@njit(**INNER)
def assign(out, a, b, amount):
    """out = a + amount b."""
    for j in range(a.coupling.shape[0]):
        for k in range(a.coupling.shape[1]):
            out.coupling[j, k] = a.coupling[j, k] + amount * b.coupling[j, k]
    for j in range(a.bias.size):
        out.bias[j] = a.bias[j] + amount * b.bias[j]


@njit(**INNER)
def raise_table(root, z, out):
    """out = root z, (n, D)."""
    for s in range(root.shape[0]):
        for k in range(z.shape[1]):
            out[s, k] = 0
        for j in range(root.shape[1]):
            for k in range(z.shape[1]):
                out[s, k] += root[s, j] * z[j, k]


@njit(**INNER)
def loss(data, point, room):
    """The loss at a point; leaves growth, proba and residual in the room."""
    m, n = data.rest.shape
    raise_table(data.root, point.coupling, room.growth)
    for s in range(n):
        for k in range(data.on.shape[1]):
            room.growth[s, k] = np.exp(data.mean[s, k] + room.growth[s, k]) - 1.0
    total = 0.5 * data.precision * inner(point, point)
    bias_part = 0.0
    for j in range(point.bias.size):
        bias_part += point.bias[j] * point.bias[j]
    total += 0.5 * (data.bias_precision - data.precision) * bias_part
    for q in range(m):
        top = -np.inf
        for s in range(n):
            product = 1.0
            for k in range(data.on.shape[1]):
                product *= 1.0 + data.on[q, k] * room.growth[s, k]
            score = data.rest[q, s] + data.typical[s] + np.log(product)
            for j in range(point.bias.size):
                score += data.bias_root[s, j] * point.bias[j]
            room.proba[q, s] = score
            top = max(top, score)
        whole = 0.0
        for s in range(n):
            whole += np.exp(room.proba[q, s] - top)
        log_whole = np.log(whole) + top
        total -= room.proba[q, data.level[q]] - log_whole
        for s in range(n):
            room.proba[q, s] = np.exp(room.proba[q, s] - log_whole)
            room.residual[q, s] = -room.proba[q, s]
        room.residual[q, data.level[q]] += 1.0
    return total


@njit(**INNER)
def gather(data, point, by_rating, by_level, room, out):
    """out = precisions * point - (R' by_level, S' sum of by_rating), the shape of a gradient."""
    for j in range(out.coupling.shape[0]):
        for k in range(out.coupling.shape[1]):
            out.coupling[j, k] = data.precision * point.coupling[j, k]
        for s in range(data.root.shape[0]):
            for k in range(out.coupling.shape[1]):
                out.coupling[j, k] -= data.root[s, j] * by_level[s, k]
    for j in range(out.bias.size):
        out.bias[j] = data.bias_precision * point.bias[j]
        for q in range(by_rating.shape[0]):
            for s in range(by_rating.shape[1]):
                out.bias[j] -= data.bias_root[s, j] * by_rating[q, s]


@njit(**INNER)
def fill_gradient(data, point, room):
    """The gradient at the point that `loss` was last asked about, and what the Hessian needs."""
    m, n = data.rest.shape
    room.table[:] = 0
    room.curve[:] = 0
    for q in range(m):
        for s in range(n):
            residual = room.residual[q, s]
            for k in range(data.on.shape[1]):
                grown = data.on[q, k] * room.growth[s, k]
                share = (data.on[q, k] + grown) / (1.0 + grown)
                room.share[q, s, k] = share
                room.table[s, k] += residual * share
                room.curve[s, k] -= residual * share * (1.0 - share)
    gather(data, point, room.residual, room.table, room, room.gradient)


@njit(**INNER)
def fill_image(data, way, room, out):
    """out = Hessian times way."""
    m, n = data.rest.shape
    raise_table(data.root, way.coupling, room.table)
    for q in range(m):
        mean = 0.0
        for s in range(n):
            moved = 0.0
            for k in range(data.on.shape[1]):
                moved += room.share[q, s, k] * room.table[s, k]
            for j in range(way.bias.size):
                moved += data.bias_root[s, j] * way.bias[j]
            room.change[q, s] = moved
            mean += room.proba[q, s] * moved
        for s in range(n):
            room.change[q, s] = -room.proba[q, s] * (room.change[q, s] - mean)
    for s in range(n):
        for k in range(data.on.shape[1]):
            room.table[s, k] *= -room.curve[s, k]
    for q in range(m):
        for s in range(n):
            amount = room.change[q, s]
            for k in range(data.on.shape[1]):
                room.table[s, k] += amount * room.share[q, s, k]
    gather(data, way, room.change, room.table, room, out)


@njit(**INNER)
def solve(data, room, tolerance):
    """step = -Hessian^-1 gradient, until what is left is small, or no more than curves upwards."""
    room.step.coupling[:] = 0
    room.step.bias[:] = 0
    assign(room.left, room.step, room.gradient, -1.0)
    assign(room.way, room.left, room.step, 0.0)
    size = inner(room.left, room.left)
    goal = tolerance * tolerance * size
    for iteration in range(_ITERATIONS):
        fill_image(data, room.way, room, room.image)
        curvature = inner(room.way, room.image)
        if curvature <= 0:
            if iteration == 0:
                assign(room.step, room.way, room.way, 0.0)
            break
        amount = size / curvature
        assign(room.step, room.step, room.way, amount)
        assign(room.left, room.left, room.image, -amount)
        now = inner(room.left, room.left)
        if now <= goal:
            break
        assign(room.way, room.left, room.way, now / size)
        size = now


@njit(**KERNEL)
def column_gradient(data, point, room):
    """The gradient of the loss at a point, into room.gradient."""
    loss(data, point, room)
    fill_gradient(data, point, room)


@njit(**KERNEL)
def fit_column(data, point, room):
    """Moves `point` to where the loss is least; how many Newton steps it took."""
    now = loss(data, point, room)
    tolerance = 0.1
    for step in range(_STEPS):
        fill_gradient(data, point, room)
        solve(data, room, tolerance)
        promised = -inner(room.gradient, room.step)
        if promised <= _CLOSE * (1.0 + abs(now)):
            return step
        amount = 1.0
        for _ in range(_HALVINGS):
            assign(room.tried, point, room.step, amount)
            then = loss(data, room.tried, room)
            if then <= now - 1e-4 * amount * promised:
                break
            amount /= 2
        else:
            return step
        assign(point, room.tried, room.tried, 0.0)
        now = then
        tolerance = max(tolerance * 0.1, 1e-4)
    return _STEPS
