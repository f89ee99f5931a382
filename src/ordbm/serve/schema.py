"""The tables of a service's database. Ids and ratings are JSON texts, sequence numbers one order.

The ratings here are those that came since the first model was learnt: one row for each pair, the
last that was said of it, and none (NULL) where a rating was withdrawn. Every change takes the next
number of one sequence inside its transaction, so that "all changes up to n" is a whole.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

TABLES = MetaData()
_KEY = String(500)

SEQUENCE = Table(
    "sequence",
    TABLES,
    Column("name", String(20), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

RATINGS = Table(
    "ratings",
    TABLES,
    Column("user", _KEY, primary_key=True),
    Column("item", _KEY, primary_key=True),
    Column("rating", Text),  # None where it was withdrawn
    Column("number", BigInteger, nullable=False),
    Column("time", Float, nullable=False),
    Index("ratings_by_number", "number"),
)

ERASURES = Table(
    "erasures",
    TABLES,
    Column("user", _KEY, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("time", Float, nullable=False),
)

ITEMS = Table(
    "items",
    TABLES,
    Column("item", _KEY, primary_key=True),
    Column("title", Text),
    Column("folded", Text, nullable=False),  # the title in lower case without accents
    Column("features", Text),
    Column("n_ratings", Integer, nullable=False),  # of the model that listed it
    Column("described", BigInteger),  # the change with which features came; none ever if None
    Index("items_by_ratings", "n_ratings", "item"),
    Index("items_by_described", "described"),
)

LISTS = Table(
    "lists",
    TABLES,
    Column("list_id", String(40), primary_key=True),
    Column("user", _KEY),
    Column("model", String(64), nullable=False),
    Column("items", Text, nullable=False),
    Column("time", Float, nullable=False),
    Index("lists_by_user", "user"),
    Index("lists_by_time", "time"),
)

FEEDBACK = Table(
    "feedback",
    TABLES,
    Column("list_id", String(40), primary_key=True),
    Column("item", _KEY, primary_key=True),
    Column("kind", String(20), primary_key=True),
    Column("user", _KEY),
    Column("time", Float, nullable=False),
    Index("feedback_by_user", "user", "kind"),
)

VERSIONS = Table(
    "versions",
    TABLES,
    Column("number", Integer, primary_key=True),
    Column("checksum", String(64), nullable=False),
    Column("path", Text, nullable=False),
    Column("folded", BigInteger, nullable=False),  # changes up to this one are in its parameters
    Column("state", String(20), nullable=False),  # active, kept, refused, removed
    Column("time", Float, nullable=False),
    Column("report", Text, nullable=False),
)

LEASES = Table(
    "leases",
    TABLES,
    Column("name", String(40), primary_key=True),
    Column("holder", String(80), nullable=False),
    Column("until", Float, nullable=False),
)
