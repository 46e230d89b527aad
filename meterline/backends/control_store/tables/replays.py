"""The table of replays of many deliveries."""

from typing import Final

from sqlalchemy import BigInteger, Index, Integer, Text

from meterline.backends.control_store.tables.columns import (
    key,
    optional,
    partial_index,
    required,
    table,
)

# Replays. A replay works in steps, oldest delivery last, until no delivery is left that it covers.
replays: Final = table(
    "replays",
    key("id", Text, "Id of the replay."),
    required("namespace", Text, "Namespace of the deliveries."),
    # Which deliveries it covers (`DeliveryQuery`): all conditions must hold, NULL is no condition.
    optional("report_id", Text, "Deliveries of this report."),
    optional("run_id", Text, "Deliveries of this run."),
    optional("subject", Text, "Deliveries of this subject."),
    optional("from_min_ms", BigInteger, "Windows that start then or later."),
    optional("to_max_ms", BigInteger, "Windows that end then or earlier."),
    optional("failed_since_ms", BigInteger, "Deliveries that failed then or later."),
    optional("decided_max_ms", BigInteger, "Runs that were decided then or earlier."),
    required("per_second", Integer, "How many deliveries a second it sends at most."),
    required("created_at_ms", BigInteger, "When it was created."),
    required("state", Text, "`running`, `done` or `cancelled`."),
    required("counted", BigInteger, "Number of deliveries that it covered at its start."),
    required("replayed", BigInteger, "Number that it has sent again."),
    required("in_flight", BigInteger, "Number left alone, because they were being sent."),
    required("refused", BigInteger, "Number that could not be sent again."),
    optional("ended_at_ms", BigInteger, "When it was done or cancelled."),
    optional("due_at_ms", BigInteger, "When its next step is due; NULL once it ended."),
    # The last delivery that it reached (`DeliveryPlace`); NULL before the first step.
    optional("after_decided_at_ms", BigInteger, "When the run of that delivery was decided."),
    optional("after_run_id", Text, "Run of that delivery."),
    optional("after_number", Integer, "Number of that delivery in its run."),
    Index("ix_replays_namespace", "namespace", "id"),
    partial_index("ix_replays_due", "due_at_ms", where="due_at_ms IS NOT NULL"),
)
