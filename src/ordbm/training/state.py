"""What a training hands on from epoch to epoch, and to a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ordbm.errors import CheckpointError
from ordbm.model.neighbours import Links
from ordbm.model.presence import Presence
from ordbm.model.structure import Structure
from ordbm.priors.resolved import ResolvedPriors
from ordbm.runtime.arrays import Array


class Preparation(NamedTuple):
    """What the ratings tell before the first epoch, and no epoch changes."""

    links: tuple[Links, Links]  # between items, of the user side; between users
    presence: Presence | None
    priors: ResolvedPriors
    structure: Structure | None = None  # where it was searched


class Saved(NamedTuple):
    """A training after its last finished epoch."""

    history: list[dict[str, Any]]  # a record for every epoch
    stopped: bool  # by a callback: there is nothing to go on with
    arrays: dict[str, Array]


def copy_arrays(arrays: Mapping[str, Array], into: Mapping[str, Array]) -> None:
    """Fill the arrays of a training from a checkpoint's."""
    for name, array in into.items():
        found = arrays.get(name)
        if found is None or (found.shape, found.dtype) != (array.shape, array.dtype):
            raise CheckpointError(
                f"the checkpoint lacks {name!r} as this training has it: leave resume out to start "
                "anew"
            )
        array[...] = found
