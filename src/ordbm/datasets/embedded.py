"""Data sets that come as packages of their own, each under its own terms; readable offline."""

from __future__ import annotations

import io
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.ratings import Ratings
from ordbm.datasets.delimited import records
from ordbm.errors import SettingsError
from ordbm.runtime.printable import shown

EMBEDDED = {"movielens-small": "ordbm_movielens_small"}  # the package that holds each
_HALF_STARS = [stars / 2 for stars in range(1, 11)]


def load_dataset(name: str = "movielens-small") -> Ratings:
    """The embedded ratings called `name`.

    `movielens-small`: 100,004 ratings of 9,066 movies by 671 users in half stars, from MovieLens
    latest-small of October 2016, for research and without commercial use; its terms are in
    `movielens-small.txt` of the package `ordbm-movielens-small`, which is installed apart from
    this one.
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


def is_installed(name: str) -> bool:
    """Whether the package that holds the data set is there."""
    return find_spec(EMBEDDED[name]) is not None


def remedy(name: str) -> str:
    """How to install the package that holds the data set."""
    package = EMBEDDED[name].replace("_", "-")
    return f'pip install "ordbm[data]", or, in a clone, pip install ./packages/{package}'


@cache
def _arrays(name: str) -> dict[str, NDArray[Any]]:
    """user and movie ids, half_stars (twice the rating), and movies.csv as UTF-8 bytes."""
    if name not in EMBEDDED:
        raise SettingsError(f"no data set {shown(name)}; there is {', '.join(map(repr, EMBEDDED))}")
    try:
        stored = (files(EMBEDDED[name]) / f"{name}.npz").read_bytes()
    except ModuleNotFoundError:
        raise SettingsError(f"the ratings of {name} are not installed: {remedy(name)}") from None
    with np.load(io.BytesIO(stored), allow_pickle=False) as archive:
        return dict(archive)


def _movies(name: str) -> list[list[str]]:
    content = _arrays(name)["movies_csv"].tobytes()
    return [record.fields for record in records(content, ",")][1:]
