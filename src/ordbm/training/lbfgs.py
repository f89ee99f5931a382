"""L-BFGS on large arrays in single precision.

SciPy's holds all it remembers in double precision, copied into one vector: for 4,096 linked items
more than a gigabyte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Parts = list[NDArray[Any]]  # parameters, in arrays of any shapes

MEMORY = 5  # steps that are remembered
SUFFICIENT = 1e-4  # of the decrease that the slope promises
TRIALS = 20  # halvings of a step before giving up


def minimise(
    objective: Callable[[Parts], tuple[float, Parts]],
    start: Parts,
    iterations: int,
    tell: Callable[[float], object],
) -> Parts:
    """Parameters after this many steps downhill, or fewer if there is no way down.

    `objective` gives value and gradient; `tell` is given the share of steps that is done.
    """
    here, (value, slope) = start, objective(start)
    steps: list[tuple[Parts, Parts, float]] = []  # moves, changes of slope, and their product
    for iteration in range(iterations):
        way = _direction(slope, steps)
        descent = dot(way, slope)
        length = 1.0 if steps else 1.0 / max(np.sqrt(-descent), 1e-30)
        for _ in range(TRIALS):
            there = [x + np.float32(length) * d for x, d in zip(here, way, strict=True)]
            new_value, new_slope = objective(there)
            if new_value <= value + SUFFICIENT * length * descent:
                break
            length /= 2
        else:
            break
        move = [np.float32(length) * d for d in way]
        change = [new - old for new, old in zip(new_slope, slope, strict=True)]
        product = dot(move, change)
        if product > 0:
            steps = [*steps[1 - MEMORY :], (move, change, product)]
        here, value, slope = there, new_value, new_slope
        tell((iteration + 1) / iterations)
    tell(1.0)
    return here


def dot(a: Sequence[NDArray[Any]], b: Sequence[NDArray[Any]]) -> float:
    """The inner product of parameters."""
    return sum(float(np.dot(x.ravel(), y.ravel())) for x, y in zip(a, b, strict=True))


def _direction(slope: Parts, steps: list[tuple[Parts, Parts, float]]) -> Parts:
    """Minus the slope times the inverse Hessian that the remembered steps suggest."""
    way = [-x for x in slope]
    shares = []
    for move, change, product in reversed(steps):
        share = dot(move, way) / product
        shares.append(share)
        _add(way, -share, change)
    if steps:
        _, change, product = steps[-1]
        scale = np.float32(product / dot(change, change))
        way = [scale * d for d in way]
    for (move, change, product), share in zip(steps, reversed(shares), strict=True):
        _add(way, share - dot(change, way) / product, move)
    return way


def _add(parts: Parts, times: float, others: Parts) -> None:
    for part, other in zip(parts, others, strict=True):
        np.add(part, np.float32(times) * other, out=part)
