"""What tools try at length is tried here briefly: kills under write load, and requests at random.

`make kills` and `make fuzz-service` do it hundreds of times; so does this file if it is told to,
by the tools' own options in ORDBM_KILLS_ARGS and ORDBM_FUZZ_ARGS.
"""

import os
import subprocess
import sys

import pytest

from conftest import ROOT
from service_runs import postgresql_programs

KILLS = os.environ.get("ORDBM_KILLS_ARGS", "--kills 2").split()
FUZZ = os.environ.get("ORDBM_FUZZ_ARGS", "--examples 1").split()


def run_tool(name, *words):
    told = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(
        [sys.executable, ROOT / "tools" / name, *words],
        capture_output=True, text=True, check=False, env=told,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["SQLite", "PostgreSQL"])
def test_kills_lose_nothing_that_was_acknowledged(kind):
    if kind == "PostgreSQL" and postgresql_programs() is None:
        pytest.skip("no PostgreSQL: install the extra dev, or Debian's postgresql")
    done = run_tool("kill_server.py", "--on", kind, *KILLS)
    assert done.returncode == 0, done.stdout + done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith(f"| {kind}"))
    _, _, kills, _, acknowledged, *_, lost, twice, _ = (one.strip() for one in row.split("|"))
    assert int(kills) >= 1
    assert (lost, twice) == ("0", "0")
    assert int(acknowledged.replace(",", "")) > 0


def test_requests_at_random_get_no_error_of_the_service():
    done = run_tool("fuzz_service.py", *FUZZ)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
