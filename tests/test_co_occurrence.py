"""Traits: singular vectors of who rated what, and couplings that follow them."""

import numpy as np
import pytest

import ordbm
import referee
from newcomers import machines_for
from ordbm.data.standardiser import machine_ratings
from ordbm.model.rules import EmbeddingRules
from ordbm.priors.co_occurrence import co_occurrence_embedding, fold_in_embedding
from ordbm.priors.fold_in_priors import FoldInPriors
from ordbm.priors.products import cross_product, table_product
from ordbm.priors.resolved import couplings_by_direction, expected_couplings, priors_of
from ordbm.training.alternation import Trainer

SMALL = {"hidden": (3, 4), "members": 1, "epochs": 4, "presence": False, "threads": 1}


def ratings_of_kinds(n_users=120, n_items=80, kinds=4, seed=0):
    """People who mostly rate items of their own kind, each by his own few ratings."""
    rng = np.random.default_rng(seed)
    user, item = [], []
    for u in range(n_users):
        near = np.where(np.arange(n_items) % kinds == u % kinds, 8.0, 1.0)
        item += rng.choice(n_items, 12, replace=False, p=near / near.sum()).tolist()
        user += [u] * 12
    return ordbm.Ratings(user, item, rng.integers(1, 6, len(user)), scale=[1, 2, 3, 4, 5])


FEW_WILL_DO = {"ratings_per_direction": 1}
EASY = EmbeddingRules(**FEW_WILL_DO)
FOLLOWING = {"learner": ordbm.PseudoLikelihood(embedding=EASY)}


def embedding(orientations, most, threads=1, sides=(True, True), **rules):
    """Of as many directions where ratings are few."""
    found = EmbeddingRules(**FEW_WILL_DO | rules)
    return co_occurrence_embedding(orientations, most, found, threads, sides=sides)


def whole_table(orientations):
    """Which pairs were rated, each weighed by one over the root of both counts."""
    rows = orientations.by_user
    table = np.zeros((rows.n_rows, orientations.by_item.n_rows))
    table[rows.row, rows.column] = 1.0
    counts = [np.maximum(table.sum(axis=axis), 1.0) for axis in (1, 0)]
    return table / np.sqrt(np.outer(*counts))


# What traits are


def test_they_are_the_first_singular_vectors_of_who_rated_what():
    orientations = machine_ratings(ratings_of_kinds(), None)
    found = embedding(orientations, 4)
    left, strength, right = np.linalg.svd(whole_table(orientations))
    assert strength[3] > 1.2 * strength[4]  # four kinds
    for own, expected in ((found.of_user, left[:, :4]), (found.of_item, right[:4].T)):
        np.testing.assert_allclose(own.T @ own, np.eye(4), atol=1e-12)
        # Singular vectors have no sign of their own: the space they span is compared.
        np.testing.assert_allclose(own @ own.T, expected @ expected.T, atol=1e-3)


def test_a_newcomers_traits_are_those_a_user_with_his_ratings_has():
    orientations = machine_ratings(ratings_of_kinds(), None)
    found, rows = embedding(orientations, 4), orientations.by_user
    for user in (0, 7, 119):
        items = rows.column[rows.start[user] : rows.start[user + 1]]
        np.testing.assert_allclose(
            fold_in_embedding(found.read_by_item, items), found.of_user[user], atol=1e-12
        )
    assert not fold_in_embedding(found.read_by_item, np.zeros(0, np.int32)).any()


def test_the_same_bits_on_any_number_of_threads():
    orientations = machine_ratings(ratings_of_kinds(), None)
    one, *others = (embedding(orientations, 5, threads) for threads in (1, 2, 3, 7))
    for other in others:
        assert all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 5), (41, 7, 50)])
def test_products(shape, dtype):
    rng = np.random.default_rng(1)
    n, a, b = shape
    x, y = rng.normal(size=(n, a)).astype(dtype), rng.normal(size=(n, b)).astype(dtype)
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-13}
    for threads in (1, 3):
        total = cross_product(x, y, threads)
        assert total.dtype == np.float64
        np.testing.assert_allclose(total, x.astype(float).T @ y, **close)
        np.testing.assert_allclose(table_product(x, total, threads), x @ total, **close)
        assert np.array_equal(total, cross_product(x, y))
        assert np.array_equal(table_product(x, total, threads), table_product(x, total))


def test_few_ratings_have_fewer_traits():
    orientations = machine_ratings(ratings_of_kinds(), None)  # 1,440 ratings
    found = embedding(orientations, 32, ratings_per_direction=500)
    assert [table.shape[1] for table in found] == [2, 2, 2]


def test_few_users_or_items_have_fewer_traits_and_very_few_have_none():
    """As many traits as columns would tell all of them apart, and hold nothing back."""
    assert embedding(machine_ratings(ratings_of_kinds(n_items=60), None), 32).of_user.shape == (
        120,
        3,
    )
    for few, most in ((ratings_of_kinds(n_users=19), 32), (ratings_of_kinds(), 0)):
        found = embedding(machine_ratings(few, None), most)
        assert [table.shape[1] for table in found] == [0, 0, 0]
        assert fold_in_embedding(found.read_by_item, np.array([1, 2])).shape == (0,)


def test_less_is_expected_where_rows_have_many_ratings():
    """The projection of couplings has the weight of the rows that these are coupled to."""
    orientations = machine_ratings(ratings_of_kinds(), None)  # 12 ratings a user, 18 an item
    full = embedding(orientations, 3)
    assert full.of_columns(0) is full.of_item
    assert full.of_columns(1) is full.of_user
    less = embedding(orientations, 3, most_per_row=12)
    np.testing.assert_array_equal(less.of_item, full.of_item)
    np.testing.assert_allclose(less.of_user, full.of_user * (12 / 18) ** 2, rtol=1e-9)
    someone, before = (
        fold_in_embedding(one.read_by_item, np.array([5, 6])) for one in (less, full)
    )
    np.testing.assert_allclose(someone, before * (12 / 18) ** 2, rtol=1e-9)
    for most, widths in ((9, [0, 3, 0]), (1, [0, 0, 0])):
        found = embedding(orientations, 3, most_per_row=most)
        assert [table.shape[1] for table in found] == widths


def test_directions_that_are_not_there_are_no_traits():
    """Everybody rated the same items: one direction says it all."""
    user, item = np.divmod(np.arange(100 * 60), 60)
    ratings = ordbm.Ratings(user, item, 1 + (user + item) % 5)
    found = embedding(machine_ratings(ratings, None), 3)
    assert found.of_user.shape == (100, 1)
    np.testing.assert_allclose(np.abs(found.of_user), 0.1, rtol=1e-6)


# What follows them


def test_only_the_sides_that_are_asked_for_have_them():
    orientations = machine_ratings(ratings_of_kinds(), None)
    both = embedding(orientations, 3)
    for sides in ((True, False), (False, True), (False, False)):
        found = embedding(orientations, 3, sides=sides)
        for number in range(2):
            own = both.of_columns(number)
            assert np.array_equal(found.of_columns(number), own if sides[number] else own[:, :0])


def test_expected_couplings_are_the_projection_on_the_traits():
    rng = np.random.default_rng(2)
    co_occurrence = np.linalg.qr(rng.normal(size=(50, 3)))[0]
    coupling = rng.normal(size=(50, 5, 16))
    by_direction = np.einsum("cr,csk->rsk", co_occurrence, coupling)
    np.testing.assert_allclose(
        couplings_by_direction(coupling, co_occurrence), by_direction, atol=1e-12
    )
    expected = np.einsum("cr,rsk->csk", co_occurrence, by_direction)
    found = expected_couplings(coupling, co_occurrence, 2)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(expected_couplings(found, co_occurrence), found, atol=1e-12)


@pytest.mark.parametrize("kind", referee.KINDS)
def test_couplings_are_drawn_to_what_their_traits_say(kind):
    """Without ratings' weight and with a strong prior, a pass moves them to the projection."""
    ratings = ratings_of_kinds()
    learner = ordbm.PseudoLikelihood(
        coupling_precision=1e6,
        rate=1.0,
        momentum=0.0,
        block_rows=10**6,
        co_occurrence=2,
        embedding=EASY,
        spread=0.5,
    )
    model = ordbm.OrdinalBM(
        **SMALL | {"epochs": 0}, features=kind, learner=learner, dtype="float64"
    )
    machine = model.fit(ratings).machines[0]
    orientations = model._fitted.ratings
    priors = priors_of(machine, orientations, learner.priors)
    assert priors.co_occurrence.of_columns(0).shape == (80, 2)
    assert priors.co_occurrence.of_columns(1).shape == (120, 2)
    trainer = Trainer(machine, orientations, learner)
    for number, training in enumerate(trainer.sides):
        coupling = machine.sides[number].parameters.coupling
        expected = expected_couplings(coupling, priors.co_occurrence.of_columns(number))
        assert np.abs(coupling - expected).max() > 0.1
        training.fill_scores("exact", 0, trainer.scored)
        training.learn(0, machine.level_bias, np.zeros(len(machine.level_bias)), trainer.scored)
        np.testing.assert_allclose(coupling, expected, atol=1e-3)


def test_newcomers_are_expected_to_be_like_those_who_rated_the_same():
    """With a strong prior a newcomer with the ratings of a user has that user's couplings."""
    ratings = ratings_of_kinds()
    learner = ordbm.PseudoLikelihood(coupling_precision=1e6, co_occurrence=3, embedding=EASY)
    model = ordbm.OrdinalBM(**SMALL, learner=learner).fit(ratings)
    state = model._fitted
    rng = np.random.default_rng(4)
    coupling = state.machines[0].item_side.parameters.coupling
    coupling[:, :, :4] = rng.normal(size=(120, 5, 4))
    priors = priors_of(state.machines[0], state.ratings, learner.priors)
    co_occurrence = priors.co_occurrence.of_user
    state.fold_in_priors = FoldInPriors.of(state.machines, state.ratings, learner.priors, 1)
    rows = state.ratings.by_user
    for user in (3, 50):
        part = slice(rows.start[user], rows.start[user + 1])
        given = {state.items.ids[item]: 3 for item in rows.column[part]}
        (someone,) = machines_for(state, given)
        own = someone.machine.item_side.parameters.coupling[0]
        expected = expected_couplings(coupling, co_occurrence)[user]
        np.testing.assert_allclose(own, expected, atol=2e-4)
        assert np.abs(expected).max() > 0.05


def test_where_few_rated_what_is_known_of_the_others_helps():
    """Couplings that follow kinds are found from far fewer ratings each."""
    rng = np.random.default_rng(5)
    n_users, n_items, kinds = 400, 200, 4
    likes = rng.normal(0.0, 1.3, (kinds, kinds))
    user, item = [], []
    for u in range(n_users):
        near = np.where(np.arange(n_items) % kinds == u % kinds, 4.0, 1.0)
        item += rng.choice(n_items, 24, replace=False, p=near / near.sum()).tolist()
        user += [u] * 24
    user, item = np.array(user), np.array(item)
    mean = 3 + likes[user % kinds, item % kinds]
    rating = np.clip(np.rint(mean + rng.normal(0.0, 0.7, len(user))), 1, 5)
    known = np.arange(len(user)) % 24 < 8
    train = ordbm.Ratings(user[known], item[known], rating[known], scale=[1, 2, 3, 4, 5])
    errors = []
    for n in (0, 8):
        learner = ordbm.PseudoLikelihood(co_occurrence=n, embedding=EASY)
        model = ordbm.OrdinalBM(hidden=8, members=2, presence=False, learner=learner).fit(train)
        found = model.predict(user[~known], item[~known])
        errors.append(np.sqrt(np.mean((found - rating[~known]) ** 2)))
    assert errors[1] < 0.97 * errors[0]


def bits(model):
    """All that the first machine learnt."""
    sides = [side for side in model.machines[0].sides if side is not None]
    return [array.tobytes() for side in sides for array in side.parameters]


def test_a_training_has_the_same_bits_on_any_threads_and_when_it_goes_on(tmp_path):
    ratings = ratings_of_kinds()
    whole, *others = (
        bits(ordbm.OrdinalBM(**SMALL | FOLLOWING | {"threads": threads, "members": 2}).fit(ratings))
        for threads in (1, 2, 3)
    )
    assert all(other == whole for other in others)
    told = SMALL | FOLLOWING | {"members": 2}
    ordbm.OrdinalBM(**told | {"epochs": 2}).fit(ratings, checkpoint=tmp_path)
    again = ordbm.OrdinalBM(**told).fit(ratings, checkpoint=tmp_path, resume=True)
    assert len(again.history) == 4
    assert bits(again) == whole
    without = ordbm.OrdinalBM(**told | {"learner": ordbm.PseudoLikelihood(co_occurrence=0)})
    assert bits(without.fit(ratings)) != whole


@pytest.mark.parametrize("settings", [
    {"sides": "user"}, {"sides": "item"}, {"hidden": (0, 4)}, {"hidden": (3, 0)}, {"hidden": 0},
    {"features": "gaussian"}, {"features": "categorical", "dtype": "float64"},
])  # fmt: skip
def test_machines_of_all_kinds_learn_and_meet_newcomers_with_them(settings):
    ratings = ratings_of_kinds()
    model = ordbm.OrdinalBM(**SMALL | FOLLOWING | settings).fit(ratings)
    assert np.isfinite(model.predict(np.arange(20), np.arange(20))).all()
    listed = model.recommend(ratings={0: 5, 1: 2, 4: 4}, n=3, by="mean")
    assert len(listed) == 3
    assert np.isfinite([line.mean for line in listed]).all()


# Settings


@pytest.mark.parametrize("wrong", [-1, 1.5, "many", True])
def test_a_number_of_traits_that_is_none(wrong):
    with pytest.raises(ordbm.errors.SettingsError, match="co_occurrence="):
        ordbm.PseudoLikelihood(co_occurrence=wrong)
