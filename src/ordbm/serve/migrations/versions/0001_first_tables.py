"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_KEY = sa.String(500)


def upgrade() -> None:
    """Make the tables."""
    sequence = op.create_table(
        "sequence",
        sa.Column("name", sa.String(20), primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(sequence, [{"name": "changes", "value": 0}])
    op.create_table(
        "ratings",
        sa.Column("user", _KEY, primary_key=True),
        sa.Column("item", _KEY, primary_key=True),
        sa.Column("rating", sa.Text),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("time", sa.Float, nullable=False),
    )
    op.create_index("ratings_by_number", "ratings", ["number"])
    op.create_table(
        "erasures",
        sa.Column("user", _KEY, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("time", sa.Float, nullable=False),
    )
    op.create_table(
        "items",
        sa.Column("item", _KEY, primary_key=True),
        sa.Column("title", sa.Text),
        sa.Column("folded", sa.Text, nullable=False),
        sa.Column("features", sa.Text),
        sa.Column("n_ratings", sa.Integer, nullable=False),
    )
    op.create_index("items_by_ratings", "items", ["n_ratings", "item"])
    op.create_table(
        "lists",
        sa.Column("list_id", sa.String(40), primary_key=True),
        sa.Column("user", _KEY),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("items", sa.Text, nullable=False),
        sa.Column("time", sa.Float, nullable=False),
    )
    op.create_index("lists_by_user", "lists", ["user"])
    op.create_index("lists_by_time", "lists", ["time"])
    op.create_table(
        "feedback",
        sa.Column("list_id", sa.String(40), primary_key=True),
        sa.Column("item", _KEY, primary_key=True),
        sa.Column("kind", sa.String(20), primary_key=True),
        sa.Column("user", _KEY),
        sa.Column("time", sa.Float, nullable=False),
    )
    op.create_index("feedback_by_user", "feedback", ["user", "kind"])
    op.create_table(
        "versions",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("checksum", sa.String(64), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("folded", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("time", sa.Float, nullable=False),
        sa.Column("report", sa.Text, nullable=False),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("holder", sa.String(80), nullable=False),
        sa.Column("until", sa.Float, nullable=False),
    )


def downgrade() -> None:
    """Drop them, with all that is in them."""
    for name in (
        "leases", "versions", "feedback", "lists", "items", "erasures", "ratings", "sequence",
    ):  # fmt: skip
        op.drop_table(name)
