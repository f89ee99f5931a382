"""Kinds of input: how one is made from a random state, and the judge of what becomes of it.

A judge returns "read" or "refused". Read means that everything held: counts, ids and values as an
independent reading has them, probabilities finite and adding up. Refused means one of ordbm's own
errors, with a sentence. Anything else is raised: an exception of another kind, an assertion.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ordbm.errors import OrdbmError

READ, REFUSED = "read", "refused"


class Input(NamedTuple):
    """Bytes for a file of this name, and what else is told; either may be empty."""

    name: str = ""
    content: bytes = b""
    told: Any = None


class Kind(NamedTuple):
    """One kind of input."""

    name: str
    weight: int  # how many of them there are among all
    make: Callable[[random.Random], Input]
    judge: Callable[[Input, Path], str]  # the folder is for the input's own files


def refusal(error: OrdbmError) -> str:
    """REFUSED, if the error says something in one line."""
    words = str(error)
    assert words.strip(), type(error)
    assert "\n" not in words, words
    return REFUSED


def judged_by(kind: Kind, given: Input, folder: Path) -> str:
    """The judge's verdict; errors of ordbm's own are refusals."""
    try:
        return kind.judge(given, folder)
    except OrdbmError as error:
        return refusal(error)
