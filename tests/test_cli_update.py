"""`ordbm update`, `ordbm refit` and what `ordbm inspect` says of them."""

from pathlib import Path

import numpy as np
import pytest

import ordbm
from cli_runs import SMALL, answer, fault, json_answer, run, write_ratings_file


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """model.ordbm learnt from ratings.csv, and today.csv and gone.csv that came later."""
    path = tmp_path_factory.mktemp("update")
    write_ratings_file(path / "ratings.csv")
    lines = (path / "ratings.csv").read_text().splitlines()
    (path / "today.csv").write_text("user,item,rating\n77,100,5\n77,101,4\n1,999,2\n")
    (path / "gone.csv").write_text("\n".join(["user,item,rating", *lines[1:4]]) + "\n")
    (path / "never.csv").write_text("user,item\n77,100\n")
    (path / "off.csv").write_text("user,item,rating\n77,100,9\n")
    (path / "many.csv").write_text(
        "\n".join(["user,item,rating", *(f"{user},100,4" for user in range(200, 280))]) + "\n"
    )
    answer("fit", path / "ratings.csv", "-o", path / "model.ordbm", *SMALL)
    return path


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_update_does_what_partial_fit_does():
    done = run("update", "model.ordbm", "today.csv", "--withdraw", "gone.csv", "-o", "new.ordbm")
    assert done.exit_code == 0, done.stderr
    assert "3 new, 3 withdrawn; new users: 1, items: 1" in done.stderr
    loaded, model = ordbm.load("new.ordbm"), ordbm.load("model.ordbm")
    pairs = [line.split(",") for line in Path("gone.csv").read_text().splitlines()[1:]]
    gone = [(int(user), int(item)) for user, item, _ in pairs]
    model.partial_fit(ordbm.read_ratings("today.csv", scale=model.scale), gone)
    asked = [1, 2, 77, 77], [999, 100, 105, 999]
    np.testing.assert_array_equal(loaded.predict_proba(*asked), model.predict_proba(*asked))


def test_update_says_what_changed_in_json():
    found = json_answer("update", "model.ordbm", "today.csv", "-o", "json.ordbm")
    assert found["changes"]["new"] == 3
    assert found["changes"]["new_users"] == found["changes"]["new_items"] == 1
    assert found["since_learning"]["new"] == 3
    assert found["since_learning"]["drift"] == pytest.approx(3 / 300)


def test_inspect_says_when_to_refit_and_refit_starts_again():
    answer("update", "model.ordbm", "many.csv", "-o", "drifted.ordbm")
    assert "not yet worth while" in answer("inspect", "model.ordbm")
    shown = json_answer("inspect", "drifted.ordbm")["since_learning"]
    assert (shown["new ratings"], shown["new users"], shown["drift"]) == (80, 80, 80 / 300)
    assert shown["ordbm refit"].startswith("worth while")
    found = json_answer("refit", "drifted.ordbm", "-o", "again.ordbm")
    assert found["ratings"] == 380
    again, drifted = ordbm.load("again.ordbm"), ordbm.load("drifted.ordbm")
    assert again.growth == (380, 110, 20, 0, 0, 0)
    whole = ordbm.OrdinalBM(**drifted.get_params()).fit(drifted.known_ratings())
    asked = [1, 2, 279], [101, 100, 105]
    np.testing.assert_array_equal(again.predict_proba(*asked), whole.predict_proba(*asked))


def test_a_model_may_be_replaced_by_itself():
    answer("update", "model.ordbm", "today.csv", "-o", "own.ordbm")
    answer("update", "own.ordbm", "--withdraw", "today.csv", "-o", "own.ordbm")
    assert ordbm.load("own.ordbm").growth[3:] == (3, 0, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["off.csv"], "9"),
        (["--withdraw", "never.csv"], "cannot withdraw a rating that is not there"),
        ([], "nothing to do"),
        (["-", "--withdraw", "-"], "read once"),
    ],
)
def test_what_cannot_be_taken_in_leaves_the_file(arguments, words):
    answer("update", "model.ordbm", "today.csv", "-o", "kept.ordbm")
    before = Path("kept.ordbm").read_bytes()
    assert words in fault("update", "model.ordbm", *arguments, "-o", "kept.ordbm")
    assert Path("kept.ordbm").read_bytes() == before


def test_ids_of_a_text_model_stay_text(tmp_path):
    lines = Path("ratings.csv").read_text().splitlines()
    text = [lines[0], *("u" + line for line in lines[1:]), "12,101,3"]
    (tmp_path / "text.csv").write_text("\n".join(text) + "\n")
    answer("fit", tmp_path / "text.csv", "-o", tmp_path / "text.ordbm", *SMALL)
    answer("update", tmp_path / "text.ordbm", "today.csv", "-o", tmp_path / "new.ordbm")
    assert "77" in ordbm.load(tmp_path / "new.ordbm").users
