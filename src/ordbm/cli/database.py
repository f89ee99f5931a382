"""`ordbm database`: the ratings of a service, kept safe."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from ordbm.cli.app import Commands, app
from ordbm.cli.output import stderr
from ordbm.cli.serve import need_extra

Url = Annotated[
    str,
    Argument(
        help="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME.",
        metavar="URL",
        envvar="ORDBM_DATABASE",
        show_default=False,
    ),
]

database = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="markdown")
app.add_typer(
    database, name="database", help="Migrate, back up and restore the database of a service."
)


@database.command("migrate")
def migrate(url: Url) -> None:
    """Make or alter the tables of a database for this version; `ordbm serve` does it of itself."""
    from ordbm.serve.store import told_in_words
    from ordbm.serve.upgrade import bring_up_to_date

    with told_in_words():
        bring_up_to_date(_store(url))
    stderr().print("the tables are those of this version")


@database.command("backup")
def backup(
    url: Url,
    output: Annotated[Path, Option("--output", "-o", help="The file to write.", metavar="FILE")],
) -> None:
    """Write all tables as they are at one moment to one file, while the service runs."""
    from ordbm.serve.backup import write_backup
    from ordbm.serve.store import told_in_words
    from ordbm.serve.upgrade import check_up_to_date

    with told_in_words():
        store = _store(url)
        check_up_to_date(store)
        rows = write_backup(store, output)
    stderr().print(f"{output}: {rows:,} rows", markup=False)


@database.command("restore")
def restore(
    url: Url,
    file: Annotated[Path, Argument(help="A file of backup.", metavar="FILE", show_default=False)],
) -> None:
    """Fill an empty database, of either kind, from a backup: all of it or nothing."""
    from ordbm.serve.backup import restore_backup
    from ordbm.serve.store import told_in_words

    with told_in_words():
        rows = restore_backup(_store(url), file)
    stderr().print(f"{rows:,} rows from {file}", markup=False)


def _store(url: str) -> Any:
    need_extra()
    from ordbm.serve.service_settings import database_url
    from ordbm.serve.store import Store

    return Store(database_url(url, Path()), 1)
