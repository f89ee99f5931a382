"""Tuning: a search that never does worse than no search, keeps its trials, and can be stopped."""

import builtins
import sqlite3
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import ordbm
from ordbm import tuning
from ordbm.errors import CostError, DivergedError, SettingsError
from ordbm.model.settings import Settings
from ordbm.tuning import tune

FIXED = {"hidden": 3, "members": 2, "item_links": 0, "epochs": 3}


@pytest.fixture(scope="module")
def ratings():
    random = np.random.default_rng(0)
    pairs = random.choice(40 * 25, 500, replace=False)
    taste = random.normal(size=40)[pairs // 25] * random.normal(size=25)[pairs % 25]
    return ordbm.Ratings(
        pairs // 25, pairs % 25, np.clip(np.round(3 + taste), 1, 5), scale=[1, 2, 3, 4, 5]
    )


def test_the_first_trial_is_no_search_at_all(ratings):
    told = []
    found = tune(ratings, trials=3, callback=told.append, **FIXED)
    learn, held_out = ordbm.hold_out(ratings, 0.2, seed=0)
    plain = ordbm.OrdinalBM(**FIXED).fit(learn, validation=held_out)
    best = min(record.validation["log_loss"] for record in plain.history)
    assert told[0].score == found.unsearched_score == pytest.approx(best)
    assert found.score == min(trial.score for trial in told) <= found.unsearched_score
    assert [trial.number for trial in told] == [1, 2, 3]
    assert found.trials == 3
    assert not found.interrupted


def test_a_trial_is_of_one_machine_unless_members_are_fixed(ratings):
    told = []
    fixed = {**FIXED, "members": None}
    found = tune(ratings, trials=2, callback=told.append, **fixed)
    learn, held_out = ordbm.hold_out(ratings, 0.2, seed=0)
    one = ordbm.OrdinalBM(**FIXED | {"members": 1}).fit(learn, validation=held_out)
    best = min(record.validation["log_loss"] for record in one.history)
    assert told[0].score == pytest.approx(best)
    assert found.model().settings.members is None  # as many as ever
    assert len(found.model().fit(ratings).machines) == 8


def test_the_best_settings_give_the_best_score(ratings):
    """Its epochs too: learning for so long without validation ratings is the same machine."""
    found = tune(ratings, trials=4, metric="rmse", **FIXED)
    learn, held_out = ordbm.hold_out(ratings, 0.2, seed=0)
    again = ordbm.evaluate(found.model().fit(learn), held_out, bootstrap=0)
    assert again.scores["rmse"] == pytest.approx(found.score, rel=1e-4)  # before rounding


def test_the_best_epoch_is_kept_and_not_the_last(ratings):
    """A learner that learns by heart is best long before its end."""
    learner = ordbm.PseudoLikelihood(rate=1.0, coupling_precision=0.1)
    fixed = {"learner": learner, "epochs": 15, "item_links": 0, "user_links": 0, "hidden": None}
    found = tune(ratings, trials=1, metric="mae", **fixed)
    learn, held_out = ordbm.hold_out(ratings, 0.2, seed=0)
    model = found.model().set_params(members=1, epochs=15, presence=False)
    history = model.fit(learn, validation=held_out).history
    best = min(history, key=lambda record: record.validation["log_loss"])
    assert found.arguments["epochs"] == best.epoch < len(history)
    assert found.score == best.validation["mae"] != history[-1].validation["mae"]


def test_the_same_seed_gives_the_same_search(ratings):
    first, second = (tune(ratings, trials=3, seed=1, **FIXED) for _ in range(2))
    assert replace(first, seconds=0) == replace(second, seconds=0)


def test_what_is_fixed_is_not_searched(ratings):
    told = []
    learner = ordbm.PseudoLikelihood(rate=0.3)
    fixed = {"learner": learner, "epochs": 2, "user_links": 0, "item_links": 0}
    tune(ratings, trials=3, callback=told.append, **fixed)
    assert all(trial.arguments["learner"] == learner for trial in told)
    assert len({trial.arguments["hidden"] for trial in told}) == 3
    with pytest.raises(SettingsError, match="all settings are fixed"):
        tune(ratings, hidden=3, **fixed)


@pytest.mark.parametrize("learner", ["cd", "structured"])
def test_other_learners_have_settings_of_their_own(ratings, learner):
    told = []
    tune(ratings, trials=3, callback=told.append, learner=learner, **FIXED)
    found = [trial.arguments["learner"] for trial in told]
    assert len({one.rate for one in found}) == 3
    assert all(isinstance(one, ordbm.ContrastiveDivergence) for one in found)


def test_the_first_trial_may_lie_outside_the_usual_range(ratings):
    told = []
    tune(ratings, trials=1, callback=told.append, preset="paper", epochs=1)
    assert told[0].arguments["user_links"] == 100
    one_sided = tune(ratings, trials=1, sides="user", epochs=1)
    plain = ordbm.OrdinalBM(
        sides="user", epochs=1, hidden=Settings().hidden_sizes
    )  # what follows is then said
    assert one_sided.model().learner == plain.learner
    assert replace(one_sided.model().settings, learner="pl") == plain.settings


def test_a_study_goes_on_where_it_was(ratings, tmp_path):
    study = tmp_path / "study.db"
    first = tune(ratings, trials=2, study=study, **FIXED)
    told = []
    second = tune(ratings, trials=4, study=study, callback=told.append, **FIXED)
    assert [trial.number for trial in told] == [3, 4]
    assert second.score <= first.score
    assert second.unsearched_score == first.unsearched_score
    rates = {trial.arguments["learner"].rate for trial in told}
    assert len(rates | {first.arguments["learner"].rate}) == 3  # nothing is tried twice
    assert tune(ratings, trials=4, study=study, **FIXED).arguments == second.arguments


def test_a_study_of_something_else_is_refused(ratings, tmp_path):
    study = tmp_path / "study.db"
    tune(ratings, trials=1, study=study, **FIXED)
    with pytest.raises(SettingsError, match="other ratings"):
        tune(ordbm.hold_out(ratings)[0], trials=1, study=study, **FIXED)
    with pytest.raises(SettingsError, match="other fixed settings"):
        tune(ratings, trials=1, study=study, **{**FIXED, "epochs": 4})
    with pytest.raises(SettingsError, match="other metric"):
        tune(ratings, trials=1, study=study, metric="mae", **FIXED)


def test_a_study_under_other_rules_is_refused(ratings, tmp_path, monkeypatch):
    """What nobody chose decides too: a later version may have other rules."""
    study = tmp_path / "study.db"
    tune(ratings, trials=1, study=study, **FIXED)
    rules = tuning.identity
    monkeypatch.setattr(tuning, "identity", lambda *told: rules(*told) | {"tightening": 5.0})
    with pytest.raises(SettingsError, match="other rules"):
        tune(ratings, trials=1, study=study, **FIXED)


@pytest.mark.parametrize("content", [b"user,item\n1,2\n" * 100, b"SQLite format 3\0" + b"x" * 500])
def test_a_file_that_is_no_study_is_refused_and_left_alone(ratings, tmp_path, content):
    file = tmp_path / "other"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match="cannot be used as a study"):
        tune(ratings, trials=1, study=file, **FIXED)
    assert file.read_bytes() == content


def test_somebody_else_s_database_is_refused(ratings, tmp_path):
    file = tmp_path / "other.db"
    database = sqlite3.connect(file)
    database.execute("create table studies (something)")
    database.close()
    with pytest.raises(SettingsError, match="cannot be used as a study"):
        tune(ratings, trials=1, study=file, **FIXED)


@pytest.mark.parametrize("content", [None, b"user,item\n1,2\n" * 100])
def test_no_connection_to_a_study_stays_open(monkeypatch, ratings, tmp_path, content):
    opened = []

    def connect(*arguments, **options):
        opened.append(sqlite3.connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3.dbapi2, "connect", connect)
    file = tmp_path / "study.db"
    if content is not None:
        file.write_bytes(content)
    with nullcontext() if content is None else pytest.raises(SettingsError):
        tune(ratings, trials=1, study=file, **FIXED)
    assert opened
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("select 1")


def patched_fit(monkeypatch, around):
    """OrdinalBM.fit replaced by around(number of the call, model, a function that does fit)."""
    fit = ordbm.OrdinalBM.fit
    models = []

    def fake(self, *arguments, **options):
        models.append(self)
        return around(len(models), self, lambda: fit(self, *arguments, **options))

    monkeypatch.setattr(ordbm.OrdinalBM, "fit", fake)
    return models


def raising(error, *, after):
    def around(call, _, fit):
        if call > after:
            raise error
        return fit()

    return around


def test_ctrl_c_gives_the_best_so_far_and_the_next_search_tries_the_same(
    ratings, tmp_path, monkeypatch
):
    study = tmp_path / "study.db"
    with monkeypatch.context() as patched:
        tried = patched_fit(patched, raising(KeyboardInterrupt(), after=2))
        found = tune(ratings, trials=9, study=study, **FIXED)
    assert found.interrupted
    assert (found.trials, found.failed) == (2, 0)
    told = []
    tune(ratings, trials=3, study=study, callback=told.append, **FIXED)
    assert [trial.arguments["learner"] for trial in told] == [tried[-1].learner]


def test_ctrl_c_before_anything_is_known_is_a_keyboard_interrupt(ratings, monkeypatch):
    patched_fit(monkeypatch, raising(KeyboardInterrupt(), after=0))
    with pytest.raises(KeyboardInterrupt):
        tune(ratings, trials=2, **FIXED)


def test_a_model_that_stopped_half_way_is_not_scored(ratings, monkeypatch):
    def around(_, model, fit):
        fit()
        model.interrupted = True

    patched_fit(monkeypatch, around)
    with pytest.raises(KeyboardInterrupt):
        tune(ratings, trials=2, **FIXED)


@pytest.mark.parametrize("error", [DivergedError("diverged"), CostError("costly")])
def test_settings_that_fail_are_left_behind(ratings, monkeypatch, error):
    patched_fit(monkeypatch, raising(error, after=1))
    found = tune(ratings, trials=3, **FIXED)
    assert (found.trials, found.failed) == (3, 2)
    assert found.score == found.unsearched_score


def test_if_all_settings_fail_it_is_said_why(ratings, monkeypatch):
    patched_fit(monkeypatch, raising(DivergedError("ran away"), after=0))
    with pytest.raises(DivergedError, match="ran away"):
        tune(ratings, trials=2, **FIXED)


def test_time_is_kept(ratings):
    with pytest.raises(SettingsError, match="no trial was finished in this time"):
        tune(ratings, timeout=0, **FIXED)


def test_bad_requests(ratings):
    with pytest.raises(SettingsError, match="trials=0"):
        tune(ratings, trials=0)
    with pytest.raises(SettingsError, match="metric='luck'"):
        tune(ratings, metric="luck")
    with pytest.raises(SettingsError, match="epochs=0"):
        tune(ratings, epochs=0)
    with pytest.raises(ordbm.errors.RatingsError, match="no validation ratings"):
        tune(ratings, validation=0.0, **FIXED)


def test_without_optuna_it_says_what_to_install(ratings, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.split(".")[0] == "optuna":
            raise ModuleNotFoundError("No module named 'optuna'", name="optuna")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SettingsError, match=r'optuna.*pip install "ordbm\[tune\]"'):
        tune(ratings, trials=1, **FIXED)


def test_continuous_ratings_can_be_tuned_too():
    random = np.random.default_rng(0)
    pairs = random.choice(400, 200, replace=False)
    ratings = ordbm.Ratings(pairs // 20, pairs % 20, random.normal(size=200), scale="continuous")
    assert np.isfinite(tune(ratings, trials=2, **FIXED).score)
