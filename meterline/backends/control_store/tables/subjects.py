"""The table of described subjects, on the metadata of `schema`."""

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Table, Text

from meterline.backends.control_store.tables.meters import metadata

# Deleted ones are erased: what was said of them may be about a person.
subjects: Final = Table(
    "subjects",
    metadata,
    Column("id", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("display_name", Text),
    Column("metadata", Text),  # JSON object
    Column("current_period_start_ms", BigInteger),
    Column("current_period_end_ms", BigInteger),
    Column("stripe_customer_id", Text),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
    Index("uq_subjects_key", "namespace", "key", unique=True),
)
