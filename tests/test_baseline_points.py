"""Point predictors: the spread around a point, nearest neighbours, and the SVD."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.stats import norm

import ordbm
from ordbm.baselines import SVD, Bias, ItemKNN, UserKNN
from ordbm.baselines.bias import bias_points
from ordbm.baselines.spread import MARGIN, learnt_spread, shape_loss, tilted_proba
from ordbm.baselines.svd import factor_pass, new_factors
from ordbm.data.scale import RatingScale
from ordbm.errors import CostError, DivergedError, SettingsError
from ordbm.inference.distributions import NormalDistribution
from ordbm.metrics.prediction import validation_scores
from ordbm.model.neighbours import correlation_links

HALVES = np.arange(1, 11) / 2


def rated(values, scale):
    """Ratings 0, 1, … of users 0, 1, … with these values."""
    number = np.arange(len(values))
    return ordbm.Ratings(number, number, values, scale)


def random_ratings(n_users=25, n_items=18, share=0.5, seed=0, scale="continuous", noise=0.0):
    rng = np.random.default_rng(seed)
    table = 3 + rng.normal(size=(n_users, 1)) + rng.normal(size=n_items)
    table += rng.normal(size=(n_users, 2)) @ rng.normal(size=(2, n_items))
    users, items = np.nonzero(rng.random(table.shape) < share)
    values = table[users, items] + noise * rng.normal(size=len(users))
    if scale != "continuous":
        values = np.clip(np.rint(values), scale[0], scale[-1])
    return ordbm.Ratings(users, items, values, scale)


def every_pair(ratings):
    pairs = np.indices((ratings.n_users, ratings.n_items)).reshape(2, -1)
    users, items = np.array(ratings.users.ids)[pairs[0]], np.array(ratings.items.ids)[pairs[1]]
    return users, items


# The spread around a point


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=6), st.floats(0.02, 0.98))
def test_tilting_gives_the_mean_asked_for(b, share):
    values = np.cumsum(np.arange(1.0, len(b) + 1))  # unequal steps
    mean = values[0] + share * (values[-1] - values[0])
    proba, log_proba = tilted_proba(np.array(b), values, np.array([mean]))
    assert proba.sum() == pytest.approx(1.0)
    assert proba[0] @ values == pytest.approx(mean, rel=1e-9)
    # Of the family: log-odds against b are straight lines in the levels' numbers.
    slope = np.diff(log_proba[0] - b) / np.diff(values)
    np.testing.assert_allclose(slope, slope[0], atol=1e-6 * (1 + abs(slope[0])))


def test_tilting_to_a_mean_between_levels_that_are_close():
    values, mean = np.array([1.0, 1.01, 5.0]), 1.0001
    proba, _ = tilted_proba(np.zeros(3), values, np.array([mean]))
    assert proba[0] @ values == pytest.approx(mean, rel=1e-12)


def test_gradient_of_the_shape():
    rng = np.random.default_rng(0)
    values, means = np.array([1.0, 2.0, 3.5, 4.0]), np.array([1.2, 2.0, 3.7])
    count, prior, b = rng.uniform(0, 9, (3, 4)), rng.normal(size=4), rng.normal(size=4)
    rest = values, means, count, prior
    expected = approx_fprime(b, lambda x: shape_loss(x, *rest)[0], 1e-7)
    np.testing.assert_allclose(shape_loss(b, *rest)[1], expected, rtol=1e-4, atol=1e-4)


def test_a_normal_shape_is_learnt_from_normal_residuals():
    rng = np.random.default_rng(0)
    scale = RatingScale(HALVES)
    points = rng.uniform(1.5, 4, 20_000)
    left_out = rated(HALVES[scale.nearest(points + 0.6 * rng.normal(size=len(points)))], scale)
    spread = learnt_spread(scale, points, left_out)
    found = spread.around(np.array([2.75, 3.0]))
    edges = np.concatenate([[-np.inf], HALVES[:-1] + 0.25, [np.inf]])
    expected = np.diff(norm.cdf((edges - np.array([[2.75], [3.0]])) / 0.6), axis=1)
    np.testing.assert_allclose(found.proba, expected, atol=0.01)
    np.testing.assert_allclose(spread.deviation, np.hypot(0.6, 0.5 / np.sqrt(12)), rtol=0.02)


def test_rare_levels_stay_rare():
    """Where only whole stars are given, half stars have next to no mass, whatever the point."""
    rng = np.random.default_rng(1)
    points = rng.uniform(1, 5, 5_000)
    values = np.clip(np.rint(points + 0.8 * rng.normal(size=len(points))), 1, 5)
    spread = learnt_spread(RatingScale(HALVES), points, rated(values, HALVES))
    found = spread.around(np.linspace(1.5, 5, 8))
    assert found.proba[:, ::2].sum(axis=1).max() < 0.02
    np.testing.assert_allclose(found.mean(), np.linspace(1.5, 5, 8).clip(0.5, 5 - 0.045))


UNEVEN = learnt_spread(
    RatingScale([1, 2, 4, 8]), np.array([2.0, 7.0]), rated([2.0, 4.0], [1, 2, 4, 8])
)


@given(st.floats(-1e3, 1e3))
def test_the_mean_is_the_point_clipped_to_the_scale(point):
    low, high = 1 + 7 * MARGIN, 8 - 7 * MARGIN
    found = UNEVEN.around(np.array([point]))
    assert found.mean()[0] == pytest.approx(np.clip(point, low, high), rel=1e-9)
    assert (found.proba > 0).all()


def test_spread_on_a_continuous_scale():
    rng = np.random.default_rng(2)
    values = rng.normal(0, 10, 4_000)
    left_out = rated(values, "continuous")
    spread = learnt_spread(left_out.scale, values + 3 * rng.normal(size=4_000), left_out)
    found = spread.around(np.array([-1e3, 0.0]))
    assert isinstance(found, NormalDistribution)
    np.testing.assert_array_equal(found.mean(), [-1e3, 0.0])
    np.testing.assert_allclose(found.deviation(), 3.0, rtol=0.05)


def test_spread_is_that_of_ratings_left_out():
    """Without damping biases fit their own ratings too well; the spread must not."""
    users, items = map(np.ravel, np.indices((60, 60)))
    keep = np.random.default_rng(0).random(3600) < 0.1
    values = np.random.default_rng(1).normal(size=keep.sum())
    ratings = ordbm.Ratings(users[keep], items[keep], values, "continuous")
    found = Bias(damping=0).fit(ratings).distribution(users[keep], items[keep])
    own = np.sqrt(np.mean((values - found.mean()) ** 2))
    assert own < 0.9 * values.std()
    assert found.deviation()[0] > 1.05 * values.std()


# Nearest neighbours


def slow_neighbours(ratings, k, shrinkage, min_support, damping):
    """ItemKNN's predictions of all pairs, (users, items), straight from the formulas."""
    table = np.full((ratings.n_users, ratings.n_items), np.nan)
    table[ratings.user_codes, ratings.item_codes] = ratings.values
    overall = np.nanmean(table)
    count = (~np.isnan(table)).sum(axis=0)
    centre = overall + np.nansum(table - overall, axis=0) / (count + damping)
    similarity = np.zeros((ratings.n_items, ratings.n_items))
    for i, j in np.ndindex(similarity.shape):
        both = ~np.isnan(table[:, i] + table[:, j])
        if i != j and both.sum() >= min_support:
            r = np.corrcoef(table[both, i], table[both, j])[0, 1]
            similarity[i, j] = r * both.sum() / (both.sum() + shrinkage)
    bias = bias_points(ratings, damping)
    found = bias.of_all_items(np.arange(ratings.n_users))
    for u, i in np.ndindex(table.shape):
        near = np.flatnonzero(~np.isnan(table[u]) & (similarity[i] > 0))
        near = near[np.argsort(-similarity[i, near])][:k]
        if len(near):
            weight = similarity[i, near]
            found[u, i] = centre[i] + weight @ (table[u, near] - centre[near]) / weight.sum()
    return found


@pytest.mark.parametrize("share", [0.15, 0.5, 0.9])
def test_item_neighbours_by_a_plain_referee(share):
    ratings = random_ratings(share=share)
    rule = {"k": 4, "shrinkage": 5.0, "min_support": 4, "damping": 2.0}
    model = ItemKNN(pool=None, **rule).fit(ratings)
    expected = slow_neighbours(ratings, **rule)
    np.testing.assert_allclose(model.predict(*every_pair(ratings)), expected.ravel(), rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
def test_user_neighbours_are_item_neighbours_of_the_transpose(threads):
    ratings = random_ratings()
    swapped = ordbm.Ratings(
        np.array(ratings.items.ids)[ratings.item_codes],
        np.array(ratings.users.ids)[ratings.user_codes],
        ratings.values,
        "continuous",
    )
    rule = {"k": 5, "pool": 9, "threads": threads}
    users, items = every_pair(ratings)
    np.testing.assert_allclose(
        UserKNN(**rule).fit(ratings).predict(users, items),
        ItemKNN(**rule).fit(swapped).predict(items, users),
        rtol=1e-6,
    )


def test_neighbours_by_hand():
    table = np.array([[1.0, 2.0, 1.0], [2.0, 3.0, 3.0], [3.0, 4.0, 2.0], [2.0, 5.0, np.nan]])
    users, items = np.nonzero(~np.isnan(table))
    model = ItemKNN(shrinkage=0, damping=0, min_support=2)
    model.fit(ordbm.Ratings(users, items, table[users, items], "continuous"))
    # Items 0 and 2: deviations (-1, 0, 1) and (-1, 1, 0), so r = 1/2; 1 and 2 the same.
    # The last user is at 0 from the mean of item 0 (2) and at 1.5 from that of item 1 (3.5).
    assert model.predict(3, 2)[0] == pytest.approx(2 + (0.5 * 0 + 0.5 * 1.5) / 1)
    assert ItemKNN(k=1, shrinkage=0, damping=0, min_support=2).fit(
        ordbm.Ratings(users, items, table[users, items], "continuous")
    ).predict(3, 2)[0] == pytest.approx(2)  # equally near: the first item


def test_without_neighbours_the_bias_predicts():
    ratings = random_ratings(share=0.3)
    users, items = every_pair(ratings)
    for kind in (ItemKNN, UserKNN):
        alone = kind(min_support=1000, damping=3).fit(ratings)
        expected = Bias(damping=3).fit(ratings)
        np.testing.assert_allclose(alone.predict(users, items), expected.predict(users, items))
        np.testing.assert_allclose(alone.predict(-1, items), expected.predict(-1, items))
        np.testing.assert_allclose(alone.predict(users, -1), expected.predict(users, -1))


@pytest.mark.parametrize("scale", ["continuous", [1, 2, 3, 4, 5]])
def test_a_newcomers_neighbours_are_those_of_a_known_user(scale):
    ratings = random_ratings(share=0.7, scale=scale)
    rule = {"shrinkage": 3.0, "min_support": 3}
    points = UserKNN(pool=None, **rule).fit(ratings)._fitted.learnt.points
    by_user, by_item = ratings.by_user, ratings.by_item
    values = None if scale == "continuous" else np.array(scale, float)
    links = correlation_links(by_item, by_user, values, n_neighbours=100, **rule)
    for user in range(ratings.n_users):
        mine = slice(by_user.start[user], by_user.start[user + 1])
        new = points._links_to(by_user.column[mine], ratings.values[mine])
        found = dict(zip(new.neighbour.tolist(), new.similarity, strict=True))
        assert found.pop(user) > 0  # the user again
        known = slice(links.start[user], links.start[user + 1])
        expected = links.similarity[links.edge[known]]
        assert list(found) == links.neighbour[known].tolist()
        np.testing.assert_allclose(list(found.values()), expected, rtol=1e-5)


def test_neighbours_that_would_cost_too_much():
    with pytest.raises(CostError, match="the budget is 10"):
        ItemKNN(budget=10).fit(random_ratings())


# SVD


def test_steps_follow_the_gradient():
    ratings = random_ratings()
    points = new_factors(ratings, 3, 1, regularisation=0.3, biases=True, duration=1e-7)
    rng = np.random.default_rng(4)
    for bias in (points.user_bias, points.item_bias):
        bias[:-1] = rng.normal(size=len(bias) - 1)
    users, items = ratings.user_codes, ratings.item_codes
    target = (ratings.values - points.mean) / points.unit
    shapes = [array.shape for array in points.arrays]
    ends = np.cumsum([array.size for array in points.arrays])[:-1]

    def errors_and_loss(packed):
        parts = np.split(packed, ends)
        p, q, b, c = (part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
        errors = np.sum((target - b[users] - c[items] - (p[users] * q[items]).sum(axis=1)) ** 2)
        size = (p[users] ** 2).sum() + (q[items] ** 2).sum()
        size += (b[users] ** 2).sum() + (c[items] ** 2).sum()
        return errors, (errors + 0.3 * size) / 2

    before = np.concatenate([array.ravel() for array in points.arrays])
    errors = factor_pass(points, users, items, target, 1e-7, [0])
    after = np.concatenate([array.ravel() for array in points.arrays])
    assert errors == pytest.approx(errors_and_loss(before)[0], rel=1e-4)
    expected = approx_fprime(before, lambda packed: errors_and_loss(packed)[1], 1e-6)
    np.testing.assert_allclose((before - after) / 1e-7, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("biases", [True, False])
def test_svd_recovers_a_low_rank_matrix(biases):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 60))
    users, items = map(np.ravel, np.indices(table.shape))
    seen = rng.random(len(users)) < 0.4
    ratings = ordbm.Ratings(users[seen], items[seen], table.ravel()[seen], "continuous")
    model = SVD(rank=3, epochs=150, rate=0.05, regularisation=1e-4, biases=biases).fit(ratings)
    error = model.predict(users[~seen], items[~seen]) - table.ravel()[~seen]
    assert np.sqrt(np.mean(error**2)) < 0.05 * table.std()


def test_svd_of_rank_zero_without_biases_predicts_the_mean():
    ratings = random_ratings()
    model = SVD(rank=0, biases=False, epochs=2).fit(ratings)
    np.testing.assert_allclose(model.predict(*every_pair(ratings)), ratings.values.mean())


def test_a_newcomer_to_svd_gets_where_steps_on_their_ratings_lead():
    ratings = random_ratings()
    points = SVD(rank=3, epochs=30).fit(ratings)._fitted.learnt.points
    items, values = np.array([2, 5, 11], np.int32), np.array([1.0, 4.0, 5.0])
    target = (values - points.mean) / points.unit - points.item_bias[items]
    design = np.column_stack([points.item_factors[items], np.ones(3)])
    own = np.zeros(4)
    for _ in range(100_000):
        slope = design.T @ (target - design @ own) - 3 * 0.1 * own
        own += 30 * 0.01 / 100_000 * slope
    new = points.fold_in(items, values)
    np.testing.assert_allclose([*new.user_factors[0], new.user_bias[0]], own, rtol=1e-4)
    everything = np.arange(ratings.n_items)
    np.testing.assert_allclose(
        new.of_all_items(np.array([0, -1])),
        [new.at(np.full(ratings.n_items, user), everything) for user in (0, -1)],
    )
    assert (points.fold_in(items[:0], values[:0]).user_factors == 0).all()


def test_svd_does_not_depend_on_unit_or_origin():
    ratings = random_ratings()
    users, items = every_pair(ratings)
    rows = (
        np.array(ratings.users.ids)[ratings.user_codes],
        np.array(ratings.items.ids)[ratings.item_codes],
    )
    model = SVD(epochs=5).fit(ratings)
    moved = SVD(epochs=5).fit(ordbm.Ratings(*rows, 1e6 + 1e3 * ratings.values, "continuous"))
    np.testing.assert_allclose(
        moved.predict(users, items), 1e6 + 1e3 * model.predict(users, items), rtol=1e-9
    )


def test_svd_keeps_the_best_epoch():
    train, test = ordbm.hold_out(random_ratings(60, 40, 0.3, noise=1.0), 0.2)
    users, items = (np.array(ids.ids) for ids in (test.users, test.items))
    pairs = users[test.user_codes], items[test.item_codes]
    told = []
    model = SVD(epochs=60, rate=0.05, regularisation=0.0, patience=4)
    model.fit(train, validation=test, callbacks=told.append)
    assert model.history == told
    assert [record.epoch for record in told] == list(range(1, len(told) + 1))
    losses = [record.validation["log_loss"] for record in told]
    assert len(losses) < 60
    assert np.argmin(losses) == len(losses) - 1 - 4
    assert validation_scores(model.distribution(*pairs), test)["log_loss"] == pytest.approx(
        min(losses)
    )
    objective = [record.objective for record in told]
    assert objective == sorted(objective)
    whole = SVD(epochs=6).fit(train)
    part = SVD(epochs=60).fit(train, callbacks=lambda record: record.epoch == 6)
    np.testing.assert_array_equal(whole.predict(*pairs), part.predict(*pairs))


def test_svd_tells_when_it_diverges():
    with pytest.raises(DivergedError, match=r"diverged: lower rate \(10\.0\)"):
        SVD(rate=10.0).fit(random_ratings())


def test_seeds_matter_to_svd_a_little():
    ratings = random_ratings(80, 60)
    users, items = every_pair(ratings)
    one, two = (SVD(seed=seed).fit(ratings).predict(users, items) for seed in (0, 1))
    assert 0 < np.abs(one - two).mean() < 0.5
    with pytest.raises(SettingsError, match="biases='no'"):
        SVD(biases="no")


@pytest.mark.parametrize(
    ("name", "gain"), [("movielens-small", 0.003), ("ml-100k.zip", 0.015), ("filmtrust.zip", 0.003)]
)
def test_svd_beats_biases_as_it_comes(name, gain, data_file):
    source = ordbm.load_dataset(name) if "." not in name else ordbm.read_ratings(data_file(name))
    train, _ = ordbm.hold_out(source, 0.2, seed=0)  # what is held out here is never looked at
    train, held_out = ordbm.hold_out(train, 0.2, seed=5)
    bias, svd = (ordbm.evaluate(one.fit(train), held_out, bootstrap=0) for one in (Bias(), SVD()))
    assert svd.scores["rmse"] < bias.scores["rmse"] - gain
    assert svd.scores["log_loss"] < bias.scores["log_loss"]
