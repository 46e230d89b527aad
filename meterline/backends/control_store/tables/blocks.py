"""The table of blocks: which of them are read."""

from typing import Final

from sqlalchemy import BigInteger, Index, Integer, Text

from meterline.backends.control_store.tables.columns import key, optional, required, table

# Blocks: tallies of sealed slices, added up in the usage store by hour and day.
blocks: Final = table(
    "blocks",
    key("number", BigInteger, "Its number: the time it was begun, and random bits."),
    required("log", Integer, "Number of the log."),
    required("stretches", Text, "JSON: for each partition its number, first offset and end."),
    required("revision_after", BigInteger, "Its rows are of revisions above this one."),
    required("revision_upto", BigInteger, "Its rows are of revisions up to this one."),
    required("begin_ms", BigInteger, "Its slices were appended then or later; 0: not known."),
    required("end_ms", BigInteger, "Slices behind it were appended then or later; 0: not known."),
    required("state", Text, "A `BlockState`, such as `making` or `readable`."),
    required("changed_at_ms", BigInteger, "When it came to this state."),
    optional("row_counts", Text, "JSON: its rows by table of the usage store; NULL until counted."),
    Index("ix_blocks_log", "log"),
)
