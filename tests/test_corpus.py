"""What once failed: each is read and everything holds, or it is refused with a sentence."""

import random
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ordbm
from fuzzing.kinds import READ, REFUSED, Input, judged_by
from fuzzing.model_files import KINDS as MODEL_KINDS
from fuzzing.rating_files import KINDS as RATING_KINDS
from fuzzing.settings import KINDS as SETTING_KINDS
from ordbm import ContrastiveDivergence, OrdinalBM, PseudoLikelihood, Ratings
from ordbm.errors import DivergedError, OrdbmError, RatingsError, SettingsError
from ordbm.runtime.checks import float_of

KINDS = {kind.name: kind for kind in [*RATING_KINDS, *MODEL_KINDS, *SETTING_KINDS]}
CORPUS = Path(__file__).parent / "corpus"
KIND_OF = {
    ".ordbm": "model file, forged content",
    ".parquet": "parquet",
    ".zip": "damaged gz and zip",
}
SMALL = {"hidden": 2, "members": 1, "epochs": 1, "threads": 1, "presence": False}


def files():
    return [
        pytest.param(path, id=path.name)
        for path in sorted(CORPUS.iterdir())
        if path.suffix in KIND_OF
    ]


@pytest.mark.parametrize("path", files())
def test_files_that_once_failed(path, tmp_path):
    kind = KINDS[KIND_OF[path.suffix]]
    given = Input(path.name, path.read_bytes(), told=True)
    assert judged_by(kind, given, tmp_path) in (READ, REFUSED)
    assert f"`{path.name}`" in (CORPUS / "README.md").read_text()


@pytest.mark.parametrize("header", [b'"us\n7er","item","rating"', b'"us\xaf\r7er","item","rating"'])
def test_a_name_of_the_header_over_two_lines(header, tmp_path):
    """What separates columns was looked for in the first line, which ends within quotes."""
    given = Input("ratings.csv", header + b'\r\n"x1","a","3.5"\r\n"x2","b","2"\r\n', ("csv", True))
    assert judged_by(KINDS["text, layout told"], given, tmp_path) == READ


@pytest.mark.parametrize(
    ("name", "layout", "content", "verdict"),
    [
        ("u.data", "tsv", b"1.0\t1e3\t1\n2.0\t1e3\t3\n", READ),  # users 1 and 2
        ("u.data", "tsv", b"1.0\t7\t1\n2\t7\t3\n", READ),  # users "1.0" and "2"
        ("r.dat", "colons", b"1::2::3,5\n1::3::4\n", READ),
        ("r.dat", "colons", b"1::2::3,5\n1::3::1,000\n", READ),  # 3.5 and 1
        ("r.dat", "colons", b"1::2::3,5\n1::3::4.0\n", REFUSED),  # both signs: nobody can tell
        ("r.dat", "colons", b"1::2::3\n1::3::1,000\n", REFUSED),
        ("r.dat", "colons", b"1::2::3,5\n1::3::1e400\n1::4::3,5\n", REFUSED),
        ("r.csv", "csv", b"1;2;4,5\n1;3;4\n", READ),
        ("r.csv", "csv", b'"1","2","4,5"\n"1","3","4"\n', READ),
    ],
)
def test_the_twin_knows_whole_floats_and_decimal_commas(name, layout, content, verdict, tmp_path):
    """It read ids such as `1.0` as text and took `3,5` for no number, unlike the readers."""
    given = Input(name, content, (layout, False))
    assert judged_by(KINDS["text, layout told"], given, tmp_path) == verdict


@pytest.mark.parametrize(
    ("learner", "told"),
    [
        # A part of a learner that is none, beside a setting of it: no dataclass to replace.
        (PseudoLikelihood, {"optimiser": 0.5, "rate": 0.1}),
        (ContrastiveDivergence, {"initialisation": (-1, 2), "spread": 0.1}),
        # An array among choices: its truth is ambiguous.
        (None, {"dtype": np.array([1, 2])}),
        (PseudoLikelihood, {"other_side": np.array(["exact", "sample"])}),
        # Whole numbers of more digits than Python writes in an error.
        (None, {"hidden": -(10**5000)}),
        (None, {"epochs": 10**5000}),
        (None, {"seed": 10**5000}),
        (PseudoLikelihood, {"leave_out": 10**5000}),
        # Whole numbers that no float holds.
        (PseudoLikelihood, {"rate": 10**400}),
        (None, {"link_budget": 10**400}),
        # Machines that passed for small enough, and took all of the memory while they were drawn.
        (None, {"hidden": 10**9}),
        (None, {"members": 10**6}),
        # Numbers that single precision does not hold.
        (PseudoLikelihood, {"rate": 1e300}),
        (PseudoLikelihood, {"coupling_precision": float("inf")}),
    ],
)
def test_settings_that_once_failed(learner, told):
    with pytest.raises(SettingsError) as refused:
        OrdinalBM(learner=learner(**told)) if learner else OrdinalBM(**told)
    assert len(str(refused.value)) < 500


def test_an_infinite_budget_is_none():
    assert OrdinalBM(link_budget=float("inf"), presence_budget=float("inf"))


def fitted(values, **told):
    rng = np.random.default_rng(0)
    users, items = rng.integers(6, size=len(values)), rng.integers(5, size=len(values))
    scale = told.pop("scale", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return OrdinalBM(**SMALL | told).fit(Ratings(users, items, values, scale))


@pytest.mark.parametrize("epochs", [0, 1])
@pytest.mark.parametrize(
    ("start", "told"),
    [
        ({"spread": 1e14}, {"features": "gaussian", "scale": "continuous"}),
        ({"spread": 1e5}, {"features": "gaussian", "scale": "continuous"}),
        ({"spread": 1e9}, {}),
        ({"hidden_spread": 1e9}, {"sides": "item"}),
    ],
)
def test_machines_drawn_too_large_are_refused(start, told, epochs):
    """Without an epoch nobody looked: a rating's moments then asked for petabytes of points."""
    with pytest.raises(DivergedError, match=r"before anything is learnt: lower .* spread \("):
        fitted(np.resize([1, 2, 3.5], 30), learner=PseudoLikelihood(**start), epochs=epochs, **told)


@pytest.mark.parametrize("size", [1e149, 1e40, 1e-40, 1e-140])
def test_lists_of_ratings_beyond_single_precision(size):
    """Means overflowed to infinity, or vanished."""
    values = np.resize([size, 2 * size, 3 * size, 2 * size], 30)
    model = fitted(values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lists = model.recommend_lists(n=2, by="mean")
    scores = np.array([score for one in lists.values() for _, score in one])
    assert (scores > size).all()
    assert (scores < 3 * size).all()
    users = [user for user, one in lists.items() for _ in one]
    items = [item for one in lists.values() for item, _ in one]
    np.testing.assert_allclose(scores, model.predict(users, items), rtol=1e-4)


@pytest.mark.parametrize("scale", [None, "continuous"])
def test_equal_ratings_of_any_size(scale):
    """The rounding of their mean overflowed single precision."""
    model = fitted(np.full(30, 1e149), features="gaussian", scale=scale)
    np.testing.assert_allclose(model.predict([0, 1], [0, 1]), 1e149)


@pytest.mark.parametrize("size", [1e-200, 5e-324])
def test_ratings_whose_squares_vanish_are_refused(size):
    """Their deviation was zero, became one, and predictions were a thousandth."""
    values = size * np.random.default_rng(0).integers(1, 300, 300)
    with pytest.raises(RatingsError, match="too small, their deviation would vanish: multiply"):
        Ratings(np.arange(300), np.arange(300), values, "continuous")


def test_given_ratings_far_from_all_others_are_refused():
    """They overflowed single precision, and all of the list was NaN."""
    model = fitted(np.random.default_rng(0).normal(size=30), scale="continuous")
    for far in (1e38, -1e149):
        with pytest.raises(RatingsError, match="too far from all that was learnt from"):
            model.recommend(ratings={1: far}, by="mean")


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_few_inputs_of_each_kind(kind, tmp_path):
    """The fuzzing itself works; `make fuzz` runs many."""
    verdicts = set()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(8 if kind.name.startswith("fits") else 60):
            given = kind.make(random.Random(f"corpus/{number}"))
            verdicts.add(judged_by(kind, given, tmp_path))
    assert verdicts <= {READ, REFUSED}


HUGE = 10**5000  # more digits than Python writes, more than a float holds
TOLD_HUGE = {
    "a rating": lambda here: here.model.recommend(ratings={0: HUGE}),
    "a level": lambda _: Ratings([1, 2], [1, 2], [3, HUGE]),
    "a scale": lambda _: Ratings([1], [1], [3], scale=[HUGE, 3]),
    "duplicates": lambda _: Ratings([1], [1], [3], duplicates=HUGE),
    "by": lambda here: here.model.recommend(0, by=HUGE),
    "diversity": lambda here: here.model.recommend(0, diversity=HUGE),
    "candidates": lambda here: here.model.recommend(0, candidates=[HUGE]),
    "a kind of candidates": lambda here: here.model.recommend(0, candidates=HUGE),
    "decode": lambda here: here.model.predict(0, 0, decode=HUGE),
    "method": lambda here: here.model.predict(0, 0, method=HUGE),
    "similar": lambda here: here.model.similar_items(HUGE),
    "threshold": lambda here: here.model.explain(0, 0, threshold=HUGE),
    "members": lambda here: here.model.user_factors(members=HUGE),
    "fraction": lambda here: ordbm.hold_out(here.ratings, HUGE),
    "split": lambda here: ordbm.hold_out(here.ratings, 0.5, by=HUGE),
    "relevant": lambda here: ordbm.evaluate(here.model, here.ratings, lists=2, relevant=HUGE),
    "strength": lambda _: ordbm.simulate(strength=HUGE),
    "levels": lambda _: ordbm.simulate(levels=HUGE),
    "a data set": lambda _: ordbm.load_dataset(HUGE),
}


@pytest.fixture(scope="module")
def here():
    rng = np.random.default_rng(0)
    ratings = Ratings(*rng.integers(6, size=(2, 60)), rng.integers(1, 6, 60))
    model = OrdinalBM(hidden=2, members=1, item_links=2, epochs=1).fit(ratings)
    return SimpleNamespace(model=model, ratings=ratings)


@pytest.mark.parametrize("told", TOLD_HUGE)
def test_numbers_of_thousands_of_digits_are_refused_with_a_sentence(here, told):
    with pytest.raises(OrdbmError) as caught:
        TOLD_HUGE[told](here)
    assert len(str(caught.value)) < 600


def test_a_number_beyond_floats_may_mean_not_rated():
    ratings = Ratings([1, 2, 3], [1, 2, 3], [3, 4, 0], missing=[HUGE, -HUGE, False])
    assert (len(ratings), ratings.n_missing) == (2, 1)


def test_what_is_beyond_all_floats_keeps_its_sign():
    assert float_of(10**400) == np.inf
    assert float_of(-(10**400)) == -np.inf
