"""`ordbm serve`: a model behind HTTP, with ratings in a database."""

# ruff: noqa: PLC0415 -- help must be quick

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from typer import Exit, Option

import ordbm
from ordbm.cli.app import app
from ordbm.cli.inputs import ModelFile

DatabaseUrl = Annotated[
    str | None,
    Option(
        help="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME. [default: MODEL.sqlite3]",
        metavar="URL",
        envvar="ORDBM_DATABASE",
        show_envvar=True,
    ),
]


def need_extra() -> None:
    """An error that says how to install what a service needs, unless it is there."""
    missing = [name for name in ("fastapi", "uvicorn", "httptools", "sqlalchemy", "alembic")
               if find_spec(name) is None]  # fmt: skip
    if missing:
        raise ordbm.errors.SettingsError(
            f'this needs {", ".join(missing)}: pip install "ordbm[serve]"'
        )


@app.command()
def serve(
    model: ModelFile,
    host: Annotated[str, Option(help="Where to listen.", metavar="HOST")] = "127.0.0.1",
    port: Annotated[int, Option(help="0 takes a free one.", min=0, max=65535)] = 8000,
    database: DatabaseUrl = None,
    key_file: Annotated[
        Path | None, Option(help="Keys of `ordbm keys add`; then every request needs one.")
    ] = None,
    open_to_all: Annotated[
        bool,
        Option(
            "--no-keys-anybody-may-write",
            help="Listen beyond this machine without keys: whoever can reach it may write.",
            metavar="",
        ),
    ] = False,
    workers: Annotated[int, Option(help="Processes, each with the model.", min=1)] = 1,
    titles: Annotated[
        str | None,
        Option(
            help="What items are called: a csv or tsv of ids and titles, a MovieLens archive, or "
            "movielens-small.",
            metavar="FILE",
        ),
    ] = None,
    update_every: Annotated[
        float,
        Option(help="Learn from what came since every so many minutes; 0 for never.", min=0),
    ] = 0.0,
    rate: Annotated[
        float, Option(help="Requests a second for each client and worker; 0 for any.", min=0)
    ] = 0.0,
    max_body: Annotated[int, Option(help="Bytes of a request.", min=1)] = 1_000_000,
    max_batch: Annotated[int, Option(help="Questions in a request.", min=1)] = 100,
    queue: Annotated[int, Option(help="Requests of a worker that may wait.", min=0)] = 64,
    timeout: Annotated[float, Option(help="Seconds for a request.", min=0.1)] = 10.0,
    keep_lists: Annotated[
        float, Option(help="Days that lists which were shown are kept.", min=0)
    ] = 30.0,
    opened: Annotated[
        bool, Option("--open", help="Open it in a browser when it is ready.", metavar="")
    ] = False,
    log_level: Annotated[str, Option(metavar="info|warning|error")] = "info",
) -> None:
    """Answer over HTTP: stateless questions, stored people, a page.

    Listens on this machine alone unless told otherwise. A rating that was acknowledged is in the
    database, and the next answer knows it. The log is a JSON document a line on the error stream.

    Example: `ordbm serve model.ordbm --titles movies.csv`
    """
    need_extra()
    from ordbm.serve.service_settings import ServiceSettings, database_url

    if not model.is_file():
        raise ordbm.errors.SettingsError(f"{model}: there is no such file")
    settings = ServiceSettings(
        model=model, database=database_url(database, model), key_file=key_file,
        open_elsewhere=open_to_all, host=host, port=port, workers=workers,
        update_every=60 * update_every, rate=rate, max_body=max_body, max_batch=max_batch,
        queue=queue, timeout=timeout, log_level=log_level, keep_lists=86400 * keep_lists,
    )  # fmt: skip
    from ordbm.serve.serving import prepare, serve_until_told

    if titles is not None:
        prepare(settings)
        _store_titles(settings, titles)
    raise Exit(serve_until_told(settings, opened=opened))


def _store_titles(settings: Any, titles: str) -> None:
    """Read titles as other commands do, and let the catalogue have them."""
    from ordbm.cli.inputs import model_in_file, titles_of
    from ordbm.serve.catalogue_rows import put_titles
    from ordbm.serve.store import Store

    found = titles_of(titles, model_in_file(settings.model)) or {}
    store = Store(settings.database, 1)
    store.write(lambda connection: put_titles(connection, found))
    store.close()
