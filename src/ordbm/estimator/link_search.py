"""Links that the ratings ask for, of machines with given sizes."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ordbm.data.ratings import Ratings
from ordbm.inference.conditioned import softmax
from ordbm.inference.fitted import FittedModel
from ordbm.model.link_evidence import (
    PairTests,
    keys_of,
    linked_pairs,
    most_promising,
    pair_keys,
    pair_tests,
    precision_of,
    significant,
)
from ordbm.model.neighbours import Links, no_links
from ordbm.model.settings import Settings
from ordbm.model.structure import SIGNIFICANT, LinkTests, Sizes
from ordbm.runtime.arrays import Array

SIDES_OF_LINKS = ("item_links", "user_links")


class ChosenLinks(NamedTuple):
    """Links, and by how much their prior's precision is multiplied."""

    items: Links
    users: Links
    looseness: float = 1.0


class LearnSizes(Protocol):
    """Learns machines of these sizes, with these links, from these ratings."""

    def __call__(self, ratings: Ratings, sizes: Sizes, links: ChosenLinks, /) -> FittedModel: ...


class LinkSearch:
    """Score tests of all links, on machines without them, and links chosen by them.

    Columns that are linked through others pass tests that look at them alone. So what stands out
    one by one is fitted, tested again beside each other, and what fails is left out.
    """

    def __init__(self, learn: LearnSizes, settings: Settings, precision: float) -> None:
        self.learn, self.settings, self.precision = learn, settings, precision
        self._tests: dict[tuple[int, Sizes, int], PairTests] = {}  # ratings go by their object
        self._chosen: dict[tuple[int, Sizes], ChosenLinks] = {}

    def counts(self, ratings: Ratings, sizes: Sizes, side: int) -> tuple[int, int]:
        """How many links tests show one by one, and how many could be chosen."""
        tests = self.tests(ratings, sizes, side)
        return int(self._significant(tests).sum()), len(tests.z)

    def of(self, ratings: Ratings, sizes: Sizes) -> ChosenLinks:
        """As many as the sizes say, on both sides."""
        asked = (id(ratings), sizes)
        if asked not in self._chosen:
            first = self._first(ratings, sizes)
            by_test = SIGNIFICANT in (sizes.item_links, sizes.user_links)
            self._chosen[asked] = self._passing(ratings, sizes, first) if by_test else first
        return self._chosen[asked]

    def about(self, ratings: Ratings, sizes: Sizes) -> tuple[LinkTests, LinkTests]:
        """What tests say of the links between items, and between users."""
        chosen = self.of(ratings, sizes)
        items, users = (
            LinkTests(
                self.tests(ratings, sizes, side).n_tested,
                self.counts(ratings, sizes, side)[0],
                links.n_edges,
                int((links.similarity < 0).sum()),
            )
            if getattr(sizes, part)
            else LinkTests(0, 0, 0, 0)
            for side, (part, links) in enumerate(zip(SIDES_OF_LINKS, chosen[:2], strict=True))
        )
        return items, users

    def tests(self, ratings: Ratings, sizes: Sizes, side: int) -> PairTests:
        """Those of all pairs of columns of a side."""
        bare = sizes._replace(item_links=0, user_links=0)
        asked = (id(ratings), bare, side)
        if asked not in self._tests:
            none = ChosenLinks(no_links(ratings.n_items), no_links(ratings.n_users))
            self._tests[asked] = self._tests_of(self.learn(ratings, bare, none), side)
        return self._tests[asked]

    def _first(self, ratings: Ratings, sizes: Sizes) -> ChosenLinks:
        """Those that tests show while there are no links."""
        found = []
        loosest = []
        for side, part in enumerate(SIDES_OF_LINKS):
            size = getattr(sizes, part)
            if not size:
                found.append(no_links((ratings.n_items, ratings.n_users)[side]))
                continue
            tests = self.tests(ratings, sizes, side)
            chosen = self._chosen_by(tests, size)
            found.append(linked_pairs(tests, chosen))
            wanted = precision_of(tests, chosen) if size == SIGNIFICANT else np.inf
            loosest.append(min(1.0, wanted / self.precision) if self.precision else 1.0)
        return ChosenLinks(found[0], found[1], max(loosest, default=1.0))

    def _passing(self, ratings: Ratings, sizes: Sizes, links: ChosenLinks) -> ChosenLinks:
        """Those of the links that pass beside each other; by number, all."""
        if not links.items.n_edges + links.users.n_edges:
            return links
        fitted = self.learn(ratings, sizes, links)
        kept = []
        for side, own in enumerate(links[:2]):
            if getattr(sizes, SIDES_OF_LINKS[side]) != SIGNIFICANT or not own.n_edges:
                kept.append(own)
                continue
            tests = self._tests_of(fitted, side)
            passes = np.isin(pair_keys(tests.low, tests.high, tests.n_columns), keys_of(own))
            kept.append(linked_pairs(tests, passes & self._significant(tests)))
        return ChosenLinks(kept[0], kept[1], links.looseness)

    def _tests_of(self, fitted: FittedModel, side: int) -> PairTests:
        rows, transposed = fitted.ratings[side], fitted.ratings[1 - side]
        table = fitted.machines[0].features
        sides = [own for own in (machine.sides[side] for machine in fitted.machines) if own]
        return pair_tests(
            rows,
            transposed,
            left_out_distribution(fitted, side),
            table,
            sides[0].links if sides else no_links(transposed.n_rows),
            np.mean([own.parameters.link_weight[:, 0] for own in sides], axis=0)
            if sides
            else np.zeros(0),
            min_support=self.settings.link_support,
            budget=self.settings.link_budget,
            threads=self.settings.threads,
        )

    def _chosen_by(self, tests: PairTests, size: int) -> Array:
        if size == SIGNIFICANT:
            return self._significant(tests)
        return most_promising(tests, size, self.precision)

    def _significant(self, tests: PairTests) -> Array:
        return significant(tests, self.settings.structure_rules.false_share)


def left_out_distribution(fitted: FittedModel, side: int) -> Array:
    """P(level) of each rating given all others, (N, n), in a side's order; of Gaussian ones means.

    That of machines that learnt from all of them.
    """
    rows = fitted.ratings[side]
    codes = (rows.row, rows.column) if side == 0 else (rows.column, rows.row)
    gaussian = fitted.standardiser is not None
    found = [one.pair_scores(*codes) for one in fitted.conditioned]
    mean: Array = np.mean([one if gaussian else softmax(one) for one in found], axis=0)
    return mean
