"""A model file that is replaced while it is read: each load gives one of the two models whole."""

import json
import subprocess
import sys

import numpy as np
import pytest

import ordbm
from cli_runs import json_answer
from ordbm import OrdinalBM, Ratings
from ordbm.errors import ModelFileError
from ordbm.persistence import container

LOADS = 300


@pytest.fixture(scope="module")
def two_files(tmp_path_factory):
    """Files of two models of different size."""
    folder = tmp_path_factory.mktemp("swap")
    rng = np.random.default_rng(0)
    ratings = Ratings(
        rng.integers(9, size=80), rng.integers(7, size=80), rng.integers(1, 6, size=80)
    )
    for hidden in (2, 9):
        told = {"hidden": hidden, "members": 1, "epochs": 1, "threads": 1}
        OrdinalBM(**told).fit(ratings).save(folder / str(hidden))
    return folder / "2", folder / "9"


def put(source, target):
    """Another file takes the place of `target`, as a save does."""
    beside = target.with_name("beside")
    beside.write_bytes(source.read_bytes())
    beside.replace(target)


def test_a_file_replaced_between_opening_and_reading(two_files, tmp_path, monkeypatch):
    old, new = two_files
    path = tmp_path / "model"
    put(old, path)
    real = json.loads

    def replacing(*arguments, **named):
        put(new, path)
        return real(*arguments, **named)

    monkeypatch.setattr(container.json, "loads", replacing)
    assert ordbm.load(path).settings.hidden == 2
    assert ordbm.load(path).settings.hidden == 9


WRITER = """
import pathlib, sys
old, new, target = map(pathlib.Path, sys.argv[1:])
beside = target.with_name("beside")
print("started", flush=True)
while True:
    for source in (old, new):
        beside.write_bytes(source.read_bytes())
        beside.replace(target)
"""


def test_every_load_is_right_while_another_process_saves(two_files, tmp_path):
    path = tmp_path / "model"
    put(two_files[0], path)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, *map(str, two_files), str(path)], stdout=subprocess.PIPE
    ) as writer:
        try:
            assert writer.stdout.readline() == b"started\n"
            seen = [ordbm.load(path).settings.hidden for _ in range(LOADS)]
        finally:
            writer.kill()
    assert len(seen) == LOADS
    assert set(seen) <= {2, 9}


def test_inspect_speaks_of_the_file_that_it_read(two_files, tmp_path, monkeypatch):
    path = tmp_path / "model"
    put(two_files[0], path)
    real = ordbm.load

    def vanishing(name):
        model = real(name)
        path.unlink()
        return model

    monkeypatch.setattr(ordbm, "load", vanishing)
    assert json_answer("inspect", path)["bytes"] == two_files[0].stat().st_size


def test_a_file_cut_short_in_place_is_an_error(two_files, tmp_path, monkeypatch):
    """Whoever writes over a file in place gets no crash of those who read it."""
    path = tmp_path / "model"
    put(two_files[0], path)
    real = json.loads

    def cutting(*arguments, **named):
        with path.open("r+b") as file:
            file.truncate(100)
        return real(*arguments, **named)

    monkeypatch.setattr(container.json, "loads", cutting)
    with pytest.raises(ModelFileError, match="incomplete or was altered"):
        ordbm.load(path)
