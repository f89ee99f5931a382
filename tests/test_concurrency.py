"""One model asked by many threads, and one file saved and loaded by many processes."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import ordbm
from answers import predictions
from cli_runs import HANGS
from ordbm import OrdinalBM, Ratings

THREADS = 8


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    users, items = rng.integers(40, size=600), rng.integers(30, size=600)
    ratings = Ratings(users, items, rng.integers(1, 6, size=600))
    path = tmp_path_factory.mktemp("models") / "model"
    told = {"hidden": 4, "members": 2, "item_links": 5, "user_links": 5, "link_support": 2}
    OrdinalBM(**told, epochs=2).fit(ratings).save(path)
    return path


def asked(model, folder, number):
    """What one thread asks, all of it new to the model, and the file that it saves."""
    users, items = range(number, 40, THREADS), range(30)
    path = folder / str(number)
    model.save(path)
    return (
        predictions(model, users, items),
        [(one.item, one.score) for one in model.recommend(number, n=5)],
        [(one.item, one.score) for one in model.recommend(ratings={1: 5, 2: 1, number: 3})],
        model.explain(number, 3).final,
        model.similar_items(4, 3),
        path.read_bytes(),
    )


def test_many_threads_get_from_one_model_what_one_gets(file, tmp_path):
    expected = [asked(ordbm.load(file), tmp_path, number) for number in range(THREADS)]
    for _ in range(3):
        model = ordbm.load(file)  # nothing is worked out yet, so all begin to at once
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(partial(asked, model, tmp_path), range(THREADS)))
        assert found == expected


def test_many_threads_save_to_one_file(file, tmp_path):
    model = ordbm.load(file)
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda _: model.save(tmp_path / "a"), range(5 * THREADS)))
    assert (tmp_path / "a").read_bytes() == file.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


WORKER = """
import sys
import ordbm
path = sys.argv[1]
for _ in range(20):
    ordbm.load(path).save(path)
"""


def test_many_processes_load_and_save_one_file(file, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(file.read_bytes())
    path.chmod(0o640)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path)], stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for worker in workers:
        _, fault = worker.communicate(timeout=HANGS)
        assert worker.returncode == 0, fault
    assert path.read_bytes() == file.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["a"]
