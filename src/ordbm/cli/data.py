"""`ordbm data`: sets that are there or can be had, and files in other formats."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

import ordbm
from ordbm.cli.app import app
from ordbm.cli.inputs import (
    STANDARD,
    RatingsSource,
    check_target,
    facts_in_words,
    ratings_and_facts,
)
from ordbm.cli.options import Force, Json, Quiet, ReadingOptions, unfolded
from ordbm.cli.output import byte_bar, print_json, stderr, stdout, table
from ordbm.runtime.atomic_files import none_is_ours
from ordbm.runtime.interruption import raised_at_once
from ordbm.runtime.printable import printable

HERE = Path()

data = typer.Typer(rich_markup_mode="markdown")
app.add_typer(data, name="data")


@data.callback(invoke_without_command=True)
def data_(context: typer.Context) -> None:
    """List, fetch and convert rating data."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@data.command("list")
def list_(as_json: Json = False) -> None:
    """List the embedded sets and those that `ordbm data get` can fetch.

    Example: `ordbm data list`
    """
    from ordbm.datasets.download import DOWNLOADS, TERMS
    from ordbm.datasets.embedded import EMBEDDED, is_installed, remedy

    if as_json:
        found: list[dict[str, Any]] = [
            {"name": name, "embedded": True, "installed": is_installed(name)} for name in EMBEDDED
        ]
        print_json(found + [{"name": key, **one._asdict()} for key, one in DOWNLOADS.items()])
        return
    rows = [
        (name, "embedded", "ready to use by its name" if is_installed(name) else remedy(name))
        for name in EMBEDDED
    ]
    rows += [
        (name, f"{one.size / 1e6:.0f} MB" if one.size else "", one.about)
        for name, one in DOWNLOADS.items()
    ]
    out = stdout()
    out.print(table(("name", "size", "what it is"), rows))
    out.print(TERMS, markup=False)


@data.command()
def get(
    name: Annotated[
        str, Argument(help="A name that ordbm data list shows.", metavar="NAME", show_default=False)
    ],
    folder: Annotated[Path, Argument(help="Where to put it.", metavar="FOLDER")] = HERE,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fetch a public set from its home, check it, and go on where a download broke off.

    Example: `ordbm data get ml-1m data`, then `ordbm fit data/ml-1m.zip -o model.ordbm`
    """
    from ordbm.datasets.download import get_dataset

    with byte_bar(quiet or as_json, name) as show, raised_at_once():
        path = get_dataset(name, folder, show)
    if as_json:
        print_json({"name": name, "path": str(path), "bytes": path.stat().st_size})
    else:
        print(printable(str(path)))


@data.command()
@unfolded
def convert(
    source: RatingsSource,
    output: Annotated[
        Path,
        Argument(
            help="A file that ends in .csv, .tsv (or with .gz), or .parquet; - for csv on stdout.",
            metavar="OUTPUT",
            show_default=False,
        ),
    ],
    reading: ReadingOptions,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Read ratings of any known layout, check them, and write them as csv, tsv or parquet.

    Examples: `ordbm data convert ml-1m.zip ratings.parquet` ·
    `zcat ratings.csv.gz | ordbm data convert - - --missing 0`
    """
    from ordbm.datasets.writer import write_ratings

    to_stdout = str(output) == STANDARD
    if to_stdout and as_json:
        raise ordbm.errors.SettingsError("--json and - both write to stdout: leave one out")
    if not to_stdout:
        check_target(output, None if force else none_is_ours)
    ratings, found = ratings_and_facts(source, reading)
    write_ratings(ratings, sys.stdout.buffer if to_stdout else output, overwrite=force)
    if to_stdout:
        stderr(quiet).print(facts_in_words(found), markup=False)
    elif as_json:
        print_json({"ratings": found, "path": str(output), "bytes": output.stat().st_size})
    else:
        say = stderr(quiet).print
        say(facts_in_words(found), markup=False)
        say(f"{output} written ({output.stat().st_size / 1e6:.1f} MB)", markup=False)
