"""What `structure="auto"` found, and the comparisons that led to it."""

from __future__ import annotations

from typing import NamedTuple

# Sizes of links that are no numbers.
SIGNIFICANT = -1  # those that tests show one by one
LIKELY = -2  # those that tests show less surely
USUAL = -3  # the most correlated, as settings without `structure` have them
LINKS_IN_WORDS = {SIGNIFICANT: "significant", LIKELY: "likely", USUAL: "usual"}

CONDENSED = "condensed"  # of hidden units that start as what more of them say together
WHOLE = "whole"  # in the place of a part: all that was found, beside the usual structure
SOUGHT = ("item_hidden", "user_hidden", "directions", "item_links", "user_links")

PARTS_IN_WORDS = {
    "item_hidden": "hidden units per item",
    "user_hidden": "hidden units per user",
    "directions": "directions of co-occurrence",
    "item_links": "links between items",
    "user_links": "links between users",
    WHOLE: "all, beside the usual structure",
}


SIDE_OF = {"user_hidden": 1, "item_hidden": 2}


class Sizes(NamedTuple):
    """How large each part of a machine is."""

    item_hidden: int  # hidden units of each item
    user_hidden: int
    directions: int  # of co-occurrence, that couplings follow
    item_links: int  # between items, all together
    user_links: int
    condensed: int = 0  # sides, 1: users, 2: items, whose units start as many say together

    def but(self, part: str, size: int, *, condensed: bool = False) -> Sizes:
        """The same with one part of another size; units may start as more of them, condensed."""
        sides = self.condensed
        if side := SIDE_OF.get(part, 0):
            sides = sides & ~side | (side if condensed else 0)
        return self._replace(**{part: size, "condensed": sides})


class SizeTrial(NamedTuple):
    """A size that was tried for a part, the others as they were by then."""

    part: str
    size: int
    log_loss: float  # of inner validation ratings
    rise: float  # of the log-loss, over what it was compared with
    error: float  # standard error of the rise, by users
    accepted: bool
    condensed: bool = False  # whether its units start as what more of them say together

    @property
    def size_in_words(self) -> str:
        """`25`, `4, condensed`, or which links."""
        if self.part == WHOLE:
            return ""
        size = LINKS_IN_WORDS.get(self.size, f"{self.size:,}")
        return f"{size}, {CONDENSED}" if self.condensed else size


class LinkTests(NamedTuple):
    """Score tests of the links between items, or between users."""

    tested: int  # pairs with common ratings enough
    significant: int  # at the false discovery rate
    kept: int
    negative: int  # of those kept: ratings that repel each other


class Structure(NamedTuple):
    """Sizes that were found, and why."""

    sizes: Sizes
    start: Sizes  # of the search
    trials: tuple[SizeTrial, ...]
    validation_ratings: int
    links: tuple[LinkTests, LinkTests]  # between items, between users
    link_looseness: float  # of the precision of links, which those that stand out need less of

    @property
    def priors(self) -> tuple[Sizes, Sizes, float]:
        """What they follow: the sizes, those of the start, and the looseness of links."""
        return self.sizes, self.start, self.link_looseness

    def kind_of(self, part: str) -> int:
        """Which links were kept: `SIGNIFICANT`, `LIKELY`, `USUAL`, or 0 for none."""
        kind = 0
        for trial in self.trials:
            if trial.part == WHOLE and not trial.accepted:
                kind = getattr(self.start, part)
            elif trial.part == part and trial.accepted:
                kind = trial.size
        return kind

    def size_in_words(self, part: str) -> str:
        """`25`, `2, condensed`, `7, likely`."""
        kind = LINKS_IN_WORDS.get(self.kind_of(part)) if part.endswith("links") else None
        if self.sizes.condensed & SIDE_OF.get(part, 0):
            kind = CONDENSED
        size = f"{getattr(self.sizes, part):,}"
        return f"{size}, {kind}" if kind else size

    @property
    def hidden(self) -> tuple[int, int]:
        """Hidden units of the user side and of the item side, as settings have them."""
        return self.sizes.user_hidden, self.sizes.item_hidden
