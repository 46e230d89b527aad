"""Tables of meters and progress. Reports have theirs in `schema_reports`, on the same `metadata`.

Instants are unix milliseconds. Migrations (`migrations/versions`) must give the same tables: a test
holds the two together on both databases.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _one_in_state(state: str) -> Index:
    """At most one revision of a meter stands there; it finds them, too."""
    where = text(f"state = '{state}'")
    name = f"uq_meter_revisions_{state}"
    return Index(name, "meter_id", unique=True, sqlite_where=where, postgresql_where=where)


# One row. Whoever changes the catalogue updates it first, so changes happen one after the other and
# their versions become visible in ascending order.
catalogue_version: Final = Table(
    "catalogue_version",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    CheckConstraint("one = 1", name="single_row"),
)

# What may change without measuring anything anew. Deleted meters stay: their rows are still stored.
meters: Final = Table(
    "meters",
    metadata,
    Column("id", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("labels", Text, nullable=False),  # JSON object
    Column("from_settings", Boolean, nullable=False),
    Column("created_version", BigInteger, nullable=False),  # orders by creation
    Column("created_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
    Column("deleted_at_ms", BigInteger),
    Index(
        "uq_meters_live_key",
        "namespace",
        "key",
        unique=True,
        sqlite_where=text("deleted_at_ms IS NULL"),
        postgresql_where=text("deleted_at_ms IS NULL"),
    ),
)

# What is measured. One revision of each meter is in force, and at most one waits for its switch.
meter_revisions: Final = Table(
    "meter_revisions",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("meter_id", Text, ForeignKey("meters.id"), nullable=False, index=True),
    Column("aggregation", Text, nullable=False),
    Column("event_type", Text, nullable=False),
    Column("value_property", Text),
    Column("dimensions", Text, nullable=False),  # JSON object, name to path
    Column("events_from_ms", BigInteger),
    Column("state", Text, nullable=False, server_default=text("'in_force'")),
    Column("made_at_ms", BigInteger, nullable=False, server_default=text("0")),
    Column("effective_from_ms", BigInteger),  # as asked for, until it is switched
    Column("before_revision", BigInteger),  # once it is switched: what answers earlier windows
    Column("switched_at_ms", BigInteger),
    Column("ended_at_ms", BigInteger),  # superseded or discarded
    Column("left_at_ms", BigInteger),  # the catalogue: nothing is folded for it any more
    _one_in_state("in_force"),
    _one_in_state("filling"),
)

logs: Final = Table(
    "logs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False, unique=True),
    Column("partitions", Integer, nullable=False),
)

seals: Final = Table(
    "seals",
    metadata,
    Column("log", Integer, primary_key=True, autoincrement=False),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("slice", BigInteger, primary_key=True, autoincrement=False),  # first offset
    Column("offset_end", BigInteger, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("catalogue", BigInteger, nullable=False),
    Column("append_ms", BigInteger, nullable=False),
    Column("digest", LargeBinary),  # of the last record; none in seals of before
    # Rows that the slice wrote into these tables of the usage store; 0 in seals of before.
    Column("rejects", BigInteger, nullable=False, server_default=text("0")),
    Column("tallies", BigInteger, nullable=False, server_default=text("0")),
    Column("members", BigInteger, nullable=False, server_default=text("0")),
    Column("rejected", BigInteger, nullable=False, server_default=text("0")),
    Index("ix_seals_log_catalogue", "log", "catalogue"),  # for the backfill list
)

fill_marks: Final = Table(
    "fill_marks",
    metadata,
    Column("log", Integer, primary_key=True, autoincrement=False),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("slice", BigInteger, primary_key=True, autoincrement=False),
)

completeness: Final = Table(
    "completeness",
    metadata,
    Column("log", Integer, primary_key=True, autoincrement=False),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("catalogue", BigInteger, primary_key=True, autoincrement=False),
    Column("until_ms", BigInteger, nullable=False),
)

flushed: Final = Table(
    "flushed",
    metadata,
    Column("log", Integer, primary_key=True, autoincrement=False),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("catalogue", BigInteger, primary_key=True, autoincrement=False),
    Column("offset_end", BigInteger, nullable=False),
)

# One row: the id of the usage store that is counted into.
usage_store: Final = Table(
    "usage_store",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    CheckConstraint("one = 1", name="single_row"),
)
