"""Shared by all tests: where the larger data sets are, and how Hypothesis runs."""

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("ORDBM_DATA", ROOT.parent / "shared" / "data"))

# Numba's cache does not notice that a kernel's callee in another file has changed: tests compile
# afresh whenever any kernel has.
_KERNELS = sorted((ROOT / "src" / "ordbm" / "kernels").glob("*.py"))
_VERSION = hashlib.sha256(b"".join(path.read_bytes() for path in _KERNELS)).hexdigest()[:12]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".pytest_cache" / f"kernels-{_VERSION}"))

# The same examples every time: a run that fails must fail again.
settings.register_profile("ordbm", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("ordbm")


@pytest.fixture(scope="session")
def data_file():
    """The path of a named file of the larger data sets, or a skip that says where it was sought."""

    def path_of(name):
        path = DATA / name
        if not path.exists():
            pytest.skip(f"no {path}; say where the data sets are with ORDBM_DATA")
        return path

    return path_of
