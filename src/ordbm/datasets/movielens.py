"""MovieLens files as they are published."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from ordbm.errors import RatingsError
from ordbm.ratings import Ratings


class Layout(NamedTuple):
    """How a ratings file is written: user, item, rating, time, with this between them."""

    separator: bytes
    header_lines: int


LAYOUTS = {
    "ratings.csv": Layout(b",", 1),  # latest, 20M and later
    "ratings.dat": Layout(b"::", 0),  # 1M, 10M
    "u.data": Layout(b"\t", 0),  # 100K
}
ROW = np.dtype([("user", np.int64), ("item", np.int64), ("rating", np.float64)])


def read_movielens(path: str | os.PathLike[str]) -> Ratings:
    """The ratings of a MovieLens set: its zip archive, its folder, or the ratings file itself."""
    name, content = _ratings_file(Path(path))
    layout = LAYOUTS[name]
    text = content.replace(layout.separator, b",").decode("ascii")
    try:
        rows = np.loadtxt(
            io.StringIO(text),
            ROW,
            delimiter=",",
            usecols=(0, 1, 2),
            skiprows=layout.header_lines,
            ndmin=1,
        )
    except ValueError as problem:
        raise RatingsError(f"{path}: {name} is not as MovieLens writes it: {problem}") from problem
    return Ratings(rows["user"], rows["item"], rows["rating"])


def _ratings_file(path: Path) -> tuple[str, bytes]:
    """The name and the content of the ratings file found at `path`."""
    if path.is_dir():
        for name in LAYOUTS:
            if (path / name).is_file():
                return name, (path / name).read_bytes()
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in LAYOUTS:
                for member in archive.namelist():
                    if PurePosixPath(member).name == name:
                        return name, archive.read(member)
    elif path.name in LAYOUTS:
        return path.name, path.read_bytes()
    elif not path.exists():
        raise FileNotFoundError(f"no such file or folder: {path}")
    raise RatingsError(f"{path}: found none of {', '.join(LAYOUTS)}; is it a MovieLens set?")
