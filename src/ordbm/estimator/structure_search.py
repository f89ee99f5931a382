"""Sizes of a machine's parts that ratings held out of the training ratings ask for.

Part after part, the size goes down while the log-loss of inner validation ratings stays within half
a standard error of the lowest that was seen: of machines that are alike, the smallest. Where it
does not go down it goes up, while that lowers the log-loss by enough for what it costs. It starts
with the sizes of the rules, because hidden units that are too few often learn nothing at all on
sparse ratings, where more of them do. What many say together is condensed into few, where there
clearly are few things said. In the end, what was found is set beside the usual structure, which is
taken unless the other is as good.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ordbm.data.csr import CSRPair
from ordbm.data.ratings import Ratings
from ordbm.estimator.comparison import CLEARLY, Comparison, PairedDifference
from ordbm.estimator.link_search import SIDES_OF_LINKS, LinkSearch
from ordbm.estimator.trial_fits import LearnFrom, Starts, TrialFits
from ordbm.metrics.prediction import losses
from ordbm.model.condensing import likely_number
from ordbm.model.learners import Learner, Priors
from ordbm.model.neighbours import Links
from ordbm.model.settings import Settings
from ordbm.model.structure import (
    LIKELY,
    PARTS_IN_WORDS,
    SIDE_OF,
    SIGNIFICANT,
    SOUGHT,
    USUAL,
    WHOLE,
    Sizes,
    SizeTrial,
    Structure,
)
from ordbm.priors.co_occurrence import direction_count
from ordbm.runtime.arrays import Array
from ordbm.runtime.progress import Progress, Tell
from ordbm.training.loop import LOG

STEADY = 0.5  # of the usual first rate, kept, for condensed units: longer steps lose the start
HARDLY = 0.5  # standard errors by which a smaller size may be worse


class Found(NamedTuple):
    """The structure of all ratings, its links, and where its hidden units start."""

    structure: Structure
    links: tuple[Links, Links]
    starts: Starts


def find_structure(
    ratings: Ratings,
    start: Sizes,
    learn: LearnFrom,
    settings: Settings,
    link_precision: float,
    tell: Tell,
) -> Found:
    """Sizes from `start` on; a part that is not there stays away."""
    fits = TrialFits(learn, start)
    links = LinkSearch(fits, settings, link_precision)
    search = SizeSearch(ratings, start, fits, links, settings, tell)
    sizes = search.run()
    chosen = links.of(ratings, sizes)
    about = links.about(ratings, sizes)
    starts = fits.starts(ratings, sizes)
    sizes = sizes._replace(item_links=chosen.items.n_edges, user_links=chosen.users.n_edges)
    count = len(search.compared.user)
    structure = Structure(sizes, start, tuple(search.trials), count, about, chosen.looseness)
    return Found(structure, (chosen.items, chosen.users), starts)


def start_sizes(settings: Settings, priors: Priors, ratings: Ratings) -> Sizes:
    """Those that are given or follow the number of ratings; none of what is not wanted."""
    user_hidden, item_hidden = (
        size if settings.sides in (side, "joint") else 0
        for side, size in zip(("user", "item"), settings.hidden_sizes, strict=True)
    )
    rows = CSRPair(ratings.by_user, ratings.by_item)
    directions = direction_count(rows, priors.co_occurrence, priors.embedding)
    return Sizes(
        item_hidden,
        user_hidden,
        directions if priors.coupling_precision and max(user_hidden, item_hidden) else 0,
        USUAL if settings.item_links else 0,
        USUAL if settings.user_links else 0,
    )


def sized(settings: Settings, sizes: Sizes) -> Settings:
    """Settings with so many hidden units."""
    return replace(settings, hidden=(sizes.user_hidden, sizes.item_hidden))


def structured(
    learner: Learner, sizes: Sizes, start: Sizes, links: float, *, gaussian: bool
) -> Learner:
    """The learner with so many directions, and priors as loose as sizes and links ask for.

    What all hidden units of a row together may say beforehand, their number over the precision,
    stays what it was at the start: one that does the work of several has larger couplings. Where
    ratings are Gaussian it stays so anyway.
    """
    if gaussian:
        start = sizes
    rules = replace(learner.priors.embedding, columns_per_direction=1, ratings_per_direction=1)
    priors = replace(
        learner.priors,
        co_occurrence=sizes.directions,
        embedding=rules,
        link_precision=learner.priors.link_precision * links,
        user_side_looseness=max(sizes.user_hidden, 1) / max(start.user_hidden, 1),
        item_side_looseness=max(sizes.item_hidden, 1) / max(start.item_hidden, 1),
    )
    optimiser = learner.optimiser
    if sizes.condensed:
        optimiser = replace(optimiser, rate=STEADY * optimiser.rate, decay=1.0)
    return replace(learner, priors=priors, optimiser=optimiser)


class SizeSearch:
    """The sizes tried, and what each of the validation ratings lost by them."""

    def __init__(
        self,
        ratings: Ratings,
        start: Sizes,
        fits: TrialFits,
        links: LinkSearch,
        settings: Settings,
        tell: Tell,
    ) -> None:
        self.rules = rules = settings.structure_rules
        self.start, self.fits, self.links, self.tell = start, fits, links, tell
        # Links are looked for in what hidden units leave unexplained.
        self.sizes = start._replace(item_links=0, user_links=0)
        self.compared: Comparison[Sizes] = Comparison(
            ratings, self.lost_in, folds=rules.folds, wanted=rules.validation_ratings,
            most=rules.most_folds, seed=settings.seed,
        )  # fmt: skip
        self.trials: list[SizeTrial] = []

    def run(self) -> Sizes:
        """The sizes that are left in the end."""
        parts = [part for part in SOUGHT if getattr(self.start, part)]
        for number, part in enumerate(parts):
            self.tell(Progress("structure", number / len(parts)))
            if part in SIDES_OF_LINKS:
                self.search_links(part)
            else:
                self.search(part, getattr(self.start, part))
        if self.sizes.item_links or self.sizes.user_links:
            for part in parts:  # what links explain may need no hidden units any more
                if part not in SIDES_OF_LINKS and getattr(self.sizes, part):
                    self.is_as_good(part, 0)
        if self.sizes != self.start:
            whole = CLEARLY if self.sizes.condensed else HARDLY
            if not self.tried(WHOLE, 0, self.sizes, self.start, at_most(whole)):
                self.sizes = self.start
        self.tell(Progress("structure", 1.0))
        return self.sizes

    def search(self, part: str, start: int) -> None:
        """None; what units say together; half as many and so on, or else twice as many."""
        if self.is_as_good(part, 0):
            return
        size = start
        if part in SIDE_OF:
            training, _ = self.compared.folds[0]
            number = likely_number(self.fits.strength(training, part))
            if number and self.is_as_good(part, number, condensed=True):
                size = number
        failed = 0
        for half in [size >> times for times in range(1, size.bit_length())]:
            # One that learns badly may lie between sizes that do not.
            if self.is_as_good(part, half):
                size, failed = half, 0
            else:
                failed += 1
            if failed == self.rules.most_failures:
                break
        if size == start:
            most = self.rules.times_larger * start
            while 2 * size <= most and self.is_better(
                part, 2 * size, -CLEARLY, self.rules.least_gain
            ):
                size *= 2
        if part in SIDE_OF:  # directions cost nothing
            self.search_between(part, size // 2, size)

    def search_between(self, part: str, low: int, size: int) -> None:
        """Sizes between one that is too small and one that is taken, to a quarter of it."""
        while size - low > max(1, size // 4):
            middle = (low + size) // 2
            if self.is_as_good(part, middle):
                size = middle
            else:
                low = middle

    def search_links(self, part: str) -> None:
        """None, those that tests show, those that are likely, or the usual ones.

        What tests show must not harm; what they show less surely, or not at all, has to help.
        """
        training, _ = self.compared.folds[0]
        shown = 0
        for size, errors in ((SIGNIFICANT, HARDLY), (LIKELY, -CLEARLY)):
            count = self.links.count(training, self.sizes, SIDES_OF_LINKS.index(part), size)
            if count > shown:
                self.is_better(part, size, errors)
                shown = count
        self.is_better(part, USUAL, -CLEARLY)

    def is_better(self, part: str, size: int, errors: float, least: float = -np.inf) -> bool:
        """Whether the log-loss rises by so many errors at most, and falls by `least`; so taken."""
        candidate = self.sizes.but(part, size)
        return self.tried(part, size, candidate, self.sizes, at_most(errors, -least))

    def is_as_good(self, part: str, size: int, *, condensed: bool = False) -> bool:
        """Whether it hardly raises the lowest log-loss, for its error; if so, it is taken.

        Of a condensed size, which the units' directions speak for, a whole error is asked.
        """
        self.compared.losses(self.sizes)
        candidate = self.sizes.but(part, size, condensed=condensed)
        errors = CLEARLY if condensed else HARDLY
        return self.tried(part, size, candidate, self.compared.best(), at_most(errors))

    def tried(
        self,
        part: str,
        size: int,
        candidate: Sizes,
        beside: Sizes,
        accepts: Callable[[PairedDifference], bool],
    ) -> bool:
        """Whether a candidate is accepted."""
        found = self.compared.difference(candidate, beside)
        accepted = accepts(found)
        condensed = bool(candidate.condensed & SIDE_OF.get(part, 0))
        self.trials.append(SizeTrial(part, size, *found, accepted, condensed))
        LOG.info(
            "structure: %s %s, log-loss %.4f (%+.4f ± %.4f)%s",
            PARTS_IN_WORDS[part], self.trials[-1].size_in_words, *found,
            "" if accepted else ", not taken",
        )  # fmt: skip
        if accepted:
            self.sizes = candidate
        return accepted

    def lost_in(self, training: Ratings, held_out: Ratings, sizes: Sizes) -> Array:
        """The log-loss of each validation rating of a fold."""
        if sizes.item_links or sizes.user_links:
            fitted = self.fits.of(training, sizes, self.links.of(training, sizes))
        else:
            fitted = self.fits.without_links(training, sizes)
        predicted = fitted.distribution_now(*fitted.validation_codes(held_out))
        return losses(predicted, held_out.values)["log_loss"]


def at_most(errors: float, rise: float = np.inf) -> Callable[[PairedDifference], bool]:
    """Whether the log-loss rises by so many standard errors and by this at most."""
    return lambda found: found.rise <= min(errors * found.error, rise)
