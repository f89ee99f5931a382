"""Several machines as one model: averages of what each says, learnt apart and kept together."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import ordbm
from newcomers import machines_for
from ordbm import OrdinalBM, PseudoLikelihood, Ratings
from ordbm.data.scale import ContinuousScale, RatingScale
from ordbm.data.standardiser import machine_ratings
from ordbm.errors import CheckpointError, ModelFileError, SettingsError
from ordbm.inference.distributions import LevelDistribution, NormalDistribution, mixture
from ordbm.inference.fitted import FittedModel
from ordbm.metrics.prediction import validation_scores
from ordbm.model.features import features
from ordbm.model.initialisation import member_seed
from ordbm.model.learners import learner_of
from ordbm.model.machine import Machine, new_side
from ordbm.model.neighbours import no_links
from ordbm.model.rules import SizeRules
from ordbm.model.settings import Settings
from ordbm.persistence.container import read_container, write_container
from ordbm.priors.counts import count_adaptive_precision
from ordbm.priors.fold_in_priors import FoldInPriors
from ordbm.training.alternation import Trainer
from ordbm.training.ensemble import Ensemble
from ordbm.training.side_pass import SideTraining
from plain_files import save_plain

HIDDEN = Settings().hidden_sizes
TINY = {"hidden": (3, 2), "item_links": 4, "link_support": 2, "epochs": 4, "members": 3}
GIVEN = {0: 5, 1: 1, 2: 4}
N_USERS, N_ITEMS = 30, 20
METHODS = ("exact", "mean_field")


def simulated(n_ratings=400, *, continuous=False):
    rng = np.random.default_rng(4)
    users, items = rng.integers(N_USERS, size=n_ratings), rng.integers(N_ITEMS, size=n_ratings)
    liking = rng.normal(size=N_USERS)[users] + rng.normal(size=N_ITEMS)[items]
    values = 3 + liking + rng.normal(0, 0.5, n_ratings)
    return Ratings(users, items, values if continuous else np.clip(np.round(values), 1, 5))


def fitted(kind="ordinal", **told):
    if kind == "continuous":
        return OrdinalBM(**TINY | told).fit(simulated(continuous=True))
    return OrdinalBM(kind, **TINY | told).fit(simulated())


@pytest.fixture(scope="module", params=["ordinal", "categorical", "gaussian", "continuous"])
def model(request):
    return fitted(request.param)


@pytest.fixture(scope="module")
def ordinal():
    return fitted()


def alone(model):
    """Each machine of a model as a model of its own."""
    state = model._state
    found = []
    for machine, by_direction in zip(
        model.machines, state.fold_in_priors.by_direction, strict=True
    ):
        one = model.clone()
        one._fitted = FittedModel(
            state.users, state.items, state.scale, state.standardiser, [machine], state.given, 1,
            fold_in_priors=state.fold_in_priors._replace(by_direction=[by_direction]),
        )  # fmt: skip
        found.append(one)
    assert len(found) == 3
    return found


def mean_of(model, ask):
    return np.mean([ask(one) for one in alone(model)], axis=0)


def bits(machine):
    sides = [side for side in machine.sides if side is not None]
    arrays = [machine.level_bias, *(array for side in sides for array in side.parameters)]
    arrays += [array for side in sides for array in (side.newcomer_bias, side.newcomer_input)]
    return [array.tobytes() for array in arrays]


def pairs():
    users, items = np.divmod(np.arange(N_USERS * N_ITEMS), N_ITEMS)
    return [*users.tolist(), "nobody", 3, "nobody"], [*items.tolist(), 4, "nothing", "nothing"]


# -- what is averaged -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_predictions_are_the_mean_of_what_the_machines_say(model, method):
    found = model.predict(*pairs(), method=method)
    expected = mean_of(model, lambda one: one.predict(*pairs(), method=method))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    if model.scale.is_continuous:
        return
    proba = model.predict_proba(*pairs(), method=method)
    each = [one.predict_proba(*pairs(), method=method) for one in alone(model)]
    np.testing.assert_allclose(proba, np.mean(each, axis=0), rtol=1e-9, atol=1e-12)
    assert np.abs(each[0] - each[1]).max() > 1e-4  # or an average would be no test


@pytest.mark.parametrize("ratings", [None, GIVEN], ids=["known", "newcomer"])
@pytest.mark.parametrize("by", ["energy", "mean"])
def test_lists_are_by_the_mean_of_what_the_machines_say(model, by, ratings):
    who = {"user": 7} if ratings is None else {"ratings": ratings}

    def told(one):
        return {line.item: (line.score, line.mean) for line in one.recommend(**who, n=99, by=by)}

    listed = model.recommend(**who, n=99, by=by)
    each = [told(one) for one in alone(model)]
    assert len(listed) > 5
    assert {line.item for line in listed} == set(each[0])
    for line in listed:
        score, mean = np.mean([one[line.item] for one in each], axis=0)
        assert line.score == pytest.approx(score, rel=1e-5, abs=1e-5)
        assert line.mean == pytest.approx(mean, rel=1e-6, abs=1e-6)
    assert [line.score for line in listed] == sorted((line.score for line in listed), reverse=True)


@pytest.mark.parametrize("by", ["energy", "mean"])
def test_all_users_lists_are_those_of_each(model, by):
    everyone = model.recommend_lists(n=5, by=by)
    for user in (0, 7, 12):
        one_by_one = [(line.item, line.score) for line in model.recommend(user, n=5, by=by)]
        assert [item for item, _ in everyone[user]] == [item for item, _ in one_by_one]
        np.testing.assert_allclose(
            [score for _, score in everyone[user]],
            [score for _, score in one_by_one],
            rtol=1e-5,
            atol=1e-5,
        )


def test_free_energy_is_the_mean(model):
    for users in (None, [3, "nobody"]):
        found = model.free_energy(users)
        expected = mean_of(model, lambda one, users=users: one.free_energy(users))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_factors_stand_side_by_side(model):
    for of, size in (("user", 3), ("item", 2)):
        for ids in (None, [3, "nobody", 0]):
            found = getattr(model, f"{of}_factors")(ids)
            assert found.shape[1] == 3 * size
            for number, one in enumerate(alone(model)):
                part = found[:, number * size : (number + 1) * size]
                np.testing.assert_array_equal(part, getattr(one, f"{of}_factors")(ids))


def test_a_continuous_scale_has_the_mean_and_deviation_of_the_mixture():
    scale = ContinuousScale(0.0, 1.0)
    centre, spread = np.array([[-1.0, 0.5], [2.0, 0.5], [0.3, 0.5]]), np.array([0.4, 1.5, 0.8])
    each = [
        NormalDistribution(scale, mean, np.full(2, s))
        for mean, s in zip(centre, spread, strict=True)
    ]
    found = mixture(each)
    for pair in range(2):

        def moment(power, centre=centre[:, pair]):
            density = norm(centre, spread)
            return quad(lambda x: x**power * density.pdf(x).mean(), -20, 20, epsabs=1e-12)[0]

        assert found.mean()[pair] == pytest.approx(moment(1), abs=1e-8)
        assert found.deviation()[pair] ** 2 == pytest.approx(moment(2) - moment(1) ** 2, rel=1e-7)


def test_averaging_leaves_what_is_averaged_alone():
    scale = RatingScale([1, 2])
    members = [LevelDistribution(scale, np.array([[p, 1 - p]])) for p in (0.25, 0.75, 0.8)]
    np.testing.assert_allclose(mixture(members).proba, [[0.6, 0.4]])
    assert [found.proba[0, 0] for found in members] == [0.25, 0.75, 0.8]
    assert mixture(members[:1]) is members[0]


def test_a_small_deviation_of_large_ratings_is_not_lost():
    far = NormalDistribution(ContinuousScale(0.0, 1.0), np.array([1e9]), np.array([1e-3]))
    assert mixture([far, far, far]).deviation()[0] == pytest.approx(1e-3)


def test_deviation_through_the_front_door():
    model = fitted("continuous")
    found = model.distribution(*pairs())
    each = [one.distribution(*pairs()) for one in alone(model)]
    square = np.mean([one.deviation() ** 2 + one.mean() ** 2 for one in each], axis=0)
    np.testing.assert_allclose(found.deviation(), np.sqrt(square - found.mean() ** 2), rtol=1e-6)
    assert (found.deviation() ** 2 >= np.min([one.deviation() for one in each], axis=0) ** 2).all()


# -- several ratings at once ----------------------------------------------------------------------


def test_a_joint_prediction_is_the_mean_of_the_machines(ordinal):
    items = [1, 2, 5]
    found = ordinal.predict_joint(0, items)
    each = [one.predict_joint(0, items) for one in alone(ordinal)]
    assert found.exact
    assert all(np.array_equal(found.values, one.values) for one in each)
    np.testing.assert_allclose(found.weight, np.mean([one.weight for one in each], 0), rtol=1e-9)
    for item in items:  # by itself each is what `predict_proba` says
        marginal = ordinal.predict_joint(0, item).marginals(ordinal.scale.values)[0]
        np.testing.assert_allclose(marginal, ordinal.predict_proba(0, item)[0], rtol=1e-4)


def test_draws_are_shared_out_among_the_machines(ordinal):
    items, draws = [1, 2, 5], 20_000
    exact = ordinal.predict_joint(0, items)
    drawn = ordinal.predict_joint(0, items, limit=0, draws=draws)
    assert not drawn.exact
    assert draws <= len(drawn.values) < draws + 3
    assert drawn.weight.sum() == pytest.approx(1)
    for least in (2, 4):
        both = exact.probability((exact.values >= least).all(axis=1))
        # Five standard errors, as if only one draw in ten counted.
        error = 5 * np.sqrt(both * (1 - both) / (draws / 10))
        assert abs(drawn.probability((drawn.values >= least).all(axis=1)) - both) < error


def test_joint_moments_of_gaussian_machines_are_the_mixture_s():
    model = fitted("gaussian", item_links=0)
    found = model.predict_joint(0, [1, 2])
    each = [one.predict_joint(0, [1, 2]) for one in alone(model)]
    mean = np.mean([one.mean() for one in each], axis=0)
    np.testing.assert_allclose(found.mean(), mean, rtol=1e-9)
    square = np.mean([one.covariance() + np.outer(one.mean(), one.mean()) for one in each], axis=0)
    np.testing.assert_allclose(found.covariance(), square - np.outer(mean, mean), atol=1e-9)


# -- learning -------------------------------------------------------------------------------------


def test_the_first_member_is_the_machine_that_learns_alone():
    for kind in ("ordinal", "gaussian"):
        several, single = fitted(kind, seed=5), fitted(kind, seed=5, members=1)
        assert bits(several.machines[0]) == bits(single.machines[0])
        assert [len(several.machines), len(single.machines)] == [3, 1]


def test_members_differ_from_each_other():
    model = fitted()
    couplings = [machine.user_side.parameters.coupling for machine in model.machines]
    for number, coupling in enumerate(couplings):
        for other in couplings[:number]:
            assert np.abs(coupling - other).max() > 1e-3
    seeds = {member_seed(seed, number) for seed in range(50) for number in range(8)}
    assert len(seeds) == 50 * 8
    assert member_seed(7, 0) == 7  # the model's own


@pytest.mark.parametrize("learner", ["pl", "cd"])
@pytest.mark.parametrize("kind", ["ordinal", "gaussian"])
def test_bits_do_not_depend_on_threads(kind, learner):
    models = [fitted(kind, learner=learner, epochs=2, threads=threads) for threads in (1, 2, 3)]
    told = [[bits(machine) for machine in model.machines] for model in models]
    assert told[0] == told[1] == told[2]
    objectives = [[record.objective for record in model.history] for model in models]
    assert objectives[0] == objectives[1] == objectives[2]


def test_the_objective_is_the_mean_of_the_members():
    ratings = simulated()
    orientations = machine_ratings(ratings, None)

    def machines():
        table = features("ordinal", 5)
        return [
            Machine(
                table, np.zeros(5, np.float32), *(
                    new_side(
                        table, no_links(size), 2, has_bias=True, spread=0.1,
                        rng=np.random.default_rng(seed), dtype=np.dtype("float32"),
                    )
                    for size in (ratings.n_items, ratings.n_users)
                )
            )
            for seed in range(3)
        ]  # fmt: skip

    learner, shares = PseudoLikelihood(), []
    found = Ensemble(machines(), orientations, learner, seed=2, threads=2).epoch(0, shares.append)
    each = [
        Trainer(machine, orientations, learner, member_seed(2, number), is_new=True).epoch(0)
        for number, machine in enumerate(machines())
    ]
    assert found == pytest.approx(np.mean(each), rel=1e-12)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("learner", "is_new", "expected"),
    [
        (PseudoLikelihood(), True, 0),
        (PseudoLikelihood(), False, 1),
        (PseudoLikelihood(other_side="mean_field_with_own"), True, 4),
    ],
)
def test_ratings_are_scored_by_the_other_side_only_where_it_has_learnt(
    monkeypatch, learner, is_new, expected
):
    calls = []
    monkeypatch.setattr(SideTraining, "fill_scores", lambda *told: calls.append(told))
    ratings = simulated()
    model = OrdinalBM(**TINY | {"epochs": 0, "members": 1}).fit(ratings)
    trainer = Trainer(model.machines[0], machine_ratings(ratings, None), learner, is_new=is_new)
    for epoch in range(2):
        trainer.epoch(epoch)
    assert len(calls) == expected


def test_a_checkpoint_is_of_so_many_members(tmp_path):
    ratings = simulated()
    OrdinalBM(**TINY).fit(ratings, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="members 3 then, 2 now"):
        OrdinalBM(**TINY | {"members": 2}).fit(ratings, checkpoint=tmp_path, resume=True)
    said, unsaid = ({**TINY, "members": members} for members in (SizeRules().most_members, None))
    OrdinalBM(**said).fit(ratings, checkpoint=tmp_path / "said")
    longer = {**unsaid, "epochs": 5}
    model = OrdinalBM(**longer).fit(ratings, checkpoint=tmp_path / "said", resume=True)
    assert len(model.history) == 5  # what a default comes to is the same as saying it


@pytest.mark.parametrize("hidden", [(25, 100), (100, 400)])
def test_a_gaussian_machine_with_many_hidden_units_does_not_blow_up(hidden):
    ratings = simulated(900, continuous=True)
    train, test = ordbm.hold_out(ratings, 0.2)
    model = OrdinalBM(hidden=hidden, members=1, epochs=20).fit(train)
    users = [test.users[user] for user in test.user_codes]
    items = [test.items[item] for item in test.item_codes]
    found = validation_scores(model.distribution(users, items, "mean_field"), test)
    alone = -norm(train.values.mean(), train.values.std()).logpdf(test.values).mean()
    assert found["log_loss"] < alone
    assert found["rmse"] < test.values.std()
    curvature = features("gaussian", 1).curvature
    assert [curvature(n) for n in (2, 25, 100)] == [5.0, 5.0, 20.0]
    assert features("ordinal", 5).curvature(100) == 1.0
    tightness = features("gaussian", 1).tightness
    assert [tightness(n) for n in (2, 25, 100)] == [1.0, 25 / 8, 12.5]
    assert features("ordinal", 5).tightness(100) == 1.0


# -- settings that follow the ratings -------------------------------------------------------------


def test_what_is_not_said_follows_the_number_of_ratings():
    def resolved(n, levels=(0, 0), **told):
        found = Settings(**told).resolved(n, levels)
        return found.hidden, found.members

    twice = (2 * HIDDEN[0], 2 * HIDDEN[1])
    assert resolved(0) == (HIDDEN, 8)
    assert resolved(SizeRules().many_ratings - 1) == (HIDDEN, 8)
    assert resolved(SizeRules().many_ratings) == (twice, 8)
    assert resolved(2_000_000) == (twice, 8)
    assert resolved(2_000_001) == (twice, 7)
    assert resolved(10_000_000) == (twice, 1)
    assert resolved(10**9) == (twice, 1)
    assert resolved(10**9, hidden=7, members=5) == (7, 5)
    assert resolved(10**9, hidden=0) == (0, 1)
    # 25 units for each item's levels, 100 for each user's: 300 million couplings in all.
    assert resolved(1, levels=(500_000, 250_000)) == (HIDDEN, 8)
    assert resolved(1, levels=(500_001, 250_000)) == (HIDDEN, 7)
    assert resolved(1, levels=(0, 1_000_000), hidden=3) == (3, 8)
    assert resolved(1, levels=(0, 10**9)) == (HIDDEN, 1)
    assert resolved(1, levels=(0, 10**9), sides="user") == (HIDDEN, 8)
    assert resolved(1, levels=(0, 10**9), members=5) == (HIDDEN, 5)
    other = Settings(sides="user", epochs=3, seed=9, item_links=2)
    resolved_other = other.resolved(10)
    assert (resolved_other.sides, resolved_other.epochs, resolved_other.seed) == ("user", 3, 9)
    assert resolved_other.item_links == 2
    assert other.members is None  # it is left as it was


def test_models_have_what_follows_the_number_of_ratings(monkeypatch, tmp_path):
    ratings = simulated(40)
    rules = SizeRules(many_ratings=len(ratings))
    model = OrdinalBM(epochs=0, item_links=0, sides="user", size_rules=rules).fit(ratings)
    assert [len(model.machines), model.user_factors().shape[1]] == [8, 8 * 50]
    assert repr(model).endswith("hidden=(50, 200), item_links=0, user_links=0; fitted, 8 machines)")
    model.save(tmp_path / "a")
    # A later version may have other rules: the file knows what it holds.
    monkeypatch.setattr(Settings, "resolved", None)
    loaded = ordbm.load(tmp_path / "a")
    np.testing.assert_array_equal(loaded.user_factors(), model.user_factors())
    assert loaded.get_params() == model.get_params()


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "3"])
def test_members_are_counted_in_whole_numbers(wrong):
    with pytest.raises(SettingsError, match="members="):
        OrdinalBM(members=wrong)


# -- sparse sides ---------------------------------------------------------------------------------


def test_couplings_are_tightened_by_what_columns_lack():
    learner = PseudoLikelihood(coupling_precision=3.0, ratings_per_unit=0.5)

    def factor(*counts):
        return count_adaptive_precision(learner.priors, np.array(counts), 40) / 3.0

    assert factor(20, 20, 20) == 1.0
    assert factor(500, 20) == 1.0
    assert factor(10, 10) == pytest.approx(1 + learner.tightening / 3)
    assert factor(16) == pytest.approx(1 + learner.tightening / 12)
    assert factor(5) == pytest.approx(1 + learner.tightening)
    assert factor(0, 0, 16) == factor(16)  # columns without ratings do not count
    assert factor() == factor(0) == factor(1) == factor(5)  # as tight as it gets
    by_count = [factor(n, n, 2 * n) for n in range(1, 40)]
    assert by_count == sorted(by_count, reverse=True)
    assert factor(2, 18) == pytest.approx(1 + learner.tightening * (20 / 164**0.5 - 1) / 3)
    enough = PseudoLikelihood(ratings_per_unit=0).priors
    assert count_adaptive_precision(enough, np.array([1]), 40) == 8.0
    assert count_adaptive_precision(learner.priors, np.array([10]), 20) == 3.0
    assert count_adaptive_precision(learner.priors, np.array([10]), 20, 4.0) == 12.0
    assert count_adaptive_precision(learner.priors, np.array([1]), 20, 4.0) == 3.0 * 12.0


@pytest.mark.parametrize("sides", ["user", "item"])
def test_learning_and_newcomers_hold_couplings_that_tight(sides):
    ratings = simulated(200)
    by_row, by_column = ratings.by_user, ratings.by_item
    if sides == "item":
        by_row, by_column = by_column, by_row
    sparse = PseudoLikelihood(ratings_per_unit=10.0)
    precision = count_adaptive_precision(
        sparse.priors, np.diff(by_column.start), TINY["hidden"][sides == "item"]
    )
    assert precision > 2 * sparse.coupling_precision
    same = PseudoLikelihood(ratings_per_unit=0.0, coupling_precision=precision)
    loose = PseudoLikelihood(ratings_per_unit=0.0)
    models = [
        OrdinalBM(**TINY | {"members": 1}, sides=sides, learner=learner).fit(ratings)
        for learner in (sparse, same, loose)
    ]
    found, expected, other = (bits(model.machines[0]) for model in models)
    assert found == expected
    assert found != other
    if sides == "item":  # where a newcomer's own couplings are fitted
        state, asked = models[0]._fitted, []
        for learner in (sparse, same, loose):
            state.fold_in_priors = FoldInPriors.of(state.machines, state.ratings, learner.priors, 1)
            asked += machines_for(state, GIVEN)
        own = [one.machine.item_side.parameters.coupling.tolist() for one in asked]
        assert own[0] == own[1]
        assert own[0] != own[2]


# -- scales of few levels --------------------------------------------------------------------------


def on_few_levels(n_levels):
    five = simulated()
    level = np.minimum(five.by_user.level, n_levels - 1)
    user = np.repeat(np.arange(five.n_users), np.diff(five.by_user.start))
    return Ratings(user, five.by_user.column, level + 1)


@pytest.mark.parametrize("n_levels", [2, 3, 4])
def test_priors_are_tighter_and_steps_shorter_on_few_levels(n_levels):
    ratings, told = on_few_levels(n_levels), TINY | {"members": 2}
    plain = PseudoLikelihood()
    model = OrdinalBM(**told).fit(ratings)
    assert plain.for_scale(5) is plain.for_scale(10) is plain.for_scale(1) is plain

    def asked(model):
        found = model.recommend(ratings={0: n_levels, 3: 1}, by="mean")
        return [one.score for one in found]

    expected = plain.for_scale(n_levels)
    assert expected.coupling_precision / plain.coupling_precision == 6 - n_levels
    assert expected.bias_precision / plain.bias_precision == 6 - n_levels
    assert expected.rate == pytest.approx(plain.rate / np.sqrt(6 - n_levels))
    same = OrdinalBM(**told, learner=replace(expected, enough_levels=1)).fit(ratings)
    other = OrdinalBM(**told, learner=PseudoLikelihood(enough_levels=1)).fit(ratings)
    answers = [asked(same), asked(other)]
    assert [bits(one) for one in model.machines] == [bits(one) for one in same.machines]
    assert bits(model.machines[0]) != bits(other.machines[0])
    assert asked(model) == answers[0] != answers[1]


def test_a_learner_without_priors_stays_without_them_on_few_levels():
    learner = learner_of("cd")
    assert learner.for_scale(2) is learner


# -- files ----------------------------------------------------------------------------------------


def test_links_are_stored_once(tmp_path):
    sizes, names = {}, {}
    for members in (1, 3):
        path = tmp_path / f"{members}"
        model = fitted(members=members, user_links=3, item_links=10)
        save_plain(model, path)
        sizes[members] = path.stat().st_size
        names[members] = read_container(path, "model")[1]
    assert [name for name in names[3] if "link_low" in name] == [
        name for name in names[1] if "link_low" in name
    ]
    parameters = sum(map(len, bits(model.machines[0])))
    # Each further machine has its parameters and, in the head of the file, their names.
    assert 2 * parameters <= sizes[3] - sizes[1] < 2 * parameters + 2 * 14 * 120


@pytest.fixture
def stored(ordinal, tmp_path):
    save_plain(ordinal, tmp_path / "model")
    header, arrays = read_container(tmp_path / "model", "model")

    def forged(change):
        change(header, arrays)
        path = Path(tmp_path / "forged")
        write_container(path, "model", header, arrays)
        return ordbm.load(path)

    return forged


def test_what_is_stored_unchanged_loads(stored, ordinal):
    loaded = stored(lambda *_: None)
    for mine, other in zip(loaded.machines, ordinal.machines, strict=True):
        assert bits(mine) == bits(other)
    assert loaded.machines[0].user_side.links is loaded.machines[2].user_side.links
    assert repr(loaded) == repr(ordinal)


@pytest.mark.parametrize("count", [0, 1, 2, 4, 10**12, -3, True, 3.0, "3", None])
def test_a_forged_number_of_machines_is_refused(stored, count):
    with pytest.raises(ModelFileError, match="does not hold a model"):
        stored(lambda header, _: header.update(members=count))


@pytest.mark.parametrize("hidden", [[3], [2, 3], [3, 2, 1], 3, [3, 10**12], [-3, 2], "32", None])
def test_forged_sizes_are_refused(stored, hidden):
    with pytest.raises(ModelFileError, match="does not hold a model"):
        stored(lambda header, _: header.update(hidden=hidden))


@pytest.mark.parametrize(
    "name", ["member2.level_bias", "member1.user_side.coupling", "member2.item_side.hidden_bias"]
)
def test_a_machine_that_lacks_an_array_is_refused(stored, name):
    with pytest.raises(ModelFileError, match=name):
        stored(lambda _, arrays: arrays.pop(name))


def test_a_machine_out_of_range_is_refused(stored):
    def spoil(_, arrays):
        arrays["member1.user_side.coupling"] = arrays["member1.user_side.coupling"] * np.nan

    with pytest.raises(ModelFileError, match="out of range"):
        stored(spoil)
