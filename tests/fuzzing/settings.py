"""Settings: constructors told odd values, and now and then a fit of tiny ratings by them."""

import random
import warnings
from dataclasses import fields, is_dataclass
from functools import cache

import numpy as np

from fuzzing.kinds import READ, Input, Kind
from ordbm import ContrastiveDivergence, OrdinalBM, PseudoLikelihood, Ratings
from ordbm.model.learners import PARTS
from ordbm.model.settings import Settings

ODD = [
    0, 1, 2, 3, -1, 0.5, 1.5, 1e-9, 1e9, 1e14, 1e16, 1e300, 5e-324, -0.0, float("nan"),
    float("inf"), -float("inf"), None, True, False, "", "x", "ordinal", "5", [], (), {}, (1, 2),
    [3, 4], (1, 2, 3), (-1, 2), 10**9, 10**20, 10**5000, 2**62, 1j, b"1", np.float32(0.5),
    np.int64(3), np.array([1, 2]), np.nan, object, "é" * 500,
]  # fmt: skip
CHOICES = {
    "features": ["ordinal", "categorical", "gaussian"],
    "sides": ["user", "item", "joint"],
    "learner": ["pl", "cd", "structured"],
    "dtype": ["float32", "float64"],
    "preset": ["default", "paper"],
    "other_side": ["exact", "mean_field_with_own", "sample"],
}
SMALL = {"hidden": 2, "members": 1, "epochs": 1, "threads": 1}
# What takes long for a reason is asked for little: epochs, rounds, threads.
BOUNDED = {"epochs": [0, 1, 2], "threads": [1, 2], "patience": [0, 1], "members": [1, 2, 10**9]}
LEARNT = ["features", "sides", "item_links", "user_links", "link_support", "seed", "presence"]


@cache
def names_of(kind) -> list[str]:
    if is_dataclass(kind) and kind is not PseudoLikelihood and kind is not ContrastiveDivergence:
        return [one.name for one in fields(kind) if one.init]
    return [*kind().settings(), *PARTS]


def odd_value(state: random.Random, name: str):
    if name in CHOICES and state.random() < 0.7:
        return state.choice(CHOICES[name])
    return state.choice(ODD)


def odd_settings(state: random.Random) -> Input:
    learner = state.choice([None, None, PseudoLikelihood, ContrastiveDivergence])
    names = names_of(learner or Settings)
    told = {
        name: odd_value(state, name) for name in state.sample(names, state.choice([1, 1, 2, 5]))
    }
    return Input(told=(learner, told))


def judge_settings(given: Input, _) -> str:
    learner, told = given.told
    one = OrdinalBM(learner=learner(**told)) if learner else OrdinalBM(**told)
    assert repr(one)
    assert type(one)(**one.get_params()).get_params().keys() == one.get_params().keys()
    return READ


NUMBERS = [0, 1e-9, 0.1, 0.5, 1, 3, 50, 1e4, 1e9, 1e14]
TUNED = [
    "rate", "decay", "momentum", "per_row", "coupling_curvature", "bias_curvature", "spread",
    "hidden_curvature", "link_curvature", "coupling_precision", "bias_precision", "hidden_spread",
    "hidden_precision", "link_precision", "count_weight", "response_style_share", "mean_weight",
    "noise_weight", "ratings_per_unit", "tightening", "scarcity", "unit_smoothing",
    "shared_potential", "leave_out", "column_ratings", "co_occurrence", "block_rows",
    "enough_levels", "residual_unit", "own_unit_weight",
]  # fmt: skip
RATED = [
    [1, 2, 3, 4, 5], [0, 1], [1], [1, 2.5, 10], [-1e149, 1e149], [1e-140, 2e-140], [-5, 1e12],
    [10**15, 10**15 + 1, 10**15 + 2], [-(2**63), 2**63 - 1], [1e9, 1e9 + 1],
]  # fmt: skip


def odd_fit(state: random.Random) -> Input:
    told = {"features": state.choice(CHOICES["features"]), "sides": state.choice(CHOICES["sides"])}
    for name in state.sample([*LEARNT, *BOUNDED, "hidden", "link_shrinkage", "dtype"], 3):
        told[name] = state.choice(BOUNDED.get(name) or [0, 1, 2, 3, 5, True, 10**9])
    told["dtype"] = state.choice(["float32"] * 9 + ["float64"])
    if "hidden" in told:
        told["hidden"] = state.choice([0, 1, (0, 2), (3, 0), 10**9, 9])
    told["presence"] = state.random() < 0.2
    told["features"], told["sides"] = (
        state.choice(CHOICES["features"]),
        state.choice(CHOICES["sides"]),
    )
    tuned = {name: state.choice(NUMBERS) for name in state.sample(TUNED, state.choice([0, 1, 3]))}
    for name in ("unit_smoothing", "shared_potential", "leave_out", "residual_unit"):
        if name in tuned:
            tuned[name] = state.random() < 0.5
    rated = state.choice(RATED)
    scale = "continuous" if told["features"] == "gaussian" and state.random() < 0.4 else None
    seed, n = state.getrandbits(32), state.choice([1, 2, 30, 30])
    return Input(told=({**SMALL, **told}, tuned, state.random() < 0.1, rated, scale, seed, n))


def judge_fit(given: Input, _) -> str:
    """Refused, or finite predictions that add up."""
    told, tuned, contrastive, rated, scale, seed, n = given.told
    rng = np.random.default_rng(seed)
    users, items = rng.integers(6, size=n), rng.integers(5, size=n)
    ratings = Ratings(users, items, [rated[k] for k in rng.integers(len(rated), size=n)], scale)
    if contrastive:
        tuned = {name: value for name, value in tuned.items() if name != "leave_out"}
    learner = (ContrastiveDivergence if contrastive else PseudoLikelihood)(**tuned)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = OrdinalBM(learner=learner, **told).fit(ratings)
        found = model.distribution(users, items)
        mean, deviation = found.mean(), found.deviation()
        assert np.isfinite(mean).all(), mean
        assert np.isfinite(deviation).all(), deviation
        if not model.scale.is_continuous:
            np.testing.assert_allclose(found.proba.sum(axis=1), 1, rtol=1e-5)
            low, high = min(rated), max(rated)
            slack = 1e-4 * (abs(low) + abs(high))
            assert (mean >= low - slack).all(), mean
            assert (mean <= high + slack).all(), mean
        lists = model.recommend_lists(n=3, by="mean")
        scores = np.array([score for lines in lists.values() for _, score in lines])
        assert np.isfinite(scores).all(), scores
        if not model.scale.is_continuous:
            assert ((scores >= low - slack) & (scores <= high + slack)).all(), scores
    return READ


KINDS = [
    Kind("settings", 98, odd_settings, judge_settings),
    Kind("fits of tiny ratings", 3, odd_fit, judge_fit),
]
