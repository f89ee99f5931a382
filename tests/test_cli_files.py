"""Files and streams of commands: bad lines, standard input and output, what is not written over."""

import csv
import io
import json
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import ordbm
from cli_runs import SMALL, answer, fault, json_answer, run, write_ratings_file
from ordbm.cli import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A csv of ratings, a model of it and pairs to predict."""
    place = tmp_path_factory.mktemp("files")
    write_ratings_file(place / "ratings.csv")
    answer("fit", place / "ratings.csv", "-o", place / "model.ordbm", *SMALL)
    (place / "pairs.csv").write_text("user,item\n1,100\n2,101\n")
    return place


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def piped(text, *arguments):
    """What a command makes of text on its standard input."""
    content = text if isinstance(text, bytes) else text.encode()
    return CliRunner().invoke(app, list(map(str, arguments)), input=content)


# -- what is left out ------------------------------------------------------------------------------


def test_bad_lines_are_skipped_and_written(here):
    text = (here / "ratings.csv").read_text() + "1,2\n3,100,great\n"
    (here / "broken.csv").write_text(text)
    told = ("data", "convert", "broken.csv", "-")
    assert "leave them out with --skip-bad-lines" in fault(*told)
    with pytest.warns(ordbm.errors.LeftOutWarning, match="2 lines left out: line 302: 2 fields"):
        done = run(*told, "--skip-bad-lines", "--bad-lines-to", "bad.csv")
    assert done.exit_code == 0
    assert ", 2 bad lines left out" in done.stderr
    assert len(done.stdout.splitlines()) == 301
    with (here / "bad.csv").open(newline="") as file:
        assert [row["line"] for row in csv.DictReader(file)] == ["302", "303"]
    with pytest.warns(ordbm.errors.LeftOutWarning):
        told = json_answer("data", "convert", "broken.csv", "x.csv", "--skip-bad-lines", "--force")
    assert told["ratings"]["bad_lines"] == 2
    assert "without --skip-bad-lines" in fault(
        "fit", "broken.csv", "-o", "n", "--bad-lines-to", "b"
    )
    assert "--bad-lines-to" not in fault("fit", "broken.csv", "-o", "n", "--skip-bad-lines", "--scale", "8,9")  # fmt: skip # noqa: E501


def test_a_command_of_its_own_names_options_in_warnings(here):
    lines = "".join(f"{n},\n" for n in range(9))
    (here / "broken.csv").write_text((here / "ratings.csv").read_text() + lines)
    command = [sys.executable, "-m", "ordbm", "data", "convert", "broken.csv", "-"]
    done = subprocess.run(
        [*command, "--skip-bad-lines"], capture_output=True, text=True, check=True, cwd=here
    )
    assert "ordbm: broken.csv: 9 lines left out: line 302: 2 fields" in done.stderr
    assert "--bad-lines-to names a file" in done.stderr


def test_test_files_have_bad_lines_of_their_own(here):
    (here / "test.csv").write_text("user,item,rating\n1,100,3\n1\n")
    (here / "train.csv").write_text((here / "ratings.csv").read_text() + "2\n3\n")
    with pytest.warns(ordbm.errors.LeftOutWarning):
        answer(
            "evaluate", "train.csv", "--test", "test.csv", *SMALL,
            "--skip-bad-lines", "--bad-lines-to", "left.csv",
        )  # fmt: skip
    assert (here / "left.csv").read_text().count("\n") == 3
    assert (here / "left-test.csv").read_text().count("\n") == 2


def test_missing_values_and_decimals(here):
    (here / "zeros.csv").write_text("user;item;rating\n1;1;0\n1;2;4,5\n2;1;NA\n2;2;3\n")
    told = ("data", "convert", "zeros.csv", "-", "--missing", "0", "--missing", "NA")
    assert answer(*told) == "user,item,rating\n1,2,4.5\n2,2,3\n"
    assert "2 not rated left out" in run(*told).stderr
    assert "'4,5' is not a number" in fault(*told, "--decimal", ".")
    (here / "unclear.csv").write_text("user;item;rating\n1;1;1,000\n")
    assert "say --decimal ,;" in fault("data", "convert", "unclear.csv", "-")
    assert answer("data", "convert", "unclear.csv", "-", "--decimal", ",").endswith("1,1,1\n")
    null = pa.table({"user": [1], "item": [1], "rating": pa.array([None], pa.float64())})
    parquet.write_table(null, here / "null.parquet")
    assert "say --missing nan" in fault("data", "convert", "null.parquet", "-")


# -- standard input and output ---------------------------------------------------------------------


def test_ratings_come_from_standard_input_and_go_to_standard_output(here):
    text = (here / "ratings.csv").read_text()
    done = piped(text, "data", "convert", "-", "-")
    assert done.exit_code == 0
    assert sorted(done.stdout.splitlines()) == sorted(text.splitlines())
    assert done.stderr.startswith("standard input: 300 ratings by 30 users")
    (here / "from-stdin.ordbm").unlink(missing_ok=True)
    assert piped(text, "fit", "-", "-o", "from-stdin.ordbm", *SMALL).exit_code == 0
    assert ordbm.load("from-stdin.ordbm").predict(1, 100) == ordbm.load("model.ordbm").predict(
        1, 100
    )
    done = piped(text, "evaluate", "ratings.csv", "--test", "-", *SMALL, "--json")
    assert json.loads(done.stdout)["models"][0]["n_ratings"] == 300


def test_pairs_come_from_standard_input(here):
    done = piped((here / "pairs.csv").read_text(), "predict", "model.ordbm", "-", "-o", "-")
    assert done.stdout == answer("predict", "model.ordbm", "pairs.csv")


def test_pipes_between_processes(here):
    command = [sys.executable, "-m", "ordbm", "data", "convert"]
    first = subprocess.Popen([*command, "ratings.csv", "-", "-q"], stdout=subprocess.PIPE, cwd=here)
    second = subprocess.run(
        [*command, "-", "-", "-q"], stdin=first.stdout, capture_output=True, check=True, cwd=here
    )
    assert first.wait() == 0
    first.stdout.close()
    assert len(second.stdout.splitlines()) == 301
    assert second.stderr == b""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fit", "ratings.csv", "-o", "-"), "-: this is written to a file"),
        (("evaluate", "ratings.csv", "--report", "-"), "-: this is written to a file"),
        (("tune", "ratings.csv", "--study", "-"), "-: this is written to a file"),
        (("predict", "-", "pairs.csv"), "-: a model is read from a file"),
        (("evaluate", "-", "--test", "-"), "standard input can be read once"),
        (("data", "convert", "ratings.csv", "-", "--json"), "--json and - both"),
        (("data", "convert", "-", "-"), "standard input is empty"),
    ],
)
def test_what_is_no_stream_is_refused(here, arguments, words):  # noqa: ARG001
    assert words in fault(*arguments)


# -- what is not written over ----------------------------------------------------------------------

OURS = {
    "model": ("fit", "ratings.csv", "-o", "{}", *SMALL),
    "csv": ("predict", "model.ordbm", "pairs.csv", "-o", "{}.csv"),
    "parquet": ("predict", "model.ordbm", "pairs.csv", "-o", "{}.parquet"),
    "html": ("evaluate", "ratings.csv", *SMALL, "--report", "{}"),
}


@pytest.mark.parametrize("kind", OURS)
def test_only_files_of_ours_are_replaced(here, kind):
    def command(name):
        return [word.format(name) for word in OURS[kind]]

    target = here / next(word for word in command(f"out-{kind}") if word.startswith("out-"))
    target.write_bytes(b"")  # an empty file holds nothing
    answer(*command(f"out-{kind}"))
    first = target.read_bytes()
    answer(*command(f"out-{kind}"))  # and one of ours is replaced
    assert first
    for content in (b"my notes", (here / "ratings.csv").read_bytes(), b"\0" * 100):
        target.write_bytes(content)
        assert "or replace it with --force" in fault(*command(f"out-{kind}"))
        assert target.read_bytes() == content
    answer(*command(f"out-{kind}"), "--force")
    begin = slice(8, 24) if kind == "model" else slice(6)  # it starts with the length of its head
    assert target.read_bytes()[begin] == first[begin]


def test_ratings_are_never_written_over_unasked(here):
    before = (here / "ratings.csv").read_bytes()
    for source in ("ratings.csv", "movielens-small"):
        words = fault("data", "convert", source, "ratings.csv")
        assert words.startswith("ratings.csv: it is there already, and may be somebody's own file")
    assert "--force" in fault("fit", "ratings.csv", "-o", "ratings.csv")
    assert (here / "ratings.csv").read_bytes() == before
    (here / "copy.csv").write_text("old")
    answer("data", "convert", "ratings.csv", "copy.csv", "--force")
    assert (here / "copy.csv").stat().st_size > 100


def test_the_library_refuses_the_same(here):
    model = ordbm.load("model.ordbm")
    for name in ("ratings.csv", "pairs.csv"):
        with pytest.raises(ordbm.errors.ModelFileError, match=r"not a model; .* overwrite=True"):
            model.save(name)
    ratings = ordbm.read_ratings("ratings.csv")
    with pytest.raises(ordbm.errors.RatingsError, match="overwrite=True"):
        ordbm.write_ratings(ratings, "pairs.csv")
    (here / "notes").write_text("mine")
    model.save("notes", overwrite=True)
    assert ordbm.load("notes").predict(1, 100) == model.predict(1, 100)
    out = io.BytesIO()
    ordbm.write_ratings(ratings, out)
    assert len(ordbm.read_ratings(io.BytesIO(out.getvalue()))) == 300
