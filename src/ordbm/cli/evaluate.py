"""`ordbm evaluate`: how good a machine is on ratings it has not seen, and beside baselines."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import ordbm
from ordbm.cli.app import app
from ordbm.cli.inputs import (
    RatingsSource,
    checked_target,
    items_of,
    model_of,
    ratings_of,
    said,
    users_of,
)
from ordbm.cli.options import Json, ModelOptions, Quiet, ReadingOptions, unfolded
from ordbm.cli.output import learning_shown, print_json, stderr, stdout, steps_shown
from ordbm.cli.scores import score_tables

if TYPE_CHECKING:
    from ordbm.estimator import OrdinalBM
    from ordbm.evaluation import CrossValidation, Evaluation
    from ordbm.ratings import Ratings

OURS = "OrdinalBM"


@app.command()
@unfolded
def evaluate(
    source: RatingsSource,
    reading: ReadingOptions,
    model_options: ModelOptions,
    test_fraction: Annotated[
        float, Option(help="Share of each user's ratings to test on.", metavar="FRACTION")
    ] = 0.2,
    folds: Annotated[
        int | None,
        Option(help="Cross-validate: test on each of so many parts in turn.", metavar="K"),
    ] = None,
    test: Annotated[
        Path | None,
        Option(help="Learn from all of RATINGS and test on this file.", metavar="FILE"),
    ] = None,
    model: Annotated[
        Path | None,
        Option(help="Test this model on all of RATINGS, which it must not have seen."),
    ] = None,
    split_seed: Annotated[int, Option(help="Of the split into parts.", metavar="N")] = 0,
    validation: Annotated[
        float,
        Option(
            help="Share of the training ratings held out to stop at the best epoch; 0 for none.",
            metavar="FRACTION",
        ),
    ] = 0.1,
    lists: Annotated[
        str | None,
        Option(help="Score recommended lists of these lengths too, as 10 or 5,10.", metavar="N"),
    ] = None,
    by: Annotated[
        str | None, Option(help="What lists are ranked by.", metavar="energy|mean")
    ] = None,
    compare: Annotated[
        str | None,
        Option(
            help="Baselines beside it, with commas between, or all: global, item, user, bias, "
            "popularity, user-knn, item-knn, svd.",
            metavar="NAMES|all",
        ),
    ] = None,
    report: Annotated[
        Path | None, Option(help="Write a page with tables and pictures.", metavar="HTML")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Score a machine on ratings it has not seen: errors, probabilities, calibration, lists.

    MAE by mean, median and mode, RMSE of the mean, log-loss, ranked probability score and
    calibration error; with `--lists`, precision, recall, nDCG, MRR and half-life utility.

    Examples: `ordbm evaluate ratings.csv --compare bias,svd --lists 10` ·
    `ordbm evaluate ratings.csv --folds 5 --json` ·
    `ordbm evaluate unseen.csv --model model.ordbm --report out.html`
    """
    _check_choice(folds=folds, test=test, model=model)
    checked_target(report)
    baselines = _baselines(compare)
    if model is not None and baselines:
        raise ordbm.errors.SettingsError(
            "--compare needs ratings to fit the baselines to: use it without --model"
        )
    quiet = quiet or as_json
    options: dict[str, Any] = {"lists": _lengths(lists), "by": by}
    ratings, read = ratings_of(source, reading)
    stderr(quiet).print(said(read), markup=False)
    found: list[Any]
    if model is not None:
        fitted = model_of(model)
        found = [ordbm.evaluate(fitted, ratings, name=model.name, **options)]
        _warn_of_leak(fitted, ratings)
    else:
        machine = model_options.model()
        asked = {"validation": validation, "seed": split_seed, **options}
        if folds is not None:
            found = _cross_validated({OURS: machine} | baselines, ratings, folds, asked, quiet)
        else:
            if test is not None:
                train, held_out = ratings, _test_ratings(test, reading, ratings)
            else:
                train, held_out = ordbm.hold_out(ratings, test_fraction, seed=split_seed)
            found = _tested({OURS: machine} | baselines, train, held_out, asked, quiet)
    if as_json:
        print_json({"ratings": read, "models": [one.to_dict() for one in found]})
    else:
        show(found)
    if report is not None:
        _write_report(found, report, read)
        stderr(quiet).print(f"{report} written", markup=False)


def show(found: list[Any]) -> None:
    """One model with its intervals, or several side by side."""
    out = stdout()
    if len(found) > 1:
        for one in score_tables({one.model: one.scores for one in found}, out.width):
            out.print(one)
    else:
        out.print(repr(found[0]), markup=False)


def _check_choice(**told: Any) -> None:
    given = [f"--{name}" for name, value in told.items() if value is not None]
    if len(given) > 1:
        raise ordbm.errors.SettingsError(f"use one of {' and '.join(given)}, not both")


def _lengths(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ordbm.errors.SettingsError(f"--lists {text}: use numbers, as in 10 or 5,10") from None


def _baselines(text: str | None) -> dict[str, Any]:
    """Baselines by name, not fitted."""
    if not text:
        return {}
    from ordbm.baselines import BASELINES

    names = list(BASELINES) if text == "all" else [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        raise ordbm.errors.SettingsError(
            f"--compare {unknown[0]}: there is {', '.join(BASELINES)}, or all"
        )
    return {name: BASELINES[name]() for name in names}


def _test_ratings(path: Path, reading: ReadingOptions, train: Ratings) -> Ratings:
    """Test ratings on the scale of the training ratings."""
    from ordbm.datasets import read_ratings

    return read_ratings(path, **{**reading.arguments(), "scale": train.scale})


def _warn_of_leak(model: OrdinalBM, test: Ratings) -> None:
    """Say so if the model has learnt from pairs that it is tested on."""
    import numpy as np

    rows = model.evidence.ratings.by_user
    users = users_of(model).codes(test.users.ids)[test.user_codes].astype(np.int64)
    items = items_of(model).codes(test.items.ids)[test.item_codes]
    n_items = len(items_of(model))
    seen = np.isin(
        (users * n_items + items)[(users >= 0) & (items >= 0)],
        rows.row.astype(np.int64) * n_items + rows.column,
    ).sum()
    if seen:
        warnings.warn(
            f"the model has learnt from {seen:,} of these {len(test):,} ratings: scores flatter",
            stacklevel=2,
        )


def _tested(
    models: Mapping[str, Any],
    train: Ratings,
    test: Ratings,
    asked: Mapping[str, Any],
    quiet: bool,
) -> list[Evaluation]:
    from ordbm.evaluation import train_and_test

    found = []
    for name, model in models.items():
        with learning_shown(quiet, name) as show_epochs:
            own = {"callbacks": [show_epochs]} if name == OURS else {"validation": 0.0}
            found.append(train_and_test(model, train, test, name=name, **{**asked, **own}))
    return found


def _cross_validated(
    models: Mapping[str, Any],
    ratings: Ratings,
    folds: int,
    asked: Mapping[str, Any],
    quiet: bool,
) -> list[CrossValidation]:
    found = []
    for name, model in models.items():
        with steps_shown(quiet, name, folds, "folds") as done:
            own = {} if name == OURS else {"validation": 0.0}
            found.append(
                ordbm.cross_validate(
                    model,
                    ratings,
                    folds,
                    name=name,
                    progress=lambda n, *_, done=done: done(n),
                    **{**asked, **own},
                )
            )
    return found


def _write_report(found: list[Any], path: Path, read: Mapping[str, Any]) -> None:
    from ordbm.report import write_report

    data = {name: value for name, value in read.items() if name != "seconds"}
    write_report(found, path, command=shlex.join(["ordbm", *sys.argv[1:]]), data=data)
