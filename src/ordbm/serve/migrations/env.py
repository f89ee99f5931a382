"""Runs migrations on the connection that `ordbm.serve.upgrade` opened."""

from alembic import context

from ordbm.serve.schema import TABLES

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=TABLES,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
