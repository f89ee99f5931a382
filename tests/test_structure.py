"""Structure: links by score tests, sizes by inner validation, and what is kept of the search."""

import json
from dataclasses import replace

import numpy as np
import pytest

from cli_runs import run
from ordbm import OrdinalBM, load, plots, simulate
from ordbm.data.csr import CSR
from ordbm.errors import CostError, ModelFileError, RatingsError, SettingsError
from ordbm.estimator.comparison import Comparison, mean_by_users
from ordbm.estimator.link_search import left_out_distribution
from ordbm.model.condensing import condensed, directions, likely_number
from ordbm.model.features import features
from ordbm.model.link_evidence import (
    LEAST_SQUARE,
    pair_tests,
    significant,
)
from ordbm.model.machine import new_side
from ordbm.model.neighbours import no_links
from ordbm.model.rules import StructureRules
from ordbm.model.structure import SOUGHT, USUAL, WHOLE, Sizes
from ordbm.persistence.container import read_container, write_container
from ordbm.persistence.stored_structure import unpacked_structure

QUICK = {"members": 1, "presence": False, "epochs": 10}
ALONE = {**QUICK, "hidden": 0, "item_links": 0}
RULES = StructureRules(most_folds=1)
SEARCH = {**QUICK, "hidden": (0, 4), "structure": "auto", "structure_rules": RULES}


def edges(links):
    """Each pair of linked columns, with its similarity."""
    column = np.repeat(np.arange(links.n_columns), np.diff(links.start))
    up = column < links.neighbour
    ends = np.stack([column[up], links.neighbour[up]], axis=1)
    return {
        tuple(pair): links.similarity[e]
        for pair, e in zip(ends.tolist(), links.edge[up], strict=True)
    }


def scored(fitted, **changed):
    side = fitted.machines[0].user_side
    told = {"min_support": 5, "budget": None, "threads": 1} | changed
    return pair_tests(
        *fitted.ratings, left_out_distribution(fitted, 0), fitted.machines[0].features,
        side.links, side.parameters.link_weight[:, 0], **told,
    )  # fmt: skip


@pytest.fixture(scope="module")
def simulated():
    return simulate(1200, 30, 20_000, hidden=0, links=20, seed=3)


@pytest.fixture(scope="module")
def unlinked(simulated):
    return OrdinalBM(**ALONE).fit(simulated.ratings)._state


@pytest.mark.parametrize(("few", "least"), [(29, LEAST_SQUARE), (30, 0.0)])
def test_score_tests_follow_their_definition(simulated, unlinked, monkeypatch, few, least):
    """Pair by pair and rating by rating, with links of given weights in the machine."""
    monkeypatch.setattr("ordbm.model.link_evidence.FEW_COLUMNS", few)
    graph = simulated.machine.user_side.links
    rng = np.random.default_rng(0)
    weight = rng.normal(size=graph.n_edges)
    proba = rng.dirichlet(np.ones(5), len(simulated.ratings))
    pair = unlinked.machines[0].features.pair[0]
    rows = unlinked.ratings.by_user
    found = pair_tests(
        *unlinked.ratings,
        proba,
        unlinked.machines[0].features,
        graph,
        weight,
        min_support=2,
        budget=None,
        threads=2,
    )
    assert (found.low < found.high).all()
    edge = {ends: number for number, ends in enumerate(sorted(edges(graph)))}
    passed = set()
    tested = positive = 0
    for i in range(30):
        for j in range(i + 1, 30):
            x, h = [], []
            for u in range(rows.n_rows):
                at = {rows.column[p]: p for p in range(rows.start[u], rows.start[u + 1])}
                if i not in at or j not in at:
                    continue
                sides = [(at[i], rows.level[at[j]]), (at[j], rows.level[at[i]])]
                felt = [
                    pair[rows.level[p], level] - proba[p] @ pair[:, level] for p, level in sides
                ]
                x.append(sum(felt))
                h.append(
                    sum(
                        proba[p] @ pair[:, level] ** 2 - (proba[p] @ pair[:, level]) ** 2
                        for p, level in sides
                    )
                )
            tested += len(x) >= 2
            own = weight[edge[i, j]] if (i, j) in edge else 0.0
            gradient = sum(x) + own * sum(h)
            z = gradient / np.sqrt(np.sum(np.square(x)))
            positive += len(x) >= 2 and z > 0
            if z * z < least:
                continue
            passed.add((i, j))
            place = np.flatnonzero((found.low == i) & (found.high == j))[0]
            assert found.support[place] == len(x)
            values = found.gradient[place], found.z[place], found.curvature[place]
            np.testing.assert_allclose(values, (gradient, z, sum(h)), rtol=1e-9)
    assert passed == set(zip(found.low.tolist(), found.high.tolist(), strict=True))
    assert found.n_tested == tested
    assert _normal_cdf(found.usual) == pytest.approx((positive + 0.5) / (tested + 1))


@pytest.mark.parametrize("kind", ["ordinal", "categorical", "gaussian"])
def test_true_links_come_back_with_their_signs(kind):
    drawn = simulate(1200, 30, 20_000, hidden=0, links=20, features=kind, seed=3)
    model = OrdinalBM(**{**SEARCH, "hidden": 0}, features=kind).fit(drawn.ratings)
    true = edges(drawn.machine.user_side.links)
    found = edges(model.machines[0].user_side.links)
    assert len(true.keys() & found.keys()) >= 0.75 * max(len(true), len(found))
    assert min(true.values()) < 0 < max(true.values())
    assert all(found[ends] * true[ends] > 0 for ends in true.keys() & found.keys())
    assert max(map(abs, found.values())) <= 1


def test_independent_ratings_have_no_links():
    drawn = simulate(600, 40, 12_000, hidden=0, strength=0.0, seed=1)
    fitted = OrdinalBM(**{**ALONE, "epochs": 20}).fit(drawn.ratings)._state
    tests = scored(fitted)
    assert significant(tests, 0.05).sum() <= 1
    assert tests.n_tested == 40 * 39 // 2
    assert len(tests.z) == tests.n_tested
    assert 0.05 < np.mean(tests.z**2 > LEAST_SQUARE) < 0.3  # of |N(0, 1)|, 0.157 is beyond


@pytest.mark.parametrize("usual", [0.0, -0.4, 1.5])
def test_significant_is_benjamini_and_yekutielis_step_up(unlinked, usual):
    """The larger of two p-values: of z, and of its distance from the usual one."""
    tests = scored(unlinked)._replace(usual=usual)
    p = []
    for z in tests.z:
        on_this_side = abs(z - usual) if abs(z) > abs(usual) else 0.0
        strength = min(abs(z), on_this_side) if z * usual > 0 else abs(z)
        p.append(2 * (1 - _normal_cdf(strength)))
    order, m = np.sort(p), tests.n_tested
    allowed = 0.2 / sum(m / k for k in range(1, m + 1))
    passed = [k for k in range(1, len(p) + 1) if order[k - 1] <= k * allowed]
    assert significant(tests, 0.2).sum() == max(passed, default=0) > 0
    assert not significant(tests._replace(z=np.zeros_like(tests.z)), 0.2).any()


def _normal_cdf(z):
    from math import erf, sqrt

    return 0.5 * (1 + erf(z / sqrt(2)))


def test_threads_change_no_bits_and_a_budget_is_kept(unlinked):
    one, three = scored(unlinked), scored(unlinked, threads=3)
    assert all(np.array_equal(a, b) for a, b in zip(one, three, strict=True))
    with pytest.raises(CostError, match="co-rated pairs"):
        scored(unlinked, budget=100)


def test_errors_of_differences_are_those_of_users():
    difference = np.array([1.0, 1.0, -1.0, -1.0, 3.0])
    mean, error = mean_by_users(difference, np.array([0, 0, 1, 1, 2]))
    assert mean == pytest.approx(0.6)
    assert error == pytest.approx(np.sqrt(0.8**2 + 3.2**2 + 2.4**2) / 5)


# -- the search ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def linked():
    return simulate(800, 24, 12_000, hidden=0, links=16, seed=5)


@pytest.fixture(scope="module")
def model(linked):
    return OrdinalBM(**SEARCH, threads=2).fit(linked.ratings)


def test_a_search_finds_links_of_both_signs(linked, model):
    links = model.machines[0].user_side.links
    true, found = edges(linked.machine.user_side.links), edges(links)
    hits = true.keys() & found.keys()
    assert len(hits) >= 0.7 * len(true)
    assert {np.sign(found[ends]) for ends in hits} == {-1.0, 1.0}
    structure = model.structure
    assert structure.sizes.item_links == links.n_edges == structure.links[0].kept
    assert structure.links[0].negative == (links.similarity < 0).sum()
    assert structure.sizes.user_links == structure.sizes.user_hidden == 0


@pytest.mark.parametrize(
    ("n_users", "n_items", "true"), [(800, 60, 2), (800, 60, 4), (100, 600, 3)]
)
def test_the_number_of_hidden_units_comes_back(n_users, n_items, true):
    drawn = simulate(n_users, n_items, 24_000, strength=2.0, hidden=(true, 0), sides="user", seed=0)
    told = {**SEARCH, "hidden": 12, "item_links": 0, "epochs": 20}
    model = OrdinalBM(sides="user", **told).fit(drawn.ratings)
    assert true <= model.structure.sizes.user_hidden <= true + 1


def test_gaussian_ratings_without_links_have_none():
    """Own units make each user's ratings sum to about nothing, which is no repulsion of items."""
    told = {**SEARCH, "hidden": (8, 0), "epochs": 20, "features": "gaussian"}
    drawn = simulate(800, 30, 15_000, hidden=(2, 0), features="gaussian", seed=1)
    structure = OrdinalBM(**told).fit(drawn.ratings).structure
    assert structure.kind_of("item_links") in (0, USUAL)
    assert structure.links[0].negative == 0


def test_what_is_found_is_as_good_as_the_usual_structure(linked):
    """Links that are one in a hundred can be left out; where they cannot, the usual ones stay."""
    told = {**SEARCH, "hidden": (4, 8), "structure_rules": StructureRules(most_folds=2)}
    drawn = simulate(300, 60, 9_000, strength=1.5, seed=2)
    for ratings in (linked.ratings, drawn.ratings):
        structure = OrdinalBM(**told).fit(ratings).structure
        last = structure.trials[-1]
        usual = structure.start
        if last.part == WHOLE and last.accepted:
            assert last.rise <= 0.5 * last.error
        else:
            assert structure.sizes[:3] == usual[:3]
            assert structure.kind_of("item_links") == usual.item_links


# -- comparisons and condensed units --------------------------------------------------------------


def compared(linked, loss):
    told = {"folds": 10, "wanted": 3_000, "most": 5, "seed": 0}
    return Comparison(linked.ratings, loss, **told)


def test_candidates_are_compared_on_the_same_ratings(linked):
    asked = []

    def loss(training, held, candidate):
        asked.append((candidate, len(training), len(held)))
        return held.values * candidate

    found = compared(linked, loss)
    assert len(found.folds) == 3  # of 1,200 ratings each
    user = np.concatenate([held.user_codes for _, held in found.folds])
    values = np.concatenate([held.values for _, held in found.folds])
    one = found.difference(1.5, 2.0)
    assert one.loss == pytest.approx(1.5 * values.mean())
    assert one[1:] == pytest.approx(mean_by_users(-0.5 * values, user))
    assert sorted(asked) == sorted((c, 10_800, 1_200) for c in (1.5, 2.0) for _ in range(3))
    assert found.best() == 1.5
    found.difference(2.0, 1.5)
    assert len(asked) == 6  # nothing is learnt twice


def test_what_is_clearly_worse_is_soon_left(linked):
    asked = []

    def loss(training, held, candidate):
        assert len(training) == 9 * len(held)
        asked.append(candidate)
        return held.values + candidate

    found = compared(linked, loss)
    found.losses(0.0)
    assert found.difference(1.0, 0.0).rise == pytest.approx(1.0)
    assert asked == [0.0, 0.0, 0.0, 1.0]
    assert found.best() == 0.0  # of what was looked at in all folds


def test_units_come_back_from_mixtures_of_them():
    """Couplings of ten units that mix three: the three, up to their order and which is `on`."""
    rng = np.random.default_rng(0)
    units = rng.random((3_000, 3)) < 0.5
    own = rng.normal(size=(40, 5, 3))
    mix = rng.normal(size=(3, 10)) * 0.3
    hidden = 0.5 + (units - 0.5) @ mix
    table = features("ordinal", 5)
    side = new_side(table, no_links(40), 10, has_bias=True, spread=1.0, rng=rng, dtype=np.float64)
    side.parameters.coupling[:, :, :10] = own @ np.linalg.pinv(mix).T
    found = directions(side, hidden)
    assert likely_number(found.strength) == 3
    kinds = np.int32, np.uint8, np.float32, np.int32
    rows = CSR(np.zeros(3_001, np.int64), *(np.zeros(0, kind) for kind in kinds))
    start = condensed(side, found, rows, 3)
    flat, true = (array.reshape(200, 3) for array in (start.coupling, own))
    cosine = flat.T @ true / np.outer(np.linalg.norm(flat, axis=0), np.linalg.norm(true, axis=0))
    match = np.abs(cosine).argmax(axis=1)
    assert sorted(match) == [0, 1, 2]
    assert np.abs(cosine).max(axis=1).min() > 0.95
    size = np.linalg.norm(flat, axis=0) / np.linalg.norm(true[:, match], axis=0)
    np.testing.assert_allclose(size, 1.0, rtol=0.1)
    # Half on and half off, the mean of the level scores is what it was.
    before = np.einsum("csk,k->cs", side.parameters.coupling[:, :, :10], hidden.mean(axis=0))
    after = start.rating_bias + 0.5 * start.coupling.sum(axis=2)
    np.testing.assert_allclose(after, side.parameters.rating_bias + before, atol=1e-9)


def test_strengths_without_a_gap_name_no_number():
    assert likely_number(0.8 ** np.arange(10)) == 0
    assert likely_number(np.array([1, 0.9, 0.1, 0.09, 0.08, 1e-9])) == 2
    assert likely_number(np.array([5.0])) == likely_number(np.zeros(8)) == 0


def test_what_is_accepted_is_what_is_there(model):
    """Trials tell the story of the sizes, and the machine has the last of them."""
    structure = model.structure
    side = model.machines[0].item_side
    assert (0, side.n_hidden) == structure.hidden
    last = {part: getattr(structure.start, part) for part in SOUGHT[:3]}
    for trial in structure.trials:
        if trial.accepted:
            last[trial.part] = trial.size
        assert trial.error >= 0
        assert trial.size_in_words or trial.part == WHOLE
    assert structure.trials[-1].part == WHOLE
    assert structure.trials[-1].accepted
    assert structure.sizes[:3] == tuple(last[part] for part in SOUGHT[:3])
    assert structure.kind_of("item_links") == last.get("item_links", 0)
    assert ("item_links" in last) == (structure.sizes.item_links > 0)


def test_the_same_on_any_number_of_threads(linked, model):
    again = OrdinalBM(**SEARCH, threads=1).fit(linked.ratings)
    assert again.structure == model.structure
    one, two = again.machines[0], model.machines[0]
    for ours, theirs in zip(one.sides, two.sides, strict=True):
        for a, b in zip(ours.parameters, theirs.parameters, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_structure_is_in_the_file_and_shown(model, tmp_path):
    path = tmp_path / "model.ordbm"
    model.save(path)
    again = load(path)
    assert again.structure == model.structure
    np.testing.assert_array_equal(again.predict([1, 2], [3, 4]), model.predict([1, 2], [3, 4]))
    told = json.loads(run("inspect", path, "--json").stdout)["structure"]
    assert told["sizes"] == model.structure.sizes._asdict()
    assert len(told["trials"]) == len(model.structure.trials)
    shown = run("inspect", path).stdout
    assert "Structure found" in shown
    assert "links between items" in shown
    ax = plots.plot_structure(again.structure)
    assert len(ax.get_yticklabels()) == len(model.structure.trials)


def test_a_structure_stays_when_ratings_come(model, tmp_path):
    grown = model.clone()
    grown._fitted = model._fitted
    grown.partial_fit({"user": [9001, 9001], "item": [3, 4], "rating": [5, 1]})
    assert grown.structure == model.structure
    grown.save(tmp_path / "grown.ordbm")
    assert load(tmp_path / "grown.ordbm").structure == model.structure


def test_a_forged_structure_is_refused(model, tmp_path):
    path = tmp_path / "model.ordbm"
    model.save(path)
    header, arrays = read_container(path, "model")
    plain = header["structure"]
    links = tuple(plain["sizes"][3:5])
    assert unpacked_structure(plain, links) == model.structure
    trial = plain["trials"][0]
    for forged in (
        plain | {"sizes": [1, *plain["sizes"][1:3], links[0] + 1, 0, 0]},
        plain | {"sizes": [-1, *plain["sizes"][1:]]},
        plain | {"start": [*plain["start"][:3], USUAL - 1, 0, 0]},
        plain | {"sizes": [0, 10**9, *plain["sizes"][2:]]},
        plain | {"sizes": plain["sizes"][:4]},
        plain | {"validation_ratings": "many"},
        plain | {"trials": [["colour", *trial[1:]]]},
        plain | {"trials": [[trial[0], USUAL - 1, *trial[2:]]]},
        plain | {"trials": [[*trial[:2], float("nan"), *trial[3:]]]},
        plain | {"trials": [[*trial[:5], 1, False]]},
        plain | {"trials": [[*trial[:6], 1]]},
        plain | {"link_looseness": 0.0},
        [],
    ):
        with pytest.raises((ValueError, TypeError)):
            unpacked_structure(forged, links)
    sizes = [plain["sizes"][0] + 1, *plain["sizes"][1:]]
    forged = header | {"structure": plain | {"sizes": sizes}}
    write_container(path, "model", forged, arrays)
    with pytest.raises(ModelFileError, match="hidden units"):
        load(path)


def test_a_search_is_not_repeated_on_resuming(linked, model, tmp_path, monkeypatch):
    stop = OrdinalBM(**SEARCH)
    stop.fit(linked.ratings, callbacks=lambda record: record.epoch == 3, checkpoint=tmp_path)
    # A training that a callback ended is over; as a kill would have left it, it is not.
    _as_killed(tmp_path)
    monkeypatch.setattr("ordbm.estimator.ordinal_bm.find_structure", None)  # must not be called
    again = OrdinalBM(**SEARCH).fit(linked.ratings, checkpoint=tmp_path, resume=True)
    assert again.structure == model.structure
    assert len(again.history) == SEARCH["epochs"]
    for ours, theirs in zip(again.machines[0].sides, model.machines[0].sides, strict=True):
        np.testing.assert_array_equal(ours.parameters.coupling, theirs.parameters.coupling)
        np.testing.assert_array_equal(ours.parameters.link_weight, theirs.parameters.link_weight)


def _as_killed(folder):
    path = folder / "checkpoint.ordbm"
    header, arrays = read_container(path, "checkpoint")
    write_container(path, "checkpoint", header | {"stopped": False}, arrays)


def test_progress_is_told(linked):
    class Watch:
        phases = ()

        def __call__(self, record):
            pass

        def on_progress(self, done):
            assert 0 <= done.share <= 1
            self.phases = (*self.phases, done.phase)

    watch = Watch()
    told = {**SEARCH, "hidden": 0, "item_links": 0, "epochs": 1}
    small = OrdinalBM(**told).fit(linked.ratings, callbacks=watch)
    assert "structure" in watch.phases
    assert small.structure.sizes[:2] == (0, 0)


def test_without_structure_there_is_none(unlinked):
    assert unlinked.structure is None
    with pytest.raises(RatingsError, match="structure"):
        plots.plot_structure(None)
    with pytest.raises(SettingsError, match="structure"):
        OrdinalBM(structure="all")
    assert Sizes(1, 2, 3, 4, 5).but("directions", 0)[:5] == (1, 2, 0, 4, 5)
    few = Sizes(1, 2, 3, 4, 5).but("user_hidden", 1, condensed=True)
    assert (few.condensed, few.but("user_hidden", 1).condensed) == (1, 0)
    assert replace(StructureRules(), folds=5).folds == 5


def test_no_links_from_no_pairs():
    assert no_links(3).n_edges == 0
