"""Features of users and items: what they say of those whom nobody has rated."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, log_softmax

import ordbm
from cli_runs import answer, json_answer
from described_population import (
    GENRES,
    ITEMS,
    KEPT_SMALL,
    N_ITEMS,
    N_USERS,
    RATED_ITEMS,
    RATED_USERS,
    RATINGS,
    TASTES,
    USERS,
    truth,
)
from ordbm.data.feature_columns import HINGES, fitted_encoder
from ordbm.data.feature_tables import feature_table
from ordbm.data.ids import IdMap
from ordbm.errors import RatingsError
from ordbm.model.feature_effects import FeatureEffects
from ordbm.model.rules import FeatureRules
from ordbm.training.feature_learning import EffectsLearning, unknown_parameters


@pytest.fixture(scope="module")
def model():
    fitted = ordbm.OrdinalBM(**KEPT_SMALL)
    return fitted.fit(RATINGS, user_features=USERS, item_features=ITEMS)


def log_loss(model, users, items):
    """Against ratings drawn anew."""
    rng = np.random.default_rng(5)
    drawn = np.clip(np.round(truth(users, items) + 0.7 * rng.normal(size=len(users))), 1, 5)
    return -model.log_probability(list(users), list(items), drawn.tolist()).mean()


NEW_USERS = np.repeat(np.arange(RATED_USERS, N_USERS), N_ITEMS - RATED_ITEMS)
NEW_ITEMS = np.tile(np.arange(RATED_ITEMS, N_ITEMS), N_USERS - RATED_USERS)


# -- what is learnt -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("users", "items"),
    [
        (NEW_USERS, NEW_ITEMS),
        (NEW_USERS, NEW_ITEMS - RATED_ITEMS),
        (NEW_USERS - RATED_USERS, NEW_ITEMS),
    ],
)
def test_people_and_items_without_ratings_are_predicted_by_their_features(model, users, items):
    found = model.predict(users.tolist(), items.tolist())
    assert np.corrcoef(found, truth(users, items))[0, 1] > 0.9
    assert np.abs(found - truth(users, items)).mean() < 0.4


KNOWN = np.divmod(np.arange(RATED_USERS * RATED_ITEMS), RATED_ITEMS)


def test_known_pairs_lose_nothing(model):
    alone = ordbm.OrdinalBM(**KEPT_SMALL).fit(RATINGS)
    assert log_loss(model, *KNOWN) < log_loss(alone, *KNOWN)


def test_those_without_ratings_change_nothing_for_others():
    """They do not take part in learning: answers have the same bits without them."""
    few = {name: values[:RATED_ITEMS] for name, values in ITEMS.items()}
    one, other = (ordbm.OrdinalBM(**KEPT_SMALL).fit(RATINGS, item_features=t) for t in (few, ITEMS))
    users, items = (part.tolist() for part in KNOWN)
    np.testing.assert_array_equal(
        one.predict_proba(users, items), other.predict_proba(users, items)
    )
    one.partial_fit(item_features={name: values[RATED_ITEMS:] for name, values in ITEMS.items()})
    new = list(range(RATED_ITEMS, N_ITEMS))
    np.testing.assert_array_equal(
        one.predict_proba([0] * len(new), new), other.predict_proba([0] * len(new), new)
    )


def test_random_columns_cost_known_pairs_nothing():
    """Within what a few ratings more or less change; a column that is not heard changes no bit."""
    rng = np.random.default_rng(4)
    random = {f"x{k}": rng.normal(size=RATED_ITEMS).tolist() for k in range(15)}
    random["tag"] = rng.choice(["a", "b", "c", "d"], RATED_ITEMS).tolist()
    alone = ordbm.OrdinalBM(**KEPT_SMALL).fit(RATINGS)
    noisy = ordbm.OrdinalBM(**KEPT_SMALL).fit(
        RATINGS, item_features={"item": list(range(RATED_ITEMS))} | random
    )
    assert abs(log_loss(noisy, *KNOWN) - log_loss(alone, *KNOWN)) < 0.003
    deaf = FeatureRules(least_centre=1e9)
    unheard = ordbm.OrdinalBM(**KEPT_SMALL, feature_rules=deaf).fit(
        RATINGS, item_features={"item": list(range(RATED_ITEMS))} | random
    )
    users, items = (part.tolist() for part in KNOWN)
    np.testing.assert_array_equal(
        unheard.predict_proba(users, items), alone.predict_proba(users, items)
    )


def test_random_columns_cost_next_to_nothing(model):
    rng = np.random.default_rng(3)
    random = {f"x{k}": rng.normal(size=N_ITEMS).tolist() for k in range(15)}
    with_random = ordbm.OrdinalBM(**KEPT_SMALL).fit(
        RATINGS, user_features=USERS, item_features=ITEMS | random
    )
    worse = log_loss(with_random, NEW_USERS, NEW_ITEMS) - log_loss(model, NEW_USERS, NEW_ITEMS)
    assert worse < 0.02
    trust = with_random._state.described[1].trust[:, 0]
    assert trust[1:].mean() < 0.3 * trust[0]  # genres come first


def test_somebody_new_with_ratings_and_features_uses_both(model):
    left = next(u for u in range(RATED_USERS, N_USERS) if TASTES[u] == 0)
    right = next(u for u in range(RATED_USERS, N_USERS) if TASTES[u] == 1)
    liked = int(np.flatnonzero(GENRES[:RATED_ITEMS] == 0)[0])
    other = int(np.flatnonzero(GENRES[:RATED_ITEMS] == 0)[1])
    said = {liked: 5}
    for user in (left, right):
        by_both = model.predict(user, other, ratings=said)[0]
        assert by_both > model.predict(user, other)[0]  # by features alone
    assert model.predict(left, other, ratings=said)[0] > model.predict(ratings=said, items=other)[0]
    assert (
        model.predict(right, other, ratings=said)[0] < model.predict(left, other, ratings=said)[0]
    )


def test_features_count_for_a_user_who_has_rated_since_and_says_more():
    """As they do once it is taken in: a question and `partial_fit` have the same priors."""
    user = next(u for u in range(RATED_USERS, N_USERS) if TASTES[u] == 0)
    some = np.flatnonzero(GENRES[:RATED_ITEMS] == 1)[:2].tolist()
    asked = list(range(2, RATED_ITEMS))
    first, both = (
        ordbm.OrdinalBM(**KEPT_SMALL)
        .fit(RATINGS, user_features=USERS, item_features=ITEMS)
        .partial_fit(rows)
        for rows in ([(user, some[0], 5)], [(user, item, 5) for item in some])
    )
    said = first.predict(user, asked, ratings={some[1]: 5})
    without = first.predict(items=asked, ratings=dict.fromkeys(some, 5))
    apart = np.abs(said - both.predict(user, asked)).mean()
    assert apart < 0.2 * np.abs(without - both.predict(user, asked)).mean()


def test_a_model_with_features_is_learnt_anew_with_them(model, tmp_path):
    """From what it has inside, also out of a file: to the same bits if nothing came since."""
    model.save(tmp_path / "model.ordbm")
    again = ordbm.load(tmp_path / "model.ordbm")
    again.refit()
    everybody = list(range(N_USERS))
    np.testing.assert_array_equal(
        again.predict_proba(everybody, [3] * N_USERS), model.predict_proba(everybody, [3] * N_USERS)
    )
    new = next(u for u in range(RATED_USERS, N_USERS) if TASTES[u] == 0)
    again.partial_fit([(new, 0, 5), ("somebody", 1, 4)]).refit()
    assert again.growth.drift == 0
    assert again.known_users([new, "somebody"]).all()
    other = next(u for u in range(RATED_USERS, N_USERS) if TASTES[u] == 0 and u != new)
    loved, hated = (np.flatnonzero(one == GENRES).tolist() for one in (0, 1))
    assert again.predict(other, loved).mean() > again.predict(other, hated).mean() + 0.5


def test_items_without_ratings_are_listed(model):
    user = next(u for u in range(RATED_USERS) if TASTES[u] == 0)
    new = range(RATED_ITEMS, N_ITEMS)
    listed = model.recommend(user, n=3, candidates=list(new))
    assert [GENRES[line.item] for line in listed] == [0, 0, 0]
    everything = {line.item for line in model.recommend(user, n=N_ITEMS)}
    assert everything >= set(new)


def test_first_ratings_of_somebody_described_are_taken_in(model, tmp_path):
    model.save(tmp_path / "model.ordbm")
    grown = ordbm.load(tmp_path / "model.ordbm")
    user = next(u for u in range(RATED_USERS, N_USERS) if TASTES[u] == 0)
    liked = np.flatnonzero(GENRES[:RATED_ITEMS] == 1)[:6].tolist()  # not as others like them
    grown.partial_fit([(user, item, 5) for item in liked])
    asked = np.flatnonzero(GENRES == 1)[7:].tolist()
    before, after = model.predict(user, asked), grown.predict(user, asked)
    assert after.mean() > before.mean()
    others = [u for u in NEW_USERS.tolist() if u != user][:20]
    np.testing.assert_allclose(  # known by their features still
        grown.predict(others, [0] * 20), model.predict(others, [0] * 20), atol=0.2
    )
    grown.partial_fit([("somebody", 0, 4)])
    grown.save(tmp_path / "grown.ordbm")
    again = ordbm.load(tmp_path / "grown.ordbm")
    for one in (user, "somebody", int(NEW_USERS[-1])):
        np.testing.assert_array_equal(
            again.predict_proba(one, asked), grown.predict_proba(one, asked)
        )


# -- exactness ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learning():
    """In double precision, the effects somewhere off zero."""
    told = ordbm.OrdinalBM(**KEPT_SMALL | {"epochs": 2}, dtype="float64").fit(RATINGS)
    machine, ratings = told.machines[0], told._state.ratings
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(RATED_ITEMS), rng.normal(size=(RATED_ITEMS, 2))])
    group = np.array([0, 1, 2])
    strangers = drawn_parameters(machine, 0, ratings.by_user.n_rows, rng)
    one = EffectsLearning(machine, ratings, 1, design, group, strangers, FeatureRules(), 1)
    shapes = [part.shape for part in one.effects]
    effects = FeatureEffects(*(0.3 * rng.normal(size=shape) for shape in shapes))
    return told, one, design, effects, strangers


def drawn_parameters(machine, kind, n_ids, rng):
    """What users (kind 0) or items could have if nothing but features were known of them."""
    shapes = (part.shape for part in unknown_parameters(machine, kind))
    return FeatureEffects(*(0.3 * rng.normal(size=(n_ids, *shape)) for shape in shapes))


def test_log_likelihood_is_that_of_a_machine_whose_item_nobody_rated(learning):
    """Half by users as they are, half by the same users as if they had rated nothing either."""
    told, one, design, effects, strangers = learning
    machine, rows = told.machines[0], told._state.ratings
    base = unknown_parameters(machine, 1)
    bias, coupling, inputs = (x + y for x, y in zip(effects.of(design), base, strict=True))
    users, items = machine.sides
    x = told.conditioned[0].user_input
    total = 0.0
    for item in range(RATED_ITEMS):
        ratings = rows.by_item.rows_of(np.array([item]))
        for user, level in zip(ratings.column, ratings.level, strict=True):
            as_is = (
                items.parameters.rating_bias[user],
                items.parameters.coupling[user, :, : items.n_hidden],
                (x[user] - users.parameters.coupling[item, level])[: users.n_hidden],
            )
            for user_bias, own, others in (as_is, [part[user] for part in strangers]):
                scores = machine.level_bias + user_bias + bias[item]
                scores = scores + np.logaddexp(0, others + coupling[item]).sum(axis=1)
                scores = scores + np.logaddexp(0, inputs[item] + own).sum(axis=1)
                total += log_softmax(scores)[level]
    assert one.slopes(effects)[0] == pytest.approx(one.weight * total, rel=1e-9)


@pytest.mark.parametrize("part", range(3))
def test_gradients_are_finite_differences(learning, part):
    _, one, _, effects, _ = learning
    way = np.random.default_rng(part).normal(size=effects[part].shape)

    def value(step):
        moved = list(effects)
        moved[part] = effects[part] + step * way
        return one.slopes(FeatureEffects(*moved))[0]

    slope = (one.slopes(effects)[1][part] * way).sum()
    assert slope == pytest.approx((value(1e-5) - value(-1e-5)) / 2e-5, rel=1e-6)


def test_all_machines_in_one_pass_say_what_each_says(model):
    users, items = NEW_USERS[:40], NEW_ITEMS[:40]
    state = model._state
    each = state._slow_distribution(state.conditioned, users, items, "exact").proba
    np.testing.assert_allclose(model.predict_proba(users.tolist(), items.tolist()), each, atol=1e-5)
    side = model.machines[0].user_side
    row_input = side.row_input[users[0], : side.n_hidden]
    alpha = side.unknown_hidden_bias[: side.n_hidden]
    np.testing.assert_allclose(
        model.user_factors([int(users[0])])[0], expit(alpha + row_input), rtol=1e-5
    )


def test_the_same_bits_on_any_number_of_threads_and_from_a_file(model, tmp_path):
    other = ordbm.OrdinalBM(**KEPT_SMALL | {"threads": 2})
    other.fit(RATINGS, user_features=USERS, item_features=ITEMS)
    model.save(tmp_path / "model.ordbm")
    loaded = ordbm.load(tmp_path / "model.ordbm")
    pairs = NEW_USERS.tolist(), NEW_ITEMS.tolist()
    expected = model.predict_proba(*pairs)
    for one in (other, loaded):
        np.testing.assert_array_equal(one.predict_proba(*pairs), expected)
    user, given = int(NEW_USERS[0]), {0: 5, 1: 2}
    asked = [2, 3, int(NEW_ITEMS[0])]
    np.testing.assert_array_equal(
        loaded.predict_proba(user, asked, ratings=given),
        model.predict_proba(user, asked, ratings=given),
    )
    loaded.save(tmp_path / "again.ordbm")
    assert (tmp_path / "again.ordbm").read_bytes() == (tmp_path / "model.ordbm").read_bytes()


def test_explanations_show_what_features_do(model):
    user, item = int(NEW_USERS[0]), int(NEW_ITEMS[0])
    both = model.explain(user, item)
    assert {part.kind for part in both.parts} == {"user_features", "item_features"}
    assert both.base + sum(part.effect for part in both.parts) == pytest.approx(both.final)
    at_least = [value >= both.threshold for value in model.scale.values]
    share = model.predict_proba(user, item)[0][at_least].sum()
    assert both.final == pytest.approx(np.log(share / (1 - share)), abs=1e-4)
    assert "what is known of the user" in str(both)
    given = model.explain(user, item, ratings={0: 5})
    assert given.base + sum(part.effect for part in given.parts) == pytest.approx(given.final)
    assert {"user", "taste", "user_features", "item_features"} <= {p.kind for p in given.parts}


# -- tables ---------------------------------------------------------------------------------------


def encoded(table, kind="item", known=range(20), means=None):
    found = feature_table(table, kind, IdMap.of(list(known))[0])
    n = len(found.ids)
    means = np.random.default_rng(0).normal(size=n) if means is None else means
    return fitted_encoder(found, kind, np.ones(n, bool), means), found


NUMBERS = np.random.default_rng(1).normal(size=20)
TABLE = {
    "item": list(range(20)),
    "year": [None if k == 3 else float(x) for k, x in enumerate(NUMBERS)],
    "country": [None if k == 4 else ("de", "fr")[k % 2] for k in range(20)],
    "tags": [["x", "y"] if k % 3 else ["y"] for k in range(20)],
}


@pytest.mark.parametrize(
    "make",
    [
        dict,
        pd.DataFrame,
        pl.DataFrame,
        lambda table: pl.DataFrame(table).lazy(),
        lambda table: pl.DataFrame(table).to_arrow(),
        lambda table: pl.DataFrame(table).to_dicts(),
    ],
)
def test_tables_of_any_kind_say_the_same(make):
    expected, table = encoded(TABLE)
    encoder, found = encoded(make(TABLE))
    assert encoder.columns == expected.columns
    np.testing.assert_array_equal(
        encoder.encoded(found.columns, 20), expected.encoded(table.columns, 20)
    )


def test_columns_become_features():
    encoder, table = encoded(TABLE)
    assert encoder.names == ("year", "country", "tags")
    assert encoder.group.tolist() == [0] + [1] * (1 + HINGES) + [2] * 2 + [3]  # all have y
    found = encoder.encoded(table.columns, 20)
    assert (found[:, 0] == 1).all()
    np.testing.assert_allclose(found[:, 1:].mean(axis=0), 0, atol=1e-6)
    assert not found[3, 1 : 2 + HINGES].any()  # missing: the mean
    assert not found[4, 2 + HINGES : 4 + HINGES].any()
    x = np.delete(NUMBERS, 3)
    np.testing.assert_allclose(found[:, 1], np.insert((x - x.mean()) / x.std(), 3, 0), atol=1e-6)
    assert (encoder.encoded({}, 2)[:, 1:] == 0).all()


def test_text_may_hold_several_values_and_numbers():
    split, _ = encoded(
        {"item": list(range(20)), "tags": ["x|y" if k % 3 else "z" for k in range(20)]}
    )
    assert split.columns[0].values == ("x", "y", "z")
    numbers, _ = encoded({"item": list(range(20)), "year": [str(x) for x in NUMBERS]})
    assert numbers.columns[0].mean == pytest.approx(NUMBERS.mean())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"item": [0, 0, *range(2, 20)]}, "item 0 is there more than once \\(rows 0 and 1\\)"),
        ({"item": [None, *range(1, 20)]}, "row 0 has no item"),
        ({"item": [str(k) for k in range(20)]}, "none of its 20 ids"),
        ({"item": ["0", *range(1, 20)]}, "item '0' is text, and this model's items are .*: give 0"),
        ({"year": ["1e999", *map(str, NUMBERS[1:])]}, "column 'year' is 1e999 for 0 \\(row 0\\)"),
        ({"year": [float("inf"), *NUMBERS[1:]]}, "column 'year' is inf for 0 \\(row 0\\)"),
        ({"year": (3 + np.random.default_rng(0).normal(size=20)).tolist()}, "the rating itself"),
    ],
)
def test_what_cannot_be_right_is_an_error(change, said):
    with pytest.raises(RatingsError, match=said):
        encoded(TABLE | change)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1.0] * 20, "constant"),
        ([None] * 20, "all missing"),
        ([f"film {k}" for k in range(20)], "an id in disguise"),
        ([1000 + 2 * k for k in range(20)], "an id in disguise"),
        (["same"] * 20, "constant"),
    ],
)
def test_columns_that_say_nothing_are_errors_that_name_them(values, said):
    with pytest.raises(RatingsError, match=f"item_features: column 'odd' is {said}.*leave such"):
        encoded(TABLE | {"odd": values})


MEAN_RATINGS = [
    float(RATINGS.values[RATINGS.item_codes == RATINGS.items.codes([item])[0]].mean())
    for item in range(RATED_ITEMS)
]
BAD_TABLES = {
    "unknown ids": ({"item": ["a", "b"], "x": [1.0, 2.0]}, "none of its 2 ids"),
    "duplicate ids": ({"item": [0, 0], "x": [1.0, 2.0]}, "item 0 is there more than once"),
    "constant": ({"item": [0, 1, 2], "x": [1.0] * 3}, "column 'x' is constant"),
    "infinite": ({"item": [0, 1], "x": [1.0, np.inf]}, "column 'x' is inf for 1"),
    "missing": ({"item": [0, 1], "x": [None, np.nan]}, "column 'x' is all missing"),
    "a title": (
        {"item": list(range(20)), "x": [f"film {k}" for k in range(20)]},
        "column 'x' is an id in disguise",
    ),
    "a count": (
        {"item": list(range(20)), "x": [5 + 3 * k for k in range(20)]},
        "column 'x' is an id in disguise",
    ),
    "the rating": (
        {"item": list(range(RATED_ITEMS)), "x": MEAN_RATINGS},
        "column 'x' is the rating itself",
    ),
}


@pytest.mark.parametrize("what", BAD_TABLES)
def test_a_bad_table_is_an_error_that_names_it_and_leaves_the_model_as_it_was(model, what):
    table, said = BAD_TABLES[what]
    before = model.predict(0, list(range(10)))
    with pytest.raises(RatingsError, match=f"item_features: .*{said}"):
        model.fit(RATINGS, item_features=table)
    np.testing.assert_array_equal(model.predict(0, list(range(10))), before)


# -- continuous ratings ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def continuous():
    """The same people and films on a scale without levels."""
    rng = np.random.default_rng(1)
    codes = RATINGS.user_codes, RATINGS.item_codes
    users, items = (
        [ids[code] for code in part]
        for ids, part in zip((RATINGS.users, RATINGS.items), codes, strict=True)
    )
    values = truth(users, items) + 0.7 * rng.normal(size=len(users))
    ratings = ordbm.Ratings(users, items, values, scale="continuous")
    fitted = ordbm.OrdinalBM(**KEPT_SMALL)
    return ratings, fitted.fit(ratings, user_features=USERS, item_features=ITEMS)


def test_continuous_ratings_are_predicted_by_features_too(continuous, tmp_path):
    _, model = continuous
    for users, items in (
        (NEW_USERS, NEW_ITEMS),
        (NEW_USERS, NEW_ITEMS - RATED_ITEMS),
        (NEW_USERS - RATED_USERS, NEW_ITEMS),
    ):
        found = model.predict(users.tolist(), items.tolist())
        assert np.corrcoef(found, truth(users, items))[0, 1] > 0.9
        assert np.abs(found - truth(users, items)).mean() < 0.4
    model.save(tmp_path / "model.ordbm")
    pairs = NEW_USERS.tolist(), NEW_ITEMS.tolist()
    again = ordbm.load(tmp_path / "model.ordbm").predict(*pairs)
    np.testing.assert_array_equal(again, model.predict(*pairs))
    both = model.explain(int(NEW_USERS[0]), int(NEW_ITEMS[0]))
    assert both.base + sum(part.effect for part in both.parts) == pytest.approx(both.final)
    said = model.predict(int(NEW_USERS[0]), 0, ratings={1: 5.5, 2: 0.5})
    assert np.isfinite(said).all()


@pytest.mark.parametrize("kind", range(2))
def test_squares_are_those_of_a_gaussian_machine_whose_column_nobody_rated(continuous, kind):
    """The objective read off the energy, and slopes by finite differences."""
    ratings, _ = continuous
    told = ordbm.OrdinalBM(**KEPT_SMALL | {"epochs": 2}, dtype="float64").fit(ratings)
    machine, rows = told.machines[0], told._state.ratings
    rng = np.random.default_rng(kind)
    n = rows[kind].n_rows
    design = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    strangers = drawn_parameters(machine, 1 - kind, rows[1 - kind].n_rows, rng)
    group = np.array([0, 1, 2])
    one = EffectsLearning(machine, rows, kind, design, group, strangers, FeatureRules(), 1)
    effects = FeatureEffects(*(0.3 * rng.normal(size=part.shape) for part in one.effects))
    cold = [
        x + y for x, y in zip(effects.of(design), unknown_parameters(machine, kind), strict=True)
    ]
    side, other = machine.sides[1 - kind], machine.sides[kind]
    inputs = (told.conditioned[0].user_input, told.conditioned[0].item_input)[1 - kind]
    columns, total = rows[kind], 0.0
    for column in range(n):
        for q in range(columns.start[column], columns.start[column + 1]):
            row, value = columns.column[q], columns.value[q]
            as_is = (
                other.parameters.rating_bias[row],
                other.parameters.coupling[row, :, : other.n_hidden],
                (inputs[row] - value * side.parameters.coupling[column, 0])[: side.n_hidden],
            )
            for row_bias, own, told_of in (as_is, [part[row] for part in strangers]):
                mean = machine.level_bias[0] + row_bias[0] + cold[0][column, 0]
                mean = mean + expit(told_of) @ cold[1][column, 0] + expit(cold[2][column]) @ own[0]
                total -= (value - mean) ** 2 / 2
    assert one.slopes(effects)[0] == pytest.approx(one.weight * total, rel=1e-9)
    way = [rng.normal(size=part.shape) for part in effects]

    def value_at(step):
        moved = (part + step * along for part, along in zip(effects, way, strict=True))
        return one.slopes(FeatureEffects(*moved))[0]

    slope = sum((x * y).sum() for x, y in zip(one.slopes(effects)[1], way, strict=True))
    assert slope == pytest.approx((value_at(1e-5) - value_at(-1e-5)) / 2e-5, rel=1e-6)


# -- the command line -----------------------------------------------------------------------------


def test_the_command_line_takes_tables_and_says_how_far_they_are_trusted(tmp_path):
    ordbm.write_ratings(RATINGS, tmp_path / "ratings.csv")
    pd.DataFrame(ITEMS).to_csv(tmp_path / "films.csv", index=False)
    told = ["--members", "1", "--hidden", "4", "--epochs", "1"]
    answer(
        "fit", tmp_path / "ratings.csv", "-o", tmp_path / "model.ordbm", *told,
        "--item-features", tmp_path / "films.csv",
    )  # fmt: skip
    found = json_answer("inspect", tmp_path / "model.ordbm")
    assert [one["column"] for one in found["item_features"]] == ["genres"]
    assert found["user_features"] == []
    assert "genres" in answer("inspect", tmp_path / "model.ordbm")
    loaded = ordbm.load(tmp_path / "model.ordbm")
    assert sorted(loaded.items) == list(range(N_ITEMS))
