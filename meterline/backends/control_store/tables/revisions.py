"""Tables of revisions and late usage, on the metadata of `schema`."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)

from meterline.backends.control_store.tables.meters import metadata

_DUE: Final = text("due_at_ms IS NOT NULL")

# What revisions correct. Several holders may have written some for one run: the run's row names
# whose count. Values are scaled integers of any length; NULL: no entry.
run_corrections: Final = Table(
    "run_corrections",
    metadata,
    Column("run_id", Text, ForeignKey("report_runs.id"), primary_key=True),
    Column("holder", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("subject", Text, nullable=False),
    Column("groups", Text, nullable=False),  # JSON object
    Column("old_value", Text),
    Column("new_value", Text),
    Column("cause", Text, nullable=False),
    Column("replaces", Text),
    Column("replaced_digest", LargeBinary),
)

# How far each partition was looked at for late events, and how far somebody began to.
late_looks: Final = Table(
    "late_looks",
    metadata,
    Column("log", Integer, primary_key=True, autoincrement=False),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("begun_end", BigInteger, nullable=False),
    Column("looked_end", BigInteger, nullable=False),
)

# Windows that late events were ever found for. `due_at_ms` is when they may be revised, NULL where
# there is nothing to revise; `revised_at_ms` when they last were, 0 for never.
late_windows: Final = Table(
    "late_windows",
    metadata,
    Column("report_id", Text, ForeignKey("reports.id"), primary_key=True),
    Column("from_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("to_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("due_at_ms", BigInteger),
    Column("revised_at_ms", BigInteger, nullable=False),
    Index("ix_late_windows_due", "due_at_ms", sqlite_where=_DUE, postgresql_where=_DUE),
)
