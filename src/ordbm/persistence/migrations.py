"""Files of older formats, made newer one format at a time.

`MIGRATIONS[kind][n]` turns the header and the arrays of format n into those of format n + 1. A
change of what files hold comes with a higher number in `container.FORMAT`, a function here, and a
sample of the format before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ordbm.persistence.container import Arrays, Header

    Migration = Callable[[Header, Arrays], tuple[Header, Arrays]]


def _nothing_packed(header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
    """Format 1 of a model has all tables as they are."""
    return header | {"packed": {}}, arrays


MIGRATIONS: dict[str, dict[int, Migration]] = {"model": {1: _nothing_packed}, "checkpoint": {}}


def migrated(
    kind: str, version: int, newest: int, header: Header, arrays: Arrays
) -> tuple[Header, Arrays]:
    """Header and arrays of format `version` in the newest format."""
    for number in range(version, newest):
        header, arrays = MIGRATIONS[kind][number](header, arrays)
    return header, arrays
