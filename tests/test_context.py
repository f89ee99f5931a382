"""Links between ratings of about one time: their sums, their learning, and what they change."""

import json
import re

import numpy as np
import pytest

import ordbm
from cli_runs import answer, json_answer
from ordbm import OrdinalBM, Ratings, hold_out
from ordbm.data.csr import CSR
from ordbm.errors import ModelFileError, RatingsError, SettingsError
from ordbm.inference.context_forces import _directions, _orders
from ordbm.inference.people import Users
from ordbm.kernels.context import (
    ANY_ITEMS,
    FIRST_COLUMN,
    LIKE_ITEMS,
    ORDER,
    RATED_TOGETHER,
    TIME,
    context_means,
)
from ordbm.model.context_links import ContextLinks, level_basis
from ordbm.persistence.container import read_container, write_container
from ordbm.training.context_learning import PRECISION, context_weights

TINY = {"hidden": 2, "members": 2, "epochs": 4, "item_links": 0, "presence": False}
EVENING = 3 * 3600.0


def evenings(seed=0, n_users=60, n_items=40, mood=1.2):
    """Ratings of three evenings a week apart, in each of which a user's mood is another."""
    rng = np.random.default_rng(seed)
    user, item = np.divmod(rng.permutation(n_users * n_items)[: n_users * 24], n_items)
    evening = rng.integers(3, size=len(user))
    moods = mood * rng.standard_normal((n_users, 3))
    liking = rng.standard_normal(n_items)[item] + moods[user, evening]
    level = np.clip(np.round(3 + liking + 0.5 * rng.standard_normal(len(user))), 1, 5)
    times = 604800.0 * evening + rng.uniform(0, 300.0, len(user))
    return Ratings(user, item, level, scale=[1, 2, 3, 4, 5], times=times)


@pytest.fixture(scope="module")
def split():
    return hold_out(evenings(), 0.2)


@pytest.fixture(scope="module")
def model(split):
    return OrdinalBM(**TINY).fit(split[0])


def ids_of(ratings):
    return (
        [ratings.users[code] for code in ratings.user_codes],
        [ratings.items[code] for code in ratings.item_codes],
    )


KERNELS = [
    (TIME, 10.0, ANY_ITEMS), (TIME, 300.0, LIKE_ITEMS), (TIME, 0.0, ANY_ITEMS),
    (ORDER, 1.5, ANY_ITEMS), (FIRST_COLUMN, 0.0, ANY_ITEMS), (FIRST_COLUMN, 0.0, LIKE_ITEMS),
    (TIME, 200.0, RATED_TOGETHER),
]  # fmt: skip


def often_together(rated, item):
    """By the book: how often each item was rated by those who rated this one; (users, items)."""
    both = (rated & rated[:, [item]]).sum(axis=0)
    return (both / np.sqrt(np.maximum(rated.sum(axis=0), 1) * rated[:, item].sum())) ** 4


def test_sums_are_those_of_the_formula():
    rng = np.random.default_rng(1)
    start = np.array([0, 4, 4, 9])
    column = np.array([0, 2, 3, 5, 0, 1, 2, 4, 6], np.int32)
    place = np.stack([rng.integers(4, size=9) * 100.0, rng.integers(2, size=9)], axis=1)
    place[[1, 6]] = np.nan
    place[[2, 4], 1] = np.inf
    residual = rng.standard_normal((9, 2))
    person, item = np.array([0, 0, 1, 2, 2]), np.array([2, 4, 1, 6, 6])
    rated = rng.random((6, 7)) < 0.6
    rated[0] = True
    by_user, by_item = (csr_of(table) for table in (rated, rated.T))
    at = np.array([[100.0, 1.0], [0.0, 0.0], [7.0, 1.0], [200.0, -np.inf], [-np.inf, 1.0]])
    rows = CSR(start, column, column, np.empty(0), column[:0])
    axes, scales, alike = map(np.array, zip(*KERNELS, strict=True))
    shrinkage = np.where(alike > 0, 1.0, 5.0)
    direction = rng.standard_normal((7, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    out = np.full((5, len(scales), 2), np.nan)
    context_means(
        0, 5, person, item, at, start, column, place, _orders(rows, place[:, 0]), residual,
        direction, axes, scales, alike, shrinkage, *by_user, *by_item, np.empty(7, np.int64),
        np.empty(out.shape[:2]), out,
    )  # fmt: skip
    for p in range(5):
        mine = [j for j in range(start[person[p]], start[person[p] + 1]) if column[j] != item[p]]
        for k, (axis, scale, like) in enumerate(KERNELS):
            near = np.array([nearness(at[p], place, mine, j, axis, scale) for j in mine])
            if like == RATED_TOGETHER:
                near = near * often_together(rated, item[p])[column[mine]]
            elif like:
                near = near * np.maximum(direction[column[mine]] @ direction[item[p]], 0) ** 4
            expected = (near[:, None] * residual[mine]).sum(axis=0) / (shrinkage[k] + near.sum())
            np.testing.assert_allclose(out[p, k], expected, rtol=1e-12)


def csr_of(table):
    """(start, column) of a table of truths."""
    return np.append(0, np.cumsum(table.sum(axis=1))), np.nonzero(table)[1]


def nearness(at, place, others, j, axis, scale):
    """By the book: how near the rating j is to the question."""
    where = 0 if axis < FIRST_COLUMN else axis - 1
    if np.isnan(place[j, where]):
        return 1.0
    if np.isinf(place[j, where]) or np.isinf(at[where]):
        return 0.0
    apart = abs(at[where] - place[j, where])
    if axis == ORDER:
        times = place[others, 0]

        def before(t):
            return (times < t).sum() + (times == t).sum() / 2

        apart = abs(before(at[0]) - before(place[j, 0]))
    return np.exp(-apart / scale) if scale else float(apart == 0)


def links_of(weight):
    """Links by whatever kernels."""
    n = len(weight)
    return ContextLinks(np.zeros(n, int), np.ones(n), np.zeros(n, np.uint8), np.ones(n), weight)


def test_weights_are_where_the_penalised_log_likelihood_is_flat_and_no_other_is_higher():
    rng = np.random.default_rng(2)
    basis = level_basis(np.array([1.0, 2.0, 3.0, 5.0]))
    proba = rng.dirichlet(np.ones(4), 500)
    force = rng.standard_normal((500, 3, 2))
    truth = ContextLinks(
        np.zeros(3, int), np.ones(3), np.zeros(3, np.uint8), 1.0, rng.standard_normal((3, 2))
    )
    level = np.array([rng.choice(4, p=p) for p in truth.in_context(proba, force, basis)])

    def value(weight):
        found = ContextLinks(
            np.zeros(3, int), np.ones(3), np.zeros(3, np.uint8), 1.0, weight
        ).in_context(proba, force, basis)
        return np.log(found[np.arange(500), level]).sum() - PRECISION / 2 * (weight**2).sum()

    found = context_weights(proba, basis, force, level)
    for k in range(3):
        for f in range(2):
            step = np.zeros((3, 2))
            step[k, f] = 1e-4
            slope = (value(found + step) - value(found - step)) / 2e-4
            assert abs(slope) < 1e-4
    assert all(value(found) > value(found + 0.1 * rng.standard_normal((3, 2))) for _ in range(20))
    assert np.abs(found - truth.weight).max() < 0.4


def test_a_context_tilts_by_the_exponential_of_its_features():
    basis = level_basis(np.array([1.0, 2.0, 3.0]))
    proba = np.array([[0.2, 0.3, 0.5]])
    links = ContextLinks(
        np.zeros(1, int), np.ones(1), np.zeros(1, np.uint8), 1.0, np.array([[0.7, -0.2]])
    )
    force = np.array([[[1.5, 2.0]]])
    expected = proba[0] * np.exp(0.7 * 1.5 * basis[:, 0] - 0.2 * 2.0 * basis[:, 1])
    found = links.in_context(proba, force, basis)[0]
    np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-12)
    np.testing.assert_allclose(links.in_context(proba, 0 * force, basis), proba, rtol=1e-12)


def test_moods_are_found_and_help(model, split):
    _, test = split
    pairs = ids_of(test)
    truth = test.values
    with_times = model.predict(*pairs, at=test.times)
    without = model.predict(*pairs)
    errors = [np.sqrt(np.mean((found - truth) ** 2)) for found in (with_times, without)]
    assert errors[0] < 0.9 * errors[1]
    assert model.context.weight[:, 0].sum() > 0.5
    assert ordbm.evaluate(model, test, bootstrap=0).scores["rmse"] == pytest.approx(errors[0])


def test_times_that_tell_nothing_are_worth_little(split):
    train, _ = split
    shuffled = np.random.default_rng(5).permutation(train.times)
    drawn = Ratings.of_rows(train.users, train.items, train.scale, train.by_user, shuffled)
    quiet = OrdinalBM(**TINY).fit(drawn)
    loud = OrdinalBM(**TINY).fit(train)
    assert np.abs(quiet.context.weight).sum() < 0.6 * np.abs(loud.context.weight).sum()


@pytest.mark.parametrize("known", [True, False])
def test_an_answer_is_the_formula_with_the_residuals_of_the_others(model, known):
    state, links = model._state, model.context
    user, at = 7, 604800.0 + 100.0
    has = {item for item, _ in grown_ratings(model, user)}
    item = next(item for item in range(40) if (item in has) == known)
    code, target = state.users.codes([user])[0], state.items.codes([item])[0]
    rows = state.given.by_user
    mine = slice(rows.start[code], rows.start[code + 1])
    ids = [state.items[c] for c in rows.column[mine]]
    basis = level_basis(model.scale.values)
    residual = basis[rows.level[mine]] - model.predict_proba([user] * len(ids), ids) @ basis
    others = rows.column[mine] != target
    tilt = np.zeros(5)
    place, among = state.places[mine], np.flatnonzero(others)
    direction = _directions(state)
    rated = np.zeros((rows.n_rows, len(state.items)), bool)
    rated[rows.row, rows.column] = True
    often = often_together(rated, target)[rows.column[mine]]
    likeness = np.maximum(direction[rows.column[mine]] @ direction[target], 0) ** 4
    for k, (axis, scale) in enumerate(zip(links.axes, links.scales, strict=True)):
        near = np.array([nearness([at], place, among, j, axis, scale) for j in range(len(ids))])
        near = near * others * (1.0, likeness, often)[links.alike[k]]
        force = near @ residual / (links.shrinkage[k] + near.sum())
        tilt += basis @ (links.weight[k] * force)
    expected = model.predict_proba(user, item)[0] * np.exp(tilt)
    found = model.predict_proba(user, item, at=at)[0]
    np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-5)


def test_one_time_is_for_all_pairs_and_may_be_said_in_any_way(model):
    pairs = [1, 2, 2], [3, 3, 4]
    one = model.predict_proba(*pairs, at="1970-01-08T00:01:40")
    np.testing.assert_array_equal(one, model.predict_proba(*pairs, at=[604900] * 3))
    np.testing.assert_array_equal(one[[2]], model.predict_proba([2], [4], at=604900))
    assert not np.array_equal(one, model.predict_proba(*pairs))
    table = model.predict_table(*pairs, at=604900)
    np.testing.assert_allclose(table["mean"], model.predict(*pairs, at=604900))
    logs = model.log_probability(*pairs, [1, 2, 5], at=604900)
    np.testing.assert_allclose(logs, np.log(one[[0, 1, 2], [0, 1, 4]]))
    with pytest.raises(SettingsError, match="2 times for 3 pairs"):
        model.predict(*pairs, at=[1, 2])
    with pytest.raises(RatingsError, match="row 0"):
        model.predict(*pairs, at="soon")


def test_strangers_and_models_without_times_answer_as_ever(split):
    train, test = split
    model = OrdinalBM(**TINY | {"members": 1, "epochs": 1}).fit(train)
    stranger = ["nobody"], [3]
    with pytest.warns(ordbm.errors.UnknownIdsWarning):
        np.testing.assert_array_equal(
            model.predict_proba(*stranger, at=5.0), model.predict_proba(*stranger)
        )
    bare = Ratings.of_rows(train.users, train.items, train.scale, train.by_user)
    for ratings, told in ((bare, {}), (train, {"context": False})):
        plain = OrdinalBM(**TINY | {"members": 1, "epochs": 1} | told).fit(ratings)
        assert plain.context is None
        np.testing.assert_array_equal(
            plain.predict(*ids_of(test), at=5.0), model.predict(*ids_of(test))
        )
    continuous = Ratings(*ids_of(train), train.values, "continuous", times=train.times)
    assert OrdinalBM(hidden=2, members=1, epochs=1, presence=False).fit(continuous).context is None


def test_what_is_said_now_was_given_now(model):
    state = model._state
    said = {1: 5, 2: 5, 3: 5, 4: 5}
    at = 604900.0
    pleased = model.predict(items=[10], ratings=said, at=at)
    assert pleased[0] > model.predict(items=[10], ratings=said)[0]
    # A known user who says the very ratings that were learnt from, but one: the others keep times.
    user = 7
    code = state.users.codes([user])[0]
    people, _ = model._asked(user, {3: 5})
    rows = state.given.by_user
    mine = slice(rows.start[code], rows.start[code + 1])
    when = dict(zip(rows.column[mine].tolist(), state.times[mine].tolist(), strict=True))
    when[int(state.items.codes([3])[0])] = np.nan
    expected = [when[c] for c in people.given.column.tolist()]
    np.testing.assert_array_equal(people.given_places[:, 0], expected)
    assert Users(state).given_places is state.places


def test_an_explanation_has_a_part_for_the_time(model):
    at = 604900.0
    plain, timed = model.explain(7, 3), model.explain(7, 3, at=at)
    above = model.predict_proba(7, 3, at=at)[0, int(timed.threshold) - 1 :].sum()
    assert timed.final == pytest.approx(np.log(above / (1 - above)), rel=1e-4)
    assert timed.base + sum(part.effect for part in timed.parts) == pytest.approx(timed.final)
    assert [part.kind for part in timed.parts].count("context") == 1
    again = model.explain(7, 3, threshold=timed.threshold)
    assert timed.parts != again.parts == [one for one in timed.parts if one.kind != "context"]
    assert "what the user rated in such a context" in str(timed)
    assert plain.to_dict() == model.explain(7, 3).to_dict()


@pytest.mark.parametrize("early", [True, False])
def test_ctrl_c_while_times_are_learnt_leaves_the_model(split, early):
    class Trial(OrdinalBM):
        def fit(self, *given, **told):
            if self.settings.context:
                return super().fit(*given, **told)
            if early:
                raise KeyboardInterrupt
            super().fit(*given, **told)
            self.interrupted = True
            return self

    train, test = split
    with pytest.warns(ordbm.errors.InterruptedWarning, match="the model is usable"):
        model = Trial(**TINY | {"members": 1, "epochs": 1}).fit(train)
    assert model.interrupted
    assert model.context is None
    assert np.isfinite(model.predict(*ids_of(test), at=test.times)).all()


def test_an_estimate_counts_the_trial(split):
    train, _ = split
    with_times, without = (OrdinalBM(**TINY | {"context": told}).estimate(train)
                           for told in (True, False))  # fmt: skip
    assert with_times.seconds > 1.2 * without.seconds
    assert with_times.memory >= without.memory


def test_threads_and_seeds_give_the_same_bits(split):
    train, test = split
    small = TINY | {"members": 1, "epochs": 2}
    one, two = (OrdinalBM(**small, threads=threads).fit(train) for threads in (1, 2))
    np.testing.assert_array_equal(one.context.weight, two.context.weight)
    found = [each.predict_proba(*ids_of(test), at=test.times) for each in (one, two)]
    np.testing.assert_array_equal(*found)


def test_a_saved_model_answers_the_same_in_context(model, split, tmp_path):
    _, test = split
    model.save(tmp_path / "model")
    again = ordbm.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.predict_proba(*ids_of(test), at=test.times),
        model.predict_proba(*ids_of(test), at=test.times),
    )


def test_a_model_that_grows_keeps_its_links(model, tmp_path):
    model.save(tmp_path / "model")
    grown = ordbm.load(tmp_path / "model")
    at = 700000.0
    before = grown.predict(7, 3, at=at)
    free = [item for item in range(40) if item not in dict(grown_ratings(grown, 7))][:4]
    grown.partial_fit(Ratings([7] * 4, free, [5] * 4, scale=model.scale, times=[at] * 4))
    np.testing.assert_array_equal(grown.context.weight, model.context.weight)
    gain = grown.predict(7, 3, at=at) - grown.predict(7, 3)
    assert gain > before - model.predict(7, 3)


def grown_ratings(model, user):
    state = model._state
    columns = state.given.by_user.columns_of(state.users.codes([user])[0])
    return [(state.items[column], None) for column in columns]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("context.axis", np.full(16, 2)),
        ("context.axis", np.full(16, -1)),
        ("context.scale", np.array([60.0, 600.0, -1.0, 5.0] + [1.0] * 12)),
        ("context.scale", np.array([60.0, 600.0, np.nan, 5.0] + [1.0] * 12)),
        ("context.scale", np.ones(1001)),
        ("context.alike", np.full(16, 3, np.uint8)),
        ("context.shrinkage", np.zeros(1)),
        ("context.shrinkage", np.array([np.inf])),
        ("context.weight", np.full((16, 2), 1e9)),
        ("context.weight", np.full((16, 2), np.nan)),
        ("context.weight", np.zeros((16, 3))),
        ("ratings.time", None),
    ],
)
def test_wrong_links_in_a_file_are_refused(model, tmp_path, name, wrong):
    model.save(tmp_path / "model")
    header, arrays = read_container(tmp_path / "model", "model")
    del arrays[name]
    if wrong is not None:
        arrays[name] = wrong
    write_container(tmp_path / "bad", "model", header, arrays)
    with pytest.raises(ModelFileError):
        ordbm.load(tmp_path / "bad")


def test_the_command_line_says_when(model, tmp_path):
    model.save(tmp_path / "model")
    (tmp_path / "pairs.csv").write_text("user,item,date\n1,3,604900\n2,4,1209700\n")
    means = [row["mean"] for row in predicted(tmp_path, "pairs.csv")]
    np.testing.assert_allclose(means, model.predict([1, 2], [3, 4], at=[604900, 1209700]))
    told = predicted(tmp_path, "pairs.csv", "--at", "1970-01-08T00:01:40")
    np.testing.assert_allclose(
        [row["mean"] for row in told], model.predict([1, 2], [3, 4], at=604900)
    )
    plain = predicted(tmp_path, "pairs.csv", "--time-column", "none")
    np.testing.assert_allclose([row["mean"] for row in plain], model.predict([1, 2], [3, 4]))
    words = re.sub(r"\s+", " ", answer("inspect", tmp_path / "model"))
    assert "links by context" in words


def predicted(folder, name, *told):
    return json.loads(json.dumps(json_answer("predict", folder / "model", folder / name, *told)))
