"""Features that come after learning, or are not given again; and features in evaluation."""

import warnings

import numpy as np
import pandas as pd
import pytest

import ordbm
from cli_runs import answer, fault, json_answer
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
from ordbm.data.feature_columns import fitted_encoder
from ordbm.data.feature_tables import feature_table
from ordbm.data.ids import IdMap
from ordbm.data.level_counts import level_counts
from ordbm.errors import LeftOutWarning, RatingsError, SettingsError
from ordbm.evaluation import train_and_test
from ordbm.model.feature_effects import FeaturesTold
from ordbm.model.rules import FeatureRules
from ordbm.priors.counts import count_potentials
from ordbm.training.alternation import Trainer
from ordbm.training.bias_centres import BiasCentres

KNOWN = list(range(RATED_ITEMS))


def fitted(**about):
    return ordbm.OrdinalBM(**KEPT_SMALL).fit(RATINGS, **about)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A model that knows people and items with ratings alone, as a file."""
    file = tmp_path_factory.mktemp("described") / "model.ordbm"
    users = {name: values[:RATED_USERS] for name, values in USERS.items()}
    items = {name: values[:RATED_ITEMS] for name, values in ITEMS.items()}
    fitted(user_features=users, item_features=items).save(file)
    return file


@pytest.fixture
def model(path):
    return ordbm.load(path)


def rows(table, first, last):
    return {name: values[first:last] for name, values in table.items()}


NEW_USERS, NEW_ITEMS = rows(USERS, RATED_USERS, N_USERS), rows(ITEMS, RATED_ITEMS, N_ITEMS)


def test_new_ids_are_answered_for(model):
    before = model.predict_proba(0, KNOWN)
    model.partial_fit(user_features=NEW_USERS, item_features=NEW_ITEMS)
    users = [u for u in range(RATED_USERS, N_USERS) for _ in range(N_ITEMS)]
    items = list(range(N_ITEMS)) * (N_USERS - RATED_USERS)
    found, expected = model.predict(users, items), truth(users, items)
    assert np.corrcoef(found, expected)[0, 1] > 0.9
    assert np.abs(found - expected).mean() < 0.4
    np.testing.assert_array_equal(model.predict_proba(0, KNOWN), before)
    update = model.last_update
    assert (update.new_users, update.new_items) == (N_USERS - RATED_USERS, N_ITEMS - RATED_ITEMS)
    assert (update.described_users, update.described_items) == (20, 20)
    assert "features of users: 20, of items: 20" in str(update)
    user = next(u for u in range(RATED_USERS) if TASTES[u] == 0)
    new = list(range(RATED_ITEMS, N_ITEMS))
    listed = model.recommend(user, n=3, candidates=new)
    assert [GENRES[line.item] for line in listed] == [0, 0, 0]


def test_features_and_ratings_come_in_any_order(model, path):
    user = RATED_USERS
    said = [(user, item, 5) for item in KNOWN[:4]]
    model.partial_fit(said, user_features=NEW_USERS)
    apart, late = ordbm.load(path), ordbm.load(path)
    apart.partial_fit(user_features=NEW_USERS).partial_fit(said)
    late.partial_fit(said).partial_fit(user_features=NEW_USERS)
    asked = KNOWN[4:]
    expected = model.predict_proba(user, asked)
    np.testing.assert_array_equal(apart.predict_proba(user, asked), expected)
    np.testing.assert_allclose(late.predict_proba(user, asked), expected, atol=0.03)
    without = ordbm.load(path).partial_fit(said).predict_proba(user, asked)
    assert np.abs(late.predict_proba(user, asked) - expected).sum() < 0.5 * (
        np.abs(without - expected).sum()
    )


def test_a_row_takes_the_place_of_what_was_known(model):
    model.partial_fit(user_features=NEW_USERS)
    user = RATED_USERS
    before = model.predict(user, KNOWN)
    other = "left" if NEW_USERS["kind"][0] == "right" else "right"
    model.partial_fit(user_features={"user": [user], "kind": [other], "age": [40.0]})
    after = model.predict(user, KNOWN)
    assert np.corrcoef(before, after)[0, 1] < 0


def test_they_are_in_the_file_and_in_what_is_learnt_anew(model, tmp_path):
    model.partial_fit([(RATED_USERS, 0, 5)], user_features=NEW_USERS, item_features=NEW_ITEMS)
    model.save(tmp_path / "model.ordbm")
    loaded = ordbm.load(tmp_path / "model.ordbm")
    users, items = list(range(RATED_USERS, N_USERS)), list(range(RATED_ITEMS, N_ITEMS))
    np.testing.assert_array_equal(
        loaded.predict_proba(users, items), model.predict_proba(users, items)
    )
    loaded.refit()
    assert loaded.predict_proba(users, items) == pytest.approx(
        model.predict_proba(users, items), abs=0.15
    )
    assert loaded.growth.drift == 0


def test_ids_may_be_text(model):
    def named(letter, table):
        key = next(iter(table))
        return {**table, key: [f"{letter}{one}" for one in table[key]]}

    ratings = ordbm.Ratings(
        [f"u{RATINGS.users[code]}" for code in RATINGS.user_codes],
        [f"i{RATINGS.items[code]}" for code in RATINGS.item_codes],
        RATINGS.values,
    )
    told = named("u", rows(USERS, 0, RATED_USERS)), named("i", rows(ITEMS, 0, RATED_ITEMS))
    text = ordbm.OrdinalBM(**KEPT_SMALL).fit(
        ratings, None, user_features=told[0], item_features=told[1]
    )
    text.partial_fit(user_features=named("u", NEW_USERS), item_features=named("i", NEW_ITEMS))
    model.partial_fit(user_features=NEW_USERS, item_features=NEW_ITEMS)
    users, items = list(range(RATED_USERS, N_USERS)), list(range(RATED_ITEMS, N_ITEMS))
    found = text.predict_proba([f"u{u}" for u in users], [f"i{i}" for i in items])
    np.testing.assert_allclose(found, model.predict_proba(users, items), atol=1e-5)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"user": [500, 500], "kind": ["left"] * 2, "age": [1.0] * 2}, "500 is there more than on"),
        ({"user": [500], "kind": ["left"]}, "lacks 'age', which the model was learnt with"),
        ({"user": [500], "kind": ["left"], "age": [np.inf]}, "column 'age' is inf for 500"),
        ({"user": [500], "kind": ["left"], "age": ["old"]}, "'old' for 500 .* learnt as numbers"),
        ({"user": ["7"], "kind": ["left"], "age": [1.0]}, "give 7"),
        ({"user": [None], "kind": ["left"], "age": [1.0]}, "row 0 has no user"),
        ({"user": [500]}, "only the column"),
    ],
)
def test_a_table_that_is_refused_leaves_the_model_as_it_was(model, table, said):
    before, state = model.predict_proba(0, KNOWN), model._state
    with pytest.raises(RatingsError, match=said):
        model.partial_fit([(0, 0, 1)], user_features=table)
    assert model._state is state
    np.testing.assert_array_equal(model.predict_proba(0, KNOWN), before)


def test_ratings_that_are_refused_leave_the_features_out_too(model):
    state = model._state
    with pytest.raises(RatingsError, match="not there"):
        model.partial_fit(withdrawn=[(0, 12345)], user_features=NEW_USERS)
    assert model._state is state
    assert RATED_USERS not in model.users


def test_what_was_never_learnt_is_named(model):
    odd = {"user": [500], "kind": ["middle"], "age": [30.0], "height": [1.7]}
    with pytest.warns(
        LeftOutWarning, match="'height' .not learnt with.*'kind' .'middle' of 500, which is new"
    ):
        model.partial_fit(user_features=odd)
    assert 500 in model.users


@pytest.mark.parametrize("given", ["user_features", "item_features"])
def test_features_that_the_model_was_learnt_without_are_an_error_that_says_which(given):
    about = {"user_features": USERS, "item_features": ITEMS}
    other = {name: table for name, table in about.items() if name != given}
    model = fitted(**other)
    with pytest.raises(SettingsError, match=f"learnt without {given}"):
        model.partial_fit(**{given: about[given]})
    with pytest.raises(SettingsError, match=f"learnt without {given}"):
        fitted().partial_fit(**{given: about[given]})


def test_features_given_at_fit_may_be_absent_later(model):
    model.partial_fit([(0, 0, 1), ("somebody", "something", 3)])
    assert np.isfinite(model.predict(["somebody", 0], ["something", 0])).all()
    model.fit(RATINGS)
    assert model._state.described == (None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(model.predict(0, 0)).all()


def test_nothing_to_take_in_is_an_error():
    with pytest.raises(SettingsError, match="or features"):
        fitted().partial_fit()
    with pytest.raises(ordbm.errors.NotFittedError, match="fit the model first"):
        ordbm.OrdinalBM().partial_fit(user_features=USERS)


# -- what has ratings -----------------------------------------------------------------------------


def few_ratings():
    """Of some films the first two ratings alone; the rest of theirs is asked about."""
    rare = np.isin(RATINGS.item_codes, np.arange(0, RATED_ITEMS, 3))
    seen = np.zeros(RATED_ITEMS, int)
    kept = np.ones(len(RATINGS), bool)
    for place in np.flatnonzero(rare):
        seen[RATINGS.item_codes[place]] += 1
        kept[place] = seen[RATINGS.item_codes[place]] <= 2
    return kept


@pytest.fixture(scope="module")
def rare():
    """Asked pairs, and models: without features, with them after learning, and while learning."""
    kept = few_ratings()
    users, items = (
        np.array([ids[code] for code in codes])
        for ids, codes in (
            (RATINGS.users, RATINGS.user_codes), (RATINGS.items, RATINGS.item_codes)
        )
    )  # fmt: skip
    train = ordbm.Ratings(users[kept], items[kept], RATINGS.values[kept])
    about = {"user_features": USERS, "item_features": ITEMS}

    def learnt(epochs_without, **given):
        rules = FeatureRules(epochs_without=epochs_without)
        model = ordbm.OrdinalBM(**KEPT_SMALL | {"feature_rules": rules})
        return model.fit(train, **given)

    asked = users[~kept].tolist(), items[~kept].tolist(), RATINGS.values[~kept].tolist()
    return asked, learnt(4), learnt(100, **about), learnt(4, **about)


def test_items_with_few_ratings_are_nearer_to_what_their_features_say(rare):
    asked, alone, after, joint = rare
    alone, after, joint = (-one.log_probability(*asked).mean() for one in (alone, after, joint))
    assert joint < after < alone + 0.01


@pytest.mark.parametrize("kind", [0, 1])
def test_centres_of_biases_are_where_the_joint_posterior_is_highest(model, kind):
    """Of the biases as they are; by the dense normal equations of all levels at once."""
    state, rules = model._state, FeatureRules(epochs_without=0, least_centre=0.0)
    learner = model.learner.for_scale(5, 5, ordinal=True)
    about = state.described[kind]
    told = [None, None]
    told[kind] = FeaturesTold(about.encoder, about.design, IdMap(()), about.design[:0])
    machine = model.machines[0]
    trainer = Trainer(machine, state.ratings, learner, told=told, feature_rules=rules)
    own = machine.sides[1 - kind].parameters.rating_bias.astype(np.float64)
    levels = level_counts(state.ratings[kind], 5)
    potential, _ = count_potentials(levels, learner.priors.count_weight)
    rated = levels.sum(axis=1) > 0
    deviation = (own - potential)[rated]
    trainer._follow_features()
    found = trainer.bias_centres[kind]
    owner = trainer._training_of(1 - kind)
    scale, axes = np.linalg.eigh(owner.tables.bias_smoothing.astype(np.float64))
    axes = axes[:, scale > 1e-5 * scale[-1]]  # no prior moves levels in other directions
    precision = np.diag(owner.bias_precision / scale[scale > 1e-5 * scale[-1]])
    x = about.design[rated].astype(np.float64)
    unit = np.sqrt(np.append(1.0, found.variance[about.encoder.group[1:] - 1]))
    x *= unit  # effects in units of their deviation
    held = np.diag(np.append(0, np.ones(len(unit) - 1)))
    pull = np.kron(x.T, precision) @ (deviation @ axes).ravel()
    effects = np.linalg.solve(np.kron(x.T @ x + held, precision), pull)
    effects = unit[:, None] * effects.reshape(len(unit), -1)
    np.testing.assert_allclose(found.effects[1:] @ axes, effects[1:], atol=1e-4)
    expected = potential + about.design @ found.effects
    np.testing.assert_allclose(owner.tables.bias_mean, expected[owner.order], atol=1e-6)
    assert np.abs(found.effects[1:]).max() > 0.05


def test_variances_of_effects_come_back_and_noise_is_not_heard():
    """Biases drawn as the prior has them, seen as they are."""
    rng = np.random.default_rng(2)
    n_columns, n_levels = 2_000, 5
    x = rng.normal(size=(n_columns, 6))
    table = {"item": list(range(n_columns))} | {f"x{k}": x[:, k].tolist() for k in range(6)}
    told = feature_table(table, "item", IdMap(tuple(range(n_columns))))
    has, mean = np.ones(n_columns, bool), rng.random(n_columns)
    encoder = fitted_encoder(told, "item", has, mean)
    design = encoder.encoded(told.columns, n_columns)
    root = rng.normal(size=(n_levels, n_levels))
    smoothing, precision = root @ root.T, 2.0
    effects = np.sqrt(0.04 / precision) * rng.normal(size=(design.shape[1], n_levels)) @ root.T
    effects[encoder.group != 1] = 0  # the first column alone says something
    noise = rng.normal(size=(n_columns, n_levels)) @ root.T / np.sqrt(precision)
    about = FeaturesTold(encoder, design, IdMap(()), design[:0])
    centres = BiasCentres(about, np.full(n_columns, 1e6), smoothing, precision, 0.2, FeatureRules())
    for _ in range(20):
        centres.learn(design @ effects + noise)
    assert 0.5 * 0.04 < centres.variance[0] < 2 * 0.04
    assert (centres.variance[1:] < 0.05 * centres.variance[0]).all()
    error = np.abs(design @ (centres.effects - effects)).mean()
    assert error < 0.3 * np.abs(design @ effects).mean()


def test_a_training_with_features_goes_on_from_its_checkpoint(tmp_path):
    about = {"user_features": USERS, "item_features": ITEMS}
    told = KEPT_SMALL | {"epochs": 5, "feature_rules": FeatureRules(epochs_without=2)}

    def learnt(epochs, **how):
        return ordbm.OrdinalBM(**told | {"epochs": epochs}).fit(RATINGS, **about, **how)

    whole = learnt(5)
    for first in (2, 3):
        folder = tmp_path / str(first)
        learnt(first, checkpoint=folder)
        again = learnt(5, checkpoint=folder, resume=True)
        np.testing.assert_array_equal(again.predict_proba(0, KNOWN), whole.predict_proba(0, KNOWN))
    changed = {**ITEMS, "genres": ITEMS["genres"][::-1]}
    with pytest.raises(ordbm.errors.CheckpointError, match="item_features genres"):
        ordbm.OrdinalBM(**told).fit(
            RATINGS, user_features=USERS, item_features=changed, checkpoint=folder, resume=True
        )
    with pytest.raises(ordbm.errors.CheckpointError, match="not known now"):
        ordbm.OrdinalBM(**told).fit(RATINGS, checkpoint=folder, resume=True)


# -- evaluation, and the command line -------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ordbm.errors.UnknownIdsWarning")
def test_evaluation_gives_features_to_the_fit():
    cold = np.isin(RATINGS.user_codes, np.arange(80, RATED_USERS))

    def part(chosen):
        return {
            "user": [RATINGS.users[code] for code in RATINGS.user_codes[chosen]],
            "item": [RATINGS.items[code] for code in RATINGS.item_codes[chosen]],
            "rating": RATINGS.values[chosen],
        }

    model = ordbm.OrdinalBM(**KEPT_SMALL)
    about = {"user_features": USERS, "item_features": ITEMS}
    alone, told = (
        train_and_test(model, part(~cold), part(cold), bootstrap=0, **given)
        for given in ({}, about)
    )
    assert told.scores["log_loss"] < alone.scores["log_loss"] - 0.1
    folds = ordbm.cross_validate(model, RATINGS, 2, bootstrap=0, **about)
    assert np.isfinite(folds.scores["log_loss"])


def test_the_command_line_takes_features_wherever_ratings_are_learnt(tmp_path):
    ordbm.write_ratings(RATINGS, tmp_path / "ratings.csv")
    for name, table in (("users", USERS), ("items", ITEMS), ("more", NEW_ITEMS)):
        pd.DataFrame(table).to_csv(tmp_path / f"{name}.csv", index=False)
    pd.DataFrame(rows(ITEMS, 0, RATED_ITEMS)).to_csv(tmp_path / "items.csv", index=False)
    small = ["--members", "1", "--hidden", "4", "--epochs", "1"]
    about = ["--user-features", tmp_path / "users.csv", "--item-features", tmp_path / "items.csv"]
    found = json_answer("evaluate", tmp_path / "ratings.csv", *small, *about)
    assert len(found["models"]) == 1
    file = tmp_path / "model.ordbm"
    answer("fit", tmp_path / "ratings.csv", "-o", file, *small, *about)
    more = ["--item-features", tmp_path / "more.csv"]
    changes = json_answer("update", file, "-o", file, *more)["changes"]
    assert (changes["new_items"], changes["described_items"]) == (20, 20)
    assert N_ITEMS - 1 in ordbm.load(file).items
    said = fault("evaluate", tmp_path / "ratings.csv", "--model", file, *more)
    assert "--item-features has no effect with --model" in said
