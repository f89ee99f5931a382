"""What files have of a structure that was searched: its sizes, and the trials that led there."""

from __future__ import annotations

import math
from typing import Any

from ordbm.model.settings import MOST_HIDDEN
from ordbm.model.structure import PARTS_IN_WORDS, USUAL, LinkTests, Sizes, SizeTrial, Structure
from ordbm.persistence.container import Header

_MOST = 2**62  # of a count


def packed_structure(structure: Structure | None) -> Header | None:
    """Its numbers."""
    if structure is None:
        return None
    return {
        "sizes": list(structure.sizes),
        "start": list(structure.start),
        "trials": [list(trial) for trial in structure.trials],
        "validation_ratings": structure.validation_ratings,
        "links": [list(tests) for tests in structure.links],
        "link_looseness": float(structure.link_looseness),
    }


def unpacked_structure(plain: Any, links: tuple[int, int]) -> Structure | None:
    """The structure, with as many links (between items and between users) as there are."""
    if plain is None:
        return None
    sizes = Sizes(*map(_count, plain["sizes"]))
    start = Sizes(*(_count(size, USUAL) for size in plain["start"]))
    items, users = (LinkTests(*map(_count, tests)) for tests in plain["links"])
    if max(sizes.user_hidden, sizes.item_hidden, sizes.directions) > MOST_HIDDEN:
        raise ValueError("the structure has too many hidden units")
    if (sizes.item_links, sizes.user_links) != links or (items.kept, users.kept) != links:
        raise ValueError("the structure has other links")
    looseness = plain["link_looseness"]
    if type(looseness) is not float or not 0 < looseness <= 1:
        raise ValueError("the links of the structure are looser than can be")
    trials = tuple(_trial(*trial) for trial in plain["trials"])
    return Structure(
        sizes, start, trials, _count(plain["validation_ratings"]), (items, users), looseness
    )


def _trial(
    part: Any, size: Any, log_loss: Any, rise: Any, error: Any, accepted: Any, condensed: Any
) -> SizeTrial:
    if part not in PARTS_IN_WORDS or not type(accepted) is type(condensed) is bool:
        raise ValueError("a trial is of no part of a structure")
    if not all(
        type(number) is float and math.isfinite(number) for number in (log_loss, rise, error)
    ):
        raise ValueError("a trial's figures are not numbers")
    return SizeTrial(part, _count(size, USUAL), log_loss, rise, error, accepted, condensed)


def _count(plain: Any, least: int = 0) -> int:
    if type(plain) is not int or not least <= plain < _MOST:
        raise ValueError("a structure's sizes are not counts")
    return plain
