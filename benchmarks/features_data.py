"""MovieLens ratings with what is known of people and films, cut for people and films unseen.

A fifth of the users and a fifth of the items are held out wholly, as in cmfrec's example, and a
tenth of the ratings of known pairs. Of held-out users with ratings enough some are given, for
predictions of the others. Needs NumPy alone.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HELD_OUT = 0.2  # of users, and of items
KNOWN_TEST = 0.1  # of the ratings of known pairs
GIVEN = (0, 1, 3, 5, 10, 20)  # ratings of a new user
LEAST_LEFT = 10  # ratings of a new user that are predicted

Table = dict[int, dict[str, Any]]


class Cells(NamedTuple):
    """Ratings as rows (user, item, level); the cells that are predicted, by name."""

    train: np.ndarray
    cells: dict[str, np.ndarray]
    given: np.ndarray  # of new users, 20 each, in the order in which they are given
    asked: np.ndarray  # of these users, known items


def read(path: Path, name: str) -> tuple[np.ndarray, Table, Table]:
    """Ratings (N, 3), users and items, each with its columns."""
    with zipfile.ZipFile(path) as archive:

        def lines(member: str) -> list[str]:
            return archive.read(f"{name}/{member}").decode("latin-1").splitlines()

        if name == "ml-1m":
            ratings = [line.split("::")[:3] for line in lines("ratings.dat")]
            users = {
                int(user): {"gender": gender, "age": float(age), "occupation": f"o{job}"}
                for user, gender, age, job, _ in (line.split("::") for line in lines("users.dat"))
            }
            items = {
                int(item): {"year": float(title[-5:-1]), "genres": genres}
                for item, title, genres in (line.split("::") for line in lines("movies.dat"))
            }
        else:
            ratings = [line.split("\t")[:3] for line in lines("u.data")]
            users = {
                int(user): {"gender": gender, "age": float(age), "occupation": job}
                for user, age, gender, job, _ in (line.split("|") for line in lines("u.user"))
            }
            genre = [line.split("|")[0] for line in lines("u.genre") if "|" in line]
            items = {}
            for fields in (line.split("|") for line in lines("u.item")):
                year = re.search(r"(\d{4})$", fields[2])
                kinds = [one for one, has in zip(genre, fields[5:], strict=True) if has == "1"]
                items[int(fields[0])] = {
                    "year": float(year.group()) if year else None,
                    "genres": "|".join(kinds),
                }
    return np.array(ratings, np.int64), users, items


def cut(ratings: np.ndarray, seed: int) -> Cells:
    """The cells of one seed."""
    rng = np.random.default_rng(seed)
    new_user, new_item = (
        np.isin(ratings[:, side], rng.permutation(ids)[: int(HELD_OUT * len(ids))])
        for side, ids in ((0, np.unique(ratings[:, 0])), (1, np.unique(ratings[:, 1])))
    )
    known = ~new_user & ~new_item
    test = known & (rng.random(len(ratings)) < KNOWN_TEST)
    train = ratings[known & ~test]
    has_user, has_item = (np.isin(ratings[:, side], train[:, side]) for side in range(2))
    cells = {
        "known": ratings[test & has_user & has_item],
        "new item": ratings[~new_user & new_item & has_user],
        "new user": ratings[new_user & ~new_item & has_item],
        "both": ratings[new_user & new_item],
    }
    of_new = rng.permutation(cells["new user"])
    of_new = of_new[np.argsort(of_new[:, 0], kind="stable")]
    _, first, count = np.unique(of_new[:, 0], return_index=True, return_counts=True)
    place = np.arange(len(of_new)) - np.repeat(first, count)
    enough = np.repeat(count, count) >= max(GIVEN) + LEAST_LEFT
    return Cells(
        train, cells, of_new[enough & (place < max(GIVEN))], of_new[enough & (place >= max(GIVEN))]
    )


def first_given(given: np.ndarray, n: int) -> np.ndarray:
    """The first n ratings of each user."""
    _, first, count = np.unique(given[:, 0], return_index=True, return_counts=True)
    return given[np.arange(len(given)) - np.repeat(first, count) < n]


def scores(prediction: np.ndarray, cell: np.ndarray) -> dict[str, Any]:
    """Of probabilities (pairs, 5), or of expected ratings (pairs,), which have no log-loss.

    `by_user` has each user's number of ratings and summed log-loss, squared and absolute error.
    """
    level, mean, loss = cell[:, 2], prediction, np.zeros(len(cell))
    if prediction.ndim == 2:
        loss = -np.log(np.maximum(prediction[np.arange(len(level)), level - 1], 1e-12))
        mean = prediction @ np.arange(1, 6)
    error = np.clip(mean, 1, 5) - level
    user, place = np.unique(cell[:, 0], return_inverse=True)
    summed = [np.bincount(place, of) for of in (np.ones(len(cell)), loss, error**2, np.abs(error))]
    return {
        "log_loss": float(loss.mean()) if prediction.ndim == 2 else None,
        "rmse": float(np.sqrt((error**2).mean())),
        "mae": float(np.abs(error).mean()),
        "by_user": {"user": user.tolist(), "sums": np.stack(summed, axis=1).tolist()},
    }
