"""MovieLens 1M as a stream: in time order, in groups of one user and second, and scores along it.

Ratings of one user and second were given on one page, in an order that is not known: they are
predicted together before any of them is learnt. Needs NumPy alone, as it runs in every environment.
"""

from __future__ import annotations

import io
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

LEVELS = np.arange(1, 6)
LEARNT_FIRST = 0.7  # of the ratings, before the stream begins
NEW_ITEMS = 0.2  # of the items, of which nothing is known before the stream begins
BATCHES = 50
FIRST = 5  # ratings of a user or of an item that are also counted apart


class Stream(NamedTuple):
    """Ratings in the order in which they came; groups begin at `group`, (groups + 1,)."""

    user: np.ndarray
    item: np.ndarray
    rating: np.ndarray
    time: np.ndarray
    group: np.ndarray

    def __len__(self) -> int:
        return len(self.user)

    def at(self, chosen: np.ndarray | slice) -> Stream:
        """Some of the ratings."""
        columns = (column[chosen] for column in self[:4])
        return in_groups(*columns)


def read(path: Path) -> Stream:
    """All ratings, by time and then by user; within a group as in the file."""
    with zipfile.ZipFile(path) as archive:
        text = archive.read("ml-1m/ratings.dat").replace(b"::", b" ")
    user, item, rating, time = np.loadtxt(io.BytesIO(text), dtype=np.int64).T
    order = np.lexsort((user, time))
    return in_groups(user[order], item[order], rating[order], time[order])


def in_groups(user: np.ndarray, item: np.ndarray, rating: np.ndarray, time: np.ndarray) -> Stream:
    """Ordered ratings with their groups."""
    begins = np.ones(len(user), bool)
    begins[1:] = (user[1:] != user[:-1]) | (time[1:] != time[:-1])
    return Stream(user, item, rating, time, np.append(np.flatnonzero(begins), len(user)))


def cut(path: Path, protocol: str, seed: int = 0) -> tuple[Stream, list[Stream]]:
    """What is learnt first, and the batches of about one size that come then, groups kept whole.

    By "time" these are the first 70 % and the rest. By "items" the ratings that a fifth of the
    items, drawn at random, had in those 70 % are left out: these items come with the stream.
    """
    stream = read(path)
    groups = stream.group
    ends = groups[np.searchsorted(groups, np.linspace(LEARNT_FIRST, 1, BATCHES + 1) * len(stream))]
    learnt = stream.at(slice(0, ends[0]))
    if protocol == "items":
        items = np.unique(stream.item)
        new = np.random.default_rng(seed).permutation(items)[: round(NEW_ITEMS * len(items))]
        learnt = learnt.at(~np.isin(learnt.item, new))
    return learnt, [stream.at(slice(*both)) for both in pairwise(ends)]


def had_before(ids: np.ndarray, earlier: np.ndarray, group: np.ndarray) -> np.ndarray:
    """How many ratings each id had when its group was asked about, `earlier` among them."""
    everything = np.concatenate([earlier, ids])
    order = np.argsort(everything, kind="stable")
    ordered = everything[order]
    begins = np.ones(len(ordered), bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    first = np.maximum.accumulate(np.where(begins, np.arange(len(ordered)), 0))
    place = np.empty(len(ordered), np.int64)
    place[order] = np.arange(len(ordered)) - first
    place = place[len(earlier) :]
    of_group = np.repeat(np.arange(len(group) - 1), np.diff(group))
    same = np.unique(np.stack([of_group, ids]), axis=1, return_inverse=True)[1].ravel()
    least = np.full(same.max(initial=-1) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, same, place)
    return least[same]


def losses(prediction: np.ndarray, rating: np.ndarray) -> dict[str, np.ndarray]:
    """Losses of each rating: of probabilities (ratings, 5), or of expected ratings (ratings,)."""
    found = {}
    if prediction.ndim == 2:
        likelihood = prediction[np.arange(len(rating)), rating - 1]
        found["log_loss"] = -np.log(np.maximum(likelihood, 1e-12))
        median = 1 + (np.cumsum(prediction, axis=1) < 0.5).sum(axis=1).clip(max=4)
        found["mae_median"] = np.abs(median - rating)
        prediction = prediction @ LEVELS
    mean = np.clip(prediction, 1, 5)
    return found | {
        "rmse": (mean - rating) ** 2,
        "mae": np.abs(mean - rating),
        "mae_nearest": np.abs(np.floor(mean + 0.5) - rating),
    }
