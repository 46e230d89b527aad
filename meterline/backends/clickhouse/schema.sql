-- The tables of the usage store. Every row is a pure function of the log (docs/architecture.md), so rows may be
-- written any number of times, in any order. Names in braces are filled in by schema.py: only numbers and settings.
--
-- Events, rejects and seen are partitioned by the week of their append time, by month in stores of older builds: what
-- is not kept any more is dropped by partition (docs/decisions/0049). No slice lies in two of them.
--
-- Codecs were chosen by trial (`python -m tests.bench bytes`, docs/operations.md). Tables of older builds keep theirs.

-- name: events
-- Events whose verdict is new, as accepted. Ordered along the log; the minute index serves cut minutes.
CREATE TABLE IF NOT EXISTS events (
    log UInt16 CODEC(ZSTD(1)), partition UInt16 CODEC(ZSTD(1)), offset UInt64 CODEC(Delta, ZSTD(1)),
    place UInt16 CODEC(Delta, ZSTD(1)), slice UInt64 CODEC(Delta, ZSTD(1)), append_ms Int64 CODEC(Delta, ZSTD(1)),
    key FixedString(16) CODEC(ZSTD(1)), namespace String CODEC(ZSTD(1)), type String CODEC(ZSTD(1)),
    subject String CODEC(ZSTD(1)), source String CODEC(ZSTD(1)), id String CODEC(ZSTD(1)),
    time_ms Int64 CODEC(Delta, ZSTD(1)), recorded_ms Int64 CODEC(Delta, ZSTD(1)), text String CODEC(ZSTD(1)),
    INDEX by_time time_ms TYPE minmax GRANULARITY 1,
    INDEX by_slice slice TYPE minmax GRANULARITY 1,
    INDEX by_append append_ms TYPE minmax GRANULARITY 1,
    INDEX by_recorded recorded_ms TYPE minmax GRANULARITY 1,
    INDEX by_id id TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ReplacingMergeTree
PARTITION BY toMonday(toDateTime(intDiv(append_ms, 1000), 'UTC'))
ORDER BY (log, partition, offset, place)
{durable}, {by_column};

-- name: rejects
-- Events that count nowhere: duplicates, conflicts and what could not be read. `first` is the position of the new
-- event with the same identity (in this log and partition), -1 where none is known.
CREATE TABLE IF NOT EXISTS rejects (
    log UInt16 CODEC(ZSTD(1)), partition UInt16 CODEC(ZSTD(1)), offset UInt64 CODEC(Delta, ZSTD(1)),
    place UInt16 CODEC(Delta, ZSTD(1)), slice UInt64 CODEC(Delta, ZSTD(1)), append_ms Int64 CODEC(Delta, ZSTD(1)),
    key FixedString(16) CODEC(ZSTD(1)), namespace String CODEC(ZSTD(1)), type String CODEC(ZSTD(1)),
    subject String CODEC(ZSTD(1)), source String CODEC(ZSTD(1)), id String CODEC(ZSTD(1)),
    time_ms Int64 CODEC(Delta, ZSTD(1)), recorded_ms Int64 CODEC(Delta, ZSTD(1)), text String CODEC(ZSTD(1)),
    kind String, first Int64, field String, reason String,
    INDEX by_time time_ms TYPE minmax GRANULARITY 1,
    INDEX by_slice slice TYPE minmax GRANULARITY 1,
    INDEX by_append append_ms TYPE minmax GRANULARITY 1,
    INDEX by_recorded recorded_ms TYPE minmax GRANULARITY 1,
    INDEX by_id id TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ReplacingMergeTree
PARTITION BY toMonday(toDateTime(intDiv(append_ms, 1000), 'UTC'))
ORDER BY (log, partition, offset, place)
{durable}, {by_column};

-- name: rejects_columns
-- For a table made before the listing of events: what its rows then do not say is read out of their text.
ALTER TABLE rejects
    ADD COLUMN IF NOT EXISTS type String DEFAULT JSONExtractString(text, 'type'),
    ADD COLUMN IF NOT EXISTS subject String DEFAULT JSONExtractString(text, 'subject'),
    ADD COLUMN IF NOT EXISTS source String DEFAULT JSONExtractString(text, 'source'),
    ADD COLUMN IF NOT EXISTS id String DEFAULT JSONExtractString(text, 'id'),
    ADD COLUMN IF NOT EXISTS time_ms Int64 DEFAULT append_ms,
    ADD COLUMN IF NOT EXISTS recorded_ms Int64 DEFAULT append_ms,
    ADD COLUMN IF NOT EXISTS first Int64 DEFAULT -1,
    ADD INDEX IF NOT EXISTS by_time time_ms TYPE minmax GRANULARITY 1,
    ADD INDEX IF NOT EXISTS by_slice slice TYPE minmax GRANULARITY 1,
    ADD INDEX IF NOT EXISTS by_append append_ms TYPE minmax GRANULARITY 1,
    ADD INDEX IF NOT EXISTS by_recorded recorded_ms TYPE minmax GRANULARITY 1,
    ADD INDEX IF NOT EXISTS by_id id TYPE bloom_filter(0.01) GRANULARITY 1;

-- name: events_indexes
ALTER TABLE events
    ADD INDEX IF NOT EXISTS by_append append_ms TYPE minmax GRANULARITY 1,
    ADD INDEX IF NOT EXISTS by_recorded recorded_ms TYPE minmax GRANULARITY 1,
    ADD INDEX IF NOT EXISTS by_id id TYPE bloom_filter(0.01) GRANULARITY 1;

-- name: seen
-- The first position of every key: what the seen store is rebuilt from. No personal data.
CREATE TABLE IF NOT EXISTS seen (
    log UInt16, partition UInt16, offset UInt64, place UInt16, slice UInt64, append_ms Int64,
    key FixedString(16), check FixedString(8)
) ENGINE = ReplacingMergeTree
PARTITION BY toMonday(toDateTime(intDiv(append_ms, 1000), 'UTC'))
ORDER BY (log, partition, offset, place)
{durable};

-- name: tallies
-- The absolute tally of a cell in a slice. Numbers are decimals times 10**18. Time comes before subject in the order:
-- a report asks for one window of all subjects; the bloom filters serve one subject, and count-back of one slice.
CREATE TABLE IF NOT EXISTS tallies (
    revision UInt32 CODEC(ZSTD(1)), subject String CODEC(ZSTD(1)), groups String CODEC(ZSTD(1)),
    window UInt32 CODEC(Delta, ZSTD(1)), log UInt16 CODEC(ZSTD(1)), partition UInt16 CODEC(ZSTD(1)),
    slice UInt64 CODEC(T64, ZSTD(1)), version UInt64 CODEC(T64, ZSTD(1)), total Int256 CODEC(ZSTD(1)),
    counted UInt64 CODEC(T64, ZSTD(1)), rejected UInt64 CODEC(T64, ZSTD(1)), minimum Int128 CODEC(ZSTD(1)),
    maximum Int128 CODEC(ZSTD(1)), latest_time_ms Int64 CODEC(ZSTD(1)), latest_recorded_ms Int64 CODEC(ZSTD(1)),
    latest_key FixedString(16) CODEC(ZSTD(1)), latest Int128 CODEC(ZSTD(1)),
    INDEX along_log slice TYPE minmax GRANULARITY 1,
    INDEX by_slice slice TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX by_subject subject TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(toDateTime(window * 60, 'UTC'))
ORDER BY (revision, window, subject, groups, log, partition, slice)
{durable}, {by_column};

-- name: members
-- Distinct values of unique counts; a set, so no version is needed.
CREATE TABLE IF NOT EXISTS members (
    revision UInt32, subject String, groups String, window UInt32, member FixedString(16),
    log UInt16, partition UInt16, slice UInt64,
    INDEX along_log slice TYPE minmax GRANULARITY 1,
    INDEX by_slice slice TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX by_subject subject TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(toDateTime(window * 60, 'UTC'))
ORDER BY (revision, window, subject, groups, member, log, partition, slice)
{durable};

-- name: late_tallies
-- Late tallies once more, ordered along the log: the newest slices are found without reading all of history.
CREATE TABLE IF NOT EXISTS late_tallies (
    revision UInt32 CODEC(ZSTD(1)), subject String CODEC(ZSTD(1)), groups String CODEC(ZSTD(1)),
    window UInt32 CODEC(Delta, ZSTD(1)), log UInt16 CODEC(ZSTD(1)), partition UInt16 CODEC(ZSTD(1)),
    slice UInt64 CODEC(T64, ZSTD(1)), version UInt64 CODEC(T64, ZSTD(1)), total Int256 CODEC(ZSTD(1)),
    counted UInt64 CODEC(T64, ZSTD(1)), rejected UInt64 CODEC(T64, ZSTD(1)), minimum Int128 CODEC(ZSTD(1)),
    maximum Int128 CODEC(ZSTD(1)), latest_time_ms Int64 CODEC(ZSTD(1)), latest_recorded_ms Int64 CODEC(ZSTD(1)),
    latest_key FixedString(16) CODEC(ZSTD(1)), latest Int128 CODEC(ZSTD(1)),
    INDEX along_log slice TYPE minmax GRANULARITY 1
) ENGINE = ReplacingMergeTree(version)
ORDER BY (log, partition, slice, revision, window, subject, groups)
{durable}, {by_column};

-- name: late_members
-- Late distinct values once more, as for tallies.
CREATE TABLE IF NOT EXISTS late_members (
    revision UInt32, subject String, groups String, window UInt32, member FixedString(16),
    log UInt16, partition UInt16, slice UInt64,
    INDEX along_log slice TYPE minmax GRANULARITY 1
) ENGINE = ReplacingMergeTree
ORDER BY (log, partition, slice, revision, window, subject, groups, member)
{durable};

-- name: along_log
-- Finds the newest slices among rows that are ordered by time.
ALTER TABLE tallies
    ADD INDEX IF NOT EXISTS along_log slice TYPE minmax GRANULARITY 1;

-- name: members_along_log
ALTER TABLE members
    ADD INDEX IF NOT EXISTS along_log slice TYPE minmax GRANULARITY 1;

-- name: late_tallies_along_log
-- For granules that two partitions share.
ALTER TABLE late_tallies
    ADD INDEX IF NOT EXISTS along_log slice TYPE minmax GRANULARITY 1;

-- name: late_members_along_log
ALTER TABLE late_members
    ADD INDEX IF NOT EXISTS along_log slice TYPE minmax GRANULARITY 1;

-- name: hours
-- Blocks: tallies of sealed slices added up by hour (since 1970 UTC), window first. Written once, so no FINAL.
CREATE TABLE IF NOT EXISTS hours (
    block UInt64, revision UInt32, hour UInt32 CODEC(Delta, ZSTD(1)), subject String,
    groups Array(LowCardinality(String)),
    total Int256, counted UInt64, rejected UInt64, minimum Int128, maximum Int128,
    latest_time_ms Int64, latest_recorded_ms Int64, latest_key FixedString(16), latest Int128
) ENGINE = MergeTree
PARTITION BY block
ORDER BY (revision, hour, subject, groups)
{durable};

-- name: hours_by_subject
-- The same rows, subject first. All columns of a granule lie side by side in one file: one subject is read at one
-- place of each block, not at one for each column (docs/decisions/0079). The engine makes one part of a block.
CREATE TABLE IF NOT EXISTS hours_by_subject (
    block UInt64, revision UInt32, hour UInt32 CODEC(Delta, ZSTD(1)), subject String,
    groups Array(LowCardinality(String)),
    total Int256, counted UInt64, rejected UInt64, minimum Int128, maximum Int128,
    latest_time_ms Int64, latest_recorded_ms Int64, latest_key FixedString(16), latest Int128
) ENGINE = MergeTree
PARTITION BY block
ORDER BY (revision, subject, hour, groups)
{durable}, index_granularity = 1024, min_bytes_for_wide_part = {compact}, {one_part};

-- name: days
-- Blocks by day (since 1970 UTC), window first.
CREATE TABLE IF NOT EXISTS days (
    block UInt64, revision UInt32, day UInt32 CODEC(Delta, ZSTD(1)), subject String,
    groups Array(LowCardinality(String)),
    total Int256, counted UInt64, rejected UInt64, minimum Int128, maximum Int128,
    latest_time_ms Int64, latest_recorded_ms Int64, latest_key FixedString(16), latest Int128
) ENGINE = MergeTree
PARTITION BY block
ORDER BY (revision, day, subject, groups)
{durable};

-- name: days_by_subject
-- The same rows, subject first.
CREATE TABLE IF NOT EXISTS days_by_subject (
    block UInt64, revision UInt32, day UInt32 CODEC(Delta, ZSTD(1)), subject String,
    groups Array(LowCardinality(String)),
    total Int256, counted UInt64, rejected UInt64, minimum Int128, maximum Int128,
    latest_time_ms Int64, latest_recorded_ms Int64, latest_key FixedString(16), latest Int128
) ENGINE = MergeTree
PARTITION BY block
ORDER BY (revision, subject, day, groups)
{durable}, index_granularity = 1024, min_bytes_for_wide_part = {compact}, {one_part};

-- name: member_hours
-- Distinct values of blocks by hour, window first.
CREATE TABLE IF NOT EXISTS member_hours (
    block UInt64, revision UInt32, hour UInt32 CODEC(Delta, ZSTD(1)), subject String,
    groups Array(LowCardinality(String)), member FixedString(16)
) ENGINE = MergeTree
PARTITION BY block
ORDER BY (revision, hour, subject, groups, member)
{durable};

-- name: member_hours_by_subject
-- The same rows, subject first.
CREATE TABLE IF NOT EXISTS member_hours_by_subject (
    block UInt64, revision UInt32, hour UInt32 CODEC(Delta, ZSTD(1)), subject String,
    groups Array(LowCardinality(String)), member FixedString(16)
) ENGINE = MergeTree
PARTITION BY block
ORDER BY (revision, subject, hour, groups, member)
{durable}, index_granularity = 1024, min_bytes_for_wide_part = {compact}, {one_part};

-- name: member_days
-- Distinct values of blocks by day, window first.
CREATE TABLE IF NOT EXISTS member_days (
    block UInt64, revision UInt32, day UInt32 CODEC(Delta, ZSTD(1)), subject String,
    groups Array(LowCardinality(String)), member FixedString(16)
) ENGINE = MergeTree
PARTITION BY block
ORDER BY (revision, day, subject, groups, member)
{durable};

-- name: member_days_by_subject
-- The same rows, subject first.
CREATE TABLE IF NOT EXISTS member_days_by_subject (
    block UInt64, revision UInt32, day UInt32 CODEC(Delta, ZSTD(1)), subject String,
    groups Array(LowCardinality(String)), member FixedString(16)
) ENGINE = MergeTree
PARTITION BY block
ORDER BY (revision, subject, day, groups, member)
{durable}, index_granularity = 1024, min_bytes_for_wide_part = {compact}, {one_part};

-- name: hours_of_all
-- Blocks by hour, all subjects together.
CREATE TABLE IF NOT EXISTS hours_of_all (
    block UInt64, revision UInt32, hour UInt32 CODEC(Delta, ZSTD(1)), groups Array(LowCardinality(String)),
    total Int256, counted UInt64, rejected UInt64, minimum Int128, maximum Int128,
    latest_time_ms Int64, latest_recorded_ms Int64, latest_key FixedString(16), latest Int128
) ENGINE = MergeTree
PARTITION BY block
ORDER BY (revision, hour, groups)
{durable};

-- name: days_of_all
-- Blocks by day, all subjects together.
CREATE TABLE IF NOT EXISTS days_of_all (
    block UInt64, revision UInt32, day UInt32 CODEC(Delta, ZSTD(1)), groups Array(LowCardinality(String)),
    total Int256, counted UInt64, rejected UInt64, minimum Int128, maximum Int128,
    latest_time_ms Int64, latest_recorded_ms Int64, latest_key FixedString(16), latest Int128
) ENGINE = MergeTree
PARTITION BY block
ORDER BY (revision, day, groups)
{durable};

-- name: hours_side_by_side
-- For a table made before: parts that are there stay as they are until their block is merged.
ALTER TABLE hours_by_subject
    MODIFY SETTING min_bytes_for_wide_part = {compact};

-- name: days_side_by_side
ALTER TABLE days_by_subject
    MODIFY SETTING min_bytes_for_wide_part = {compact};

-- name: member_hours_side_by_side
ALTER TABLE member_hours_by_subject
    MODIFY SETTING min_bytes_for_wide_part = {compact};

-- name: member_days_side_by_side
ALTER TABLE member_days_by_subject
    MODIFY SETTING min_bytes_for_wide_part = {compact};

-- name: hours_in_one_part
ALTER TABLE hours_by_subject
    MODIFY SETTING {one_part};

-- name: days_in_one_part
ALTER TABLE days_by_subject
    MODIFY SETTING {one_part};

-- name: member_hours_in_one_part
ALTER TABLE member_hours_by_subject
    MODIFY SETTING {one_part};

-- name: member_days_in_one_part
ALTER TABLE member_days_by_subject
    MODIFY SETTING {one_part};

-- name: events_by_column
-- For a table made before: how its parts are merged from now on.
ALTER TABLE events
    MODIFY SETTING {by_column};

-- name: rejects_by_column
ALTER TABLE rejects
    MODIFY SETTING {by_column};

-- name: tallies_by_column
ALTER TABLE tallies
    MODIFY SETTING {by_column};

-- name: late_tallies_by_column
ALTER TABLE late_tallies
    MODIFY SETTING {by_column};

-- name: rejected
-- Events that a meter matched without a usable value: they can be listed.
CREATE TABLE IF NOT EXISTS rejected (
    revision UInt32, log UInt16, partition UInt16, offset UInt64, place UInt16, slice UInt64,
    subject String, groups String, window UInt32, reason String, value String
) ENGINE = ReplacingMergeTree
PARTITION BY toYear(toDateTime(window * 60, 'UTC'))
ORDER BY (revision, log, partition, offset, place)
{durable};

-- name: accounts
-- What became of every event of a slice. A flush asks for one row of each partition: with the usual granules that
-- reads 8,192 rows for each. Tables of older builds keep theirs.
CREATE TABLE IF NOT EXISTS accounts (
    log UInt16, partition UInt16, slice UInt64, version UInt64,
    received UInt64, new UInt64, duplicate UInt64, conflict UInt64, invalid UInt64
) ENGINE = ReplacingMergeTree(version)
ORDER BY (log, partition, slice)
{durable}, index_granularity = 1024;

-- name: installation
-- One row: the id of this store, which the control store knows too.
CREATE TABLE IF NOT EXISTS installation (id String) ENGINE = MergeTree ORDER BY id
{durable};
