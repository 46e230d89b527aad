"""Every bound of the system, with its unit and its reason.

Of settings (`meterline.runtime.settings.reading`) the defaults are here. What decides how a stored
row looks (`SLICE_*`, `PACK_*`, digits) is pinned when a log is made.
"""

from typing import Final

# --- the gateway (contract section 8 leaves the numbers open) ---
BODY_BYTES_MAX: Final = 10 * 1024 * 1024  # as sent, and again after gzip: bounds memory per request
REQUEST_LINE_BYTES_MAX: Final = 64 * 1024  # a URL with as many filters as may be
GZIP_MEMBERS_MAX: Final = 1_000  # of one body; each costs a start, also an empty one
BODIES_BYTES_MAX: Final = 384 * 1024 * 1024  # in memory at one time: 38 of the largest size
BODIES_BYTES_OF_ONE_MAX: Final = BODIES_BYTES_MAX // 2  # of an API key: others have room
BODY_READ_TIMEOUT_S: Final = 30  # a slower body holds a connection and memory for nothing
EVENT_BYTES_MAX: Final = 256 * 1024  # after splicing; a pack must hold at least three such events
BATCH_EVENTS_MAX: Final = 10_000  # events of one request: bounds the time one answer takes
SPLIT_COMMAS_MAX: Final = 200_000  # of a batch split without a look at it: 14 MB if all part it
ATTRIBUTE_CHARS_MAX: Final = 1_024  # id, source, type, subject, each: they are keys of rows
JSON_DEPTH_MAX: Final = 64  # nesting of an event; far below the decoder's own recursion limit
NUMBER_CHARS_MAX: Final = 1_024  # digits on either side of the point; beyond, out of range or 0
INTEGER_TEXT_CHARS_MAX: Final = 4_300  # of an integer in an event: what decoders of JSON bear
EVENT_TIME_MIN_MS: Final = 0  # 1970-01-01T00:00:00Z: windows are unsigned minutes
EVENT_TIME_MAX_MS: Final = 4_102_444_800_000  # 2100-01-01T00:00:00Z: within ClickHouse's DateTime
PROBLEM_ERRORS_MAX: Final = 100  # faults listed in one problem: the answer must stay readable
JUDGED_BYTES_MAX: Final = 1024 * 1024  # of events looked at closely, once one is refused

# --- access (contract sections 5 and 8) ---
AUTHORIZATION_CHARS_MAX: Final = 512  # of the header; a key has 74
KEYS_MAX: Final = 1_000  # of one namespace that are not revoked: a key a client, not a key a user
KEYS_HELD_MAX: Final = 100_000  # at hand in one process; about 700 bytes each
KEYS_READ_ROWS: Final = 2_000  # of one step of taking keys in: others on the loop get their turn
KEY_REVOKED_SHOWN_MS: Final = 7 * 24 * 60 * 60 * 1_000  # "is revoked", after it "is not known"
KEY_NAME_CHARS_MAX: Final = 256
PLAN_NAME_CHARS_MAX: Final = 64
HOST_CHARS_MAX: Final = 260  # of a host with its port: a name has 253 by RFC 1035
ALLOWED_HOSTS_MAX: Final = 1_000  # a setting that people write: more is a mistake
KEY_OVERLAP_S: Final = 24 * 60 * 60  # after a rotation: a day to bring the new secret everywhere
KEY_OVERLAP_S_MAX: Final = 30 * 24 * 60 * 60
KEYS_POLL_S: Final = 1.0  # a revoked key must be refused within 5 s, though an answer be slow
KEYS_READ_TIMEOUT_S: Final = 1.3  # of each answer: three of them and a poll are within 5 s
LAST_USED_WRITE_S: Final = 10  # of keys, together: showing it must not cost a write a request
MISSING_PLANS_LOGGED_MAX: Final = 1_000  # log lines of a process about keys without their plan
LIMITED_MAX: Final = 100_000  # callers whose use is remembered; beyond it the longest idle is not
STRANGER_REQUESTS_MAX: Final = 1_000  # without a good key, of one address in the window below
STRANGER_WINDOW_S: Final = 60  # a sender with a wrong key that tries 16 times a second is let be
LIMIT_WINDOW_S_MAX: Final = 86_400
LIMIT_QUOTA_MAX: Final = 1_000_000_000_000
CHANGE_DETAIL_CHARS_MAX: Final = 256
CHANGE_VALUE_BYTES_MAX: Final = 4_096  # of a value in the record of changes; larger: its hash
SECRET_SHOWN_ONCE_MS: Final = 60_000  # showings of a secret to one author: one line a minute

# --- log lines ---
LOG_REPEATS_MAX: Final = 10  # lines a minute of one fault: each request and client could write one
LOG_REPEAT_S: Final = 60.0
LOG_REPEATS_KNOWN_MAX: Final = (
    1_000  # faults that are told apart; beyond it the oldest is new again
)

# --- metrics (docs/metrics.md) ---
METRIC_OPERATIONS_MAX: Final = 200  # operations of the API as a label: more than there are
METRIC_ASK_S: Final = 10.0  # between two looks into the stores for gauges: scrapes come as often
METRIC_WAIT_S: Final = 1.0  # of a scrape for such a look; then it tells what is known
METRIC_ASK_TIMEOUT_S: Final = 5.0  # of one look: a store that hangs must not gather lookers
# Freshness waits for a meter that was made so long ago. Open slices take some on in a minute or
# two, of many that are made at once only so many in each round (`ADOPT_FOLDS_MAX`).
NEWER_METERS_WITHIN_MS: Final = 30 * 60 * 1_000
RUNS_LATE_MS: Final = 5 * 60 * 1_000  # due for longer: the grace is a minute, making one seconds

# --- the log ---
PACK_EVENTS_MAX: Final = 500  # below 2**POSITION_INDEX_BITS; Faust pays per record
PACK_BYTES_MAX: Final = 900_000  # below Kafka's default of 1 MiB per record
POSITION_INDEX_BITS: Final = 10  # position = offset << 10 | index of the event in its pack
PARTITIONS_EMBEDDED: Final = 4
PARTITIONS_KAFKA: Final = 8
PARTITIONS_MAX: Final = 1_024  # each costs a RocksDB store and a row per second of progress
GROWTH_OFFSETS: Final = 2**36  # from the end of a partition to what grows from it: out of reach
ROUTES_KNOWN_S: Final = 1.0  # who tells success knew so recently where events belong
GROWTH_WAIT_S: Final = 15.0  # from a growth to its marks: so far may a broker's clock step back
GROWTH_LOOK_S: Final = 1.0  # how often the command that waits for a growth looks at it,
GROWTH_TELL_S: Final = 10.0  # and how often it tells what has not changed
LAYOUT_LOOK_MS: Final = 5_000  # how often a process looks whether the log has grown
PRODUCE_DEADLINE_MS: Final = 10_000  # no 2xx for an event that is not durable within this
APPEND_DEADLINE_MS: Final = PRODUCE_DEADLINE_MS // 2  # the other half may be spent waiting for it
APPEND_QUEUE_BYTES_MAX: Final = 128 * 1024 * 1024  # appends under way in one log; else refused
COMMIT_BYTES_MAX: Final = 16 * 1024 * 1024  # of one SQLite transaction: the next waits for it
READ_BYTES_MAX: Final = 16 * 1024 * 1024  # of one read of the log, but for its first record
CLOCK_SKEW_MS: Final = 1_000  # largest difference assumed between clocks of two machines
PENDING_BYTES_MAX: Final = 64 * 1024 * 1024  # accepted, not yet durable; beyond it, 503
LOG_READ_RECORDS_MAX: Final = 16  # of one read: bounds a worker's memory and its turn
INBOX_READ_RECORDS_MAX: Final = 2_000  # of one turn of the inbox; its bytes are bounded as well
INBOX_IDS_LOOK_S: Final = 1  # whether an inbox topic was made anew: one request, for each topic
INBOX_READERS_LOOK_MS: Final = 30_000  # whether topics are read that an aggregator does not know
INBOX_READERS_TIMEOUT_S: Final = 5  # of one look: what is claimed as complete waits for it
LOG_RETENTION_DAYS: Final = 7
LOG_VACUUM_PAGES: Final = 256  # of 16 KiB, moved in one transaction: appends wait behind it
LOG_VACUUM_PAGES_MIN: Final = 1_024  # a smaller file gives nothing back
LOG_FREE_SHARE: Final = 4  # once one page in so many is free, room is given back
LOG_CONVERT_PAGES_MAX: Final = 16_384  # 256 MiB: a start writes a file of an older build anew

# --- the aggregator (docs/architecture.md, "Tallies") ---
SLICE_EVENTS_MAX: Final = 65_536
SLICE_SPAN_MS: Final = 5 * 60 * 1_000
FLUSH_EVENTS: Final = 65_536  # a flush is due after so many events,
FLUSH_BYTES: Final = 48 * 1024 * 1024  # or so much memory: another of the kind is on its way
FLUSH_LARGE_EVENTS: Final = 20_000  # of more in an interval, the next flush is later,
FLUSH_STRETCH: Final = 2.25  # so many intervals: 45,000 events have less than a tally each
FLUSH_BEHIND_MS: Final = 5_000  # so far behind the log, it is as late: fewer rows to write,
FLUSH_BEHIND_INTERVALS: Final = 3  # if that is more intervals than a usual flush explains
EVENT_ROWS_BYTES: Final = 768  # of memory, which the rows of an event take besides its text
TALLIES_HASHED_AT_ONCE: Final = 4_096  # some ten milliseconds: a gateway may share the loop
UNFLUSHED_BYTES_MAX: Final = 60 * 1024 * 1024  # of memory, in no flush yet: then counting waits
OPEN_KEY_BYTES: Final = 160  # of memory, that a new event takes until its slice is sealed
OPEN_CELL_BYTES: Final = 512  # that a tally or a member takes until then
# Of a worker, together: then slices are finished one after the other. A full slice has 10 MiB of
# keys, and tallies as its meters make them: some 40,000 of them fit besides.
OPEN_SLICES_BYTES_MIN: Final = 256 * 1024 * 1024
OPEN_SLICES_PARTITION_BYTES: Final = 32 * 1024 * 1024  # for each partition of the log
OPEN_SLICES_BYTES_MAX: Final = 1024**4
OPEN_TURN_MS: Final = 10_000  # a partition without a record for so long lets another one go on
SEALS_AT_ONCE_MAX: Final = 2  # of a worker: slices of all partitions end at one moment, and each
# seal asks the usage store for all of its slice. So they rest so many times as long as one took,
SEAL_RESTS: Final = 9
# but all of a round are set in this part of a span: until then their keys take memory. They do not
SEALS_SPREAD_PART: Final = 5
SEAL_LATE_PART: Final = 2  # rest where the slice behind is full to such a part, or its span over.
FLUSH_INTERVAL_MS: Final = 1_000  # or after so long: with it grows the time from 2xx to queryable
GROUPS_REMEMBERED_MAX: Final = 10_000  # encoded group values a meter keeps at hand
INSTANTS_REMEMBERED_MAX: Final = 4_096  # parsed timestamps at hand,
MINUTES_REMEMBERED_MAX: Final = 4_096  # and minutes that they lie in
TEXTS_SHARED_MAX: Final = 16_384  # subjects and the like of events: some MB, then it begins anew
FLUSH_MONTHS_MAX: Final = 50  # ClickHouse refuses an insert that spans over 100 of its partitions
HORIZON_DAYS: Final = 35  # deduplication horizon: a month and a grace
REJECTED_VALUE_CHARS_MAX: Final = 256  # of a value that is listed as rejected
REJECT_TEXT_BYTES_MAX: Final = 128 * 1024  # kept of what is invalid; as JSON six times as long
SEEN_CHUNK_ROWS: Final = 50_000  # rows read at a time, of the seen table
COUNT_BACK_TRIES_MAX: Final = 5  # a slice that differs so often is a fault to be looked at

# --- numbers (docs/architecture.md, "Tallies") ---
SCALE: Final = 18  # decimal digits kept behind the point
INTEGER_DIGITS_MAX: Final = 20  # digits before the point

# --- queries ---
QUERY_TOP_MAX: Final = 1_000  # rows with the most usage: bounds what is kept while all are read
QUERY_TOP_HELD: Final = 8_192  # rows besides these, before all but the largest are let go
QUERY_ROWS_MAX: Final = 1_000_000  # of one answer: bounds memory; ask for less, then
ANSWER_PIECE_BYTES: Final = 64 * 1024  # read from the store at once: bounds memory, and one step
ANSWER_ROWS_AT_ONCE: Final = 200  # rendered on the loop, below a millisecond; more are in a thread
ANSWER_READINGS_MAX: Final = 3  # of one answer: an erasure or a merger falls into few of them
BESIDE_ROWS_MAX: Final = (
    2_048  # of minutes that are read beside blocks; of more all is read at once
)
ANSWER_PART_ROWS: Final = 2_048  # passed on at once: no fewer than a piece of the store has,
ANSWER_PART_PIECES: Final = 4  # and of so many pieces at most: rows may be wide
LARGE_ANSWERS_MAX: Final = 4  # at once, of more than one piece: bounds memory and statements
LARGE_ANSWERS_OF_NAMESPACE_MAX: Final = 3  # so that one namespace leaves places to the others
LARGE_ANSWERS_WAITING_MAX: Final = 16  # for a place; further ones are told to come back
LARGE_ANSWERS_WAITING_OF_NAMESPACE_MAX: Final = 4
LARGE_ANSWER_WAIT_S: Final = 60  # for a place; a client waits longer for an answer
ANSWER_STALL_S: Final = 30  # a reader that takes nothing for so long has gone
ANSWER_S_MAX: Final = 600  # of one answer: its place and its statement are free again after it
# What asks for usage at once: in a process, of a namespace, of a key. Others wait: in all, of a
# namespace. One namespace leaves places to others; a dashboard asks for a dozen figures at once.
QUERIES_AT_ONCE: Final = (16, 12, 8)  # each has one statement at a time
QUERIES_WAITING: Final = (400, 200)  # twenty dashboards; one who waits holds a connection
QUERY_WAIT_S: Final = 20  # for a place: dashboards give up after half a minute
SEARCHES_AT_ONCE: Final = (6, 4, 4)  # EVENT_SEARCHES_MAX of a kind have a statement
SEARCHES_WAITING: Final = (40, 20)
PREVIEWS_AT_ONCE: Final = (2, 1, 1)  # and comparisons: each reads a window, and holds what it folds
PREVIEWS_WAITING: Final = (16, 4)
PREVIEW_WAIT_S: Final = 30
CLIENT_LOOK_S: Final = 0.5  # whether who asked is still there is looked at so often
QUERY_CLOSED_WINDOWS_MAX: Final = 20_000  # above, it is first asked where usage lies at all
CHECK_HELD_S: Final = 1.0  # a store found whole is not looked at again, in the same life of it
CELL_RANGES_MAX: Final = 64  # of days or hours in one statement; more are told by a list of cells,
CELLS_LISTED_MAX: Final = 32_768  # at most: 16 months of days in a zone of half hours
LATE_ROW_MS: Final = 15 * 60 * 1_000  # behind its slice: most producers are faster
BLOCK_INSERT_ROWS: Final = 262_144  # at once: bounds what an insert holds in memory
BLOCK_MEMORY_BYTES: Final = 256 * 1024 * 1024  # of one statement, before it is on disk
BLOCK_STEP_S_MAX: Final = 1_800  # of one statement: merging the largest takes minutes
BLOCK_TALLIES_MAX: Final = 500_000  # of one new block: some seconds of one core
BLOCK_SLICES_MAX: Final = 1_000  # of one partition in a new block: bounds a statement of the ledger
BLOCK_LOOK_S: Final = 10  # between two looks for what is due
BLOCK_SEALS_WAIT_S: Final = 90  # for a round of seals, which takes a minute
# Filling in and making blocks rest so many times as long as they worked.
BUSY_RESTS: Final = 1  # while counting has records before it
LATE_RESTS: Final = 19  # while it is late: they have a twentieth of the time at least
LATE_INTERVALS: Final = 2  # of flushes: behind the log for longer is late
REST_LOOK_S: Final = 0.2  # until it is looked again how long they are to rest
BLOCK_SWEEP_S: Final = 60  # between two looks for rows that nobody reads
BLOCK_KEPT_MS: Final = 20 * 60 * 1_000  # of a replaced block: longer than any reader may read
BLOCK_MAKING_MS: Final = 6 * 60 * 60 * 1_000  # whoever began so long ago is gone
ERASURE_AGAIN_S: Final = 600  # between two looks for rows that came back, until the log has none
ERASURE_PARTS_MS: Final = 10 * 60 * 1_000  # ClickHouse keeps files of replaced parts for 8 minutes
ERASURES_OPEN_MAX: Final = 1_000  # of a namespace, not done: each is a condition of its queries
BLOCK_SNAPSHOT_S: Final = 1.0  # how old what is known of blocks may be: any age is exact
BLOCK_FAN: Final = 8  # so many columns become one: few blocks, rows seldom written again
BLOCK_ROWS_MAX: Final = 1 << 28  # of one block, all tables: its merging takes minutes, not hours
# What blocks answered is kept for whoever asks again: a month by day of 10,000 customers and more.
BLOCK_CACHE_BYTES_MAX: Final = 32 * 1024 * 1024  # of one process: embedded it has 1.2 GB in all
BLOCK_CACHE_ANSWER_BYTES_MAX: Final = 512 * 1024  # of one question: some ms to decode it each time
BLOCK_ENDS_KEPT_MAX: Final = 4_096  # questions for the first and last minute of blocks: about 1 MB
BLOCK_CACHE_RUN_SHARE: Final = BLOCK_FAN // 2  # of the largest: smaller columns are merged sooner
QUERY_WINDOWS_MAX: Final = 100_000  # windows of one answer: eleven years of hours
QUERY_SUBJECTS_MAX: Final = 1_000
QUERY_GROUP_BY_MAX: Final = 100  # OpenMeter's v3
QUERY_FILTERS_MAX: Final = 10  # keys of one filter, OpenMeter's v3
QUERY_FILTER_VALUES_MAX: Final = 100  # values of one `in`, OpenMeter's v3
QUERY_FILTER_PARTS_MAX: Final = 10  # parts of one `and` or `or`, OpenMeter's v3
QUERY_FILTER_DEPTH_MAX: Final = 2  # `and` and `or` within each other, OpenMeter's v3
PAGE_NUMBER_MAX: Final = 1_000_000  # far beyond the last page of anything
STATUS_PART_TIMEOUT_S: Final = 3  # a part that hangs must not hang the answer that says so
SEALED_ACCOUNT_MS: Final = 600_000  # so seldom the status adds up all sealed slices: 0.2 s a year
PAGE_SIZE_DEFAULT: Final = 20
PAGE_SIZE_MAX: Final = 100
EVENT_FILTER_ITEMS_MAX: Final = 50  # of a comma list, OpenMeter's v3
EVENT_FILTER_CHARS_MAX: Final = 1_024  # of a value in a filter, OpenMeter's v3
EVENT_CURSOR_CHARS_MAX: Final = 128  # longer than any that was given out
EVENTS_SPANS_MS: Final = (3_600_000, 86_400_000, 2_592_000_000)  # a page is looked for in the last
# hour, then day, then 30 days, then in everything: most are found soon
EVENTS_SEARCHED_MAX: Final = 500_000_000  # rows one search reads at most, of light columns
EVENTS_SEARCH_S_MAX: Final = 10  # a longer one holds a thread that the aggregator may want
EVENT_SEARCHES_MAX: Final = 2  # at once, of the threads below
VALUES_SEARCHED_MAX: Final = 100_000_000  # rows that a list of subjects or values reads at most
VALUES_SEARCH_S_MAX: Final = 10  # as for events
VALUE_SEARCHES_MAX: Final = 2  # at once, of the threads below
EVENTS_LIST_DAYS_MAX: Final = 32  # how far back `from` of API v1 may lie, OpenMeter's v1
EVENTS_LIST_HOURS: Final = 72  # how far back it lies if not given, OpenMeter's v1
GROUP_VALUES_DAYS_MAX: Final = 90  # how far back values of a dimension are listed, OpenMeter's v1
GROUP_VALUES_SPAN_DAYS_MAX: Final = 30  # of how long a span, OpenMeter's v1
GROUP_VALUES_HOURS: Final = 24  # of how long a span if `from` is not given, OpenMeter's v1
ACCOUNT_HOURS_MAX: Final = 31 * 24  # of one answer about what became of events
ACCOUNT_HOURS: Final = 24  # of how long a span if `from` is not given
ACCOUNT_ROWS_MAX: Final = 20_000  # of one answer: sources and types are the sender's, maybe many
CONTROL_BODY_BYTES_MAX: Final = 1024 * 1024  # bodies that define things

AUDIT_SLICES_MAX: Final = 64  # of one step of an audit: whoever asked sees it getting on
AUDIT_EVENTS_MAX: Final = 400_000  # of one step, unless a single slice has more
AUDIT_METERS_UNASKED: Final = 1  # recounted without asking first which meters have anything there
AUDIT_RUNS_MAX: Final = 50  # of one step
AUDIT_BODIES_MAX: Final = 200  # read at once
AUDIT_FINDINGS_MAX: Final = 200  # listed of one step; the others are counted
AUDIT_SPILL_BYTES: Final = 256 * 1024 * 1024  # beyond it the engine groups on disk
AUDIT_STEP_S_MAX: Final = 120  # of one statement of it

USAGE_EVENTS_MAX: Final = 200_000  # behind one usage entry: they are summed up for its first page
USAGE_EVENTS_READ: Final = 5_000  # at once
USAGE_SLICES_SHOWN: Final = 50  # of those that the events lie in; the others are counted
TRACED_EVENTS_MAX: Final = 100  # of one identity: copies of an event
TRACED_DELIVERIES_MAX: Final = 50  # of one event; each is read whole

REFUSALS_SEARCHED_MAX: Final = 2_000  # looked at for one page of those in some state
REDRIVES: Final = 100  # refusals that one request sends anew, if it does not say how many
REDRIVES_MAX: Final = 500
REDRIVE_BYTES: Final = 4 * 1024 * 1024  # of events sent anew together
DIFFERENCES_MAX: Final = 100  # listed of two payloads

# --- meters and reports ---
METERS_MAX: Final = 1_000  # of one namespace: each costs time on every matching event
METERS_SET_MAX: Final = 10_000  # of the setting: each change of one makes all processes read all
METERS_PUT_AT_ONCE: Final = 100  # of the setting, in one transaction: half a second for others
METER_CHANGES_MAX: Final = 300  # of one namespace in a minute: a whole set at once, but no loop
METER_CHANGES_WINDOW_MS: Final = 60_000
DIMENSIONS_MAX: Final = 50
LABELS_MAX: Final = 50  # OpenMeter's v3
METER_NAME_CHARS_MAX: Final = 256
METER_KEY_CHARS_MAX: Final = 64
METER_DESCRIPTION_CHARS_MAX: Final = 1_024
PATH_CHARS_MAX: Final = 1_024
PATH_CHOICES_MAX: Final = 16  # of names or indexes in brackets, multiplied: each is a walk
PATH_FILTER_QUERIES_MAX: Final = 10  # `@` in filters: each is asked for every element
PATH_FILTER_DEPTH_MAX: Final = 32  # of expressions in a filter; far below the recursion limit
SUPERSEDED_KEPT_MS: Final = 90 * 24 * 60 * 60 * 1_000  # a revision that runs may be corrected by
METER_PROPOSALS_MAX: Final = 5  # revisions of one meter that wait: each costs as a meter does
METER_TIMELINE_MAX: Final = 24  # revisions that answer for one meter, each from its first instant
REVISIONS_DROPPED_MAX: Final = 5_000  # of an installation: each is named in statements of blocks
REVISION_SLICES_COUNTED_MAX: Final = 1_000  # still to be filled in, of a partition: an indication
PREVIEW_DAYS_MAX: Final = 92  # a quarter, of the history that a meter is tried on
PREVIEW_EVENTS_MAX: Final = 500_000  # events of it that are read: ten seconds or so
PREVIEW_EVENTS_READ: Final = 5_000  # at once: bounds memory
PREVIEW_HELD_MAX: Final = 200_000  # rows and distinct values of its answer: bounds memory
PREVIEW_ROWS_RENDERED: Final = 5_000  # of its answer at once: bounds memory
PREVIEW_REJECTED_SHOWN: Final = 10  # values that it could not count: examples
SUBJECTS_MAX: Final = 20_000  # of one namespace that are described: one answer lists them all
SUBJECTS_UPSERT_MAX: Final = 1_000  # of one request: bounds a transaction
SUBJECT_NAME_CHARS_MAX: Final = 256  # display name, and customer id at another system
SUBJECT_METADATA_BYTES_MAX: Final = 4_096  # as compact JSON: the list must stay readable
REPORTS_MAX: Final = 1_000  # of one namespace: each has runs of its own to be made and kept
REPORT_SLUG_CHARS_MAX: Final = 64
REPORT_FILTER_VALUES_MAX: Final = 10_000  # operands of one $in or $nin
GRACE_MS: Final = 60_000  # a run waits so long after its window for late events
REPORT_GRACE_S_MAX: Final = 24 * 60 * 60  # of a report's own: a day later, revisions do the rest
START_SPREAD_MS: Final = 5_000  # runs that are due at once start within it
START_SPREAD_SHARE: Final = 20  # and within such a part of their window: 3 s of a minute
PREVIEW_TOO_LARGE_SHOWN: Final = 100  # subjects whose body would be too large
TRIALS_MAX: Final = 10  # test deliveries of a report within the window: they hit a receiver at once
TRIALS_WINDOW_MS: Final = 60_000
PLAN_REPORTS_MAX: Final = 100  # reports whose due windows one step records
PLAN_RUNS_MAX: Final = 500  # windows of one report that one step records: bounds a transaction
PLAN_FAILED_REST_MS: Final = 30_000  # a report whose windows cannot be recorded is tried so often
UNDECIDED_RUNS_MAX: Final = 256  # runs that are looked at together, with their reports: memory
UNDECIDED_PAGES_MAX: Final = 16  # so often in one turn, while none can be made: 4,096 of them
STAGED_BODIES_MAX: Final = 500  # bodies written in one transaction
RUN_ROWS_READ: Final = 50_000  # usage rows of a run at once: bounds memory, not how many there are
RUN_ROWS_JUDGED: Final = 5_000  # of them before others on the loop get their turn
SUBJECTS_ASKED_BYTES_MAX: Final = 32 * 1024  # of a filter's subjects that the usage store is told,
# which has a bound for what it is asked; beyond it the filter is judged when rows come
SPOOL_MEMORY_BYTES: Final = 32 * 1024 * 1024  # of what a run says, before the rest lies in a file
SPOOL_READ_BYTES: Final = 4 * 1024 * 1024  # of it at once
ENTRIES_ENCODED: Final = 1_000  # of one subject at once
GROUP_VALUES_COUNTED_MAX: Final = 10_000  # of one key, to say what makes a body large
LEFT_OUT_KEPT_MAX: Final = 100_000  # entries of one subject that the filter left out of a revision
RUNS_LISTED_MAX: Final = 100  # of one answer
DELIVERIES_LISTED_MAX: Final = 1_000  # of one answer, with their attempts
CATCH_UP_RUNS_MAX: Final = 1_000  # missed windows made up for a report; older are skipped

# --- late usage (docs/architecture.md, "The dispatcher") ---
LATE_LOOK_MS: Final = 10_000  # the log is looked at for late events so often
LATE_SETTLE_MS: Final = 60_000  # a window waits so long for more of them: they come in crowds
LATE_EVENTS_MAX: Final = 131_072  # of one partition that are looked at together, in whole slices
LATE_SLICES_MAX: Final = 64  # the same, of slices that hold few
LATE_WINDOWS_READ_MAX: Final = 20_000  # decided windows at once: bounds memory
LATE_WINDOWS_MARKED_MAX: Final = 500  # in one transaction
LATE_RUNS_MAX: Final = 100  # that one step asks for
LATE_MINUTES_APART: Final = 1_440  # touched minutes farther apart are looked up by themselves,
LATE_SPAN_MINUTES: Final = 10_080  # and so much time at once: each page of windows sorts all of it
REVISION_PAUSE_S: Final = 60 * 60  # between two late revisions of a window that events keep hitting
REVISED_DAYS: Final = 90  # so long the bytes of deliveries are kept, and their windows are revised
BYTES_REMOVED_MAX: Final = 2_000  # of deliveries in one transaction
BYTES_LOOK_S: Final = 60  # bytes that are too old are looked for so often
CORRECTIONS_STAGED_MAX: Final = 500  # written in one transaction

# --- delivery ---
RETRY_DELAYS_S: Final = (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 36_000)
RETRY_EVERY_S: Final = 24 * 60 * 60  # after those, as long as the patience lasts
RETRY_PATIENCE_S: Final = 7 * 24 * 60 * 60  # a week: a receiver that broke on a holiday is mended
RETRY_PATIENCE_S_MAX: Final = 90 * 24 * 60 * 60  # so long the bytes of deliveries are kept
RETRY_JITTER: Final = 0.2  # of the delay, both ways
RETRY_AFTER_MAX_S: Final = 86_400  # a receiver cannot push its deliveries further away than this
DELIVERY_TIMEOUT_S: Final = 15  # over connect, headers and body
DELIVERY_LEASE_S: Final = 60  # outlives the timeout; then a dead dispatcher's claim is free
DELIVERY_BODY_BYTES_MAX: Final = 8 * 1024 * 1024
DELIVERIES_IN_FLIGHT_MAX: Final = 64  # a dozen endpoints that hang leave most places to others
NAME_LOOKUP_S: Final = 5.0  # of a host name: a third of a delivery's time; most take milliseconds
# At once, a thread each: silent name servers hold one for half a minute, so six times what is in
# flight may have been given up and still go on, and living names need places beside them.
NAME_LOOKUPS_MAX: Final = 8 * DELIVERIES_IN_FLIGHT_MAX
ENDPOINT_IN_FLIGHT_MAX: Final = 8  # of them to one endpoint: one that hangs leaves places to others
ENDPOINT_UNPROVEN_MAX: Final = 2  # of one that took nothing of late: it may be about to hang
PROVEN_MS: Final = 60_000  # what is "of late"
PLACES_RESERVED_SHARE: Final = 4  # one place in so many is for endpoints that hold none
AHEAD_MS: Final = 1_000  # what an endpoint took in so long is claimed ahead of its places,
AHEAD_TIMES: Final = 2  # so many times, beside what is answered and not recorded yet
DELIVERIES_AHEAD_MAX: Final = 1_024  # no more than this: bounds memory and what a death leaves open
AHEAD_WAIT_MS: Final = 3_000  # what waits longer for a place is given back: a pause soon holds
AHEAD_BYTES_MAX: Final = 32 * 1024 * 1024  # of bodies that are claimed; then none is ahead
CLAIM_BYTES_MAX: Final = 16 * 1024 * 1024  # of the bodies of one claim, but for the first of each
BODY_SMALL_BYTES_MAX: Final = 4_096  # comes with its delivery, as text; others row by row
REPORTS_CLAIMED_MAX: Final = 32  # of one claim: with those firsts, as much as may be in hand
CLAIMED_BYTES_MAX: Final = 32 * DELIVERY_BODY_BYTES_MAX  # then none is claimed: bounds memory
RETRY_WAIT_MS: Final = 60_000  # a retry that has waited so long no longer gives way to first tries
ENDPOINT_OUTAGES: Final = 3  # attempts in a row; one is chance, two may be a restart
# Different deliveries in a row that are answered 500. Where a receiver fails for nine of ten
# customers, so many in a row are chance once in 25,000; an outage costs no more than these.
ENDPOINT_FAULTS: Final = 96
# From such a share on retries have half of the claims; no more are in hand than may still fail.
FAULTS_SHARED_FROM: Final = 3
# In a row after an outage: it was out as a whole. Out for a third, chance is once in 17,000.
CALM_ANSWERS: Final = 24
PROBE_PAUSE_S: Final = 1  # after an outage was noticed: most are over in seconds
PROBES_A_PAUSE: Final = 3  # different deliveries are tried before the pause is doubled,
PROBE_PAUSES_MAX: Final = 45  # up to so many: who is back is noticed, and served, within a minute,
# and an hour of it costs 96 + 18 + 76 attempts
RETRYING_COUNTED_MAX: Final = 10_000  # of a report or a run, where its status is shown
RETURNED_MAX: Final = 1_000  # deliveries that failed in an outage are due at its end: one statement
PAUSES_OF_AN_OUTAGE: Final = 4  # then (half a minute) an outage was no false alarm
ENDPOINT_RETRY_AFTER_MAX_S: Final = 300  # for one delivery's Retry-After to hold up all others
PROBE_PAUSE_S_MAX: Final = 60  # of the setting
ENDPOINT_SILENCE_S: Final = 2 * RETRY_EVERY_S  # between failures: it was not tried all along
SUCCESS_WRITE_MS: Final = 60_000  # of an endpoint that is well: no write for every delivery
RATE_AHEAD_MS: Final = 1_000  # deliveries of so long are claimed and wait for their turn
ENDPOINT_PER_SECOND_MAX: Final = 10_000
RESPONSE_BYTES_KEPT: Final = 1_024
RESPONSE_BYTES_READ_MAX: Final = 65_536  # so much keeps the connection; beyond it, it is closed
ENDPOINT_CHARS_MAX: Final = 2_048
REPORT_HEADERS_MAX: Final = 20  # that a report gives to its deliveries
REPORT_HEADER_NAME_CHARS_MAX: Final = 128
REPORT_HEADER_VALUE_CHARS_MAX: Final = 4_096  # a long token
REPORT_HEADERS_BYTES_MAX: Final = 6_144  # together, and ours: many servers refuse more than 8 KiB
SECRETS_OPENED_MAX: Final = 256  # that a process keeps opened, the last used
SECRETS_TRIED: Final = 100  # of the newest reports, at a start: one that opens is enough
SIGNING_SECRET_BYTES: Final = 24  # Standard Webhooks asks for 24 to 64
SIGNING_OVERLAP_S: Final = 24 * 60 * 60  # after a rotation both secrets sign: a day to change over
SIGNING_OVERLAP_S_MAX: Final = 7 * 24 * 60 * 60
SIGNING_SECRETS_RETIRED_MAX: Final = 5  # that still sign: each makes the header longer
DISPATCH_IDLE_S: Final = 1.0  # due work is looked for so often, and at once when something was made
RUN_LEASE_S: Final = 120
REPLAY_PER_SECOND: Final = 20  # deliveries that a replay of many has sent again, if it says nothing
REPLAY_PER_SECOND_MAX: Final = 1_000
REPLAY_STEPS_A_SECOND: Final = 4  # a pace is kept by portions: one delivery a step is too dear
REPLAY_STEP_MAX: Final = 100  # deliveries of one step: bounds a transaction
PULL_BYTES_MAX: Final = 4 * 1024 * 1024  # of the bodies of one page of a pull, but for its first
REPLAYS_RUNNING_MAX: Final = 20  # of one namespace: each is worked at in turn

# --- the disk of the embedded stores ---
ROOM_TO_START_BYTES: Final = 32 * 1024 * 1024  # free: definitions, journals, what seen stores held
ROOM_TO_ADVISE_BYTES: Final = 1024**3  # free: below it `meterline doctor` warns
ROOM_TO_RUN_BYTES: Final = 16 * 1024 * 1024  # free: one commit of the log; below it, not ready

# --- several gateways on one port ---
WORKERS_MAX: Final = 64
WORKER_STOP_S: Final = 70.0  # until one that was told to stop is killed: requests have 60 s to end
WORKER_RETIRE_S: Final = 75.0  # then connections that nobody used are closed anyway

# --- the C allocator of a process ---
ALLOCATOR_ARENAS_MAX: Final = 2  # that threads share: each keeps what is free in it
ALLOCATOR_MAPPED_BYTES: Final = 256 * 1024  # a larger buffer goes back when it is free
ALLOCATOR_KEPT_BYTES: Final = 8 * 1024 * 1024  # free at the end of an arena; more goes back
ALLOCATOR_TRIM_S: Final = 60.0  # so often all that is free goes back, which takes some milliseconds
ENGINE_KEPT_MS: Final = 1_000  # what chDB has freed goes back within that time; itself it says 5 s
# A buffer of chDB that is no larger stays with the thread that freed it. It has 170 threads, mostly
# idle; with its own bound, 32 kB, they keep two to three times as much.
ENGINE_THREAD_BYTES: Final = 4_096

# --- servers ---
CONNECT_TIMEOUT_S: Final = 10  # for a new connection: a few losses of a packet, and TLS
LOG_TIMEOUT_S: Final = 10  # for an answer of Kafka that is no append; those have their deadline
CONTROL_STORE_TIMEOUT_S: Final = 60  # a server that hangs must not hang a step for ever
SERVER_TIMEOUT_S_MAX: Final = 600  # of each of them: beyond it a number was meant as something else

# --- the usage store ---
USAGE_STORE_THREADS_MAX: Final = 8  # statements of counting at once: a flush writes five tables
USAGE_STORE_TIMEOUT_S: Final = 60
USAGE_READS_MAX: Final = 4  # statements of readers at once: embedded, counting has the same cores
USAGE_STREAMS_MAX: Final = 12  # answers that are open at once: all large ones leave half to others
USAGE_RUN_READS_MAX: Final = 2  # statements of runs at once: they are made one after another
USAGE_RUN_STREAMS_MAX: Final = 4  # of runs and previews
USAGE_UPKEEP_MAX: Final = 4  # statements of blocks, audits and retention at once
USAGE_READ_BYTES_MAX: Final = 256 * 1024 * 1024  # that the engine holds for one statement
USAGE_RUN_BYTES_MAX: Final = 512 * 1024 * 1024  # the same, of a run: it has to be made
USAGE_READ_S_MAX: Final = 30  # until the first row: clients and proxies wait a minute or less
USAGE_MEMORY_BYTES_MAX: Final = 8 * 1024 * 1024  # of a step of one answer, before it is on disk
# Of the embedded engine. Its own bounds are for a machine that has nothing else: 5 GiB each of
# marks and indexes, of every part that was ever read.
ENGINE_CACHE_BYTES: Final = (
    ("mark_cache_size", 64 * 1024 * 1024),
    ("index_mark_cache_size", 32 * 1024 * 1024),
    ("primary_index_cache_size", 64 * 1024 * 1024),
    ("compiled_expression_cache_size", 32 * 1024 * 1024),
    ("query_condition_cache_size", 16 * 1024 * 1024),
)
# Until all replicas of a server have what was written: less than its client waits.
REPLICA_WRITE_S_MAX: Final = 20
# A replica that was not asked for so long is looked at again: to replace one takes longer.
REPLICA_REST_S: Final = 10
REPLICA_LOOKS: Final = 10  # at most: between them others write, and each table is at its end once
REPLICA_LOOK_S: Final = 0.1
RANK_WAIT_MS: Final = 10  # a block of a reader waits for counting, which under load never ends

# --- the seen store: one per partition ---
# Of all partitions of a process. Filters and indexes are in it, 1.6 bytes a key: those of 20
# million keys fit beside blocks of copies. Where they do not, look-ups read some more from disk.
SEEN_CACHE_BYTES: Final = 64 * 1024 * 1024
SEEN_FILTER_PART_BYTES: Final = 4_096  # of a filter or an index, that is read at once
SEEN_CACHE_BYTES_MIN: Final = 8 * 1024 * 1024
SEEN_CACHE_BYTES_MAX: Final = 1024**4
SEEN_WRITE_BUFFER_BYTES: Final = 8 * 1024 * 1024  # of each partition: a full slice takes 7 MB of it
SEEN_BUFFERED_KEYS_MAX: Final = 16_384  # of a partition, in memory; of more a file is made
SEEN_SHARE_KEYS: Final = 1_000_000  # read and written at a time to catch up: 40 MB, half a second
SEEN_BULKS_MAX: Final = 2  # partitions of one process that catch up at once
SEEN_TURN_KEYS: Final = 1_000  # written before others get the interpreter: half a millisecond,
SEEN_PAUSE_S: Final = 0.000_05  # and the least pause that makes the writing thread let it go
SEEN_ASIDE_MAX: Final = 3  # damaged copies of one partition kept for a person to look at

# --- a start ---
START_TIMEOUT_S: Final = 300  # a server that is started beside it is there by then
START_WAIT_S_MIN: Final = 0.5  # between two attempts; doubled
START_WAIT_S_MAX: Final = 10.0
START_TELL_S: Final = 10  # an attempt that takes longer is told, and again each time
START_PROBE_S: Final = 3  # for a connection, to tell why there is none
# A wrong password stays wrong; a server that is being set up may get its database a little later.
START_REFUSALS_MAX: Final = 4

# --- the aggregator's shells ---
CATALOGUE_POLL_MS: Final = 1_000  # a new meter is seen so soon
CATALOGUE_PAUSE_MS_MAX: Final = 60_000  # a clock that jumped meanwhile must not hold a new one up
ADOPT_LOOKED_EVENTS: Final = 16  # folded for a new meter, before it is looked who else has work
OPEN_TYPES_MAX: Final = 1_024  # of the events of an open slice: so many are known, of more none
ADOPT_FOLDS_MAX: Final = 1 << 22  # events of open slices times new meters, at once: as many rows
CLAIM_INTERVAL_MS: Final = 500  # completeness is asked for so often,
CLAIM_IDLE_MS: Final = 2_000  # and so seldom while nothing moves: each asking is a transaction
# After something moved: whoever waits for it waits the produce deadline and the skew of clocks.
CLAIM_MOVED_MS: Final = PRODUCE_DEADLINE_MS + 5 * CLOCK_SKEW_MS
# Slices are filled in a step at a time, beside counting: so many slices, new events in them, events
# times meters, and meters. A full slice of 65,536 events takes eight meters along: some hundred MB
# at most, and reading it once more for the next eight costs each of them a tenth of its share.
FILL_SLICES_MAX: Final = 2_048
FILL_EVENTS_MAX: Final = 65_536
FILL_FOLDS_MAX: Final = 8 * FILL_EVENTS_MAX
FILL_REVISIONS_MAX: Final = 200  # each is a statement of the transaction that marks them
FILL_READ_EVENTS: Final = 4_096  # raw events of one portion: bounds memory,
FILL_READ_BYTES: Final = 8 * 1024 * 1024  # and their bytes, but for the first of them
FILL_WRITE_ROWS: Final = 32_768  # of a table at once: a thread that builds them slows counting
FILL_TURN_S: Final = 0.002  # of folding, before others on the loop get theirs,
FILL_SHARE_MIN: Final = 0.05  # as long as they have any, but for this part of the time
FILL_WORKED_S_MAX: Final = 0.1  # of one turn: what is longer is a store that was waited for
FILL_QUIET_S: Final = 0.000_2  # a turn of the loop as short as this did nothing for others
FILL_WAIT_MS: Final = 1_000  # until it is asked again for what may not be filled in yet
# A worker with an older catalogue that seals late is told by nothing else: seldom enough.
FILL_LOOK_MS: Final = 5 * 60 * 1_000
# Meters that are seen so soon after others are filled in with them. The catalogue is looked at each
FILL_JOIN_MS: Final = 1_500  # second. Those that wait for others wait no longer than that:
FILL_JOIN_MS_MAX: Final = 10_000
FILL_IDLE_S: Final = 0.2  # until it is seen that the catalogue changed or a partition came
FILL_SLICE_EVENTS: Final = 50  # what a slice costs beside its events, as so many events: estimates
SWITCH_CHECK_MS: Final = 1_000  # a revision that is filled in answers so soon
TRIM_INTERVAL_MS: Final = 60_000
RETENTION_INTERVAL_MS: Final = 60 * 60 * 1_000  # periods that are too old are looked for so often
SEALS_LESSENED_MAX: Final = 5_000  # in one transaction: well below a second
DROPPED_SLICES_READ_MAX: Final = 100_000  # in one answer: some tens of MB
SEAL_SUMS_MAX: Final = 10  # made in a minute, of up to 1,000 seals each: well below a second
SEEN_MARGIN_DAYS: Final = 7  # beyond the horizon: clocks of a log that step back by days
# From a notice to the drop: copies of both stores that are made within a day agree.
RETENTION_NOTICE_MS: Final = 24 * 60 * 60 * 1_000
IDLE_SLICE_MS: Final = 60 * 60 * 1_000  # then a slice is closed: far below any retention
POLL_BUSY_S: Final = 0.05  # until the embedded worker looks again while it has rows to write
POLL_IDLE_S: Final = 1.0  # and while nothing moves: an append wakes it, a new meter is seen so soon
CATCH_UP_LOG_S: Final = 5.0  # how far a partition is that catches up is logged so often,
CATCH_UP_TELL_MS: Final = 1_000  # and told to the control store, for the status
CATCH_UP_STALE_MS: Final = 60_000  # after so long nobody is at it any more: the worker ended
HOUSEKEEPING_INTERVAL_S: Final = 0.1
WORKER_BACKOFF_MIN_S: Final = 0.2
WORKER_BACKOFF_MAX_S: Final = 10.0
FAUST_BUFFER_RECORDS_MAX: Final = 32  # Faust's default of 4,096 packs would be gigabytes
FAUST_AHEAD_RECORDS_MAX: Final = 256  # of a partition that catches up: its time is others', too
FAUST_HELD_RECORDS_MAX: Final = 65_536  # of a partition not counted yet, as ranges: then it waits
PAST_LOOK_MS: Final = 100  # while Faust is held up, the log is asked so often for other partitions
FAUST_SESSION_TIMEOUT_S: Final = 30.0
FAUST_COMMIT_LATE_S: Final = 1_800.0  # a slice, its turn for memory and its seal take minutes
FAUST_STOP_TIMEOUT_S: Final = 10.0  # well below the 30 s that containers are given to stop
FAUST_METADATA_MAX_AGE_MS: Final = 5_000  # a broker that just started may not know the topic yet
REREAD_TURN_S: Final = 0.05  # of reading a dropped slice again, between other work,
REREAD_ALONE_S: Final = 0.5  # and of all partitions together, where no other one is counted
BACKFILL_YIELD_EVENTS: Final = 500  # events folded before others on the loop get their turn
SILENT_AFTER_S: Final = 5  # lag without progress for so long: the log is read past Faust
SILENT_BESIDE_OTHERS_AFTER_S: Final = 30  # while it brings others: it brings one after another
STALLED_AFTER_S: Final = 120  # lag without progress for so long ends the process
STUCK_LOOK_S: Final = 5  # how often a worker is looked at for that
STUCK_STOP_S: Final = 10.0  # for a good end of one that is stuck; then the process ends without
LOOP_LOOK_S: Final = 5  # how often the event loop of a process is looked at
LOOP_STANDS_S: Final = 30  # without a turn, after which the stacks of its threads are written
LOOP_ENDS_S: Final = 300  # and the process ends: nothing that it does takes so long without a turn

# --- traces: each bound is of one process ---
TRACE_LINKS_MAX: Final = 32  # of a span, to other traces: a page shows no more
TRACE_EVENTS_MAX: Final = 16  # of a request: 73 bytes each in the log
TRACE_STATE_CHARS_MAX: Final = 512  # W3C 3.3.1.5: at least so much is passed on
TRACE_ATTRIBUTE_CHARS_MAX: Final = 256
SPANS_PER_SECOND_MAX: Final = 1_000  # whatever callers ask for: a tenth of a core to encode
SPANS_QUEUED_MAX: Final = 4_096  # of 2 kB: 8 MB while the collector is away
SPANS_EXPORTED_MAX: Final = 512  # at once
SPANS_EXPORT_S: Final = 5.0  # for the collector to answer; then they are given up
SPANS_EXPORT_EVERY_MS: Final = 2_000
SPANS_STOP_S: Final = 2.0  # a process that ends waits so long for its last spans
TRACED_RUNS_REMEMBERED_MAX: Final = 256
TRACED_OF_RUN_MAX: Final = 1_000  # events that are read for their traces,
TRACED_OF_SUBJECT_MAX: Final = 8  # and of one subject: the links of a delivery
TRACED_BODY_BYTES_MAX: Final = 65_536  # a larger body is not read for what it reports
TRACE_LOOK_S: Final = 2.0  # in the usage store, for the events behind a run
TRACE_TASKS_MAX: Final = 64  # questions for them that wait, one is asked at a time; and runs
TRACE_WAIT_S: Final = 0.1  # of an attempt for an answer, since it was asked
TRACE_PAUSE_S: Final = 30.0  # until a question that failed is asked again
TRACE_LOOK_ROWS_MAX: Final = 2_000_000  # as of a search of a second

# --- the console ---
CONSOLE_ASSET_AGE_S: Final = 365 * 24 * 60 * 60  # its name changes when it does
CONSOLE_GZIP_BYTES_MIN: Final = 1_024  # below, a packet carries it either way
SESSION_S: Final = 30 * 60  # a page that nobody uses signs itself out
SESSION_WHOLE_S: Final = 12 * 60 * 60  # with every renewal: a working day
SESSIONS_PER_KEY_MAX: Final = 100  # the oldest goes: a key is one person or a small team
SESSION_REMEMBERED_MS: Final = 2_000  # signing out is known to every process so soon
SESSIONS_REMEMBERED_MAX: Final = 10_000  # in a process: some MB
SIGN_IN_REFUSALS_MAX: Final = 30  # wrong keys in SIGN_IN_WINDOW_S: people mistype, machines search
SIGN_IN_WINDOW_S: Final = 60

# --- archives ---
ARCHIVE_PIECE_BYTES: Final = 4 * 1024 * 1024  # of lines read, and inserted, at once: bounds memory
ARCHIVE_ROWS: Final = 500  # of the control store, in one statement
ARCHIVE_BODIES: Final = 16  # of deliveries in one statement: each may have some MB
ARCHIVE_RECORDS: Final = 1_000  # of the log, read at once; 16 MB at most
ARCHIVE_LOG_TRIES: Final = 5  # of a log that is busy; it waits ten seconds for each, or a minute
ARCHIVE_LINE_BYTES_MAX: Final = 2 * DELIVERY_BODY_BYTES_MAX  # a body as Base64 is the longest one
ARCHIVE_MANIFEST_BYTES_MAX: Final = 4 * 1024 * 1024  # some hundred bytes for each file
ARCHIVE_FINDINGS_MAX: Final = 20  # differences that a restore lists; the others are counted
ARCHIVE_TRIES: Final = 3  # blocks or minutes that are dropped, or an erasure, begin a backup anew
ARCHIVE_ERASING_MS: Final = 30 * 60 * 1_000  # a backup waits for erasures: each takes ten minutes
ARCHIVE_LOOK_S: Final = 1.0  # between two looks whether they are done
ARCHIVE_MS_MAX: Final = 20 * 60 * 60 * 1_000  # well below RETENTION_NOTICE_MS
ARCHIVE_ORDER_BYTES_MAX: Final = 64 * 1024  # what is asked of a server, and each line of its answer
