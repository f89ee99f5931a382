"""What `structure="auto"` found, and the comparisons that led to it."""

from __future__ import annotations

from typing import NamedTuple

SIGNIFICANT = -1  # a size of links: those that tests show one by one


PARTS_IN_WORDS = {
    "item_hidden": "hidden units per item",
    "user_hidden": "hidden units per user",
    "directions": "directions of co-occurrence",
    "item_links": "links between items",
    "user_links": "links between users",
}


class Sizes(NamedTuple):
    """How large each part of a machine is."""

    item_hidden: int  # hidden units of each item
    user_hidden: int
    directions: int  # of co-occurrence, that couplings follow
    item_links: int  # between items, all together
    user_links: int

    def but(self, part: str, size: int) -> Sizes:
        """The same with one part of another size."""
        return self._replace(**{part: size})


class SizeTrial(NamedTuple):
    """A size that was tried for a part, the others as they were by then."""

    part: str
    size: int
    log_loss: float  # of inner validation ratings
    rise: float  # of the log-loss, over what it was compared with
    error: float  # standard error of the rise, by users
    accepted: bool


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

    @property
    def hidden(self) -> tuple[int, int]:
        """Hidden units of the user side and of the item side, as settings have them."""
        return self.sizes.user_hidden, self.sizes.item_hidden


def size_in_words(size: int) -> str:
    """`25`, or `significant` for links that tests show one by one."""
    return "significant" if size == SIGNIFICANT else f"{size:,}"
