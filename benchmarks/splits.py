"""The data sets of the accuracy benchmark, each split once and kept in `benchmarks/.cache/`.

A split is a folder of three files: `train.npz` (ratings, and which of them are for validation),
`pairs.npz` (the test pairs, without ratings) and `answers.npz` (the test ratings), which the scorer
alone opens. Users, items and levels are numbered from 0.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from data import CACHE, MIN_RATINGS, hold_out_per_user, read_movielens, sha256

VALIDATION_SHARE = 0.1  # of the training ratings, at random
VALIDATION_SEED = 1000  # plus the split's own


class Table(NamedTuple):
    """Ratings as they are in a file, and which are the test set where the file says so."""

    user: np.ndarray
    item: np.ndarray
    rating: np.ndarray
    test: np.ndarray | None = None


class DataSet(NamedTuple):
    """Where ratings come from and how they are split."""

    file: str
    read: Callable[[Path], Table]
    test_share: float = 0.2  # of each user's ratings
    given: int | None = None  # training ratings a user keeps
    official: bool = False  # the split is part of the data: it has no seed


class Stored(NamedTuple):
    """A split that has been made."""

    folder: Path
    about: dict[str, Any]  # counts and checksums

    @property
    def train(self) -> Path:
        return self.folder / "train.npz"

    @property
    def pairs(self) -> Path:
        return self.folder / "pairs.npz"

    @property
    def answers(self) -> Path:
        return self.folder / "answers.npz"


# --- reading --------------------------------------------------------------------------------------


def columns_of(path: Path, member: str, delimiter: str | None = None, skip: int = 0) -> np.ndarray:
    """The first three columns of a text in a zip archive."""
    with zipfile.ZipFile(path) as archive:
        text = io.BytesIO(archive.read(member))
    return np.loadtxt(text, delimiter=delimiter, skiprows=skip, usecols=(0, 1, 2))


def last_of_pairs(columns: np.ndarray) -> Table:
    """Ratings with the last one of a pair that is there twice, in the order of the file."""
    pairs = columns[::-1, :2]
    _, first_from_end = np.unique(pairs, axis=0, return_index=True)
    user, item, rating = columns[np.sort(len(columns) - 1 - first_from_end)].T
    return Table(user, item, rating)


def read_filmtrust(path: Path) -> Table:
    """FilmTrust."""
    return last_of_pairs(columns_of(path, "ratings.txt"))


def read_movielens_small(path: Path) -> Table:
    """MovieLens latest-small of 2016."""
    return Table(*columns_of(path, "ratings.csv", ",", skip=1).T)


def read_fold(name: str) -> Callable[[Path], Table]:
    """A reader of an official fold of ML-100K."""

    def read(path: Path) -> Table:
        base, test = (columns_of(path, f"ml-100k/{name}.{part}") for part in ("base", "test"))
        is_test = np.repeat([False, True], [len(base), len(test)])
        return Table(*np.concatenate([base, test]).T, is_test)

    return read


def read_ml_1m(path: Path) -> Table:
    """MovieLens 1M by the paper's filter."""
    user, item, rating = read_movielens(path)
    _, movie, counts = np.unique(item, return_inverse=True, return_counts=True)
    kept = counts[movie] >= MIN_RATINGS
    return Table(user[kept], item[kept], rating[kept])


def read_ml_1m_popular(path: Path) -> Table:
    """The 100 movies of MovieLens 1M that most have rated, by those who rated 30 of them."""
    table = read_ml_1m(path)
    items, counts = np.unique(table.item, return_counts=True)
    popular = np.isin(table.item, items[np.argsort(-counts, kind="stable")[:100]])
    users, counts = np.unique(table.user[popular], return_counts=True)
    kept = popular & np.isin(table.user, users[counts >= 30])
    return Table(table.user[kept], table.item[kept], table.rating[kept])


def read_ml_1m_thin(path: Path) -> Table:
    """Every twelfth rating of MovieLens 1M, drawn at random: most have few, some have many."""
    table = read_ml_1m(path)
    kept = np.random.default_rng(0).random(len(table.user)) < 1 / 12
    return Table(table.user[kept], table.item[kept], table.rating[kept])


def read_on_levels(*lowest: int) -> Callable[[Path], Table]:
    """A reader of ML-100K on a coarser scale; `lowest` are the least stars of its higher levels."""

    def read(path: Path) -> Table:
        user, item, rating = columns_of(path, "ml-100k/u.data").T
        return Table(user, item, np.searchsorted(lowest, rating, side="right"))

    return read


def read_netflix(path: Path) -> Table:
    """The Netflix subset of the paper."""
    import pyarrow.parquet  # noqa: PLC0415  (this set alone needs it)

    table = pyarrow.parquet.read_table(path)
    return Table(*(table[name].to_numpy() for name in ("user", "movie", "rating")))


def read_netflix_users(n_users: int, share: float = 1.0) -> Callable[[Path], Table]:
    """A reader of a share of the ratings of some users of the Netflix subset, drawn at random."""

    def read(path: Path) -> Table:
        table = read_netflix(path)
        rng = np.random.default_rng(0)
        drawn = rng.choice(np.unique(table.user), n_users, replace=False)
        kept = np.flatnonzero(np.isin(table.user, drawn))
        kept = kept[rng.random(len(kept)) < share]
        return Table(table.user[kept], table.item[kept], table.rating[kept])

    return read


DATA_SETS: dict[str, DataSet] = {
    "filmtrust": DataSet("filmtrust.zip", read_filmtrust),
    "movielens-small": DataSet("ml-latest-small-2016.zip", read_movielens_small),
    **{
        f"ml-100k-u{fold}": DataSet("ml-100k.zip", read_fold(f"u{fold}"), official=True)
        for fold in range(1, 6)
    },
    "ml-1m-80": DataSet("ml-1m.zip", read_ml_1m),
    "ml-1m-90": DataSet("ml-1m.zip", read_ml_1m, test_share=0.1),
    **{
        f"ml-1m-given{given}": DataSet("ml-1m.zip", read_ml_1m, given=given)
        for given in (3, 5, 10, 20)
    },
    "netflix": DataSet("netflix-3000.parquet", read_netflix),
    # Other shapes, to see whether the defaults serve them too.
    "ml-100k-two-levels": DataSet("ml-100k.zip", read_on_levels(4)),
    "ml-100k-three-levels": DataSet("ml-100k.zip", read_on_levels(3, 5)),
    "ml-1m-popular": DataSet("ml-1m.zip", read_ml_1m_popular),
    "ml-1m-thin": DataSet("ml-1m.zip", read_ml_1m_thin),
    "netflix-sample": DataSet("netflix-3000.parquet", read_netflix_users(2_000)),
    "netflix-thin": DataSet("netflix-3000.parquet", read_netflix_users(5_000, 1 / 6)),
}


def family(name: str) -> str:
    """What is averaged over: the folds of ML-100K are one data set."""
    return name.rpartition("-u")[0] if DATA_SETS[name].official else name


# --- splitting ------------------------------------------------------------------------------------


def split(name: str, seed: int, files: Path) -> Stored:
    """The split of a data set, made first if it is not there yet."""
    data_set = DATA_SETS[name]
    source = files / data_set.file
    if not source.is_file():
        raise FileNotFoundError(f"no {source}: say where the data files are with --files")
    digest = sha256(source)
    folder = CACHE / "splits" / f"{name}-{digest[:8]}-seed{seed}"
    if not folder.exists():
        partial = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
        partial.mkdir(parents=True)
        try:
            write(data_set, source, seed, digest, partial)
            partial.rename(folder)  # in one step: a run that is stopped leaves no half-made split
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return Stored(folder, json.loads((folder / "about.json").read_text()))


def write(data_set: DataSet, source: Path, seed: int, digest: str, folder: Path) -> None:
    """Read, split and store."""
    table = data_set.read(source)
    user_ids, user = np.unique(table.user, return_inverse=True)
    item_ids, item = np.unique(table.item, return_inverse=True)
    values, level = np.unique(table.rating, return_inverse=True)
    test = table.test
    if test is None:
        test = hold_out_per_user(user, data_set.test_share, np.random.default_rng(seed))
    train = ~test
    if data_set.given is not None:
        train = kept_per_user(user, train, data_set.given, seed)
    columns = user.astype(np.int32), item.astype(np.int32), level.astype(np.int16)
    known, asked = (tuple(column[part] for column in columns) for part in (train, test))
    rng = np.random.default_rng(VALIDATION_SEED + seed)
    validation = rng.random(len(known[0])) < VALIDATION_SHARE
    np.savez(
        folder / "train.npz",
        **dict(zip(("user", "item", "level"), known, strict=True)),
        validation=validation,
        values=values.astype(np.float64),
        n_users=len(user_ids),
        n_items=len(item_ids),
    )
    np.savez(folder / "pairs.npz", user=asked[0], item=asked[1])
    np.savez(folder / "answers.npz", level=asked[2], values=values.astype(np.float64))
    about = {
        "n_users": len(user_ids),
        "n_items": len(item_ids),
        "n_levels": len(values),
        "n_train": len(known[0]),
        "n_test": len(asked[0]),
        "file_sha256": digest,
        "split_sha256": hashlib.sha256(
            b"".join(array.tobytes() for array in (*known, *asked, validation))
        ).hexdigest(),
    }
    (folder / "about.json").write_text(json.dumps(about))


def kept_per_user(user: np.ndarray, train: np.ndarray, given: int, seed: int) -> np.ndarray:
    """`given` of each user's training ratings at random, or all; fewer are part of more."""
    mine = np.flatnonzero(train)
    draw = np.random.default_rng([seed, 1]).random(len(mine))
    order = mine[np.lexsort((draw, user[mine]))]
    owner = user[order]
    place = np.arange(len(order)) - np.searchsorted(owner, owner)
    kept = np.zeros(len(user), bool)
    kept[order[place < given]] = True
    return kept
