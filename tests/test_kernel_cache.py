"""The cache of compiled kernels: versions, damage, and several processes at once."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba import njit
from numba.core.caching import FunctionCache

import ordbm
from ordbm.kernels import pairs
from ordbm.runtime.kernel_cache import KernelCache

HANGS = 900  # seconds: no limit of speed, only what hangs for ever takes so long
PACKAGE = Path(ordbm.__file__).parent

# Two kernels in a package called ordbm that is ours but for them: one calls into another file.
START = """
from ordbm.runtime.kernel_cache import use_kernel_cache
use_kernel_cache()
"""
STRUCTURES = """
from typing import NamedTuple
class Pair(NamedTuple):
    first: float
    second: float
"""
INNER = """
from numba import njit
@njit
def factor():
    return 2.0
"""
OUTER = """
from numba import njit
from ordbm.kernels.inner import factor
@njit(cache=True)
def scaled_sum(pair):
    return factor() * (pair.first + pair.second)
"""
ASK = """
import json, sys
from ordbm.kernels import outer, structures
kind = getattr(structures, sys.argv[1])
cast = eval(sys.argv[2])
found = float(outer.scaled_sum(kind(cast(1), cast(2))))
hits = sum(outer.scaled_sum.stats.cache_hits.values())
print(json.dumps([found, hits]))
"""


@pytest.fixture
def package(tmp_path):
    """A folder with such a package, to be changed."""
    root = tmp_path / "site" / "ordbm"
    (root / "kernels").mkdir(parents=True)
    (root / "__init__.py").touch()
    (root / "runtime").mkdir()
    for name in ("__init__.py", "file_locks.py", "kernel_cache.py"):
        shutil.copy(PACKAGE / "runtime" / name, root / "runtime" / name)
    texts = {"__init__": START, "structures": STRUCTURES, "inner": INNER, "outer": OUTER}
    for name, text in texts.items():
        (root / "kernels" / f"{name}.py").write_text(text)
    return root / "kernels"


def started(package, kind="Pair", cast="float"):
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # which is stale if a file changes within a second
    return subprocess.Popen(
        [sys.executable, "-c", ASK, kind, cast],
        env=environment | {"PYTHONPATH": str(package.parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process):
    """The number that a process printed, and how often it found code in the cache."""
    out, err = process.communicate(timeout=HANGS)
    assert process.returncode == 0, err
    return tuple(json.loads(out))


def changed(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def unchanged(x):
    return x


def test_every_kernel_that_is_kept_is_kept_so():
    assert type(pairs.pair_scores._cache) is KernelCache
    theirs = njit(cache=True)(unchanged)  # of another package
    assert type(theirs._cache) is FunctionCache


def test_code_is_kept_from_one_process_to_the_next(package):
    assert answer(started(package)) == (6.0, 0)
    assert answer(started(package)) == (6.0, 1)


def test_an_upgrade_that_renames_a_named_tuple(package):
    assert answer(started(package)) == (6.0, 0)
    changed(package / "structures.py", "class Pair", "class Couple")
    assert answer(started(package, "Couple")) == (6.0, 0)
    assert answer(started(package, "Couple")) == (6.0, 1)


def test_an_upgrade_of_what_a_kernel_calls_in_another_file(package):
    assert answer(started(package)) == (6.0, 0)
    changed(package / "inner.py", "2.0", "3.0")
    assert answer(started(package)) == (9.0, 0)
    changed(package / "inner.py", "3.0", "2.0")
    assert answer(started(package)) == (6.0, 1)  # and back: both are kept


@pytest.mark.parametrize(("ending", "content"), [("nbi", b""), ("nbi", None), ("nbc", None)])
def test_what_is_damaged_is_compiled_anew(package, ending, content):
    assert answer(started(package)) == (6.0, 0)
    (file,) = package.rglob(f"*.{ending}")
    file.write_bytes(file.read_bytes()[:40] if content is None else content)
    assert answer(started(package)) == (6.0, 0)
    assert answer(started(package)) == (6.0, 1)


def test_processes_that_compile_at_once_do_not_mix_up_their_code(package):
    """Four signatures of one kernel: each finds its own code afterwards."""
    casts = ["float", "int", "__import__('numpy').float32", "__import__('numpy').int16"]
    for process in [started(package, cast=cast) for cast in casts]:
        assert answer(process) == (6.0, 0)
    assert [answer(started(package, cast=cast)) for cast in casts] == [(6.0, 1)] * 4


def test_a_full_disk_only_means_to_compile_again(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    kernel = KernelCache(pairs.pair_scores.py_func)
    monkeypatch.setattr(kernel._cache_file, "_save_index", full)
    kernel._cache_file.save("key", "data")
    assert kernel._cache_file.load("key") is None


def test_without_a_place_to_write_to_it_is_compiled_each_time(package):
    """Neither beside the package nor in the home folder: both are files."""
    (package / "__pycache__").write_bytes(b"")
    home = package / "home"
    home.write_bytes(b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_CACHE_HOME", str(home))
        assert answer(started(package)) == (6.0, 0)
        assert answer(started(package)) == (6.0, 0)
    assert not list(package.rglob("*.nbi"))
