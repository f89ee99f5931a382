"""`ordbm fit`: ratings in, a model file out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from rich.text import Text
from typer import Option

import ordbm
from ordbm.cli.app import app
from ordbm.cli.inputs import (
    ItemFeatures,
    RatingsSource,
    UserFeatures,
    check_model_target,
    facts_in_words,
    features_in,
    ratings_and_facts,
)
from ordbm.cli.options import Force, Json, ModelOptions, Quiet, ReadingOptions, unfolded
from ordbm.cli.output import count_in_words, fit_bar, print_json, stderr


@app.command()
@unfolded
def fit(
    source: RatingsSource,
    output: Annotated[
        Path, Option("--output", "-o", help="The model file to write.", metavar="MODEL")
    ],
    reading: ReadingOptions,
    model_options: ModelOptions,
    validation: Annotated[
        float,
        Option(
            help="Share of each user's ratings held out to stop at the best epoch; 0 for none.",
            metavar="FRACTION",
        ),
    ] = 0.0,
    user_features: UserFeatures = None,
    item_features: ItemFeatures = None,
    checkpoint: Annotated[
        Path | None,
        Option(help="Folder for a checkpoint after every epoch.", metavar="DIR"),
    ] = None,
    resume: Annotated[
        bool,
        Option(
            "--resume",
            help="Go on from the checkpoint, if there is one; the result is the same.",
            metavar="",
        ),
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a machine from ratings and save it.

    Ctrl-C ends the learning in good order: the model so far is saved. A second Ctrl-C ends it at
    once.

    Examples: `ordbm fit ratings.csv -o model.ordbm --validation 0.1 --hidden 80` ·
    `ordbm fit ratings.csv -o model.ordbm --item-features movies.csv`
    """
    # help must be quick
    from ordbm.persistence.checkpoint import FILE  # noqa: PLC0415

    if resume and checkpoint is None:
        raise ordbm.errors.SettingsError(
            "--resume needs --checkpoint DIR: say where the checkpoints are"
        )
    check_model_target(output, force)
    model = model_options.model().set_params(memory=reading.memory)
    ratings, found = ratings_and_facts(source, reading)
    about: dict[str, Any] = {
        "user_features": features_in(user_features, ratings.users, "user"),
        "item_features": features_in(item_features, ratings.items, "item"),
    }
    say = stderr(quiet or as_json).print
    say(facts_in_words(found), markup=False)
    if checkpoint is not None and not resume and (checkpoint / FILE).exists():
        say(f"{checkpoint} has a checkpoint: starting anew; --resume goes on from it", markup=False)
    learn, held_out = ratings, None
    if validation:
        learn, held_out = ordbm.hold_out(ratings, validation, seed=model.settings.seed)
    cost = model.estimate(learn)
    say(f"expected: {cost}")
    if cost.advice:
        say(cost.advice, markup=False)
    with fit_bar(quiet or as_json) as show:
        model.fit(
            learn, validation=held_out, callbacks=[show], checkpoint=checkpoint, resume=resume,
            **about,
        )  # fmt: skip
    model.save(output, overwrite=force)
    summary = _summary(model, found, output)
    if as_json:
        print_json(summary)
        return
    if model.interrupted:
        more = "; the same command with --resume goes on" if checkpoint else ""
        say(
            Text("interrupted", "yellow"), f": this is the model of the epochs so far{more}", sep=""
        )
    say(_in_words(summary), markup=False)


def _summary(model: Any, found: dict[str, Any], output: Path) -> dict[str, Any]:
    return {
        "ratings": found,
        "model": str(output),
        "bytes": output.stat().st_size,
        "interrupted": model.interrupted,
        "epochs": len(model.history),
        "seconds": sum(record.seconds for record in model.history),
        "history": model.history,
    }


def _in_words(summary: dict[str, Any]) -> str:
    losses = [record.validation["log_loss"] for record in summary["history"] if record.validation]
    best = (
        f"; best validation log-loss {min(losses):.4f} in epoch {losses.index(min(losses)) + 1}"
        if losses
        else ""
    )
    epochs = count_in_words(summary["epochs"], "epoch")
    return (
        f"{summary['model']}: {epochs} in {summary['seconds']:.1f} s{best} "
        f"({summary['bytes'] / 1e6:.1f} MB)"
    )
