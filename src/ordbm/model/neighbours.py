"""Links between the columns of a rating matrix: the most correlated columns (paper, section 4.1).

Rows by user give links between items; rows by item, links between users.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ordbm.data.csr import CSR, stable_order
from ordbm.errors import CostError, SettingsError
from ordbm.runtime.interruption import safe_point
from ordbm.runtime.memory import check_memory
from ordbm.runtime.threads import run_on_threads, thread_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordbm.kernels.correlation import Best, Packing

PAIRS_PER_SECOND = 2e8  # co-rated pairs per second and thread that a refusal reckons with
BUDGET = 5e10  # co-rated pairs: some minutes of one thread at that rate
MOST_CANDIDATES = 5e7  # partners held by all threads together, 12 bytes each
ROUNDING = 1e-12  # real-valued sums that cancel to less than this part of their terms are zero


class Links(NamedTuple):
    """An undirected graph over C columns with E edges, each listed at both of its ends.

    Column c has neighbours `neighbour[start[c]:start[c + 1]]`, increasing; `edge` numbers the edges
    in the order of their (lower, higher) columns, the same number at both ends.
    """

    start: NDArray[np.int64]  # (C + 1,)
    neighbour: NDArray[np.int32]  # (2 E,)
    edge: NDArray[np.int32]  # (2 E,)
    similarity: NDArray[np.float32]  # (E,), not zero; negative where ratings repel each other

    @property
    def n_columns(self) -> int:
        return len(self.start) - 1

    @property
    def n_edges(self) -> int:
        return len(self.similarity)


def star_links(similarity: NDArray[np.float32]) -> Links:
    """Column 0 linked with all others, edge e with column e + 1."""
    n = len(similarity)
    return Links(
        start=np.array([0, *range(n, 2 * n + 1)], np.int64),
        neighbour=np.array([*range(1, n + 1), *[0] * n], np.int32),
        edge=np.array([*range(n), *range(n)], np.int32),
        similarity=similarity,
    )


def side_by_side(graphs: Sequence[Links]) -> Links:
    """The graphs with their columns one after the other."""
    columns = np.cumsum([0, *(len(one.start) - 1 for one in graphs)])
    edges = np.cumsum([0, *(one.n_edges for one in graphs)])
    starts = [one.start[:-1] + 2 * first for one, first in zip(graphs, edges, strict=False)]
    return Links(
        start=np.concatenate([*starts, [2 * edges[-1]]]).astype(np.int64),
        neighbour=np.concatenate(
            [one.neighbour + first for one, first in zip(graphs, columns, strict=False)]
        ).astype(np.int32),
        edge=np.concatenate(
            [one.edge + first for one, first in zip(graphs, edges, strict=False)]
        ).astype(np.int32),
        similarity=np.concatenate([one.similarity for one in graphs]),
    )


def no_links(n_columns: int) -> Links:
    """The graph without edges."""
    return Links(
        start=np.zeros(n_columns + 1, np.int64),
        neighbour=np.zeros(0, np.int32),
        edge=np.zeros(0, np.int32),
        similarity=np.zeros(0, np.float32),
    )


def pair_work(rows: CSR) -> int:
    """Σ_r N_r (N_r − 1) / 2: the co-rated pairs that links between the columns must visit."""
    length = np.diff(rows.start)
    return int((length * (length - 1) // 2).sum())


def correlation_links(
    rows: CSR,
    transposed: CSR,
    values: ArrayLike | None = None,
    *,
    n_neighbours: int = 100,
    shrinkage: float = 0.0,
    min_support: int = 3,
    threads: int | None = None,
    budget: float | None = BUDGET,
) -> Links:
    """Link each column with the columns most correlated with it.

    The similarity of columns i and j is the Pearson correlation over the n rows that rated both,
    each centred on its mean over those rows (Sarwar et al., 2001), times n / (n + shrinkage). A
    column lists its `n_neighbours` most similar columns among those of positive similarity and
    `min_support` common rows or more; ties go to the larger support, then to the lower column. Two
    columns are linked when either lists the other.

    The paper names neither shrinkage nor support: the defaults are none, and the least support at
    which a correlation says anything (over two common rows it is ±1 or undefined). Shrinking makes
    far better neighbours: without it the most similar columns are those that share just enough rows
    to agree by chance.

    `rows` and `transposed` are the two orientations of the same ratings (see `with_transpose`).
    `values` holds the number that stands for each level; without it `rows.value` is used.

    The result does not depend on `threads`. Work and time grow with `pair_work(rows)`; above
    `budget` pairs a `CostError` is raised (None: no limit).
    """
    n_columns = transposed.n_rows
    if n_neighbours < 0 or shrinkage < 0:
        raise SettingsError(
            f"n_neighbours ({n_neighbours}) and shrinkage ({shrinkage}) must not be negative"
        )
    threads = thread_count(threads)
    work = pair_work(rows)
    if n_neighbours == 0 or work == 0:
        return no_links(n_columns)
    if budget is not None and work > budget:
        raise CostError(cost_refusal(rows.n_rows, n_columns, work, budget, threads))

    from ordbm.kernels import correlation as kernel  # noqa: PLC0415

    score, packing = _scores(rows, transposed, values)
    tolerance = ROUNDING if packing is None else 0.0
    rule = kernel.Rule(float(shrinkage), int(min_support), tolerance)
    room = _heap_starts(rows, transposed, n_neighbours)
    check_memory(
        12 * int(room[-1]), f"{n_neighbours:,} links of each column", "ask for fewer links"
    )
    # Packing sweeps over all later columns; with fewer pairs than those, it does not pay.
    packs = packing is not None and packing.capacity > 0 and 2 * work > n_columns * (n_columns - 1)
    if packing is not None and not packs:
        score = (score - np.float32(packing.middle)).astype(np.float32)
    side = kernel.ScoredRatings(
        rows.start, rows.column, score, transposed.start, transposed.column, transposed.in_transpose
    )

    def scanner() -> Callable[[int, int, Best], None]:
        sums = np.zeros((n_columns, kernel.FIELDS))
        if packs:
            words = np.zeros(n_columns, np.uint64)
            return lambda first, last, best: kernel.scan_packed(
                side, first, last, packing, words, sums, rule, best
            )
        touched = np.empty(n_columns, np.int32)
        return lambda first, last, best: kernel.scan_directly(
            side, first, last, sums, touched, rule, best
        )

    return _links(_best_partners(scanner, room, threads), n_columns)


def cost_refusal(n_rows: int, n_columns: int, work: int, budget: float, threads: int) -> str:
    """Why so many co-rated pairs are not visited, and what to do."""
    seconds = work / PAIRS_PER_SECOND / threads
    return (
        f"links between {n_columns:,} columns over {n_rows:,} rows need about {work:.2g} co-rated "
        f"pairs, some {_duration(seconds)} on {threads} thread(s) at {PAIRS_PER_SECOND:.0e} pairs "
        f"per second and thread; the budget is {budget:.2g} pairs. The cost is the sum of squared "
        f"row lengths, so fewer neighbours do not lower it: leave these links out (user_links=0 "
        f"or item_links=0), drop or sample the longest rows, or raise the budget "
        f"(OrdinalBM(link_budget={1.06 * work:.2g}), correlation_links(budget={1.06 * work:.2g}))."
    )


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _scores(
    rows: CSR, transposed: CSR, values: ArrayLike | None
) -> tuple[NDArray[Any], Packing | None]:
    """The number of each rating in row order: grid positions and their packing, or reals."""
    if values is None:
        if len(rows.value) != len(rows.column):
            raise SettingsError("these ratings have levels: give `values`, a number for each level")
        return _standardised(np.asarray(rows.value, np.float64), rows, transposed), None
    number = np.asarray(values, np.float64)
    if not np.isfinite(number).all():
        raise SettingsError(f"every level needs a finite value; got {number.tolist()}")
    grid = _grid(number)
    if grid is None:
        return _standardised(number[rows.level], rows, transposed), None
    if np.array_equal(grid, np.arange(len(grid))):
        return rows.level, _packing(int(grid.max(initial=0)))
    return grid[rows.level], _packing(int(grid.max(initial=0)))


def _grid(values: NDArray[np.float64]) -> NDArray[np.uint8] | None:
    """Whole numbers 0..255 that are the values but for offset and unit, or None."""
    distinct = np.unique(values)
    if len(distinct) < 2:
        return np.zeros(len(values), np.uint8)
    position = (values - distinct[0]) / np.diff(distinct).min()
    whole = np.rint(position)
    if whole.max() > 255 or np.abs(position - whole).max() > 1e-6:
        return None
    grid: NDArray[np.uint8] = whole.astype(np.uint8)
    return grid


def _packing(width: int) -> Packing:
    """How to hold the six sums of as many co-ratings as possible, scores 0..width, in 64 bits."""
    from ordbm.kernels.correlation import Packing  # noqa: PLC0415

    middle = (width + 1) // 2
    lift = middle * (width - middle)  # the most negative product of two centred scores
    position = np.arange(width + 1)
    x, y = np.meshgrid(position, position, indexing="ij")
    centred_x, centred_y = x - middle, y - middle
    fields = [np.ones_like(x), x, y, centred_x**2, centred_y**2, centred_x * centred_y + lift]
    peaks = [int(field.max()) for field in fields]

    def bits(capacity: int) -> list[int]:
        return [(capacity * peak).bit_length() for peak in peaks]

    capacity = 0
    while capacity < 2**16 and sum(bits(2 * capacity + 1)) <= 64:
        capacity = 2 * capacity + 1
    widths = bits(capacity)
    shifts = np.concatenate([[0], np.cumsum(widths[:-1])]).astype(np.uint64)
    table = np.zeros_like(x, np.uint64)
    for field, shift in zip(fields, shifts, strict=True):
        table |= field.astype(np.uint64) << shift
    masks = np.array([(1 << bit) - 1 for bit in widths], np.uint64)
    if capacity < 15:  # so few that emptying the words would cost more than packing saves
        capacity = 0
    return Packing(table, shifts, masks, capacity, middle, lift)


def _standardised(score: NDArray[np.float64], rows: CSR, transposed: CSR) -> NDArray[np.float64]:
    """Scores less their column's mean, over its deviation: the same correlations, less rounding.

    A column that is constant but for rounding becomes zero.
    """
    n_columns = transposed.n_rows
    count = np.maximum(np.diff(transposed.start), 1)
    largest = np.zeros(n_columns)
    np.maximum.at(largest, rows.column, np.abs(score))
    mean = np.bincount(rows.column, score, n_columns) / count
    score = score - mean[rows.column]
    deviation = np.sqrt(np.bincount(rows.column, score * score, n_columns) / count)
    varies = deviation > ROUNDING * largest
    return score * np.where(varies, 1 / np.where(varies, deviation, 1), 0.0)[rows.column]


def _heap_starts(rows: CSR, transposed: CSR, n_neighbours: int) -> NDArray[np.int64]:
    """Where each column's list of partners begins; no longer than the partners it can have."""
    others = np.diff(rows.start) - 1
    met = np.concatenate([[0], np.cumsum(others[transposed.column])])
    possible = met[transposed.start[1:]] - met[transposed.start[:-1]]
    length = np.minimum(possible, min(n_neighbours, transposed.n_rows - 1))
    return np.concatenate([[0], np.cumsum(length)]).astype(np.int64)


def _best_partners(
    scanner: Callable[[], Callable[[int, int, Best], None]],
    room: NDArray[np.int64],
    threads: int,
) -> Best:
    """The best partners of every column: blocks of columns shared out over threads, then merged."""
    from ordbm.kernels.correlation import Best, merge  # noqa: PLC0415

    n_columns = len(room) - 1
    threads = int(max(min(threads, n_columns, MOST_CANDIDATES // max(room[-1], 1)), 1))
    block = min(max(n_columns // (16 * threads), 1), 64)
    firsts = iter(range(0, n_columns, block))
    shares: list[Best] = []

    def work(_: int) -> None:
        scan = scanner()
        best = Best(
            start=room.copy(),
            size=np.zeros(n_columns, np.int32),
            least=np.zeros(n_columns, np.float32),
            similarity=np.empty(room[-1], np.float32),
            support=np.empty(room[-1], np.int32),
            partner=np.empty(room[-1], np.int32),
        )
        for first in firsts:  # each is handed out once, whoever asks
            safe_point()
            scan(first, min(first + block, n_columns), best)
        shares.append(best)

    run_on_threads(threads, work)
    while len(shares) > 1:
        merge(shares[0], shares.pop())
    return shares[0]


def _links(best: Best, n_columns: int) -> Links:
    """The union of all columns' lists, as a graph."""
    room = np.diff(best.start)
    rank = np.arange(best.start[-1]) - np.repeat(best.start[:-1], room)
    filled = rank < np.repeat(best.size, room)
    owner = np.repeat(np.arange(n_columns), best.size)
    partner = best.partner[filled].astype(np.int64)
    key = np.minimum(owner, partner) * n_columns + np.maximum(owner, partner)
    key, first = np.unique(key, return_index=True)
    low, high = (key // n_columns).astype(np.int32), (key % n_columns).astype(np.int32)
    return links_between(low, high, best.similarity[filled][first], n_columns)


def links_between(
    low: NDArray[np.int32],
    high: NDArray[np.int32],
    similarity: NDArray[np.float32],
    n_columns: int,
) -> Links:
    """The graph of these edges, which are in the order of their (low, high) columns."""
    # A column's lower neighbours increase, then its higher ones do.
    end = np.concatenate([high, low])
    order = stable_order(end, n_columns)
    edge = np.arange(len(low), dtype=np.int32)
    return Links(
        start=np.concatenate([[0], np.cumsum(np.bincount(end, minlength=n_columns))]),
        neighbour=np.concatenate([low, high])[order],
        edge=np.concatenate([edge, edge])[order],
        similarity=similarity,
    )
