"""The SQL of a usage query over whole minutes (pure): parts of text with server-bound parameters.

Only identity columns are filtered under FINAL. Where several revisions of a meter answer, each its
own minutes, one statement asks them all, so that the store merges what lies on both sides of a
border: distinct values, too.
"""

from collections.abc import Sequence
from typing import Any, Final

from meterline.backends.clickhouse.connection import QUERY_SETTINGS
from meterline.backends.clickhouse.usage.sources import keys_of, names_subjects, rows_source
from meterline.backends.clickhouse.usage.statement import (
    Kind,
    Minutes,
    Part,
    Sql,
    Statement,
    of_minutes,
)
from meterline.limits import QUERY_ROWS_MAX, USAGE_MEMORY_BYTES_MAX
from meterline.meter import Aggregation
from meterline.number import UNIT
from meterline.usage import UsageQuery

# What does not fit is put on disk meanwhile: the embedded engine lives in our own memory.
ROWS_SETTINGS = {
    **QUERY_SETTINGS,
    "max_bytes_before_external_group_by": USAGE_MEMORY_BYTES_MAX,
    "max_bytes_before_external_sort": USAGE_MEMORY_BYTES_MAX,
    "max_block_size": 8_192,
    "output_format_json_quote_64bit_integers": 0,
}
# In half of the memory, and leaves a core to others.
_ONE_THREAD = {**ROWS_SETTINGS, "max_threads": 1}
# The order leaves one granule or two of each block: to read columns one after another is dearer.
_ONE_SUBJECT = {**_ONE_THREAD, "optimize_move_to_prewhere": 0}
COUNT_SETTINGS = {
    **QUERY_SETTINGS,
    "max_rows_to_group_by": QUERY_ROWS_MAX + 1,
    "group_by_overflow_mode": "any",
}


def rows_statement(
    query: UsageQuery,
    minutes: Minutes,
    *,
    with_members: bool,
    rows_max: int | None,
    kind: Kind | None = None,
) -> Sql:
    """Lines, merged over partitions and slices and ordered as an answer is: bucket `b`, subject and
    values of the dimensions `k`, events that counted `c` and did not `r`, and what the aggregation
    needs: a number `v`, the parts of the latest `l`, how many distinct `d`, or `with_members` which
    ones `m`. Numbers that no 64 bits hold are texts. Where rows are told apart, a key has a line
    for each run `s` that has it, and one for minutes (0), one behind the other. With `kind` only
    what is read from that, and no text where nothing is.
    """
    statement = Statement()
    keys = keys_of(query)
    run, shown_run = (", run", ", run AS s") if minutes.runs else ("", "")
    grouped = ", ".join(keys) + run
    shown, *merged = _measured(query.meter.aggregation, with_members=with_members)
    lines_max = None if rows_max is None else (rows_max + 1) * (1 + len(minutes.runs))
    ordered = f"ORDER BY {grouped}" + ("" if lines_max is None else f"\nLIMIT {lines_max}")
    source = rows_source(query, minutes, statement, kind=kind)
    if not source:
        return "", {}
    if query.meter.aggregation is not Aggregation.UNIQUE_COUNT:
        # One level: each takes the engine a millisecond or so to make out.
        shown = f"sum(counted) AS c, sum(rejected) AS r, {shown}{shown_run}"
        sql = f"""
WITH {merged[0]}
SELECT k0 AS b, [{_shown_keys(query)}] AS k, {shown}
FROM ({source}) GROUP BY {grouped} {ordered}"""  # noqa: S608 - values are bound, names come from this module
        return sql, statement.parameters
    members = rows_source(query, minutes, statement, members=True)
    sql = f"""
SELECT k0 AS b, [{_shown_keys(query)}] AS k, c, r, {shown}{shown_run} FROM (
SELECT {grouped}, sum(c) AS c, sum(r) AS r, {merged[2]} FROM (
SELECT {grouped}, sum(counted) AS c, sum(rejected) AS r, {merged[0]}
FROM ({source}) GROUP BY {grouped}
UNION ALL
SELECT {grouped}, 0 AS c, 0 AS r, {merged[1]} FROM ({members}) GROUP BY {grouped})
GROUP BY {grouped}) {ordered}"""  # noqa: S608 - values are bound, names come from this module
    return sql, statement.parameters


def _shown_keys(query: UsageQuery) -> str:
    _, *keys = keys_of(query)
    return ", ".join(keys if query.by_subject else ["''", *keys])


def rows_settings(query: UsageQuery, minutes: Minutes) -> dict[str, Any]:
    """Settings for `rows_statement`. Only what is added up from minutes to few rows is worth a
    second thread: to start one takes as long as to read a block.
    """
    covered = minutes.coverage is not None and minutes.coverage.ends
    if covered and names_subjects(query):
        return _ONE_SUBJECT
    return _ONE_THREAD if covered or query.group_by else ROWS_SETTINGS


def _measured(aggregation: Aggregation, *, with_members: bool) -> tuple[str, ...]:
    """What is shown, and what is made of rows for it: of tallies, and for distinct values of
    members and of both.
    """
    match aggregation:
        case Aggregation.SUM | Aggregation.AVG:
            return "toString(t) AS v", "sum(total) AS t"
        case Aggregation.MIN:
            return "toString(t) AS v", "minIf(minimum, counted > 0) AS t"
        case Aggregation.MAX:
            return "toString(t) AS v", "maxIf(maximum, counted > 0) AS t"
        case Aggregation.LATEST:
            parts = "tuple(latest_time_ms, latest_recorded_ms, latest_key, latest)"
            shown = "[toString(t.1), toString(t.2), hex(t.3), toString(t.4)] AS l"
            return shown, f"maxIf({parts}, counted > 0) AS t"
        case Aggregation.COUNT:
            return "0 AS d", "0 AS t"
        case Aggregation.UNIQUE_COUNT if with_members:
            none = "CAST([], 'Array(FixedString(16))') AS t"
            shown = "arrayMap(one -> hex(one), t) AS m"
            return shown, none, "groupUniqArray(member) AS t", "groupArrayArray(t) AS t"
        case Aggregation.UNIQUE_COUNT:
            return "t AS d", "toUInt64(0) AS t", "uniqExact(member) AS t", "sum(t) AS t"


def count_statement(query: UsageQuery, minutes: Minutes) -> Sql:
    """How many rows there would be, as far as `COUNT_SETTINGS` let it count."""
    statement = Statement()
    keys = ", ".join(keys_of(query))
    source = rows_source(query, minutes, statement)
    sql = f"SELECT count() FROM (SELECT 1 FROM ({source}) GROUP BY {keys})"  # noqa: S608
    return sql, statement.parameters


def estimate_statement(query: UsageQuery, minutes: Minutes) -> Sql:
    """By table and part, in the third last column, how many rows would be read at most."""
    statement = Statement()
    return f"EXPLAIN ESTIMATE {rows_source(query, minutes, statement)}", statement.parameters


_VALUES: Final = {
    Aggregation.SUM: "toInt256(sum(total))",
    Aggregation.COUNT: f"toInt256(sum(counted)) * {UNIT}",
    Aggregation.MIN: "toInt256(minIf(minimum, counted > 0))",
    Aggregation.MAX: "toInt256(maxIf(maximum, counted > 0))",
    Aggregation.LATEST: "toInt256(tupleElement(maxIf(tuple(latest_time_ms, latest_recorded_ms,"
    " latest_key, latest), counted > 0), 4))",
    Aggregation.UNIQUE_COUNT: f"toInt256(uniqExact(member)) * {UNIT}",
}


def sum_statement(query: UsageQuery, minutes: Minutes) -> Sql | None:
    """One row: how many rows a query has that counted something, and the sum of their values. None
    for averages, which the store does not divide exactly.
    """
    value = _VALUES.get(query.meter.aggregation)
    if value is None:
        return None
    statement = Statement()
    keys = ", ".join(keys_of(query))
    members = query.meter.aggregation is Aggregation.UNIQUE_COUNT
    counted = "1" if members else "sum(counted) > 0"
    sql = f"""
SELECT count(), sum(value) FROM (
    SELECT {keys}, {value} AS value
    FROM ({rows_source(query, minutes, statement, members=members)})
    GROUP BY {keys}
    HAVING {counted})"""  # noqa: S608 - values are bound, names come from this module
    return sql, statement.parameters


def values_statement(query: UsageQuery, minutes: Minutes, cut: Sequence[str]) -> Sql:
    """A column `v`: the texts of the one name that rows are split by, each once, with those of cut
    minutes.
    """
    at = 1 if query.by_subject else 2  # of a key: bucket, subject, dimensions
    statement = Statement()
    found = f"SELECT arrayJoin({statement.bind(list(cut), 'Array(String)')}) AS v"
    if minutes.parts:
        source = rows_source(query, minutes, statement)
        found += f"""
UNION ALL SELECT toString(k{at}) AS v FROM ({source}) WHERE counted > 0 GROUP BY v"""  # noqa: S608 - values are bound
    return f"SELECT v FROM ({found}) GROUP BY v", statement.parameters  # noqa: S608 - as above


def rejected_statement(
    parts: Sequence[Part], after: tuple[int, int, int, int], rows_max: int
) -> Sql:
    """Rejected values of the revisions that answer, by position, after one."""
    statement = Statement()
    kinds = ("UInt16", "UInt16", "UInt64", "Int32")
    cursor = ", ".join(map(statement.bind, after, kinds))
    minutes = " OR ".join(f"({of_minutes(part, statement)})" for part in parts)
    sql = f"""
SELECT revision, log, partition, offset, place, slice, subject, groups, window, reason, value
FROM rejected FINAL
WHERE ({minutes}) AND (log, partition, offset, place) > ({cursor})
ORDER BY log, partition, offset, place
LIMIT {rows_max}"""  # noqa: S608 - values are bound, names come from this module
    return sql, statement.parameters
