"""Progressive validation: each rating is predicted before it is learnt."""

import math

import numpy as np
import pytest

import ordbm
from cli_runs import SMALL, answer, fault, json_answer
from ordbm import OrdinalBM, Ratings, progressive_validation
from ordbm.baselines import Bias
from ordbm.errors import NotFittedError, RatingsError, SettingsError

TINY = {"hidden": (2, 3), "members": 2, "item_links": 3, "epochs": 3, "presence": False}
TINY["context"] = False


def rows(n=260, n_users=14, n_items=24, seed=0):
    """(user, item, rating, time) in no order, several of a user and second."""
    rng = np.random.default_rng(seed)
    pair = rng.permutation(n_users * n_items)[:n]
    user, item = pair // n_items, pair % n_items
    liking = rng.normal(size=n_users)[user] + rng.normal(size=n_items)[item]
    rating = np.clip(np.round(3 + liking), 1, 5).astype(int)
    time = 40 * user + rng.integers(0, 60, n) + rng.random(n)  # people come one after the other
    return list(zip(user.tolist(), item.tolist(), rating.tolist(), time.tolist(), strict=True))


def as_told(some):
    user, item, rating, time = zip(*some, strict=True)
    return Ratings(user, item, rating, scale=[1, 2, 3, 4, 5], times=time)


class Slow:
    """The obvious twin: lists of rows, one group after the other."""

    def __init__(self, some, model, first, batch, refit=None):
        order = list(dict.fromkeys(user for user, *_ in as_rows(as_told(some))))
        some = sorted(as_rows(as_told(some)), key=lambda r: (math.floor(r[3]), order.index(r[0])))
        groups = []
        for row in some:
            key = row[0], math.floor(row[3])
            if not groups or groups[-1][0] != key:
                groups.append((key, []))
            groups[-1][1].append(row)
        learnt, groups = [], [group for _, group in groups]
        while len(learnt) < first * len(some):
            learnt += groups.pop(0)
        model.fit(as_told(learnt))
        knew = {row[0] for row in learnt}, {row[1] for row in learnt}
        earlier, taught = list(learnt), len(learnt)
        self.found = []
        while groups:
            together = []
            while groups and len(together) < batch:
                group = groups.pop(0)
                for user, item, rating, _ in group:
                    had = sum(row[0] == user for row in earlier)
                    parts = {"new users": user not in knew[0], "new items": item not in knew[1]}
                    parts["known"] = not any(parts.values())
                    parts["first 5"] = had < 5
                    self.found.append((model.predict_proba([user], [item])[0], rating, parts))
                earlier += group
                together += group
            learnt += together
            if hasattr(model, "partial_fit"):
                model.partial_fit(as_told(together))
                if refit is not None and model.growth.drift >= refit:
                    model.refit()
            elif len(learnt) - taught >= refit * taught:
                model.fit(as_told(learnt))
                taught = len(learnt)

    def scores(self, part=None):
        chosen = [(proba, rating) for proba, rating, parts in self.found if not part or parts[part]]
        levels = range(1, 6)
        means = [sum(p * s for p, s in zip(proba, levels, strict=True)) for proba, _ in chosen]
        rating = [r for _, r in chosen]
        return {
            "rmse": math.sqrt(np.mean([(m - r) ** 2 for m, r in zip(means, rating, strict=True)])),
            "mae_mean": np.mean([abs(m - r) for m, r in zip(means, rating, strict=True)]),
            "log_loss": np.mean([-math.log(proba[r - 1]) for proba, r in chosen]),
            "mae_median": np.mean(
                [abs(1 + sum(np.cumsum(proba) < 0.5) - r) for proba, r in chosen]
            ),
        }


def as_rows(ratings):
    return [
        (ratings.users[user], ratings.items[item], int(value), time)
        for user, item, value, time in zip(
            ratings.user_codes, ratings.item_codes, ratings.values, ratings.times, strict=True
        )
    ]


@pytest.mark.filterwarnings("ignore::ordbm.errors.UnknownIdsWarning")
@pytest.mark.parametrize(
    ("make", "first", "batch", "refit"),
    [
        (lambda: OrdinalBM(**TINY), 0.3, 1, None),
        (lambda: OrdinalBM(**TINY), 0.5, 12, None),
        (lambda: OrdinalBM(**TINY), 0.4, 5, 0.6),
        (Bias, 0.8, 1, 0),
        (Bias, 0.2, 7, 0.3),
    ],
)
def test_it_is_what_the_slow_twin_finds(make, first, batch, refit):
    found = progressive_validation(
        make(), as_told(rows()), first=first, batch=batch, refit=refit, name="it"
    )
    slow = Slow(rows(), make(), first, batch, refit)
    assert len(found) == len(slow.found) == len(rows()) - found.n_learnt
    for name, score in slow.scores().items():
        assert found.scores[name] == pytest.approx(score, abs=1e-6)
    for part, scores in found.part_scores.items():
        for name, score in slow.scores(part).items():
            assert scores[name] == pytest.approx(score, abs=1e-6), (part, name)
        assert found.parts[part].sum() == sum(parts[part] for *_, parts in slow.found)


def test_the_order_of_rows_does_not_matter():
    """Nor how ratings of one second stand: they are predicted together."""
    apart = [(user, item, rating, time + 40 * user) for user, item, rating, time in rows()]
    one, other = (
        progressive_validation(Bias(), as_told(some), first=0.8, refit=0)
        for some in (apart, sorted(apart))
    )
    for name in ("rmse", "mae_mean"):  # where people come in another order, spreads differ
        assert one.scores[name] == pytest.approx(other.scores[name])
    np.testing.assert_array_equal(one.times // 1, other.times // 1)


def test_no_rating_reaches_the_model_before_it_is_asked():
    """What comes later, whatever it is, moves no earlier loss."""
    late = sorted(rows(), key=lambda row: row[3])
    changed = late[:-30] + [(user, item, 6 - r, time) for user, item, r, time in late[-30:]]
    one, other = (
        progressive_validation(OrdinalBM(**TINY), as_told(some), first=0.7)
        for some in (late, changed)
    )
    n = len(one) - 30
    np.testing.assert_array_equal(one.losses["log_loss"][:n], other.losses["log_loss"][:n])
    assert one.scores != other.scores


def test_a_fitted_model_is_taken_as_it_is():
    late = sorted(rows(), key=lambda row: row[3])
    apart = progressive_validation(
        OrdinalBM(**TINY).fit(as_told(late[:150])), as_told(late[150:]), batch=10
    )
    assert apart.n_learnt == 0
    assert len(apart) == len(late) - 150
    assert apart.parts["first 5"].sum() <= apart.parts["new users"].sum()


def test_a_curve_goes_to_the_end():
    found = progressive_validation(Bias(), as_told(rows()), first=0.3, refit=0.1)
    curve = found.curve(7)
    assert len(curve) == 7
    assert curve[-1]["ratings"] == len(found)
    assert curve[-1]["so_far"] == found.scores
    assert curve[0]["so_far"] == curve[0]["since"]
    mean = [point["since"]["mae_mean"] for point in curve]
    size = np.diff([0, *(point["ratings"] for point in curve)])
    assert np.average(mean, weights=size) == pytest.approx(found.scores["mae_mean"])
    told = found.to_dict()
    assert told["n_ratings"] == len(found)
    np.testing.assert_array_equal(as_told(rows()).times[found.order], found.times)
    assert "rmse" in repr(found)
    assert "new users" in repr(found)


@pytest.mark.parametrize(
    ("scale", "value"),
    [("continuous", lambda r: r + 0.25), (list("abcde"), lambda r: "abcde"[r - 1])],
)
def test_other_scales(scale, value):
    user, item, rating, time = zip(*rows(), strict=True)
    ratings = Ratings(user, item, [value(r) for r in rating], scale=scale, times=time)
    found = progressive_validation(OrdinalBM(**TINY), ratings, first=0.5, batch=20)
    assert np.isfinite(list(found.scores.values())).all()


def test_what_times_tell_is_used_where_it_was_learnt():
    """The model is asked with times, as `evaluate` does."""
    late = sorted(rows(), key=lambda row: row[3])
    model = OrdinalBM(**{**TINY, "context": True}).fit(as_told(late[:-1]))
    if model.context is None:
        pytest.fail("times were given")
    user, item, rating, time = late[-1]
    expected = model.log_probability([user], [item], [rating], at=[time])[0]
    found = progressive_validation(model, as_told(late[-1:]))
    assert found.losses["log_loss"][0] == pytest.approx(-expected)


def test_what_cannot_be_is_an_error():
    with pytest.raises(RatingsError, match="needs times"):
        progressive_validation(Bias(), [(1, 2, 3)], first=0.5, refit=0)
    with pytest.raises(SettingsError, match="no partial_fit"):
        progressive_validation(Bias(), as_told(rows()), first=0.5)
    with pytest.raises(SettingsError, match="no partial_fit"):
        progressive_validation(Bias().fit(as_told(rows())), as_told(rows()), refit=0)
    with pytest.raises(SettingsError, match="first must be"):
        progressive_validation(Bias(), as_told(rows()), first=1.0, refit=0)
    with pytest.raises(SettingsError, match="batch"):
        progressive_validation(Bias(), as_told(rows()), first=0.5, refit=0, batch=0)
    with pytest.raises(NotFittedError):
        progressive_validation(OrdinalBM(**TINY), as_told(rows()))
    with pytest.raises(RatingsError, match="no ratings are left"):
        progressive_validation(Bias(), as_told(rows(2)), first=0.9, refit=0)


def test_it_is_a_public_name():
    assert ordbm.progressive_validation is progressive_validation


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("stream") / "ratings.csv"
    lines = ["user,item,rating,timestamp", *(",".join(map(str, row)) for row in rows())]
    path.write_text("\n".join(lines))
    return path


def test_the_command_line_says_the_same(file):
    """--split stream: of the earliest 80 % the machine learns, then as it goes."""
    command = ("evaluate", file, *SMALL, "--split", "stream", "--test-fraction", "0.3")
    one = json_answer(*command, "--batch", "10", "--compare", "bias", "--json")["models"]
    assert [found["model"] for found in one] == ["OrdinalBM", "bias"]
    ratings = ordbm.read_ratings(file)
    bias = progressive_validation(Bias(), ratings, first=0.7, batch=10, refit=0.05, name="bias")
    for name in ("model", "n_ratings", "n_learnt", "scores", "parts", "curve"):
        assert one[1][name] == bias.to_dict()[name]
    assert one[0]["n_ratings"] == one[1]["n_ratings"]
    text = answer(*command)
    assert "each predicted before it was learnt" in text
    assert "new users" in text
    assert "first 5" in answer(*command, "--compare", "global")


def test_options_without_effect_on_a_stream_are_refused(file):
    stream = ("evaluate", file, *SMALL, "--split", "stream")
    for option in (("--validation", "0.1"), ("--lists", "5"), ("--split-seed", "1")):
        assert "no effect with --split stream" in fault(*stream, *option)
    assert "no effect without --split stream" in fault("evaluate", file, *SMALL, "--batch", "5")
