"""Bring a database to the tables of this version, and say whether it has them."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from ordbm.errors import SettingsError
from ordbm.serve.store import Store

_LOCK = 0x6F7264626D  # of PostgreSQL, for migrations of this package


def bring_up_to_date(store: Store) -> None:
    """Make or alter tables, one process at a time; a database of a later version is an error."""

    def upgrade(connection: object) -> None:
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
        config.attributes["connection"] = connection
        if not store.is_sqlite:
            store_connection = config.attributes["connection"]
            store_connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        known = {one.revision for one in ScriptDirectory.from_config(config).walk_revisions()}
        current = MigrationContext.configure(config.attributes["connection"]).get_current_revision()
        if current is not None and current not in known:
            raise SettingsError(
                f"the database is of a later version of ordbm ({current}): use that one"
            )
        command.upgrade(config, "head")

    store.write(upgrade)


def check_up_to_date(store: Store) -> None:
    """An error unless there is a database with the tables of this version."""
    if store.is_sqlite and not Path(store.url.database or "").is_file():
        raise SettingsError(f"{store.url.database}: there is no such database")
    current = store.read(lambda one: MigrationContext.configure(one).get_current_revision())
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    if current != ScriptDirectory.from_config(config).get_current_head():
        raise SettingsError(
            "the database has not the tables of this version: `ordbm database migrate` makes them"
        )
