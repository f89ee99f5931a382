"""Sizes of a machine's parts that ratings held out of the training ratings ask for.

Part after part, the size goes down while the log-loss of inner validation ratings stays within half
a standard error of the lowest that was seen: of machines that are alike, the smallest. Where it
does not go down it goes up, while that lowers the log-loss by enough for what it costs. Losses are
compared rating by rating, and their errors are those of users. It starts with the sizes of the
rules, because hidden units that are too few often learn nothing at all on sparse ratings, where
more of them do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ordbm.data.csr import CSRPair
from ordbm.data.ratings import Ratings
from ordbm.data.split import k_fold
from ordbm.estimator.link_search import SIDES_OF_LINKS, LearnSizes, LinkSearch
from ordbm.metrics.prediction import losses
from ordbm.model.learners import Learner, Priors
from ordbm.model.neighbours import Links
from ordbm.model.settings import Settings
from ordbm.model.structure import SIGNIFICANT, Sizes, SizeTrial, Structure
from ordbm.priors.co_occurrence import direction_count
from ordbm.runtime.arrays import Array
from ordbm.runtime.progress import Progress, Tell
from ordbm.training.loop import LOG

HARDLY = 0.5  # standard errors by which a smaller size may be worse
CLEARLY = 1.0  # standard errors by which what is worse in some folds needs no others


class Found(NamedTuple):
    """The structure of all ratings, and its links."""

    structure: Structure
    links: tuple[Links, Links]


def find_structure(
    ratings: Ratings,
    start: Sizes,
    learn: LearnSizes,
    settings: Settings,
    link_precision: float,
    tell: Tell,
) -> Found:
    """Sizes from `start` on; a part that is not there stays away."""
    links = LinkSearch(learn, settings, link_precision)
    search = SizeSearch(ratings, start, learn, links, settings, tell)
    sizes = search.run()
    chosen = links.of(ratings, sizes)
    about = links.about(ratings, sizes)
    sizes = sizes._replace(item_links=chosen.items.n_edges, user_links=chosen.users.n_edges)
    structure = Structure(
        sizes, start, tuple(search.trials), len(search.user), about, chosen.looseness
    )
    return Found(structure, (chosen.items, chosen.users))


def start_sizes(settings: Settings, priors: Priors, ratings: Ratings) -> Sizes:
    """Those that are given or follow the number of ratings; none of what is not wanted."""
    user_hidden, item_hidden = (
        size if settings.sides in (side, "joint") else 0
        for side, size in zip(("user", "item"), settings.hidden_sizes, strict=True)
    )
    rows = CSRPair(ratings.by_user, ratings.by_item)
    directions = direction_count(rows, priors.co_occurrence, priors.embedding)
    per_column = settings.structure_rules.links_per_column
    return Sizes(
        item_hidden,
        user_hidden,
        directions if priors.coupling_precision and max(user_hidden, item_hidden) else 0,
        per_column * ratings.n_items if settings.item_links else 0,
        per_column * ratings.n_users if settings.user_links else 0,
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
    return replace(learner, priors=priors)


class SizeSearch:
    """The sizes tried, and what each of the validation ratings lost by them."""

    def __init__(
        self,
        ratings: Ratings,
        start: Sizes,
        learn: LearnSizes,
        links: LinkSearch,
        settings: Settings,
        tell: Tell,
    ) -> None:
        rules = settings.structure_rules
        self.sizes, self.learn, self.links, self.tell = start, learn, links, tell
        self.settings, self.rules = settings, rules
        held_out = max(len(ratings) // rules.folds, 1)
        n_folds = min(max(-(-rules.validation_ratings // held_out), 1), rules.most_folds)
        folds = list(k_fold(ratings, min(rules.folds, len(ratings)), settings.seed))[:n_folds]
        self.folds = [one for one in folds if len(one[0]) and len(one[1])]
        self.user = np.concatenate([validation.user_codes for _, validation in self.folds])
        self.lost: dict[Sizes, list[Array]] = {}
        self.trials: list[SizeTrial] = []

    def run(self) -> Sizes:
        """The sizes that are left in the end."""
        parts = [part for part in Sizes._fields if getattr(self.sizes, part)]
        # Links are looked for in what hidden units leave unexplained.
        wanted = self.sizes
        self.sizes = self.sizes._replace(item_links=0, user_links=0)
        for number, part in enumerate(parts):
            self.tell(Progress("structure", number / len(parts)))
            start = getattr(wanted, part)
            if part in SIDES_OF_LINKS:
                self.search_links(part, start)
            else:
                self.search(part, start)
        if any(self.sizes[-2:]):  # what links explain may need no hidden units any more
            for part in parts:
                if part not in SIDES_OF_LINKS and getattr(self.sizes, part):
                    self.is_as_good(part, 0)
        self.tell(Progress("structure", 1.0))
        return self.sizes

    def search(self, part: str, start: int) -> None:
        """None; half as many and so on, or else twice as many; then between the last two."""
        if self.is_as_good(part, 0):
            return
        halves = [start >> times for times in range(1, start.bit_length())]
        size, failed = start, 0
        for half in halves:  # one that learns badly may lie between sizes that do not
            if self.is_as_good(part, half):
                size, failed = half, 0
            else:
                failed += 1
            if failed == self.rules.most_failures:
                break
        if size == start:
            most = self.rules.times_larger * start
            while 2 * size <= most and self.is_better(part, 2 * size, self.rules.least_gain):
                size *= 2
        if part != "directions":  # which cost nothing
            self.search_between(part, size // 2, size)

    def search_between(self, part: str, low: int, size: int) -> None:
        """Sizes between one that is too small and one that is taken, to a quarter of it."""
        while size - low > max(1, size // 4):
            middle = (low + size) // 2
            if self.is_as_good(part, middle):
                size = middle
            else:
                low = middle

    def search_links(self, part: str, start: int) -> None:
        """None, those that tests show one by one, or several times as many of the best."""
        shown, most = self.links.counts(self.folds[0][0], self.sizes, SIDES_OF_LINKS.index(part))
        if shown:
            self.is_better(part, SIGNIFICANT)
        step = self.rules.link_step
        sizes = {min(size, most) for size in (start // step, start, start * step)}
        for size in sorted(size for size in sizes if size > shown):
            self.is_better(part, size)

    def is_better(self, part: str, size: int, least: float = 0.0) -> bool:
        """Whether it lowers the log-loss by more than its error and `least`; if so, it is taken."""
        self.losses(self.sizes)
        return self.tried(part, size, self.sizes, lambda rise, error: rise < -max(error, least))

    def is_as_good(self, part: str, size: int) -> bool:
        """Whether it hardly raises the lowest log-loss, for its error; if so, it is taken."""
        self.losses(self.sizes)
        whole = [sizes for sizes, lost in self.lost.items() if len(lost) == len(self.folds)]
        best = min(whole, key=lambda sizes: float(np.concatenate(self.lost[sizes]).mean()))
        return self.tried(part, size, best, lambda rise, error: rise <= HARDLY * error)

    def tried(
        self, part: str, size: int, beside: Sizes, accepts: Callable[[float, float], bool]
    ) -> bool:
        """Whether a size is accepted; of one that is clearly worse, not all folds are looked at."""
        candidate = self.sizes.but(part, size)
        for count in range(1, len(self.folds) + 1):
            lost, before = (
                np.concatenate(self.losses(one, count)[:count]) for one in (candidate, beside)
            )
            rise, error = mean_by_users(lost - before, self.user[: len(lost)])
            if rise > CLEARLY * error:
                break
        accepted = accepts(rise, error)
        self.trials.append(SizeTrial(part, size, float(lost.mean()), rise, error, accepted))
        LOG.info(
            "structure: %s=%d, log-loss %.4f (%+.4f ± %.4f)%s",
            part, size, lost.mean(), rise, error, "" if accepted else ", not taken",
        )  # fmt: skip
        if accepted:
            self.sizes = candidate
        return accepted

    def losses(self, sizes: Sizes, count: int | None = None) -> list[Array]:
        """The log-loss of each validation rating in so many folds at least; in all if not said."""
        lost = self.lost.setdefault(sizes, [])
        lost.extend(self.lost_in(*fold, sizes) for fold in self.folds[len(lost) : count])
        return lost

    def lost_in(self, part: Ratings, validation: Ratings, sizes: Sizes) -> Array:
        """The log-loss of each validation rating of a fold."""
        fitted = self.learn(part, sizes, self.links.of(part, sizes))
        predicted = fitted.distribution_now(*fitted.validation_codes(validation))
        return losses(predicted, validation.values)["log_loss"]


def mean_by_users(difference: Array, user: Array) -> tuple[float, float]:
    """The mean and its standard error; what one user's ratings say hangs together."""
    mean = float(difference.mean())
    total = np.bincount(user, difference - mean)
    return mean, float(np.sqrt(np.sum(total**2)) / len(user))
