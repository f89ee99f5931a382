"""Answers for whole datasets: those of the model, each part once, whatever ended runs before."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import ordbm
from cli_runs import fault, json_answer, run
from ordbm.batch import partitions, predict_dataset, recommend_dataset, scoring
from ordbm.batch.partitions import Partition, run_partitions
from ordbm.errors import RatingsError, SettingsError


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 40, 900), rng.integers(0, 30, 900)
    ratings = ordbm.Ratings(users, items, rng.integers(1, 6, 900), scale=[1, 2, 3, 4, 5])
    return ordbm.OrdinalBM(
        hidden=3, members=2, epochs=2, presence=False, context=False, threads=1
    ).fit(ratings)


@pytest.fixture
def pairs(tmp_path):
    """A dataset of three files in two folders, one without rows."""
    folder = tmp_path / "pairs"
    rng = np.random.default_rng(1)
    for name, n in (("a=1/x.parquet", 250), ("a=1/y.parquet", 0), ("a=2/x.parquet", 70)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {"user": rng.integers(0, 45, n), "item": rng.integers(0, 33, n)}
        parquet.write_table(pa.table(columns), path)
    return folder


def names_in(folder):
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.parquet")
    )  # fmt: skip


def test_predictions_are_those_of_the_model_in_the_order_of_the_pairs(
    model, pairs, tmp_path, monkeypatch
):
    monkeypatch.setattr(scoring, "PAIRS_IN_BLOCK", 100)
    told = []
    out = tmp_path / "out"
    found = predict_dataset(model, pairs, out, on_part=lambda *done: told.append(done))
    assert found == (3, 0, 320)
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert names_in(out) == names_in(pairs)
    for name in names_in(pairs):
        asked = parquet.read_table(pairs / name, partitioning=None).to_pydict()
        table = parquet.read_table(out / name, partitioning=None)
        expected = model.predict_table(asked["user"], asked["item"], backend="pyarrow")
        assert table.to_pydict() == expected.to_pydict()
    assert (out / "_SUCCESS").exists()


def test_what_is_there_is_left_alone_and_the_rest_is_made(model, pairs, tmp_path):
    out = tmp_path / "out"
    predict_dataset(model, pairs, out)
    before = {name: (out / name).read_bytes() for name in names_in(out)}
    times = {name: (out / name).stat().st_mtime_ns for name in names_in(out)}
    (out / "a=2/x.parquet").unlink()
    assert predict_dataset(model, pairs, out) == (1, 2, 70)
    assert {name: (out / name).read_bytes() for name in names_in(out)} == before
    same = [name for name in times if (out / name).stat().st_mtime_ns == times[name]]
    assert same == ["a=1/x.parquet", "a=1/y.parquet"]
    assert predict_dataset(model, pairs, out) == (0, 3, 0)
    assert predict_dataset(model, f"{pairs}/", out) == (0, 3, 0)


def test_a_file_alone_is_a_dataset_of_one(model, pairs, tmp_path):
    assert predict_dataset(model, pairs / "a=2" / "x.parquet", tmp_path / "out") == (1, 0, 70)
    assert names_in(tmp_path / "out") == ["x.parquet"]


def test_a_folder_is_for_one_job(model, pairs, tmp_path):
    out = tmp_path / "out"
    predict_dataset(model, pairs, out)
    with pytest.raises(SettingsError, match="whose at is"):
        predict_dataset(model, pairs, out, at=10**9)
    with pytest.raises(SettingsError, match="another job"):
        recommend_dataset(model, out)
    other = ordbm.OrdinalBM(
        hidden=3, members=2, epochs=1, presence=False, context=False, threads=1
    ).fit(model.known_ratings())
    with pytest.raises(SettingsError, match="whose model is"):
        predict_dataset(other, pairs, out)
    parquet.write_table(pa.table({"user": [1], "item": [2]}), pairs / "more.parquet")
    with pytest.raises(SettingsError, match="whose input has other files"):
        predict_dataset(model, pairs, out)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").touch()
    with pytest.raises(SettingsError, match=r"other files, such as 'thesis.txt'"):
        predict_dataset(model, pairs, mine)
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]


def test_lists_are_those_of_recommend_all(model, tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "USERS_IN_PART", 15)
    out = tmp_path / "lists"
    assert recommend_dataset(model, out, n=4, exclude=[3]) == (3, 0, 160)
    assert names_in(out) == [f"part-{number:05d}.parquet" for number in range(3)]
    parts = [parquet.read_table(out / name) for name in names_in(out)]
    expected = model.recommend_all(n=4, exclude=[3], backend="pyarrow")
    assert pa.concat_tables(parts).to_pydict() == expected.to_pydict()


def test_lists_for_the_users_of_a_dataset(model, tmp_path):
    for name, users in (("a", [3, 5]), ("b", [7])):
        (tmp_path / "users").mkdir(exist_ok=True)
        parquet.write_table(pa.table({"user": users}), tmp_path / "users" / f"{name}.parquet")
    recommend_dataset(model, tmp_path / "lists", tmp_path / "users", n=2)
    found = parquet.read_table(tmp_path / "lists" / "a.parquet").to_pydict()
    assert found == model.recommend_all([3, 5], n=2, backend="pyarrow").to_pydict()
    assert parquet.read_table(tmp_path / "lists" / "b.parquet")["user"].to_pylist() == [7, 7]


def test_a_row_that_cannot_be_used_is_named_and_its_part_is_not_there(model, tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "PAIRS_IN_BLOCK", 10)
    folder = tmp_path / "pairs"
    folder.mkdir()
    parquet.write_table(pa.table({"user": [1], "item": [2]}), folder / "a.parquet")
    users = [*range(25), None]
    parquet.write_table(pa.table({"user": users, "item": range(26)}), folder / "b.parquet")
    with pytest.raises(RatingsError, match=r"b.parquet\): the user is missing in row 25"):
        predict_dataset(model, folder, tmp_path / "out")
    assert names_in(tmp_path / "out") == ["a.parquet"]
    assert not (tmp_path / "out" / "_SUCCESS").exists()


def test_two_processes_do_not_write_to_one_folder(tmp_path):
    def work(_, file):
        with pytest.raises(SettingsError, match=f"by process {os.getpid()}"):
            run_partitions(tmp_path, {}, parts, work)
        return file.write(b"x")

    parts = [Partition("a", 1, None)]
    assert run_partitions(tmp_path, {}, parts, work) == (1, 0, 1)


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b"])
def test_no_part_is_outside_of_the_folder(tmp_path, name):
    with pytest.raises(SettingsError, match="cannot be the name"):
        run_partitions(tmp_path / "out", {}, [Partition(name, 1, None)], lambda *_: 1)


KILLED = """
import os, random, signal, sys
from pathlib import Path
from ordbm.batch.partitions import Partition, run_partitions

out, parts = Path(sys.argv[1]), [Partition(f"{n:02d}", 1, n) for n in range(12)]
left = 0

def step(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def work(number, file):
    for _ in range(3):
        step()
        file.write(b"%d " % number)
        file.flush()
    return 1

fsync, replace = os.fsync, Path.replace
os.fsync = lambda handle: (step(), fsync(handle), step())
Path.replace = lambda *paths: (step(), replace(*paths), step())
random.seed(0)
kept, kills = {}, 0
while True:
    left = random.randint(1, 40)
    child = os.fork()
    if child == 0:
        run_partitions(out, {}, parts, work)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    for path in out.glob("[0-9][0-9]"):
        now = path.stat().st_ino, path.stat().st_mtime_ns
        assert kept.setdefault(path.name, now) == now, "written again"
        assert path.read_bytes() == b"%d " % int(path.name) * 3, "there in part"
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL
    kills += 1
print(kills, *sorted(path.name for path in out.iterdir()))
"""


def test_killed_at_any_moment_each_part_is_written_once(tmp_path):
    run_it = [sys.executable, "-c", KILLED, str(tmp_path / "out")]
    done = subprocess.run(run_it, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kills, *names = done.stdout.split()
    assert int(kills) >= 5
    assert names == [*(f"{number:02d}" for number in range(12)), "_SUCCESS", partitions._MANIFEST]


def test_on_the_command_line(model, pairs, tmp_path):
    path = tmp_path / "model.ordbm"
    model.save(path)
    out = tmp_path / "out"
    assert json_answer("predict", path, pairs, "-o", out) == {
        "path": str(out), "written": 3, "found": 0, "rows": 320,
    }  # fmt: skip
    again = " ".join(run("predict", path, pairs, "-o", out).stderr.split())
    assert again.endswith("0 predictions in 0 files, 3 were there")
    lists = tmp_path / "lists"
    done = " ".join(run("recommend", path, "--all", "-n", "3", "-o", lists).stderr.split())
    assert done.endswith("120 lines in 1 file")
    for told, said in (
        (("predict", path, pairs), "name a folder for its predictions"),
        (("predict", path, pairs, "-o", out, "--encoding", "latin-1"), "--encoding has no effect"),
        (("recommend", path, "--all"), "name a folder for the lists"),
        (("recommend", path, "--all", "--user", "1", "-o", out), "leave --user out"),
        (("recommend", path, "--user", "1", "-o", out), "leave --user out"),
        (("recommend", path, "--all", "-o", out), "another job"),
    ):
        assert said in fault(*told)
