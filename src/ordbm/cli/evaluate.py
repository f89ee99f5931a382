"""`ordbm evaluate`: how good a machine is on ratings it has not seen, and beside baselines."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import ordbm
from ordbm.cli.app import app
from ordbm.cli.inputs import (
    ItemFeatures,
    RatingsSource,
    UserFeatures,
    check_target,
    facts_in_words,
    features_in,
    given_file,
    items_of,
    model_in_file,
    ratings_and_facts,
    users_of,
)
from ordbm.cli.options import Force, Json, ModelOptions, Quiet, ReadingOptions, unfolded
from ordbm.cli.output import fit_bar, print_json, stderr, stdout, step_bar
from ordbm.cli.score_table import score_tables

if TYPE_CHECKING:
    from ordbm.data.ids import IdMap
    from ordbm.data.ratings import Ratings
    from ordbm.estimator import OrdinalBM
    from ordbm.evaluation import CrossValidation, Evaluation

OURS = "OrdinalBM"
_TEST_FRACTION = 0.2
_VALIDATION = 0.1
_FOR_BASELINES: dict[str, Any] = {"validation": 0.0, "by": None}  # they rank in their own way


@app.command("evaluate")
@unfolded
def evaluate_command(
    source: RatingsSource,
    reading: ReadingOptions,
    model_options: ModelOptions,
    test_fraction: Annotated[
        float | None,
        Option(
            help=f"Share of each user's ratings to test on. [default: {_TEST_FRACTION}]",
            metavar="FRACTION",
        ),
    ] = None,
    folds: Annotated[
        int | None,
        Option(help="Cross-validate: test on each of so many parts in turn.", metavar="K"),
    ] = None,
    test: Annotated[
        Path | None,
        Option(
            help="Learn from all of RATINGS and test on this file; - for standard input.",
            metavar="FILE",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        Option(help="Test this model on all of RATINGS, which it must not have seen."),
    ] = None,
    split: Annotated[
        str | None,
        Option(
            help="Whose ratings a share is held out of, each user's, each item's or all: at random "
            "or the latest, of all or of each user's. stream: the latest, each of which is learnt "
            "once it has been predicted. [default: user]",
            metavar="user|item|rating|time|user_time|stream",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        Option(
            help="Ratings of a stream that are learnt at a time. [default: a hundredth]",
            metavar="N",
        ),
    ] = None,
    split_seed: Annotated[
        int | None, Option(help="Of the split into parts. [default: 0]", metavar="N")
    ] = None,
    validation: Annotated[
        float | None,
        Option(
            help="Share of the training ratings held out to stop at the best epoch; 0 for none. "
            f"[default: {_VALIDATION}]",
            metavar="FRACTION",
        ),
    ] = None,
    lists: Annotated[
        str | None,
        Option(help="Score recommended lists of these lengths too, as 10 or 5,10.", metavar="N"),
    ] = None,
    by: Annotated[
        str | None,
        Option(
            help="What lists are ranked by; if not said, as the model does it.",
            metavar="liked|rated|gain|mean|energy",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        Option(
            help="Baselines beside it, with commas between, or all: global, item, user, bias, "
            "popularity, user-knn, item-knn, svd.",
            metavar="NAMES|all",
        ),
    ] = None,
    user_features: UserFeatures = None,
    item_features: ItemFeatures = None,
    report: Annotated[
        Path | None, Option(help="Write a page with tables and pictures.", metavar="HTML")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Score a machine on ratings it has not seen: errors, probabilities, calibration, lists.

    MAE by mean, median and mode, RMSE of the mean, log-loss, ranked probability score and
    calibration error; with `--lists`, precision, recall, nDCG, MRR and half-life utility.

    Examples: `ordbm evaluate ratings.csv --compare bias,svd --lists 10` ·
    `ordbm evaluate ratings.csv --folds 5 --json` ·
    `ordbm evaluate ratings.csv --split stream --compare bias` ·
    `ordbm evaluate unseen.csv --model model.ordbm --report out.html`
    """
    told = _given(
        folds=folds, test=test, model=model, test_fraction=test_fraction, split=split,
        split_seed=split_seed, validation=validation, lists=lists, by=by, batch=batch,
        report=report, user_features=user_features, item_features=item_features,
    )  # fmt: skip
    _check_together(told, split, model_options)
    _check_report(report, force)
    baselines = _baselines(compare, model)
    quiet = quiet or as_json
    options: dict[str, Any] = {"lists": _lengths(lists), "by": by}
    ratings, read = ratings_and_facts(source, reading, beside=test)
    stderr(quiet).print(facts_in_words(read), markup=False)
    fraction = _TEST_FRACTION if test_fraction is None else test_fraction
    found: list[Any]
    show: Callable[[list[Any]], None] = show_scores
    if split == "stream":
        from ordbm.cli.stream import show_stream, streamed

        found = streamed({OURS: model_options.model()} | baselines, ratings, fraction, batch, quiet)
        show = show_stream
    elif model is not None:
        fitted = model_in_file(model)
        ratings = _with_ids_of(ratings, users_of(fitted), items_of(fitted))
        found = [ordbm.evaluate(fitted, ratings, name=model.name, **options)]
        _warn_of_leak(fitted, ratings)
    else:
        models = {OURS: model_options.model()} | baselines
        asked = {
            "validation": _VALIDATION if validation is None else validation,
            "seed": split_seed or 0,
            **options,
        }
        ours: dict[str, Any] = {
            "user_features": features_in(user_features, ratings.users, "user"),
            "item_features": features_in(item_features, ratings.items, "item"),
        }
        if folds is not None:
            found = _cross_validated(models, ratings, folds, asked, ours, quiet)
        else:
            if test is not None:
                parts = ratings, _test_ratings(test, reading, ratings)
            else:
                by_what: Any = split or "user"
                parts = ordbm.hold_out(ratings, fraction, seed=asked["seed"], by=by_what)
            found = _tested(models, *parts, asked, ours, quiet)
    if as_json:
        print_json({"ratings": read, "models": [one.to_dict() for one in found]})
    else:
        show(found)
    if report is not None:
        _write_report(found, report, read, force)
        stderr(quiet).print(f"{report} written", markup=False)


def show_scores(found: list[Any]) -> None:
    """One model with its intervals, or several side by side."""
    from ordbm.evaluation.evaluations import unknown_in_words

    out = stdout()
    if len(found) == 1:
        out.print(*repr(found[0]).split("\n"), sep="\n")
        return
    for one in score_tables({one.model: one.scores for one in found}, out.width):
        out.print(one)
    out.print(*unknown_in_words(getattr(found[0], "evaluations", [found[0]])), sep="\n")


def _given(**told: Any) -> list[str]:
    """The names of the options that were given."""
    return [f"--{name.replace('_', '-')}" for name, value in told.items() if value is not None]


def _check_together(told: list[str], split: str | None, model_options: ModelOptions) -> None:
    """An error that names options that exclude each other, or one without effect."""
    features = ["--user-features", "--item-features"]
    what = [option for option in ("--folds", "--test", "--model") if option in told]
    if len(what) > 1:
        raise ordbm.errors.SettingsError(f"use one of {' and '.join(what)}, not both")
    useless: dict[str, list[str]] = {other: ["--test-fraction", "--split"] for other in what}
    if "--model" in told:
        _refuse(model_options.given(), "with --model")
        useless["--model"] = ["--validation", "--split-seed", *features, *useless["--model"]]
    if split == "stream":
        useless["--split stream"] = [
            "--validation", "--split-seed", "--lists", "--report", *features,
        ]  # fmt: skip
    for other, options in useless.items():
        _refuse([option for option in options if option in told], f"with {other}")
    if "--lists" not in told:
        _refuse([option for option in told if option == "--by"], "without --lists")
    if split != "stream":
        _refuse([option for option in told if option == "--batch"], "without --split stream")


def _refuse(options: list[str], where: str) -> None:
    """An error that names an option without effect, if there is one."""
    if options:
        raise ordbm.errors.SettingsError(f"{options[0]} has no effect {where}: leave it out")


def _check_report(path: Path | None, force: bool) -> None:
    """An error before the work where a report cannot be drawn or written."""
    if path is None:
        return
    if find_spec("matplotlib") is None:
        raise ordbm.errors.SettingsError('--report needs matplotlib: pip install "ordbm[plot]"')
    from ordbm.report.page import is_page

    check_target(path, None if force else is_page)


def _lengths(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ordbm.errors.SettingsError(f"--lists {text}: use numbers, as in 10 or 5,10") from None


def _baselines(text: str | None, model: Path | None) -> dict[str, Any]:
    """Baselines by name, not fitted."""
    if not text:
        return {}
    if model is not None:
        raise ordbm.errors.SettingsError(
            "--compare needs ratings to fit the baselines to: use it without --model"
        )
    from ordbm.baselines import BASELINES

    names = list(BASELINES) if text == "all" else [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        raise ordbm.errors.SettingsError(
            f"--compare {unknown[0]}: there is {', '.join(BASELINES)}, or all"
        )
    return {name: BASELINES[name]() for name in names}


def _test_ratings(path: Path, reading: ReadingOptions, train: Ratings) -> Ratings:
    """Test ratings on the scale of the training ratings, and with their ids."""
    from ordbm.datasets import read_ratings

    told = {**reading.arguments(), "scale": train.scale}
    if told["bad_lines_to"] is not None:  # which has those of the training file
        bad = Path(told["bad_lines_to"])
        told["bad_lines_to"] = bad.with_name(f"{bad.stem}-test{bad.suffix}")
    found = read_ratings(given_file(path), **told)
    return _with_ids_of(found, train.users, train.items)


def _with_ids_of(test: Ratings, users: IdMap, items: IdMap) -> Ratings:
    """The same ratings; ids that one file has as text and the other as numbers are the same."""
    from ordbm.data.ids import IdMap
    from ordbm.datasets import matched_ids

    return ordbm.Ratings.of_rows(
        IdMap(tuple(matched_ids(test.users, users))),
        IdMap(tuple(matched_ids(test.items, items))),
        test.scale,
        test.by_user,
        test.times,
        test.context,
    )


def _warn_of_leak(model: OrdinalBM, test: Ratings) -> None:
    """Say so if the model has learnt from pairs that it is tested on."""
    import numpy as np

    rows = model.conditioned[0].ratings.by_user
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
    ours: Mapping[str, Any],
    quiet: bool,
) -> list[Evaluation]:
    from ordbm.evaluation import train_and_test

    found = []
    for name, model in models.items():
        with fit_bar(quiet, name) as show_epochs:
            own = {"callbacks": [show_epochs], **ours} if name == OURS else _FOR_BASELINES
            found.append(train_and_test(model, train, test, name=name, **{**asked, **own}))
    return found


def _cross_validated(
    models: Mapping[str, Any],
    ratings: Ratings,
    folds: int,
    asked: Mapping[str, Any],
    ours: Mapping[str, Any],
    quiet: bool,
) -> list[CrossValidation]:
    found = []
    for name, model in models.items():
        with step_bar(quiet, name, folds, "folds") as done:
            own = ours if name == OURS else _FOR_BASELINES
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


def _write_report(found: list[Any], path: Path, read: Mapping[str, Any], force: bool) -> None:
    from ordbm.report.evaluation_page import evaluation_title, write_report

    data = {name: value for name, value in read.items() if name != "seconds"}
    title = f"{evaluation_title(found)} on {Path(data['source']).name}"
    command = shlex.join(["ordbm", *sys.argv[1:]])
    write_report(found, path, title=title, command=command, data=data, overwrite=force)
