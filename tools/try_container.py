"""The steps of docs/deploy/Containerfile, one by one, in a folder instead of an image.

For machines without an engine to build images: what is copied is copied, what is run is run in a
virtual environment, as another user from USER on where root runs this; then the service is started
as ENTRYPOINT has it, on this machine alone, and asked by HEALTHCHECK's program. Whatever the base
image brings or lacks is not tried.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}
SECONDS = 600


def steps(text: str) -> list[tuple[str, str]]:
    """(word, rest) of each line; lines that go on are one, remarks none."""
    lines = "\n".join(one for one in text.splitlines() if not one.startswith("#"))
    found = [line.partition(" ") for line in lines.replace("\\\n", " ").splitlines() if line]
    return [(word, rest.strip()) for word, _, rest in found]


class Image:
    """A folder that stands for the root of an image."""

    def __init__(self, folder: Path) -> None:
        self.root, self.user = folder, dict[str, Any]()
        venv = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        self.environment = {"PATH": f"{venv / 'bin'}:/usr/bin:/bin", "HOME": str(folder / "tmp")}
        for name in ("data", "kernels", "src", "tmp"):
            (folder / name).mkdir()

    def at(self, text: str) -> str:
        """A command with the image's folders."""
        return re.sub(r"(?<![\w/.])/(src|data|kernels|tmp)\b", rf"{self.root}/\1", text)

    def run(self, command: str) -> None:
        """A command of the shell that has to end well."""
        print(f"RUN {command[:90]}", flush=True)
        subprocess.run(
            ["/bin/sh", "-c", self.at(command)], check=True, env=self.environment, cwd=self.root,
            **self.user,
        )  # fmt: skip

    def succeeds(self, command: list[str]) -> bool:
        """Whether it ends well."""
        told = subprocess.run(command, env=self.environment, capture_output=True, check=False)
        return told.returncode == 0

    def do(self, word: str, rest: str) -> None:
        """One step."""
        if word == "COPY":
            *sources, target = rest.split()
            for source in sources:
                path = ROOT / source
                to = Path(self.at(target))
                if path.is_dir():
                    shutil.copytree(path, to, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(path, to)
        elif word == "RUN" and rest.startswith("useradd"):
            if os.geteuid() == 0:
                for name in ("data", "kernels", "tmp"):
                    os.chown(self.root / name, NOBODY["user"], NOBODY["group"])  # type: ignore[arg-type]
        elif word == "RUN":
            self.run(rest)
        elif word == "USER":
            self.user = _as_nobody()
        elif word == "ENV":
            pairs = (one.partition("=") for one in self.at(rest).split())
            self.environment |= {name: value for name, _, value in pairs}


def _as_nobody() -> dict[str, Any]:
    """How to start what runs as another user."""
    if os.geteuid() != 0:
        return {}
    if all(above.stat().st_mode & 0o001 for above in Path(sys.executable).resolve().parents):
        return NOBODY
    print("USER is not tried: this Python is root's alone")
    return {}


def serve(image: Image, entry: list[str], probe: list[str]) -> None:
    """Start it as the image would, and ask until it is ready."""
    image.run(
        'python -c "import ordbm; s = ordbm.simulate(60, 40, n_ratings=900, seed=1).ratings; '
        "ordbm.OrdinalBM(members=1, epochs=1).fit(s).save('/data/model.ordbm')\" && "
        "ordbm keys add probe --key-file /data/keys --scope read > /dev/null"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [image.at(one).replace("0.0.0.0", "127.0.0.1") for one in entry]  # noqa: S104
    process = subprocess.Popen(
        [*command, "--port", port], env=image.environment, cwd=image.root, **image.user
    )
    try:
        asked = [one.replace("8000", port) for one in probe]
        end = time.monotonic() + SECONDS
        while not image.succeeds(asked):
            assert process.poll() is None, "the service has ended"
            assert time.monotonic() < end, "the service does not get ready"
            time.sleep(1)
    finally:
        process.terminate()
        process.wait()
    assert process.returncode == 0, process.returncode


def main() -> None:
    """All steps, from an empty folder."""
    found = steps((ROOT / "docs" / "deploy" / "Containerfile").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        image = Image(Path(name))
        for word, rest in found:
            image.do(word, rest)
        (entry,) = [json.loads(rest) for word, rest in found if word == "ENTRYPOINT"]
        (probe,) = [rest.partition("CMD ")[2] for word, rest in found if word == "HEALTHCHECK"]
        serve(image, entry, json.loads(probe))
    print("each step has been run, and the service was ready and ended well")


if __name__ == "__main__":
    main()
