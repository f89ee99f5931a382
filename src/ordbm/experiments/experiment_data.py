"""The ratings of an experiment: found, filtered, sampled, split, and known by their checksum."""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ordbm.data.ids import IdMap
from ordbm.data.ratings import Ratings
from ordbm.data.scale import RatingScale
from ordbm.data.split import hold_out
from ordbm.datasets import read_ratings
from ordbm.datasets.filters import filter_items
from ordbm.errors import RatingsError, SettingsError
from ordbm.experiments.definition import DataSet, Experiment

_SAMPLE_SEED = 0
_CHUNK = 2**20


class ExperimentData:
    """Where an experiment's ratings come from, and the ratings, read when first asked for."""

    def __init__(self, experiment: Experiment, path: Path) -> None:
        self.experiment = experiment
        self.path = data_path(experiment.data, path)

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the file; of a folder, of its files in the order of their names."""
        found = sha256()
        inside = self.path.rglob("*") if self.path.is_dir() else [self.path]
        for path in sorted(one for one in inside if one.is_file()):
            with path.open("rb") as file:
                while part := file.read(_CHUNK):
                    found.update(part)
        return found.hexdigest()

    @property
    def ratings(self) -> Ratings:
        """Filtered as the paper's; in a quick run, those of a sample of users."""
        return self._read[0]

    @property
    def is_the_papers(self) -> bool:
        """Whether the counts, before sampling, are those that the paper states."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[Ratings, bool]:
        wanted = self.experiment.data
        found = read_ratings(self.path)
        if not isinstance(found.scale, RatingScale):
            raise RatingsError(f"{self.path}: the paper's experiments need a scale of levels")
        if wanted.min_item_ratings:
            found = filter_items(found, wanted.min_item_ratings)
        if not len(found):
            raise RatingsError(
                f"{self.path}: no item has {wanted.min_item_ratings} ratings or more"
            )
        counts = (len(found), found.n_users, found.n_items)
        is_the_papers = counts == (wanted.ratings, wanted.users, wanted.items)
        n = self.experiment.sampled_users
        return (found if n is None else sample_of_users(found, n)), is_the_papers

    def identity(self) -> dict[str, Any]:
        """What determines the ratings."""
        return {
            "set": self.experiment.data.name,
            "sha256": self.checksum,
            "min_item_ratings": self.experiment.data.min_item_ratings,
            "sampled_users": self.experiment.sampled_users,
        }

    def description(self) -> dict[str, Any]:
        """The same, with the file's name and figures."""
        counts = {
            "file": self.path.name,
            "ratings": len(self.ratings),
            "users": self.ratings.n_users,
            "items": self.ratings.n_items,
            "is_the_papers": self.is_the_papers,
        }
        return self.identity() | counts

    def split(self, seed: int) -> Split:
        """About 80 % of each user's ratings to learn from, the others to test on."""
        return Split(*hold_out(self.ratings, self.experiment.data.test_fraction, seed))


class Split(NamedTuple):
    """The two parts of the ratings."""

    train: Ratings
    test: Ratings


def data_path(data: DataSet, path: Path) -> Path:
    """The data's file: `path`, or the file of its usual name in the folder `path`."""
    if path.is_dir() and (path / data.file).exists():
        return path / data.file
    if not path.exists():
        raise SettingsError(f"there is no {path}: say --data with {data.file} ({data.get})")
    return path


def sample_of_users(ratings: Ratings, n: int) -> Ratings:
    """The ratings of n users drawn at random, or of all if there are fewer; items all stay."""
    rated = np.flatnonzero(np.diff(ratings.by_user.start))
    drawn = np.random.default_rng(_SAMPLE_SEED).permutation(rated)[:n]
    keep = np.zeros(ratings.n_users, bool)
    keep[drawn] = True
    part = ratings.select(keep[ratings.user_codes])
    users = IdMap(tuple(ratings.users[code] for code in np.flatnonzero(keep).tolist()))
    start = np.append(part.by_user.start[:-1][keep], len(part))
    return Ratings.of_rows(users, part.items, part.scale, part.by_user._replace(start=start))
