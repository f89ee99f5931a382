"""Shared by all tests: the environment they run in, larger data sets, and how Hypothesis runs."""

import hashlib
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("ORDBM_DATA", ROOT.parent / "shared" / "data"))

# What a shell, a terminal or a CI happens to set changes what commands print: how wide tables are,
# and whether there are colours. Tests that are about that set it themselves.
for _name in (
    "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PY_COLORS", "CLICOLOR", "CLICOLOR_FORCE",
    "GITHUB_ACTIONS", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "PYTHONIOENCODING", "PYTHONWARNINGS",
):  # fmt: skip
    os.environ.pop(_name, None)
os.environ["TERMINAL_WIDTH"] = "100"  # of help texts

# Processes that run tests side by side, and what they start, share the cores out.
if _together := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // int(_together))))

# Numba's cache does not notice that a kernel's callee in another file has changed: tests compile
# afresh whenever any kernel has, or the processor that they run as.
_KERNELS = sorted((ROOT / "src" / "ordbm").glob("**/kernels/*.py"))
_VERSION = hashlib.sha256(b"".join(path.read_bytes() for path in _KERNELS)).hexdigest()[:12]
_CACHE = f"kernels-{_VERSION}-{os.environ.get('NUMBA_CPU_NAME', 'host')}"
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".pytest_cache" / _CACHE))

# The same examples every time: a run that fails must fail again.
settings.register_profile("ordbm", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("ordbm")


def pytest_configure():
    """Ctrl-C is heard even where the tests run in the background, which shells make deaf to it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_file():
    """The path of a named file of the larger data sets, or a skip that says where it was sought."""

    def path_of(name):
        path = DATA / name
        if not path.exists():
            pytest.skip(f"no {path}; say where the data sets are with ORDBM_DATA")
        return path

    return path_of


@pytest.fixture(scope="session")
def served_model():
    """A small model for tests of the service."""
    pytest.importorskip("fastapi", reason="the service needs the extra serve")
    from service_runs import small_model

    return small_model()


@pytest.fixture(scope="session")
def postgresql():
    """A PostgreSQL server of the tests' own."""
    from service_runs import PostgreSQL

    server = PostgreSQL()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """The URL of an empty database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ratings.sqlite3'}"
    return request.getfixturevalue("postgresql").new_database()
