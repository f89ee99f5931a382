"""Data sets inside the package, readable offline."""

from __future__ import annotations

import io
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.ratings import Ratings
from ordbm.datasets.delimited import records
from ordbm.errors import SettingsError

EMBEDDED = ("movielens-small",)
_HALF_STARS = [stars / 2 for stars in range(1, 11)]


def load_dataset(name: str = "movielens-small") -> Ratings:
    """The embedded ratings called `name`.

    `movielens-small`: 100,004 ratings of 9,066 movies by 671 users in half stars, from MovieLens
    latest-small of October 2016, for research and without commercial use; its terms are in
    `movielens-small.txt` beside this module.
    """
    arrays = _arrays(name)
    return Ratings(arrays["user"], arrays["movie"], arrays["half_stars"] / 2, scale=_HALF_STARS)


def load_titles(name: str = "movielens-small") -> dict[int, str]:
    """The title of every item, by item id."""
    return {int(movie): title for movie, title, _ in _movies(name)}


def load_genres(name: str = "movielens-small") -> dict[int, tuple[str, ...]]:
    """The genres of every item, by item id; none for `(no genres listed)`."""
    return {
        int(movie): () if genres == "(no genres listed)" else tuple(genres.split("|"))
        for movie, _, genres in _movies(name)
    }


@cache
def _arrays(name: str) -> dict[str, NDArray[Any]]:
    """user and movie ids, half_stars (twice the rating), and movies.csv as UTF-8 bytes."""
    if name not in EMBEDDED:
        raise SettingsError(f"no data set {name!r}; there is {', '.join(map(repr, EMBEDDED))}")
    stored = (files(__package__) / f"{name}.npz").read_bytes()
    with np.load(io.BytesIO(stored), allow_pickle=False) as archive:
        return dict(archive)


def _movies(name: str) -> list[list[str]]:
    text = _arrays(name)["movies_csv"].tobytes().decode()
    return [record.fields for record in records(text, ",")][1:]
