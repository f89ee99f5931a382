"""Test, then learn: a model that predicts ratings in the order in which they came."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.ratings import Ratings, as_ratings
from ordbm.errors import RatingsError, SettingsError, UnknownIdsWarning
from ordbm.evaluation.evaluations import score_from_ratio
from ordbm.evaluation.protocols import check_method, known_masks, model_name
from ordbm.evaluation.rating_losses import told_context, values_on_scale
from ordbm.inference.distributions import RatingDistribution, reordered
from ordbm.metrics.array_checks import check_prediction
from ordbm.metrics.prediction import losses
from ordbm.runtime.arrays import Codes, Mask, Numbers
from ordbm.runtime.checks import check_count, check_finite_amount, float_of
from ordbm.runtime.printable import shown

FIRST = 5  # ratings of a user that are also scored apart
_SCORED_AT_ONCE = 2_000  # answers


@dataclass(frozen=True, eq=False, repr=False)
class ProgressiveValidation:
    """Losses along a stream of ratings, each predicted before it was learnt.

    losses: of each rating, in the order of the stream: those that `Evaluation` averages.
    parts: which ratings are of "new users" and "new items", of whom nothing was known when the
        stream began, which are among a user's "first 5", and which are of "known" users and items.
    times: when each was given.
    order: where each stands among the ratings given, in their by-user order.
    n_learnt: ratings that were learnt before the stream began; 0 if the model came fitted.
    seconds: predict, learn.
    """

    model: str
    losses: dict[str, Numbers]
    parts: dict[str, Mask]
    times: Numbers
    order: NDArray[np.int64]
    n_learnt: int
    seconds: dict[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.times)

    @property
    def scores(self) -> dict[str, float]:
        """The mean of each loss over the stream, by the names that `evaluate` has; of errors², the
        root.
        """
        return self._scores(slice(None))

    @property
    def part_scores(self) -> dict[str, dict[str, float]]:
        """The scores of each part that has ratings."""
        return {name: self._scores(mask) for name, mask in self.parts.items() if mask.any()}

    def curve(self, points: int = 20) -> list[dict[str, Any]]:
        """So many points along the stream: {"ratings", "so_far": scores, "since": scores}.

        "since" are the scores of the ratings after the point before.
        """
        check_count("points", points, least=1)
        ends = np.unique(np.linspace(0, len(self), points + 1).astype(int))
        return [
            {
                "ratings": end,
                "so_far": self._scores(slice(end)),
                "since": self._scores(slice(begin, end)),
            }
            for begin, end in pairwise(ends.tolist())
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON has it, but for the losses of single ratings."""
        return {
            "model": self.model,
            "n_ratings": len(self),
            "n_learnt": self.n_learnt,
            "scores": self.scores,
            "parts": {
                name: {"n_ratings": int(np.count_nonzero(self.parts[name])), "scores": scores}
                for name, scores in self.part_scores.items()
            },
            "curve": self.curve(),
            "seconds": self.seconds,
        }

    def _scores(self, chosen: Any) -> dict[str, float]:
        return {
            name: float(score_from_ratio(name, loss[chosen].mean()))
            for name, loss in self.losses.items()
        }

    def __repr__(self) -> str:
        lines = [f"{self.model} on {len(self):,} ratings, each predicted before it was learnt"]
        parts = {"all": self.scores} | self.part_scores
        count = {name: int(np.count_nonzero(mask)) for name, mask in self.parts.items()}
        heads = [f"{name} ({count.get(name, len(self)):,})" for name in parts]
        width = [max(9, len(head) + 2) for head in heads]
        headings = zip(heads, width, strict=True)
        lines.append(" " * 14 + "".join(f"{head:>{wide}}" for head, wide in headings))
        for name in self.losses:
            figures = zip(parts.values(), width, strict=True)
            lines.append(
                f"  {name:<12}" + "".join(f"{one[name]:>{wide}.4f}" for one, wide in figures)
            )
        return "\n".join(lines)


def progressive_validation(
    model: Any,
    ratings: Any,
    *,
    first: float = 0.0,
    batch: int = 1,
    refit: float | None = None,
    name: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> ProgressiveValidation:
    """Predict ratings in time order, and let the model learn each after it was predicted.

    The ratings of one user and second, given on one page in an order that nobody knows, are
    predicted together before any of them is learnt.

    first: share of the ratings, the earliest, that the model is fitted to before. 0 takes it as it
        is: fitted, to earlier ratings.
    batch: at least so many ratings are predicted before they are learnt together, by
        `model.partial_fit`.
    refit: share of the ratings learnt from that may come before all are learnt anew, as in 0.2;
        None for never. A model without `partial_fit`, such as a baseline, is fitted anew to
        everything so far, and only then: 0 for after each batch.
    name: what to call the model.
    progress: called with (done, ratings) after each batch.

    The model learns: it is not as it was afterwards.
    """
    check_method(model, "distribution", "progressive validation")
    check_count("batch", batch, least=1)
    share = float_of(first)
    if not 0 <= share < 1:
        raise SettingsError(f"first must be a number from 0 to less than 1, not {shown(first)}")
    learner = _Learner(model, refit, share)
    ratings = as_ratings(ratings, scale=None if share else getattr(model, "scale", None))
    stream = _Stream(ratings)
    begin = int(stream.groups[np.searchsorted(stream.groups, share * len(ratings))])
    if begin == len(ratings):
        raise RatingsError("no ratings are left for the stream: choose first=… smaller")
    seconds = {"predict": 0.0, "learn": 0.0}
    if begin:
        with _added(seconds, "learn"):
            model.fit(stream.part(0, begin))
    parts = stream.parts(model, begin)
    found = _Losses(ratings, stream.order)
    for start, end in stream.batches(begin, batch):
        with _added(seconds, "predict"):
            said = stream.predicted(model, start, end)
        found.add(said, start, end)
        with _added(seconds, "learn"):
            learner.hear(stream, start, end)
        if progress is not None:
            progress(end - begin, len(ratings) - begin)
    return ProgressiveValidation(
        name or model_name(model),
        found.whole(),
        parts,
        stream.times[begin:],
        stream.order[begin:],
        begin,
        seconds,
    )


class _Stream:
    """Ratings in time order; a group, of one user and second, begins at each of `groups`."""

    def __init__(self, ratings: Ratings) -> None:
        if not ratings.has_times:
            raise RatingsError(
                "progressive validation needs times, and these ratings have none: give times="
            )
        user, second = ratings.user_codes, np.floor(ratings.times)
        self.ratings, self.order = ratings, np.lexsort((user, second))
        user, second = user[self.order], second[self.order]
        begins = np.ones(len(user), bool)
        begins[1:] = (user[1:] != user[:-1]) | (second[1:] != second[:-1])
        self.groups = np.append(np.flatnonzero(begins), len(user))
        self.times, self.context = ratings.times[self.order], ratings.context.at(self.order)
        self.user, self.item = user, ratings.item_codes[self.order]
        self._users, self._items = (
            np.fromiter(ids, object, len(ids)) for ids in (ratings.users, ratings.items)
        )
        labels = getattr(ratings.scale, "labels", None)
        values = np.array(labels, object)[ratings.levels] if labels else ratings.values
        self._values: NDArray[Any] = values[self.order]

    def batches(self, begin: int, size: int) -> Iterator[tuple[int, int]]:
        """Consecutive parts of at least so many ratings, but for the last, of whole groups."""
        n = len(self.order)
        while begin < n:
            end = int(self.groups[np.searchsorted(self.groups, min(begin + size, n))])
            yield begin, end
            begin = end

    def part(self, start: int, end: int) -> Ratings:
        """These ratings alone: nothing is said of who and what else there is."""
        chosen = slice(start, end)
        said = self.context.at(chosen)
        return Ratings(
            *self._pairs(chosen), self._values[chosen], self.ratings.scale,
            times=self.times[chosen],
            context={name: said.column(name) for name in said.names} or None,
        )  # fmt: skip

    def predicted(self, model: Any, start: int, end: int) -> RatingDistribution:
        """What a model, told ids and context, if it has learnt from some, says of these ratings."""
        chosen = slice(start, end)
        when = told_context(model, self.times, self.context)(chosen)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownIdsWarning)  # they come with the stream
            found = model.distribution(*self._pairs(chosen), **when)
        return check_prediction(found, end - start)

    def _pairs(self, chosen: slice) -> tuple[list[Any], list[Any]]:
        users, items = self._users[self.user[chosen]], self._items[self.item[chosen]]
        return users.tolist(), items.tolist()

    def parts(self, model: Any, begin: int) -> dict[str, Mask]:
        """Which ratings from `begin` on are of whom; what came before has been learnt."""
        known = known_masks(model, self.ratings)
        new_user, new_item = (
            ~known[name][codes] if name in known else np.zeros(len(codes), bool)
            for name, codes in (("users", self.user), ("items", self.item))
        )
        group = np.repeat(self.groups[:-1], np.diff(self.groups))
        had = _place_among_own(self.user)[group]  # ratings of the user in groups before
        if not begin:  # a model that came fitted: how many it knows of each is not asked
            had = np.where(new_user, had, FIRST)
        return {
            name: mask[begin:]
            for name, mask in (
                ("known", ~new_user & ~new_item),
                ("new users", new_user),
                ("new items", new_item),
                (f"first {FIRST}", had < FIRST),
            )
        }


class _Learner:
    """How a model learns what it has predicted."""

    def __init__(self, model: Any, refit: float | None, first: float) -> None:
        self.model, self.refit, self.learnt = model, refit, 0.0
        self.grows = callable(getattr(model, "partial_fit", None))
        if refit is not None:
            check_finite_amount("refit", refit)
        if self.grows and refit is not None:
            check_method(model, "refit", "refit=")
        elif not self.grows:
            check_method(model, "fit", "progressive validation")
            if refit is None or not first:
                raise SettingsError(
                    f"{type(model).__name__} has no partial_fit: say first=…, what it is fitted to "
                    "before, and refit=…, how much comes before it is fitted anew"
                )

    def hear(self, stream: _Stream, start: int, end: int) -> None:
        """Of these ratings; all before them it has heard of."""
        if self.grows:
            self.model.partial_fit(stream.part(start, end))
            if self.refit is not None and self.model.growth.drift >= self.refit:
                self.model.refit()
            return
        assert self.refit is not None
        self.learnt = self.learnt or start
        if end - self.learnt >= self.refit * self.learnt:
            self.model.fit(stream.part(0, end))
            self.learnt = end


class _Losses:
    """Losses of answers, worked out many answers at a time."""

    def __init__(self, ratings: Ratings, order: NDArray[np.int64]) -> None:
        self._ratings, self._order = ratings, order
        self._truth: Numbers | None = None
        self._answers: list[RatingDistribution] = []
        self._found: list[dict[str, Numbers]] = []
        self._begin = self._end = 0

    def add(self, answer: RatingDistribution, start: int, end: int) -> None:
        if not self._answers:
            self._begin = start
        self._answers.append(answer)
        self._end = end
        if len(self._answers) == _SCORED_AT_ONCE:
            self._score()

    def whole(self) -> dict[str, Numbers]:
        if self._answers:
            self._score()
        return {
            name: np.concatenate([part[name] for part in self._found]) for name in self._found[0]
        }

    def _score(self) -> None:
        scale = self._answers[0].scale
        if self._truth is None:
            self._truth = values_on_scale(self._ratings, scale)[self._order]
        count = self._end - self._begin
        together = reordered(self._answers, np.arange(count))
        self._found.append(losses(together, self._truth[self._begin : self._end]))
        self._answers = []


@contextmanager
def _added(seconds: dict[str, float], what: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[what] += time.perf_counter() - started


def _place_among_own(codes: Codes) -> NDArray[np.int64]:
    """How many of the same code stand before each."""
    order = np.argsort(codes, kind="stable")
    count = np.bincount(codes)
    place = np.empty(len(codes), np.int64)
    place[order] = np.arange(len(codes)) - np.repeat(np.cumsum(count) - count, count)
    return place
