"""What a release would hold: each licence is stated, and the MIT package carries no data.

Built by the backend without network; `make release` builds and tries the same in isolation.
"""

import email
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

import ordbm

ROOT = Path(__file__).parents[1]
PACKAGES = {"ordbm": ROOT, "ordbm_movielens_small": ROOT / "packages" / "ordbm-movielens-small"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """By package: the metadata of its wheel, and the names in its wheel and in its sdist."""
    found = {}
    for package, place in PACKAGES.items():
        dist = tmp_path_factory.mktemp(package)
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(dist)]
        subprocess.run(command, cwd=place, check=True, capture_output=True)
        with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
            names = wheel.namelist()
            metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
            stated = email.message_from_bytes(wheel.read(metadata))
        with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
            found[package] = stated, names, sdist.getnames()
    return found


def test_each_wheel_states_its_licence(built):
    licences = {package: stated["License-Expression"] for package, (stated, *_) in built.items()}
    assert licences == {"ordbm": "MIT", "ordbm_movielens_small": "LicenseRef-MovieLens"}


def test_the_mit_package_carries_no_data(built):
    _, wheel, sdist = built["ordbm"]
    kinds = {PurePosixPath(name).suffix for name in wheel if name.startswith("ordbm/")}
    assert kinds <= {".py", ".typed", ".html", ".css", ".js", ".svg", ".toml"}
    assert not [name for name in sdist if "movielens-small" in name or name.endswith(".npz")]


def test_the_wheel_has_the_whole_page(built):
    _, wheel, _ = built["ordbm"]
    page = ROOT / "src" / "ordbm" / "serve" / "page"
    files = {path.relative_to(ROOT / "src").as_posix() for path in page.rglob("*.*")}
    assert any(name.endswith(".js") for name in files)
    assert files <= set(wheel)


def test_the_data_package_carries_the_data_and_its_terms(built):
    _, wheel, _ = built["ordbm_movielens_small"]
    names = {PurePosixPath(name).name for name in wheel}
    assert {"movielens-small.npz", "movielens-small.txt"} <= names
    assert any("/licenses/" in name for name in wheel)


def test_nothing_needs_the_data_package_unless_asked(built):
    stated, *_ = built["ordbm"]
    needed = [line for line in stated.get_all("Requires-Dist") if "movielens" in line]
    assert [re.search(r"extra == .(\w+)", line)[1] for line in needed] == ["data"]


def test_the_citation_is_of_this_version():
    stated = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert stated[1] == ordbm.__version__


@pytest.mark.parametrize("page", sorted(path.name for path in ROOT.glob("*.md")))
def test_files_that_a_page_names_exist(page):
    text = (ROOT / page).read_text()
    linked = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    quoted = re.findall(r"`((?:src|tests|tools|packages|docs|benchmarks)/[\w./-]+)`", text)
    missing = [name for name in linked + quoted if not (ROOT / name).exists()]
    assert not missing
