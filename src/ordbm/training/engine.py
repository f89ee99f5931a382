"""Where the ratings of a training are: all here, or users shared out over workers.

A worker has some of the users, with all their ratings, in the blocks of one plan for all. What it
sums over its own ratings is then part of a sum over all workers, at these places of a block:

    user side   inputs, conditionals and context of its rows are its own | gradients of items
    item side   inputs of items | conditionals | context of items | its users' steps are its own

Every worker takes the same steps of what all share: items' parameters and what columns share.
"""

from __future__ import annotations

from typing import Protocol

from ordbm.runtime.arrays import Array

USER_SIDE, ITEM_SIDE = 0, 1  # sides, by whose hidden units they have


class Engine(Protocol):
    """Sums over workers, in place, in one order; each call is made by all of them in turn.

    One thread of a worker makes them, while its others wait.
    """

    @property
    def is_whole(self) -> bool:
        """Whether all ratings are here, so that there is nothing to add."""

    def add_counts(self, side: int, counts: Array) -> None:
        """By how many rows both ends of each link are rated; once, before the first pass."""

    def add_rows(self, side: int, table: Array) -> None:
        """What ratings add to a block's rows, (rows, d): inputs in float64, or what they ask."""

    def add_directions(self, side: int, by_direction: Array) -> None:
        """What the couplings of a side's columns say of each trait, (r, G, d); once in a pass."""

    def add_columns(self, side: int, block: int, coupling: Array, bias: Array) -> None:
        """Gradients of a block's columns, (columns, G, d) and (columns, n)."""

    def add_shared(self, side: int, hidden_bias: Array, level_bias: Array, link: Array) -> None:
        """Gradients of what columns share, (d,) and (n,), and of links, (LINK_CHUNKS, E, B)."""


class Local:
    """All ratings are here."""

    is_whole = True

    def add_counts(self, side: int, counts: Array) -> None:
        """Nothing to add."""

    def add_rows(self, side: int, table: Array) -> None:
        """Nothing to add."""

    def add_directions(self, side: int, by_direction: Array) -> None:
        """Nothing to add."""

    def add_columns(self, side: int, block: int, coupling: Array, bias: Array) -> None:
        """Nothing to add."""

    def add_shared(self, side: int, hidden_bias: Array, level_bias: Array, link: Array) -> None:
        """Nothing to add."""


LOCAL = Local()
