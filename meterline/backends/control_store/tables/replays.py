"""The table of replays of many deliveries, on the metadata of `schema`."""

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text, text

from meterline.backends.control_store.tables.meters import metadata

_DUE: Final = text("due_at_ms IS NOT NULL")

replays: Final = Table(
    "replays",
    metadata,
    Column("id", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    # what it is asked for, see `DeliveryQuery`
    Column("report_id", Text),
    Column("run_id", Text),
    Column("subject", Text),
    Column("from_min_ms", BigInteger),
    Column("to_max_ms", BigInteger),
    Column("failed_since_ms", BigInteger),
    Column("decided_max_ms", BigInteger),
    Column("per_second", Integer, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("counted", BigInteger, nullable=False),
    Column("replayed", BigInteger, nullable=False),
    Column("in_flight", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("ended_at_ms", BigInteger),
    Column("due_at_ms", BigInteger),  # of its next step; NULL once it ended
    # the place of the last delivery that it came to
    Column("after_decided_at_ms", BigInteger),
    Column("after_run_id", Text),
    Column("after_number", Integer),
    Index("ix_replays_namespace", "namespace", "id"),
    Index("ix_replays_due", "due_at_ms", sqlite_where=_DUE, postgresql_where=_DUE),
)
