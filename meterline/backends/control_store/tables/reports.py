"""Tables of reports, runs, deliveries and attempts, on the metadata of `schema`.

`due_at_ms` of a delivery is one column with two meanings that ask for the same: when its next
attempt is due, and, while a courier holds it, when that courier's lease ends. NULL: nothing is
due ever again. So a dead courier's deliveries become due by themselves.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from meterline.backends.control_store.tables.meters import metadata

_LIVE: Final = text("deleted_at_ms IS NULL")
_DUE: Final = text("due_at_ms IS NOT NULL")
_LONG: Final = text("to_ms - from_ms > 86400000")
_DELIVERING: Final = text("state = 'delivering'")  # what is owed
# Runs that have ended and whose deliveries have their bytes, all or some.
WITH_BYTES: Final = text(
    "state IN ('succeeded', 'partly_failed', 'failed') AND deliveries > 0"
    " AND (bytes_removed_to IS NULL OR bytes_removed_to < deliveries)"
)
_REPLACES: Final = text("supersedes IS NOT NULL")
_NOTHING: Final = text("''")
_ZERO: Final = text("0")  # of columns that rows were there before

reports: Final = Table(
    "reports",
    metadata,
    Column("id", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("slug", Text, nullable=False),
    Column("meter_id", Text, ForeignKey("meters.id"), nullable=False, index=True),
    Column("interval", Text, nullable=False),
    Column("start_at_ms", BigInteger, nullable=False),
    Column("group_by", Text, nullable=False),  # JSON array
    Column("filter", Text, nullable=False),  # JSON object as in the contract
    Column("endpoint", Text, nullable=False),  # without user information
    Column("signing_secret_sealed", LargeBinary, nullable=False),
    Column("user_info_sealed", LargeBinary),
    Column("state", Text, nullable=False),
    Column("state_reason", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("deleted_at_ms", BigInteger),
    Column("next_end_ms", BigInteger, nullable=False),  # end of the first window without a run
    Column("sequence_next", BigInteger, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False, server_default=_ZERO),  # of the definition
    # The schedule that takes over where the window from `takeover_at_ms` begins, if any.
    Column("takeover_interval", Text),
    Column("takeover_start_at_ms", BigInteger),
    Column("takeover_at_ms", BigInteger),
    Column("revisions", Text, nullable=False, server_default=text("'record'")),
    Column("headers_sealed", LargeBinary),
    Column("header_names", Text, nullable=False, server_default=text("'[]'")),  # JSON array
    Column("grace_ms", BigInteger),  # NULL: that of the installation
    Column("skip_until_ms", BigInteger),  # windows that end by then are not made up for
    Index(
        "uq_reports_live_slug",
        "namespace",
        "slug",
        unique=True,
        sqlite_where=_LIVE,
        postgresql_where=_LIVE,
    ),
    Index("ix_reports_next_end_ms", "next_end_ms", sqlite_where=_LIVE, postgresql_where=_LIVE),
)

# Signing secrets that a rotation replaced and that sign on for a while; the current one of a report
# is in its row.
report_secrets: Final = Table(
    "report_secrets",
    metadata,
    Column("report_id", Text, ForeignKey("reports.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),  # by age, the oldest first
    Column("secret_sealed", LargeBinary, nullable=False),
    Column("signs_until_ms", BigInteger, nullable=False),
)

# The newest attempt of each report that did not arrive, for its status.
report_last_errors: Final = Table(
    "report_last_errors",
    metadata,
    Column("report_id", Text, ForeignKey("reports.id"), primary_key=True),
    Column("delivery_id", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("status", Integer),
    Column("reason", Text, nullable=False),
)

# The manifest of a run is in its row, NULL until it is decided. Totals are scaled integers of any
# length.
report_runs: Final = Table(
    "report_runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("report_id", Text, ForeignKey("reports.id"), nullable=False),
    Column("namespace", Text, nullable=False),
    Column("from_ms", BigInteger, nullable=False),
    Column("to_ms", BigInteger, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("trigger", Text, nullable=False),
    Column("asked_at_ms", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("supersedes", Text),
    Column("lease_holder", Text),  # of a decided run: the holder whose bodies won
    Column("lease_until_ms", BigInteger),
    Column("meter_revision", BigInteger),
    Column("decided_at_ms", BigInteger),
    Column("ended_at_ms", BigInteger),
    Column("delivered", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("deliveries", Integer),
    Column("entries", Integer),
    Column("filtered_out", Integer),
    Column("total", Text),
    Column("total_filtered_out", Text),
    Column("complete_until_ms", BigInteger),
    Column("digest", Text),
    Column("sequence_first", BigInteger),
    # How it was made, for a revision that is made likewise; NULL in runs from before these were
    # kept.
    Column("group_by", Text),
    Column("filter", Text),
    Column("counted", Text),  # JSON: the log, and by partition the end of what was counted
    Column("corrections", Integer),
    Column("corrections_digest", Text),
    Column("bytes_removed_to", Integer),  # by number of delivery; NULL: all have their bytes
    UniqueConstraint("report_id", "from_ms", "to_ms", "revision", name="uq_report_runs_window"),
    Index(
        "ix_report_runs_undecided",
        "report_id",
        "trigger",
        "to_ms",
        sqlite_where=text("state IN ('scheduled', 'waiting', 'materializing')"),
        postgresql_where=text("state IN ('scheduled', 'waiting', 'materializing')"),
    ),
    Index(
        "ix_report_runs_delivering",
        "report_id",
        "decided_at_ms",
        sqlite_where=_DELIVERING,
        postgresql_where=_DELIVERING,
    ),
    Index(
        "ix_report_runs_with_bytes",
        "decided_at_ms",
        sqlite_where=WITH_BYTES,
        postgresql_where=WITH_BYTES,
    ),
    # the order in which deliveries are listed, of a namespace and of a report
    Index("ix_report_runs_decided", "namespace", "decided_at_ms", "id"),
    Index("ix_report_runs_decided_of_report", "report_id", "decided_at_ms", "id"),
    # lists of runs in some state: few of very many
    Index("ix_report_runs_state", "report_id", "state", "to_ms"),
    # Windows that an instant lies in: most are a day long at most, and end soon after it.
    Index("ix_report_runs_window_end", "report_id", "to_ms"),
    Index(
        "ix_report_runs_long",
        "report_id",
        "from_ms",
        sqlite_where=_LONG,
        postgresql_where=_LONG,
    ),
)

# Bodies as materialized. Several holders may have written some for one run: the run's row names
# whose count.
report_bodies: Final = Table(
    "report_bodies",
    metadata,
    Column("run_id", Text, ForeignKey("report_runs.id"), primary_key=True),
    Column("holder", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("delivery_id", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("usage_digest", LargeBinary, nullable=False),
    Column("supersedes", Text),
    Column("body", LargeBinary, nullable=False),
    Column("failure", Text),  # as in deliveries; the body is empty, and gone with the decision
)

report_deliveries: Final = Table(
    "report_deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("run_id", Text, ForeignKey("report_runs.id"), nullable=False),
    Column("report_id", Text, ForeignKey("reports.id"), nullable=False),
    Column("holder", Text, nullable=False),  # with run and number: its body
    Column("subject", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at_ms", BigInteger),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("ended_at_ms", BigInteger),
    Column("digest", LargeBinary, nullable=False),
    Column("usage_digest", LargeBinary, nullable=False),
    Column("supersedes", Text),
    Column("attempts_before", Integer, nullable=False, server_default=_ZERO),  # the last replay
    Column("replayed_at_ms", BigInteger),
    Column("failure", Text),  # why it has no bytes and is never sent; NULL of nearly all
    UniqueConstraint("run_id", "number", name="uq_report_deliveries_number"),
    UniqueConstraint("report_id", "sequence", name="uq_report_deliveries_sequence"),
    Index(
        "ix_report_deliveries_due",
        "report_id",
        "state",  # first tries are claimed before retries,
        "due_at_ms",
        "id",  # a hash: a run's deliveries are all due at one instant, and claimed in no order
        sqlite_where=_DUE,
        postgresql_where=_DUE,
    ),
    Index("ix_report_deliveries_subject", "run_id", "subject"),
    Index(
        "ix_report_deliveries_supersedes",
        "supersedes",
        sqlite_where=_REPLACES,
        postgresql_where=_REPLACES,
    ),
)

# How endpoints fare, those that were heard of (`endpoint_health`).
report_endpoints: Final = Table(
    "report_endpoints",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("endpoint", Text, primary_key=True),  # without user information
    Column("last_success_at_ms", BigInteger),
    Column("failing_since_ms", BigInteger),
    Column("last_failure_at_ms", BigInteger),
    Column("outages", Integer, nullable=False),
    Column("places", Integer),
    Column("probe_at_ms", BigInteger),
    Column("reason", Text, nullable=False),
    Column("faults", Integer, nullable=False, server_default=_ZERO),
    Column("alarms", Integer, nullable=False, server_default=_ZERO),
    Column("probes", Integer, nullable=False, server_default=_ZERO),
)

report_attempts: Final = Table(
    "report_attempts",
    metadata,
    Column("delivery_id", Text, ForeignKey("report_deliveries.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("started_at_ms", BigInteger, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("duration_ms", BigInteger, nullable=False),
    Column("status", Integer),
    Column("reason", Text, nullable=False),
    Column("answer", LargeBinary, nullable=False),
    Column("next_attempt_at_ms", BigInteger),
    Column("endpoint", Text, nullable=False, server_default=_NOTHING),  # where it went
)
