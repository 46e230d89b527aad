"""Tables of late usage and of what it corrects."""

from typing import Final

from sqlalchemy import BigInteger, Integer, LargeBinary, Text

from meterline.backends.control_store.tables.columns import (
    key,
    optional,
    partial_index,
    required,
    table,
)

# What a run corrects of the run before it, one row for each usage entry. Several holders may have
# written rows for one run: those of `report_runs.lease_holder` count.
run_corrections: Final = table(
    "run_corrections",
    key("run_id", Text, "Run that corrects.", of="report_runs.id"),
    key("holder", Text, "Process that wrote the row."),
    key("number", Integer, "Place in the run, from 1."),
    required("subject", Text, "Subject of the entry."),
    required("groups", Text, "JSON object: group-by keys of the entry with their values."),
    optional("old_value", Text, "Value as sent, a scaled integer; NULL: there was no entry."),
    optional("new_value", Text, "Value as it is, a scaled integer; NULL: there is no entry."),
    required("cause", Text, "Why it differs: a `Cause`, such as `late_usage`."),
    optional("replaces", Text, "Delivery that said the old value."),
    optional("replaced_digest", LargeBinary, "Digest of the bytes of that delivery."),
)

# How far each partition was searched for late events.
late_looks: Final = table(
    "late_looks",
    key("log", Integer, "Number of the log."),
    key("partition", Integer, "Partition of the log."),
    required("begun_end", BigInteger, "Offset up to which a search was begun."),
    required("looked_end", BigInteger, "Offset up to which a search was finished."),
)

# Windows that late events were found for.
late_windows: Final = table(
    "late_windows",
    key("report_id", Text, "Report of the window.", of="reports.id"),
    key("from_ms", BigInteger, "Start of the window."),
    key("to_ms", BigInteger, "End of the window."),
    optional("due_at_ms", BigInteger, "When it may be revised; NULL: nothing to revise."),
    required("revised_at_ms", BigInteger, "When it was last revised; 0: never."),
    partial_index("ix_late_windows_due", "due_at_ms", where="due_at_ms IS NOT NULL"),
)
