"""Explanations: parts that add up, equal to a slow integration over the enumerated machine."""

import contextlib
import json
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logit

import ordbm
import referee
from ordbm import OrdinalBM, Ratings, RatingScale
from ordbm.data.scale import ContinuousScale
from ordbm.data.standardiser import Standardiser
from ordbm.errors import DivergedError, NotFittedError, RatingsError, SettingsError
from ordbm.explain import pair_terms
from ordbm.explain.attribution import attribution, distribution_of
from ordbm.explain.pair_terms import REACH, pair_of
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.inference.distributions import predicted_distribution

STARS = RatingScale([1, 2, 3])
STANDARD = Standardiser(3.1, 1.3)
CONTINUOUS = ContinuousScale(3.0, 2.0)
PAIRS = [*np.ndindex(referee.N_USERS, referee.N_ITEMS), (-1, 0), (2, -1), (-1, -1)]
TINY = {"hidden": 3, "members": 2, "item_links": 4, "epochs": 2}


def taken_apart(case, user, item, scale=STARS, standardiser=None, threshold=1):
    """The pair, its distribution, and the attribution of its log-odds or mean."""
    conditioned = ConditionedMachine(case.machine, case.ratings, 1)
    pair = pair_of(conditioned, conditioned, user, item, scale, standardiser)
    target = pair.value if scale is CONTINUOUS else pair.level >= threshold
    return pair, distribution_of([pair], scale), attribution([pair], [target])


def total(found):
    shares = [share for share in (found.user_share, found.item_share) if share is not None]
    return sum(share.standing + share.taste.sum() + share.link.sum() for share in shares)


def alone(case, user, item):
    """Potentials of levels before anything is known, but for who and what is unknown."""
    sides = zip(case.machine.sides, (item, user), strict=True)
    return case.machine.level_bias + sum(
        side.unknown_bias for side, column in sides if side is not None and column < 0
    )


def model_prediction(case, user, item, scale=STARS, standardiser=None):
    codes = np.array([user], np.int32), np.array([item], np.int32)
    return predicted_distribution(
        ConditionedMachine(case.machine, case.ratings, 1), scale, standardiser, *codes
    )


# Every kind of machine: parts add up to the change of the model's own prediction


@pytest.mark.parametrize(("kind", "sides", "links"), referee.DISCRETE)
def test_parts_add_up_to_the_change_in_log_odds(kind, sides, links):
    case = referee.case(kind, sides, links)
    for user, item in PAIRS:
        share = referee.softmax(alone(case, user, item))
        for threshold in (1, 2):
            _, distribution, found = taken_apart(case, user, item, threshold=threshold)
            proba = model_prediction(case, user, item).proba
            np.testing.assert_allclose(distribution.proba, proba, rtol=1e-9)
            np.testing.assert_allclose(found.base, logit(share[threshold:].sum()), atol=1e-9)
            np.testing.assert_allclose(found.final, logit(proba[0, threshold:].sum()), atol=1e-8)
            np.testing.assert_allclose(found.base + total(found), found.final, atol=1e-9)


@pytest.mark.parametrize(("kind", "sides", "links"), referee.GAUSSIAN)
@pytest.mark.parametrize("scale", [STARS, CONTINUOUS], ids=["levels", "continuous"])
def test_parts_of_gaussian_machines_add_up(kind, sides, links, scale):
    """On levels to the change in log-odds, on a continuous scale to the change in the mean."""
    case = referee.case(kind, sides, links)
    for user, item in PAIRS[2:]:
        _, distribution, found = taken_apart(case, user, item, scale, STANDARD)
        expected = model_prediction(case, user, item, scale, STANDARD)
        np.testing.assert_allclose(distribution.mean(), expected.mean(), rtol=1e-9)
        np.testing.assert_allclose(distribution.deviation(), expected.deviation(), rtol=1e-8)
        np.testing.assert_allclose(found.base + total(found), found.final, atol=1e-9)
        if scale is CONTINUOUS:
            np.testing.assert_allclose(found.final, expected.mean()[0], rtol=1e-9)
            base = STANDARD.mean + STANDARD.deviation * alone(case, user, item)[0]
            np.testing.assert_allclose(found.base, base, rtol=1e-9)


@pytest.mark.parametrize("kind", referee.KINDS)
def test_parts_add_up_where_hidden_units_switch_sharply(kind):
    case = referee.case(kind, "joint", "both", spread=8.0)
    gaussian = {"scale": CONTINUOUS, "standardiser": STANDARD} if kind == "gaussian" else {}
    for user, item in PAIRS:
        _, _, found = taken_apart(case, user, item, **gaussian)
        np.testing.assert_allclose(found.base + total(found), found.final, atol=1e-6)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_parts_of_a_mean_add_up_in_any_unit(unit):
    case = referee.case("gaussian", "joint", "both")
    _, _, found = taken_apart(case, 0, 3, CONTINUOUS, Standardiser(0.0, unit))
    np.testing.assert_allclose(found.base + total(found), found.final, rtol=1e-9)


def test_couplings_so_large_that_rounding_shows_still_end():
    case = referee.case("ordinal", "joint", "both", spread=1e6)
    _, _, found = taken_apart(case, 0, 3)
    np.testing.assert_allclose(found.base + total(found), found.final, rtol=1e-6)


# Against slow integration: every contribution has its own dial, turned from 0 to 1


class Dials:
    """A referee's pair whose contributions can each be let in by a share of their own."""

    def __init__(self, case, user, item, points):
        self.case, self.user, self.item = case, user, item
        near = np.full_like(case.table, np.nan)
        near[user], near[:, item] = case.table[user], case.table[:, item]
        near[user, item] = np.nan
        self.tables = [referee.with_rating(near, user, item, point) for point in points]
        self.hidden = referee.configurations(case.machine, near, [user], [item])
        self.items = np.flatnonzero(~np.isnan(near[user]))
        self.users = np.flatnonzero(~np.isnan(near[:, item]))
        nothing = dict.fromkeys(self.names(), 0.0)
        base = self._potential(self._dialled(nothing, only="neither"))
        self.untouched = {
            side: self._potential(self._dialled(nothing, only=side)) - base
            for side in ("user", "item")
        }

    def names(self):
        """("standing", side), ("taste", side, other) and ("link", side, other)."""
        rated = {"user": self.items, "item": self.users}
        standing = [("standing", side) for side in rated]
        return standing + [
            (kind, side, int(other))
            for kind in ("taste", "link")
            for side, others in rated.items()
            for other in others
        ]

    def scores(self, dial):
        """Potential of each point; hidden units that hear nothing are let in with the standing."""
        found = self._potential(self._dialled(dial))
        for side, potential in self.untouched.items():
            found = found - (1 - dial["standing", side]) * potential
        return found

    def _dialled(self, dial, only=None):
        machine = referee.copied(self.case.machine)
        sides = {"user": machine.user_side, "item": machine.item_side}
        for name, side in sides.items():
            if side is None:
                continue
            own = self.item if name == "user" else self.user
            parameters = side.parameters
            if len(parameters.rating_bias):
                parameters.rating_bias[own] *= dial["standing", name]
            for other in self.items if name == "user" else self.users:
                parameters.coupling[other] *= dial["taste", name, int(other)]
                for i, j, edge in referee.edges(side.links):
                    if {i, j} == {own, int(other)}:
                        parameters.link_weight[edge] *= dial["link", name, int(other)]
        left = {name: side for name, side in sides.items() if only in {None, name}}
        return referee.Machine(
            machine.features, machine.level_bias, left.get("user"), left.get("item")
        )

    def _potential(self, machine):
        """Up to a constant, for what other ratings add is the same at every point."""
        return np.array([referee.log_weight(machine, table, self.hidden) for table in self.tables])


def integrated(dials, outcome, nodes=10, step=1e-4):
    """Each dial's integral of d outcome / d dial, all dials turned together."""
    node, weight = np.polynomial.legendre.leggauss(nodes)
    parts = dict.fromkeys(dials.names(), 0.0)
    for t, w in zip((1 + node) / 2, weight / 2, strict=True):
        for name in parts:
            up, down = (dict.fromkeys(parts, t) | {name: t + move} for move in (step, -step))
            slope = (outcome(dials.scores(up)) - outcome(dials.scores(down))) / (2 * step)
            parts[name] += w * slope
    return parts


def same_parts(found, pair, case, dials, expected, unit=1.0):
    for side, terms, share, rows in (
        ("user", pair.user_terms, found.user_share, case.ratings.by_user),
        ("item", pair.item_terms, found.item_share, case.ratings.by_item),
    ):
        if terms is None:
            assert all(expected[name] == 0.0 for name in expected if name[1] == side)
            continue
        columns = rows.column[terms.place]
        assert columns.tolist() == (dials.items if side == "user" else dials.users).tolist()
        link = dict(zip(columns[terms.linked].tolist(), share.link, strict=True))
        engine = {("standing", side): share.standing}
        for column, taste in zip(columns.tolist(), share.taste, strict=True):
            engine["taste", side, column] = taste
            engine["link", side, column] = link.get(column, 0.0)
        for name, effect in engine.items():
            assert effect == pytest.approx(expected[name] * unit, abs=2e-6), name


@pytest.mark.parametrize(
    ("kind", "sides", "links"),
    [case for case in referee.DISCRETE if case[0] == "ordinal" or case[1:] == ("joint", "both")],
)
def test_every_part_is_the_slow_integral(kind, sides, links):
    case = referee.case(kind, sides, links)
    user, item = 2, 3  # not rated
    dials = Dials(case, user, item, range(referee.N_LEVELS))
    pair, _, found = taken_apart(case, user, item)

    def log_odds(scores):
        return np.logaddexp.reduce(scores[1:]) - scores[0]

    same_parts(found, pair, case, dials, integrated(dials, log_odds))


def test_every_part_of_a_gaussian_mean_is_the_slow_integral():
    case = referee.case("gaussian", "joint", "both", hidden=(1, 1), spread=0.5)
    user, item = 2, 3
    points = np.arange(-8, 8.2, 0.4)
    dials = Dials(case, user, item, points)
    pair, _, found = taken_apart(case, user, item, CONTINUOUS, STANDARD)

    def mean(scores):
        return referee.softmax(scores) @ points

    same_parts(found, pair, case, dials, integrated(dials, mean, nodes=6), STANDARD.deviation)


# Several machines: averaged probabilities are explained, not a machine's


def several(kind, sides, links, count=3, **settings):
    """Cases of different machines with the same ratings and links."""
    first = referee.case(kind, sides, links, **settings)
    rng = np.random.default_rng(7)
    others = [
        first._replace(machine=referee.random_machine(rng, kind, sides, links, **settings))
        for _ in range(count - 1)
    ]
    return [first, *others]


def taken_apart_together(cases, user, item, scale=STARS, standardiser=None, threshold=1):
    conditioned = [ConditionedMachine(case.machine, case.ratings, 1) for case in cases]
    pairs = [pair_of(one, one, user, item, scale, standardiser) for one in conditioned]
    targets = [pair.value if scale is CONTINUOUS else pair.level >= threshold for pair in pairs]
    return pairs, distribution_of(pairs, scale), attribution(pairs, targets)


@pytest.mark.parametrize(("kind", "sides", "links"), referee.DISCRETE)
def test_parts_of_several_machines_add_up_to_averaged_log_odds(kind, sides, links):
    cases = several(kind, sides, links)
    for user, item in PAIRS[2:]:
        shares = [referee.softmax(alone(case, user, item)) for case in cases]
        _, distribution, found = taken_apart_together(cases, user, item)
        proba = np.mean([model_prediction(case, user, item).proba for case in cases], axis=0)
        np.testing.assert_allclose(distribution.proba, proba, rtol=1e-9)
        np.testing.assert_allclose(found.base, logit(np.mean(shares, axis=0)[1:].sum()), atol=1e-9)
        np.testing.assert_allclose(found.final, logit(proba[0, 1:].sum()), atol=1e-8)
        np.testing.assert_allclose(found.base + total(found), found.final, atol=1e-9)


@pytest.mark.parametrize("scale", [STARS, CONTINUOUS], ids=["levels", "continuous"])
def test_parts_of_several_gaussian_machines_add_up(scale):
    cases = several("gaussian", "joint", "both")
    for user, item in PAIRS[2:]:
        _, distribution, found = taken_apart_together(cases, user, item, scale, STANDARD)
        each = [model_prediction(case, user, item, scale, STANDARD) for case in cases]
        mean = np.mean([one.mean() for one in each])
        np.testing.assert_allclose(distribution.mean(), mean, rtol=1e-9)
        np.testing.assert_allclose(found.base + total(found), found.final, atol=1e-9)
        if scale is CONTINUOUS:
            np.testing.assert_allclose(found.final, mean, rtol=1e-9)
        else:
            proba = np.mean([one.proba for one in each], axis=0)
            np.testing.assert_allclose(found.final, logit(proba[0, 1:].sum()), atol=1e-8)


class DialsOfSeveral:
    """Dials that are turned for several machines at once."""

    def __init__(self, cases, user, item):
        self.each = [Dials(case, user, item, range(referee.N_LEVELS)) for case in cases]
        self.names = self.each[0].names

    def scores(self, dial):
        return [dials.scores(dial) for dials in self.each]


@pytest.mark.parametrize(
    ("sides", "links"), [("user", "items"), ("item", "none"), ("joint", "both")]
)
def test_every_part_of_several_machines_is_the_slow_integral(sides, links):
    cases = several("ordinal", sides, links, count=2)
    user, item = 2, 3  # not rated
    dials = DialsOfSeveral(cases, user, item)
    pairs, _, found = taken_apart_together(cases, user, item)

    def log_odds(scores):
        return logit(np.mean([referee.softmax(one)[1:].sum() for one in scores]))

    expected = integrated(dials, log_odds, nodes=14)
    same_parts(found, pairs[0], cases[0], dials.each[0], expected)
    alone = attribution(pairs[:1], [pairs[0].level >= 1])
    assert abs(total(alone) - total(found)) > 1e-3  # one machine's parts are others


def test_machines_that_are_sure_of_opposite_things_are_explained():
    """Where every machine's own odds are beyond what a double can tell from 0 or 1."""
    cases = several("ordinal", "joint", "both", count=2, spread=200.0)
    for user, item in PAIRS:
        _, _, found = taken_apart_together(cases, user, item)
        assert np.isfinite([found.base, found.final, total(found)]).all()
        np.testing.assert_allclose(found.base + total(found), found.final, rtol=1e-4, atol=1e-3)


# What must be so


def test_linked_gaussian_ratings_move_the_mean_by_weight_times_rating():
    case = referee.case("gaussian", "user", "both", hidden=(0, 0))
    user, item = 0, 1
    pair, _, found = taken_apart(case, user, item, CONTINUOUS, STANDARD)
    links, weight = case.machine.user_side.links, case.machine.user_side.parameters.link_weight
    columns = case.ratings.by_user.column[pair.user_terms.place[pair.user_terms.linked]]
    of_edge = {frozenset((i, j)): weight[edge, 0] for i, j, edge in referee.edges(links)}
    expected = [of_edge[frozenset((item, j))] * case.table[user, j] for j in columns.tolist()]
    assert len(expected) > 0
    np.testing.assert_allclose(found.user_share.link, np.array(expected) * STANDARD.deviation)


def test_an_uncoupled_rating_has_no_part():
    case = referee.case("ordinal", "joint", "none")
    place = case.ratings.by_user.start[0]
    other = int(case.ratings.by_user.column[place])
    item = 3 if other != 3 else 2
    case.machine.user_side.parameters.coupling[other] = 0.0
    _, _, found = taken_apart(case, 0, item)
    assert found.user_share.taste[0] == 0.0
    assert np.all(found.user_share.taste[1:] != 0.0)


def test_equal_ratings_have_equal_parts():
    case = referee.case("ordinal", "joint", "none")
    case.machine.user_side.parameters.coupling[1] = case.machine.user_side.parameters.coupling[0]
    case.table[0] = [2, 2, 1, np.nan]
    case = case._replace(ratings=referee.orientations(case.table, case.machine))
    _, _, found = taken_apart(case, 0, 3)
    first, second, third = found.user_share.taste
    assert first == pytest.approx(second, rel=1e-12)
    assert first != pytest.approx(third, rel=1e-3)


def test_the_pair_s_own_rating_does_not_explain_it():
    case = referee.case("ordinal", "joint", "both")
    explanation_of = []
    for own in (np.nan, 0.0, 2.0):
        table = referee.with_rating(case.table, 0, 0, own)
        changed = case._replace(ratings=referee.orientations(table, case.machine))
        _, _, found = taken_apart(changed, 0, 0)
        explanation_of.append([found.final, total(found), len(found.user_share.taste)])
    assert explanation_of[0] == explanation_of[1] == explanation_of[2]


# The front door


def some_ratings(seed=0):
    rng = np.random.default_rng(seed)
    users, items = rng.integers(30, size=500), rng.integers(20, size=500)
    liking = rng.normal(size=30)[users] + rng.normal(size=20)[items]
    place = np.clip((liking / 4 + 0.5) * 5, 0, 4).astype(int)
    return Ratings([f"u{u}" for u in users], [f"i{i}" for i in items], (place + 1).tolist())


@pytest.fixture(scope="module")
def model():
    return OrdinalBM(**TINY, user_links=4).fit(some_ratings())


@pytest.fixture(scope="module")
def gaussian():
    rng = np.random.default_rng(1)
    users, items = rng.integers(30, size=400), rng.integers(20, size=400)
    return OrdinalBM(**TINY).fit(Ratings(users, items, rng.normal(50, 10, 400)))


def effects(explanation):
    return sum(part.effect for part in explanation.parts)


def test_explains_what_the_model_predicts(model):
    ratings = some_ratings()
    found = model.explain("u1", "i2")
    np.testing.assert_allclose(found.distribution.proba, model.predict_proba("u1", "i2"), atol=1e-5)
    above = model.predict_proba("u1", "i2")[0, int(found.threshold) - 1 :].sum()
    assert found.log_odds == found.final == pytest.approx(logit(above), abs=1e-4)
    assert found.base + effects(found) == pytest.approx(found.final, abs=1e-9)
    given = {
        ratings.items[item]: float(value)
        for user, item, value in zip(
            ratings.user_codes, ratings.item_codes, ratings.values, strict=True
        )
        if ratings.users[user] == "u1" and ratings.items[item] != "i2"
    }
    listed = {part.item: part.rating for part in found.parts if part.kind == "taste"}
    assert listed == given
    sizes = [abs(part.effect) for part in found.parts]
    assert sizes == sorted(sizes, reverse=True)
    kinds = {part.kind for part in found.parts}
    assert kinds == {"item", "user", "taste", "item_link", "others", "user_link"}


def test_the_threshold_is_the_one_asked_for_or_splits_the_mass(model):
    proba = model.predict_proba("u1", "i2")[0]
    above = [proba[level:].sum() for level in range(1, 5)]
    assert model.explain("u1", "i2").threshold == 2 + np.argmin(np.abs(np.subtract(above, 0.5)))
    for threshold in (2, 3, 4, 5):
        found = model.explain("u1", "i2", threshold)
        assert found.threshold == threshold
        assert found.log_odds == pytest.approx(logit(above[threshold - 2]), abs=1e-4)
        assert found.base + effects(found) == pytest.approx(found.final, abs=1e-9)


@pytest.mark.parametrize(("n", "raters"), [(0, 0), (3, 2), (1000, 1000)])
def test_ratings_not_listed_are_summed_up(model, n, raters):
    whole = model.explain("u1", "i2", raters=1000)
    found = model.explain("u1", "i2", n=n, raters=raters)
    assert effects(found) == pytest.approx(effects(whole), abs=1e-12)
    for kinds, limit in ((("taste", "item_link"), n), (("others", "user_link"), raters)):
        all_parts = [part for part in whole.parts if part.kind in kinds]
        parts = [part for part in found.parts if part.kind in kinds]
        single = [part for part in parts if part.rating is not None]
        assert len(single) == min(limit, len(all_parts))
        assert sum(part.n_ratings for part in parts) == len(all_parts)
        largest = sorted((abs(part.effect) for part in all_parts), reverse=True)[:limit]
        assert [abs(part.effect) for part in single] == pytest.approx(largest)


def test_somebody_new_is_explained_by_what_they_gave(model):
    given = {"i1": 5, "i3": 1, "i4": 2}
    found = model.explain(ratings=given, item="i2", threshold=4)
    assert found.user is None
    assert found.base + effects(found) == pytest.approx(found.final, abs=1e-9)
    assert {part.item: part.rating for part in found.parts if part.kind == "taste"} == given
    recommended = {line.item: line for line in model.recommend(ratings=given, n=20)}
    assert found.distribution.mean()[0] == pytest.approx(recommended["i2"].mean, abs=1e-4)


def test_a_newcomer_with_known_ratings_has_the_known_explanation():
    ratings = some_ratings()
    model = OrdinalBM(**TINY, sides="user").fit(ratings)
    for machine in model.machines:
        machine.user_side.newcomer_input[:] = 0  # nothing else is expected of newcomers
    known = model.explain("u1", "i2")
    given = {part.item: part.rating for part in known.parts if part.kind == "taste"}
    new = model.explain(ratings=given, item="i2")
    assert new.final == pytest.approx(known.final, abs=1e-6)
    by_item = {(part.kind, part.item): part.effect for part in new.parts}
    for part in known.parts:
        assert by_item[part.kind, part.item] == pytest.approx(part.effect, abs=1e-6)


def test_strangers_leave_less_to_explain(model):
    shares = np.bincount(some_ratings().levels, minlength=5) + 0.5
    for user, item, kinds in (
        ("nobody", "i2", {"item"}),
        ("u1", "nothing", {"user"}),
        ("nobody", "nothing", set()),
    ):
        found = model.explain(user, item)
        assert {part.kind for part in found.parts} == kinds
        assert found.base + effects(found) == pytest.approx(found.final, abs=1e-9)
        proba = model.predict_proba(user, item)
        np.testing.assert_allclose(found.distribution.proba, proba, atol=1e-5)
    np.testing.assert_allclose(found.distribution.proba[0], shares / shares.sum())


@pytest.mark.parametrize(
    ("features", "scale"),
    [
        ("gaussian", "continuous"),
        *product(("gaussian", "ordinal"), ([1, 2, 3, 4, 5], ["a", "b", "c", "d", "e"])),
    ],
)
def test_ratings_are_shown_as_they_were_given(features, scale, tmp_path):
    """To the last digit, after storing too: not turned back from what a Gaussian machine reads."""
    rng = np.random.default_rng(2)
    pairs = [divmod(pair, 12) for pair in rng.permutation(20 * 12)[:150].tolist()]
    values = rng.normal(1e6, 1.0, 150) if scale == "continuous" else rng.choice(scale, 150)
    given = dict(zip(pairs, values.tolist(), strict=True))
    model = OrdinalBM(**TINY, features=features, presence=False, user_links=2)
    model.fit(Ratings(*zip(*given, strict=True), list(given.values()), scale))
    model.save(tmp_path / "m.ordbm")
    of_new = {item: rating for (user, item), rating in reversed(given.items()) if user == 3}
    for one in (model, ordbm.load(tmp_path / "m.ordbm")):
        known = {**{(part.user, part.item): part for part in one.explain(0, 1, raters=9).parts}}
        listed = [key for key in known if any(side is not None for side in key)]
        assert listed
        for user, item in listed:
            pair = (0 if user is None else user, 1 if item is None else item)
            assert known[user, item].rating == given[pair]
        parts = one.explain(item=1, ratings=of_new).parts
        shown = {part.item: part.rating for part in parts if part.item is not None}
        assert shown
        assert shown.items() <= of_new.items()


def test_a_continuous_scale_explains_the_mean(gaussian):
    found = gaussian.explain(1, 2)
    assert found.threshold is None
    assert found.final == pytest.approx(gaussian.predict(1, 2)[0], rel=1e-5)
    assert found.base + effects(found) == pytest.approx(found.final, abs=1e-8)
    assert "mean: " in str(found)
    with pytest.raises(SettingsError, match="no log-odds"):
        _ = found.log_odds
    with pytest.raises(SettingsError, match="no levels"):
        gaussian.explain(1, 2, threshold=50)
    json.dumps(found.to_dict())


def test_a_scale_of_labels_or_bins_is_named():
    users, items = np.repeat(range(6), 5), np.tile(range(5), 6)
    labels = np.array(["poor", "fair", "good"])[(users + items) % 3].tolist()
    model = OrdinalBM(**TINY).fit(Ratings(users, items, labels, scale=["poor", "fair", "good"]))
    found = model.explain(0, 1, "good")
    assert found.threshold == "good"
    assert {part.rating for part in found.parts if part.kind == "taste"} <= {"poor", "fair", "good"}
    assert "P(good or more)" in str(found)
    seconds = Ratings(users, items, users + items, scale=RatingScale.bins([0, 2, 5, 20]))
    assert OrdinalBM(**TINY).fit(seconds).explain(0, 1, 6).threshold == 5.0
    one = OrdinalBM(**TINY).fit(Ratings(users, items, np.ones(30), scale=[1]))
    with pytest.raises(SettingsError, match="one level"):
        one.explain(0, 1)


def test_as_words_and_as_json(model):
    titles = {"i2": "Alien", "i1": "Aliens"}
    found = model.explain(ratings={"i1": 5}, item="i2", threshold=4, titles=titles)
    lines = str(found).splitlines()
    assert lines[0].startswith("Alien, somebody new: predicted ")
    assert lines[1].startswith("log-odds of 4 or more: ")
    both_ways = sum(part.effect for part in found.parts if part.item == "i1")
    assert f"  {both_ways:+.2f}  a 5 for Aliens" in lines
    assert len(str(model.explain("u1", "i2", raters=1000)).splitlines()) == 11
    stored = json.loads(json.dumps(found.to_dict()))
    assert stored["measure"] == "log_odds"
    assert stored["threshold"] == 4
    assert sum(part["effect"] for part in stored["parts"]) == pytest.approx(
        stored["final"] - stored["base"]
    )
    assert sum(stored["distribution"]["proba"]) == pytest.approx(1)
    assert stored["distribution"]["levels"] == [1, 2, 3, 4, 5]


def test_what_cannot_be_explained_is_refused(model):
    for arguments, error, words in (
        ({"user": "u1"}, SettingsError, "one user and one item"),
        ({"user": ["u1", "u2"], "item": "i1"}, SettingsError, "one user and one item"),
        ({"user": "u1", "item": ["i1"]}, SettingsError, "one user and one item"),
        ({"item": "i1"}, SettingsError, "say either"),
        ({"ratings": {"nothing": 3}, "item": "i1"}, RatingsError, "nothing"),
        ({"ratings": {"i2": 9}, "item": "i1"}, RatingsError, "off the scale"),
        ({"user": "u1", "item": "i1", "threshold": 1}, SettingsError, "lowest level"),
        ({"user": "u1", "item": "i1", "threshold": 3.3}, RatingsError, "off the scale"),
        ({"user": "u1", "item": "i1", "n": -1}, SettingsError, "n=-1"),
        ({"user": "u1", "item": "i1", "raters": 0.5}, SettingsError, "raters=0.5"),
    ):
        with pytest.raises(error, match=words):
            model.explain(**arguments)
    with pytest.raises(NotFittedError):
        OrdinalBM().explain(1, 2)


@pytest.mark.parametrize(("share", "fits"), [(0.99, True), (1.01, False)])
def test_machines_that_move_a_mean_too_far_are_not_explained(share, fits):
    far = share * pair_terms._MOST_POINTS * pair_terms._SPACING[1] / 2 - REACH
    nothing = np.zeros(0)
    terms = [SimpleNamespace(bias=np.array([-far]), coupling=nothing, link=nothing)]
    with contextlib.nullcontext() if fits else pytest.raises(DivergedError, match="cannot be"):
        point = pair_terms._grid(0.5, terms)
        assert point[0] <= 0.5 - far - REACH
        assert point[-1] >= 0.5 + far + REACH
