"""Links that the ratings ask for, of machines with given sizes."""

from __future__ import annotations

import numpy as np

from ordbm.data.ratings import Ratings
from ordbm.estimator.trial_fits import ChosenLinks, TrialFits
from ordbm.inference.conditioned import softmax
from ordbm.inference.fitted import FittedModel
from ordbm.model.initialisation import links_of
from ordbm.model.link_evidence import (
    PairTests,
    keys_of,
    linked_pairs,
    pair_keys,
    pair_tests,
    precision_of,
    significant,
)
from ordbm.model.neighbours import Links, no_links
from ordbm.model.settings import Settings
from ordbm.model.structure import LIKELY, SIGNIFICANT, USUAL, LinkTests, Sizes
from ordbm.runtime.arrays import Array

SIDES_OF_LINKS = ("item_links", "user_links")


class LinkSearch:
    """Score tests of all links, on machines without them, and links chosen by them.

    Columns that are linked through others pass tests that look at them alone. So what stands out
    one by one is fitted, tested again beside each other, and what fails is left out.
    """

    def __init__(self, fits: TrialFits, settings: Settings, precision: float) -> None:
        rules = settings.structure_rules
        self.fits, self.settings, self.precision = fits, settings, precision
        self.false_shares = {SIGNIFICANT: rules.false_share, LIKELY: rules.likely_share}
        self._tests: dict[tuple[int, Sizes, int], PairTests] = {}  # ratings go by their object
        self._chosen: dict[tuple[int, Sizes], ChosenLinks] = {}
        self._usual_links: dict[int, tuple[Links, Links]] = {}

    def count(self, ratings: Ratings, sizes: Sizes, side: int, size: int) -> int:
        """How many links tests show at first."""
        return int(significant(self.tests(ratings, sizes, side), self.false_shares[size]).sum())

    def of(self, ratings: Ratings, sizes: Sizes) -> ChosenLinks:
        """Those that the sizes say, on both sides."""
        asked = (id(ratings), sizes)
        if asked not in self._chosen:
            self._chosen[asked] = self._passing(ratings, sizes, self._first(ratings, sizes))
        return self._chosen[asked]

    def about(self, ratings: Ratings, sizes: Sizes) -> tuple[LinkTests, LinkTests]:
        """What tests say of the links between items, and between users."""
        chosen = self.of(ratings, sizes)
        items, users = (
            LinkTests(
                self.tests(ratings, sizes, side).n_tested,
                self.count(ratings, sizes, side, SIGNIFICANT),
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
            self._tests[asked] = self._tests_of(self.fits.without_links(ratings, sizes), side)
        return self._tests[asked]

    def _first(self, ratings: Ratings, sizes: Sizes) -> ChosenLinks:
        """Those that tests show while there are no links, or the usual ones."""
        found = []
        looseness = []
        for side, part in enumerate(SIDES_OF_LINKS):
            size = getattr(sizes, part)
            if size == USUAL:
                found.append(self._usual(ratings)[side])
                looseness.append(1.0)
            elif not size:
                found.append(no_links((ratings.n_items, ratings.n_users)[side]))
            else:
                tests = self.tests(ratings, sizes, side)
                chosen = significant(tests, self.false_shares[size])
                found.append(linked_pairs(tests, chosen))
                wanted = precision_of(tests, chosen) / self.precision if self.precision else 1.0
                looseness.append(min(1.0, wanted))
        return ChosenLinks(found[0], found[1], max(looseness, default=1.0))

    def _usual(self, ratings: Ratings) -> tuple[Links, Links]:
        """Those that settings without `structure` have."""
        if id(ratings) not in self._usual_links:
            self._usual_links[id(ratings)] = links_of(self.settings, ratings)
        return self._usual_links[id(ratings)]

    def _passing(self, ratings: Ratings, sizes: Sizes, links: ChosenLinks) -> ChosenLinks:
        """Of those that tests showed, the ones that pass beside each other too."""
        tested = [getattr(sizes, part) in self.false_shares for part in SIDES_OF_LINKS]
        if not any(own.n_edges for own, again in zip(links[:2], tested, strict=True) if again):
            return links
        fitted = self.fits.of(ratings, sizes, links)
        kept = []
        for side, own in enumerate(links[:2]):
            if not tested[side] or not own.n_edges:
                kept.append(own)
                continue
            tests = self._tests_of(fitted, side)
            share = self.false_shares[getattr(sizes, SIDES_OF_LINKS[side])]
            passes = np.isin(pair_keys(tests.low, tests.high, tests.n_columns), keys_of(own))
            kept.append(linked_pairs(tests, passes & significant(tests, share)))
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
