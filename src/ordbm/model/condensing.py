"""Few hidden units that say what many say together.

Many hidden units under one prior share what few would say: each of them is a mixture. With P the
centred posterior means of the rows' units and W the couplings of all columns and levels,

    P W^T = A diag(s) B^T,

the directions A in which rows differ, by how much they move the level scores: as many s stand out
as there are different things said. Turned so that every direction is as far from normal as it
gets, as the values of a hidden unit are (independent components), these are units again. Learning
that starts there finds what it hardly finds from random couplings, where all units follow the
strongest direction first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.data.csr import CSR
from ordbm.model.machine import Machine, Parameters, Side
from ordbm.runtime.arrays import Array

CLEAR_GAP = 2.0  # times that a strength is the next one, to be tried as the last that counts
STARTS = 8  # rotations to turn from
_ROUNDS = 200  # of turning directions, at most; that they end early is seen
TURNED = 1e-7  # of which no direction turns further


class Directions(NamedTuple):
    """What the hidden units of a side say together, strongest first."""

    of_rows: NDArray[np.float64]  # (R, d), of variance one
    scores: NDArray[np.float64]  # (C, n, d): what one of that moves the level scores by
    strength: NDArray[np.float64]  # (d,), falling
    mean_scores: NDArray[np.float64]  # (C, n): what rows have in common


def directions(side: Side, hidden: Array) -> Directions:
    """Those of a side whose rows have these posterior means, (R, d)."""
    coupling = side.parameters.coupling[:, :, : side.n_hidden].astype(np.float64)
    flat = coupling.reshape(-1, side.n_hidden)
    mean = hidden.mean(axis=0, dtype=np.float64)
    rows, of_rows = np.linalg.qr(hidden - mean)
    columns, of_columns = np.linalg.qr(flat)
    left, strength, right = np.linalg.svd(of_rows @ of_columns.T)
    size = np.sqrt(len(hidden))
    return Directions(
        rows @ left * size,
        (columns @ right.T * (strength / size)).reshape(*coupling.shape[:2], -1),
        strength,
        (flat @ mean).reshape(coupling.shape[:2]),
    )


def likely_number(strength: NDArray[np.float64]) -> int:
    """After how many, half of them at most, the strengths fall most; 0 if they nowhere fall much.

    Half, as the weakest of units that say nothing may differ as much as they like.
    """
    last = len(strength) // 2
    if not last or not strength[0]:
        return 0
    fall = strength[:last] / np.maximum(strength[1 : last + 1], 1e-12 * strength[0])
    number = int(np.argmax(fall))
    return number + 1 if fall[number] >= CLEAR_GAP else 0


def condensed(side: Side, found: Directions, rows: CSR, number: int) -> Parameters:
    """Parameters of so many units that say the strongest of what these directions do.

    A unit is on above the middle of its direction, and being on is two deviations from being off.
    Rows count by their ratings, as those of few hardly say where they stand.
    """
    count = np.diff(rows.start) + 1e-9
    scores = 2.0 * found.scores[:, :, :number] @ unmixing(found.of_rows[:, :number], count)
    weight = rows.value[:, None] if rows.value.size else 1.0
    usual = (weight * scores[rows.column, rows.level]).sum(axis=0) / max(rows.n_rows, 1)
    parameters = side.parameters
    bias = parameters.rating_bias + found.mean_scores - 0.5 * scores.sum(axis=2)
    return parameters._replace(hidden_bias=-usual, rating_bias=bias, coupling=scores)


def unmixing(rows: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """C^(1/2) O: what directions A (R, k) are of independent components A C^(-1/2) O.

    C is the second moments of A by these weights of rows, O a rotation (k, k) that makes fourth
    moments of each component extreme, by FastICA with cubes (Hyvarinen, 1999):
    O <- Z^T (Z O)^3 / R - 3 O, made orthogonal, with Z = A C^(-1/2). Of some random starts the one
    that ends with the least fourth moments: the values of a unit are two.
    """
    share = (weight / weight.sum())[:, None]
    value, vector = np.linalg.eigh(rows.T @ (share * rows))
    root = np.sqrt(np.maximum(value, 1e-12 * value.max()))
    white = rows @ (vector / root) @ vector.T
    rng = np.random.default_rng(0)
    k = rows.shape[1]
    turned = [
        _turned(white, share, np.linalg.qr(rng.normal(size=(k, k)))[0]) for _ in range(STARTS)
    ]
    best = min(turned, key=lambda one: float((share * (white @ one) ** 4).sum()))
    return (vector * root) @ vector.T @ best


def _turned(
    white: NDArray[np.float64], share: NDArray[np.float64], turned: NDArray[np.float64]
) -> NDArray[np.float64]:
    for _ in range(_ROUNDS):
        step = (share * white).T @ (white @ turned) ** 3 - 3 * turned
        left, _, right = np.linalg.svd(step)
        before, turned = turned, left @ right
        if np.abs(np.abs((turned * before).sum(axis=0)) - 1).max() < TURNED:
            break
    return turned


def start_there(machines: Iterable[Machine], starts: Iterable[Parameters | None]) -> None:
    """Put the units of the sides where they are to start; small random differences stay."""
    starts = tuple(starts)
    for machine in machines:
        for side, start in zip(machine.sides, starts, strict=True):
            if side is None or start is None:
                continue
            own, number = side.parameters, side.n_hidden
            own.hidden_bias[:number] = start.hidden_bias
            own.coupling[:, :, :number] += start.coupling.astype(own.coupling.dtype)
            if own.rating_bias.size:
                own.rating_bias[:] = start.rating_bias
