"""`import ordbm` is quick: heavy libraries load when they are first needed."""

import subprocess
import sys

import pytest

import ordbm


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_does_not_load_numba():
    loaded = run("import sys, ordbm; print(*{name.split('.')[0] for name in sys.modules})").split()
    assert not {"numba", "llvmlite", "scipy", "pandas", "polars", "pyarrow"} & set(loaded)


def test_ratings_do_not_load_numba():
    code = "import sys, ordbm; ordbm.hold_out(ordbm.load_dataset()); print('numba' in sys.modules)"
    assert run(code) == "False"


def test_import_loads_little_more_than_numpy():
    counted = "import sys, numpy; n = len(sys.modules); import ordbm; print(len(sys.modules) - n)"
    assert int(run(counted)) < 20  # 2 when written; Numba is 300


def test_every_public_name_is_there():
    for name in ordbm.__all__:
        assert getattr(ordbm, name) is not None
    assert set(dir(ordbm)) == set(ordbm.__all__)
    with pytest.raises(AttributeError, match="module 'ordbm' has no attribute 'OrdinalRBM'"):
        _ = ordbm.OrdinalRBM
