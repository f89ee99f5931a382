"""`ordbm update`, `ordbm refit`: a model takes in ratings, or learns anew from all it has."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import ordbm
from ordbm.cli.app import app
from ordbm.cli.inputs import (
    STANDARD,
    ItemFeatures,
    ModelFile,
    UserFeatures,
    check_model_target,
    facts_in_words,
    features_in,
    given_file,
    items_of,
    model_in_file,
    ratings_and_facts,
    users_of,
)
from ordbm.cli.options import Force, Json, PairOptions, Quiet, ReadingOptions, unfolded
from ordbm.cli.output import count_in_words, fit_bar, print_json, stderr
from ordbm.cli.serve import need_extra

if TYPE_CHECKING:
    from ordbm.data.ids import IdMap
    from ordbm.data.ratings import Ratings
    from ordbm.estimator import OrdinalBM

Output = Annotated[
    Path,
    Option("--output", "-o", help="The model file to write; may be the same.", metavar="MODEL"),
]


@app.command()
@unfolded
def update(
    file: ModelFile,
    output: Output,
    reading: ReadingOptions,
    source: Annotated[
        str | None,
        Argument(
            help="Ratings that are new or changed, as for `ordbm fit`; none if only some are "
            "withdrawn.",
            metavar="RATINGS",
            show_default=False,
        ),
    ] = None,
    withdraw: Annotated[
        str | None,
        Option(help="A file of pairs (user, item) whose ratings are no more.", metavar="FILE"),
    ] = None,
    user_features: UserFeatures = None,
    item_features: ItemFeatures = None,
    database: Annotated[
        str | None,
        Option(
            help="The database of a service: all ratings, withdrawals and erasures in it, and the "
            "features of items that the model was learnt with.",
            metavar="URL",
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Let a model take in ratings that are new, changed or withdrawn, without learning anew.

    Users and items may be new; features are those the model was learnt with. All of it is taken
    in, or, if something is wrong, nothing.

    Example: `ordbm update model.ordbm today.csv --withdraw gone.csv -o model.ordbm`
    """
    told = source, withdraw, user_features, item_features
    if database is None and all(one is None for one in told):
        raise ordbm.errors.SettingsError(
            "nothing to do: give RATINGS, --withdraw FILE, features of users or items, or "
            "--database URL"
        )
    if source == withdraw == STANDARD:
        raise ordbm.errors.SettingsError("standard input can be read once: name a file instead")
    check_model_target(output, force)
    model = model_in_file(file)
    say = stderr(quiet or as_json).print
    new, found, gone = None, None, None
    if database is not None:
        found = _learn_database(model, database)
        say(f"database: {', '.join(f'{count:,} {what}' for what, count in found.items())}")
    if source is not None:
        ratings, found = ratings_and_facts(source, reading, scale=model.scale)
        say(facts_in_words(found), markup=False)
        new = _by_ids_of(model, ratings)
    if withdraw is not None:
        gone = _pairs(withdraw, reading, model)
    if any(one is not None for one in told):
        model.partial_fit(
            new,
            gone,
            user_features=features_in(user_features, users_of(model), "user"),
            item_features=features_in(item_features, items_of(model), "item"),
        )
    if model.last_update is None:
        raise ordbm.errors.SettingsError("the database has nothing that the model could learn")
    model.save(output, overwrite=force)
    if as_json:
        print_json(
            {
                "model": str(output),
                "ratings": found,
                "changes": asdict(model.last_update),
                "since_learning": model.growth._asdict() | {"drift": model.growth.drift},
            }
        )
        return
    say(f"{output}: {model.last_update}", markup=False)
    if model.growth.wants_refit:
        say(f"ordbm refit is worth while: {model.growth}", markup=False)


def _learn_database(model: OrdinalBM, url: str) -> dict[str, int]:
    """Learn all that a service has stored; how many of what."""
    need_extra()
    from ordbm.serve.pending import pending_changes, updated
    from ordbm.serve.service_settings import database_url
    from ordbm.serve.store import Store, told_in_words
    from ordbm.serve.upgrade import check_up_to_date

    store = Store(database_url(url, Path()), 1)
    try:
        with told_in_words():
            check_up_to_date(store)
            pending = pending_changes(store, 0)
    finally:
        store.close()
    last = max((row.number for row in pending.rows), default=0)
    return updated(model, model, pending, last)


@app.command()
def refit(
    file: ModelFile,
    output: Output,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a model anew, by its own settings, from all ratings that it has now.

    `ordbm inspect` says how many came since it was learnt, and when this is worth while.

    Example: `ordbm refit model.ordbm -o model.ordbm`
    """
    check_model_target(output, force)
    model = model_in_file(file)
    before = model.growth
    say = stderr(quiet or as_json).print
    with fit_bar(quiet or as_json) as show:
        model.refit(callbacks=[show])
    model.save(output, overwrite=force)
    seconds = sum(record.seconds for record in model.history)
    if as_json:
        learnt = {"ratings": model.growth.ratings, "epochs": len(model.history)}
        taken_in = {"since_learning": before._asdict() | {"drift": before.drift}}
        print_json({"model": str(output), **learnt, "seconds": seconds, **taken_in})
        return
    ratings = count_in_words(model.growth.ratings, "rating")
    epochs = count_in_words(len(model.history), "epoch")
    say(f"{output}: learnt anew from {ratings}, {epochs} in {seconds:.1f} s", markup=False)


def _by_ids_of(model: OrdinalBM, ratings: Ratings) -> Ratings:
    """The ratings, with ids as the model has them: "12" as 12 where it knows that."""
    from ordbm.data.ids import IdMap
    from ordbm.data.ratings import Ratings
    from ordbm.datasets import matched_ids

    users, items = (
        IdMap(tuple(_like(matched_ids(given.ids, known), known)))
        for given, known in ((ratings.users, users_of(model)), (ratings.items, items_of(model)))
    )
    return Ratings.of_rows(
        users, items, ratings.scale, ratings.by_user, ratings.times, ratings.context
    )


def _like(ids: list[Any], known: IdMap) -> list[Any]:
    """Ids that may be new, as text where all that are known are."""
    return [str(one) if known.kinds == {"text"} else one for one in ids]


def _pairs(source: str, reading: ReadingOptions, model: OrdinalBM) -> dict[str, Any]:
    from ordbm.datasets import matched_ids, read_pairs

    told = PairOptions(**{one.name: getattr(reading, one.name) for one in fields(PairOptions)})
    found = read_pairs(given_file(source), **told.arguments())
    return {
        "user": matched_ids(found.users, users_of(model)),
        "item": matched_ids(found.items, items_of(model)),
    }
