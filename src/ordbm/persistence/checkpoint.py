"""Training kept in a file, to go on from after a kill as if nothing had happened.

An epoch depends on the settings, the ratings, its number, and what the epoch before left behind.
The file has the last two, and says what the first two were.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import ExitStack
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np

from ordbm.data.ratings import Ratings
from ordbm.data.scale import RatingScale
from ordbm.errors import CheckpointError, ModelFileError, SettingsError
from ordbm.model.feature_effects import KINDS, Told
from ordbm.model.learners import Learner
from ordbm.model.settings import Settings, identity
from ordbm.persistence.container import FAULTS, read_container, write_container
from ordbm.persistence.stored_priors import (
    packed_preparation,
    preparation_arrays,
    unpacked_preparation,
)
from ordbm.runtime.arrays import Array
from ordbm.runtime.atomic_files import remove_left_overs
from ordbm.runtime.file_locks import locked_file
from ordbm.training.state import Preparation, Saved

FILE = "checkpoint.ordbm"
LOCK = f".{FILE}.lock"
PAUSE = 20  # times what writing took: how long to wait before the next; it costs 5 % at most


class Checkpoint:
    """The file of one training, in a folder of its own.

    It is written when an epoch has ended, but not before `PAUSE` times the last writing's time have
    passed, and once more at the end: short epochs must not wait for the disk. Until a new file is
    complete the old one stays. As a context manager it keeps other trainings out of the folder.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        settings: Settings,
        learner: Learner,
        ratings: Ratings,
        validation: Ratings | None = None,
        told: Told = (None, None),
    ) -> None:
        self.path = Path(folder) / FILE
        self._held = ExitStack()
        self._settings, self._learner = settings, learner
        self._data = _data(ratings, validation) | _features(told)
        self._shape = ratings.n_users, ratings.n_items, np.dtype(settings.dtype)
        self.prepared: Preparation | None = None  # to be stored with every epoch
        self.epoch = 0  # the one in the file, as far as this object knows
        self._written = -np.inf
        self._cost = 0.0

    def __enter__(self) -> Self:
        folder = self.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._held.enter_context(locked_file(folder / LOCK))
            remove_left_overs(self.path)
        except BlockingIOError as error:
            raise CheckpointError(
                f"checkpoint={os.fspath(folder)!r} is in use by another training (process "
                f"{error.args[2]}): wait for its end, or give each training a folder of its own"
            ) from None
        except OSError as error:
            raise SettingsError(
                f"checkpoint={os.fspath(folder)!r} cannot be used: {error.strerror}; give a folder "
                "that can be written to"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    @property
    def is_due(self) -> bool:
        """Whether enough time has passed since the last writing."""
        return time.perf_counter() - self._written >= PAUSE * self._cost

    def write(self, saved: Saved) -> None:
        started = time.perf_counter()
        header: dict[str, Any] = {
            "origin": self._origin(len(saved.history)),
            "history": saved.history,
            "stopped": saved.stopped,
            "prepared": None,
        }
        arrays = saved.arrays
        if self.prepared is not None:
            header["prepared"] = packed_preparation(self.prepared)
            arrays = arrays | preparation_arrays(self.prepared)
        write_container(self.path, "checkpoint", header, arrays)
        self._written = time.perf_counter()
        self._cost = self._written - started
        self.epoch = len(saved.history)

    def read(self) -> Saved | None:
        """What was saved last, if anything was; an error if it is of another training."""
        if not self.path.exists():
            return None
        try:
            header, arrays = read_container(self.path, "checkpoint")
        except ModelFileError as error:
            raise ModelFileError(
                f"the training cannot go on: {error}; or leave resume out to start anew"
            ) from error
        try:
            saved = Saved(list(header["history"]), bool(header["stopped"]), arrays)
            origin = dict(header["origin"])
        except (KeyError, TypeError, ValueError):
            raise ModelFileError(
                f"{os.fspath(self.path)!r} is not a checkpoint of a training: leave resume out to "
                "start anew"
            ) from None
        now = self._origin(len(saved.history))
        changes = [
            f"{name} {origin.get(name, 'not known')} then, {now.get(name, 'not known')} now"
            for name in now | origin
            if origin.get(name) != now.get(name)
        ]
        if changes:
            raise CheckpointError(
                f"{os.fspath(self.path)!r} is of another training: {'; '.join(changes)}; use the "
                "same settings and ratings, or leave resume out to start anew"
            )
        try:
            self.prepared = unpacked_preparation(header["prepared"], arrays, *self._shape)
        except FAULTS as error:  # its checksum holds, its content does not
            raise ModelFileError(
                f"{os.fspath(self.path)!r} does not hold a training that ordbm could have written "
                f"({error}): leave resume out to start anew"
            ) from None
        self.epoch = len(saved.history)
        return saved

    def _origin(self, epochs: int) -> dict[str, str]:
        """All that the bits of so many epochs depend on, by name, as text."""
        settings = identity(self._settings, self._learner, epochs)
        return {name: _text(value) for name, value in settings.items()} | self._data


def _data(ratings: Ratings, validation: Ratings | None) -> dict[str, str]:
    """The ratings as text; ids are not among it: learning knows users and items by number only."""
    found = {"ratings": _summary(ratings)}
    if not isinstance(validation, Ratings):  # none, or something that fit will refuse
        return found | {"validation": "none"}
    known = (ratings.users.codes(validation.users.ids), ratings.items.codes(validation.items.ids))
    return found | {"validation": _summary(validation, *known)}


def _features(told: Told) -> dict[str, str]:
    """The features as text; nothing where there are none."""
    found = {}
    for kind, about in zip(KINDS, told, strict=True):
        if about is not None:
            digest = hashlib.sha256(np.ascontiguousarray(about.design).data).hexdigest()[:16]
            names = ", ".join(about.encoder.names)
            found[f"{kind}_features"] = f"{names} (digest {digest})"
    return found


def _text(value: Any) -> str:
    """A setting as text, the same for numbers of equal value."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_text, value))})"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return str(float(value)).removesuffix(".0")
    return str(value)


def _summary(ratings: Ratings, *further: Array) -> str:
    """How many ratings there are, and a digest of which; `further` arrays enter it too."""
    rows, scale = ratings.by_user, ratings.scale
    size = f"{len(ratings):,} by {ratings.n_users:,} users of {ratings.n_items:,} items"
    digest = hashlib.sha256(size.encode())
    levels = [scale.values, scale.edges] if isinstance(scale, RatingScale) else []
    for array in (rows.start, rows.column, rows.level, rows.value, *further, *levels):
        if array is not None:
            digest.update(str(array.dtype).encode())
            digest.update(np.ascontiguousarray(array).data)
    return f"{size} (digest {digest.hexdigest()[:16]})"
