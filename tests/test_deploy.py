"""What is shown for a container and for systemd: commands that there are, settings that hold."""

import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from cli_runs import run
from conftest import ROOT

DEPLOY = ROOT / "docs" / "deploy"
UNIT = (DEPLOY / "ordbm.service").read_text()
CONTAINER = (DEPLOY / "Containerfile").read_text().replace("\\\n", "")


def of_container(word):
    """What follows a word at the beginning of lines."""
    return [line.removeprefix(word).strip() for line in CONTAINER.splitlines()
            if line.startswith(word + " ")]  # fmt: skip


def commands():
    (entry,) = of_container("ENTRYPOINT")
    (start,) = re.findall(r"^ExecStart=(.+)$", UNIT, re.MULTILINE)
    return [json.loads(entry), shlex.split(start)]


@pytest.mark.parametrize("command", commands(), ids=["container", "systemd"])
def test_commands_have_options_that_there_are(command):
    told = run(*command[1:2], "--help").stdout
    assert command[1] == "serve"
    for word in command[2:]:
        assert not word.startswith("--") or f"{word} " in told, word


def test_the_container_copies_what_its_installation_needs_and_asks_whether_it_is_ready():
    (entry,) = of_container("ENTRYPOINT")
    for line in of_container("COPY"):
        for path in line.split()[:-1]:
            assert (ROOT / path).exists(), path
    (probe,) = of_container("HEALTHCHECK")
    program = json.loads(probe.partition("CMD ")[2])
    assert "/health/ready" in program[-1]
    compile(program[-1], "probe", "exec")
    assert "--key-file" in entry  # it listens to all, so there must be keys
    places = [line.split("USER")[0] for line in of_container("USER")]
    assert places  # not as root
    assert CONTAINER.index("\nUSER ordbm") < CONTAINER.index("\nENTRYPOINT")


def test_what_the_container_compiles_beforehand_can_be_run(tmp_path):
    (words,) = [line for line in of_container("RUN") if line.startswith("python -c")]
    words = words.replace("/tmp/", f"{tmp_path}/").replace("python", sys.executable, 1)
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())


def test_systemd_takes_the_unit_as_it_is(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: install Debian's systemd to have the unit checked")
    told = tmp_path / "ordbm.service"
    told.write_text(UNIT.replace("/opt/ordbm/bin/ordbm", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", told], capture_output=True, text=True, check=False
    )
    assert not [line for line in done.stderr.splitlines() if "ordbm" in line]
    assert done.returncode == 0, done.stderr
