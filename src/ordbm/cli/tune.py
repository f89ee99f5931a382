"""`ordbm tune`: settings found by trying them."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import ordbm
from ordbm.cli.app import app
from ordbm.cli.inputs import RatingsSource, check_target, facts_in_words, ratings_and_facts
from ordbm.cli.options import Json, ModelOptions, Quiet, ReadingOptions, unfolded
from ordbm.cli.output import facts, print_json, stderr, stdout, step_bar
from ordbm.cli.values import options_for
from ordbm.runtime.printable import printable

if TYPE_CHECKING:
    from ordbm.tuning import Trial


@app.command("tune")
@unfolded
def tune_command(
    source: RatingsSource,
    reading: ReadingOptions,
    model_options: ModelOptions,
    study: Annotated[
        Path | None,
        Option(help="File that keeps all trials; the same command goes on.", metavar="FILE"),
    ] = None,
    trials: Annotated[int, Option(help="Settings to try, in all.", metavar="N")] = 30,
    timeout: Annotated[
        float | None, Option(help="Start no trial after this time.", metavar="SECONDS")
    ] = None,
    metric: Annotated[
        str, Option(help="What to make small.", metavar="log_loss|rmse|mae")
    ] = "log_loss",
    validation: Annotated[
        float,
        Option(
            help="Share of the searched ratings that settings are judged by.", metavar="FRACTION"
        ),
    ] = 0.2,
    test_fraction: Annotated[
        float,
        Option(
            help="Share kept out of the search, the same that ordbm evaluate tests on; 0 for none.",
            metavar="FRACTION",
        ),
    ] = 0.2,
    split_seed: Annotated[int, Option(help="Of the split into parts.", metavar="N")] = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Search the settings that predict held-out ratings best. Settings given are kept.

    The test part of `ordbm evaluate` with the same `--split-seed` is left out of the search, so
    that it can tell how good the settings are. Ctrl-C ends the search with the best so far.

    Example: `ordbm tune ratings.csv --study study.db --trials 50`
    """
    from ordbm.tuning import tune

    check_target(study)
    quiet = quiet or as_json
    say = stderr(quiet).print
    fixed = {name: value for name, value in model_options.arguments().items() if value is not None}
    ratings, read = ratings_and_facts(source, reading)
    say(facts_in_words(read), markup=False)
    searched, _ = ordbm.hold_out(ratings, test_fraction, seed=split_seed)
    with step_bar(quiet, "tuning", trials, "trials") as done:

        def told(trial: Trial) -> None:
            done(trial.number)
            say(_in_words(trial, metric), markup=False)

        found = tune(
            searched,
            trials=trials,
            timeout=timeout,
            study=study,
            validation=validation,
            metric=metric,  # type: ignore[arg-type]
            seed=split_seed,
            callback=told,
            **fixed,
        )
    options = shlex.join(reading.options() + options_for(found.arguments))
    commands = {
        "fit": f"ordbm fit {shlex.quote(source)} -o model.ordbm {options}",
        "evaluate": f"ordbm evaluate {shlex.quote(source)} --validation 0 "
        f"--test-fraction {test_fraction:g} --split-seed {split_seed} {options}",
    }
    if as_json:
        kept = {name: value for name, value in vars(found).items() if name != "arguments"}
        print_json({"ratings": read, **kept, "options": options_for(found.arguments), **commands})
        return
    if found.interrupted:
        say("interrupted: this is the best so far")
    stdout().print(
        facts(
            {
                f"best {metric}": found.score,
                "before the search": found.unsearched_score,
                "trials": f"{found.trials}, {found.pruned} given up early, {found.failed} failed",
                "seconds": f"{found.seconds:.1f}",
            }
        )
    )
    copied = {name: printable(command) for name, command in commands.items()}
    print("\nLearn with these settings:", copied["fit"], sep="\n")  # never wrapped: to be copied
    if test_fraction:
        print("\nScore them on the ratings kept out:", copied["evaluate"], sep="\n")


def _in_words(trial: Trial, metric: str) -> str:
    score = "failed" if trial.score is None else f"{metric} {trial.score:.4f}"
    early = ", given up early" if trial.ended == "pruned" else ""
    options: list[Any] = options_for(trial.arguments)
    return f"trial {trial.number}: {score}{early} ({shlex.join(options)})"
