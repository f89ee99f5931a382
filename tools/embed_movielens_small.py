"""Make the embedded data set from the official archive: embed_movielens_small.py ARCHIVE.zip

Writes movielens-small.npz of packages/ordbm-movielens-small (ratings, titles and genres; no times,
tags or links) and, beside it, movielens-small.txt: the archive's README with its terms.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np

PACKAGE = Path(__file__).parents[1] / "packages/ordbm-movielens-small/src/ordbm_movielens_small"
TARGET = PACKAGE / "movielens-small.npz"
NOTICE = """\
movielens-small.npz holds the ratings, titles and genres of the data set described below, in
another format (users, movies and twice the ratings as arrays; times, tags and links left out).
It is distributed under the conditions stated under "Usage License", which are not those of the
ordbm software: research use, no commercial use without permission, acknowledgement required.

"""


def embed(archive_path: Path, target: Path) -> None:
    """Write the arrays to `target` and the terms beside it."""
    with zipfile.ZipFile(archive_path) as archive:
        content = {PurePosixPath(name).name: archive.read(name) for name in archive.namelist()}
    rows = np.loadtxt(io.StringIO(content["ratings.csv"].decode()), delimiter=",", skiprows=1)
    np.savez_compressed(
        target,
        user=rows[:, 0].astype(np.int32),
        movie=rows[:, 1].astype(np.int32),
        half_stars=np.round(2 * rows[:, 2]).astype(np.uint8),
        movies_csv=np.frombuffer(content["movies.csv"], np.uint8),
    )
    target.with_suffix(".txt").write_text(NOTICE + content["README.txt"].decode())
    print(f"{target}: {len(rows):,} ratings, {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path, help="ml-latest-small zip")
    parser.add_argument("--target", type=Path, default=TARGET)
    arguments = parser.parse_args()
    embed(arguments.archive, arguments.target)
