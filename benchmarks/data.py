"""The ML-1M split of the paper, made once and read by every environment.

    python benchmarks/data.py [--data ../shared/data/ml-1m.zip] [--seed 0]

ordbm and its peers live in different environments but must see the same arrays, so the split is an
`.npz` in `benchmarks/.cache/`. This module needs NumPy alone, so that either can import it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
CACHE = HERE / ".cache"
DEFAULT_ZIP = HERE.parent.parent / "shared" / "data" / "ml-1m.zip"
RATINGS_MEMBER = "ml-1m/ratings.dat"
MIN_RATINGS = 20  # the paper's filter: movies with at least this many ratings in all of ml-1m
TEST_SHARE = 0.2
LEVELS = np.arange(1, 6)


class Split(NamedTuple):
    """Training and test ratings with users and items numbered from 0, and where they come from."""

    train_user: np.ndarray  # int32
    train_item: np.ndarray  # int32
    train_rating: np.ndarray  # int8, 1 to 5
    test_user: np.ndarray
    test_item: np.ndarray
    test_rating: np.ndarray
    user_ids: np.ndarray  # user number -> MovieLens user id
    item_ids: np.ndarray  # item number -> MovieLens movie id
    seed: int
    zip_sha256: str
    split_sha256: str  # of the six rating arrays

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)


def sha256(path: Path) -> str:
    """Checksum of the file at `path`."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_movielens(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """User ids, movie ids and ratings of `ratings.dat`, lines of user::movie::rating::time."""
    with zipfile.ZipFile(path) as archive:
        text = archive.read(RATINGS_MEMBER).replace(b"::", b" ")
    columns = np.loadtxt(io.BytesIO(text), dtype=np.int64)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def hold_out_per_user(user: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """A mask that picks round(share · count) ratings of each user at random."""
    order = np.lexsort((rng.random(len(user)), user))  # by user, in random order within a user
    counts = np.bincount(user)
    starts = np.cumsum(counts) - counts
    place = np.empty(len(user), dtype=np.int64)
    place[order] = np.arange(len(user)) - np.repeat(starts, counts)  # 0, 1, … within the user
    held_out: np.ndarray = place < np.rint(share * counts)[user]
    return held_out


def make_split(path: Path, seed: int) -> Split:
    """The paper's filter, then 20 % of each user's ratings to the test set."""
    user_id, item_id, rating = read_movielens(path)
    _, movie, counts = np.unique(item_id, return_inverse=True, return_counts=True)
    kept = counts[movie] >= MIN_RATINGS
    user_ids, user = np.unique(user_id[kept], return_inverse=True)
    item_ids, item = np.unique(item_id[kept], return_inverse=True)
    test = hold_out_per_user(user, TEST_SHARE, np.random.default_rng(seed))
    columns = (user.astype(np.int32), item.astype(np.int32), rating[kept].astype(np.int8))
    train, held_out = (tuple(column[part] for column in columns) for part in (~test, test))
    digest = hashlib.sha256(b"".join(array.tobytes() for array in train + held_out)).hexdigest()
    values = (*train, *held_out, user_ids, item_ids, seed, sha256(path), digest)
    return Split(**dict(zip(Split._fields, values, strict=True)))


def load_split(path: Path | str) -> Split:
    """The split that `cached_split` wrote to `path`."""
    with np.load(path) as stored:
        values = {name: stored[name] for name in Split._fields}
    return Split(**{name: value if value.ndim else value.item() for name, value in values.items()})


def cached_split(path: Path, seed: int) -> Path:
    """Where the split of the archive at `path` is stored; made first if it is not there yet."""
    if not path.is_file():
        raise FileNotFoundError(f"no MovieLens 1M archive at {path}: give its place with --data")
    target = CACHE / f"ml-1m-{sha256(path)[:8]}-seed{seed}.npz"
    if not target.exists():
        CACHE.mkdir(exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.tmp.npz")
        np.savez_compressed(partial, **make_split(path, seed)._asdict())
        partial.replace(target)  # in one step: a run that is stopped leaves no half-written split
    return target


def scores(proba: np.ndarray, rating: np.ndarray) -> dict[str, float]:
    """Log-loss, MAE by median and RMSE by mean of `proba`, shape (pairs, 5), levels 1 to 5."""
    likelihood = proba[np.arange(len(rating)), rating.astype(np.int64) - LEVELS[0]]
    median = LEVELS[(np.cumsum(proba, axis=1) < 0.5).sum(axis=1).clip(max=len(LEVELS) - 1)]
    return {
        "log_loss": float(-np.log(likelihood).mean()),
        "mae_by_median": float(np.abs(median - rating).mean()),
        "rmse_by_mean": float(np.sqrt(((proba @ LEVELS - rating) ** 2).mean())),
    }


class Seconds:
    """What `stopwatch` read: wall clock, and processor time of all threads of this process."""

    wall: float
    cpu: float


@contextlib.contextmanager
def stopwatch() -> Iterator[Seconds]:
    """Times its block; a single thread whose wall clock exceeds its cpu time had to wait."""
    seconds = Seconds()
    wall, cpu = time.perf_counter(), time.process_time()
    yield seconds
    seconds.wall, seconds.cpu = time.perf_counter() - wall, time.process_time() - cpu


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two options that say which split."""
    parser.add_argument(
        "--data",
        type=Path,
        default=DEFAULT_ZIP,
        help="the archive ml-1m.zip (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the split (default: %(default)s)"
    )


def main() -> None:
    """Make the split if needed and print what it is."""
    parser = argparse.ArgumentParser(
        description="Make the ML-1M split of the paper and print where it is."
    )
    add_arguments(parser)
    arguments = parser.parse_args()
    place = cached_split(arguments.data, arguments.seed)
    split = load_split(place)
    print(place)
    print(
        f"{split.n_users:,} users, {split.n_items:,} items, "
        f"{len(split.train_rating):,} training and {len(split.test_rating):,} test ratings, "
        f"seed {split.seed}"
    )
    print(f"sha256 of the archive {split.zip_sha256}\nsha256 of the split   {split.split_sha256}")


if __name__ == "__main__":
    main()
