"""The table of what was done about events that count nowhere."""

from typing import Final

from sqlalchemy import BigInteger, Index, Integer, LargeBinary, Text

from meterline.backends.control_store.tables.columns import key, optional, required, table

_ORDER: Final = ("append_ms", "log", "partition", "record_offset", "place")

# One row for each event that was sent again or dismissed. Others have no row: they are open.
redrives: Final = table(
    "redrives",
    key("log", Integer, "Number of the log."),
    key("partition", Integer, "Partition of the log."),
    key("record_offset", BigInteger, "Offset of the record."),
    key("place", Integer, "Place of the event in the record, from 0."),
    required("owner", Text, "Namespace of the event; empty where it has none."),
    required("kind", Text, "Why it counts nowhere: a `RefusalKind`, such as `conflict`."),
    required("append_ms", BigInteger, "When the log took the record in."),
    required("state", Text, "`redriving`, `redriven` or `dismissed`."),
    required("namespace", Text, "Namespace of the author, and of the event as sent again."),
    required("author", Text, "Who did it, as in `changes`."),
    required("at_ms", BigInteger, "When it was done."),
    required("note", Text, "What the author says about it; may be empty."),
    required("source", Text, "`source` of the event as sent again."),
    required("id", Text, "`id` of the event as sent again."),
    required("payload_check", LargeBinary, "Digest of the event as sent again."),
    optional("event", LargeBinary, "The event as sent again, until it is known to be in the log."),
    Index("ix_redrives_state", "owner", "state", *_ORDER),
)
