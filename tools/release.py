"""Make a release candidate: sdists and wheels in dist, checked and tried in an empty environment.

Each wheel is built from its sdist. What it needs is installed without constraints: a user would get
the same today.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = (ROOT, ROOT / "packages" / "ordbm-movielens-small")

FIT = """
import ordbm
train, test = ordbm.hold_out(ordbm.simulate(60, 40, 1500, seed=0).ratings, 0.2, seed=0)
ordbm.OrdinalBM(members=1, seed=0).fit(train).save("model.ordbm")
print(ordbm.evaluate(ordbm.load("model.ordbm"), test))
"""


def make_release(dist: Path) -> None:
    """Build, check, install and try every package; the first failure ends it."""
    shutil.rmtree(dist, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        build_packages(dist, Path(folder))
        try_wheels(dist, Path(folder))
    print("\nMade, checked and tried:")
    for path in sorted(dist.iterdir()):
        print(f"{path}  {path.stat().st_size:,} bytes")


def build_packages(dist: Path, folder: Path) -> None:
    """An sdist and a wheel of each package in `dist`, their metadata checked."""
    tools = new_environment(folder / "tools")
    run(tools / "pip", "install", "--quiet", "--upgrade", "pip")  # one that knows groups
    run(tools / "pip", "install", "--quiet", "--group", f"{ROOT / 'pyproject.toml'}:release")
    for package in PACKAGES:
        run(tools / "python", "-m", "build", "--outdir", dist, package)
    run(tools / "twine", "check", "--strict", *sorted(dist.iterdir()))


def try_wheels(dist: Path, folder: Path) -> None:
    """A model fitted without the data package; the demonstration without it, and with it."""
    data, library = sorted(dist.glob("*.whl"), key=lambda path: "movielens" not in path.name)
    empty = new_environment(folder / "empty")
    run(empty / "pip", "install", "--quiet", library)
    run(empty / "ordbm", "--version", cwd=folder)
    run(empty / "python", "-c", FIT, cwd=folder)
    run(empty / "ordbm", "demo", cwd=folder, status=2)  # says what to install
    run(empty / "pip", "install", "--quiet", data)
    run(empty / "ordbm", "demo", "--quiet", cwd=folder)


def new_environment(path: Path) -> Path:
    """The folder of programs of a new virtual environment."""
    venv.create(path, with_pip=True)
    return path / "bin"


def run(*command: str | Path, cwd: Path = ROOT, status: int = 0) -> None:
    """Run a program, shown first; anything but the expected exit status is an error."""
    words = [str(word) for word in command]
    print("$", *(word for word in words if "\n" not in word), flush=True)
    done = subprocess.run(words, cwd=cwd, check=False)
    if done.returncode != status:
        raise SystemExit(f"exit status {done.returncode} instead of {status}: no release")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the files go")
    make_release(parser.parse_args().dist.resolve())
