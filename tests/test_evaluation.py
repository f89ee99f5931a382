"""`evaluate` and `cross_validate`: plain recomputation, no leaks, strangers, scales, faults."""

from __future__ import annotations

import cProfile
import json
import time

import numpy as np
import pytest

import ordbm
from ordbm.baselines import LevelFrequencies
from ordbm.data.scale import ContinuousScale, RatingScale
from ordbm.errors import NotFittedError, OrdbmError, RatingsError, SettingsError
from ordbm.evaluation import compare, list_hits, rating_losses, train_and_test
from ordbm.inference.distributions import LevelDistribution, NormalDistribution
from ordbm.recommend.criteria import least_relevant

SCALE = RatingScale([1, 2, 3, 4, 5])


def some_ratings(n_users=40, n_items=30, share=0.5, seed=0, scale=None):
    """Ratings in which users and items differ, with ids of text."""
    random = np.random.default_rng(seed)
    user, item = np.nonzero(random.random((n_users, n_items)) < share)
    liking = random.normal(size=n_users)[user] + random.normal(size=n_items)[item]
    value = np.clip(np.round(3 + liking + 0.5 * random.normal(size=len(user))), 1, 5)
    return ordbm.Ratings([f"u{u}" for u in user], [f"i{i}" for i in item], value, scale or SCALE)


def machine(**told):
    return ordbm.OrdinalBM(**{"epochs": 2, "hidden": 4, "members": 2, "item_links": 5, **told})


class Fixed:
    """A model that answers what it is told: probabilities of all pairs, and lists by user."""

    def __init__(self, proba=(0.1, 0.1, 0.2, 0.3, 0.3), lists=None, scale=SCALE):
        self.proba, self.lists, self.scale = proba, lists or {}, scale

    def distribution(self, users, items):
        assert len(users) == len(items)
        return LevelDistribution(self.scale, np.tile(self.proba, (len(users), 1)))

    def recommend_lists(self, users, n):
        return {
            user: [(item, -place) for place, item in enumerate(self.lists[user][:n])]
            for user in users
            if user in self.lists
        }


class Normal:
    """A model that predicts one normal distribution."""

    def distribution(self, users, items):
        n = len(items)
        assert len(users) == n
        return NormalDistribution(ContinuousScale(0.0, 1.0), np.zeros(n), np.ones(n))


@pytest.fixture(scope="module")
def held_out():
    return ordbm.hold_out(some_ratings(), 0.25, seed=1)


@pytest.fixture(scope="module")
def fitted(held_out):
    return machine().fit(held_out[0])


@pytest.fixture(scope="module")
def evaluation(fitted, held_out):
    return ordbm.evaluate(fitted, held_out[1], lists=(3, 8), by="mean", bootstrap=200)


def test_scores_equal_a_plain_recomputation(evaluation, fitted, held_out):
    frame = held_out[1].to_frame("pandas")
    proba = fitted.predict_proba(frame["user"], frame["item"])
    values = np.arange(1, 6)
    truth = frame["rating"].to_numpy()
    errors = {
        "mae_mean": np.abs(proba @ values - truth),
        "mae_median": np.abs(1 + (np.cumsum(proba, axis=1) < 0.5).sum(axis=1) - truth),
        "mae_mode": np.abs(1 + proba.argmax(axis=1) - truth),
        "rmse": (proba @ values - truth) ** 2,
        "log_loss": -np.log([row[int(value) - 1] for row, value in zip(proba, truth, strict=True)]),
        "rps": (
            (np.cumsum(proba, axis=1)[:, :-1] - (truth[:, None] <= values[:-1])) ** 2
        ).sum(axis=1),
    }  # fmt: skip
    for name, error in errors.items():
        by_user = frame.assign(error=error).groupby("user")["error"].mean()[evaluation.users]
        finish = np.sqrt if name == "rmse" else float
        assert evaluation.scores[name] == pytest.approx(finish(error.mean())), name
        np.testing.assert_allclose(
            evaluation.per_user[name], [finish(value) for value in by_user], err_msg=name
        )
    assert evaluation.n_ratings == len(frame)
    assert evaluation.n_users == frame["user"].nunique()


def test_ranking_scores_equal_a_plain_recomputation(evaluation, fitted, held_out):
    frame = held_out[1].to_frame("pandas")
    found = {name: [] for name in ("precision", "recall", "ndcg", "mrr", "utility", "best")}
    for user in evaluation.users:
        mine = frame[frame["user"] == user]
        relevant = set(mine["item"][mine["rating"] >= 4])
        if not relevant:
            continue
        listed = [item for item, _ in fitted.recommend_lists([user], 8, by="mean")[user]]
        hits = [item in relevant for item in listed]
        found["precision"].append(sum(hits[:3]) / 3)
        found["recall"].append(sum(hits[:3]) / len(relevant))
        gain = sum(hit / np.log2(place + 2) for place, hit in enumerate(hits[:3]))
        ideal = sum(1 / np.log2(place + 2) for place in range(min(3, len(relevant))))
        found["ndcg"].append(gain / ideal)
        found["mrr"].append(1 / (1 + hits.index(True)) if any(hits) else 0)
        found["utility"].append(sum(hit * 2 ** (-place / 4) for place, hit in enumerate(hits)))
        found["best"].append(sum(2 ** (-place / 4) for place in range(len(relevant))))
    for name in ("precision", "recall", "ndcg"):
        assert evaluation.scores[f"{name}@3"] == pytest.approx(np.mean(found[name]))
    assert evaluation.scores["mrr"] == pytest.approx(np.mean(found["mrr"]))
    expected = 100 * sum(found["utility"]) / sum(found["best"])
    assert evaluation.scores["half_life_utility"] == pytest.approx(expected)
    assert 0 < expected < 100
    n_left_out = int(np.isnan(evaluation.per_user["mrr"]).sum())
    assert evaluation.unranked == {"without_relevant": n_left_out, "unknown": 0}
    assert len(found["mrr"]) + n_left_out == evaluation.n_users


def test_reliability_has_a_curve_for_every_threshold(evaluation):
    assert [curve.threshold for curve in evaluation.reliability] == [2, 3, 4, 5]
    assert all(curve.count.sum() == evaluation.n_ratings for curve in evaluation.reliability)
    mean = np.mean([curve.error for curve in evaluation.reliability])
    assert evaluation.scores["calibration_error"] == pytest.approx(mean)


def test_scores_lie_in_their_intervals(evaluation):
    assert set(evaluation.intervals) == set(evaluation.scores) - {"calibration_error"}
    for name, (low, high) in evaluation.intervals.items():
        assert low < evaluation.scores[name] < high, name


def test_scores_are_weighted_means_of_the_users_values(evaluation):
    for name, values in evaluation.per_user.items():
        weight = evaluation.weights[name]
        power = 2 if name == "rmse" else 1
        total = np.nansum(np.where(weight > 0, values, np.nan) ** power * weight)
        assert evaluation.scores[name] == pytest.approx((total / weight.sum()) ** (1 / power))


def test_what_is_tested_on_cannot_change_what_is_predicted(fitted, held_out):
    """A model sees ids alone: other test ratings give other scores of the same predictions."""
    asked = []

    class Spy:
        def distribution(self, users, items):
            found = fitted.distribution(users, items)
            asked.append((users, items, found.proba.copy()))
            return found

        def recommend_lists(self, users, n):
            asked.append((users, n, fitted.recommend_lists(users, n)))
            return asked[-1][-1]

    frame = held_out[1].to_frame("pandas")
    test, other = (
        ordbm.Ratings(frame["user"], frame["item"], values, SCALE)
        for values in (frame["rating"], 6 - frame["rating"])
    )
    found = [
        ordbm.evaluate(Spy(), ratings, lists=5, relevant=1, bootstrap=0)
        for ratings in (test, other)
    ]
    assert found[0].scores["rmse"] != found[1].scores["rmse"]
    first, again = asked[:2], asked[2:]
    assert first[0][:2] == again[0][:2]
    np.testing.assert_array_equal(first[0][2], again[0][2])
    assert first[1] == again[1]


@pytest.mark.parametrize("validation", [0.0, 0.3])
def test_folds_are_learnt_from_the_other_folds_alone(validation):
    """Each fold's fit is given neither a test rating nor one that is held out for validation."""
    data = some_ratings(20, 20)
    fits, asked = [], []

    def pairs(ratings):
        return set(zip(ratings.user_codes.tolist(), ratings.item_codes.tolist(), strict=True))

    class Spy(Fixed):
        def clone(self):
            return Spy()

        def fit(self, train, validation=None):
            fits.append((self, pairs(train), pairs(validation) if validation else set()))

        def distribution(self, users, items):
            codes = data.users.codes(users), data.items.codes(items)
            asked.append((self, set(zip(*(code.tolist() for code in codes), strict=True))))
            return super().distribution(users, items)

    spy = Spy()
    found = ordbm.cross_validate(spy, data, 4, validation=validation, bootstrap=0)
    assert len(found.evaluations) == len(fits) == len(asked) == 4
    assert len({id(model) for model, *_ in fits} | {id(spy)}) == 5
    for (model, train, held), (same, test) in zip(fits, asked, strict=True):
        assert model is same
        assert not train & test
        assert not held & test
        assert not held & train
        assert train | held | test == pairs(data)
        assert len(held) == pytest.approx(validation * len(train | held), abs=10)
    assert set().union(*(test for _, test in asked)) == pairs(data)


def test_cross_validation_is_fits_on_folds(held_out):
    data = held_out[1]
    model = machine()
    told = []
    found = ordbm.cross_validate(
        model, data, 3, seed=5, lists=4, bootstrap=0, progress=lambda *news: told.append(news)
    )
    by_hand = [
        ordbm.evaluate(machine().fit(train), test, lists=4, bootstrap=0)
        for train, test in ordbm.k_fold(data, 3, seed=5)
    ]
    assert [fold.scores for fold in found.evaluations] == [fold.scores for fold in by_hand]
    for name, score in found.scores.items():
        values = [fold.scores[name] for fold in by_hand]
        assert score == pytest.approx(np.mean(values))
        assert found.standard_errors[name] == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
    assert told == [(done + 1, 3, fold) for done, fold in enumerate(found.evaluations)]
    assert all(set(fold.seconds) == {"fit", "predict", "rank"} for fold in found.evaluations)
    assert "±" in repr(found)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["folds"] == 3
    with pytest.raises(NotFittedError):
        model.predict("u1", "i1")


def test_training_with_validation_keeps_its_history(held_out):
    train, test = held_out
    epochs = []
    found = train_and_test(
        machine(epochs=3), train, test, validation=0.2, callbacks=epochs.append, bootstrap=0
    )
    assert [record.epoch for record in found.history] == [record.epoch for record in epochs]
    assert all(record.validation for record in found.history)
    assert len(found.to_dict()["history"]) == len(epochs)


def test_a_fit_that_was_interrupted_is_not_scored():
    class Interrupted(Fixed):
        interrupted = True

        def fit(self, ratings):
            pass

    train, test = ordbm.hold_out(some_ratings(5, 5), 0.5)
    with pytest.raises(KeyboardInterrupt):
        train_and_test(Interrupted(), train, test)


def test_strangers_are_counted_and_left_out_of_ranking(fitted):
    users = ["u1", "u1", "u1", "nobody", "u2"]
    test = ordbm.Ratings(users, ["i1", "nothing", "none", "i1", "i3"], [5, 5, 5, 5, 1], SCALE)
    found = ordbm.evaluate(fitted, test, lists=5)
    assert found.unknown == {"users": 1, "items": 2}
    assert found.unranked == {"without_relevant": 1, "unknown": 1}
    assert np.isfinite(list(found.scores.values())).all()
    assert np.isfinite(found.per_user["rmse"]).all()
    assert np.isnan(found.per_user["mrr"]).tolist() == [False, True, True]
    assert found.users == ["u1", "nobody", "u2"]


def test_baselines_say_whom_they_know_as_machines_do(held_out):
    from ordbm import baselines

    train, _ = held_out
    test = ordbm.Ratings(["u1", "nobody"], ["i1", "nothing"], [5, 5], SCALE)
    found = ordbm.evaluate(baselines.Popularity().fit(train), test, lists=5)
    assert found.unknown == {"users": 1, "items": 1}
    assert found.unranked["unknown"] == 1


def test_a_model_may_say_whom_it_knows():
    class Knowing(Fixed):
        def known_users(self, users):
            return [user == "a" for user in users]

        def known_items(self, items):
            return [True for _ in items]

        def recommend_lists(self, users, n):
            assert users == ["a"]
            return super().recommend_lists(users, n)

    test = ordbm.Ratings(["a", "b", "b"], ["x", "x", "y"], [5, 5, 5], SCALE)
    found = ordbm.evaluate(Knowing(lists={"a": ["x"]}), test, lists=1)
    assert found.unknown == {"users": 2, "items": 0}
    assert found.unranked == {"without_relevant": 0, "unknown": 1}
    assert found.scores["precision@1"] == 1


def test_a_list_by_hand():
    """Lists x y z of w x y z: relevant (4 or more) are x and z of a, and y of b."""
    test = ordbm.Ratings(
        ["a", "a", "a", "b", "c", "d"], ["x", "y", "z", "y", "w", "x"], [4, 3, 5, 5, 1, 5], SCALE
    )
    model = Fixed(lists={user: ["x", "not in test", "y", "z"] for user in "abc"})
    found = ordbm.evaluate(model, test, lists=[3, 1])
    assert found.scores["precision@1"] == pytest.approx(1 / 2)
    assert found.scores["recall@3"] == pytest.approx((1 / 2 + 1) / 2)
    assert found.scores["mrr"] == pytest.approx((1 + 1 / 3) / 2)
    assert found.unranked == {"without_relevant": 1, "unknown": 1}  # c; and d has no list
    assert found.unknown == {}
    empty = ordbm.evaluate(Fixed(lists={"a": [], "b": []}), test, lists=3)
    assert empty.scores["recall@3"] == empty.scores["half_life_utility"] == 0
    every = ordbm.evaluate(model, test, lists=3, relevant=1)
    assert every.scores["recall@3"] == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert every.unranked == {"without_relevant": 0, "unknown": 1}


@pytest.mark.parametrize(
    ("scale", "relevant", "least"),
    [
        (RatingScale([1, 2, 3, 4, 5]), None, 4),
        (RatingScale(np.arange(1, 11) / 2), None, 4),
        (RatingScale(range(11)), None, 8),
        (RatingScale([0, 1]), None, 1),
        (RatingScale([3]), None, 3),
        (RatingScale([1, 2, 3, 4, 5]), 3, 3),
        (RatingScale(["poor", "fair", "good"]), None, 3),
        (RatingScale(["poor", "fair", "good"]), "fair", 2),
    ],
)
def test_what_is_relevant(scale, relevant, least):
    found = least_relevant(scale, relevant)
    assert scale.values[scale.values >= found][0] == least


def test_labelled_scales():
    labels = ["poor", "fair", "good"]
    test = ordbm.Ratings(["a", "a", "b"], ["x", "y", "x"], ["good", "fair", "poor"], labels)
    model = Fixed((0.2, 0.3, 0.5), {"a": ["y", "x"], "b": ["x"]}, RatingScale(labels))
    found = ordbm.evaluate(model, test, lists=1, relevant="good")
    assert [curve.label for curve in found.reliability] == ["fair", "good"]
    assert found.scores["log_loss"] == pytest.approx(-np.log([0.5, 0.3, 0.2]).mean())
    assert found.scores["precision@1"] == 0
    assert ordbm.evaluate(model, test, lists=1, relevant="fair").scores["precision@1"] == 1


def test_continuous_scales():
    random = np.random.default_rng(0)
    user, item = np.divmod(np.arange(400), 20)
    values = random.normal(size=400)
    test = ordbm.Ratings(user, item, values, "continuous")
    found = ordbm.evaluate(Normal(), test, bootstrap=0)
    assert found.scores["rmse"] == pytest.approx(np.sqrt(np.mean(values**2)))
    assert found.scores["mae_mode"] == pytest.approx(np.abs(values).mean())
    assert found.scores["calibration_error"] < 0.05
    assert len(found.reliability) == 5
    train, test = ordbm.hold_out(test)
    fitted = machine(hidden=2).fit(train)
    found = ordbm.evaluate(fitted, test, lists=5, by="mean")
    assert found.scores["rmse"] == pytest.approx(
        np.sqrt(np.mean((fitted.predict(*_columns(test)) - test.values) ** 2))
    )
    assert 0 < found.scores["recall@5"] <= 1


def _columns(test):
    frame = test.to_frame("pandas")
    return frame["user"], frame["item"]


def test_test_ratings_may_have_found_a_narrower_scale(fitted, held_out):
    frame = held_out[1].to_frame("pandas").query("rating >= 4")
    found, again = (
        ordbm.evaluate(fitted, ordbm.Ratings(frame["user"], frame["item"], frame["rating"], scale))
        for scale in (None, SCALE)
    )
    assert found.scores == again.scores


def test_parts_of_the_ratings_give_the_whole(fitted, held_out, evaluation, monkeypatch):
    monkeypatch.setattr(rating_losses, "_CELLS_AT_ONCE", 35)
    monkeypatch.setattr(list_hits, "_USERS_AT_ONCE", 7)
    found = ordbm.evaluate(fitted, held_out[1], lists=(3, 8), by="mean", bootstrap=200)
    assert found.scores == pytest.approx(evaluation.scores)
    assert found.unranked == evaluation.unranked


def test_one_user_and_one_level_have_scores_but_no_intervals():
    test = ordbm.Ratings(["a"], ["x"], [3], scale=[3])
    found = ordbm.evaluate(Fixed((1.0,), scale=RatingScale([3])), test)
    assert found.intervals == {}
    assert found.reliability == []
    assert set(found.scores.values()) == {0.0}


def test_compare_is_paired(held_out, evaluation, fitted):
    test = held_out[1]
    other = ordbm.evaluate(Fixed(), test, name="fixed")
    found = compare(evaluation, other)
    assert set(found) == {"mae_mean", "mae_median", "mae_mode", "rmse", "log_loss", "rps"}
    for name, difference in found.items():
        expected = evaluation.scores[name] - other.scores[name]
        assert difference.difference == pytest.approx(expected)
        assert difference.low < expected < difference.high
    assert found["rmse"].high < 0  # the machine is surely better than a constant
    assert compare(evaluation, evaluation)["half_life_utility"].high == 0
    shorter = ordbm.evaluate(fitted, test, lists=3, by="mean")
    assert "ndcg@3" in compare(evaluation, shorter)
    assert "mrr" not in compare(evaluation, shorter)  # of lists of 8 and of 3
    with pytest.raises(RatingsError, match="same test ratings"):
        compare(evaluation, ordbm.evaluate(Fixed(), test.select(np.arange(50))))


def test_results_as_json_and_in_words(evaluation):
    found = json.loads(json.dumps(evaluation.to_dict(), allow_nan=False))
    assert found["scores"] == evaluation.scores
    assert found["intervals"]["rmse"] == list(evaluation.intervals["rmse"])
    assert found["reliability"][0]["count"] == evaluation.reliability[0].count.tolist()
    assert found["unranked"] == evaluation.unranked
    assert "users" not in found
    assert f"{evaluation.scores['rmse']:.4f}" in repr(evaluation)
    assert repr(evaluation).startswith("OrdinalBM(")


def test_ids_of_any_kind_reach_the_model_as_they_are():
    ids = [(1, 2), (3, 4), (5, 6)]  # NumPy would make a table of them
    found = []

    class Spy(Fixed):
        def distribution(self, users, items):
            found.extend([users, items])
            return super().distribution(users, items)

    ordbm.evaluate(Spy(), ordbm.Ratings(ids, ids, [1, 2, 3], SCALE))
    assert found == [ids, ids]


def test_single_users_as_json():
    ids = [("tuple", 1), 2**60, "text", b"bytes", float("inf")]
    test = ordbm.Ratings(ids, ids, [1, 2, 3, 4, 5], SCALE)
    found = ordbm.evaluate(Fixed(lists={user: ["x"] for user in ids}), test, lists=1, name="fixed")
    read = json.loads(json.dumps(found.to_dict(per_user=True), allow_nan=False))
    assert read["users"] == ["('tuple', 1)", 2**60, "text", "b'bytes'", "inf"]
    assert read["per_user"]["mrr"] == [None, None, None, 0, 0]
    assert read["model"] == "fixed"


def test_figures_are_worked_out_for_all_users_at_once():
    """33 test ratings and a list of 100 of each user: few calls a user, none a figure."""

    def calls(n_users):
        random = np.random.default_rng(0)
        users, size = np.repeat(np.arange(n_users), 33), 33 * n_users
        test = ordbm.Ratings(
            users, random.integers(3_000, size=size), random.integers(1, 6, size), SCALE
        )
        lists = {user: random.permutation(3_000)[:100].tolist() for user in range(n_users)}
        profile = cProfile.Profile()
        found = profile.runcall(ordbm.evaluate, Fixed(lists=lists), test, lists=(10, 100))
        assert found.scores["recall@100"] == pytest.approx(1 / 30, rel=0.1)
        return sum(one.callcount for one in profile.getstats())

    assert calls(2_000) - calls(1_000) < 20 * 1_000


def test_a_model_without_words_is_called_by_its_class():
    test = some_ratings(3, 5)
    assert ordbm.evaluate(Fixed(), test, bootstrap=0).model == "Fixed"


class Doubled(Fixed):
    def recommend_lists(self, users, n):
        return {user: [("i1", 1.0), ("i1", 0.5)][:n] for user in users}


TEST = ordbm.Ratings(["a", "b"], ["i1", "i1"], [5, 4], SCALE)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: ordbm.evaluate(TEST, Fixed()), "need ratings, got Fixed"),
        (lambda: ordbm.evaluate(Fixed(), TEST.select([])), "no test ratings"),
        (lambda: ordbm.evaluate(object(), TEST), r"needs a model with distribution\(\): object"),
        (lambda: ordbm.evaluate(Normal(), TEST, lists=5), r"ranking needs .*recommend_lists\(\)"),
        (lambda: ordbm.evaluate(ordbm.OrdinalBM(), TEST), "has not been fitted"),
        (lambda: ordbm.evaluate(Fixed(), TEST, lists=0), "lists=0"),
        (lambda: ordbm.evaluate(Fixed(), TEST, lists=[]), r"lists=\[\]"),
        (lambda: ordbm.evaluate(Fixed(), TEST, lists=["10"]), "lists='10'"),
        (lambda: ordbm.evaluate(Fixed(), TEST, lists="10"), "lists='10'"),
        (lambda: ordbm.evaluate(Fixed(), TEST, lists=2.5), "lists=2.5"),
        (lambda: ordbm.evaluate(Fixed(), TEST, lists=5, relevant=6), "no test rating is 6 or"),
        (lambda: ordbm.evaluate(Fixed(), TEST, lists=5, relevant="good"), "relevant='good'"),
        (lambda: ordbm.evaluate(Fixed(), TEST, lists=5, relevant=np.nan), "relevant=nan"),
        (lambda: ordbm.evaluate(Fixed(), TEST, lists=5), "knows none of the users"),
        (lambda: ordbm.evaluate(Fixed(), TEST, lists=5, by="mean"), "by='mean': Fixed ranks"),
        (lambda: ordbm.evaluate(Doubled(), TEST, lists=5), "an item twice"),
        (lambda: ordbm.evaluate(Fixed(), TEST, bootstrap=-1), "bootstrap=-1"),
        (lambda: ordbm.evaluate(Fixed(), TEST, seed="a"), "seed='a'"),
        (lambda: ordbm.evaluate(Fixed((np.nan,) * 5), TEST), "probabilities must be finite"),
        (lambda: ordbm.evaluate(Fixed((0.5,) * 5), TEST), "must sum to one"),
        (
            lambda: ordbm.evaluate(Fixed((0.5, 0.5), scale=RatingScale([1, 2])), TEST),
            r"off the scale.*row 0 \(user 'a', item 'i1'",
        ),
        (
            lambda: ordbm.evaluate(Normal(), ordbm.Ratings(["a"], ["x"], ["lo"], ["lo", "hi"])),
            "give both the same scale",
        ),
        (lambda: ordbm.cross_validate(Fixed(), TEST, 2), r"needs a model with clone\(\)"),
        (lambda: ordbm.cross_validate(machine(), [1, 2]), "a list of int is not ratings"),
        (lambda: ordbm.cross_validate(machine(), TEST, 1), "folds=1"),
        (lambda: ordbm.cross_validate(machine(), TEST, 2, validation=2), "fraction must be"),
    ],
)
def test_faults_are_named(ask, message):
    with pytest.raises(OrdbmError, match=message):
        ask()


def test_what_cannot_learn_is_refused_before_anything_is_read():
    with pytest.raises(SettingsError, match=r"training needs a model with fit\(\): str has none"):
        train_and_test("a model", None, None)


def test_prediction_takes_no_longer_than_the_evaluation_of_it():
    ratings = ordbm.Ratings([1, 1, 2, 2], [1, 2, 1, 3], [1, 2, 3, 3], scale=[1, 2, 3])
    model = LevelFrequencies().fit(ratings)
    started = time.perf_counter()
    found = ordbm.evaluate(model, ratings, bootstrap=0)
    assert 0 < found.seconds["predict"] < time.perf_counter() - started
