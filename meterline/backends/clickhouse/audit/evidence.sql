-- What the stored rows say of themselves: the account, and what an audit compares (docs/architecture.md). Rows of
-- events, rejects and seen are the same bytes however often they were written: under FINAL any column may be filtered.

-- name: account_lines
SELECT hour, source, type, sum(new), sum(matched), sum(duplicate), sum(conflict), sum(invalid)
FROM (
    SELECT intDiv(append_ms, 3600000) AS hour, source, type, count() AS new,
        countIf(time_ms >= transform(type, {types:Array(String)}, {starts:Array(Int64)}, {never:Int64})) AS matched,
        0 AS duplicate, 0 AS conflict, 0 AS invalid
    FROM events FINAL
    WHERE namespace = {namespace:String} AND append_ms >= {from_ms:Int64} AND append_ms < {to_ms:Int64}
    GROUP BY hour, source, type
    UNION ALL
    SELECT intDiv(append_ms, 3600000), source, type, 0, 0,
        countIf(kind = 'duplicate'), countIf(kind = 'conflict'), countIf(kind = 'invalid')
    FROM rejects FINAL
    WHERE (namespace = {namespace:String} OR ({unowned:Bool} AND namespace = ''))
        AND append_ms >= {from_ms:Int64} AND append_ms < {to_ms:Int64}
    GROUP BY 1, 2, 3
)
GROUP BY hour, source, type
ORDER BY hour, source, type
LIMIT {rows:UInt64};

-- name: meters_matched
SELECT revision, count()
FROM (
    SELECT type, time_ms FROM events FINAL
    WHERE namespace = {namespace:String} AND append_ms >= {from_ms:Int64} AND append_ms < {to_ms:Int64}
) AS event
INNER JOIN (
    SELECT tupleElement(meter, 1) AS type, tupleElement(meter, 2) AS revision, tupleElement(meter, 3) AS start_ms
    FROM (SELECT arrayJoin({meters:Array(Tuple(String, UInt32, Int64))}) AS meter)
) AS meter USING type
WHERE time_ms >= start_ms
GROUP BY revision;

-- name: meters_counted
-- A slice lies within five minutes of append time, so each belongs to one hour. Where minutes are not kept any more,
-- slices of these hours have only late rows of them: those are in a table of their own.
SELECT revision, sum(counted), sum(rejected)
FROM (
    SELECT revision, subject, window, log, partition, slice, counted, rejected FROM tallies FINAL
    WHERE revision IN {revisions:Array(UInt32)} AND window >= {minutes_from:UInt32}
    UNION ALL
    SELECT revision, subject, window, log, partition, slice, counted, rejected FROM late_tallies FINAL
    WHERE revision IN {revisions:Array(UInt32)} AND window < {minutes_from:UInt32}
)
WHERE window >= transform(revision, {revisions:Array(UInt32)}, {windows:Array(UInt32)}, toUInt32(0))
    -- erased:
    AND (log, partition, slice) IN (
        SELECT DISTINCT log, partition, slice FROM events
        WHERE namespace = {namespace:String} AND append_ms >= {from_ms:Int64} AND append_ms < {to_ms:Int64})
GROUP BY revision;

-- name: account_cut
SELECT text FROM events FINAL
WHERE namespace = {namespace:String} AND append_ms >= {from_ms:Int64} AND append_ms < {to_ms:Int64}
    AND type = {type:String} AND time_ms >= {time_from_ms:Int64} AND time_ms < {time_to_ms:Int64};

-- name: accounts_between
SELECT log, partition, slice, version, received, new, duplicate, conflict, invalid
FROM accounts FINAL
WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice >= {first:UInt64} AND slice < {end:UInt64}
ORDER BY slice;

-- name: kept
SELECT 'events' AS what, slice, count() FROM events FINAL
WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND offset >= {first:UInt64} AND offset < {end:UInt64}
    AND bitOr(bitShiftLeft(offset, 10), place) <= {upto:UInt64}
GROUP BY slice
UNION ALL
SELECT 'seen', slice, count() FROM seen FINAL
WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND offset >= {first:UInt64} AND offset < {end:UInt64}
    AND bitOr(bitShiftLeft(offset, 10), place) <= {upto:UInt64}
GROUP BY slice
UNION ALL
SELECT kind, slice, count() FROM rejects FINAL
WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND offset >= {first:UInt64} AND offset < {end:UInt64}
    AND bitOr(bitShiftLeft(offset, 10), place) <= {upto:UInt64}
GROUP BY kind, slice
UNION ALL
SELECT 'erased', slice, count() FROM events FINAL
WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND offset >= {first:UInt64} AND offset < {end:UInt64}
    AND bitOr(bitShiftLeft(offset, 10), place) <= {upto:UInt64}
    AND startsWith(subject, 'erased-') AND startsWith(text, '{"recordedtime":')
GROUP BY slice;

-- name: unpaired
-- Events and the traces of them that lack each other, or tell another slice, append time or key.
SELECT slice, offset, place, countIf(side = 'event'), countIf(side = 'trace')
FROM (
    SELECT slice, offset, place, append_ms, key, 'event' AS side FROM events FINAL
    WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND offset >= {first:UInt64}
        AND offset < {end:UInt64} AND bitOr(bitShiftLeft(offset, 10), place) <= {upto:UInt64}
    UNION ALL
    SELECT slice, offset, place, append_ms, key, 'trace' FROM seen FINAL
    WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND offset >= {first:UInt64}
        AND offset < {end:UInt64} AND bitOr(bitShiftLeft(offset, 10), place) <= {upto:UInt64}
)
GROUP BY slice, offset, place, append_ms, key
HAVING countIf(side = 'event') != 1 OR countIf(side = 'trace') != 1
ORDER BY offset, place
LIMIT {rows:UInt64};

-- name: mislabelled
-- Events whose columns say something else than their text.
SELECT slice, offset, place FROM events FINAL
WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND offset >= {first:UInt64} AND offset < {end:UInt64}
    AND bitOr(bitShiftLeft(offset, 10), place) <= {upto:UInt64} AND isValidJSON(text)
    AND (JSONExtractString(text, 'id') != id OR JSONExtractString(text, 'source') != source
        OR JSONExtractString(text, 'type') != type OR JSONExtractString(text, 'subject') != subject
        OR JSONExtractString(text, 'namespace') != namespace)
ORDER BY offset, place
LIMIT {rows:UInt64};

-- name: orphans
-- Copies of an event that is not there.
SELECT slice, offset, place FROM (
    SELECT slice, offset, place, first, key FROM rejects FINAL
    WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND offset >= {first:UInt64}
        AND offset < {end:UInt64} AND bitOr(bitShiftLeft(offset, 10), place) <= {upto:UInt64}
        AND kind != 'invalid' AND first >= 0
) AS copies
LEFT ANTI JOIN (
    SELECT toInt64(bitOr(bitShiftLeft(offset, 10), place)) AS first, key FROM seen
    WHERE log = {log:UInt16} AND partition IN {line:Array(UInt16)} AND offset IN (
        SELECT toUInt64(bitShiftRight(first, 10)) FROM rejects
        WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND offset >= {first:UInt64}
            AND offset < {end:UInt64} AND kind != 'invalid' AND first >= 0)
) AS firsts USING (first, key)
ORDER BY offset, place
LIMIT {rows:UInt64};

-- name: repeated
-- Keys that are new again, in a partition or in those that it goes on from.
SELECT key, partition, slice, offset, place, append_ms FROM seen FINAL
WHERE log = {log:UInt16} AND partition IN {line:Array(UInt16)}
    AND append_ms >= {from_ms:Int64} AND append_ms < {to_ms:Int64}
    AND key IN (
        SELECT key FROM seen FINAL
        WHERE log = {log:UInt16} AND partition IN {line:Array(UInt16)}
            AND append_ms >= {from_ms:Int64} AND append_ms < {to_ms:Int64}
        GROUP BY key HAVING count() > 1 AND countIf(partition = {partition:UInt16}) > 0)
ORDER BY key, append_ms, offset, place
LIMIT {rows:UInt64};

-- name: cell_slices
SELECT DISTINCT 'tallies' AS name, slice FROM tallies
WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice >= {first:UInt64} AND slice < {end:UInt64}
    AND revision IN {revisions:Array(UInt32)}
UNION ALL
SELECT DISTINCT 'members', slice FROM members
WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice >= {first:UInt64} AND slice < {end:UInt64}
    AND revision IN {revisions:Array(UInt32)}
UNION ALL
SELECT DISTINCT 'rejected', slice FROM rejected
WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice >= {first:UInt64} AND slice < {end:UInt64}
    AND revision IN {revisions:Array(UInt32)};

-- name: stored_tallies
SELECT revision, subject, groups, window, log, partition, slice, version, total, counted, rejected, minimum, maximum,
    latest_time_ms, latest_recorded_ms, latest_key, latest
FROM (
    SELECT * FROM tallies FINAL
    WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice = {slice:UInt64}
        AND revision = {revision:UInt32} AND window >= {minutes_from:UInt32}
    UNION ALL
    SELECT * FROM late_tallies FINAL
    WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice = {slice:UInt64}
        AND revision = {revision:UInt32} AND window < {minutes_from:UInt32}
);

-- name: stored_members
SELECT revision, subject, groups, window, member, log, partition, slice FROM members FINAL
WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice = {slice:UInt64}
    AND revision = {revision:UInt32} AND window >= {minutes_from:UInt32}
UNION ALL
SELECT revision, subject, groups, window, member, log, partition, slice FROM late_members FINAL
WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice = {slice:UInt64}
    AND revision = {revision:UInt32} AND window < {minutes_from:UInt32};

-- name: stored_rejected
SELECT revision, log, partition, offset, place, slice, subject, groups, window, reason, value FROM rejected FINAL
WHERE log = {log:UInt16} AND partition = {partition:UInt16} AND slice = {slice:UInt64}
    AND revision = {revision:UInt32};

-- name: events_of
SELECT log, partition, offset, place, slice, append_ms, key, namespace, type, subject, source, id, time_ms,
    recorded_ms, text
FROM events
WHERE namespace = {namespace:String} AND type IN {types:Array(String)}
    AND time_ms >= {from_ms:Int64} AND time_ms < {to_ms:Int64} AND ({every:Bool} OR subject = {subject:String})
    AND log >= {log:UInt16} AND (log, partition, offset, place) >
        ({log:UInt16}, {partition:UInt16}, {offset:UInt64}, {place:Int32})
ORDER BY log, partition, offset, place
LIMIT 1 BY log, partition, offset, place
LIMIT {rows:UInt64};

-- name: traced
-- A row may be there twice, until it is merged. Texts are long, so only the attributes leave the
-- store. The last digit of the flags is odd where it is sampled.
SELECT DISTINCT subject, leftUTF8(JSONExtractString(text, 'traceparent'), {parent_chars:UInt64}) AS parent,
    leftUTF8(JSONExtractString(text, 'tracestate'), {state_chars:UInt64}) AS state
FROM events
PREWHERE namespace = {namespace:String} AND type = {type:String}
    AND time_ms >= {from_ms:Int64} AND time_ms < {to_ms:Int64}
WHERE position(text, '"traceparent"') > 0
    AND substring(JSONExtractString(text, 'traceparent'), 55, 1) IN ('1', '3', '5', '7', '9', 'b', 'd', 'f')
LIMIT {each:UInt64} BY subject
LIMIT {rows:UInt64};
