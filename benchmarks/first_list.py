"""A new user's way to the first list: the README's commands in an empty folder, one by one.

    .venv/bin/python benchmarks/first_list.py [--repository URL]

The repository is cloned to an empty temporary folder, without an environment and without compiled
kernels. There `make demo` runs, the embedded ratings are written as `ratings.csv`, and then the
commands and the Python of the README's "Start", up to the first list of each. Nothing else should
run meanwhile; `make demo` also waits for the package index. Writes
`benchmarks/results/first-list.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data import HERE
from provenance import cpu_model

RESULTS = HERE / "results"
EMBEDDED = (
    "import ordbm; from ordbm.datasets import write_ratings; "
    "write_ratings(ordbm.load_dataset('movielens-small'), 'ratings.csv')"
)


def blocks(readme: str, language: str) -> str:
    """All blocks of a language in the README's "Start", joined."""
    start = readme.split("<!-- start -->", 1)[1].split("<!-- end of start -->", 1)[0]
    return "".join(re.findall(rf"```{language}\n(.*?)```", start, re.DOTALL))


def until_list(lines: list[str]) -> list[str]:
    """The lines up to the first that asks for a list."""
    first = next(number for number, line in enumerate(lines) if "recommend" in line)
    return lines[: first + 1]


def steps(repository: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each step in words, and its command; what the README says is read from the clone."""
    yield "git clone", ["git", "clone", "--quiet", repository, str(folder)]
    yield "make demo", ["make", "demo"]
    python = str(folder / ".venv" / "bin" / "python")
    yield "the embedded ratings as ratings.csv", [python, "-c", EMBEDDED]
    readme = (folder / "README.md").read_text()
    for line in until_list(blocks(readme, "console").splitlines()):
        program, *arguments = line.split()
        yield line, [str(folder / ".venv" / "bin" / program), *arguments]
    code = "\n".join(until_list(blocks(readme, "python").splitlines()))
    yield "the same in Python", [python, "-c", code]


def measured(repository: str) -> list[dict[str, Any]]:
    """Seconds of each step, and since the first began; an error ends it with what was printed."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as empty:
        folder = Path(empty) / "ordbm"
        plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        told = plain | {"NUMBA_CACHE_DIR": str(Path(empty) / "kernels")}
        began = time.perf_counter()
        for words, command in steps(repository, folder):
            started = time.perf_counter()
            where = folder if folder.exists() else Path(empty)
            result = subprocess.run(  # noqa: S603
                command, cwd=where, env=told, text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            if result.returncode:
                sys.exit(f"{words}: failed ({result.returncode})\n{result.stdout}")
            now = time.perf_counter()
            rows.append({"step": words, "seconds": now - started, "since": now - began})
            print(f"{now - started:8.1f} s  {words}", flush=True)
    return rows


def page(found: dict[str, Any]) -> str:
    """The report."""
    lines = [
        "# From an empty folder to the first list",
        "",
        (
            f"`benchmarks/first_list.py`, commit {found['commit']}, {found['processor']}, "
            f"{found['cores']} cores; packages from the configured index, kernels compiled on the "
            "way."
        ),
        "",
        "| step | seconds | since the start |",
        "| --- | ---: | ---: |",
        *(
            f"| {row['step']} | {row['seconds']:.1f} | {row['since']:.1f} |"
            for row in found["steps"]
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repository", default=str(HERE.parent), help="what to clone")
    told = parser.parse_args()
    revision = ["git", "ls-remote", told.repository, "HEAD"]
    commit = subprocess.run(revision, capture_output=True, text=True, check=True).stdout[:7]  # noqa: S603
    found = {
        "steps": measured(told.repository),
        "commit": commit, "processor": cpu_model(), "cores": os.cpu_count(),
    }  # fmt: skip
    (RESULTS / "first-list.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "first-list.md").write_text(page(found))
    print(page(found))


if __name__ == "__main__":
    main()
