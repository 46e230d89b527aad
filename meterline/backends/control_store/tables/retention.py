"""The tables of what the usage store does not keep any more."""

from typing import Final

from sqlalchemy import BigInteger, Integer, Text

from meterline.backends.control_store.tables.columns import key, optional, required, table

# Notices: periods of tables of the usage store that are dropped, a day after the notice or later.
retention_notices: Final = table(
    "retention_notices",
    key("table_name", Text, "Table of the usage store."),
    key("period", Text, "Id of the partition of that table, such as `20260105`."),
    required("before_ms", BigInteger, "Rows that were appended before this are not kept."),
    required("latest_ms", BigInteger, "Greatest time of an event in it; 0 in other tables."),
    required("catalogue", BigInteger, "Catalogue version then: its meters had counted all of it."),
    required("given_at_ms", BigInteger, "When the notice was given."),
    optional("begun_at_ms", BigInteger, "Since when its rows may be gone, of usage by minute."),
)

# Notices: revisions of meters whose rows in the usage store are deleted, two days later or more.
revision_notices: Final = table(
    "revision_notices",
    key("revision", BigInteger, "Revision of a meter.", of="meter_revisions.revision"),
    required("catalogue", BigInteger, "Catalogue version then; see `closed_at_ms`."),
    required("given_at_ms", BigInteger, "When the notice was given."),
    required("log", Integer, "Number of the log up to which seals tell of its rows no more."),
    required("partition", Integer, "Partition of that log up to which they do."),
    required("slice", BigInteger, "First offset of the last such slice."),
    optional("closed_at_ms", BigInteger, "Since when no older catalogue seals a slice."),
    optional("lessened_at_ms", BigInteger, "Since when no seal tells of its rows."),
    optional("dropped_at_ms", BigInteger, "Since when the usage store has none."),
)
