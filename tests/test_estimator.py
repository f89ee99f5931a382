"""OrdinalBM, the front door: ids, scales, settings, learning, predictions and lists."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ordbm
import referee
from ordbm import OrdinalBM, Ratings, RatingScale
from ordbm.datasets import filter_items
from ordbm.errors import NotFittedError, RatingsError, SettingsError, UnknownIdsWarning
from ordbm.metrics.prediction import validation_scores
from ordbm.model.learners import ContrastiveDivergence, PseudoLikelihood
from ordbm.model.neighbours import correlation_links

TINY = {"hidden": 3, "members": 2, "item_links": 4, "epochs": 2}
N_USERS, N_ITEMS = 40, 30


def simulated(levels=(1, 2, 3, 4, 5), n_ratings=600, seed=0, **settings):
    """Ratings with users and items that differ; `levels` from lowest to highest."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(N_USERS, size=n_ratings), rng.integers(N_ITEMS, size=n_ratings)
    liking = rng.normal(size=N_USERS)[users] + rng.normal(size=N_ITEMS)[items]
    place = np.clip((liking / 4 + 0.5) * len(levels), 0, len(levels) - 1).astype(int)
    return Ratings(users.tolist(), items.tolist(), [levels[s] for s in place], **settings)


def continuous(seed=0):
    rng = np.random.default_rng(seed)
    users, items = rng.integers(N_USERS, size=600), rng.integers(N_ITEMS, size=600)
    values = 50 + 10 * (rng.normal(size=N_USERS)[users] + rng.normal(size=N_ITEMS)[items])
    return Ratings(users, items, values + rng.normal(size=600))


@pytest.fixture(scope="module")
def ratings():
    return simulated()


@pytest.fixture(scope="module")
def model(ratings):
    return OrdinalBM(**TINY).fit(ratings)


@pytest.fixture(scope="module")
def gaussian():
    return OrdinalBM(**TINY).fit(continuous())


def some_pairs():
    """Known and unknown users and items in every mix."""
    users = [0, 1, "nobody", "nobody", 7, 10**6]
    items = [3, "nothing", 3, "nothing", 2.0, 5]
    return users, items


def machine_bits(model):
    parts = [part for machine in model.machines for part in machine.sides if part is not None]
    arrays = [array for side in parts for array in side.parameters]
    arrays += [machine.level_bias for machine in model.machines]
    return [array.tobytes() for array in arrays]


# Every machine fits and predicts


@pytest.mark.parametrize(("kind", "sides", "links"), referee.COMBINATIONS)
def test_every_combination(ratings, kind, sides, links):
    model = OrdinalBM(
        features=kind,
        sides=sides,
        hidden=3,
        item_links=4 if links in {"items", "both"} else 0,
        user_links=4 if links in {"users", "both"} else 0,
        epochs=2,
        members=2,
    ).fit(ratings)
    user_side, item_side = model.machines[0].sides
    assert (user_side is not None) == (sides != "item" or links in {"items", "both"})
    assert (item_side is not None) == (sides != "user" or links in {"users", "both"})
    proba = model.predict_proba(*some_pairs())
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.ptp(model.predict(0, range(N_ITEMS))) > 0
    assert len(model.recommend(0, 3)) == 3
    assert model.user_factors().shape == (N_USERS, 6 if sides != "item" else 0)
    assert model.item_factors().shape == (N_ITEMS, 6 if sides != "user" else 0)
    assert model.predict_joint(0, [1, 2]).values.shape[1] == 2


@pytest.mark.parametrize("learner", ["pl", "cd", "structured"])
@pytest.mark.parametrize("kind", referee.KINDS)
def test_every_learner(ratings, kind, learner):
    model = OrdinalBM(kind, learner=learner, **TINY).fit(ratings)
    assert np.isfinite(model.predict(0, range(N_ITEMS))).all()
    assert len(model.history) == 2


@pytest.mark.parametrize("learner", ["pl", "cd", "structured"])
@pytest.mark.parametrize("kind", referee.KINDS)
def test_units_that_only_fill_vectors_stay_off(ratings, kind, learner):
    """Hidden units are kept in whole vectors; what is beyond `hidden` must not learn."""
    model = OrdinalBM(kind, learner=learner, **TINY).fit(ratings)
    for side in model.machines[0].sides:
        assert not side.parameters.hidden_bias[3:].any()
        assert not side.parameters.coupling[:, :, 3:].any()


@pytest.mark.parametrize(
    "learner",
    [
        PseudoLikelihood(rate=0.2, momentum=0.0),
        ContrastiveDivergence(steps=lambda epoch: 1 + epoch, other_side="mean_field_with_own"),
    ],
)
def test_a_learner_object_with_its_own_settings(ratings, learner):
    model = OrdinalBM(learner=learner, **TINY).fit(ratings)
    assert model.learner is learner
    assert np.isfinite(model.predict_proba(*some_pairs())).all()


@pytest.mark.parametrize("links", [0, 4])
@pytest.mark.parametrize("hidden", [0, (3, 5), (0, 2), [2, 0]])
def test_sizes_of_the_two_sides(ratings, hidden, links):
    model = OrdinalBM(hidden=hidden, item_links=links, user_links=links, epochs=2, members=1)
    model.fit(ratings)
    expected = tuple(hidden) if hidden else (0, 0)
    assert (model.user_factors().shape[1], model.item_factors().shape[1]) == expected
    np.testing.assert_allclose(model.predict_proba(*some_pairs()).sum(axis=1), 1.0)
    assert len(model.recommend(ratings={0: 5}, n=4)) == 4


def test_links_are_found_as_the_settings_say(ratings):
    def links(**told):
        model = OrdinalBM(**TINY | {"epochs": 0, "item_links": 3, "user_links": 2, **told})
        machine = model.fit(ratings).machines[0]
        return [side.links for side in (machine.user_side, machine.item_side)]

    def expected(shrinkage, support):
        rows, values = (ratings.by_user, ratings.by_item), np.arange(1.0, 6.0)
        how = {"shrinkage": shrinkage, "min_support": support, "budget": None, "threads": 1}
        return [
            correlation_links(rows[side], rows[1 - side], values, n_neighbours=n, **how)
            for side, n in ((0, 3), (1, 2))
        ]

    def bits(found):
        return [array.tobytes() for one in found for array in one]

    assert bits(links(link_shrinkage=7.5, link_support=4)) == bits(expected(7.5, 4))
    assert bits(links()) == bits(expected(100.0, 5))
    different = [expected(7.5, 4), expected(100.0, 4), expected(7.5, 5), expected(100.0, 5)]
    assert len({tuple(bits(one)) for one in different}) == 4


@pytest.mark.parametrize("preset", ["fast", "default", "best"])
def test_a_preset_gives_way_to_what_is_told(preset, ratings):
    told = {"hidden": 3, "epochs": 1, "members": 1, "item_links": 2}
    model = OrdinalBM(preset=preset, **told).fit(ratings)
    assert len(model.machines) == 1
    assert model.settings.hidden == 3
    assert len(model.recommend(ratings.users[0], n=2)) == 2  # lists work with each
    again = OrdinalBM(**model.get_params())
    assert again.settings == model.settings


def test_presets_are_ordered_by_their_cost():
    fast, default, best = (OrdinalBM(preset=name) for name in ("fast", "default", "best"))
    for n_ratings in (30_000, 1_000_000, 10_000_000):
        members = [one.settings.resolved(n_ratings).members for one in (fast, default, best)]
        assert members == sorted(members)
    assert fast.settings.epochs < default.settings.epochs == best.settings.epochs


def test_paper_preset(ratings):
    model = OrdinalBM(preset="paper", epochs=2, hidden=6).fit(ratings)
    told = model.settings
    assert (told.hidden, told.item_links, told.user_links, told.learner) == (
        6, 100, 100, "structured",
    )  # fmt: skip
    learner = model.learner
    assert (learner.rate, learner.block_rows, learner.spread, learner.steps) == (0.1, 100, 0.01, 1)
    assert learner.other_side == "mean_field_with_own"
    assert model.machines[0].user_side.links.n_edges > 0
    assert model.machines[0].item_side.links.n_edges > 0
    assert np.isfinite(model.predict_proba(*some_pairs())).all()


@pytest.mark.parametrize("told", [{"preset": "paper"}, {"learner": "cd"}])
def test_the_papers_learners_draw_all_that_belongs_to_hidden_units(ratings, told):
    """Section 4.1: from N(0; 0.01), hidden biases too, which once started at zero."""
    machine = OrdinalBM(**told, hidden=200, epochs=0, item_links=0).fit(ratings).machines[0]
    for side in machine.sides:
        bias = side.parameters.hidden_bias
        assert bias[:200].std() == pytest.approx(0.01, rel=0.2)
        assert not bias[200:].any()
    ours = OrdinalBM(hidden=4, epochs=0, item_links=0, members=1).fit(ratings).machines[0]
    assert not any(side.parameters.hidden_bias.any() for side in ours.sides)


def test_no_epochs_is_the_frequency_of_levels(ratings):
    blind = PseudoLikelihood(count_weight=0.0)  # to how often somebody or something is rated
    model = OrdinalBM(hidden=0, item_links=0, epochs=0, learner=blind).fit(ratings)
    share = np.bincount(ratings.levels, minlength=5) + 0.5
    np.testing.assert_allclose(
        model.predict_proba([0, "x"], [1, "y"]), [share / share.sum()] * 2, rtol=1e-5
    )


# Predictions


def test_rows_sum_to_one_for_known_and_unknown(model):
    proba = model.predict_proba(*some_pairs())
    assert proba.shape == (6, 5)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    assert model.predict_proba([], []).shape == (0, 5)


# Text that is no number: one that is would be an id of another type.
WORDS = st.text(max_size=2).filter(lambda text: not any(map(str.isnumeric, text)))


@given(
    users=st.lists(st.integers(-5, 60) | WORDS, max_size=8),
    item=st.integers(-5, 60) | WORDS | st.tuples(st.integers()),
    method=st.sampled_from(["exact", "mean_field"]),
)
def test_any_ids_get_a_distribution(model, gaussian, users, item, method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownIdsWarning)
        proba = model.predict_proba(users, item, method)
        found = gaussian.distribution(users, item, method)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isfinite(found.mean()).all()
    assert (found.deviation() > 0).all()


def test_decoding(model, ratings):
    users, items = [0, 1, "x"], [2, 3, 4]
    proba, values = model.predict_proba(users, items), ratings.scale.values
    np.testing.assert_allclose(model.predict(users, items), proba @ values)
    np.testing.assert_array_equal(
        model.predict(users, items, decode="mode"), values[proba.argmax(axis=1)]
    )
    middle = (np.cumsum(proba, axis=1) < 0.5).sum(axis=1)
    np.testing.assert_array_equal(model.predict(users, items, decode="median"), values[middle])
    with pytest.raises(SettingsError, match="decode='average' is not known: use one of mean"):
        model.predict(users, items, decode="average")


@pytest.mark.parametrize(
    ("users", "items"),
    [
        (4, [1, 2, 3]),
        (4, np.array([1, 2, 3])),
        (4, pd.Series([1, 2, 3], index=[9, 9, 7])),
        (pl.Series([4, 4, 4]), pl.Series([1, 2, 3])),
        (4, range(1, 4)),
        (np.int64(4), {1: "a", 2: "b", 3: "c"}),
    ],
)
def test_single_ids_stand_for_as_many_as_needed(model, users, items):
    both = model.predict([4, 4, 4], [1, 2, 3])
    np.testing.assert_allclose(model.predict(users, items), both, rtol=1e-12)
    np.testing.assert_allclose(model.predict(4, 1), both[:1], rtol=1e-12)
    np.testing.assert_allclose(model.predict([4], 1), both[:1], rtol=1e-12)
    np.testing.assert_array_equal(model.user_factors(4), model.user_factors([4]))


def test_lengths_that_differ(model):
    with pytest.raises(RatingsError, match="3 users and 2 items: pairs need as many of both"):
        model.predict([1, 2, 3], [1, 2])


def test_mean_field_is_close_to_exact(model):
    exact = model.predict_proba(0, range(N_ITEMS))
    np.testing.assert_allclose(
        model.predict_proba(0, range(N_ITEMS), "mean_field"), exact, atol=0.05
    )
    with pytest.raises(SettingsError, match="method='gibbs' is not known: use 'exact'"):
        model.predict(0, 1, method="gibbs")


def test_a_pairs_own_rating_is_left_out():
    ratings = simulated()
    model = OrdinalBM(**TINY).fit(ratings)
    users = [ratings.users[u] for u in ratings.user_codes[:50]]
    items = [ratings.items[i] for i in ratings.item_codes[:50]]
    before = model.predict_proba(users, items)
    # The same machine, with one pair's rating changed in what it has seen.
    by_user, by_item = ratings.by_user, ratings.by_item
    by_user.level[7] = by_item.level[by_user.in_transpose[7]] = (by_user.level[7] + 2) % 5
    del model._fitted.tables
    after = model.predict_proba(users, items)
    np.testing.assert_allclose(after[7], before[7], atol=1e-6)
    assert np.abs(np.delete(after - before, 7, axis=0)).max() > 1e-4


# Tables


@pytest.mark.parametrize(("backend", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_table(model, backend, kind):
    users, items = ["0", 1, 2][1:], [2, 99]
    table = model.predict_table(users, items, backend=backend)
    assert isinstance(table, kind)
    assert list(table.columns) == [
        "user", "item", "mean", "median", "mode", "deviation", "confidence", "known_user",
        "known_item", "p_1", "p_2", "p_3", "p_4", "p_5",
    ]  # fmt: skip
    assert table["user"].to_list() == users
    assert table["known_user"].to_list() == [True, True]
    assert table["known_item"].to_list() == [True, False]
    proba = model.predict_proba(users, items)
    np.testing.assert_allclose(np.column_stack([table[f"p_{s}"] for s in range(1, 6)]), proba)
    np.testing.assert_allclose(table["confidence"], proba.max(axis=1))
    np.testing.assert_allclose(table["mean"], model.predict(users, items))


def test_known_flags_in_every_mix(model):
    table = model.predict_table(*some_pairs())
    assert table["known_user"].tolist() == [True, True, False, False, True, False]
    assert table["known_item"].tolist() == [True, False, True, False, True, True]


def test_continuous_table(gaussian):
    table = gaussian.predict_table([0, "x"], 1)
    assert list(table.columns)[-2:] == ["known_user", "known_item"]
    assert np.isfinite(table[["mean", "median", "mode", "deviation", "confidence"]]).all().all()


# Scales


@pytest.mark.parametrize(
    ("levels", "scale", "names"),
    [
        (["poor", "fair", "good"], ["poor", "fair", "good"], ["p_poor", "p_fair", "p_good"]),
        ([0.5, 1, 1.5, 2], None, ["p_0.5", "p_1", "p_1.5", "p_2"]),
        ([3], None, ["p_3"]),
        ([0, 1], None, ["p_0", "p_1"]),
        (list(range(1, 11)), None, [f"p_{s}" for s in range(1, 11)]),
        ([1, 2, 10], [1, 2, 10], ["p_1", "p_2", "p_10"]),
        ([-1, 1], [-1, 0, 1], ["p_-1", "p_0", "p_1"]),  # a level that nobody gives
    ],
)
@pytest.mark.parametrize("kind", referee.KINDS)
def test_scales(levels, scale, names, kind):
    ratings = simulated(levels, scale=scale)
    model = OrdinalBM(kind, **TINY).fit(ratings)
    table = model.predict_table(*some_pairs())
    assert list(table.columns)[-len(names) :] == names
    np.testing.assert_allclose(table[names].sum(axis=1), 1.0)
    values = model.scale.values
    assert table["mean"].between(values[0] - 1e-9, values[-1] + 1e-9).all()
    assert table["mode"].isin(values).all()
    assert len(model.recommend(0, 2)) == 2
    assert len(model.recommend(ratings={0: levels[-1]}, n=2)) == 2


def test_continuous_ratings_make_a_gaussian_machine(gaussian):
    assert gaussian.machines[0].features.is_gaussian
    assert "gaussian" in repr(gaussian)
    found = gaussian.distribution(*some_pairs())
    assert (np.abs(found.mean() - 50) < 50).all()
    assert (found.deviation() > 0.5).all()
    with pytest.raises(SettingsError, match="no levels: use predict_table or distribution"):
        gaussian.predict_proba(0, 1)


def test_continuous_ratings_are_learnt():
    train, test = ordbm.hold_out(continuous(), 0.2)
    model = OrdinalBM(hidden=3, item_links=0, epochs=10, members=2).fit(train)
    users = [test.users[u] for u in test.user_codes]
    items = [test.items[i] for i in test.item_codes]
    error = validation_scores(model.distribution(users, items), test)["rmse"]
    assert error < 0.5 * test.values.std()


def test_levels_asked_of_continuous_ratings():
    with pytest.raises(SettingsError, match=r"features='ordinal'.*use features='gaussian', or put"):
        OrdinalBM(features="ordinal").fit(continuous())


# Ids


@pytest.mark.parametrize(
    "name",
    [
        str,
        lambda code: 10**30 + code,
        lambda code: ("store", code),
        lambda code: pd.Timestamp(2020, 1, 1) + pd.Timedelta(days=code),
        lambda code: frozenset([code]) if code % 2 else -code,
    ],
)
def test_ids_of_any_kind(ratings, name):
    users = [name(ratings.users[u]) for u in ratings.user_codes]
    items = [name(ratings.items[i]) for i in ratings.item_codes]
    named = OrdinalBM(**TINY).fit(Ratings(users, items, ratings.values))
    again = OrdinalBM(**TINY).fit(
        Ratings(
            [ratings.users[u] for u in ratings.user_codes],
            [ratings.items[i] for i in ratings.item_codes],
            ratings.values,
        )
    )
    codes = [0, 1, 2]
    np.testing.assert_array_equal(
        named.predict([name(c) for c in codes], [name(3)] * 3), again.predict(codes, 3)
    )
    for user in (1, 2):
        lines = named.recommend(name(user), 3)
        assert [line.item for line in lines] == [
            name(line.item) for line in again.recommend(user, 3)
        ]
        np.testing.assert_allclose(named.predict(name(user), name(5)), again.predict(user, 5))


def test_a_tuple_is_one_id():
    model = OrdinalBM(**TINY).fit(
        Ratings([("a", 1), ("a", 1), ("b", 2)], [("x",), ("y",), ("x",)], [1, 2, 3])
    )
    table = model.predict_table(("a", 1), ("y",))
    assert table["user"].tolist() == [("a", 1)]
    assert table[["known_user", "known_item"]].all(axis=None)


def test_ids_without_ratings_are_unknown(ratings):
    """After a hold-out the map still has them; the machine has learnt nothing of them."""
    someone, something = ratings.users[3], ratings.items[5]
    rest = ratings.select((ratings.user_codes != 3) & (ratings.item_codes != 5))
    model = OrdinalBM(**TINY).fit(rest)
    table = model.predict_table([someone, 0], [0, something])
    assert table["known_user"].tolist() == [False, True]
    assert table["known_item"].tolist() == [True, False]
    np.testing.assert_array_equal(
        model.predict_proba([someone, 0, someone], [0, something, something]),
        model.predict_proba([-1, 0, -1], [0, -1, -1]),
    )
    np.testing.assert_array_equal(model.user_factors([someone]), model.user_factors([-1]))
    np.testing.assert_array_equal(model.item_factors([something]), model.item_factors([-1]))
    assert model.recommend(someone, 5) == model.recommend(-1, 5)
    assert someone not in model.recommend_lists(n=3)
    everything = [line.item for line in model.recommend(-1, 1000)]
    assert something not in everything
    assert len(everything) == N_ITEMS - 1
    assert something not in {
        item for line in model.recommend_lists(n=99).values() for item, _ in line
    }
    assert [line.item for line in model.recommend(-1, 9, candidates=[something, 0])] == [0]


# Learning


@pytest.fixture(scope="module")
def parts():
    return ordbm.hold_out(simulated(n_ratings=900, seed=2), 0.3, seed=1)


def test_the_best_epoch_is_restored(parts):
    train, validation = parts
    learner = PseudoLikelihood(coupling_precision=0.1)
    settings = {"hidden": 20, "members": 3, "item_links": 0, "learner": learner}
    model = OrdinalBM(epochs=40, patience=2, **settings).fit(train, validation)
    losses = [record.validation["log_loss"] for record in model.history]
    best = int(np.argmin(losses))
    assert best < len(losses) - 1
    assert len(losses) == best + 1 + 2  # two more, without a better one
    pairs = (
        [validation.users[u] for u in validation.user_codes],
        [validation.items[i] for i in validation.item_codes],
    )
    found = validation_scores(model.distribution(*pairs), validation)
    assert found == pytest.approx(model.history[best].validation, rel=1e-4)  # before rounding
    shorter = OrdinalBM(epochs=best + 1, **settings).fit(train)
    assert machine_bits(shorter) == machine_bits(model)


def test_a_callback_gets_records_and_can_stop(parts):
    seen = []

    def stop_at_three(record):
        seen.append(record)
        return record.epoch == 3

    callbacks = (callback for callback in [stop_at_three])  # any iterable will do
    model = OrdinalBM(hidden=2, item_links=0, epochs=9, members=2).fit(
        parts[0], callbacks=callbacks
    )
    assert seen == model.history
    assert [(record.epoch, record.epochs) for record in seen] == [(1, 9), (2, 9), (3, 9)]
    assert all(np.isfinite(record.objective) and record.validation == {} for record in seen)
    longer = OrdinalBM(hidden=2, item_links=0, epochs=3, members=2).fit(parts[0])
    assert longer.history[-1].objective == seen[-1].objective


@pytest.mark.parametrize("learner", ["pl", "cd", "structured"])
@pytest.mark.parametrize("kind", ["ordinal", "gaussian"])
def test_bits_do_not_depend_on_threads(ratings, kind, learner):
    told = {"features": kind, "learner": learner, "user_links": 3, **TINY}
    one, two, other = (
        OrdinalBM(threads=threads, seed=seed, **told).fit(ratings)
        for threads, seed in ((1, 5), (2, 5), (2, 6))
    )
    assert machine_bits(one) == machine_bits(two)
    assert machine_bits(one) != machine_bits(other)
    np.testing.assert_array_equal(one.predict(0, range(30)), two.predict(0, range(30)))
    assert one.recommend(0, 5) == two.recommend(0, 5)


def test_fitting_again_starts_afresh(ratings, model):
    again = OrdinalBM(**TINY).fit(simulated(seed=4))
    again.fit(ratings)
    assert machine_bits(again) == machine_bits(model)
    assert len(again.history) == TINY["epochs"]


def test_double_precision(ratings, model):
    double = OrdinalBM(dtype="float64", **TINY).fit(ratings)
    assert double.machines[0].dtype == np.float64
    np.testing.assert_allclose(
        double.predict_proba(0, range(30)), model.predict_proba(0, range(30)), atol=1e-3
    )


def test_validation_on_another_scale(ratings):
    for other in (simulated([1, 2, 3]), continuous()):
        with pytest.raises(RatingsError, match=r"validation ratings are on .*the same scale"):
            OrdinalBM(**TINY).fit(ratings, validation=other)
    with pytest.raises(RatingsError, match="the same scale"):
        OrdinalBM(**TINY).fit(continuous(), validation=ratings)


def test_validation_on_a_continuous_scale():
    model = OrdinalBM(**TINY).fit(*ordbm.hold_out(continuous(), 0.1))
    assert all(np.isfinite(list(record.validation.values())).all() for record in model.history)


def test_validation_with_strangers(ratings):
    other = Ratings(["new", 0, 1], [0, "other", 2], [5, 4, 1], scale=[1, 2, 3, 4, 5])
    model = OrdinalBM(**TINY).fit(ratings, validation=other)
    assert np.isfinite(model.history[-1].validation["log_loss"])


def test_nothing_to_learn_from(ratings):
    nothing, everything = ordbm.hold_out(ratings, 1.0)
    with pytest.raises(RatingsError, match="no ratings to learn from"):
        OrdinalBM(**TINY).fit(nothing)
    with pytest.raises(RatingsError, match="no validation ratings"):
        OrdinalBM(**TINY).fit(everything, validation=nothing)
    with pytest.raises(RatingsError, match="cannot tell which column is the user"):
        OrdinalBM().fit(pd.DataFrame())
    with pytest.raises(RatingsError, match="no ratings"):
        OrdinalBM(**TINY).fit(everything, validation=[])


@pytest.mark.parametrize("n", [1, 2])
def test_a_handful_of_ratings(n):
    model = OrdinalBM(epochs=2).fit(Ratings(["a", "b"][:n], ["x", "y"][:n], [4, 5][:n]))
    np.testing.assert_allclose(model.predict_proba(["a", "c"], ["x", "z"]).sum(axis=1), 1.0)
    assert [line.item for line in model.recommend("a")] == ["y"][: n - 1]


# Settings


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            {"features": "nominal"},
            "features='nominal' is not known: use one of categorical, ordinal",
        ),
        ({"sides": "both"}, "sides='both' is not known: use one of user, item, joint"),
        ({"preset": "good"}, "preset='good' is not known: use one of fast, default, best, paper"),
        ({"learner": "sgd"}, "learner='sgd' is not known: use one of pl, cd, structured"),
        ({"dtype": "float16"}, "dtype='float16' is not known: use one of float32, float64"),
        ({"hidden": -1}, "hidden=-1: must be a whole number, 0 or more"),
        ({"hidden": 2.5}, r"hidden=2\.5: must be a whole number"),
        ({"hidden": (1, 2, 3)}, r"hidden=\(1, 2, 3\): a number, or \(user side, item side\)"),
        ({"hidden": (1, "2")}, "hidden='2': must be a whole number"),
        ({"item_links": -3}, "item_links=-3: must be a whole number"),
        ({"user_links": True}, "user_links=True: must be a whole number"),
        ({"epochs": 1.5}, r"epochs=1\.5: must be a whole number"),
        ({"seed": -1}, "seed=-1: must be a whole number"),
        ({"patience": -1}, "patience=-1: must be a whole number, 0 or more"),
        ({"threads": 0}, "threads=0: must be a whole number, 1 or more"),
        ({"threads": "two"}, "threads='two': must be a whole number, 1 or more"),
        ({"link_shrinkage": -1.0}, r"link_shrinkage=-1\.0: must be a number, 0 or more"),
        ({"link_shrinkage": "no"}, "link_shrinkage='no': must be a number, 0 or more"),
        ({"link_support": -1}, "link_support=-1: must be a whole number"),
    ],
)
def test_settings_errors_name_the_setting_and_the_remedy(told, message):
    with pytest.raises(SettingsError, match=message):
        OrdinalBM(**told)


def test_numbers_of_numpy_are_numbers(ratings):
    told = {"hidden": np.int64(2), "epochs": np.int32(1), "item_links": np.int8(0)}
    model = OrdinalBM(**told, members=np.int16(2)).fit(ratings)
    assert model.user_factors().shape == (N_USERS, 2 * 2)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.predict_proba(1, 2),
        lambda model: model.predict(1, 2),
        lambda model: model.predict_table(1, 2),
        lambda model: model.predict_joint(1, 2),
        lambda model: model.distribution(1, 2),
        lambda model: model.recommend(1),
        lambda model: model.recommend(ratings={}),
        lambda model: model.recommend_lists(),
        lambda model: model.user_factors(),
        lambda model: model.item_factors(),
        lambda model: model.machines[0],
        lambda model: model.scale,
    ],
)
def test_not_fitted(ask):
    model = OrdinalBM()
    with pytest.raises(NotFittedError, match=r"call fit\(ratings\) first"):
        ask(model)
    assert "not fitted" in repr(model)


# Several ratings at once


def test_joint_prediction_in_ratings():
    ratings = simulated([1, 2, 10], scale=[1, 2, 10])
    model = OrdinalBM(**TINY).fit(ratings)
    joint = model.predict_joint([0, 0, 1], [1, 2, 1])
    assert joint.exact
    assert set(np.unique(joint.values)) == {1.0, 2.0, 10.0}
    single = model.predict_joint(0, 1)
    np.testing.assert_allclose(single.mean(), model.predict(0, 1), rtol=1e-5)
    np.testing.assert_allclose(
        single.marginals(ratings.scale.values)[0], model.predict_proba(0, 1)[0], rtol=1e-4
    )


def test_joint_prediction_of_continuous_ratings(gaussian):
    single = gaussian.predict_joint(0, 1)
    found = gaussian.distribution(0, 1)
    # 20,000 draws count as 2,000 independent ones at least; five standard errors.
    assert abs(single.mean() - found.mean())[0] < 5 * found.deviation()[0] / np.sqrt(2_000)
    np.testing.assert_allclose(np.sqrt(single.covariance()[0]), found.deviation(), rtol=0.1)


def test_joint_prediction_of_strangers(model):
    two = model.predict_joint(-1, 3), model.predict_joint(-2, 3)
    np.testing.assert_allclose(two[0].mean(), two[1].mean())
    same = model.predict_joint(-1, [3, 4])
    with pytest.warns(UnknownIdsWarning, match="none of these 2 users"):
        apart = model.predict_joint([-1, -2], [3, 4])
    # Two strangers have in common that the machines differ, and no more.
    assert abs(same.covariance()[0, 1]) > 2 * abs(apart.covariance()[0, 1])
    with pytest.raises(SettingsError, match="asked for more than once"):
        model.predict_joint([-1, -1], [3, 3])
    assert model.predict_joint([], []).mean().shape == (0,)


# Lists


def rated_by(ratings, user):
    code = ratings.users.ids.index(user)
    return {ratings.items[i] for i in ratings.item_codes[ratings.user_codes == code]}


def test_recommend(ratings, model):
    lines = model.recommend(0, 7)
    assert len(lines) == 7
    assert not {line.item for line in lines} & rated_by(ratings, 0)
    assert [line.score for line in lines] == sorted((line.score for line in lines), reverse=True)
    items = [line.item for line in lines]
    np.testing.assert_allclose([line.mean for line in lines], model.predict(0, items))
    confidence = model.predict_table(0, items)["confidence"]
    np.testing.assert_allclose([line.confidence for line in lines], confidence)


def test_recommend_everything(ratings, model):
    everything = {line.item for line in model.recommend(0, 10_000)}
    assert everything == set(ratings.items) - rated_by(ratings, 0)
    assert model.recommend(0, 0) == []


@pytest.mark.parametrize("by", ["energy", "mean"])
@pytest.mark.parametrize("kind", ["ordinal", "gaussian", "continuous"])
def test_recommend_all_agrees_with_one_by_one(ratings, gaussian, kind, by):
    model = gaussian if kind == "continuous" else OrdinalBM(kind, **TINY).fit(ratings)
    lists = model.recommend_lists(n=5, by=by)
    assert set(lists) == set(ratings.users)
    some = model.recommend_lists([3, 0], n=5, by=by)
    assert list(some) == [3, 0]
    assert [item for item, _ in some[3]] == [item for item, _ in lists[3]]
    assert list(model.recommend_lists(3, by=by)) == [3]
    for user, lines in lists.items():
        one = model.recommend(user, 5, by=by)
        assert [line.item for line in one] == [item for item, _ in lines]
        expected = [score for _, score in lines]
        # Single precision, from blocks of other sizes; a score may be near zero.
        np.testing.assert_allclose([line.score for line in one], expected, rtol=1e-4, atol=1e-6)
    assert model.recommend_lists([], by=by) == {}


def test_recommend_by_mean_is_in_order_of_predicted_ratings(model):
    lines = model.recommend(0, 5, by="mean")
    assert [line.score for line in lines] == [line.mean for line in lines]
    best = sorted((line.mean for line in model.recommend(0, 1000)), reverse=True)
    assert [line.mean for line in lines] == best[:5]


@pytest.mark.parametrize("n", [1, 3, 7])
def test_a_shorter_list_by_mean_is_the_beginning_of_a_longer_one(model, n):
    longer = [line.item for line in model.recommend(0, 1000, by="mean")]
    assert [line.item for line in model.recommend(0, n, by="mean")] == longer[:n]


def test_a_tuple_of_known_ids_is_not_taken_for_a_stranger(ratings, model):
    both = tuple(ratings.items)[:2]
    with pytest.raises(RatingsError, match="is one id, a tuple"):
        model.predict(0, both)
    assert model.predict(np.array(0), np.array(both[0])) == model.predict(0, both[0])
    np.testing.assert_array_equal(model.known_items([both[0], "nothing"]), [True, False])
    np.testing.assert_array_equal(model.known_users([0, "nobody"]), [True, False])


def test_callbacks_must_be_callable(ratings):
    with pytest.raises(SettingsError, match="a callback must be a function"):
        OrdinalBM().fit(ratings, callbacks=[3])


@pytest.mark.parametrize("make", [list, np.array, set, pd.Series, iter])
def test_candidates_of_any_kind(ratings, model, make):
    wanted = list(set(ratings.items) - rated_by(ratings, 0))[:3]
    assert {line.item for line in model.recommend(0, candidates=make(wanted))} == set(wanted)


def test_candidates_by_name(ratings, model):
    assert model.recommend(0, candidates="all") == model.recommend(0)
    similar = {line.item for line in model.recommend(0, 1000, candidates="similar_users")}
    assert similar <= set(ratings.items) - rated_by(ratings, 0)
    with pytest.raises(SettingsError, match="candidates='friends': use 'all', 'similar_users', "):
        model.recommend(0, candidates="friends")
    with pytest.raises(RatingsError, match="candidate 'z' is not an item of this model"):
        model.recommend(0, candidates=[1, "z"])
    with pytest.raises(SettingsError, match="needs a known user"):
        model.recommend(ratings={0: 5}, candidates="similar_users")


def test_similar_users_are_those_who_rate_alike():
    ratings = Ratings([*"aaabbbbccccd"], [*"xyzxyzpxyzqr"], [1, 3, 5, 1, 2, 4, 5, 5, 3, 1, 5, 5])
    model = OrdinalBM(**TINY).fit(ratings)
    lines = model.recommend("a", candidates="similar_users")
    assert [line.item for line in lines] == ["p"]  # b rates like a, c the other way, d apart
    assert model.recommend("d", candidates="similar_users") == []


def test_what_recommend_cannot_do(model):
    with pytest.raises(SettingsError, match="say either who it is for, user=…, or what they rated"):
        model.recommend()
    with pytest.raises(SettingsError, match=r"for one user: use recommend_all\(users\)"):
        model.recommend([0, 1])
    with pytest.raises(SettingsError, match="by='stars' is not known: use energy, liked, "):
        model.recommend(0, by="stars")
    for ask in (model.recommend, lambda _, n: model.recommend_lists(n=n)):
        with pytest.raises(SettingsError, match="n=-1: must be a whole number"):
            ask(0, n=-1)
    with pytest.raises(RatingsError, match=r"user 'x' has no ratings.*recommend\(ratings=…\)"):
        model.recommend_lists([0, "x"])


def test_somebody_who_has_rated_everything():
    ratings = Ratings(["a", "a", "b"], ["x", "y", "x"], [1, 2, 3])
    model = OrdinalBM(**TINY).fit(ratings)
    assert model.recommend("a") == []
    assert model.recommend_lists()["a"] == []


# Representations


def test_factors(model):
    users = model.user_factors(["x", 3, 0])
    assert users.shape == (3, 2 * 3)  # two machines' side by side
    assert ((users > 0) & (users < 1)).all()
    np.testing.assert_array_equal(users[1], model.user_factors()[model._state.users.codes([3])[0]])
    biases = [machine.user_side.unknown_hidden_bias[:3] for machine in model.machines]
    prior = 1 / (1 + np.exp(-np.concatenate(biases)))
    np.testing.assert_allclose(users[0], prior, rtol=1e-6)
    assert model.item_factors(0).shape == (1, 2 * 3)


# Quality, as a band


def test_real_ratings_are_predicted_better_than_by_item_averages():
    ratings = filter_items(ordbm.load_dataset(), 60)
    train, test = ordbm.hold_out(ratings, 0.2)
    model = OrdinalBM(hidden=10, item_links=20, epochs=10, members=2).fit(train)
    users = [test.users[u] for u in test.user_codes]
    items = [test.items[i] for i in test.item_codes]
    found = validation_scores(model.distribution(users, items), test)
    counts = np.zeros((ratings.n_items, 10))
    np.add.at(counts, (train.item_codes, train.levels), 1.0)
    share = counts.sum(axis=0) / counts.sum()
    proba = counts + 5 * share
    proba /= proba.sum(axis=1, keepdims=True)
    averages = -np.log(proba[test.item_codes, test.levels]).mean()
    assert found["log_loss"] < averages - 0.1
    assert found["rmse"] < 0.9


def test_scale_that_is_given_is_kept():
    scale = RatingScale([1, 2, 3, 4, 5])
    model = OrdinalBM(**TINY).fit(Ratings(["a", "b"], ["x", "x"], [2, 3], scale=scale))
    assert model.scale == scale
    assert model.predict_proba("a", "x").shape == (1, 5)
