"""Which links the ratings ask for: a score test of every pair of columns that rows rate together.

The gradient of the log pseudo-likelihood by the weight of a link between i and j is a sum over the
rows that rated both,

    g = sum_r x_r,    x_r = sum_s D_i(s) f(s, r_j) + D_j(s) f(s, r_i),

D being residuals: what was rated less its distribution given all else. Without a link its terms
have mean zero, so that z = g / sqrt(sum x^2) is close to standard normal; |z| is at most the root
of the number of rows, few of which therefore show nothing. Where a machine has the link already,
g + lambda sum h takes its place, h being the curvature: the same test of lambda = 0.

What the machine leaves unexplained of all pairs, such as tastes that priors hold back, moves all z
by about the same. So a pair stands out only if its z does, from zero and from the usual one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, log_ndtr, ndtri

from ordbm.data.csr import CSR
from ordbm.errors import CostError
from ordbm.model.features import Features
from ordbm.model.neighbours import Links, cost_refusal, links_between, pair_work
from ordbm.runtime.arrays import Array
from ordbm.runtime.interruption import safe_point
from ordbm.runtime.threads import run_on_threads, thread_count

FEW_COLUMNS = 4_000  # up to which all pairs are kept: memory
LEAST_SQUARE = 2.0  # z^2 of a pair that is kept of more: Akaike's count finds a weight worth it


class PairTests(NamedTuple):
    """Pairs of columns and their score tests, in the order of (low, high)."""

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    support: NDArray[np.int32]  # rows that rated both
    gradient: NDArray[np.float64]  # by the weight, where it is zero
    z: NDArray[np.float64]
    curvature: NDArray[np.float64]
    n_tested: int  # pairs with rows enough, those with a smaller z included
    usual: float  # the median of their z, by how many are positive
    n_columns: int
    distance: bool  # whether weights multiply one: then negative ones attract


def pair_tests(
    rows: CSR,
    transposed: CSR,
    probability: Array,
    features: Features,
    links: Links,
    weight: Array,
    *,
    min_support: int,
    budget: float | None,
    threads: int | None = None,
) -> PairTests:
    """The tests of pairs of columns with `min_support` common rows.

    Of more than `FEW_COLUMNS` columns only pairs whose z^2 is `LEAST_SQUARE` or more are kept.
    `probability` (N, n) has each rating's distribution given all others; of a Gaussian machine it
    is the mean, (N, 1). `links` are those that the machine has, and `weight` (E,) theirs. The
    result does not depend on `threads`.
    """
    from ordbm.kernels import link_evidence as kernel  # noqa: PLC0415

    n_columns = transposed.n_rows
    threads = thread_count(threads)
    work = pair_work(rows)
    if budget is not None and work > budget:
        raise CostError(cost_refusal(rows.n_rows, n_columns, work, budget, threads))
    felt, spread = _felt(rows, probability, features.pair[0])
    side = kernel.Residuals(
        rows.start, rows.column, rows.level, rows.value, felt, spread,
        transposed.start, transposed.column, transposed.in_transpose,
    )  # fmt: skip
    weight = np.ascontiguousarray(weight, np.float64)
    least = LEAST_SQUARE if n_columns > FEW_COLUMNS else 0.0
    columns = iter(range(n_columns))
    found: dict[int, tuple[Array, ...]] = {}
    tested, positive = np.zeros((2, n_columns), np.int64)

    def scan(_: int) -> None:
        sums = np.zeros((n_columns, kernel.EVIDENCE_SUMS))
        touched = np.empty(n_columns, np.int32)
        room = kernel.Partners(
            *(np.empty(n_columns, kind) for kind in (np.int32, np.int32, *[np.float64] * 3))
        )
        for column in columns:  # each is handed out once, whoever asks
            safe_point()
            count, tested[column], positive[column] = kernel.scan_column(
                column, side, links, weight, least, min_support, sums, touched, room
            )
            found[column] = tuple(array[:count].copy() for array in room)

    run_on_threads(threads, scan)
    parts = [found[column] for column in range(n_columns)]
    low = np.repeat(np.arange(n_columns, dtype=np.int32), [len(part[0]) for part in parts])
    of_pairs = [np.concatenate(own) for own in zip(*parts, strict=True)]
    order = np.lexsort((of_pairs[0], low))
    high, support, gradient, z, curvature = (array[order] for array in of_pairs)
    return PairTests(
        low, high, support, gradient, z, curvature, int(tested.sum()),
        float(ndtri((positive.sum() + 0.5) / (tested.sum() + 1))), n_columns,
        features.kind == "ordinal",
    )  # fmt: skip


def significant(tests: PairTests, false_share: float) -> NDArray[np.bool_]:
    """Which of the tests stand out, so that at most this share of these is expected to by chance.

    Benjamini and Yekutieli (2001), as tests that share a column depend on each other: the k with
    the largest |z| (or distance from the usual z on its side of zero, if that is less), for the
    largest k whose weakest has P(|N(0, 1)| > |z|) <= k false_share / (m (1 + 1/2 + ... + 1/m)), m
    being how many are tested.
    """
    beyond = np.sign(tests.z) * tests.usual  # by how much a z of this sign is usual
    strength = np.maximum(np.abs(tests.z) - np.maximum(beyond, 0.0), 0.0)
    order = np.argsort(-strength, kind="stable")
    log_p = np.log(2.0) + log_ndtr(-strength[order])
    rank = np.arange(1, len(order) + 1)
    m = max(tests.n_tested, 1)
    harmonic = digamma(m + 1) + np.euler_gamma
    passed = np.flatnonzero(log_p <= np.log(rank * false_share / (m * harmonic)))
    chosen = np.zeros(len(order), np.bool_)
    chosen[order[: passed[-1] + 1 if len(passed) else 0]] = True
    return chosen


def precision_of(tests: PairTests, chosen: NDArray[np.bool_]) -> float:
    """1 / mean (g^2 - sum x^2) / (sum h)^2: the precision of the chosen weights, by their moments.

    The variance that estimates g / sum h have by chance is taken off; infinity if nothing is left.
    """
    gradient, z, curvature = (array[chosen] for array in (tests.gradient, tests.z, tests.curvature))
    with np.errstate(divide="ignore", invalid="ignore"):
        square = gradient**2 * (1 - 1 / z**2) / curvature**2
    mean = float(square[np.isfinite(square)].mean()) if np.isfinite(square).any() else 0.0
    return 1 / mean if mean > 0 else np.inf


def linked_pairs(tests: PairTests, chosen: NDArray[np.bool_]) -> Links:
    """These pairs as links; their similarity is z / sqrt(n), positive where ratings attract.

    It is between -1 and 1: the mean of x over the root of its mean square.
    """
    similarity = tests.z[chosen] / np.sqrt(tests.support[chosen])
    return links_between(
        tests.low[chosen],
        tests.high[chosen],
        (-similarity if tests.distance else similarity).astype(np.float32),
        tests.n_columns,
    )


def pair_keys(low: Array, high: Array, n_columns: int) -> NDArray[np.int64]:
    """A number for each pair, increasing in the order of (low, high)."""
    keys: NDArray[np.int64] = low.astype(np.int64) * n_columns + high
    return keys


def keys_of(links: Links) -> NDArray[np.int64]:
    """Those of linked pairs."""
    column = np.repeat(np.arange(links.n_columns), np.diff(links.start))
    upward = links.neighbour > column
    return pair_keys(column[upward], links.neighbour[upward], links.n_columns)


def _felt(rows: CSR, probability: Array, pair: Array) -> tuple[Array, Array]:
    """Residuals as each level of another rating feels them, and the variance of that, (N, n)."""
    if rows.value.size:  # the feature is the product of both ratings, whose variance is one
        return (rows.value[:, None] - probability), np.ones_like(probability)
    mean = probability @ pair
    return pair[rows.level] - mean, probability @ pair**2 - mean**2
