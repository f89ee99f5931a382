"""Machines of given sizes and links, learnt to be compared."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ordbm.data.ratings import Ratings
from ordbm.inference.fitted import FittedModel
from ordbm.model.condensing import Directions, condensed, directions
from ordbm.model.machine import Parameters
from ordbm.model.neighbours import Links, no_links
from ordbm.model.structure import SIDE_OF, Sizes

KEPT = 8  # machines without links that are kept: a few sizes in some folds


class ChosenLinks(NamedTuple):
    """Links, and by how much their prior's precision is multiplied."""

    items: Links
    users: Links
    looseness: float = 1.0


Starts = tuple[Parameters | None, Parameters | None]  # of both sides, where they are not random


class LearnFrom(Protocol):
    """Learns machines of these sizes, with these links, from there."""

    def __call__(
        self, ratings: Ratings, sizes: Sizes, links: ChosenLinks, starts: Starts, /
    ) -> FittedModel: ...


class TrialFits:
    """Fits of one machine; the last ones without links are kept, and go by their ratings' object.

    Units that are condensed start as what those of `start` say together, learnt from the same
    ratings.
    """

    def __init__(self, learn: LearnFrom, start: Sizes) -> None:
        self._learn, self._start = learn, start._replace(item_links=0, user_links=0)
        self._kept: dict[tuple[int, Sizes], FittedModel] = {}

    def of(self, ratings: Ratings, sizes: Sizes, links: ChosenLinks) -> FittedModel:
        """A machine of these sizes, with these links."""
        return self._learn(ratings, sizes, links, self.starts(ratings, sizes))

    def without_links(self, ratings: Ratings, sizes: Sizes) -> FittedModel:
        """The same without."""
        bare = sizes._replace(item_links=0, user_links=0)
        asked = (id(ratings), bare)
        if asked not in self._kept:
            none = ChosenLinks(no_links(ratings.n_items), no_links(ratings.n_users))
            fitted = self.of(ratings, bare, none)
            if len(self._kept) == KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[asked] = fitted
        return self._kept[asked]

    def strength(self, ratings: Ratings, part: str) -> NDArray[np.float64]:
        """How much each of what the units of the start say together moves scores, falling."""
        return self._directions(ratings, SIDE_OF[part] - 1).strength

    def starts(self, ratings: Ratings, sizes: Sizes) -> Starts:
        """Where the sides start that are condensed."""
        users, items = (
            self._condensed(ratings, number, size) if sizes.condensed & number + 1 else None
            for number, size in enumerate((sizes.user_hidden, sizes.item_hidden))
        )
        return users, items

    def _condensed(self, ratings: Ratings, number: int, size: int) -> Parameters:
        many = self.without_links(ratings, self._start)
        side = many.machines[0].sides[number]
        assert side is not None
        return condensed(side, self._directions(ratings, number), many.ratings[number], size)

    def _directions(self, ratings: Ratings, number: int) -> Directions:
        many = self.without_links(ratings, self._start)
        side, of_rows = many.machines[0].sides[number], many.conditioned[0]
        assert side is not None
        return directions(side, (of_rows.user_factors, of_rows.item_factors)[number]())
