-- name: count_back
-- Identities of one slice per table, and the sum of a hash over each whole row. Only identity columns are filtered
-- under FINAL: a value column there would bring back superseded rows. Revisions are those that are listed, or, where
-- `absent`, all in the range but those: a list of ten thousand meters costs more than the rows.
SELECT 'events' AS name, count() AS rows, sum(xxHash64(concat(reinterpretAsFixedString(offset),
    reinterpretAsFixedString(place), reinterpretAsFixedString(append_ms), reinterpretAsFixedString(time_ms),
    reinterpretAsFixedString(recorded_ms), key, text))) AS digest
FROM events FINAL WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND offset >= {slice:UInt64}
    AND slice = {slice:UInt64}
UNION ALL
SELECT 'rejects', count(), sum(xxHash64(concat(toString(offset), '|', toString(place), '|', toString(append_ms), '|',
    toString(time_ms), '|', toString(recorded_ms), '|', toString(first), '|', key, kind, '|', field, '|', reason, '|',
    namespace, '|', type, '|', subject, '|', source, '|', id, '|', text)))
FROM rejects FINAL WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND offset >= {slice:UInt64}
    AND slice = {slice:UInt64}
UNION ALL
SELECT 'seen', count(), sum(xxHash64(concat(reinterpretAsFixedString(log), reinterpretAsFixedString(partition),
    reinterpretAsFixedString(offset), reinterpretAsFixedString(place), reinterpretAsFixedString(slice),
    reinterpretAsFixedString(append_ms), key, check)))
FROM seen FINAL WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND offset >= {slice:UInt64}
    AND slice = {slice:UInt64}
UNION ALL
SELECT 'tallies', count(), sum(xxHash64(concat(reinterpretAsFixedString(revision), reinterpretAsFixedString(window),
    reinterpretAsFixedString(version), reinterpretAsFixedString(counted), reinterpretAsFixedString(rejected),
    reinterpretAsFixedString(latest_time_ms), reinterpretAsFixedString(latest_recorded_ms), latest_key,
    reinterpretAsFixedString(total), reinterpretAsFixedString(minimum), reinterpretAsFixedString(maximum),
    reinterpretAsFixedString(latest), subject, '|', groups)))
FROM tallies FINAL WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice = {slice:UInt64}
    AND revision >= {least:UInt32} AND revision <= {most:UInt32}
    AND (revision IN {revisions:Array(UInt32)}) != {absent:Bool}
UNION ALL
SELECT 'members', count(), sum(xxHash64(concat(toString(revision), '|', toString(window), '|', subject, '|', groups,
    '|', member)))
FROM members FINAL WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice = {slice:UInt64}
    AND revision >= {least:UInt32} AND revision <= {most:UInt32}
    AND (revision IN {revisions:Array(UInt32)}) != {absent:Bool}
UNION ALL
SELECT 'rejected', count(), sum(xxHash64(concat(toString(revision), '|', toString(offset), '|', toString(place), '|',
    subject, '|', groups, '|', toString(window), '|', reason, '|', value)))
FROM rejected FINAL WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice = {slice:UInt64}
    AND revision >= {least:UInt32} AND revision <= {most:UInt32}
    AND (revision IN {revisions:Array(UInt32)}) != {absent:Bool}
UNION ALL
SELECT 'late_tallies', count(), sum(xxHash64(concat(reinterpretAsFixedString(revision), reinterpretAsFixedString(window),
    reinterpretAsFixedString(version), reinterpretAsFixedString(counted), reinterpretAsFixedString(rejected),
    reinterpretAsFixedString(latest_time_ms), reinterpretAsFixedString(latest_recorded_ms), latest_key,
    reinterpretAsFixedString(total), reinterpretAsFixedString(minimum), reinterpretAsFixedString(maximum),
    reinterpretAsFixedString(latest), subject, '|', groups)))
FROM late_tallies FINAL WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice = {slice:UInt64}
    AND revision >= {least:UInt32} AND revision <= {most:UInt32}
    AND (revision IN {revisions:Array(UInt32)}) != {absent:Bool}
UNION ALL
SELECT 'late_members', count(), sum(xxHash64(concat(toString(revision), '|', toString(window), '|', subject, '|', groups,
    '|', member)))
FROM late_members FINAL WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice = {slice:UInt64}
    AND revision >= {least:UInt32} AND revision <= {most:UInt32}
    AND (revision IN {revisions:Array(UInt32)}) != {absent:Bool};

-- name: account
SELECT log, partition, slice, version, received, new, duplicate, conflict, invalid
FROM accounts FINAL WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice = {slice:UInt64};

-- name: accounts
SELECT max(version), sum(received), sum(new), sum(duplicate), sum(conflict), sum(invalid)
FROM accounts FINAL WHERE log = {log:UInt16} AND ({wanted});

-- name: slice_events
-- All versions of an event row are the same bytes, so one per identity is enough and FINAL is not needed.
SELECT log, partition, offset, place, slice, append_ms, key, namespace, type, subject, source, id, time_ms,
    recorded_ms, text
FROM events
WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice = {slice:UInt64}
    AND offset >= {slice:UInt64}
    AND (empty({types:Array(String)}) OR has({types:Array(String)}, concat(namespace, '\n', type)))
ORDER BY offset, place
LIMIT 1 BY offset, place;

-- name: raw_events
-- A portion of the events of some slices, as far as their bytes go. The first one comes however large it is.
SELECT slice, offset, place, append_ms, text
FROM (
    SELECT slice, offset, place, append_ms, text,
        sum(length(text)) OVER (ORDER BY offset, place ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS bytes
    FROM (
        SELECT slice, offset, place, append_ms, text
        FROM events
        WHERE log = {log:UInt16} AND partition = {partition:UInt16}
            AND offset >= {offset:UInt64} AND (offset, place) > ({offset:UInt64}, {place:Int32})
            AND offset < {end:UInt64} AND slice IN {slices:Array(UInt64)}
            AND has({types:Array(String)}, concat(namespace, '\n', type))
        ORDER BY offset, place
        LIMIT 1 BY offset, place
        LIMIT {rows:UInt64}
    )
)
WHERE bytes - length(text) < {bytes:UInt64}
ORDER BY offset, place;

-- name: seen_between
SELECT log, partition, offset, place, slice, append_ms, key, check
FROM seen
WHERE log = {log:UInt16} AND partition = {partition:UInt16}
    AND (offset, place) > ({offset:UInt64}, {place:Int32}) AND offset >= {offset:UInt64} AND offset < {end:UInt64}
ORDER BY offset, place
LIMIT 1 BY offset, place
LIMIT {rows:UInt64};

-- name: seen_extent
SELECT count(), min(append_ms), max(append_ms)
FROM seen
WHERE log = {log:UInt16} AND partition = {partition:UInt16}
    AND offset >= {first:UInt64} AND offset < {end:UInt64}
    AND append_ms >= {from_ms:Int64} AND append_ms < {to_ms:Int64};

-- name: seen_extent_of_heir
-- Of the keys that belong to one partition of several: here they are read.
SELECT count(), min(append_ms), max(append_ms)
FROM seen
WHERE log = {log:UInt16} AND partition = {partition:UInt16}
    AND offset >= {first:UInt64} AND offset < {end:UInt64}
    AND append_ms >= {from_ms:Int64} AND append_ms < {to_ms:Int64}
    AND reinterpretAsUInt32(reverse(substring(key, 1, 4))) % {partitions:UInt32} = {heir:UInt32};

-- name: seen_keys
-- Numbers are big-endian, as the seen store keeps them. Copies of a row are the same bytes.
SELECT key, byteSwap(bitOr(bitShiftLeft(offset, 10), toUInt64(place))), byteSwap(toUInt64(append_ms)), check
FROM seen
WHERE log = {log:UInt16} AND partition = {partition:UInt16}
    AND offset >= {first:UInt64} AND offset < {end:UInt64}
    AND append_ms >= {from_ms:Int64} AND append_ms < {to_ms:Int64}
    AND reinterpretAsUInt16(reverse(substring(key, 1, 2))) >= {low:UInt32}
    AND reinterpretAsUInt16(reverse(substring(key, 1, 2))) < {high:UInt32}
    AND reinterpretAsUInt32(reverse(substring(key, 1, 4))) % {partitions:UInt32} = {heir:UInt32}
ORDER BY key, offset DESC, place DESC
LIMIT 1 BY key;

-- name: cut_begun
-- Whether there is an event of one type in a part of a minute.
SELECT 1 FROM events
WHERE namespace = {namespace:String} AND type = {type:String}
    AND time_ms >= {from_ms:Int64} AND time_ms < {to_ms:Int64}
LIMIT 1;

-- name: cut_events
-- Events of one type in a part of a minute.
SELECT text
FROM events
WHERE namespace = {namespace:String} AND type = {type:String}
    AND time_ms >= {from_ms:Int64} AND time_ms < {to_ms:Int64}
ORDER BY log, partition, offset, place
LIMIT 1 BY log, partition, offset, place;

-- name: span
SELECT min(window), max(window), count() FROM tallies
WHERE revision = {revision:UInt32} AND window >= {first:UInt32} AND window < {end:UInt32};

-- name: touched
-- Where events of a stretch of a partition lie in time. All versions of a row are the same bytes: FINAL is not needed.
SELECT namespace, type, toUInt32(intDiv(time_ms, 60000)) AS minute, max(offset)
FROM events
WHERE log = {log:UInt16} AND partition = {partition:UInt16}
    AND offset >= {first:UInt64} AND offset < {end:UInt64}
    AND has({types:Array(String)}, concat(namespace, '\n', type))
    AND append_ms - time_ms >= {late_by_ms:Int64}
GROUP BY namespace, type, minute;

-- name: holdings
-- What the store has, for the comparison with the control store: its ids, rows by table (of the parts in use, so
-- superseded rows are among them; not those of periods that are not kept), and which of the slices asked for have an
-- account. And which process of the server tells so, and for how many seconds it is up.
SELECT 'id' AS what, id AS name, toUInt64(0) AS number FROM installation GROUP BY id
UNION ALL
SELECT 'life', concat(hostName(), ' ', toString(serverUUID())), toUInt64(uptime())
UNION ALL
SELECT 'rows', concat(table, ' ', partition), sum(rows) FROM system.parts
WHERE active AND database = currentDatabase()
    AND partition_id > transform(table, {tables:Array(String)}, {after:Array(String)}, '')
GROUP BY table, partition
UNION ALL
SELECT 'account', toString(partition), slice FROM accounts
WHERE log = {log:UInt16} AND (partition, slice) IN arrayZip({partitions:Array(UInt16)}, {slices:Array(UInt64)})
GROUP BY partition, slice;

-- name: newest_slices
-- The last slices of each partition that have an account, sealed or not: of those that are asked for.
SELECT partition, slice FROM accounts WHERE log = {log:UInt16} AND ({wanted})
GROUP BY partition, slice ORDER BY partition, slice DESC LIMIT {most:UInt16} BY partition;

-- name: newest_revision
-- By the key of the table: where there is none, no row is read.
SELECT max(revision) FROM tallies WHERE revision > {revision:UInt32};

-- name: name_store
INSERT INTO installation (id)
SELECT {id:String} WHERE (SELECT count() FROM installation) = 0;

-- name: periods
SELECT DISTINCT table, partition_id FROM system.parts
WHERE active AND rows > 0 AND database = currentDatabase() AND table IN {tables:Array(String)};

-- name: reach_events
SELECT log, partition, max(offset), max(time_ms) FROM events
WHERE _partition_id = {period:String} GROUP BY log, partition;

-- name: reach_rejects
SELECT log, partition, max(offset), toInt64(0) FROM rejects
WHERE _partition_id = {period:String} GROUP BY log, partition;

-- name: reach_seen
SELECT log, partition, max(offset), toInt64(0) FROM seen
WHERE _partition_id = {period:String} GROUP BY log, partition;

-- name: reach_tallies
-- A slice is named by its first offset, and sealed as a whole.
SELECT log, partition, max(slice), toInt64(0) FROM tallies
WHERE _partition_id = {period:String} GROUP BY log, partition;

-- name: reach_members
SELECT log, partition, max(slice), toInt64(0) FROM members
WHERE _partition_id = {period:String} GROUP BY log, partition;

-- name: parts
-- The parts in use of some tables: table, name, folder and the bytes of its files, but for a few small ones.
SELECT table, name, path, bytes_on_disk FROM system.parts
WHERE active AND database = currentDatabase() AND table IN {tables:Array(String)};

-- name: columns
-- The columns of all tables of the database, in order.
SELECT table, name, type FROM system.columns WHERE database = currentDatabase() ORDER BY table, position;

-- name: engines
SELECT name, engine_full FROM system.tables WHERE database = currentDatabase();

-- name: partitioned
-- By what some tables are partitioned.
SELECT name, partition_key FROM system.tables
WHERE database = currentDatabase() AND name IN {tables:Array(String)} ORDER BY name;

-- name: settings
-- Which of some settings the server knows.
SELECT name FROM system.settings WHERE name IN {names:Array(String)};

-- name: schema
-- What the database has of tables, columns and indexes, and the settings that tables have of their own.
SELECT 'table' AS what, name AS of, '' AS named FROM system.tables WHERE database = currentDatabase()
UNION ALL
SELECT 'column', table, name FROM system.columns WHERE database = currentDatabase()
UNION ALL
SELECT 'index', table, name FROM system.data_skipping_indices WHERE database = currentDatabase()
UNION ALL
SELECT 'setting', name, arrayJoin(extractAll(extract(engine_full, 'SETTINGS (.*)'), '(\\w+) = ')) FROM system.tables
WHERE database = currentDatabase();

-- name: definitions
-- The tables of the database as the server would make them again.
SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase();

-- name: whole_replicas
-- The tables of which this replica has everything that was written to any: it has read the log of changes to its end,
-- and all that it has left to do is to merge. The index is 0 of an empty log, and of one whose first change is on its
-- way: that is acknowledged when all have it. One that is alone with its table in Keeper is no copy of another.
SELECT table FROM system.replicas
WHERE database = currentDatabase() AND NOT is_readonly AND NOT is_session_expired
    AND queue_size = merges_in_queue AND (log_pointer > log_max_index OR log_max_index = 0)
    AND total_replicas = {replicas:UInt32};
