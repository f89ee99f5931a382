"""How long a CSV file of a million ratings takes to become Ratings, and what one bad line says.

    .venv/bin/python benchmarks/reading.py

The file is made up: 6,000 users, 4,000 items, five levels, ids as integers and as text.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import ordbm
from ordbm.errors import OrdbmError

LINES = 1_000_000
BAD_LINE = 654_321


def main() -> None:
    """Print the seconds for each kind of id, and the error for a malformed line."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(6_000, size=LINES), rng.integers(4_000, size=LINES)
    ratings = rng.integers(1, 6, size=LINES)
    with tempfile.TemporaryDirectory() as folder:
        for kind, mark in (("integer ids", ""), ("text ids", "n")):
            path = Path(folder) / "ratings.csv"
            with path.open("w") as file:
                file.write("user,item,rating\n")
                file.writelines(
                    f"{mark}{user},{mark}{item},{rating}\n"
                    for user, item, rating in zip(users, items, ratings, strict=True)
                )
            started = time.perf_counter()
            found = ordbm.read_ratings(path)
            print(f"{kind}: {time.perf_counter() - started:.2f} s for {found}")
        lines = path.read_text().splitlines(keepends=True)
        lines[BAD_LINE - 1] = "n1,n2\n"
        path.write_text("".join(lines))
        try:
            ordbm.read_ratings(path)
        except OrdbmError as error:
            print(f"line {BAD_LINE:,} damaged: {error}".replace(folder, "…"))
        command = [sys.executable, "-m", "ordbm", "fit", str(path), "-o", f"{folder}/m.ordbm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        print(f"ordbm fit on it: exit code {done.returncode}")


if __name__ == "__main__":
    main()
