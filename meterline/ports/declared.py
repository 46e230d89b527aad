"""Every metric of the product, declared once: docs/metrics.md is made from this, alerts and panels
are checked against it (docs/decisions/0070-metrics.md).
"""

from typing import Final

from meterline.limits import METRIC_OPERATIONS_MAX, PARTITIONS_MAX
from meterline.ports.metric import Kind, Label, Metric

_GATEWAY: Final = ("ingest", "control")
_COUNTING: Final = ("aggregate",)
_SENDING: Final = ("dispatch",)
_CONTROL: Final = ("control",)
_PROGRESS: Final = ("aggregate", "control")
_REPORTS: Final = ("dispatch", "control")
_ALL: Final = ("ingest", "aggregate", "dispatch", "control")

# From below a millisecond, which an append to a quiet log takes, to what ends a request.
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LONG_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_EVENTS: Final = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0)
_RATIO: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)

_PARTITION: Final = Label("partition", most=PARTITIONS_MAX)
_OPERATION: Final = Label("operation", most=METRIC_OPERATIONS_MAX)
_TABLE: Final = Label(
    "table",
    (
        *("events", "rejects", "seen", "tallies", "members", "rejected", "accounts"),
        *("late_tallies", "late_members"),
    ),
)
_LANE: Final = Label("lane", ("counting", "reading", "runs", "upkeep"))
_STORE: Final = Label("store", ("log", "usage", "control"))
STORES: Final = frozenset(_STORE.values)

# --- every role ---
BUILD_INFO: Final = Metric(
    "meterline_build_info",
    Kind.GAUGE,
    "Always 1. Its labels name the version, the role and the set-up of the process.",
    _ALL,
    (
        Label("version", most=1),
        Label("role", ("up", *_ALL)),
        Label("setup", ("embedded", "distributed")),
    ),
)
READY: Final = Metric(
    "meterline_ready",
    Kind.GAUGE,
    "1 while `/readyz` would answer 200, else 0. It is asked for every 10 seconds at most.",
    _ALL,
)
STORE_ERRORS: Final = Metric(
    "meterline_store_errors_total",
    Kind.COUNTER,
    "Requests to a store that failed, or were not answered in time: those of `meterline_ready`"
    " after 3 seconds.",
    _ALL,
    (_STORE,),
)
HTTP_REQUESTS: Final = Metric(
    "meterline_http_requests_total",
    Kind.COUNTER,
    "Requests by operation and status. `other` is whatever is no operation of the API, as probes.",
    _ALL,
    (_OPERATION, Label("status", most=64)),
)
HTTP_SECONDS: Final = Metric(
    "meterline_http_request_seconds",
    Kind.HISTOGRAM,
    "Time from the head of a request to the end of its answer.",
    _ALL,
    (_OPERATION,),
    _LONG_SECONDS,
)

TRACE_SPANS: Final = Metric(
    "meterline_trace_spans_total",
    Kind.COUNTER,
    "Spans of traces, while these are on. `failed`: the collector did not take them. `dropped`: too"
    " many a second, or too many waited.",
    _ALL,
    (Label("outcome", ("exported", "failed", "dropped")),),
)

# --- the gateway ---
INGEST_EVENTS: Final = Metric(
    "meterline_ingest_events_total",
    Kind.COUNTER,
    "Events that were sent, over HTTP or by the inbox. `accepted`: durable in the log."
    " `rate_limited`: refused with 429. `unavailable`: answered 503, may be stored or not.",
    _GATEWAY,
    (Label("outcome", ("accepted", "rate_limited", "unavailable")),),
)
INGEST_REFUSED: Final = Metric(
    "meterline_ingest_refused_requests_total",
    Kind.COUNTER,
    "Requests with events that could not be read or were invalid. How many events one held is"
    " not known.",
    _GATEWAY,
)
PACK_EVENTS: Final = Metric(
    "meterline_ingest_pack_events",
    Kind.HISTOGRAM,
    "Events of one record of the log.",
    _GATEWAY,
    buckets=_EVENTS,
)
APPEND_SECONDS: Final = Metric(
    "meterline_ingest_append_seconds",
    Kind.HISTOGRAM,
    "Time until the log had the records of one turn of a partition, on disk.",
    _GATEWAY,
    buckets=_SECONDS,
)
PENDING_BYTES: Final = Metric(
    "meterline_ingest_pending_bytes",
    Kind.GAUGE,
    "Events that were handed in and are not durable yet. At 64 MiB further ones get 503.",
    _GATEWAY,
)

# --- progress: about the whole installation, from its stores ---
LAG_RECORDS: Final = Metric(
    "meterline_log_lag_records",
    Kind.GAUGE,
    "Records of a partition of the log that are not counted yet.",
    _PROGRESS,
    (_PARTITION,),
)
LAG_SECONDS: Final = Metric(
    "meterline_log_lag_seconds",
    Kind.GAUGE,
    "How long ago all of a partition was counted, while it has records that are not; else 0.",
    _PROGRESS,
    (_PARTITION,),
)
FRESHNESS_SECONDS: Final = Metric(
    "meterline_freshness_seconds",
    Kind.GAUGE,
    "Age of the instant up to which all that was recorded is counted. At rest it is the produce"
    " deadline and the clock skew, 11 seconds, and up to 12 more. It is asked for every 10 seconds"
    " at most. It grows while a store is away. It does not while a new meter is taken on or filled"
    " in, unless some worker lacks it after half an hour.",
    _PROGRESS,
)
BACKFILL_SLICES: Final = Metric(
    "meterline_backfill_slices",
    Kind.GAUGE,
    "Slices that meters are still to be filled in from. A slice counts once for each meter.",
    _PROGRESS,
)
BACKFILL_EVENTS: Final = Metric(
    "meterline_backfill_events",
    Kind.GAUGE,
    "Events of these slices. An event counts once for each meter.",
    _PROGRESS,
)
BACKFILL_SECONDS: Final = Metric(
    "meterline_backfill_expected_seconds",
    Kind.GAUGE,
    "Until that may be expected to end, as fast as it went so far. Absent when it has just begun.",
    _PROGRESS,
)

DIFFERING_SLICES: Final = Metric(
    "meterline_differing_slices",
    Kind.GAUGE,
    "Sealed slices that differed when they were counted back, and are not mended since.",
    _PROGRESS,
)

# --- counting ---
VERDICTS: Final = Metric(
    "meterline_counting_verdicts_total",
    Kind.COUNTER,
    "Events that were counted into the usage store, by verdict. A slice that is read again is"
    " counted again: the exact account is in the status.",
    _COUNTING,
    (Label("verdict", ("new", "duplicate", "conflict", "invalid")),),
)
FLUSH_SECONDS: Final = Metric(
    "meterline_flush_seconds",
    Kind.HISTOGRAM,
    "Time to make what was folded durable: all inserts of it, and the progress.",
    _COUNTING,
    buckets=_LONG_SECONDS,
)
FLUSH_ROWS: Final = Metric(
    "meterline_flush_rows_total",
    Kind.COUNTER,
    "Rows written by counting, by table.",
    _COUNTING,
    (_TABLE,),
)
TALLIES_PER_EVENT: Final = Metric(
    "meterline_flush_tallies_per_event",
    Kind.HISTOGRAM,
    "Rows of tallies that a flush wrote for each of its events that count.",
    _COUNTING,
    buckets=_RATIO,
)
INSERT_SECONDS: Final = Metric(
    "meterline_insert_seconds",
    Kind.HISTOGRAM,
    "Time of one insert into the usage store, by table. `other`: what is no row of counting.",
    _COUNTING,
    (_TABLE,),
    _LONG_SECONDS,
)
OPEN_CELLS: Final = Metric(
    "meterline_open_cells",
    Kind.GAUGE,
    "Tallies of open slices, held in memory.",
    _COUNTING,
)
OPEN_BYTES: Final = Metric(
    "meterline_open_slices_bytes",
    Kind.GAUGE,
    "Memory of open slices, about. At `open_slices_bytes` one partition is counted after another.",
    _COUNTING,
)
SEEN_CACHE_BYTES: Final = Metric(
    "meterline_seen_cache_bytes",
    Kind.GAUGE,
    "What seen stores hold in their cache: filters, indexes and blocks. Under load it is full"
    " within minutes, at about `seen_cache_bytes`.",
    _COUNTING,
)
SEAL_AGE: Final = Metric(
    "meterline_seal_age_seconds",
    Kind.GAUGE,
    "How long the oldest open slice of this process is open. A slice of a quiet partition is open"
    " for up to an hour.",
    _COUNTING,
)
SEALS: Final = Metric(
    "meterline_seals_total",
    Kind.COUNTER,
    "Slices that were finished. `differs`: the store did not hold what was written, so the slice"
    " is read again. `left`: another process had sealed it, and it differs.",
    _COUNTING,
    (Label("outcome", ("sealed", "differs", "left")),),
)
SEEN_LOOKUPS: Final = Metric(
    "meterline_seen_lookups_total",
    Kind.COUNTER,
    "Identities of events that were looked up among all earlier ones.",
    _COUNTING,
    (Label("result", ("found", "absent")),),
)
STRAYS: Final = Metric(
    "meterline_stray_events_total",
    Kind.COUNTER,
    "Events that a gateway appended by the number of partitions of before. They count nowhere. A"
    " gateway of this release tells its sender to send them again. Others do not: replace them.",
    _COUNTING,
)
PARTITIONS_HELD: Final = Metric(
    "meterline_partitions_held",
    Kind.GAUGE,
    "Partitions that this process counts.",
    _COUNTING,
)
CATCH_UP_PARTITIONS: Final = Metric(
    "meterline_catch_up_partitions",
    Kind.GAUGE,
    "Partitions that this process is about to count: it brings up what detects their duplicates.",
    _COUNTING,
)
CATCH_UP_KEYS: Final = Metric(
    "meterline_catch_up_keys_left",
    Kind.GAUGE,
    "Keys of earlier events that such partitions still lack.",
    _COUNTING,
)
REBALANCES: Final = Metric(
    "meterline_partition_moves_total",
    Kind.COUNTER,
    "Partitions that this process took on or let go. A rebalance of the group is seen here.",
    _COUNTING,
    (Label("move", ("taken", "released")),),
)
STALLED_SECONDS: Final = Metric(
    "meterline_counting_stalled_seconds",
    Kind.GAUGE,
    "How long a partition of this process stands still with records behind it; the longest.",
    _COUNTING,
)

# --- the usage store ---
QUERY_SECONDS: Final = Metric(
    "meterline_query_seconds",
    Kind.HISTOGRAM,
    "Time of requests that ask what is stored, by what they ask for, waiting included.",
    _CONTROL,
    (Label("kind", ("usage", "search", "much")),),
    _LONG_SECONDS,
)
STATEMENT_SECONDS: Final = Metric(
    "meterline_usage_statement_seconds",
    Kind.HISTOGRAM,
    "Time of one statement to the usage store that reads, by lane; of one that streams, until its"
    " first rows.",
    ("aggregate", "dispatch", "control"),
    (_LANE,),
    _LONG_SECONDS,
)
ROWS_READ: Final = Metric(
    "meterline_usage_rows_read_total",
    Kind.COUNTER,
    "Rows that the usage store read for statements that do not stream, by lane, as the engine"
    " says at the head of an answer.",
    ("aggregate", "dispatch", "control"),
    (_LANE,),
)
ROWS_RETURNED: Final = Metric(
    "meterline_usage_rows_returned_total",
    Kind.COUNTER,
    "Rows of the answers of all statements that read, streams included, by lane.",
    ("aggregate", "dispatch", "control"),
    (_LANE,),
)

# --- reports ---
RUNS_DUE: Final = Metric(
    "meterline_runs_due",
    Kind.GAUGE,
    "Runs whose window has ended and that are not decided yet, in the whole installation.",
    _REPORTS,
)
RUNS_LATE: Final = Metric(
    "meterline_runs_late",
    Kind.GAUGE,
    "Those of them that are due for longer than five minutes.",
    _REPORTS,
)
RUNS_DECIDED: Final = Metric(
    "meterline_runs_decided_total",
    Kind.COUNTER,
    "Runs that this process materialized or closed.",
    _SENDING,
)
ATTEMPTS: Final = Metric(
    "meterline_delivery_attempts_total",
    Kind.COUNTER,
    "Attempts to deliver, by how they ended. `refused`: an answer that is no 2xx. `unreached`: no"
    " answer. `forbidden`: the address may not be dialled.",
    _SENDING,
    (Label("outcome", ("delivered", "refused", "unreached", "forbidden")),),
)
ATTEMPT_SECONDS: Final = Metric(
    "meterline_delivery_attempt_seconds",
    Kind.HISTOGRAM,
    "Time of one attempt.",
    _SENDING,
    buckets=_LONG_SECONDS,
)
DELIVERIES: Final = Metric(
    "meterline_deliveries_total",
    Kind.COUNTER,
    "What attempts made of deliveries, once it is recorded: `delivered`, `retrying`, `failed`.",
    _SENDING,
    (Label("outcome", ("delivered", "retrying", "failed")),),
)
OWED: Final = Metric(
    "meterline_deliveries_owed",
    Kind.GAUGE,
    "Deliveries that are neither delivered nor failed, in the whole installation.",
    _REPORTS,
)
OWED_SECONDS: Final = Metric(
    "meterline_deliveries_owed_age_seconds",
    Kind.GAUGE,
    "Time since the oldest run was decided that still owes a delivery; 0 where nothing is owed.",
    _REPORTS,
)
ENDPOINTS_OUT: Final = Metric(
    "meterline_endpoints_out",
    Kind.GAUGE,
    "Endpoints that are down: one delivery at a time is sent to test each.",
    _REPORTS,
)

DECLARED: Final = tuple(it for it in list(globals().values()) if isinstance(it, Metric))
