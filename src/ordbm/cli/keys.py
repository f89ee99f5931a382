"""`ordbm keys`: who may ask a service what."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from ordbm.cli.app import Commands, app
from ordbm.cli.output import stderr, stdout, table

KeyFile = Annotated[Path, Option("--key-file", help="The file of keys.", metavar="FILE")]
Name = Annotated[str, Argument(help="Whose key it is.", metavar="NAME", show_default=False)]

keys = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="markdown")
app.add_typer(keys, name="keys", help="Make, list and revoke the keys of `ordbm serve`.")


@keys.command("add")
def add(
    name: Name,
    key_file: KeyFile,
    scope: Annotated[
        list[str] | None,
        Option(help="What it may do; repeatable. [default: read]", metavar="read|write|admin"),
    ] = None,
) -> None:
    """Make a key and print it, this once: the file has its hash alone.

    A running service knows it within a second. Example:
    `ordbm keys add shop --key-file keys --scope read --scope write`
    """
    from ordbm.serve.key_ring import add_key

    print(add_key(key_file, name, scope or ["read"]))
    stderr().print(f"{key_file} has its hash; the key is shown this once", markup=False)


@keys.command("list")
def list_keys(key_file: KeyFile) -> None:
    """Show the names of keys, and what each may do."""
    from ordbm.serve.key_ring import SCOPES, read_keys

    rows = [
        [client.name, " ".join(scope for scope in SCOPES if scope in client.scopes)]
        for client, _ in read_keys(key_file)
    ]
    stdout().print(table(["name", "may"], rows))


@keys.command("revoke")
def revoke(name: Name, key_file: KeyFile) -> None:
    """Let a key open nothing any more; a running service knows it within a second."""
    from ordbm.serve.key_ring import revoke_key

    revoke_key(key_file, name)
    stderr().print(f"{name} is revoked", markup=False)
