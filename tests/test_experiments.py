"""The paper's experiments: what they define, one runner, restarts, and the report."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

import ordbm
from cli_runs import HANGS, answer, fault, json_answer, started
from ordbm.cli.reproduce import EXPERIMENTS
from ordbm.errors import ModelFileError, SettingsError
from ordbm.experiments import EXPERIMENT_NAMES, Session, experiment_of
from ordbm.experiments.claims import Estimate, check_claims, estimate, mean_interval
from ordbm.experiments.costs import seconds_of
from ordbm.experiments.effect_sizes import advantages_by_epoch, effect_sizes
from ordbm.experiments.experiment_data import Split, sample_of_users
from ordbm.experiments.measure import Measure, settings_of_run
from ordbm.experiments.open_models import OpenMachine, OpenSVD
from ordbm.experiments.peak_memory import peak_bytes
from ordbm.experiments.ranking_protocol import (
    list_hits,
    list_scores,
    neighbour_counts,
    popularity_score,
    presence_scores,
)
from ordbm.experiments.reproduction_report import latest_rows, write_reproduction_report
from ordbm.experiments.result_rows import append_row, rows_of
from ordbm.inference.catalogue import Catalogue
from ordbm.recommend.candidates import similar_rows

SMALL = {"hidden": 4, "epochs": 3, "item_links": 5, "user_links": 5}


@pytest.fixture(scope="module")
def ratings():
    """60 users, 40 items, 1,500 ratings of 1 to 5 that follow users and items."""
    random = np.random.default_rng(0)
    users, items = np.divmod(random.choice(60 * 40, 1500, replace=False), 40)
    taste, quality = random.normal(0, 0.6, 60), random.normal(0, 0.6, 40)
    values = 3 + taste[users] + quality[items] + random.normal(0, 0.6, 1500)
    return ordbm.Ratings(users, items, np.clip(np.round(values), 1, 5), scale=[1, 2, 3, 4, 5])


@pytest.fixture(scope="module")
def data(ratings, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "ratings.csv"
    ordbm.write_ratings(ratings, path)
    return path


def smaller(name, epochs=3):
    """The experiment with one size, few epochs and lists that fit the data."""
    whole = experiment_of(name).quickly()
    learners = {
        key: {**one, "epochs": epochs} if "epochs" in one else one
        for key, one in whole.learners.items()
    }
    reported = {machine: values[:1] for machine, values in whole.reported.items()}
    return replace(whole, hidden=(4,), learners=learners, reported=reported)


@pytest.fixture(scope="module")
def results(data, tmp_path_factory):
    """A folder with small runs of all four, and the rows as they came."""
    folder = tmp_path_factory.mktemp("results")
    came = {
        name: list(Session(smaller(name), data, folder, seeds=2, command=f"make {name}").rows())
        for name in EXPERIMENT_NAMES
    }
    return SimpleNamespace(folder=folder, came=came)


# -- definitions ---------------------------------------------------------------------------------


def test_table_1_has_27_cells_and_the_papers_figures():
    table = experiment_of("table1")
    cells = {(run.machine, run.hidden) for run in table.runs(seeds=1)}
    assert len(cells) == 27
    assert cells == {(name, size) for name in table.reported for size in (5, 20, 50)}
    assert table.reported["ORD-USER-CORR-ITEM"] == [0.648, 0.635, 0.635]
    assert sum(map(sum, table.reported.values())) == pytest.approx(18.261)


def test_machines_are_what_their_names_say():
    for name in EXPERIMENT_NAMES:
        for run in experiment_of(name).runs(seeds=1):
            if run.model != "machine":
                continue
            kind = run.machine.partition("-")[0]
            features = {"CAT": "categorical", "GAUSS": "gaussian", "ORD": "ordinal"}[kind]
            assert run.settings["features"] == features
            assert run.settings["sides"] == ("joint" if "ITEM" in run.machine else "user")
            assert (run.settings["item_links"] > 0) == ("CORR" in run.machine)
            assert (run.settings["user_links"] > 0) == ("ITEM-CORR" in run.machine)
            assert run.settings["preset"] == {"paper": "paper", "ours": "default"}[run.learner]


def test_every_claim_names_machines_of_its_experiment():
    for name in EXPERIMENT_NAMES:
        experiment = experiment_of(name)
        for claim in experiment.claims:
            assert {claim.better, claim.worse} <= set(experiment.machines)
            for size in filter(None, (claim.better_hidden, claim.worse_hidden)):
                assert size in experiment.hidden
                assert size in experiment.quickly().hidden


def test_figure_5_is_judged_in_both_readings():
    """The paper's "model with input correlations" has hidden units and links, or links alone."""
    judged = {}
    for claim in experiment_of("figure5").claims:
        if claim.of_the_paper:
            beaten = claim.score, claim.worse, claim.worse_score
            judged.setdefault(claim.better, set()).add(beaten)
    first, second = "ORD-USER-ITEM-CORR", "ORD-USER-ITEM-CORR, no hidden units"
    assert set(judged) == {first, second}
    assert judged[first] == judged[second]
    assert len(judged[first]) == 3
    run = {run.machine: run.settings for run in experiment_of("figure5").runs(seeds=1)}
    assert run[first]["hidden"] == 20
    assert run[second]["hidden"] == 0
    assert run[first]["item_links"] == run[second]["item_links"] > 0


def test_the_papers_own_figures_bear_out_its_claims():
    table = experiment_of("table1")
    rows = [
        {"machine": name, "learner": "paper", "hidden": size, "seed": 0, "scores": {"mae": mae}}
        for name, values in table.reported.items()
        for size, mae in zip(table.hidden, values, strict=True)
    ]
    found = check_claims(table, rows)
    assert len(found) == 3 * sum(claim.of_the_paper for claim in table.claims)
    assert {one.verdict for one in found} == {"one seed: holds"}


def test_the_command_line_knows_the_experiments():
    assert tuple(EXPERIMENTS) == EXPERIMENT_NAMES
    with pytest.raises(SettingsError, match=r"figure9.*table1"):
        experiment_of("figure9")


# -- models that are scored while they learn -----------------------------------------------------


@pytest.mark.parametrize("features", ["ordinal", "gaussian"])
def test_scoring_a_machine_does_not_change_what_it_learns(ratings, features):
    train, test = ordbm.hold_out(ratings, 0.2)
    plain = ordbm.OrdinalBM(preset="paper", features=features, **SMALL).fit(train)
    watched = OpenMachine(preset="paper", features=features, **SMALL)
    curve = []
    watched.fit(train, callbacks=[lambda _: curve.append(watched.scores(test, "mean_field"))])
    pairs = test.user_codes, test.item_codes
    users, items = (
        [ids[code] for code in codes]
        for ids, codes in zip((test.users, test.items), pairs, strict=True)
    )
    np.testing.assert_array_equal(
        plain.predict_proba(users, items), watched.predict_proba(users, items)
    )
    assert len(curve) == 3
    # What is learnt is rounded at the end.
    assert curve[-1] == pytest.approx(watched.scores(test, "mean_field"), rel=1e-4)
    assert curve[0] != curve[-1]
    found = ordbm.evaluate(plain, test, bootstrap=0).scores
    exact = watched.scores(test, "exact")
    for name in ("mae_mean", "mae_median", "mae_mode", "rmse", "log_loss"):
        assert exact[name] == pytest.approx(found[name], rel=1e-9)
    assert ("mae_point" in exact) == (features == "gaussian")


def test_scoring_svd_does_not_change_what_it_learns(ratings):
    train, test = ordbm.hold_out(ratings, 0.2)
    plain = ordbm.baselines.SVD(rank=4, epochs=40, biases=False).fit(train)
    watched = OpenSVD(rank=4, epochs=40, biases=False)
    curve = []
    watched.fit(train, callbacks=[lambda _: curve.append(watched.scores(test))])
    end = watched.scores(test)
    found = ordbm.evaluate(plain, test, bootstrap=0).scores
    assert end["rmse"] == pytest.approx(found["rmse"])
    assert curve[-1]["mae_mean"] == pytest.approx(end["mae_mean"], abs=0.002)  # clipped elsewhere
    assert curve[-1]["mae_mean"] < curve[0]["mae_mean"]


@pytest.mark.parametrize("learner", ["paper", "ours", "sgd"])
def test_test_ratings_have_no_say_in_the_training(ratings, learner):
    train, test = ordbm.hold_out(ratings, 0.2)
    flipped = ordbm.Ratings.of_rows(
        test.users, test.items, test.scale, test.by_user._replace(level=4 - test.levels)
    )
    run = next(
        run
        for run in smaller("table1", epochs=6).runs(seeds=1)
        if run.learner == learner and run.machine in ("SVD", "ORD-USER-ITEM")
    )
    assert run.validation > 0
    found = [
        Measure(Split(train, part), None, (), each_epoch=True, threads=None).outcome(run, [])
        for part in (test, flipped)
    ]
    learnt = [[(one["objective"], one["validation"]) for one in each["epochs"]] for each in found]
    assert learnt[0] == learnt[1]
    assert found[0]["kept_epoch"] == found[1]["kept_epoch"]
    assert found[0]["scores"] != found[1]["scores"]


# -- data and lists ------------------------------------------------------------------------------


def test_a_sample_has_all_ratings_of_its_users_and_no_others(ratings):
    part = sample_of_users(ratings, 10)
    assert part.n_users == 10
    assert part.n_items == ratings.n_items

    def triples(of):
        users = [of.users[code] for code in of.user_codes]
        return set(zip(users, of.item_codes.tolist(), of.values.tolist(), strict=True))

    assert triples(part) == {one for one in triples(ratings) if one[0] in part.users}
    assert len(sample_of_users(ratings, 1000)) == len(ratings)


def test_candidates_are_what_similar_users_rated(ratings):
    train, _ = ordbm.hold_out(ratings, 0.2)
    counts = neighbour_counts(train)
    table = np.zeros((train.n_users, train.n_items), int)
    table[train.user_codes, train.item_codes] = 1
    for user in (0, 17, 59):
        similar = similar_rows(train.by_user, train.by_item, user, train.scale.values, 50)
        np.testing.assert_array_equal(counts[user], table[similar].sum(axis=0) * (1 - table[user]))


def test_lists_of_a_hand_worked_example():
    ratings = ordbm.Ratings([0, 0, 0, 1], [0, 1, 2, 3], [1, 2, 3, 4], scale=[1, 2, 3, 4])
    test = ratings.select([1, 3])  # user 0 has item 1, user 1 has item 3
    counts = np.array([[0, 2, 1, 3], [1, 0, 0, 0]], np.uint16)
    score = np.array([[9.0, 5, 7, 6], [1, 2, 3, 4]])
    hits = list_hits(lambda users: score[users], counts, test, 3)
    # User 0: items 2, 3, 1; user 1: item 0 alone, for item 3 is no candidate.
    np.testing.assert_array_equal(hits, [[False, False, True], [False, False, False]])
    found = list_scores(hits, test, (1, 3))
    assert found["precision"] == [0.0, pytest.approx(1 / 6)]
    assert found["recall"] == [0.0, 0.5]
    assert found["utility"][1] == pytest.approx(100 * 2 ** (-2 / 4) / 2)
    popular = list_hits(popularity_score(counts, 0), counts, test, 3)
    np.testing.assert_array_equal(popular[0], [False, True, False])  # items 3, 1, 2


def test_orders_of_presence_are_the_probabilities_of_the_model(ratings):
    model = OpenMachine(**SMALL, members=1).fit(ratings)
    catalogue = Catalogue(model.conditioned[0])
    assert presence_scores(catalogue, None, ratings.scale) == {}
    score = presence_scores(catalogue, model.conditioned_presence, ratings.scale)
    unrated = np.ones((ratings.n_users, ratings.n_items), bool)
    unrated[ratings.user_codes, ratings.item_codes] = False
    users, items = np.nonzero(unrated)
    ids = [ratings.users[code] for code in users], [ratings.items[code] for code in items]
    everybody = np.arange(ratings.n_users, dtype=np.int32)
    rated = model.rated_proba(*ids)
    liked = rated * model.predict_proba(*ids, method="mean_field")[:, 3:].sum(axis=1)
    np.testing.assert_allclose(expit(score["rated"](everybody)[unrated]), rated, rtol=1e-4)
    np.testing.assert_allclose(np.exp(score["liked"](everybody)[unrated]), liked, rtol=1e-4)


# -- rows ----------------------------------------------------------------------------------------


def test_rows_outlive_a_line_that_was_cut_off(tmp_path):
    path = tmp_path / "new" / "figure3.jsonl"
    row = {
        "run": "a",
        "machine": "é",
        "learner": "",
        "hidden": 1,
        "seed": 0,
        "quick": True,
        "scores": {},
    }
    assert rows_of(path) == []
    append_row(path, row)
    with path.open("ab") as file:
        file.write(b'{"run": "b", "mach')
    assert rows_of(path) == [row]
    append_row(path, {**row, "run": "c"})
    assert rows_of(path) == [row, {**row, "run": "c"}]


@pytest.mark.parametrize("line", ["{}", "[1]", "nonsense", '{"run": "a"}', "\xff"])
def test_a_line_that_is_no_row_is_named(tmp_path, line):
    path = tmp_path / "figure3.jsonl"
    path.write_text(line + "\n", encoding="latin-1")
    with pytest.raises(ModelFileError, match=r"figure3\.jsonl: line 1 is no row"):
        rows_of(path)


def test_rows_that_cannot_be_kept_are_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFileError, match="cannot write"):
        append_row(tmp_path / "file" / "figure3.jsonl", {})


# -- the runner ----------------------------------------------------------------------------------


def test_a_row_has_all_that_is_needed_to_do_it_again(results, ratings):
    for name, rows in results.came.items():
        assert rows == rows_of(results.folder / f"{name}.jsonl")
        assert len(rows) == len(smaller(name).runs(seeds=2))
        assert len({row["run"] for row in rows}) == len(rows)
        for row in rows:
            assert row["experiment"] == name
            assert row["quick"]
            assert row["version"] == ordbm.__version__
            assert row["command"] == f"make {name}"
            assert re.fullmatch("[0-9a-f]{64}", row["data"]["sha256"])
            assert row["data"]["ratings"] == len(ratings)
            assert not row["data"]["is_the_papers"]
            assert row["split"]["seed"] == row["seed"]
            assert row["split"]["train"] + row["split"]["test"] == len(ratings)
            assert all(np.isfinite(value) for value in row["scores"].values())
            if row["learner"] in ("paper", "ours"):
                settings = row["settings"]
                assert settings["learner"]["rate"] > 0
                assert settings["seed"] == row["seed"]
                assert len(row["epochs"]) == settings["epochs"] == 3
                assert row["scores"]["mae"] == row["scores"][f"mae_{row['decode']}"]
                assert row["peak_bytes"] > 1e7


def test_both_learners_are_what_they_should_be(results):
    learners = {row["learner"]: row["settings"]["learner"] for row in results.came["figure4"]}
    assert learners["paper"]["kind"] == "ContrastiveDivergence"
    assert learners["paper"]["steps"] == 1
    assert learners["paper"]["block_rows"] == 100
    assert learners["paper"]["rate"] == 0.1
    assert learners["ours"]["kind"] == "PseudoLikelihood"
    decoded = {(row["machine"], row["learner"]): row["decode"] for row in results.came["figure4"]}
    assert decoded["ORD-USER-ITEM", "paper"] == "mode"
    assert decoded["ORD-USER-ITEM", "ours"] == "median"
    assert decoded["GAUSS-USER-ITEM", "paper"] == "point"


def test_learning_curves_have_every_epoch_and_end_at_the_result(results):
    for row in results.came["figure3"]:
        score = f"mae_{row['decode']}"
        curve = [epoch["test"][score] for epoch in row["epochs"]]
        assert len(curve) == row["settings"]["epochs"]
        # Rounding at the end turns a few near ties of modes.
        assert curve[-1] == pytest.approx(row["scores"][score], abs=0.01)


def test_lists_do_not_get_worse_with_length(results):
    for row in results.came["figure5"]:
        for scores in row["lists"].values():
            assert np.all(np.diff(scores["recall"]) >= 0)
            assert np.all(np.diff(scores["utility"]) >= 0)


def test_only_our_learner_of_figure_5_learns_which_items_get_rated(results):
    learning = {
        (name, run.machine, run.learner)
        for name in EXPERIMENT_NAMES
        for run in experiment_of(name).runs(seeds=1)
        if run.settings.get("presence")
    }
    assert learning == {("figure5", "ORD-USER-ITEM-CORR", "ours")}
    for row in results.came["figure5"]:
        orders = {"energy", "energy as printed", "mean"}
        if row["machine"] == "POPULARITY":
            orders = {"popularity"}
        elif ("figure5", row["machine"], row["learner"]) in learning:
            orders |= {"rated", "liked"}
        assert set(row["lists"]) == orders


def test_a_restart_does_what_is_missing_only(results, data):
    def missing(experiment, seeds):
        return Session(experiment, data, results.folder, seeds=seeds).missing()

    whole = smaller("figure4")
    assert missing(whole, 2) == []
    assert {run.seed for run in missing(whole, 3)} == {2}
    assert len(missing(smaller("figure4", epochs=4), 2)) == len(whole.runs(seeds=2))
    assert len(missing(replace(whole, sampled_users=30), 2)) == len(whole.runs(seeds=2))
    more = replace(whole, hidden=(4, 6))
    assert {run.hidden for run in missing(more, 2)} == {6}


def test_other_data_are_other_runs(results, data, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(data.read_text() + "99,1,5\n")
    session = Session(smaller("figure4"), other, results.folder, seeds=1)
    assert len(session.missing()) == len(session.runs)


def test_threads_do_not_change_a_result(results, data, tmp_path):
    session = Session(smaller("figure4"), data, tmp_path, seeds=1, threads=1)
    first = next(session.rows())
    assert first["scores"] == results.came["figure4"][0]["scores"]
    assert first["run"] == results.came["figure4"][0]["run"]


def test_half_a_training_is_no_result(data, tmp_path):
    session = Session(smaller("figure4", epochs=1000), data, tmp_path, seeds=1)

    def interrupts(_):
        return [lambda record: os.kill(os.getpid(), signal.SIGINT) if record.epoch == 2 else None]

    with pytest.warns(ordbm.errors.InterruptedWarning), pytest.raises(KeyboardInterrupt):
        list(session.rows(interrupts))
    assert rows_of(session.path) == []


PEAKS = """
import numpy as np
from ordbm.experiments.peak_memory import forget_peak, peak_bytes

before = peak_bytes()
block = np.ones(200_000_000, np.uint8)
with_block = peak_bytes()
del block
forget_peak()
print(before, with_block, peak_bytes())
"""


def test_the_largest_memory_is_that_since_the_last_run():
    """In a process of its own: others' memory comes and goes."""
    if not sys.platform.startswith("linux"):
        assert peak_bytes() is None or peak_bytes() > 0
        return
    done = subprocess.run([sys.executable, "-c", PEAKS], capture_output=True, check=True, text=True)
    before, with_block, after = map(int, done.stdout.split())
    assert with_block > before + 100_000_000
    assert after < with_block - 100_000_000


# -- claims --------------------------------------------------------------------------------------


def test_an_interval_is_students():
    found = estimate([1.0, 2.0, 3.0])
    assert found == Estimate(2.0, pytest.approx(1 / np.sqrt(3)), 3)
    assert mean_interval(found) == pytest.approx((2 - 2.4841, 2 + 2.4841), abs=1e-4)
    assert mean_interval(estimate([1.0])) is None


@pytest.mark.parametrize(
    ("worse", "verdict"),
    [
        ([0.70, 0.71, 0.72], "holds"),
        ([0.60, 0.61, 0.62], "does not hold"),
        ([0.70, 0.60, 0.66], "undecided"),
        ([0.70], "one seed: holds"),
        ([0.60], "one seed: does not"),
    ],
)
def test_a_claim_is_judged_by_the_interval_of_differences(worse, verdict):
    experiment = experiment_of("figure4")
    better = [0.65, 0.66, 0.67]
    rows = [
        {"machine": machine, "learner": "ours", "hidden": 20, "seed": seed, "scores": {"mae": mae}}
        for machine, values in (("ORD-USER-ITEM", better), ("CAT-USER-ITEM", worse))
        for seed, mae in enumerate(values)
    ]
    (found,) = check_claims(experiment, rows)
    assert found.verdict == verdict
    assert found.advantage.n == len(worse)


def test_svd_is_decoded_as_the_machine_beside_it():
    experiment = experiment_of("figure3")
    scores = {"mae": 0.69, "mae_rounded": 0.66, "mae_median": 0.65}
    rows = [{"machine": "SVD", "learner": "sgd", "hidden": 20, "seed": 0, "scores": scores}]
    rows += [
        {"machine": "ORD-USER-ITEM-CORR", "learner": learner, "hidden": 20, "seed": 0,
         "scores": {"mae": 0.6}}
        for learner in ("paper", "ours")
    ]  # fmt: skip
    found = {
        (one.learner, one.claim.of_the_paper): one.advantage.mean
        for one in check_claims(experiment, rows)
    }
    assert found == pytest.approx(
        {("paper", True): 0.09, ("ours", True): 0.05, ("paper", False): 0.06, ("ours", False): 0.06}
    )


# -- effect sizes --------------------------------------------------------------------------------


def as_reported(table, learner="paper", share=1.0):
    """Rows of machines whose advantages over the worst are a share of those in the paper."""
    worst = max(max(values) for values in table.reported.values())
    return [
        {"machine": name, "learner": learner, "hidden": size, "seed": 0,
         "scores": {"mae": worst - share * (worst - mae)}}
        for name, values in table.reported.items()
        for size, mae in zip(table.hidden, values, strict=True)
    ]  # fmt: skip


def test_an_effect_size_is_the_papers_difference_beside_ours():
    table = experiment_of("table1")
    rows = as_reported(table) + as_reported(table, "ours", share=0.25)
    found = effect_sizes(table, check_claims(table, rows))
    assert len(found) == sum(claim.of_the_paper for claim in table.claims)
    ordinal = next(one for one in found if one.claim.text == "ordinal beats categorical")
    assert ordinal.reported == pytest.approx((0.059, 0.030, 0.033))
    links = next(one for one in found if one.claim.text == "links help, ordinal")
    assert links.reported == pytest.approx((0.047, 0.027, 0.007))
    for one in found:
        assert one.measured["paper"] == pytest.approx(one.reported)
        assert one.kept("paper") == pytest.approx(1.0)
        assert one.kept("ours") == pytest.approx(0.25)


def test_effect_sizes_of_what_was_not_run_are_left_open():
    table = experiment_of("table1")
    rows = [row for row in as_reported(table) if row["hidden"] == 20]
    for one in effect_sizes(table, check_claims(table, rows)):
        assert one.measured["paper"] == (None, pytest.approx(one.reported[1]), None)
        assert one.kept("paper") == pytest.approx(1.0)
        assert one.kept("ours") is None


def test_advantages_by_epoch_are_those_of_both_machines_still_learning():
    def row(machine, curve):
        epochs = [{"validation": {"mae": mae}} for mae in curve]
        return {"machine": machine, "learner": "paper", "hidden": 20, "seed": 0, "epochs": epochs}

    table = experiment_of("table1")
    rows = [row("CAT-USER", [0.8, 0.75, 0.7]), row("ORD-USER", [0.7, 0.69])]
    (found,) = advantages_by_epoch(table, rows)
    assert found.claim.text == "ordinal beats categorical"
    assert found.by_epoch == {
        1: (None, pytest.approx(0.10), None),
        2: (None, pytest.approx(0.06), None),
    }


def test_the_report_says_how_large_the_effects_are(pages, results):
    (line,) = re.findall(r"^\| links help, ordinal \|(.*)\|$", pages[".md"], re.MULTILINE)[:1]
    reported, by_paper, *_ = (cell.strip() for cell in line.split("|"))
    assert reported == "0.047"

    def mean(machine):
        return np.mean(
            [
                row["scores"]["mae"]
                for row in results.came["table1"]
                if (row["machine"], row["learner"]) == (machine, "paper")
            ]
        )

    assert by_paper == f"{mean('ORD-USER') - mean('ORD-USER-CORR'):.3f}"


# -- stored results ------------------------------------------------------------------------------

STORED = Path(__file__).parents[1] / "docs" / "results" / "full"


@pytest.mark.parametrize("name", EXPERIMENT_NAMES)
def test_stored_results_of_the_papers_learner_are_known(name):
    """A setting that is renamed or added must not make them strangers: see `measure`."""
    runs = {
        (run.machine, run.learner, run.hidden, run.seed): run for run in experiment_of(name).runs()
    }
    rows = rows_of(STORED / f"{name}.jsonl")
    assert rows
    for row in rows:
        if row["learner"] != "ours":  # whose defaults move on
            run = runs[row["machine"], row["learner"], row["hidden"], row["seed"]]
            assert row["settings"] == settings_of_run(run)


@pytest.mark.parametrize("name", EXPERIMENT_NAMES)
def test_stored_results_are_named_by_what_determines_them(name):
    own = ("experiment", "quick", "machine", "learner", "hidden", "seed", "settings", "decode",
           "validation", "lengths", "version")  # fmt: skip
    for row in rows_of(STORED / f"{name}.jsonl"):
        identity = {field: row[field] for field in own}
        data = ("set", "sha256", "min_item_ratings", "sampled_users")
        identity["data"] = {field: row["data"][field] for field in data}
        identity["split"] = {field: row["split"][field] for field in ("test_fraction", "seed")}
        text = json.dumps(identity, sort_keys=True)
        assert row["run"] == sha256(text.encode()).hexdigest()[:16]


# -- the report ----------------------------------------------------------------------------------


class Page(HTMLParser):
    """Whatever a page would load, and its tags."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.tags = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loaded += [
            value
            for name, value in attrs
            if name in ("src", "href", "xlink:href", "data") and not value.startswith("#")
        ]


@pytest.fixture(scope="module")
def pages(results):
    experiment_small = {name: smaller(name) for name in EXPERIMENT_NAMES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ordbm.experiments.reproduction_report.experiment_of", experiment_small.get)
        patch.setattr(
            "ordbm.experiments.reproduction_report._as_run", lambda experiment, _: experiment
        )
        paths = write_reproduction_report(results.folder)
    return {path.suffix: path.read_text(encoding="utf-8") for path in paths}


def test_the_html_page_is_self_contained(pages):
    page = Page(pages[".html"])
    assert page.loaded == []
    assert "script" not in page.tags
    assert page.tags.count("figure") == 7
    assert page.tags.count("svg") == 7


def test_the_markdown_page_has_its_pictures_beside_it(pages, results):
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", pages[".md"])
    assert len(pictures) == len(set(pictures)) == 7
    for picture in pictures:
        assert (results.folder / picture).read_text(encoding="utf-8").startswith("<?xml")


def test_the_report_has_our_figures_beside_the_papers(pages, results):
    rows = [row for row in results.came["table1"] if row["machine"] == "ORD-USER-CORR-ITEM"]
    (line,) = re.findall(r"^\| ORD-USER-CORR-ITEM \|(.*)\|$", pages[".md"], re.MULTILINE)
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[0] == "0.648"
    for cell, learner in zip(cells[1:], ("paper", "ours"), strict=True):
        values = [row["scores"]["mae"] for row in rows if row["learner"] == learner]
        error = abs(values[0] - values[1]) / 2
        assert cell == f"{np.mean(values):.4f} ± {error:.4f}"


def test_the_report_says_what_it_is_made_of(pages):
    for text in pages.values():
        assert text.count("Quick mode") >= 4
        for name in EXPERIMENT_NAMES:
            assert experiment_of(name).title in text
            assert f"make {name}" in text
        for word in ("SHA-256", "undecided", "the full machine beats SVD", ordbm.__version__):
            assert word in text


def test_the_report_of_a_whole_run_gives_the_reasons_for_what_came_out(tmp_path):
    """Smaller effects, and an order by energy that has no common zero, are explained in prose."""
    for name in ("table1", "figure5"):
        append_row(tmp_path / f"{name}.jsonl", rows_of(STORED / f"{name}.jsonl")[0])
    for path in write_reproduction_report(tmp_path):
        text = " ".join(unescape(path.read_text(encoding="utf-8")).split())
        for name, said in (
            ("table1", ("Ordinal over categorical: ", "Links: ")),
            ("figure5", ("That may mean the machine with", "has no common zero")),
        ):
            reasons = experiment_of(name).discussion
            assert all(reason in text for reason in reasons)
            assert all(any(words in reason for reason in reasons) for words in said)


def test_full_runs_and_the_last_of_them_count():
    def row(**told):
        return {"machine": "a", "learner": "b", "hidden": 1, "seed": 0, "quick": False, **told}

    rows = [row(n=1), row(n=2, quick=True), row(n=3, seed=1), row(n=4)]
    assert sorted(one["n"] for one in latest_rows(rows)) == [3, 4]
    assert [one["n"] for one in latest_rows([row(n=5, quick=True)])] == [5]


def test_a_report_needs_rows_of_its_experiments(tmp_path, results):
    with pytest.raises(SettingsError, match="has no results yet"):
        write_reproduction_report(tmp_path)
    append_row(tmp_path / "figure3.jsonl", {**results.came["figure3"][0], "machine": "NOBODY"})
    with pytest.raises(ModelFileError, match="NOBODY"):
        write_reproduction_report(tmp_path)


def test_a_report_of_a_part_of_the_runs(tmp_path, results):
    for name in EXPERIMENT_NAMES:
        append_row(tmp_path / f"{name}.jsonl", results.came[name][0])
    html, markdown = write_reproduction_report(tmp_path)
    assert experiment_of("table1").title in markdown.read_text(encoding="utf-8")
    assert html.exists()


def test_rows_without_the_newer_orders_are_still_read(tmp_path, results):
    whole = [row for row in results.came["figure5"] if "rated" in row["lists"]]
    older = {name: one for name, one in whole[0]["lists"].items() if name not in ("rated", "liked")}
    scores = {
        name: one for name, one in whole[0]["scores"].items() if name.partition(" ")[0] in older
    }
    rows = [{**whole[0], "lists": older, "scores": scores}]

    def report():
        return write_reproduction_report(tmp_path)[1].read_text(encoding="utf-8")

    append_row(tmp_path / "figure5.jsonl", rows[0])
    assert "by mean" in report()
    assert "by rated" not in report()
    append_row(tmp_path / "figure5.jsonl", whole[1])
    assert "by rated" in report()


# -- the command line ----------------------------------------------------------------------------


def figure3(data, folder, *more):
    return (
        "reproduce",
        "figure3",
        "--data",
        data,
        "--results",
        folder,
        "--quick",
        "--seeds",
        1,
        *more,
    )


def waited_for_rows(path, n):
    deadline = time.monotonic() + HANGS
    while not path.exists() or path.read_bytes().count(b"\n") < n:
        assert time.monotonic() < deadline, f"no {n} rows in {path}"
        time.sleep(0.005)


def stopped(data, folder):
    """(path, return code, output, errors) of a run that was sent Ctrl-C after its first row.

    One may come when all is done: then everything is done once more.
    """
    for number in range(5):
        path = folder / f"broken-{number}" / "figure3.jsonl"
        process = started(*figure3(data, path.parent))
        waited_for_rows(path, 1)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=HANGS)
        if process.returncode != 0:
            break
    return path, process.returncode, output, errors


def test_stopped_and_killed_it_goes_on_to_the_same_results(data, tmp_path):
    path, code, output, errors = stopped(data, tmp_path)
    assert code == 130
    assert output == ""
    assert errors.splitlines()[-1] == "ordbm: interrupted"
    assert "Traceback" not in errors
    done = len(rows_of(path))
    assert 1 <= done < 7
    process = started(*figure3(data, path.parent))
    waited_for_rows(path, done + 1)
    process.kill()
    process.communicate(timeout=HANGS)
    left = json_answer(*figure3(data, path.parent, "--plan"))
    kept = len(rows_of(path))
    assert sum(not run["done"] for run in left["runs"]) == 7 - kept < 6
    assert json_answer(*figure3(data, path.parent))["new"] == 7 - kept
    assert json_answer(*figure3(data, tmp_path / "whole"))["new"] == 7
    whole = {row["run"]: row["scores"] for row in rows_of(tmp_path / "whole" / "figure3.jsonl")}
    assert {row["run"]: row["scores"] for row in rows_of(path)} == whole
    assert len(whole) == len(rows_of(path)) == 7
    answer("reproduce", "report", "--results", path.parent)
    assert "ORD-USER-ITEM-CORR" in (path.parent / "report.md").read_text(encoding="utf-8")


def test_a_plan_does_nothing(data, tmp_path):
    found = json_answer("reproduce", "table1", "--data", data, "--results", tmp_path, "--plan")
    assert len(found["runs"]) == 153
    assert found["seconds_left"] == pytest.approx(sum(run["seconds"] for run in found["runs"]))
    assert list(tmp_path.iterdir()) == []
    shown = answer("reproduce", "table1", "--data", data, "--results", tmp_path, "--plan")
    assert "153 runs, 0 done" in shown


def test_a_larger_run_costs_more():
    table = experiment_of("table1")
    runs = {(run.machine, run.learner, run.hidden): run for run in table.runs(seeds=1)}

    def cost(*key):
        return seconds_of(runs[key], table, threads=2)

    assert cost("ORD-USER", "paper", 5) < cost("ORD-USER", "paper", 50)
    assert cost("ORD-USER", "paper", 20) < cost("ORD-USER-CORR", "paper", 20)
    assert cost("ORD-USER-CORR", "paper", 20) < cost("ORD-USER-CORR-ITEM", "paper", 20)
    quick = seconds_of(runs["ORD-USER", "paper", 20], table.quickly(), threads=2)
    assert quick < cost("ORD-USER", "paper", 20) / 5


def test_faults_are_one_sentence(data, tmp_path):
    assert "ml-1m.zip" in fault("reproduce", "figure3")
    assert "there is no nowhere" in fault("reproduce", "table1", "--data", "nowhere")
    assert "seeds=0" in fault("reproduce", "figure4", "--data", data, "--seeds", "0")
    assert "has no results yet" in fault("reproduce", "report", "--results", tmp_path)
    few = tmp_path / "few.csv"
    few.write_text("user,item,rating\n1,1,5\n2,1,4\n")
    assert "no item has 20 ratings" in fault(
        "reproduce", "figure3", "--data", few, "--results", tmp_path
    )


def test_a_folder_may_hold_the_data(data, tmp_path):
    table = experiment_of("table1")
    (tmp_path / table.data.file).write_bytes(data.read_bytes())
    found = Session(table, tmp_path, tmp_path).source
    assert found.path == tmp_path / table.data.file
    assert found.checksum == Session(table, data, tmp_path).source.checksum


@pytest.mark.slow
@pytest.mark.parametrize("name", ["figure3", "table1"])
def test_the_papers_data_are_known_by_their_counts(data_file, tmp_path, name):
    experiment = experiment_of(name)
    source = Session(experiment, data_file(experiment.data.file), tmp_path).source
    assert source.is_the_papers
    assert json.loads(json.dumps(source.description()))["ratings"] == experiment.data.ratings
