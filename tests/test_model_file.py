"""Model files: a loaded model answers as the saved one did, bit for bit, or there is one error."""

import ast
import copy
import datetime as dt
import enum
import getpass
import json
import os
import platform
import socket
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import ordbm
from answers import answers, predictions
from ordbm import ContrastiveDivergence, OrdinalBM, PseudoLikelihood, Ratings, RatingScale
from ordbm.errors import ModelFileError, NotFittedError
from ordbm.inference import fitted
from ordbm.model.learners import Learner
from ordbm.model.rules import EmbeddingRules
from ordbm.persistence.container import FORMAT, read_container, write_container
from ordbm.priors import resolved, response_styles
from ordbm.runtime.threads import thread_count
from samples.write import newcomer_means

SAMPLES = Path(__file__).parent / "samples"
TINY = {
    "hidden": 3,
    "members": 2,
    "item_links": 4,
    "link_support": 2,
    "link_shrinkage": 0.0,
    "epochs": 2,
}


def simulated(scale=None, user_ids=range(12), item_ids=range(9), n_ratings=70):
    """Ratings by a dozen users of nine items; the last item has none."""
    rng = np.random.default_rng(0)
    users = rng.integers(len(user_ids), size=n_ratings)
    items = rng.integers(len(item_ids), size=n_ratings)
    liking = rng.normal(size=len(user_ids))[users] + rng.normal(size=len(item_ids))[items]
    values = 3 + liking + rng.normal(size=n_ratings)
    if scale is None:
        values = np.clip(np.round(values), 1, 5)
    elif isinstance(scale, RatingScale):
        levels = np.clip(values / 6 * len(scale), 0, len(scale) - 1).astype(int)
        values = [(scale.labels or scale.values.tolist())[level] for level in levels]
    ratings = Ratings([user_ids[u] for u in users], [item_ids[i] for i in items], values, scale)
    last = ratings.items.codes([item_ids[-1]])[0]
    return ratings.select(ratings.item_codes != last)


def reloaded(model, path):
    model.save(path)
    return ordbm.load(path)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("models") / "model.ordbm"


SCALES = {
    "few": None,
    "half stars": RatingScale(np.arange(0.5, 5.5, 0.5)),
    "labels": RatingScale(["poor", "fair", "göod\x00", "\ud83d\ude00"]),
    "bins": RatingScale.bins([0, 1.5, 2.25, 4, 100]),
    "continuous": "continuous",
    "one level": RatingScale([3.5]),
}


@pytest.mark.parametrize(
    ("scale", "kind", "sides", "item_links", "user_links"),
    [
        ("few", "ordinal", "joint", 4, 4),
        ("few", "categorical", "user", 4, 0),
        ("few", "gaussian", "item", 3, 3),
        ("half stars", "ordinal", "item", 0, 4),
        ("half stars", "gaussian", "joint", 4, 0),
        ("labels", "categorical", "joint", 0, 4),
        ("labels", "ordinal", "user", 0, 0),
        ("bins", "gaussian", "user", 0, 3),
        ("bins", "ordinal", "joint", 0, 0),
        ("continuous", None, "joint", 4, 4),
        ("continuous", "gaussian", "user", 0, 0),
        ("one level", "ordinal", "joint", 2, 2),
    ],
)
def test_every_answer_is_the_same_after_loading(file, scale, kind, sides, item_links, user_links):
    ratings = simulated(SCALES[scale])
    links = {"item_links": item_links, "user_links": user_links}
    model = OrdinalBM(kind, sides, **TINY | links).fit(ratings)
    loaded = reloaded(model, file)
    users, items = ratings.users.ids[:4], ratings.items.ids
    rating = getattr(model.scale, "labels", None) or ratings.values.tolist()
    given = users, items, rating[0]
    assert answers(loaded, *given) == answers(model, *given)
    assert loaded.scale == model.scale
    assert loaded.history == model.history
    assert loaded.history[0].seconds == model.history[0].seconds
    assert loaded.get_params() == model.get_params()
    assert loaded.settings == model.settings
    assert loaded.origin == model.origin
    again = file.with_name("again")
    loaded.save(again)
    assert again.read_bytes() == file.read_bytes()


# -- any ids, any scales, any shapes --------------------------------------------------------------

any_text = st.text(st.characters(exclude_categories=()), max_size=5)
any_id = st.one_of(
    any_text,
    st.sampled_from(["\ud83d\ude00", "😀", "\ud83d", "\0", "", "\x00a", "\u00e9", "e\u0301"]),
    st.integers(),
    st.integers(-(2**80), 2**80),
    st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 2**64 + 1]),
    st.booleans(),
    st.binary(max_size=3),
    st.floats(allow_nan=False),
    st.tuples(st.integers(), st.none() | any_text | st.floats()),
    st.tuples(st.tuples(), st.tuples(st.dates())),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.datetimes(timezones=st.just(dt.timezone(dt.timedelta(hours=-3, seconds=5)))),
    st.uuids(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.builds(np.datetime64, st.integers(-(2**60), 2**60), st.sampled_from(["ns", "s", "D", "Y"])),
    st.builds(np.timedelta64, st.integers(-(2**60), 2**60), st.sampled_from(["ns", "7s", "W"])),
)
id_columns = st.one_of(
    *(
        st.lists(kind, min_size=1, max_size=5, unique=True)
        for kind in (st.integers(-(2**63), 2**63 - 1), any_text, any_id)
    )
)
scales = st.one_of(
    st.integers(1, 5).map(lambda n: RatingScale(range(n))),
    st.just(RatingScale(np.arange(0.5, 5.5, 0.5))),
    st.lists(any_text, min_size=1, max_size=4, unique=True).map(RatingScale),
    st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=6, unique=True).map(
        lambda levels: RatingScale([level / 1000 for level in levels])
    ),
    st.lists(st.integers(-1000, 1000), min_size=2, max_size=5, unique=True).map(
        lambda edges: RatingScale.bins(sorted(edges))
    ),
    st.just("continuous"),
)


@st.composite
def sparse_ratings(draw):
    """Ratings of at least one pair; users and items without any remain in the maps."""
    scale = draw(scales)
    users, items = draw(id_columns), draw(id_columns)
    if scale == "continuous":
        rating = st.floats(-1e6, 1e6, width=32)
    else:
        rating = st.sampled_from(scale.labels or scale.values.tolist())
    pairs = [(user, item) for user in users for item in items]
    values = draw(st.lists(rating, min_size=len(pairs), max_size=len(pairs)))
    ratings = Ratings(*map(list, zip(*pairs, strict=True)), values, scale)
    kept = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    assume(any(kept))
    return ratings.select(np.array(kept))


model_settings = st.fixed_dictionaries(
    {
        "features": st.sampled_from(["ordinal", "categorical", "gaussian"]),
        "sides": st.sampled_from(["user", "item", "joint"]),
        "hidden": st.one_of(st.integers(0, 9), st.tuples(st.integers(0, 9), st.integers(0, 3))),
        "members": st.integers(1, 3),
        "item_links": st.integers(0, 3),
        "user_links": st.integers(0, 3),
        "learner": st.sampled_from(["pl", "cd", "structured"]),
        "epochs": st.integers(1, 2),
        "dtype": st.sampled_from(["float32", "float64"]),
        "seed": st.integers(0, 2**62 - 1),
        "link_budget": st.sampled_from([1e9, float("inf")]),
    }
)


@given(sparse_ratings(), model_settings)
def test_fit_save_load_predict_gives_the_same_bytes(tmp_path_factory, ratings, told):
    if ratings.is_continuous:
        told["features"] = "gaussian"
    path = tmp_path_factory.getbasetemp() / "any.ordbm"
    model = OrdinalBM(**told, link_support=2, link_shrinkage=0.0, threads=1).fit(ratings)
    loaded = reloaded(model, path)
    first = path.read_bytes()
    users, items = ratings.users.ids, ratings.items.ids
    assert loaded._fitted.users == ratings.users
    assert [*map(type, loaded._fitted.users)] == [*map(type, users)]
    assert [*map(repr, loaded._fitted.items)] == [*map(repr, items)]
    assert predictions(loaded, users, items) == predictions(model, users, items)
    loaded.save(path)
    assert path.read_bytes() == first


def test_many_ids_of_one_kind_are_compact(tmp_path):
    n = 20_000
    for ids in ([*range(n)], [f"né{k}" for k in range(n)]):
        ratings = Ratings(ids, [0, 1] * (n // 2), [1, 2, 3, 4] * (n // 4))
        model = OrdinalBM(sides="user", **TINY | {"epochs": 1}).fit(ratings)
        loaded = reloaded(model, tmp_path / "a")
        assert loaded._fitted.users.ids == tuple(ids)
        # A start, a column, a level, a bias and an id for each user.
        assert (tmp_path / "a").stat().st_size < n * (8 + 4 + 1 + 4 + 8 + 8) + 10_000


def test_ids_of_further_kinds_come_back(file):
    late = dt.datetime(2020, 1, 1, fold=1, tzinfo=dt.UTC)
    ids = [UUID(int=7), Decimal("1.50"), late, np.datetime64("2020")]
    loaded = reloaded(OrdinalBM(**TINY).fit(Ratings(ids, [1, 2, 3, 4], [1, 2, 3, 4])), file)
    assert repr(loaded._fitted.users.ids) == repr(tuple(ids))
    assert loaded._fitted.users.ids[2].fold == 1


def test_whole_numbers_have_no_end(file):
    ids = [10**5000, -(10**5000), 2**64]
    loaded = reloaded(OrdinalBM(**TINY).fit(Ratings(ids, [1, 2, 3], [1, 2, 3])), file)
    assert loaded._fitted.users.ids == tuple(ids)


# -- what cannot be stored ------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 1


class Text(str):
    __slots__ = ()


def nested(depth):
    value = ()
    for _ in range(depth):
        value = (value,)
    return value


@pytest.mark.parametrize(
    ("odd", "shown"),
    [
        (Colour.RED, r"<Colour.RED: 1> is of type .*Colour"),
        (frozenset({1}), r"frozenset\(\{1\}\) is of type builtins.frozenset"),
        ((1, 2 + 3j), r"\(2\+3j\) is of type builtins.complex"),
        (Text("z"), r"'z' is of type .*Text"),
        (dt.datetime(2020, 1, 1, tzinfo=__import__("zoneinfo").ZoneInfo("UTC")), r"datetime"),
    ],
)
@pytest.mark.parametrize("who", ["user", "item"])
def test_an_id_that_cannot_be_stored_is_named(tmp_path, odd, shown, who):
    columns = {"user": [1, 2, 3], "item": ["a", "b", "c"]}
    columns[who][1] = odd
    model = OrdinalBM(**TINY).fit(Ratings(columns["user"], columns["item"], [1, 2, 3]))
    with pytest.raises(ModelFileError, match=f"a {who} id cannot be stored: {shown}.*; use num"):
        model.save(tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_an_endlessly_nested_id_is_an_error_too(tmp_path):
    model = OrdinalBM(**TINY).fit(Ratings([1, nested(100_000)], [1, 2], [1, 2]))
    with pytest.raises(ModelFileError, match="a user id cannot be stored"):
        model.save(tmp_path / "a")


def test_numbers_of_numpy_inside_tuples_come_back_as_plain_ones(file):
    ids = [(np.int64(1), np.float32(0.5)), (np.str_("a"), np.bool_(True))]
    model = OrdinalBM(**TINY).fit(Ratings(ids, [1, 2], [1, 2]))
    loaded = reloaded(model, file)
    assert loaded._fitted.users == model._fitted.users
    assert repr(loaded._fitted.users.ids) == "((1, 0.5), ('a', True))"
    assert loaded.predict(ids, [1, 2]).tobytes() == model.predict(ids, [1, 2]).tobytes()


@pytest.mark.parametrize(
    "learner",
    [
        PseudoLikelihood(rate=0.25, coupling_precision=3, block_rows=4, leave_out=False),
        ContrastiveDivergence(steps=2, momentum=0.5, other_side="mean_field_with_own"),
    ],
)
def test_a_learner_object_comes_back_with_its_fields(file, learner):
    loaded = reloaded(OrdinalBM(learner=learner, **TINY).fit(simulated()), file)
    assert loaded.learner == learner
    assert loaded.get_params()["learner"] == learner


def test_steps_that_are_a_function_come_back_as_what_it_gave(file):
    learner = ContrastiveDivergence(steps=lambda epoch: 1 + epoch)
    model = OrdinalBM(learner=learner, **TINY | {"epochs": 3}).fit(simulated())
    loaded = reloaded(model, file)
    assert [loaded.learner.chain_length(epoch) for epoch in range(5)] == [1, 2, 3, 3, 3]
    again = loaded.clone().fit(simulated())
    assert again.history == model.history


def test_a_learner_of_ones_own_cannot_be_stored(tmp_path):
    class Mine(PseudoLikelihood):
        pass

    model = OrdinalBM(learner=Mine(), **TINY).fit(simulated())
    assert isinstance(model.learner, Learner)
    with pytest.raises(ModelFileError, match="a learner of type Mine cannot be stored"):
        model.save(tmp_path / "a")


def test_settings_of_numpy_types_are_stored_as_plain_ones(file):
    told = {"hidden": (np.int64(3), 2), "link_shrinkage": np.float32(0.5), "dtype": np.dtype("f4")}
    loaded = reloaded(OrdinalBM(**TINY | told).fit(simulated()), file)
    plain = {name: loaded.get_params()[name] for name in told}
    assert plain == {"hidden": (3, 2), "link_shrinkage": 0.5, "dtype": "float32"}
    assert type(plain["hidden"][0]) is int


def test_a_model_that_diverged_is_refused_when_saved_not_when_loaded(tmp_path):
    model = OrdinalBM(**TINY).fit(simulated())
    model.machines[0].user_side.parameters.coupling[0, 0, 0] = np.nan
    with pytest.raises(ModelFileError, match="cannot be stored: parameters are out of range"):
        model.save(tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_a_model_must_be_fitted_to_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        OrdinalBM().save(tmp_path / "a")


def test_validation_and_interruption_are_on_record(file):
    ratings = simulated()
    model = OrdinalBM(**TINY).fit(ratings, validation=ratings)
    model.interrupted = True
    loaded = reloaded(model, file)
    assert loaded.interrupted is True
    assert loaded.history[0].validation.keys() >= {"log_loss", "rmse", "mae"}
    assert loaded.history == model.history


def test_the_file_says_when_and_by_what_but_not_by_whom(tmp_path, monkeypatch):
    """Names too long to stand in numbers by chance, wherever a program may ask for them."""
    user, host, folder = "somebodys-user-name", "somebodys-host-name", "somebodys-folder"
    names = {"USER": user, "LOGNAME": user, "USERNAME": user, "HOSTNAME": host, "HOME": f"/{user}"}
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(getpass, "getuser", lambda: user)
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    monkeypatch.setattr(platform, "node", lambda: host)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename=host))
    (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / folder)
    noon = dt.datetime(2020, 1, 2, 12, tzinfo=dt.UTC)
    monkeypatch.setattr(fitted, "datetime", SimpleNamespace(now=noon.astimezone))
    file = tmp_path / folder / "model.ordbm"
    loaded = reloaded(OrdinalBM(**TINY).fit(simulated()), file)
    assert loaded.origin == (ordbm.__version__, "2020-01-02T12:00:00+00:00")
    content = file.read_bytes().lower()
    for private in (user, host, folder):
        assert private.encode() not in content


def test_more_threads_than_there_are_change_nothing(file):
    ratings = simulated()
    cores = thread_count(None)
    model = OrdinalBM(**TINY, threads=cores + 3).fit(ratings)
    loaded = reloaded(model, file)
    assert loaded.get_params()["threads"] == cores + 3
    assert loaded._fitted.threads == cores
    ids = ratings.users.ids, ratings.items.ids
    assert predictions(loaded, *ids) == predictions(model, *ids)


def test_a_loaded_model_learns_like_any_other(file):
    ratings = simulated()
    model = OrdinalBM(**TINY).fit(ratings)
    loaded = reloaded(model, file)
    before = model.predict(list(ratings.users), ratings.items.ids[0])
    again = loaded.fit(ratings).predict(list(ratings.users), ratings.items.ids[0])
    assert again.tobytes() == before.tobytes()


# -- older formats --------------------------------------------------------------------------------

# Each format that was ever released has its samples here, model-<format>-<name>.ordbm with what
# they predict beside them in .json, and they must load for ever. When the format changes: raise
# FORMAT["model"], let `load_model` still read what older files have, run tests/samples/write.py
# (it writes the samples of the new format only) and add its files; never write old ones again.


def assert_kept(value, said):
    """What a file says of a setting; later versions may have more of its parts."""
    if isinstance(value, dict):
        for key, part in ast.literal_eval(said).items():
            assert_kept(value[key], repr(part))
    else:
        assert repr(value) == said


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.ordbm")), ids=lambda path: path.stem)
def test_stored_samples_keep_loading_and_predicting(sample):
    expected = json.loads(sample.with_suffix(".json").read_text())
    model = ordbm.load(sample)
    users, items = model._fitted.users.ids, model._fitted.items.ids
    assert [repr(value) for value in users] == expected["users"]
    assert [repr(value) for value in items] == expected["items"]
    assert repr(model.scale) == expected["scale"]
    for told, present in (("settings", model.get_params()), ("learner", asdict(model.learner))):
        for key in expected[told].keys() - {"learner"}:
            assert_kept(present[key], expected[told][key])
    found = [model.predict(user, list(items)).tolist() for user in users]
    np.testing.assert_allclose(found, expected["means"], rtol=1e-4)
    listed = model.recommend(users[0], n=3, by="mean")
    assert [repr(line.item) for line in listed] == expected["recommended"]
    name = sample.stem.split("-")[2]
    assert newcomer_means(name, model) == pytest.approx(expected["newcomer"], rel=1e-4)
    assert len(model.machines) == 2


def test_every_format_has_its_samples():
    found = {int(path.name.split("-")[1]) for path in SAMPLES.glob("*.ordbm")}
    assert found == set(range(1, FORMAT["model"] + 1))


# -- priors of fold-in users ----------------------------------------------------------------------


def test_a_stored_model_answers_with_the_priors_it_was_learnt_with(tmp_path, monkeypatch):
    """The first fold-in user waits for no expectation maximisation and no singular vectors."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(60, size=1500), rng.integers(50, size=1500)
    ratings = Ratings(users, items, rng.integers(1, 6, size=1500), scale=[1, 2, 3, 4, 5])
    rules = EmbeddingRules(ratings_per_direction=100)
    learner = PseudoLikelihood(embedding=rules)
    told = {"hidden": 3, "members": 2, "item_links": 4, "epochs": 2}
    given = {int(items[0]): 5, int(items[1]): 2, int(items[2]): 1}
    for name in (learner, "structured"):
        model = OrdinalBM(**told, learner=name).fit(ratings)
        expected = model.recommend(ratings=given, n=20, by="mean")
        model.save(tmp_path / "model")

        def refuse(*_, **__):
            raise AssertionError("priors made again")

        with monkeypatch.context() as patched:
            patched.setattr(response_styles, "response_style_covariance", refuse)
            patched.setattr(resolved, "co_occurrence_embedding", refuse)
            loaded = ordbm.load(tmp_path / "model")
            found = loaded.recommend(ratings=given, n=20, by="mean")
        assert found == expected
        kept, before = loaded._fitted.fold_in_priors, model._fitted.fold_in_priors
        assert kept.bias.smoothing.tobytes() == before.bias.smoothing.tobytes()
        assert (kept.precision, kept.unit) == (before.precision, before.unit)
    header, arrays = read_container(tmp_path / "model", "model")
    for change, words in (
        (lambda h, _: h["fold_in"].update(precision=-1.0), "precision is out of range"),
        (lambda h, _: h["fold_in"].update(unit=0.0), "unit"),
        (lambda h, _: h["fold_in"].update(unit=None), "precision is out of range"),
        (lambda _, a: a.pop("fold_in.by_direction1"), "by_direction1"),
        (lambda _, a: a.update({"fold_in.bias_smoothing": np.zeros((4, 5))}), "type or shape"),
        (lambda _, a: a.update({"fold_in.bias_smoothing": np.full((5, 5), np.nan)}), "range"),
    ):
        forged, tables = copy.deepcopy(header), dict(arrays)
        change(forged, tables)
        write_container(tmp_path / "forged", "model", forged, tables)
        with pytest.raises(ModelFileError, match=words):
            ordbm.load(tmp_path / "forged")
