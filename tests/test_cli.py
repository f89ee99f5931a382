"""The command line as a whole: help, options, faults."""

import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import ordbm
from cli_runs import HANGS, SMALL, answer, fault, run, started, write_ratings_file
from ordbm.cli.options import ModelOptions, ReadingOptions, unfolded
from ordbm.cli.values import options_for
from ordbm.model import settings
from ordbm.model.learners import LEARNERS

FULL = Path("/dev/full")
COMMANDS = ("demo", "fit", "predict", "recommend", "explain", "evaluate", "tune", "inspect")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with ratings.csv and model.ordbm."""
    folder = tmp_path_factory.mktemp("cli")
    write_ratings_file(folder / "ratings.csv")
    answer("fit", folder / "ratings.csv", "-o", folder / "model.ordbm", *SMALL)
    return folder


# -- help -----------------------------------------------------------------------------------------


def test_version():
    assert answer("--version") == f"ordbm {ordbm.__version__}\n"


def test_no_command_is_a_request_for_help():
    assert answer() == answer("--help")
    assert answer("data") == answer("data", "--help")
    for command in (*COMMANDS, "data"):
        assert f" {command} " in answer()


@pytest.mark.parametrize(
    "command", [*((name,) for name in COMMANDS), *(("data", name) for name in ("get", "convert"))]
)
def test_every_command_has_an_example(command):
    text = " ".join(answer(*command, "--help").split())
    assert re.search(rf"Examples?: .*ordbm {' '.join(command)}", text)


def test_help_and_version_load_no_heavy_library():
    code = (
        "import sys\nfrom ordbm.cli import main\n"
        "for sys.argv in (['ordbm', '--version'], ['ordbm', 'fit', '--help']):\n"
        "    try: main()\n    except SystemExit as done: assert not done.code\n"
        "print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "numba", "llvmlite", "scipy", "pandas", "polars", "pyarrow", "optuna"}
    assert not heavy & set(done.stderr.split())


# -- options --------------------------------------------------------------------------------------


def option(name):
    return get_type_hints(ModelOptions, include_extras=True)[name].__metadata__[0]


def test_help_states_the_defaults_of_the_library():
    known = settings.Settings()
    stated = {}
    for field in fields(ModelOptions):
        told = re.search(r"\[default: (.*)\]", option(field.name).help)
        if told:
            stated[field.name] = told[1]
    for name, text in (
        ("threads", "all cores"), ("engine", "this process"), ("memory", "most of what is free"),
    ):  # fmt: skip
        assert stated.pop(name, text) == text
        assert getattr(known, name) is None
    for name in ("presence", "context"):
        assert stated.pop(name) == name
        assert getattr(known, name) is True
    assert stated.pop("structure") == "sizes by rule"
    assert known.structure is None
    assert stated.pop("presence_precision") == "8 times the cube root of the number of users"
    assert (known.presence_precision, known.presence_rules.precision) == (None, 8)
    # What follows the number of ratings: on either side of where it changes.
    more = known.size_rules.many_ratings
    few, many = (known.resolved(n).hidden for n in (more - 1, more))
    both = [",".join(map(str, sizes)) for sizes in (few, many)]
    assert stated.pop("hidden") == f"{both[0]}; {both[1]} from {more:,} ratings"
    assert stated.pop("members") == "8; fewer for over 2 M ratings or 300 M couplings"
    assert [known.resolved(2_000_000 + more).members for more in (0, 1)] == [8, 7]
    for_eight = 300_000_000 // (8 * few[0])
    assert [known.resolved(1, (for_eight + more, 0)).members for more in (0, 1)] == [8, 7]
    for name, text in stated.items():
        assert type(getattr(known, name))(text) == getattr(known, name), name
    assert len(stated) >= 10


def test_help_states_the_choices_of_the_library():
    assert set(option("features").metavar.split("|")) == set(get_args(settings.FeatureKind))
    assert set(option("sides").metavar.split("|")) == set(get_args(settings.Sides))
    assert set(option("preset").metavar.split("|")) == set(settings.PRESETS)
    assert set(option("learner").metavar.split("|")) == set(LEARNERS)


def test_every_setting_has_an_option():
    """But for the rules, which nobody needs to set, and memory, which reading is told."""
    names = {field.name for field in fields(settings.Settings)} - {"memory"}
    known = {name for name in names if not name.endswith("_rules")}
    assert known | {"set_"} == {field.name for field in fields(ModelOptions)}


def told(*arguments):
    """The groups of options that a command is given."""
    found = {}
    small = typer.Typer()

    @small.command()
    @unfolded
    def command(reading: ReadingOptions, model_options: ModelOptions) -> None:
        found.update(reading=reading, model=model_options)

    done = CliRunner().invoke(small, list(arguments))
    assert done.exit_code == 0, done.output
    return found["reading"], found["model"]


learners = st.builds(
    replace,
    st.sampled_from(list(LEARNERS.values())),
    rate=st.floats(0.01, 2),
    bias_precision=st.floats(0, 100),
    block_rows=st.none() | st.integers(1, 1000),
    shared_potential=st.booleans(),
    other_side=st.sampled_from(["exact", "sample"]),
)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "features": st.sampled_from(get_args(settings.FeatureKind)),
        "sides": st.sampled_from(get_args(settings.Sides)),
        "hidden": st.integers(0, 99) | st.tuples(st.integers(0, 99), st.integers(0, 99)),
        "item_links": st.integers(0, 99),
        "link_shrinkage": st.floats(0, 1e6),
        "learner": st.sampled_from(list(LEARNERS)) | learners,
        "epochs": st.integers(0, 99),
        "preset": st.sampled_from(list(settings.PRESETS)),
        "presence": st.booleans(),
        "presence_precision": st.floats(0, 1e6),
        "presence_budget": st.floats(0, 1e12),
        "seed": st.integers(0, 2**62 - 1),
        "dtype": st.sampled_from(["float32", "float64"]),
    },
)


@given(arguments)
def test_options_for_settings_give_these_settings(given_arguments):
    model = ordbm.OrdinalBM(**given_arguments)
    _, options = told(*options_for(given_arguments))
    assert options.model().settings == model.settings
    assert options.model().learner == model.learner


def test_set_changes_the_learner_of_the_preset():
    _, options = told("--preset", "paper", "--set", "rate=0.25", "--set", "block-rows=none")
    expected = replace(LEARNERS["structured"], rate=0.25, block_rows=None)
    assert options.model().learner == expected


def test_reading_options_give_themselves():
    texts = ["--user-column", "u", "--rating-column", "2", "--scale", "1,2", "--no-header"]
    reading, _ = told(*texts)
    assert reading.arguments()["rating"] == 2
    assert told(*reading.options())[0] == reading
    assert told()[0].options() == []


def test_scales():
    def scale(text):
        return told("--scale", text)[0].arguments()["scale"]

    assert scale("1, 2,5") == [1, 2, 5]
    assert scale("poor,fair") == ["poor", "fair"]
    assert scale("continuous") == "continuous"
    assert scale("bins:0,10,60") == ordbm.RatingScale.bins([0, 10, 60])


# -- faults ---------------------------------------------------------------------------------------

FIT = ("fit", "ratings.csv", "-o", "new.ordbm")
LIST = ("recommend", "model.ordbm", "--user", "1")
FAULTS = {
    ("fit", "none.csv", "-o", "new.ordbm"): "none.csv.*No such file",
    ("fit", "bad.csv", "-o", "new.ordbm"): r"bad.csv.*line 3.*'oops' is not a number",
    ("fit", "twice.csv", "-o", "new.ordbm", "--duplicates", "error"): "more than once",
    ("fit", "ratings.csv"): "Missing option.*output",
    ("fit", "ratings.csv", "-o", "none/new.ordbm"): "no folder",
    ("fit", "ratings.csv", "-o", "."): "not a file",
    ("fit", "ratings.csv", "-o", "/dev/null"): "not a file",
    (*FIT, "--sides", "both"): "sides='both'",
    (*FIT, "--epochs", "few"): "--epochs.*integer",
    (*FIT, "--epochs", "-1"): "epochs=-1",
    (*FIT, "--hidden", "4,x"): "--hidden 4,x",
    (*FIT, "--hidden", "1,2,3"): r"hidden=\(1, 2, 3\)",
    (*FIT, "--preset", "none"): "preset='none'",
    (*FIT, "--set", "rate"): "NAME=VALUE",
    (*FIT, "--set", "rate=fast"): "must be a number",
    (*FIT, "--set", "rate=nan"): "rate=nan",
    (*FIT, "--set", "speed=1"): "no such setting; it has rate, ",
    (*FIT, "--set", "shared_potential=1"): "true or false",
    (*FIT, "--validation", "2"): "between 0 and 1",
    (*FIT, "--scale", "1,2"): "not on the scale",
    (*FIT, "--scale", "bins:a,b"): "edges",
    (*FIT, "--user-column", "who"): "no column 'who'.*say which with --user-column$",
    ("fit", "odd.csv", "-o", "new.ordbm"): "--user-column, .* if it is data, --no-header",
    (*FIT, "--resume"): "--checkpoint",
    (*FIT, "--unknown"): "No such option",
    ("recommend", "model.ordbm"): "--user ID",
    ("recommend", "model.ordbm", "--user", "1", "--rated", "100=1"): "either",
    ("recommend", "model.ordbm", "--user", "999"): "user '999' is not in this model: it has",
    ("recommend", "model.ordbm", "--user", "1", "--by", "luck"): "by='luck'",
    ("recommend", "model.ordbm", "--user", "1", "-n", "-1"): "n=-1",
    (*LIST, "--at-least", "6"): "--at-least 6: give a rating of 5 levels",
    (*LIST, "--at-least", "high"): "--at-least high: give a rating",
    (*LIST, "--at-least", "4", "--by", "mean"): "--at-least is for --by liked",
    (*LIST, "--long-tail", "-1"): "--long-tail -1: must be a number, 0 or more",
    (*LIST, "--long-tail", "1", "--by", "energy"): "--long-tail is not for --by energy",
    (*LIST, "--long-tail", "nan"): "--long-tail nan",
    (*LIST, "--diversity", "2"): "diversity=2.0: must be from 0 to 1",
    (*LIST, "--exclude", "none.csv"): "no such file, and item 'none.csv' is not in",
    (*LIST, "--where", "genre=Horror"): "--items and --where go together",
    (*LIST, "--items", "genres.csv"): "--items and --where go together",
    (*LIST, "--items", "none.csv", "--where", "a=b"): "cannot read none.csv: No such file",
    (*LIST, "--items", "genres.csv", "--where", "genre"): "COLUMN=VALUE",
    (
        *LIST,
        "--items",
        "genres.csv",
        "--where",
        "kind=Horror",
    ): "no column 'kind'; it has id, genre",
    (*LIST, "--items", "genres.csv", "--where", "genre=War"): "there is Comedy, Horror",
    (*LIST, "--items", "genres.csv", "--where", "genre=Comedy"): "none of the 1 items with genre=C",
    (*LIST, "--items", "uneven.csv", "--where", "genre=War"): "line 3: 1 columns, and the header",
    (*LIST, "--items", "model.ordbm", "--where", "genre=War"): "model.ordbm: line .*with a header",
    (
        "recommend",
        "model.ordbm",
        "--rated",
        "100=1",
        "--candidates",
        "linked",
    ): "--user ID: use all",
    ("recommend", "absent.ordbm", "--user", "1", "--by", "liked"): "--by liked: .* --presence",
    ("recommend", "absent.ordbm", "--user", "1", "--long-tail", "1"): "--long-tail 1.0: this model",
    ("recommend", "absent.ordbm", "--user", "1", "--by", "luck"): "by='luck'",
    ("recommend", "model.ordbm", "--user", "1", "--candidates", "none"): "--candidates none",
    ("recommend", "model.ordbm", "--user", "1", "--candidates", "model.ordbm"): "not in this model",
    ("recommend", "model.ordbm", "--rated", "100"): "ITEM=RATING",
    ("recommend", "model.ordbm", "--rated", "100=great"): "'great' is not a number",
    ("recommend", "model.ordbm", "--rated", "100=6"): "off the scale",
    ("recommend", "model.ordbm", "--rated", "7=1"): "item '7' is not in this model",
    ("recommend", "model.ordbm", "--user", "1", "--titles", "none.csv"): "none.csv",
    ("recommend", "model.ordbm", "--user", "1", "--titles", "others.csv"): "none of its 2 ids",
    ("recommend", "model.ordbm", "--user", "1", "--titles", "model.ordbm"): "no titles",
    ("recommend", "model.ordbm", "--user", "1", "--titles", "narrow.csv"): "line 1",
    ("recommend", "ratings.csv", "--user", "1"): "not an ordbm model",
    ("recommend", "cut.ordbm", "--user", "1"): "incomplete or was altered",
    ("recommend", "changed.ordbm", "--user", "1"): "incomplete or was altered",
    ("inspect", "none.ordbm"): "does not exist",
    ("inspect", "model.ordbm", "--item", "x"): "item 'x'",
    ("inspect", "model.ordbm", "-n", "-1"): "-n=-1",
    ("inspect", "model.ordbm", "--item", "Twin", "--titles", "twins.csv"): "called, 101, 102: give",
    ("inspect", "model.ordbm", "--item", "[/x]"): r"item '\[/x\]'",
    ("inspect", "model.ordbm", "--titles", "beside/ratings.dat"): "ratings.dat has no titles",
    ("explain", "model.ordbm", "--user", "1"): "Missing option.*item",
    ("predict", "model.ordbm", "none.csv"): "none.csv",
    ("predict", "model.ordbm", "bad.csv", "-o", "new.txt"): ".csv or .parquet",
    ("predict", "model.ordbm", "one.csv"): "one.csv",
    ("evaluate", "ratings.csv", "--compare", "bias,luck"): "--compare luck: there is global",
    ("evaluate", "ratings.csv", "--folds", "1"): "folds=1",
    ("evaluate", "ratings.csv", "--folds", "2", "--model", "model.ordbm"): "--folds and --model",
    ("evaluate", "ratings.csv", "--model", "model.ordbm", "--compare", "all"): "without --model",
    (
        "evaluate",
        "ratings.csv",
        "--model",
        "model.ordbm",
        "--hidden",
        "4",
    ): "--hidden has no effect",
    ("evaluate", "ratings.csv", "--model", "model.ordbm", "--set", "rate=1"): "--set has no effect",
    ("evaluate", "ratings.csv", "--model", "model.ordbm", "--no-presence"): "--no-presence has no",
    ("evaluate", "ratings.csv", "--model", "model.ordbm", "--validation", "0"): "--validation has",
    ("evaluate", "ratings.csv", "--model", "model.ordbm", "--test-fraction", "0.2"): "with --model",
    (
        "evaluate",
        "ratings.csv",
        "--test",
        "bad.csv",
        "--test-fraction",
        "0.2",
    ): "--test-fraction has no effect with --test",
    ("evaluate", "ratings.csv", "--folds", "2", "--test-fraction", "0.2"): "effect with --folds",
    ("evaluate", "ratings.csv", "--by", "mean"): "--by has no effect without --lists",
    (
        "fit",
        "movielens-small",
        "-o",
        "new.ordbm",
        "--scale",
        "1,2",
    ): "--scale has no effect on movie",
    (
        "fit",
        "movielens-small",
        "-o",
        "new.ordbm",
        "--user-column",
        "0",
    ): "--user-column has no effect",
    ("evaluate", "ratings.csv", "--lists", "ten"): "--lists ten",
    ("evaluate", "ratings.csv", "--lists", "0", *SMALL): "lists",
    ("evaluate", "ratings.csv", "--report", "none/r.html"): "no folder",
    ("tune", "ratings.csv", "--study", "ratings.csv"): "another kind of file",
    ("tune", "ratings.csv", "--metric", "luck"): "metric='luck'",
    ("tune", "ratings.csv", "--trials", "0"): "trials=0",
    ("data", "get", "luck"): "no data set 'luck'",
    ("data", "convert", "ratings.csv", "new.xls"): "must end in",
    ("data", "luck"): "No such command",
    ("luck",): "No such command",
}


@pytest.fixture(scope="module")
def faulty_files(files):
    (files / "bad.csv").write_text("user,item,rating\n1,2,3\n1,3,oops\n")
    (files / "twice.csv").write_text("user,item,rating\n1,2,3\n1,2,4\n")
    (files / "others.csv").write_text("id,title\n-1,nothing\n")
    (files / "narrow.csv").write_text("title\nAlien\n")
    (files / "twins.csv").write_text("id,title\n101,Twin\n102,twin\n103,Alien\n")
    (files / "beside").mkdir()
    (files / "beside" / "ratings.dat").write_text("1::2::3::4\n")
    (files / "beside" / "movies.csv").write_text("movieId,title,genres\n101,Alien,Horror\n")
    (files / "odd.csv").write_text("a,b,c\n1,2,3\n")
    (files / "genres.csv").write_text("id,genre\n101,Horror\n-1,Comedy\n")
    (files / "uneven.csv").write_text("id,genre\n101,War\n102\n")
    answer("fit", files / "ratings.csv", "-o", files / "absent.ordbm", *SMALL, "--no-presence")
    (files / "one.csv").write_text("user\n1\n")
    content = (files / "model.ordbm").read_bytes()
    (files / "cut.ordbm").write_bytes(content[:-100])
    (files / "changed.ordbm").write_bytes(content[:-100] + b"?" * 100)
    return files


@pytest.mark.parametrize("arguments", FAULTS, ids=" ".join)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, faulty_files, monkeypatch):
    monkeypatch.chdir(faulty_files)
    before = sorted(path.name for path in faulty_files.iterdir())
    assert re.search(FAULTS[arguments], fault(*arguments))
    assert sorted(path.name for path in faulty_files.iterdir()) == before


def test_a_mistyped_name_is_guessed(tmp_path):
    (tmp_path / "names.csv").write_text("user,item,rating\nalice,x,1\nalice,y,2\nbob,x,3\n")
    answer("fit", tmp_path / "names.csv", "-o", tmp_path / "m.ordbm", *SMALL)
    text = fault("recommend", tmp_path / "m.ordbm", "--user", "alcie")
    assert text == "user 'alcie' is not in this model: did you mean alice?"


def test_faults_in_a_process_of_its_own():
    process = started("fit", "none.csv", "-o", "new.ordbm")
    output, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 2
    assert output == ""
    assert len(errors.splitlines()) == 1
    assert errors.startswith("ordbm: ")


@pytest.mark.skipif(not FULL.exists(), reason=f"this system has no {FULL}")
def test_an_output_that_is_full():
    with FULL.open("w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "ordbm", "data", "list", "--json"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert process.returncode == 2
    assert process.stderr == "ordbm: no space left on device\n"


def test_a_reader_that_goes_away_is_no_trouble(files):
    pairs = files / "many.csv"
    pairs.write_text("user,item\n" + "1,100\n" * 20_000)
    process = started("predict", files / "model.ordbm", pairs, "-q")
    assert process.stdout.readline().startswith('"user","item"')
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=HANGS) == 1


def test_text_that_the_terminal_cannot_show(files, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    (files / "titles.csv").write_text("\n".join(f"{item},Amélie" for item in range(100, 120)))
    arguments = ("--user", "1", "-n", "1", "--titles", files / "titles.csv")
    process = started("recommend", files / "model.ordbm", *arguments)
    output, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 0, errors
    assert "Am?lie" in output


def test_no_colours_outside_a_terminal(files):
    assert "\x1b" not in run("inspect", files / "model.ordbm").output
