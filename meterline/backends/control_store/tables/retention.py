"""The table of what the usage store does not keep any more."""

from typing import Final

from sqlalchemy import BigInteger, Text

from meterline.backends.control_store.tables.columns import key, required, table

# Notices: periods of tables of the usage store that are dropped, a day after the notice or later.
retention_notices: Final = table(
    "retention_notices",
    key("table_name", Text, "Table of the usage store."),
    key("period", Text, "Id of the partition of that table, such as `20260105`."),
    required("before_ms", BigInteger, "Rows that were appended before this are not kept."),
    required("latest_ms", BigInteger, "Greatest time of an event in it; 0 in other tables."),
    required("catalogue", BigInteger, "Catalogue version then: its meters had counted all of it."),
    required("given_at_ms", BigInteger, "When the notice was given."),
)
