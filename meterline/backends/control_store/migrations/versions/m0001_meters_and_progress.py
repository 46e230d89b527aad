"""Meters with their revisions, and the progress of the aggregator."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None


def upgrade() -> None:
    """Make the tables of meters, then those of progress."""
    _meters()
    _progress()


def _meters() -> None:
    version = op.create_table(
        "catalogue_version",
        sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.CheckConstraint("one = 1", name="single_row"),
    )
    op.bulk_insert(version, [{"one": 1, "version": 0}])
    op.create_table(
        "meters",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("labels", sa.Text, nullable=False),
        sa.Column("from_settings", sa.Boolean, nullable=False),
        sa.Column("created_version", sa.BigInteger, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger, nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger),
    )
    live = sa.text("deleted_at_ms IS NULL")
    op.create_index(
        "uq_meters_live_key",
        "meters",
        ["namespace", "key"],
        unique=True,
        sqlite_where=live,
        postgresql_where=live,
    )
    op.create_table(
        "meter_revisions",
        sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("meter_id", sa.Text, sa.ForeignKey("meters.id"), nullable=False),
        sa.Column("aggregation", sa.Text, nullable=False),
        sa.Column("event_type", sa.Text, nullable=False),
        sa.Column("value_property", sa.Text),
        sa.Column("dimensions", sa.Text, nullable=False),
        sa.Column("events_from_ms", sa.BigInteger),
    )
    op.create_index("ix_meter_revisions_meter_id", "meter_revisions", ["meter_id"])


def _progress() -> None:
    op.create_table(
        "logs",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("partitions", sa.Integer, nullable=False),
    )
    op.create_table(
        "seals",
        sa.Column("log", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("slice", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("offset_end", sa.BigInteger, nullable=False),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column("catalogue", sa.BigInteger, nullable=False),
        sa.Column("append_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_seals_log_catalogue", "seals", ["log", "catalogue"])
    op.create_table(
        "fill_marks",
        sa.Column("log", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("slice", sa.BigInteger, primary_key=True, autoincrement=False),
    )
    op.create_table(
        "completeness",
        sa.Column("log", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("catalogue", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "flushed",
        sa.Column("log", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("catalogue", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("offset_end", sa.BigInteger, nullable=False),
    )
