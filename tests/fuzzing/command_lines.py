"""Command lines: commands with odd arguments, run in this process on small files."""

import contextlib
import random
import tempfile
import warnings
from functools import cache
from pathlib import Path

import typer
from typer.testing import CliRunner

from cli_runs import write_ratings_file
from fuzzing.kinds import READ, REFUSED, Input, Kind
from ordbm import OrdinalBM, read_ratings
from ordbm.cli import app
from ordbm.errors import LeftOutWarning

COMMANDS = ["fit", "predict", "recommend", "explain", "evaluate", "inspect"]
ALONE = [["demo"], ["tune"], ["reproduce"], ["data"], ["data", "list"]]  # what they do takes long
SMALL = ["--hidden", "2", "--members", "1", "--epochs", "1", "--threads", "1", "--item-links", "2"]
TEXTS = [
    "", " ", "x", "1", "0", "-1", "101", "é", "nan", "1e9", "0.5", "-", "--", "a=b", "user", "item",
    "\x1b[31m", "1,2,3", "1,2,3,4,5", "bins:0,2,6", "continuous", "poor,good", "csv", "tsv",
    "mean", "liked", "energy", "rated", "gain", "utf-8", "latin-1", "utf-99", "../..", "%s", "{}",
]  # fmt: skip
NUMBERS = ["0", "1", "2", "3", "-1", "x", "", "2.5", "nan", "1e3", " 1", "１", "0.5", "inf", "1_0"]
LARGE = ["999999999", "9" * 30, "1e300"]
WRITTEN = {"-o", "--output", "--report", "--checkpoint", "--plot"}  # stay in the input's own folder
BOUNDED = {"--epochs", "--threads", "--folds", "--repeats", "--draws", "--members"}  # take long


@cache
def ground() -> dict[str, str]:
    """Small files that commands are asked about."""
    folder = Path(tempfile.mkdtemp(prefix="fuzzed-commands-"))
    ratings = write_ratings_file(folder / "ratings.csv")
    small = {"hidden": 2, "members": 1, "epochs": 1, "threads": 1, "item_links": 2}
    OrdinalBM(**small).fit(read_ratings(ratings)).save(folder / "model.ordbm")
    (folder / "empty.csv").write_bytes(b"")
    (folder / "pairs.csv").write_text("user,item\n1,100\n2,nobody\n")
    (folder / "titles.csv").write_text("item,title,genre\n100,One,a|b\n101,Two,a\n")
    return {
        "ratings": str(ratings), "model": str(folder / "model.ordbm"), "folder": str(folder),
        "empty": str(folder / "empty.csv"), "pairs": str(folder / "pairs.csv"),
        "titles": str(folder / "titles.csv"), "missing": str(folder / "missing"),
    }  # fmt: skip


@cache
def options(command: str) -> list[tuple[str, bool, str]]:
    """Each option of a command: its name, whether it is a flag, the kind of its value."""
    known = typer.main.get_command(app).commands[command].params
    return [
        (name, getattr(one, "is_flag", False), type_of(one))
        for one in known
        for name in [*one.opts, *one.secondary_opts]
        if name.startswith("-") and name not in ("--help", "-h")
    ]


def type_of(option) -> str:
    """The type of its value; Typer has called it by several names."""
    return str(getattr(option, "type", None) or getattr(option, "type_descriptor", "")).lower()


def value_of(state: random.Random, name: str, kind: str) -> str:
    if name not in WRITTEN and state.random() < 0.1:
        return state.choice(list(ground()))
    if any(word in kind[:60] for word in ("'int'", "'float'", "integer")):
        return state.choice(NUMBERS if name in BOUNDED else NUMBERS + LARGE)
    return state.choice(TEXTS)


def odd_command(state: random.Random) -> Input:
    if state.random() < 0.1:
        command = [*state.choice(ALONE), state.choice(["--help", "--nothing", "-h"])]
        return Input(told=command)
    command = state.choice(COMMANDS)
    usual = "ratings" if command in ("fit", "evaluate") else "model"
    files = (
        [usual] if state.random() < 0.9 else state.choices(list(ground()), k=state.randint(0, 3))
    )
    if command == "predict" and state.random() < 0.5:
        files.append("pairs")
    told = [command, *files]
    if command in ("fit", "evaluate"):
        told += SMALL
    if command == "fit":
        told += ["-o", "output"]
    if command in ("recommend", "explain", "predict") and state.random() < 0.7:
        told += ["--user", state.choice(["1", "2", "x", ""])]
    if command in ("explain", "predict") and state.random() < 0.7:
        told += ["--item", state.choice(["100", "101", "x", ""])]
    for name, is_flag, kind in state.sample(options(command), state.choice([0, 1, 1, 2, 4])):
        told += [name] if is_flag else [name, value_of(state, name, kind)]
    if state.random() < 0.05:
        told.insert(state.randrange(len(told) + 1), state.choice(TEXTS))
    return Input(told=told)


def judge_command(given: Input, folder) -> str:
    """Exit 0 with something said, or exit 2 and one sentence on stderr; never a traceback."""
    known = ground() | {"output": str(folder / "out.ordbm")}
    arguments = [known.get(one, one) for one in given.told]
    with contextlib.chdir(folder), warnings.catch_warnings():
        if "--skip-bad-lines" in arguments:
            warnings.simplefilter("ignore", LeftOutWarning)  # which the command says in its words
        done = CliRunner().invoke(app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert "Traceback" not in done.output
    if done.exit_code == 0:
        assert done.output or "-q" in arguments or "--quiet" in arguments
        return READ
    assert done.exit_code == 2, (done.exit_code, done.output[-300:])
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ordbm: "), done.stderr[-300:]
    assert "not enough memory" not in last, last
    return REFUSED


KINDS = [Kind("command lines", 9, odd_command, judge_command)]
