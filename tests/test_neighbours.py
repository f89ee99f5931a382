"""Links: against a brute-force twin, and what a graph of links must always be."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordbm.data.csr import CSR, with_transpose
from ordbm.errors import CostError, OrdbmError
from ordbm.model.neighbours import Links, _grid, _packing, correlation_links, no_links, pair_work

MISSING = -1
FIVE = np.arange(1.0, 6.0)


def orientations(table, real=None):
    """Both orientations of a dense table of levels, MISSING where there is no rating."""
    rated = table != MISSING
    column = np.nonzero(rated)[1]
    rows = CSR(
        start=np.concatenate([[0], np.cumsum(rated.sum(axis=1))]).astype(np.int64),
        column=column.astype(np.int32),
        level=table[rated].astype(np.uint8),
        value=np.zeros(0, np.float32) if real is None else real[rated],
        in_transpose=np.zeros(0, np.int32),
    )
    return with_transpose(rows, table.shape[1])


def random_table(seed, n_rows, n_columns, n_levels=5, density=0.4):
    rng = np.random.default_rng(seed)
    level = rng.integers(n_levels, size=(n_rows, n_columns))
    return np.where(rng.random((n_rows, n_columns)) < density, level, MISSING)


def twin_similarity(table, number, shrinkage, min_support):
    """Pearson correlation of columns over their common rows, zero where they cannot be linked."""
    n_columns = table.shape[1]
    similarity = np.zeros((n_columns, n_columns), np.float32)
    support = np.zeros((n_columns, n_columns), np.int64)
    for i in range(n_columns):
        for j in range(n_columns):
            both = (table[:, i] != MISSING) & (table[:, j] != MISSING)
            n = support[i, j] = both.sum()
            if i == j or n < max(min_support, 2):
                continue
            x, y = number[both, i], number[both, j]
            if np.ptp(x) == 0 or np.ptp(y) == 0:
                continue
            x, y = x - x.mean(), y - y.mean()
            r = (x @ y) / np.sqrt((x @ x) * (y @ y))
            similarity[i, j] = r * n / (n + shrinkage) if r > 1e-9 else 0
    return similarity, support


def twin_edges(similarity, support, n_neighbours):
    """Pairs that either column lists, and their similarity."""
    edges = {}
    for i in range(len(similarity)):
        ranked = sorted(
            np.flatnonzero(similarity[i] > 0), key=lambda j: (-similarity[i, j], -support[i, j], j)
        )
        for j in ranked[:n_neighbours]:
            edges[min(i, j), max(i, j)] = similarity[i, j]
    return edges


def as_edges(links):
    edges = {}
    for column in range(links.n_columns):
        for at in range(links.start[column], links.start[column + 1]):
            pair = column, int(links.neighbour[at])
            edges[min(pair), max(pair)] = links.similarity[links.edge[at]]
    return edges


def assert_same(edges, expected):
    assert edges.keys() == expected.keys()
    for pair, similarity in expected.items():
        assert edges[pair] == pytest.approx(similarity, rel=1e-5)


def assert_identical(one: Links, other: Links):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_graph(links):
    """Sorted, symmetric, without loops; edges numbered by their (lower, higher) columns."""
    owner = np.repeat(np.arange(links.n_columns), np.diff(links.start))
    pairs = np.stack([owner, links.neighbour], axis=1)
    assert (np.lexsort(pairs.T[::-1]) == np.arange(len(pairs))).all()
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert links.start[-1] == len(links.neighbour) == len(links.edge) == 2 * links.n_edges
    for forwards in (True, False):
        direction = pairs[:, 0] < pairs[:, 1] if forwards else pairs[:, 0] > pairs[:, 1]
        ends = pairs[direction] if forwards else pairs[direction][:, ::-1]
        assert (np.sort(links.edge[direction]) == np.arange(links.n_edges)).all()
        by_edge = ends[np.argsort(links.edge[direction])]
        assert (np.lexsort(by_edge.T[::-1]) == np.arange(links.n_edges)).all()
    assert len({tuple(pair) for pair in pairs}) == len(pairs)
    assert np.isfinite(links.similarity).all()
    assert ((links.similarity > 0) & (links.similarity <= 1)).all()
    assert links.start.dtype == np.int64
    assert links.neighbour.dtype == links.edge.dtype == np.int32
    assert links.similarity.dtype == np.float32


@st.composite
def problems(draw):
    n_levels = draw(st.integers(1, 7))
    table = random_table(
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(1, 25)),
        draw(st.integers(1, 14)),
        n_levels,
        draw(st.sampled_from([0.05, 0.3, 0.6, 1.0])),
    )
    options = {
        "n_neighbours": draw(st.integers(1, 6)),
        "shrinkage": draw(st.sampled_from([0.0, 3.0, 100.0])),
        "min_support": draw(st.integers(0, 5)),
    }
    return table, n_levels, options


def expected_edges(table, number, options):
    similarity = twin_similarity(table, number, options["shrinkage"], options["min_support"])
    return twin_edges(*similarity, options["n_neighbours"])


@settings(max_examples=150, deadline=None)
@given(problems())
def test_links_are_the_twins(problem):
    table, n_levels, options = problem
    rows, transposed = orientations(table)
    links = correlation_links(rows, transposed, np.arange(n_levels) + 1.0, threads=1, **options)
    assert_graph(links)
    assert_same(as_edges(links), expected_edges(table, table.astype(float), options))


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(["uneven", "continuous"]))
def test_real_values_too(problem, kind):
    table, n_levels, options = problem
    rng = np.random.default_rng(7)
    if kind == "uneven":  # levels on no grid of whole numbers
        values = np.cumsum(rng.uniform(0.5, 1.5, n_levels)) + 1000
        number = values[table]
        rows, transposed = orientations(table)
        assert n_levels < 3 or _grid(values) is None
    else:
        values = None
        number = rng.normal(50, 3, table.shape)
        rows, transposed = orientations(table, number)
    links = correlation_links(rows, transposed, values, threads=1, **options)
    assert_graph(links)
    edges, expected = as_edges(links), expected_edges(table, number, options)
    if kind == "continuous" and options["min_support"] > 2:
        assert_same(edges, expected)
        return
    # Correlations equal but for rounding (all of two common rows, say) may rank either way.
    similarity, _ = twin_similarity(table, number, options["shrinkage"], options["min_support"])
    for (i, j), found in edges.items():
        assert found == pytest.approx(similarity[i, j], rel=1e-5)
    strength = [sorted(map(float, each.values())) for each in (edges, expected)]
    if options["n_neighbours"] >= table.shape[1] - 1:
        assert strength[0] == pytest.approx(strength[1], rel=1e-5)


def test_large_values_close_together_have_the_links_of_small_ones():
    table = random_table(13, 60, 20)
    seconds = np.random.default_rng(3).integers(0, 300, table.shape).astype(float)
    small, large = (
        correlation_links(*orientations(table, start + seconds), n_neighbours=3)
        for start in (0.0, 1.6e9)
    )
    assert small.n_edges > 0
    assert_same(as_edges(large), as_edges(small))


@pytest.mark.parametrize("n_levels", [2, 5, 10, 40])
def test_long_columns_empty_their_words_in_time(n_levels):
    """More ratings per column than a packed word holds; 40 levels do not pack at all."""
    table = random_table(3, 2500, 12, n_levels, 0.8)
    table[:, 1] = np.where(table[:, 0] >= 0, n_levels - 1 - table[:, 0], MISSING)
    table[5:, 1] = table[5:, 2]
    rows, transposed = orientations(table)
    assert _packing(n_levels - 1).capacity < 1200
    options = {"n_neighbours": 4, "shrinkage": 10.0, "min_support": 3}
    links = correlation_links(rows, transposed, np.arange(float(n_levels)), **options)
    assert_graph(links)
    assert_same(as_edges(links), expected_edges(table, table.astype(float), options))


def test_packing_holds_what_it_promises():
    for width in range(60):
        packing = _packing(width)
        peak = max(packing.capacity, 1)
        for x, y in ((0, 0), (0, width), (width, 0), (width, width)):
            word = peak * int(packing.table[x, y])
            assert packing.capacity == 0 or word < 2**64
            n, sx, sy, sxx, syy, sxy = (
                (word >> int(shift)) & int(mask)
                for shift, mask in zip(packing.shift, packing.mask, strict=True)
            )
            if packing.capacity:
                a, b = x - packing.middle, y - packing.middle
                assert (n, sx, sy) == (peak, x * peak, y * peak)
                assert (sxx, syy) == (a * a * peak, b * b * peak)
                assert sxy - packing.lift * peak == a * b * peak
    assert _packing(4).capacity == 255


def test_thread_count_changes_nothing():
    rng = np.random.default_rng(5)
    table = random_table(11, 150, 90, 3, 0.15)  # three levels: many ties
    real = rng.normal(size=table.shape)
    for rows, transposed, values in (
        (*orientations(table), np.arange(3.0)),
        (*orientations(table, real), None),
    ):
        links = [
            correlation_links(
                rows, transposed, values, n_neighbours=5, min_support=2, threads=threads
            )
            for threads in (1, 2, 3, 7)
        ]
        for other in links[1:]:
            assert_identical(links[0], other)
        assert links[0].n_edges > 0


def test_user_links_are_item_links_of_the_transpose():
    table = random_table(2, 40, 30)
    by_user, by_item = orientations(table)
    flipped_by_user, flipped_by_item = orientations(table.T)
    assert_identical(
        correlation_links(by_item, by_user, FIVE, n_neighbours=4),
        correlation_links(flipped_by_user, flipped_by_item, FIVE, n_neighbours=4),
    )


def test_offset_and_unit_of_the_scale_do_not_matter():
    rows, transposed = orientations(random_table(4, 60, 20))
    expected = correlation_links(rows, transposed, FIVE, n_neighbours=3)
    for values in (FIVE / 2, FIVE * 0.1 - 7, FIVE * 1e6):
        assert_identical(correlation_links(rows, transposed, values, n_neighbours=3), expected)


def test_a_worked_example():
    """Columns 0 and 1 agree, 2 runs against both, 3 shares two rows with them."""
    table = np.array([[0, 1, 4, 0], [1, 2, 3, 1], [2, 3, 2, MISSING], [4, 4, 0, MISSING]])
    rows, transposed = orientations(table)
    x, y = table[:, 0], table[:, 1]
    r = np.corrcoef(x, y)[0, 1]
    assert as_edges(correlation_links(rows, transposed, FIVE)) == {(0, 1): np.float32(r)}
    shrunk = correlation_links(rows, transposed, FIVE, shrinkage=4, min_support=2)
    assert as_edges(shrunk) == {
        (0, 1): pytest.approx(r / 2),
        (0, 3): pytest.approx(2 / 6),
        (1, 3): pytest.approx(2 / 6),
    }


def test_ties_go_to_support_then_to_the_lower_column():
    """Columns 1, 2 and 3 are copies of column 0; column 2 has one rating more than the others."""
    table = np.tile(np.array([[0], [1], [2], [3]]), (1, 4))
    table[3, [1, 3]] = MISSING
    rows, transposed = orientations(table)
    links = correlation_links(rows, transposed, FIVE, n_neighbours=1)
    # 0 and 2 list each other (support 4); 1 and 3, whose supports are all 3, list column 0.
    assert set(as_edges(links)) == {(0, 2), (0, 1), (0, 3)}


@pytest.mark.parametrize("value", [3.0, 0.1, 1e6 + 0.1])
def test_constant_columns_have_no_links(value):
    table = random_table(8, 50, 6, 5, 0.9)
    table[:, 2] = np.where(table[:, 2] != MISSING, 3, MISSING)
    real = np.where(table == 3, value, table * 1.7 + value)
    for rows, transposed, values in (
        (*orientations(table), FIVE),
        (*orientations(table), np.array([0.0, 0.1, 0.37, value, 9.9 + value])),
        (*orientations(table, real), None),
    ):
        links = correlation_links(rows, transposed, values)
        assert_graph(links)
        assert links.n_edges > 0
        assert links.start[2] == links.start[3]


@pytest.mark.parametrize("values", [[2.0], [0.1]])
def test_one_level_has_no_links(values):
    rows, transposed = orientations(random_table(1, 20, 8, n_levels=1))
    assert_identical(correlation_links(rows, transposed, values), no_links(8))


def test_empty_columns_and_rows():
    table = random_table(6, 30, 12)
    table[:, [0, 5, 11]] = MISSING
    table[[0, 4, 29]] = MISSING
    rows, transposed = orientations(table)
    links = correlation_links(rows, transposed, FIVE)
    assert_graph(links)
    degree = np.diff(links.start)
    assert (degree[[0, 5, 11]] == 0).all()
    assert degree.sum() > 0
    nothing = orientations(np.full((4, 3), MISSING))
    assert_identical(correlation_links(*nothing, FIVE), no_links(3))
    assert_graph(no_links(3))
    assert no_links(0).n_columns == 0


def test_the_graph_without_edges():
    found = no_links(3)
    assert [array.shape for array in found] == [(4,), (0,), (0,), (0,)]
    assert (found.n_columns, found.n_edges) == (3, 0)
    assert not found.start.any()


def test_no_neighbours_asked_for():
    rows, transposed = orientations(random_table(1, 20, 8))
    assert_identical(correlation_links(rows, transposed, FIVE, n_neighbours=0), no_links(8))


def test_every_column_lists_enough():
    """A column has at least min(n_neighbours, its positive partners) links: union only adds."""
    table = random_table(9, 80, 40, 5, 0.5)
    rows, transposed = orientations(table)
    similarity, _ = twin_similarity(table, table.astype(float), 0, 3)
    links = correlation_links(rows, transposed, FIVE, n_neighbours=7)
    assert (np.diff(links.start) >= np.minimum((similarity > 0).sum(axis=1), 7)).all()


def test_pair_work_counts_pairs():
    table = random_table(10, 30, 20)
    rows, _ = orientations(table)
    lengths = (table != MISSING).sum(axis=1)
    assert pair_work(rows) == sum(n * (n - 1) // 2 for n in lengths.tolist())


def test_refusal_states_the_cost():
    table = random_table(12, 100, 80, 5, 1.0)
    rows, transposed = orientations(table)
    work = pair_work(rows)
    assert work == 100 * 80 * 79 // 2
    with pytest.raises(CostError) as refused:
        correlation_links(rows, transposed, FIVE, budget=1000)
    message = str(refused.value)
    for part in (
        "80 columns",
        "100 rows",
        "3.2e+05",
        "seconds",
        "budget",
        "user_links=0",
        "sample",
    ):
        assert part in message
    correlation_links(rows, transposed, FIVE, budget=work)
    correlation_links(rows, transposed, FIVE, budget=None)


def test_netflix_users_are_refused_at_once():
    """208,332 users: refused from the lengths of the rows alone."""
    lengths = np.full(300, 45_470)  # as if a tenth of the movies had all the ratings
    rows = CSR(
        start=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        column=np.zeros(0, np.int32),
        level=np.zeros(0, np.uint8),
        value=np.zeros(0, np.float32),
        in_transpose=np.zeros(0, np.int32),
    )
    transposed = rows._replace(start=np.zeros(208_333, np.int64))
    assert pair_work(rows) > 3e11
    with pytest.raises(CostError, match=r"208,332 columns .* minutes on 2 thread"):
        correlation_links(rows, transposed, FIVE, threads=2)


def test_bad_settings_are_named():
    rows, transposed = orientations(random_table(1, 20, 8))
    for wrong in ({"n_neighbours": -1}, {"shrinkage": -0.5}, {"threads": 0}):
        with pytest.raises(OrdbmError, match=next(iter(wrong))):
            correlation_links(rows, transposed, FIVE, **wrong)
    with pytest.raises(OrdbmError, match="values"):
        correlation_links(rows, transposed)
    with pytest.raises(OrdbmError, match="finite"):
        correlation_links(rows, transposed, [1, 2, 3, np.nan, 5])


def test_importing_does_not_load_numba():
    code = "import sys, ordbm.model.neighbours; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
