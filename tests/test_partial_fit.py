"""Ratings that come, change and go after learning: `partial_fit`."""

import numpy as np
import pytest

import ordbm
from ordbm import OrdinalBM, Ratings
from ordbm.data.csr import transpose
from ordbm.data.level_counts import level_counts
from ordbm.errors import NotFittedError, RatingsError, SettingsError
from ordbm.inference.ensemble_tables import EnsembleTables
from ordbm.updates import growing

TINY = {"hidden": (2, 3), "members": 2, "item_links": 3, "user_links": 2, "epochs": 3}
STARS = [1, 2, 3, 4, 5]
KINDS = {
    "ordinal": {},
    "categorical": {"features": "categorical"},
    "user side": {"sides": "user", "presence": False},
    "item side": {"sides": "item", "presence": False},
    "gaussian on stars": {"features": "gaussian", "presence": False},
    "continuous": {"presence": False},
    "paper": {"preset": "paper", "epochs": 3, "item_links": 3, "user_links": 2},
}


def columns(seed=0, n=700, n_users=50, n_items=30, *, continuous=False):
    """Users, items and ratings of different pairs."""
    rng = np.random.default_rng(seed)
    pair = rng.permutation(n_users * n_items)[:n]
    user, item = pair // n_items, pair % n_items
    liking = rng.normal(size=n_users)[user] + rng.normal(size=n_items)[item]
    value = liking if continuous else np.clip(np.round(3 + liking), 1, 5).astype(int)
    return user, item, value


def parts(share=0.8, **kind):
    """Ratings to learn, and some that come later, by people and of items known and new."""
    user, item, value = columns(**kind)
    late = (user >= 45) | (item >= 28) | (np.random.default_rng(1).random(len(user)) > share)
    scale = "continuous" if kind.get("continuous") else STARS
    first, then = (
        {"user": user[at], "item": item[at], "rating": value[at]} for at in (~late, late)
    )
    return Ratings(first, scale=scale), then


def rows(table, chosen):
    return {name: column[chosen] for name, column in table.items()}


def answers(model, users=(0, 3, 46, 49), items=(0, 7, 28, 29)):
    """Means and log-probabilities of pairs known and new."""
    pairs = [(user, item) for user in users for item in items]
    asked = [user for user, _ in pairs], [item for _, item in pairs]
    return np.concatenate([model.predict(*asked), model.log_probability(*asked, [3] * len(pairs))])


def bits(model):
    arrays = [model.machines[0].level_bias]
    for machine in model.machines:
        for side in filter(None, machine.sides):
            arrays += [side.unknown_bias, *side.parameters, side.links.start]
    state = model._state
    if state.presence:
        arrays += [state.presence.item_bias, state.presence.user_bias]
    for one in state.given:
        arrays += one[:-1]  # places in the transpose are there only while learning
    arrays += state.level_counts
    priors = state.fold_in_priors
    arrays += [priors.read_by_row, np.array(priors.precision), np.array(state.growth)]
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


def fitted(first, **settings):
    return OrdinalBM(**{**TINY, **settings}).fit(first)


def another(model):
    """The same model, to change."""
    twin = OrdinalBM(**model.get_params())
    twin._fitted = model._fitted
    return twin


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    """A model, and ratings that it has not seen."""
    first, later = parts(continuous=request.param == "continuous")
    return fitted(first, **KINDS[request.param]), later


@pytest.fixture(scope="module")
def plain():
    first, later = parts()
    return fitted(first), later


def test_ids_ratings_and_parameters_grow(kind):
    told, later = kind
    model = another(told).partial_fit(later)
    assert set(model.users) == set(range(50))
    assert set(model.items) == set(range(30))
    assert len(model._state.given.by_user.column) == 700
    for machine in model.machines:
        for side, n_columns in zip(machine.sides, (30, 50), strict=True):
            assert side is None or side.n_columns == side.links.n_columns == n_columns
    assert np.isfinite(answers(model)).all()
    if model._state.presence:
        assert np.isfinite(model.rated_proba([0, 49], [29, 28])).all()
        assert len(model.recommend(49, 3)) == 3
    new = model._state.users.codes([49])[0]
    assert model._state.given.by_user.sizes_of(np.array([new]))[0] == np.sum(later["user"] == 49)


def test_ratings_are_those_of_all_at_once(kind):
    """Whatever the order: the ratings inside are those that a fit of everything would have."""
    told, later = kind
    model = another(told).partial_fit(later)
    given, scale = model._state.given, model.scale
    found = Ratings.of_rows(model._state.users, model._state.items, scale, given.by_user)
    user, item, value = columns(continuous=scale.is_continuous)
    expected = {(u, i): v for u, i, v in zip(user, item, value, strict=True)}
    pairs = zip(found.user_codes, found.item_codes, found.values, strict=True)
    assert {(found.users[u], found.items[i]): v for u, i, v in pairs} == pytest.approx(expected)
    turned = transpose(given.by_user, 30)
    for name in ("start", "column", "level", "value"):
        np.testing.assert_array_equal(getattr(given.by_item, name), getattr(turned, name))


def test_nothing_new_said_nothing_moves(kind):
    told, _ = kind
    rated = told._state.given.by_user
    same = Ratings.of_rows(told._state.users, told._state.items, told.scale, rated)
    model = another(told).partial_fit(same)
    assert bits(model) == bits(told)
    assert model.last_update.same == len(same)


def test_what_is_withdrawn_again_is_as_if_it_had_not_come(kind):
    """Near it, once the columns are fitted, not learnt together: others have moved a little."""
    told, later = kind
    known = np.isin(later["user"], list(told.users)) & np.isin(later["item"], list(told.items))
    some = rows(later, np.flatnonzero(known)[:4])
    pairs = list(zip(some["user"].tolist(), some["item"].tolist(), strict=True))
    asked = [0, 1, 2, *some["user"]], [3, 4, 5, *some["item"]]
    once = another(told).partial_fit(some).partial_fit(withdrawn=pairs)
    again = another(once).partial_fit(some)
    before, moved = (model.predict(*asked) for model in (once, again))
    back = again.partial_fit(withdrawn=pairs).predict(*asked)
    assert np.abs(moved - before).max() > 0.02
    assert np.abs(back - before).max() < 0.1 * np.abs(moved - before).max()


def test_saving_between_batches_changes_nothing(kind, tmp_path):
    told, later = kind
    halves = (
        rows(later, np.arange(len(later["user"])) % 2 == 0),
        rows(later, np.arange(len(later["user"])) % 2 == 1),
    )
    gone = [(int(halves[0]["user"][0]), int(halves[0]["item"][0]))]
    whole = another(told).partial_fit(halves[0]).partial_fit(halves[1], withdrawn=gone)
    another(told).partial_fit(halves[0]).save(tmp_path / "model.ordbm")
    loaded = ordbm.load(tmp_path / "model.ordbm").partial_fit(halves[1], withdrawn=gone)
    assert bits(loaded) == bits(whole)
    np.testing.assert_array_equal(answers(loaded), answers(whole))


def test_threads_change_no_bit(plain):
    told, later = plain
    found = set()
    for threads in (1, 3):
        model = another(told)
        model._fitted.threads = threads
        found.add(bits(model.partial_fit(later, withdrawn=[(0, told_item(told, 0))])))
    assert len(found) == 1


def told_item(model, user):
    """An item that a user has rated."""
    rated = model._state.given.by_user
    return model._state.items[int(rated.columns_of(int(model._state.users.codes([user])[0]))[0])]


def test_the_order_of_a_batch_does_not_matter(plain):
    told, later = plain
    backwards = rows(later, np.arange(len(later["user"]))[::-1])
    one, other = (another(told).partial_fit(batch) for batch in (later, backwards))
    np.testing.assert_allclose(answers(one), answers(other), atol=2e-4)  # a few quanta


def test_one_at_a_time_comes_near_a_batch(plain):
    told, later = plain
    model = another(told)
    for place in range(40):
        model.partial_fit(rows(later, [place]))
    batch = another(told).partial_fit(rows(later, np.arange(40)))
    assert model._state.growth == batch._state.growth
    assert np.abs(answers(model) - answers(told)).max() > 0.05
    assert np.corrcoef(answers(model), answers(batch))[0, 1] > 0.98


def test_a_changed_rating_is_the_old_one_gone_and_the_new_one_come(plain):
    told, _ = plain
    item = told_item(told, 0)
    low, high = (another(told).partial_fit([(0, item, stars)]) for stars in (1, 5))
    assert {low.last_update.changed, high.last_update.changed} >= {1}
    others = [one for one in range(20) if one != item]
    assert high.predict(0, others).mean() > low.predict(0, others).mean()
    assert high.predict([9999], [item]) > low.predict([9999], [item])


def test_a_batch_says_what_it_changed(plain):
    told, later = plain
    item = told_item(told, 0)
    model = another(told).partial_fit(later, withdrawn=[(0, item)])
    update, growth = model.last_update, model._state.growth
    assert (update.new, update.changed, update.withdrawn) == (len(later["user"]), 0, 1)
    assert (update.new_users, update.new_items) == (5, 2)
    assert growth == (700 - len(later["user"]), 45, 28, len(later["user"]), 0, 1)
    assert "1 withdrawn" in str(update)


def test_all_of_somebody_can_go_and_come_again(plain):
    told, _ = plain
    state = told._state
    mine = [state.items[int(one)] for one in state.given.by_user.columns_of(0)]
    user = state.users[0]
    gone = another(told).partial_fit(withdrawn=[(user, item) for item in mine])
    assert not gone.known_users([user])[0]
    np.testing.assert_allclose(gone.predict([user], [5]), gone.predict([9999], [5]))
    back = another(gone).partial_fit([(user, item, 5) for item in mine])
    assert back.known_users([user])[0]
    assert back.predict(user, list(range(20))).mean() > gone.predict(user, list(range(20))).mean()


def test_a_long_stream_stays_near_what_was_learnt():
    """Ratings that come and go fifty times leave what they left when they went first."""
    first, later = parts()
    told = fitted(first, members=1, user_links=0)
    model = another(told)
    some = rows(later, np.flatnonzero(later["user"] < 45)[:10])
    pairs = list(zip(some["user"].tolist(), some["item"].tolist(), strict=True))
    asked = [user for user in range(40) for _ in range(25)], list(range(25)) * 40
    before = model.partial_fit(some).partial_fit(withdrawn=pairs).predict(*asked)
    for _ in range(50):
        model.partial_fit(some).partial_fit(withdrawn=pairs)
    after = model.predict(*asked)
    assert np.abs(after - before).max() < 0.03


@pytest.mark.filterwarnings("ignore::ordbm.errors.UnknownIdsWarning")
def test_a_long_stream_is_learnt_and_nothing_is_forgotten():
    """Forty batches of new people: those known before stay as well predicted, and of what a machine
    that learns from everybody at once knows of new ones, most is known.
    """
    user, item, value = columns(seed=3, n=4_000, n_users=200, n_items=40)
    test = np.random.default_rng(4).random(len(user)) < 0.2
    known = user < 100
    settings = {"members": 1, "epochs": 12, "presence": False, "user_links": 0}

    def told(chosen):
        return {"user": user[chosen], "item": item[chosen], "rating": value[chosen]}

    def loss(model, chosen):
        asked = told(chosen).values()
        return -model.log_probability(*asked).mean()

    model = fitted(Ratings(told(known & ~test), scale=STARS), **settings)
    before, strangers = loss(model, known & test), loss(model, ~known & test)
    for batch in np.array_split(np.flatnonzero(~known & ~test), 40):
        model.partial_fit(told(batch))
    anew = fitted(Ratings(told(~test), scale=STARS), **settings)
    assert loss(model, known & test) < before + 0.02
    gain = strangers - loss(anew, ~known & test)
    assert gain > 0.1
    assert strangers - loss(model, ~known & test) > 0.7 * gain


def test_times_grow_and_the_latest_wins():
    first, later = parts()
    rated = Ratings(first.to_frame("pandas").assign(time=np.arange(len(first))), scale=STARS)
    assert rated.has_times
    told = fitted(rated, members=1, presence=False)
    user, item = 0, told_item(told, 0)
    at = float(told._state.times[0])
    older, newer = (
        another(told).partial_fit([{"user": user, "item": item, "rating": 1, "time": time}])
        for time in (at - 1, at + 10_000)
    )
    assert (older.last_update.same, newer.last_update.same) == (1, 0)
    assert newer._state.times.max() == at + 10_000
    untimed = another(told).partial_fit(later)
    assert len(untimed._state.times) == 700
    assert np.count_nonzero(untimed._state.times == len(first) - 1) == len(later["user"]) + 1
    assert untimed.known_ratings().has_times


# -- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "withdrawn", "words"),
    [
        ([(0, 1, 7)], None, "7"),
        ([(0, 1, float("nan"))], None, "nan"),
        ([("0", 1, 3)], None, "user '0' is text"),
        ([(0, "1", 3)], None, "item '1' is text"),
        (None, [(0, 999)], "not there: row 0 (user 0, item 999)"),
        (None, [("0", 1)], "user '0' is text"),
        (None, "twice", "more than once"),
        ("own", "own", "rated and withdrawn in one batch"),
        (None, None, "nothing to learn"),
        (None, 5, ""),
        (None, [(1,)], ""),
        (None, "all", "at least one"),
    ],
)
def test_a_batch_that_cannot_be_used_changes_nothing(plain, new, withdrawn, words):
    told, _ = plain
    state = told._state
    own = (0, told_item(told, 0))
    if withdrawn == "all":
        rated = state.given.by_user
        withdrawn = [
            (state.users[int(user)], state.items[int(item)])
            for user, item in zip(rated.row, rated.column, strict=True)
        ]
    new = [(*own, 2)] if new == "own" else new
    withdrawn = (
        {"own": [own], "twice": [own, own]}.get(withdrawn, withdrawn)
        if isinstance(withdrawn, str)
        else withdrawn
    )
    model, before = another(told), bits(told)
    with pytest.raises((RatingsError, SettingsError)) as caught:
        model.partial_fit(new, withdrawn)
    assert words in str(caught.value)
    assert model._fitted is told._fitted
    assert bits(model) == before


@pytest.mark.parametrize("name", ["fit_columns", "step_biases", "grown_presence"])
def test_a_batch_that_fails_half_way_changes_nothing(plain, monkeypatch, name):
    told, later = plain
    model, before = another(told), bits(told)
    calls = []

    def fails_later(*given, **more):
        calls.append(given)
        if len(calls) > (name != "grown_presence"):
            raise MemoryError("no room")
        return whole(*given, **more)

    whole = getattr(growing, name)
    monkeypatch.setattr(growing, name, fails_later)
    with pytest.raises(MemoryError):
        model.partial_fit(later)
    assert model._fitted is told._fitted
    assert model.last_update is None
    assert bits(model) == before


def test_what_is_carried_on_is_what_would_be_found_anew(kind):
    """Counts of levels, and whether machines can be asked side by side."""
    told, later = kind
    model = another(told).partial_fit(later, withdrawn=[(0, told_item(told, 0))])
    state, n = model._state, len(model.machines[0].level_bias)
    for carried, rows_ in zip(state.level_counts, state.ratings, strict=True):
        np.testing.assert_array_equal(carried, level_counts(rows_, n))
    assert state.is_quick == EnsembleTables.serve(state.machines)


def test_an_unfitted_model_learns_the_first_batch():
    first, _ = parts()
    model = OrdinalBM(**TINY, presence=False)
    with pytest.raises(NotFittedError, match="nothing to withdraw"):
        model.partial_fit(first, withdrawn=[(0, 1)])
    np.testing.assert_array_equal(
        answers(model.partial_fit(first)), answers(fitted(first, presence=False))
    )


def test_continuous_ratings_too_far_off_are_refused():
    first, _ = parts(continuous=True)
    model = fitted(first, members=1)
    with pytest.raises(RatingsError, match="too far"):
        model.partial_fit([(0, 1, 1e30)])
