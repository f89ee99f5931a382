"""Shared by the tests of the command line: a small csv, small machines, and ways to run them."""

import json
import subprocess
import sys

import numpy as np
from typer.testing import CliRunner

from ordbm.cli import app

HANGS = 900  # seconds: no limit of speed, only what hangs for ever takes so long
SMALL = ["--hidden", "4", "--members", "2", "--item-links", "5", "--epochs", "2"]


def write_ratings_file(path, seed=0):
    """30 users, 20 items, 300 ratings of 1 to 5."""
    random = np.random.default_rng(seed)
    pairs = random.choice(30 * 20, 300, replace=False)
    lines = [f"{pair // 20 + 1},{pair % 20 + 100},{random.integers(1, 6)}" for pair in pairs]
    path.write_text("\n".join(["user,item,rating", *lines]) + "\n")
    return path


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def answer(*arguments):
    """What a command printed on stdout, once it has succeeded."""
    done = run(*arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def json_answer(*arguments):
    return json.loads(answer(*arguments, "--json"))


def fault(*arguments):
    """The one sentence of a command that was given bad input."""
    done = run(*arguments)
    assert done.exit_code == 2, (done.exit_code, done.exception, done.output)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    remarks = [line for line in lines[:-1] if not line.startswith("ordbm: ")]
    assert len(remarks) == len(lines) - 1 <= 1  # what was read may come first
    assert lines[-1].startswith("ordbm: ")
    assert "Traceback" not in done.stderr
    return lines[-1].removeprefix("ordbm: ")


def started(*arguments, script=None, **options):
    """The command in a process of its own; `script` runs it in another way."""
    how = ["-m", "ordbm"] if script is None else ["-c", script]
    return subprocess.Popen(
        [sys.executable, *how, *map(str, arguments)],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
    )
