"""The table of what was done about refusals, on the metadata of `schema`."""

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text

from meterline.backends.control_store.tables.meters import metadata

_ORDER: Final = ("append_ms", "log", "partition", "record_offset", "place")

redrives: Final = Table(
    "redrives",
    metadata,
    Column("log", Integer, primary_key=True, autoincrement=False),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("record_offset", BigInteger, primary_key=True, autoincrement=False),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("owner", Text, nullable=False),  # namespace of what was refused
    Column("kind", Text, nullable=False),
    Column("append_ms", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("namespace", Text, nullable=False),  # of the author, and of the event
    Column("author", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("note", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("payload_check", LargeBinary, nullable=False),
    Column("event", LargeBinary),  # its text, until it is known to be in the log
    Index("ix_redrives_state", "owner", "state", *_ORDER),
)
