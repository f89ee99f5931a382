"""What items are ranked by: each score worked out by hand on a few pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm

from ordbm import OrdinalBM, Ratings
from ordbm.cli.list_options import criterion_option
from ordbm.data.scale import ContinuousScale, RatingScale
from ordbm.errors import OrdbmError, SettingsError
from ordbm.inference.distributions import LevelDistribution, NormalDistribution
from ordbm.recommend.criteria import (
    NAMED,
    AtLeast,
    Energy,
    Facts,
    Gain,
    LongTail,
    MeanRating,
    Mixture,
    Rated,
    Score,
    least_relevant,
    score_of,
    survival_proba,
)
from ordbm.recommend.lists import criterion_of

STARS = RatingScale([1, 2, 3, 4, 5])
LABELS = RatingScale(["poor", "fair", "good"])
# One pair surely bad, one surely good, one in between; rated with odds of 1 to 3, 1 and 4.
PROBA = np.array(
    [[0.6, 0.3, 0.1, 0.0, 0.0], [0.0, 0.0, 0.0, 0.25, 0.75], [0.1, 0.2, 0.4, 0.2, 0.1]]
)
ODDS = np.log([1 / 3, 1.0, 4.0]).astype(np.float32)
P_RATED = np.array([0.25, 0.5, 0.8])
POPULARITY = np.array([1, 100, 0])
FACTS = Facts(LevelDistribution(STARS, PROBA), ODDS, POPULARITY)
NORMAL = NormalDistribution(
    ContinuousScale(10.0, 2.0), np.array([9.0, 10.0, 14.0]), np.array([1.0, 2.0, 0.5])
)
CONTINUOUS = FACTS._replace(rating=NORMAL)
MIXTURES = [
    Mixture((AtLeast(3), 2.0), (MeanRating(), 0.5), (Rated(), 1)),
    Mixture((AtLeast(3), 2.0), (MeanRating(), -0.5)),
    Mixture((Energy(), 0.1), (Gain({5: 2.0, 1: -1}), 0.7)),
    Mixture((Rated(), 0.0)),
    LongTail(Mixture((Energy(), 0.3), (AtLeast(2, 0.5), 0.0)), -0.5),
]
SCORES = [*NAMED.values(), Energy(), AtLeast(3), Mixture((Rated(), 2.0)), LongTail(AtLeast())]


def log_odds(proba):
    return np.log(proba) - np.log1p(-proba)


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


# -- each score -----------------------------------------------------------------------------------


def test_rated():
    assert_same(Rated().of(FACTS), log_odds(P_RATED))
    assert not Rated().needs_rating


@pytest.mark.parametrize(
    ("rating", "proba"),
    [
        (None, [1e-12, 1.0, 0.3]),
        (4, [1e-12, 1.0, 0.3]),
        (3.5, [1e-12, 1.0, 0.3]),
        (5, [1e-12, 0.75, 0.1]),
        (2, [0.4, 1.0, 0.9]),
        (1, [1.0, 1.0, 1.0]),
    ],
)
def test_at_least(rating, proba):
    """The log-odds of P(rated) P(rating ≥ that | rated), against absent and lower together."""
    assert_same(AtLeast(rating).of(FACTS), log_odds(P_RATED * proba))


@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0])
def test_at_least_with_a_weight_of_being_rated(weight):
    proba = P_RATED**weight * np.array([0.1, 1.0, 0.7])
    assert_same(AtLeast(3, weight).of(FACTS)[[0, 2]], log_odds(proba[[0, 2]]))
    certain = AtLeast(1, 0.0).of(FACTS)
    assert np.isfinite(certain).all()
    assert (certain > 20).all()


def test_at_least_on_a_continuous_scale():
    """The mean of the scale if not said."""
    for rating, least in ((None, 10.0), (9, 9.0)):
        proba = norm.sf(least, NORMAL.centre, NORMAL.spread)
        assert_same(AtLeast(rating).of(CONTINUOUS), log_odds(P_RATED * proba))


def test_at_least_grows_with_both_probabilities():
    odds = np.linspace(-90, 90, 181).astype(np.float32)
    rating = LevelDistribution(STARS, np.tile(PROBA[2], (181, 1)))
    score = AtLeast().of(Facts(rating, odds, np.ones(181)))
    assert np.isfinite(score).all()
    assert (np.diff(score[:95]) > 0).all()
    assert (np.diff(score) >= 0).all()
    assert (score < log_odds(0.3) + 1e-6).all()  # never surer than that it is liked if rated


def test_gain():
    assert_same(Gain().of(FACTS), P_RATED * (PROBA @ [0, 1, 3, 7, 15]))
    assert_same(Gain({5: 2.0, 1: -1}).of(FACTS), P_RATED * (PROBA @ [-1, 0, 0, 0, 2.0]))
    labelled = FACTS._replace(rating=LevelDistribution(LABELS, PROBA[:, :3]))
    assert_same(Gain({"good": 4}).of(labelled), P_RATED * PROBA[:, 2] * 4)


def test_gain_of_nothing_rated_is_zero():
    far = FACTS._replace(log_odds=np.full(3, -200, np.float32))
    assert_same(Gain().of(far), 0.0)


def test_mean_rating():
    assert_same(MeanRating().of(FACTS), PROBA @ [1, 2, 3, 4, 5])
    assert_same(MeanRating().of(CONTINUOUS), NORMAL.centre)


def test_energy_is_log_odds_less_entropy():
    entropy = [-sum(p * np.log(p) for p in row if p > 0) for row in PROBA]
    assert_same(Energy().of(FACTS), log_odds(P_RATED) - entropy)
    assert_same(Energy().of(CONTINUOUS), log_odds(P_RATED) - norm.entropy(scale=NORMAL.spread))


def test_energy_is_the_expected_decrease_from_absent():
    """Absent has energy 0, a level -(log-odds + log P(level | rated))."""
    level_energy = -(log_odds(P_RATED)[2] + np.log(PROBA[2]))
    assert Energy().of(FACTS)[2] == pytest.approx(-PROBA[2] @ level_energy, rel=1e-5)
    mass = np.exp(-np.concatenate([[0.0], level_energy]))
    assert (mass / mass.sum())[0] == pytest.approx(1 - P_RATED[2])


def test_mixture_is_a_weighted_sum():
    mixed = Mixture((AtLeast(3), 2.0), (MeanRating(), -0.5), (Rated(), 1))
    expected = 2 * AtLeast(3).of(FACTS) - 0.5 * MeanRating().of(FACTS) + Rated().of(FACTS)
    assert_same(mixed.of(FACTS), expected)


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_long_tail_takes_off_the_log_of_popularity(strength):
    tail = LongTail(AtLeast(2), strength)
    cost = strength * np.log([1, 100, 1])
    assert_same(tail.of(FACTS), AtLeast(2).of(FACTS) - cost)
    bound = AtLeast(2).bound(ODDS, POPULARITY, STARS)
    assert_same(tail.bound(ODDS, POPULARITY, STARS), bound - cost)
    deeper = LongTail(tail, 0.25)
    assert_same(deeper.of(FACTS), tail.of(FACTS) - 0.25 * np.log([1, 100, 1]))


@pytest.mark.parametrize("score", [*SCORES, *MIXTURES], ids=repr)
def test_bounds_leave_what_they_are_given(score):
    """And have its shape, people × items."""
    odds, popularity = np.tile(ODDS, (4, 1)), POPULARITY.copy()
    for scale in (STARS, NORMAL.scale):
        assert np.broadcast_shapes(score.bound(odds, popularity, scale).shape, (4, 3)) == (4, 3)
    np.testing.assert_array_equal(odds, np.tile(ODDS, (4, 1)))
    np.testing.assert_array_equal(popularity, POPULARITY)


@pytest.mark.parametrize("score", [*SCORES, *MIXTURES], ids=repr)
@given(
    mass=arrays(
        np.float64, (6, 5), elements=st.sampled_from([0.0, 1e-300, 1e-9, 0.1, 0.5, 1.0, 3.0])
    ),
    odds=arrays(np.float32, 6, elements=st.floats(-100, 100, width=32)),
    popularity=arrays(np.int64, 6, elements=st.integers(0, 10**6)),
)
def test_no_rating_has_more_than_the_bound(score, mass, odds, popularity):
    """Certain ratings and uncertain ones, likely or not to be given."""
    mass[:, 2] += mass.sum(axis=1) == 0
    rating = LevelDistribution(STARS, mass / mass.sum(axis=1, keepdims=True))
    of = score.of(Facts(rating, odds, popularity))
    bound = np.broadcast_to(score.bound(odds, popularity, STARS), of.shape)
    assert (of <= bound + 1e-12 * np.abs(bound)).all()  # probabilities may add up to 1 + 2e-16
    sure = LevelDistribution(STARS, np.eye(5))
    for one in range(5):
        facts = Facts(sure, np.repeat(odds[one], 5), np.repeat(popularity[one], 5))
        assert (score.of(facts) <= bound[one] + 1e-12 * np.abs(bound[one])).all()


@pytest.mark.parametrize(
    "score", [AtLeast(), AtLeast(weight=0.3), Rated(), Energy(), LongTail(AtLeast())], ids=repr
)
@given(
    centre=arrays(np.float64, 4, elements=st.floats(-50, 50)),
    spread=arrays(np.float64, 4, elements=st.floats(1e-3, 20)),
)
def test_no_normal_rating_has_more_than_the_bound(score, centre, spread):
    facts = Facts(
        NormalDistribution(NORMAL.scale, centre, spread), np.tile(ODDS[1:], 2), np.full(4, 7)
    )
    bound = score.bound(facts.log_odds, facts.popularity, NORMAL.scale)
    assert (score.of(facts) <= bound).all()


@pytest.mark.parametrize(
    ("score", "best"),
    [(AtLeast(), 4), (Rated(), 0), (Gain(), 4), (MeanRating(), 4), (Energy(), 2)],
    ids=repr,
)
def test_bounds_are_reached_by_the_best_rating(score, best):
    sure = LevelDistribution(STARS, np.tile(np.eye(5)[best], (3, 1)))
    bound = np.broadcast_to(score.bound(ODDS, POPULARITY, STARS), 3)
    assert_same(score.of(FACTS._replace(rating=sure)), bound)


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_a_number_for_each_pair(score):
    assert score.of(FACTS).shape == (3,)
    assert np.isfinite(score.of(FACTS)).all()
    none = Facts(LevelDistribution(STARS, PROBA[:0]), ODDS[:0], POPULARITY[:0])
    assert score.of(none).shape == (0,)


def test_scores_are_values():
    assert AtLeast(4) == AtLeast(4, 1.0) != AtLeast(3)
    assert Mixture((Rated(), 1.0)) == Mixture((Rated(), 1.0)) != Mixture((Rated(), 2.0))
    assert len({Rated(), Rated(), LongTail(Rated()), Energy()}) == 3


def test_a_score_of_ones_own():
    class Sure(Score):
        def of(self, facts):
            return facts.rating.confidence()

    assert score_of(Sure()).of(FACTS).tolist() == [0.6, 0.75, 0.4]
    with pytest.raises(NotImplementedError):
        Score().of(FACTS)


# -- what is relevant -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "liked"),
    [
        (STARS, [4, 5]),
        (RatingScale(np.arange(0.5, 5.5, 0.5)), [4, 4.5, 5]),
        (RatingScale(range(11)), [8, 9, 10]),
        (RatingScale([0, 1]), [1]),
        (RatingScale([7]), [7]),
        (LABELS, [3]),
    ],
    ids=["stars", "half stars", "0 to 10", "two", "one", "labels"],
)
def test_liked_is_three_quarters_up_the_scale(scale, liked):
    least = least_relevant(scale, None)
    assert scale.values[scale.values >= least].tolist() == liked
    proba = np.random.default_rng(0).dirichlet(np.ones(len(scale.values)), 5)
    expected = proba[:, -len(liked) :].sum(axis=1)
    assert_same(survival_proba(LevelDistribution(scale, proba), least), expected)


def test_relevant_may_be_a_label():
    assert least_relevant(LABELS, "fair") == LABELS.values[1]
    with pytest.raises(SettingsError, match="rating='fine': use one of poor, fair, good"):
        least_relevant(LABELS, "fine", name="rating")


@pytest.mark.parametrize("wrong", ["high", float("nan"), float("inf"), object()])
def test_relevant_must_be_a_rating(wrong):
    with pytest.raises(SettingsError, match="must be a rating, as in rating=4"):
        AtLeast(wrong).of(FACTS)


# -- bad arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [-0.1, float("nan"), "much", None])
def test_a_weight_of_being_rated_is_zero_or_more(weight):
    with pytest.raises(SettingsError, match=r"weight=.*: must be "):
        AtLeast(weight=weight)


@pytest.mark.parametrize("parts", [(), (Rated(),), ((Rated(),),), ((Rated(), 1.0, 2.0),)])
def test_a_mixture_is_of_pairs(parts):
    with pytest.raises(SettingsError, match="a mixture needs pairs of a score and its weight"):
        Mixture(*parts)


def test_a_mixture_is_of_scores():
    with pytest.raises(SettingsError, match="scores"):
        Mixture(("liked", 1.0))


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), "much", None])
def test_weights_of_a_mixture_are_numbers(weight):
    with pytest.raises(SettingsError, match="weight"):
        Mixture((Rated(), weight))


@pytest.mark.parametrize("strength", [float("nan"), float("inf"), "much", None])
def test_the_strength_of_a_long_tail_is_a_number(strength):
    with pytest.raises(SettingsError, match="strength"):
        LongTail(Rated(), strength)


def test_a_long_tail_is_of_a_score():
    with pytest.raises(SettingsError, match="score"):
        LongTail("liked")


@pytest.mark.parametrize("gains", [{7: 1.0}, {}, {5: float("nan")}, {5: "much"}])
def test_gains_are_numbers_for_ratings_of_the_scale(gains):
    with pytest.raises(OrdbmError):
        Gain(gains).of(FACTS)


def test_gain_needs_levels():
    with pytest.raises(SettingsError, match="needs levels, and these ratings are continuous"):
        Gain().of(CONTINUOUS)


# -- names ----------------------------------------------------------------------------------------


def test_names():
    assert {"liked", "rated", "mean", "gain"} <= set(NAMED)
    for name, score in NAMED.items():
        assert score_of(name) is score
        assert score_of(score) is score


@pytest.mark.parametrize("wrong", ["stars", 3, ["liked"], {"liked"}])
def test_an_unknown_name_lists_the_known_ones(wrong):
    with pytest.raises(SettingsError, match=r"is not known: use .*liked, rated, mean") as error:
        score_of(wrong)
    assert repr(wrong) in str(error.value)


def test_ways_without_presence():
    assert criterion_of("energy", has_presence=False) is None
    assert criterion_of(None, has_presence=False) == MeanRating()
    for has_presence in (False, True):
        for by in ("mean", MeanRating()):
            assert criterion_of(by, has_presence) == MeanRating()
    assert criterion_of(None, has_presence=True) == AtLeast()


# -- models without presence ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def absent_minded():
    rng = np.random.default_rng(0)
    ratings = Ratings(rng.integers(9, size=60), rng.integers(8, size=60), rng.integers(1, 6, 60))
    return OrdinalBM(hidden=2, members=1, item_links=2, epochs=1, presence=False).fit(ratings)


@pytest.mark.parametrize(
    "by", ["liked", "rated", "gain", AtLeast(3), Mixture((MeanRating(), 1.0))], ids=repr
)
def test_scores_that_need_presence_say_so(absent_minded, by):
    for ask in (absent_minded.recommend_lists, lambda by: absent_minded.recommend(1, by=by)):
        with pytest.raises(SettingsError, match=r"needs a model .*: OrdinalBM\(presence=True\)"):
            ask(by=by)


def test_lists_without_presence_have_no_reasons(absent_minded):
    listed = absent_minded.recommend(1, n=3)
    assert [(line.rated, line.because) for line in listed] == [(None, ())] * 3
    assert listed == absent_minded.recommend(1, n=3, by="mean")
    assert absent_minded.recommend_lists([1], n=3) == absent_minded.recommend_lists([1], 3, "mean")
    assert len(absent_minded.recommend(ratings={1: 5}, n=3, by="mean")) == 3


def test_the_command_line_and_python_have_the_same_default(absent_minded):
    """Without presence Python used to list by energy, and the command line by mean."""
    way = criterion_option(absent_minded, None, None, None)
    assert absent_minded.recommend(1, n=8) == absent_minded.recommend(1, n=8, by=way)
    energy = absent_minded.recommend(1, n=8, by="energy")
    assert [line.item for line in energy] != [line.item for line in absent_minded.recommend(1, n=8)]
