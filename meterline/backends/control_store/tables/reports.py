"""Tables of reports, runs, deliveries and attempts, of their replays and of late usage.

A report has runs, one for each window. A run has deliveries, one for each subject. A delivery has
attempts, one for each POST.

`report_deliveries.due_at_ms` is when a delivery may be claimed. Before a delivery is claimed, that
is when its next attempt is due. While a process sends it, that is when the lease of this process
ends. So deliveries of a process that died become due by themselves. NULL: it is never due again.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Index,
    Integer,
    LargeBinary,
    Text,
    UniqueConstraint,
    and_,
    text,
)

from meterline.backends.control_store.tables.columns import (
    key,
    optional,
    partial_index,
    required,
    table,
)

_LIVE: Final = "deleted_at_ms IS NULL"
_BYTES_LEFT: Final = (
    "state IN ('succeeded', 'partly_failed', 'failed') AND deliveries > 0"
    " AND (bytes_removed_to IS NULL OR bytes_removed_to < deliveries)"
)
WITH_BYTES: Final = text(_BYTES_LEFT)
"""Runs that have ended and whose deliveries have their bytes, all or some."""

# Reports. Deleted reports stay, because runs and deliveries refer to them.
reports: Final = table(
    "reports",
    key("id", Text, "Id of the report."),
    required("namespace", Text, "Namespace of the report."),
    required("slug", Text, "Name in the API; unique among live reports of a namespace."),
    required("meter_id", Text, "Meter whose usage it sends.", of="meters.id"),
    required("interval", Text, "Length of its windows, such as `1d`."),
    required("start_at_ms", BigInteger, "Start of its first window."),
    required("group_by", Text, "JSON array: dimensions that it groups by."),
    required("filter", Text, "JSON object: filter of usage and subjects, as in the API."),
    required("endpoint", Text, "URL of the receiver, without user information."),
    required("signing_secret_sealed", LargeBinary, "Signing secret, sealed."),
    optional("user_info_sealed", LargeBinary, "`user:password` of the URL, sealed."),
    required("state", Text, "`active`, `paused` or `parked`."),
    required("state_reason", Text, "Why it is in that state; may be empty."),
    required("created_at_ms", BigInteger, "When it was created."),
    optional("deleted_at_ms", BigInteger, "When it was deleted."),
    required("next_end_ms", BigInteger, "End of the first window that has no run yet."),
    required("sequence_next", BigInteger, "Sequence number of its next delivery, from 1."),
    required("updated_at_ms", BigInteger, "When the definition last changed.", default="0"),
    # The schedule that replaces the one above, from the window that starts at `takeover_at_ms`.
    optional("takeover_interval", Text, "Length of its windows."),
    optional("takeover_start_at_ms", BigInteger, "Start of the first window as requested."),
    optional("takeover_at_ms", BigInteger, "Start of the first window of the new schedule."),
    required(
        "revisions", Text, "What is done with corrections: `record` or `send`.", default="'record'"
    ),
    optional("headers_sealed", LargeBinary, "JSON object of its HTTP headers, sealed."),
    required("header_names", Text, "JSON array: names of these headers.", default="'[]'"),
    optional("grace_ms", BigInteger, "Wait after the end of a window; NULL: as in the settings."),
    optional("skip_until_ms", BigInteger, "Windows that end by then and have no run get none."),
    Index("ix_reports_meter_id", "meter_id"),
    partial_index("uq_reports_live_slug", "namespace", "slug", where=_LIVE, unique=True),
    partial_index("ix_reports_next_end_ms", "next_end_ms", where=_LIVE),
)

# Signing secrets before the current one: they sign deliveries too, until their overlap ends.
report_secrets: Final = table(
    "report_secrets",
    key("report_id", Text, "Report of the secret.", of="reports.id"),
    key("number", Integer, "Place by age, the oldest first."),
    required("secret_sealed", LargeBinary, "The secret, sealed."),
    required("signs_until_ms", BigInteger, "When its overlap ends."),
)

# The last failed attempt of each report, for its status.
report_last_errors: Final = table(
    "report_last_errors",
    key("report_id", Text, "The report.", of="reports.id"),
    required("delivery_id", Text, "Delivery of the attempt."),
    required("at_ms", BigInteger, "When the attempt ended."),
    required("outcome", Text, "How it ended, as in `report_attempts`."),
    optional("status", Integer, "HTTP status of the response; NULL: no response."),
    required("reason", Text, "What went wrong, in words."),
)

# Runs. The columns from `deliveries` on are the manifest: NULL until the run is decided.
report_runs: Final = table(
    "report_runs",
    key("id", Text, "Id of the run: a hash of report, window and revision."),
    required("report_id", Text, "Report of the run.", of="reports.id"),
    required("namespace", Text, "Namespace of the report."),
    required("from_ms", BigInteger, "Start of the window."),
    required("to_ms", BigInteger, "End of the window."),
    required("revision", Integer, "1 for the first run of a window, then 2, 3, ..."),
    required("trigger", Text, "Why it exists: `schedule`, `manual` or `late`."),
    required("asked_at_ms", BigInteger, "When it was found due, or requested."),
    required("state", Text, "A `RunState`, such as `waiting` or `delivering`."),
    required("reason", Text, "Why it is in that state; may be empty."),
    optional("supersedes", Text, "Run of the revision before."),
    optional("lease_holder", Text, "Process that makes it; once decided, the one that made it."),
    optional("lease_until_ms", BigInteger, "When the lease of that process ends."),
    optional("meter_revision", BigInteger, "Revision of the meter that was asked."),
    optional("decided_at_ms", BigInteger, "When it was decided: its deliveries never change."),
    optional("ended_at_ms", BigInteger, "When the last of its deliveries ended."),
    required("delivered", Integer, "Number of deliveries that were delivered."),
    required("failed", Integer, "Number of deliveries that failed or were cancelled."),
    optional("deliveries", Integer, "Number of deliveries."),
    optional("entries", Integer, "Number of usage entries in them."),
    optional("filtered_out", Integer, "Number of entries that did not pass the filter."),
    optional("total", Text, "Sum of the entries, a scaled integer of any length."),
    optional("total_filtered_out", Text, "Sum of the entries that did not pass, likewise."),
    optional("complete_until_ms", BigInteger, "The usage was complete up to this instant."),
    optional("digest", Text, "Digest of the deliveries, in hex."),
    optional("sequence_first", BigInteger, "Sequence of its first delivery; 0: it has none."),
    # How it was made, so that a revision is made alike. NULL in runs of old builds.
    optional("group_by", Text, "`group_by` of the report at that time."),
    optional("filter", Text, "`filter` of the report at that time."),
    optional("counted", Text, "JSON: number of the log, and offsets up to which it was counted."),
    optional("corrections", Integer, "Number of corrections; NULL in a first run."),
    optional("corrections_digest", Text, "Digest of the corrections, in hex."),
    optional("bytes_removed_to", Integer, "Bodies up to this number are removed; NULL: none."),
    UniqueConstraint("report_id", "from_ms", "to_ms", "revision", name="uq_report_runs_window"),
    partial_index(
        *("ix_report_runs_undecided", "report_id", "trigger", "to_ms"),
        where="state IN ('scheduled', 'waiting', 'materializing')",
    ),
    partial_index(
        *("ix_report_runs_delivering", "report_id", "decided_at_ms"),
        where="state = 'delivering'",
    ),
    partial_index("ix_report_runs_with_bytes", "decided_at_ms", where=_BYTES_LEFT),
    # The order in which deliveries are listed, of a namespace and of a report.
    Index("ix_report_runs_decided", "namespace", "decided_at_ms", "id"),
    Index("ix_report_runs_decided_of_report", "report_id", "decided_at_ms", "id"),
    # Lists of runs in some state: few of very many.
    Index("ix_report_runs_state", "report_id", "state", "to_ms"),
    # Windows around an instant: most are a day long at most and end soon after it.
    Index("ix_report_runs_window_end", "report_id", "to_ms"),
    partial_index(
        *("ix_report_runs_long", "report_id", "from_ms"), where="to_ms - from_ms > 86400000"
    ),
)

# The bytes that are sent. Several holders may have written bodies for one run: those of
# `report_runs.lease_holder` count.
report_bodies: Final = table(
    "report_bodies",
    key("run_id", Text, "Run of the delivery.", of="report_runs.id"),
    key("holder", Text, "Process that made the body."),
    key("number", Integer, "Place of the delivery in its run, from 1."),
    required("delivery_id", Text, "Id of the delivery."),
    required("subject", Text, "Subject of the delivery."),
    required("sequence", BigInteger, "Sequence number of the delivery."),
    required("digest", LargeBinary, "Digest of the body."),
    required("usage_digest", LargeBinary, "Digest of its usage entries alone."),
    optional("supersedes", Text, "Delivery whose figures it replaces."),
    required("body", LargeBinary, "The bytes."),
    optional("failure", Text, "As in `report_deliveries`; then the body is empty."),
)

# Deliveries, made with the decision of their run.
report_deliveries: Final = table(
    "report_deliveries",
    key("id", Text, "Id of the delivery: a hash of report, window, subject and revision."),
    required("run_id", Text, "Run of the delivery.", of="report_runs.id"),
    required("report_id", Text, "Report of the run.", of="reports.id"),
    required("holder", Text, "With `run_id` and `number`, the key of its body."),
    required("subject", Text, "Subject that it reports on."),
    required("number", Integer, "Place in the run, from 1."),
    required("sequence", BigInteger, "Place among all deliveries of the report, without gaps."),
    required("revision", Integer, "Revision of the run."),
    required("state", Text, "A `DeliveryState`, such as `pending` or `delivered`."),
    required("attempts", Integer, "Number of attempts so far."),
    optional("due_at_ms", BigInteger, "When it may be claimed, see the top of this file."),
    required("created_at_ms", BigInteger, "When it was created."),
    optional("ended_at_ms", BigInteger, "When it was delivered, failed or cancelled."),
    required("digest", LargeBinary, "Digest of the body."),
    required("usage_digest", LargeBinary, "Digest of its usage entries alone."),
    optional("supersedes", Text, "Delivery whose figures it replaces."),
    required("attempts_before", Integer, "Attempts before the last replay.", default="0"),
    optional("replayed_at_ms", BigInteger, "When it was last replayed."),
    optional("failure", Text, "Why it could not be made and is never sent; NULL for nearly all."),
    UniqueConstraint("run_id", "number", name="uq_report_deliveries_number"),
    UniqueConstraint("report_id", "sequence", name="uq_report_deliveries_sequence"),
    # First attempts are claimed before retries, hence the state. The id is a hash: deliveries of a
    # run, which are due at the same instant, are claimed in no order of subjects.
    partial_index(
        *("ix_report_deliveries_due", "report_id", "state", "due_at_ms", "id"),
        where="due_at_ms IS NOT NULL",
    ),
    Index("ix_report_deliveries_subject", "run_id", "subject"),
    partial_index("ix_report_deliveries_supersedes", "supersedes", where="supersedes IS NOT NULL"),
)

BODY_OF_DELIVERY: Final = and_(
    report_bodies.c.run_id == report_deliveries.c.run_id,
    report_bodies.c.holder == report_deliveries.c.holder,
    report_bodies.c.number == report_deliveries.c.number,
)
"""How deliveries are joined with their bodies."""

# Health of endpoints (`endpoint_health`); an endpoint without a row was never sent anything.
report_endpoints: Final = table(
    "report_endpoints",
    key("namespace", Text, "Namespace of the reports."),
    key("endpoint", Text, "URL without user information."),
    optional("last_success_at_ms", BigInteger, "When it last accepted a delivery, to a minute."),
    optional("failing_since_ms", BigInteger, "First failure since the last success."),
    optional("last_failure_at_ms", BigInteger, "Last failure."),
    required("outages", Integer, "Attempts in a row that found it down."),
    optional("places", Integer, "Deliveries at once while it recovers; NULL: no limit of its own."),
    optional("probe_at_ms", BigInteger, "Next test of an endpoint that is down; NULL: it is up."),
    required("reason", Text, "What its last failure was; may be empty."),
    required("faults", Integer, "Deliveries in a row that failed at first attempt.", default="0"),
    required("alarms", Integer, "Recent outages that may have been none.", default="0"),
    required("probes", Integer, "Tests that failed since it is down.", default="0"),
)

# Attempts: each POST of a delivery.
report_attempts: Final = table(
    "report_attempts",
    key("delivery_id", Text, "The delivery.", of="report_deliveries.id"),
    key("number", Integer, "Place among its attempts, from 1."),
    required("started_at_ms", BigInteger, "When it started."),
    required("outcome", Text, "An `AttemptOutcome`, such as `delivered` or `refused`."),
    required("duration_ms", BigInteger, "How long it took."),
    optional("status", Integer, "HTTP status of the response; NULL: no response."),
    required("reason", Text, "What went wrong, in words; empty if nothing did."),
    required("answer", LargeBinary, "Start of the response body."),
    optional("next_attempt_at_ms", BigInteger, "When the next attempt is due; NULL: none is."),
    required("endpoint", Text, "URL it went to; empty in attempts of old builds.", default="''"),
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

LAST_ATTEMPT: Final = and_(
    report_attempts.c.delivery_id == report_deliveries.c.id,
    report_attempts.c.number == report_deliveries.c.attempts,
)
"""How deliveries are joined with their last attempts."""
