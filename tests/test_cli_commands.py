"""What each command does, beside what the library gives for the same request."""

import csv
import io
import json
import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ordbm
from cli_runs import SMALL, answer, fault, json_answer, run, write_ratings_file
from ordbm.baselines import BASELINES
from ordbm.cli import evaluate, predict
from ordbm.datasets import download, load_titles
from ordbm.evaluation import train_and_test
from ordbm.recommend.criteria import AtLeast, LongTail

ARGUMENTS = {"hidden": 4, "members": 2, "item_links": 5, "epochs": 2}
TITLES = {item: f"Film {item}" for item in range(100, 120)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """ratings.csv, titles.csv, and model.ordbm learnt from the former."""
    path = tmp_path_factory.mktemp("commands")
    write_ratings_file(path / "ratings.csv")
    lines = ["id,title", *(f'{item},"{title}"' for item, title in TITLES.items())]
    (path / "titles.csv").write_text("\n".join(lines))
    answer("fit", path / "ratings.csv", "-o", path / "model.ordbm", *SMALL)
    return path


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def ratings(folder):
    return ordbm.read_ratings(folder / "ratings.csv")


@pytest.fixture(scope="module")
def model(ratings):
    return ordbm.OrdinalBM(**ARGUMENTS).fit(ratings)


def plain(found):
    """As JSON gives it back."""
    return json.loads(json.dumps(found))


# -- fit ------------------------------------------------------------------------------------------


def test_fit_learns_what_the_library_learns(model, ratings):
    loaded = ordbm.load("model.ordbm")
    users, items = list(ratings.users), [101] * len(ratings.users)
    np.testing.assert_array_equal(
        loaded.predict_proba(users, items), model.predict_proba(users, items)
    )


def test_fit_says_what_was_read(tmp_path):
    (tmp_path / "r.csv").write_text("who,what,stars\na,x,1\na,x,2\nb,y,5\n")
    columns = ("--user-column", "who", "--item-column", "what", "--rating-column", "2")
    done = run("fit", tmp_path / "r.csv", "-o", tmp_path / "m", *columns, "--scale", "1,2,5")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == ""
    read, expected, written = done.stderr.splitlines()
    assert "2 ratings by 2 users of 2 items, 3 levels: 1, 2, 5, 1 duplicate merged" in read
    assert re.fullmatch(r"expected: about \d+ s and 0\.2 GB of memory", expected)
    assert "20 epochs" in written
    assert run("fit", "ratings.csv", "-o", tmp_path / "m", *SMALL, "-q").stderr == ""


def test_fit_in_json(ratings):
    told = json_answer("fit", "ratings.csv", "-o", "v.ordbm", *SMALL, "--validation", "0.2")
    learn, held_out = ordbm.hold_out(ratings, 0.2, seed=0)
    alone = ordbm.OrdinalBM(**ARGUMENTS).fit(learn, validation=held_out)
    assert told["ratings"]["ratings"] == 300
    assert [told["ratings"][name] for name in ("users", "items", "duplicates")] == [30, 20, 0]
    assert [record["validation"] for record in told["history"]] == [
        record.validation for record in alone.history
    ]
    assert told["epochs"] == 2
    assert not told["interrupted"]


def test_preset_and_settings_reach_the_model():
    answer("fit", "ratings.csv", "-o", "p.ordbm", "--preset", "paper", "--epochs", "1",
           "--hidden", "3,2", "--set", "steps=2")  # fmt: skip
    found = ordbm.load("p.ordbm")
    assert found.settings.user_links == 100
    assert found.settings.hidden == (3, 2)
    assert found.learner == ordbm.ContrastiveDivergence(steps=2, other_side="mean_field_with_own")


def test_presence_settings_reach_the_model():
    answer("fit", "ratings.csv", "-o", "q.ordbm", *SMALL, "--presence-precision", "7",
           "--presence-budget", "1e3")  # fmt: skip
    found = ordbm.load("q.ordbm")
    assert (found.settings.presence_precision, found.settings.presence_budget) == (7, 1000)
    answer("fit", "ratings.csv", "-o", "q.ordbm", *SMALL, "--no-presence")
    assert not ordbm.load("q.ordbm").settings.presence


@pytest.fixture(scope="module")
def embedded(folder):
    """embedded.ordbm, learnt from the embedded ratings, and what was told of it."""
    return json_answer("fit", "movielens-small", "-o", folder / "embedded.ordbm", "--hidden", "0",
                       "--item-links", "0", "--epochs", "1", "--members", "1")  # fmt: skip


def test_embedded_ratings_by_name(embedded):
    assert embedded["ratings"]["ratings"] == 100_004


def test_resume_gives_what_an_unbroken_run_gives(ratings):
    long = [*SMALL[:-1], "4"]
    answer("fit", "ratings.csv", "-o", "whole.ordbm", *long)
    answer("fit", "ratings.csv", "-o", "half.ordbm", *SMALL, "--checkpoint", "run")
    answer("fit", "ratings.csv", "-o", "half.ordbm", *long, "--checkpoint", "run", "--resume")
    whole, half = ordbm.load("whole.ordbm"), ordbm.load("half.ordbm")
    assert whole.history == half.history
    np.testing.assert_array_equal(
        whole.predict(list(ratings.users), 101), half.predict(list(ratings.users), 101)
    )


def test_a_checkpoint_is_not_written_over_without_a_word():
    first, second, third = (
        run("fit", "ratings.csv", "-o", "c.ordbm", *SMALL, "--checkpoint", "again", *more).stderr
        for more in ([], [], ["--resume"])
    )
    assert "starting anew" not in first + third
    assert second.count("again has a checkpoint: starting anew") == 1


def test_one_epoch_is_not_several():
    written = run("fit", "ratings.csv", "-o", "one.ordbm", *SMALL[:-1], "1").stderr
    assert "1 epoch in" in written


# -- predict --------------------------------------------------------------------------------------


@pytest.fixture
def pairs(model):
    users, items = [1, 2, 3, 999, 998, 5, 997], [101, 102, 7, 103, 104, 104, 7]
    frame = pd.DataFrame({"user": users, "item": items})
    frame.to_csv("pairs.csv", index=False)
    return model.predict_table(users, items, backend="pandas")


@pytest.mark.parametrize("at_once", [2, 100_000])
@pytest.mark.parametrize("form", ["stdout", "csv", "parquet", "json"])
def test_predictions_are_the_library_s(pairs, form, at_once, monkeypatch):
    monkeypatch.setattr(predict, "PAIRS_AT_ONCE", at_once)
    if form == "stdout":
        found = pd.read_csv(io.StringIO(answer("predict", "model.ordbm", "pairs.csv")))
    elif form == "json":
        found = pd.DataFrame(json_answer("predict", "model.ordbm", "pairs.csv"))
    else:
        assert answer("predict", "model.ordbm", "pairs.csv", "-o", f"out.{form}") == ""
        found = pd.read_csv("out.csv") if form == "csv" else pd.read_parquet("out.parquet")
    pd.testing.assert_frame_equal(found, pairs, check_dtype=False)
    assert found["known_user"].tolist() == [True, True, True, False, False, True, False]
    assert found["known_item"].tolist() == [True, True, False, True, True, True, False]


def test_strangers_are_counted(pairs):
    assert len(pairs) == 7
    assert "4 of 7 pairs" in run("predict", "model.ordbm", "pairs.csv", "-o", "out.csv").stderr


def test_a_file_of_predictions_in_json(pairs):
    found = json_answer("predict", "model.ordbm", "pairs.csv", "-o", "out.csv")
    assert found == {"path": "out.csv", "pairs": len(pairs), "unknown_users": 3, "unknown_items": 2}


def test_ids_of_pairs_may_be_of_several_kinds():
    """A column with a text id is read as text; the numbers in it are still the model's."""
    Path("mixed.csv").write_text("user,item\n1,101\nx,101\n")
    rows = list(csv.DictReader(answer("predict", "model.ordbm", "mixed.csv").splitlines()))
    assert [(row["user"], row["known_user"]) for row in rows] == [("1", "true"), ("x", "false")]


# -- recommend and explain ------------------------------------------------------------------------


LISTS = {
    (): {},
    **{("--by", by): {"by": by} for by in ("liked", "rated", "gain", "energy", "mean")},
    ("--at-least", "5"): {"by": AtLeast(5.0)},
    ("--long-tail", "0.5"): {"by": LongTail(AtLeast(), 0.5)},
    ("--at-least", "3", "--long-tail", "1"): {"by": LongTail(AtLeast(3.0), 1.0)},
    ("--diversity", "0.7"): {"diversity": 0.7},
    ("--candidates", "similar-users"): {"candidates": "similar_users"},
    ("--candidates", "linked", "--by", "mean"): {"candidates": "linked", "by": "mean"},
    ("--candidates", "some.txt"): {"candidates": [101, 105, 110]},
    ("--exclude", "101", "--exclude", "105"): {"exclude": [101, 105]},
    ("--exclude", "film 101", "--titles", "titles.csv"): {"exclude": [101]},
    ("--exclude", "some.txt", "--exclude", "118"): {"exclude": [101, 105, 110, 118]},
    ("--items", "genres.tsv", "--where", "genre=odd"): {"candidates": range(101, 120, 2)},
    (
        "--items", "genres.tsv", "--where", "genre=Odd", "--where", "tens=11", "--exclude", "111",
        "--candidates", "similar_users",
    ): {
        "candidates": "similar_users",
        "exclude": [111, *(item for item in TITLES if item % 2 == 0 or item < 110)],
    },
}  # fmt: skip


@pytest.mark.parametrize("options", LISTS, ids=" ".join)
def test_lists_are_the_library_s(model, options):
    Path("some.txt").write_text("101\n105\n\n110\n")
    rows = [f"{'Odd|Strange' if item % 2 else 'Even'}\t{item}\t{item // 10}" for item in TITLES]
    Path("genres.tsv").write_text("\n".join(["genre\titem\ttens", *rows]))
    found = json_answer("recommend", "model.ordbm", "--user", "3", "-n", "4", *options)
    expected = model.recommend(3, 4, **LISTS[options])
    assert expected
    for line in found["recommendations"]:
        del line["title"]
    assert found == {"user": 3, "recommendations": plain([line._asdict() for line in expected])}


def test_a_file_of_exclusions_may_have_other_ids_and_a_known_id_is_no_file(model):
    Path("sold-out.txt").write_text("101\nnever heard of\n")
    Path("105").write_text("106\n")
    found = json_answer("recommend", "model.ordbm", "--user", "3", "-n", "20", "--exclude",
                        "sold-out.txt", "--exclude", "105")  # fmt: skip
    expected = model.recommend(3, 20, exclude=[101, 105])
    assert [line["item"] for line in found["recommendations"]] == [one.item for one in expected]


def test_lists_without_presence_are_by_mean(ratings):
    alone = ordbm.OrdinalBM(**ARGUMENTS, presence=False).fit(ratings)
    alone.save("alone.ordbm")
    found = json_answer("recommend", "alone.ordbm", "--user", "3", "-n", "4")
    expected = [line._asdict() | {"title": None} for line in alone.recommend(3, 4, by="mean")]
    assert found == {"user": 3, "recommendations": plain(expected)}
    assert found["recommendations"][0]["rated"] is None
    assert "P(rated)" not in answer("recommend", "alone.ordbm", "--user", "3")


def test_lists_for_somebody_new_by_title(model):
    found = json_answer("recommend", "model.ordbm", "--rated", "film 103=5", "--rated", "104=1",
                        "--titles", "titles.csv", "-n", "3")  # fmt: skip
    expected = model.recommend(ratings={103: 5, 104: 1}, n=3)
    assert [line["item"] for line in found["recommendations"]] == [one.item for one in expected]
    assert [line["title"] for line in found["recommendations"]] == [
        TITLES[one.item] for one in expected
    ]


def test_a_list_without_items_says_so():
    done = run("recommend", "model.ordbm", "--user", "3", *(
        word for item in TITLES for word in ("--exclude", item)
    ))  # fmt: skip
    assert done.exit_code == 0
    assert "no item is left to list" in done.stderr


def test_a_list_in_words_has_titles_and_reasons():
    text = answer("recommend", "model.ordbm", "--user", "3", "-n", "2", "--titles", "titles.csv",
                  "--explain")  # fmt: skip
    best = json_answer("recommend", "model.ordbm", "--user", "3", "-n", "2", "--explain")
    for line in best["recommendations"]:
        assert TITLES[line["item"]] in text
        parts = line["explanation"]["parts"]
        assert line["explanation"]["base"] + sum(part["effect"] for part in parts) == pytest.approx(
            line["explanation"]["final"], abs=1e-6
        )
    assert "log-odds" in text


def test_a_list_says_what_makes_items_likely_to_be_rated(model):
    text = answer("recommend", "model.ordbm", "--user", "3", "--titles", "titles.csv", "--explain",
                  "--by", "gain")  # fmt: skip
    lines = model.recommend(3, by="gain")
    assert any(line.because for line in lines)
    for line in lines:
        row = next(row for row in text.splitlines() if row.strip().startswith(str(line.item)))
        assert f"{line.rated:.1%}" in row
        assert row.endswith(f"{line.score:.2f}  ")
        reasons = ", ".join(f"{TITLES[item]} ({added:+.2f})" for item, added in line.because)
        if reasons:
            assert f"P(rated) = {line.rated:.1%}, because you rated: {reasons}" in text


def test_labels_are_ratings_too(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rating\na,x,poor\na,y,good\nb,x,good\nb,z,fair\n")
    answer("fit", tmp_path / "r.csv", "-o", tmp_path / "m", *SMALL, "--scale", "poor,fair,good")
    found = json_answer("recommend", tmp_path / "m", "--rated", "x=good")
    assert {line["item"] for line in found["recommendations"]} == {"y", "z"}
    assert json_answer("recommend", tmp_path / "m", "--rated", "x=good", "--at-least", "good") == (
        found
    )
    text = fault("recommend", tmp_path / "m", "--rated", "x=good", "--at-least", "best")
    assert text == "--at-least best: use one of poor, fair, good"


def test_an_explanation_is_the_library_s(model):
    found = json_answer("explain", "model.ordbm", "--user", "3", "--item", "101", "-n", "8")
    assert found == plain(model.explain(3, 101, n=8).to_dict())
    text = answer("explain", "model.ordbm", "--user", "3", "--item", "101")
    assert sum("%" in line for line in text.splitlines()) == 5  # a bar per level


# -- evaluate -------------------------------------------------------------------------------------


def scores(found):
    return [one["scores"] for one in found["models"]]


def test_hold_out_scores_are_the_library_s(ratings):
    found = json_answer("evaluate", "ratings.csv", *SMALL, "--split-seed", "3", "--lists", "2,5",
                        "--compare", "bias,global")  # fmt: skip
    train, test = ordbm.hold_out(ratings, 0.2, seed=3)
    ours = train_and_test(
        ordbm.OrdinalBM(**ARGUMENTS), train, test, validation=0.1, seed=3, lists=[2, 5]
    )
    bias = train_and_test(BASELINES["bias"](), train, test, seed=3, lists=[2, 5])
    assert [one["model"] for one in found["models"]] == ["OrdinalBM", "bias", "global"]
    assert scores(found)[0] == pytest.approx(ours.scores)
    assert scores(found)[1] == pytest.approx(bias.scores)
    assert found["models"][0]["intervals"]["rmse"] == pytest.approx(ours.intervals["rmse"])


def test_folds(ratings):
    found = json_answer("evaluate", "ratings.csv", *SMALL, "--folds", "2", "--validation", "0")
    expected = ordbm.cross_validate(ordbm.OrdinalBM(**ARGUMENTS), ratings, 2)
    assert scores(found) == [pytest.approx(expected.scores)]
    assert len(found["models"][0]["evaluations"]) == 2


def test_strangers_of_all_folds_are_counted(tmp_path):
    """Whoever has one rating is a stranger in the fold that tests it, and so is such an item."""
    lines = [f"{user},{item},{1 + (user + item) % 5}" for user in range(9) for item in range(6)]
    lines += [f"single{n},{n % 6},{1 + n % 5}" for n in range(7)]
    lines += [f"{n},once{n},{1 + n % 5}" for n in range(4)]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["user,item,rating", *lines]))
    told = answer("evaluate", path, *SMALL, "--folds", "3", "--validation", "0")
    words = " ".join(told.split())
    assert "(7 ratings), 4 of" in words
    found = json_answer("evaluate", path, *SMALL, "--folds", "3", "--validation", "0")
    each = [fold["unknown"] for fold in found["models"][0]["evaluations"]]
    assert max(fold["users"] for fold in each) < 7
    assert sum(fold["users"] for fold in each) == 7
    assert sum(fold["items"] for fold in each) == 4


def test_a_given_test_set_and_a_saved_model(ratings, tmp_path):
    write_ratings_file(tmp_path / "other.csv", seed=1)
    other = ordbm.read_ratings(tmp_path / "other.csv")
    tested = json_answer("evaluate", "ratings.csv", *SMALL, "--test", tmp_path / "other.csv",
                         "--validation", "0")  # fmt: skip
    fitted = ordbm.OrdinalBM(**ARGUMENTS).fit(ratings)
    assert scores(tested) == [pytest.approx(ordbm.evaluate(fitted, other).scores)]
    with pytest.warns(UserWarning, match=r"learnt from \d+ of these 300 ratings"):
        saved = json_answer("evaluate", tmp_path / "other.csv", "--model", "model.ordbm")
    assert scores(saved) == [pytest.approx(scores(tested)[0])]


def test_ratings_that_a_model_has_not_seen_give_no_warning(tmp_path):
    (tmp_path / "new.csv").write_text("user,item,rating\nnew,100,5\nnew,101,4\n1,never,3\n")
    found = json_answer("evaluate", tmp_path / "new.csv", "--model", "model.ordbm")
    assert found["models"][0]["n_ratings"] == 3


def test_ids_of_test_ratings_may_be_of_another_kind(tmp_path):
    """One text id makes the whole column text; its numbers are still those learnt from."""
    write_ratings_file(tmp_path / "same.csv", seed=1)
    lines = (tmp_path / "same.csv").read_text() + "somebody,100,5\n1,something,3\n"
    (tmp_path / "text.csv").write_text(lines)
    for arguments in (
        ("ratings.csv", "--test", tmp_path / "text.csv", "--validation", "0", *SMALL),
        (tmp_path / "text.csv", "--model", "model.ordbm"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # learnt from some of them
            found = json_answer("evaluate", *arguments)
            text = answer("evaluate", *arguments)
        assert found["models"][0]["unknown"] == {"users": 1, "items": 1}
        assert "unknown to the model: 1 of 31 users (1 rating), 1 of 21 items (1 rating)" in text


def test_baselines_rank_in_their_own_way():
    found = json_answer("evaluate", "ratings.csv", *SMALL, "--lists", "3", "--by", "energy",
                        "--compare", "bias")  # fmt: skip
    assert all("ndcg@3" in one for one in scores(found))


def test_a_report_that_cannot_be_drawn_is_refused_before_learning(monkeypatch):
    monkeypatch.setattr(evaluate, "find_spec", lambda _: None)
    assert "ordbm[plot]" in fault("evaluate", "none.csv", "--report", "none.html")


def test_scores_in_words_and_as_a_page():
    alone = answer("evaluate", "ratings.csv", *SMALL)
    assert "log_loss" in alone
    beside = answer("evaluate", "ratings.csv", *SMALL, "--compare", "bias", "--report", "r.html")
    assert all(word in beside for word in ("OrdinalBM", "bias", "log-loss"))
    page = Path("r.html").read_text()
    assert "OrdinalBM" in page
    assert "bias" in page


# -- tune, inspect, data --------------------------------------------------------------------------


def test_tuned_settings_come_as_commands():
    arguments = ("--study", "s.db", "--hidden", "4", "--item-links", "0", "--epochs", "2")
    done = run("tune", "ratings.csv", *arguments, "--trials", "2")
    text = done.stdout
    assert "interrupted" not in done.stderr
    found = json_answer("tune", "ratings.csv", *arguments, "--trials", "2")
    assert found["trials"] == 2  # all of them were in the study already
    assert found["score"] <= found["unsearched_score"]
    assert found["fit"] in text.splitlines()
    assert found["evaluate"] in text.splitlines()
    answer(*shlex.split(found["fit"])[1:])
    assert ordbm.load("model.ordbm").settings.hidden == 4
    answer(*shlex.split(found["evaluate"])[1:])


def test_inspect_says_what_a_model_is(model):
    model.save("i.ordbm")
    found = json_answer("inspect", "i.ordbm", "--item", "101", "-n", "3")
    assert found["trained_on"]["ratings"] == 300
    assert found["settings"] == "--hidden 4 --item-links 5 --epochs 2 --members 2"
    assert [one["id"] for one in found["nearest"]] == [
        one.id for one in model.similar_items(101, 3)
    ]
    assert len(found["history"]) == 2
    linked = len(model._state.presence.linked)
    assert found["presence"] == f"learnt, with links between {linked} items"
    text = answer("inspect", "i.ordbm", "--item", "film 101", "--titles", "titles.csv", "-n", "3")
    assert "300" in text
    assert f"{found['nearest'][0]['id']} Film" in text


def test_ids_and_titles_are_taken_literally(tmp_path):
    items = ("[/x]", "[bold]", ":smile:")
    lines = [f"{user},{item},{user % 5 + 1}" for user in range(1, 9) for item in items]
    (tmp_path / "r.csv").write_text("\n".join(["user,item,rating", *lines]))
    (tmp_path / "t.CSV").write_text("\n".join(f"{item},[red]{item}" for item in items))
    answer("fit", tmp_path / "r.csv", "-o", tmp_path / "m", *SMALL)
    near = answer("inspect", tmp_path / "m", "--item", "[/x]", "--titles", tmp_path / "t.CSV")
    assert "Nearest to [/x] in hidden space" in near
    assert "[bold] [red][bold]" in near
    text = answer("recommend", tmp_path / "m", "--rated", "[bold]=5", "--explain")
    assert "[/x]" in text
    assert ":smile:" in text


def test_an_id_comes_before_a_title(tmp_path):
    (tmp_path / "t.csv").write_text("102,101\n103,Alien\n104,Twin\n-1,twin\n")
    arguments = ("explain", "model.ordbm", "--user", "3", "--titles", tmp_path / "t.csv")
    for typed, item in (("101", 101), ("alien", 103), ("twin", 104)):
        assert json_answer(*arguments, "--item", typed)["item"] == item


def test_strongest_links_are_those_of_the_machine(model):
    model.save("i.ordbm")
    links = json_answer("inspect", "i.ordbm", "-n", "1000")["item_links"]
    side = model.machines[0].user_side
    weight = np.mean([one.user_side.parameters.link_weight[:, 0] for one in model.machines], axis=0)
    assert len(links) == side.links.n_edges
    weights = [abs(link["weight"]) for link in links]
    assert weights == sorted(weights, reverse=True)
    assert sorted(link["weight"] for link in links) == pytest.approx(sorted(weight.tolist()))
    items = model._state.items
    for link in links:
        first, second = items.codes(link["ids"])
        near = side.links.neighbour[side.links.start[first] : side.links.start[first + 1]]
        place = side.links.start[first] + near.tolist().index(second)
        edge = side.links.edge[place]
        assert link["weight"] == pytest.approx(float(weight[edge]))


def test_data_list():
    names = [one["name"] for one in json_answer("data", "list")]
    assert names[0] == "movielens-small"
    assert set(download.DOWNLOADS) < set(names)
    assert all(name in answer("data", "list") for name in names)


def test_data_get(monkeypatch, tmp_path):
    def fake(name, folder, progress):
        progress(1, 2)
        path = folder / f"{name}.zip"
        path.write_bytes(b"zip")
        return path

    monkeypatch.setattr(download, "get_dataset", fake)
    assert answer("data", "get", "ml-1m", tmp_path) == f"{tmp_path / 'ml-1m.zip'}\n"
    assert json_answer("data", "get", "ml-1m", tmp_path)["bytes"] == 3


def test_data_convert(ratings):
    answer("data", "convert", "ratings.csv", "converted.parquet")
    found = ordbm.read_ratings("converted.parquet")
    assert len(found) == len(ratings)
    assert json_answer("data", "convert", "converted.parquet", "back.tsv")["ratings"] == {
        **json_answer("data", "convert", "ratings.csv", "again.tsv")["ratings"],
        "source": "converted.parquet",
        "seconds": pytest.approx(0, abs=10),
    }


@pytest.mark.usefixtures("embedded")
def test_titles_of_the_embedded_set():
    found = json_answer("recommend", "embedded.ordbm", "--user", "1", "-n", "2", "--titles",
                        "movielens-small")  # fmt: skip
    titles = load_titles("movielens-small")
    assert [line["title"] for line in found["recommendations"]] == [
        titles[line["item"]] for line in found["recommendations"]
    ]
