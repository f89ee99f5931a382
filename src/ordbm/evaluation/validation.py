"""`evaluate` on test ratings, and on folds of ratings with `cross_validate`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordbm.data.ratings import Ratings, as_ratings
from ordbm.data.split import hold_out, k_fold
from ordbm.errors import RatingsError
from ordbm.evaluation.evaluations import (
    CrossValidation,
    Evaluation,
    resampled_scores,
    score_from_ratio,
)
from ordbm.evaluation.list_hits import ListHits, list_lengths, ranking_sums, recommended_hits
from ordbm.evaluation.protocols import RatingModel, check_method, known_masks, model_name
from ordbm.evaluation.rating_losses import RatingSums, rating_sums
from ordbm.metrics.bootstrap import RESAMPLES, percentile_interval
from ordbm.metrics.calibration import calibration_error
from ordbm.recommend.criteria import least_relevant
from ordbm.runtime.arrays import Numbers
from ordbm.runtime.checks import check_count
from ordbm.training.loop import Callback


def evaluate(
    model: RatingModel,
    test: Any,
    *,
    lists: int | Sequence[int] | None = None,
    relevant: Any = None,
    by: str | None = None,
    bootstrap: int = RESAMPLES,
    seed: int = 0,
    name: str | None = None,
) -> Evaluation:
    """Scores of a fitted model on ratings it has not seen: `Ratings`, or a table as `fit` takes.

    lists: lengths of recommended lists to score, as in `lists=10` or `lists=(5, 10)`.
    relevant: the least rating, or label, that makes a test item worth listing. If not said, three
        quarters of the way up the scale: 4 of 1 to 5; the mean on a continuous scale. The paper
        takes every test item: the lowest level.
    by: what to rank by, given to the model's `recommend_lists`; its own choice if not said.
    bootstrap: how many samples of users the intervals come from; 0 for no intervals.
    seed: of those samples.
    name: what to call the model.

    No test rating can reach the model: it is asked with ids alone, and with times if it has learnt
    from some. That it was not fitted to them before is up to the caller; `cross_validate` sees to
    it.
    """
    test = as_ratings(test, scale=getattr(model, "scale", None))
    if not len(test):
        raise RatingsError("no test ratings: hold out more of them")
    check_method(model, "distribution", "evaluate")
    check_count("bootstrap", bootstrap)
    check_count("seed", seed)
    lengths = list_lengths(lists) if lists is not None else []
    knows = known_masks(model, test)
    rated = rating_sums(model, test)
    count = np.bincount(test.user_codes, minlength=test.n_users)
    users = np.flatnonzero(count)
    weight = count[users].astype(np.float64)
    sums = {name: (total[users], weight) for name, total in rated.totals.items()}
    scores = _scores(sums) | {"calibration_error": calibration_error(rated.reliability)}
    seconds, unranked = {"predict": rated.seconds}, {}
    if lengths:
        listed = _lists(model, test, rated, relevant, lengths[-1], by, knows.get("users"))
        seconds["rank"], unranked = listed.seconds, listed.unranked
        place = np.searchsorted(users, listed.users)
        ranked = {
            name: (_placed(total, place, len(users)), _placed(weight, place, len(users)))
            for name, (total, weight) in ranking_sums(listed, lengths).items()
        }
        scores |= _scores(ranked)
        sums |= ranked
    tested = {"users": test.user_codes, "items": test.item_codes}
    return Evaluation(
        model=name or model_name(model),
        scores=scores,
        intervals=_intervals(sums, bootstrap, seed),
        per_user={name: _per_user(name, *pair) for name, pair in sums.items()},
        users=[test.users[code] for code in users.tolist()],
        reliability=rated.reliability,
        n_ratings=len(test),
        n_users=len(users),
        seconds=seconds,
        unknown={name: int(np.count_nonzero(~knows[name][tested[name]])) for name in knows},
        history=list(getattr(model, "history", [])),
        unranked=unranked,
        weights={name: weight for name, (_, weight) in sums.items()},
        n_items=len(np.unique(test.item_codes)),
        unknown_ids={
            name: int(np.count_nonzero(~knows[name][np.unique(tested[name])])) for name in knows
        },
    )


def train_and_test(
    model: Any,
    train: Any,
    test: Any,
    *,
    validation: float = 0.0,
    callbacks: Callback | Iterable[Callback] = (),
    seed: int = 0,
    user_features: Any = None,
    item_features: Any = None,
    **options: Any,
) -> Evaluation:
    """`model` fitted to `train`, then evaluated on `test`; `options` are those of `evaluate`.

    With `validation`, that share of each user's training ratings (never test ratings) is held out
    of the fit to stop it early. Features are given to the fit.
    """
    check_method(model, "fit", "training")
    told = {"user_features": user_features, "item_features": item_features}
    how = {name: table for name, table in told.items() if table is not None}
    train = as_ratings(train)
    test = as_ratings(test, scale=train.scale)
    if validation:
        train, how["validation"] = hold_out(train, validation, seed)
    if callable(callbacks) or tuple(callbacks):
        how["callbacks"] = callbacks
    started = time.perf_counter()
    model.fit(train, **how)
    if getattr(model, "interrupted", False):
        raise KeyboardInterrupt  # a model that stopped half-way must not be scored as if whole
    seconds = {"fit": time.perf_counter() - started}
    found = evaluate(model, test, seed=seed, **options)
    return replace(found, seconds=seconds | found.seconds)


def cross_validate(
    model: Any,
    ratings: Any,
    folds: int = 5,
    *,
    validation: float = 0.0,
    seed: int = 0,
    lists: int | Sequence[int] | None = None,
    relevant: Any = None,
    by: str | None = None,
    bootstrap: int = RESAMPLES,
    name: str | None = None,
    progress: Callable[[int, int, Evaluation], object] | None = None,
    user_features: Any = None,
    item_features: Any = None,
) -> CrossValidation:
    """`evaluate` on each of `folds`: every rating is tested once, by a model that never saw it.

    Each user's ratings are spread evenly over the folds. For each, a clone of `model`, which has
    learnt nothing, is fitted to the other folds alone; with `validation`, that share of *their*
    ratings is held out for early stopping. The test fold is used only to ask, by ids, and to
    score. What training does share with it are the lists of ids and the scale, which say that a
    user, an item or a level exists, and the features, which each fit is given. `model` itself stays
    as it is. The other options are those of `evaluate`; `progress(done, folds, evaluation)` is
    called after each fold.
    """
    check_method(model, "clone", "cross-validation")
    ratings = as_ratings(ratings)
    evaluations: list[Evaluation] = []
    for train, test in k_fold(ratings, folds, seed):
        found = train_and_test(
            model.clone(),
            train,
            test,
            validation=validation,
            seed=seed,
            lists=lists,
            relevant=relevant,
            by=by,
            bootstrap=bootstrap,
            name=name,
            user_features=user_features,
            item_features=item_features,
        )
        evaluations.append(found)
        if progress is not None:
            progress(len(evaluations), folds, found)
    return CrossValidation(name or evaluations[0].model, evaluations)


ScoreSums = dict[str, tuple[Numbers, Numbers]]  # (total, weight) of each user, by score


def _lists(
    model: Any,
    test: Ratings,
    rated: RatingSums,
    relevant: Any,
    n: int,
    by: str | None,
    known_users: NDArray[np.bool_] | None,
) -> ListHits:
    least = least_relevant(rated.scale, relevant)
    is_relevant = rated.truth >= least - 1e-9 * max(1.0, abs(least))
    if not is_relevant.any():
        raise RatingsError(f"no test rating is {least:g} or more: choose relevant=… lower")
    listed = recommended_hits(model, test, is_relevant, n, by, known_users)
    if not len(listed.users):
        raise RatingsError("the model knows none of the users with relevant test ratings")
    return listed


def _placed(values: Numbers, place: NDArray[np.int64], n: int) -> Numbers:
    """`values` at their places among n, zero elsewhere."""
    placed = np.zeros(n)
    placed[place] = values
    return placed


def _scores(sums: ScoreSums) -> dict[str, float]:
    return {
        name: float(score_from_ratio(name, total.sum() / weight.sum()))
        for name, (total, weight) in sums.items()
    }


def _per_user(name: str, total: Numbers, weight: Numbers) -> Numbers:
    ratio = np.divide(total, weight, out=np.full(len(total), np.nan), where=weight > 0)
    found: Numbers = score_from_ratio(name, ratio)
    return found


def _intervals(sums: ScoreSums, resamples: int, seed: int) -> dict[str, tuple[float, float]]:
    n_users = len(next(iter(sums.values()))[0])
    if not resamples or n_users < 2:
        return {}
    found = resampled_scores(sums, resamples, seed)
    return {name: percentile_interval(samples) for name, samples in found.items()}
