"""Features of items take part in the order of changes, so that updates know which are new."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Those that are there already are as of the next change."""
    op.add_column("items", sa.Column("described", sa.BigInteger))
    op.execute("UPDATE sequence SET value = value + 1")
    op.execute(
        "UPDATE items SET described = (SELECT max(value) FROM sequence) WHERE features IS NOT NULL"
    )
    op.create_index("items_by_described", "items", ["described"])


def downgrade() -> None:
    """Forget the order."""
    op.drop_index("items_by_described", "items")
    op.drop_column("items", "described")
