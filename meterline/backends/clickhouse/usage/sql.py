"""The SQL of a usage query over whole minutes (pure): parts of text with server-bound parameters.

Only identity columns are filtered under FINAL. Group values are read out of the JSON array that
holds them. Where several revisions of a meter answer, each its own minutes, one statement asks them
all, so that the store merges what lies on both sides of a border: distinct values, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from meterline.backends.clickhouse.connection import QUERY_SETTINGS
from meterline.limits import LARGE_READ_ROWS, QUERY_ROWS_MAX, USAGE_MEMORY_BYTES_MAX
from meterline.meter import Aggregation, Meter
from meterline.number import UNIT
from meterline.usage import LISTS, Comparison, Condition, Filter, Operator, UsageQuery
from meterline.window import WindowSize

_COMPARE = {
    Operator.EQ: "{text} = {operand}",
    Operator.NEQ: "{text} != {operand}",
    Operator.CONTAINS: "position({text}, {operand}) > 0",
    Operator.NCONTAINS: "position({text}, {operand}) = 0",
}

# What does not fit is put on disk meanwhile: the embedded engine lives in our own memory.
ROWS_SETTINGS = {
    **QUERY_SETTINGS,
    "max_bytes_before_external_group_by": USAGE_MEMORY_BYTES_MAX,
    "max_bytes_before_external_sort": USAGE_MEMORY_BYTES_MAX,
    "max_block_size": 8_192,
    "output_format_json_quote_64bit_integers": 0,
}
_LARGE = {**ROWS_SETTINGS, "max_threads": 1}  # in half of the memory, and leaves a core to others
COUNT_SETTINGS = {
    **QUERY_SETTINGS,
    "max_rows_to_group_by": QUERY_ROWS_MAX + 1,
    "group_by_overflow_mode": "any",
}


_SIGNS: Final = {
    Comparison.GT: ">",
    Comparison.GTE: ">=",
    Comparison.LT: "<",
    Comparison.LTE: "<=",
    Comparison.EQ: "=",
    Comparison.NE: "!=",
}


@dataclass(slots=True)
class Statement:
    """SQL under construction and its parameters."""

    parameters: dict[str, Any] = field(default_factory=dict)

    def bind(self, value: object, kind: str) -> str:
        """The placeholder of a value; `kind` is its type for the engine, such as `UInt32`."""
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return f"{{{name}:{kind}}}"


@dataclass(frozen=True, slots=True)
class Part:
    """Whole minutes [first, end) that one revision answers."""

    meter: Meter
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Minutes:
    """The minutes of a query by the revisions that answer them, at least one part; and, unless a
    row is a minute or everything, the starts of windows in minutes.
    """

    parts: tuple[Part, ...]
    starts: tuple[int, ...] = ()


def rows_statement(
    query: UsageQuery, minutes: Minutes, *, with_members: bool, rows_max: int | None
) -> tuple[str, dict[str, Any]]:
    """Lines, merged over partitions and slices and ordered as an answer is: bucket `b`, subject and
    values of the dimensions `k`, events that counted `c` and did not `r`, and what the aggregation
    needs: a number `v`, the parts of the latest `l`, how many distinct `d`, or `with_members` which
    ones `m`. Numbers that no 64 bits hold are texts.
    """
    statement = Statement()
    keys = [f"k{i}" for i in range(len(query.dimensions) + 2)]
    named = ", ".join(f"{text} AS k{i}" for i, text in enumerate(_keys(query, minutes, statement)))
    grouped = ", ".join(keys)
    where = _where(query, minutes, statement)
    shown, *merged = _measured(query.meter.aggregation, with_members=with_members)
    source = f"""
SELECT {named}, sum(counted) AS c, sum(rejected) AS r, {merged[0]}
FROM tallies FINAL WHERE {where} GROUP BY {grouped}"""  # noqa: S608 - values are bound
    if query.meter.aggregation is Aggregation.UNIQUE_COUNT:
        source = f"""
SELECT {grouped}, sum(c) AS c, sum(r) AS r, {merged[2]} FROM ({source}
UNION ALL
SELECT {named}, 0 AS c, 0 AS r, {merged[1]} FROM members WHERE {where} GROUP BY {grouped})
GROUP BY {grouped}"""  # noqa: S608 - values are bound, names come from this module
    sql = f"""
SELECT k0 AS b, [{", ".join(keys[1:])}] AS k, c, r, {shown} FROM ({source})
ORDER BY {grouped}
{"" if rows_max is None else f"LIMIT {rows_max + 1}"}"""  # noqa: S608 - values are bound, names come from this module
    return sql, statement.parameters


def rows_settings(query: UsageQuery, rows: int) -> dict[str, Any]:
    """Settings for `rows_statement`, where the store holds so many rows for it."""
    return _LARGE if query.group_by and rows > LARGE_READ_ROWS else ROWS_SETTINGS


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


def count_statement(query: UsageQuery, minutes: Minutes) -> tuple[str, dict[str, Any]]:
    """How many rows there would be, as far as `COUNT_SETTINGS` let it count."""
    statement = Statement()
    keys = ", ".join(_keys(query, minutes, statement))
    where = _where(query, minutes, statement)
    sql = f"SELECT count() FROM (SELECT 1 FROM tallies WHERE {where} GROUP BY {keys})"  # noqa: S608
    return sql, statement.parameters


_VALUES: Final = {
    Aggregation.SUM: "toInt256(sum(total))",
    Aggregation.COUNT: f"toInt256(sum(counted)) * {UNIT}",
    Aggregation.MIN: "toInt256(minIf(minimum, counted > 0))",
    Aggregation.MAX: "toInt256(maxIf(maximum, counted > 0))",
    Aggregation.LATEST: "toInt256(tupleElement(maxIf(tuple(latest_time_ms, latest_recorded_ms,"
    " latest_key, latest), counted > 0), 4))",
    Aggregation.UNIQUE_COUNT: f"toInt256(uniqExact(member)) * {UNIT}",
}


def sum_statement(query: UsageQuery, minutes: Minutes) -> tuple[str, dict[str, Any]] | None:
    """One row: how many rows a query has that counted something, and the sum of their values. None
    for averages, which the store does not divide exactly.
    """
    value = _VALUES.get(query.meter.aggregation)
    if value is None:
        return None
    statement = Statement()
    keys = _keys(query, minutes, statement)
    members = query.meter.aggregation is Aggregation.UNIQUE_COUNT
    table, counted = ("members", "1") if members else ("tallies FINAL", "sum(counted) > 0")
    sql = f"""
SELECT count(), sum(value) FROM (
    SELECT {", ".join(f"{text} AS k{i}" for i, text in enumerate(keys))}, {value} AS value
    FROM {table}
    WHERE {_where(query, minutes, statement)}
    GROUP BY {", ".join(f"k{i}" for i in range(len(keys)))}
    HAVING {counted})"""  # noqa: S608 - values are bound, names come from this module
    return sql, statement.parameters


def values_statement(
    query: UsageQuery, minutes: Minutes, cut: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    """A column `v`: the texts of the one name that rows are split by, each once, with those of cut
    minutes.
    """
    (name,) = query.group_by
    statement = Statement()
    found = f"SELECT arrayJoin({statement.bind(list(cut), 'Array(String)')}) AS v"
    if minutes.parts:
        text = _key_of(minutes, name, statement)
        where = _where(query, minutes, statement)
        # versions of one tally only grow, so no FINAL is needed to see that something counted
        found += f"""
UNION ALL SELECT {text} AS v FROM tallies WHERE ({where}) AND counted > 0 GROUP BY v"""  # noqa: S608 - values are bound
    return f"SELECT v FROM ({found}) GROUP BY v", statement.parameters  # noqa: S608 - as above


def rejected_statement(
    parts: Sequence[Part], after: tuple[int, int, int, int], rows_max: int
) -> tuple[str, dict[str, Any]]:
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


def _keys(query: UsageQuery, minutes: Minutes, statement: Statement) -> list[str]:
    subject = "subject" if query.by_subject else "''"
    groups = [_key_of(minutes, name, statement) for name in query.dimensions]
    return [_bucket(query, minutes, statement), subject, *groups]


def _bucket(query: UsageQuery, minutes: Minutes, statement: Statement) -> str:
    if query.window is None:
        return "toUInt32(0)"
    if query.window is WindowSize.MINUTE:
        return "window"
    starts = statement.bind(list(minutes.starts), "Array(UInt32)")
    return f"toUInt32(roundDown(window, {starts}))"


def _key_of(minutes: Minutes, name: str, statement: Statement) -> str:
    """The value of a dimension, wherever the revision of a row has it."""
    texts = [_text_of(part.meter, name) for part in minutes.parts]
    if len(set(texts)) == 1:
        return texts[0]
    cases = [
        f"revision = {statement.bind(part.meter.revision, 'UInt32')}, {text}"
        for part, text in zip(minutes.parts[:-1], texts[:-1], strict=True)
    ]
    return f"multiIf({', '.join(cases)}, {texts[-1]})"


def _text_of(meter: Meter, name: str) -> str:
    if name == "subject":
        return "subject"
    if name not in meter.dimension_names:
        return "''"
    return f"JSONExtractString(groups, {meter.dimension_names.index(name) + 1})"


def _where(query: UsageQuery, minutes: Minutes, statement: Statement) -> str:
    parts = [_of_part(query, part, statement) for part in minutes.parts]
    return parts[0] if len(parts) == 1 else " OR ".join(f"({part})" for part in parts)


def _of_part(query: UsageQuery, part: Part, statement: Statement) -> str:
    texts = [of_minutes(part, statement)]
    texts += [_condition(_text_of(part.meter, name), f, statement) for name, f in query.filters]
    if query.subjects:
        met = " AND ".join(_of_subject(condition, statement) for condition in query.subjects)
        texts.append(f"NOT ({met})" if query.other_subjects else met)
    return " AND ".join(texts)


def _of_subject(condition: Condition[str], statement: Statement) -> str:
    """The condition of a report: texts are compared by bytes, which is by code points."""
    if condition.comparison in LISTS:
        word = "IN" if condition.comparison is Comparison.IN else "NOT IN"
        return f"subject {word} {statement.bind(list(condition.operands), 'Array(String)')}"
    operand = statement.bind(condition.operands[0], "String")
    return f"subject {_SIGNS[condition.comparison]} {operand}"


def of_minutes(part: Part, statement: Statement) -> str:
    """The condition that a row is of a revision and in its minutes."""
    revision = statement.bind(part.meter.revision, "UInt32")
    first = statement.bind(part.first, "UInt32")
    end = statement.bind(part.end, "UInt32")
    return f"revision = {revision} AND window >= {first} AND window < {end}"


def _condition(text: str, condition: Filter, statement: Statement) -> str:
    match condition.operator:
        case Operator.AND | Operator.OR:
            word = f" {condition.operator.upper()} "
            return f"({word.join(_condition(text, p, statement) for p in condition.parts)})"
        case Operator.IN | Operator.NIN:
            word = "IN" if condition.operator is Operator.IN else "NOT IN"
            return f"{text} {word} {statement.bind(list(condition.values), 'Array(String)')}"
        case Operator.EXISTS:
            return f"{text} {'!=' if condition.values[0] == 'true' else '='} ''"
        case operator:
            operand = statement.bind(condition.values[0], "String")
            return _COMPARE[operator].format(text=text, operand=operand)
