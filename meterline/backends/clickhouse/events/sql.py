"""The SQL of a page of the list of events (pure): parts of text with server-bound parameters.

Two steps. The first finds where the events of the page lie, and reads few columns of many rows; the
second reads those rows whole. A row that is there twice is the same bytes, so FINAL is not needed:
the first step gives its place twice, side by side.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from meterline.backends.clickhouse.usage.statement import Statement
from meterline.event import (
    INSTANTS,
    Column,
    Condition,
    EventQuery,
    Op,
    SubjectQuery,
    Verdict,
    like_parts,
)

IDENTITY: Final = "log, partition, offset, place"
_COLUMNS: Final = {
    Column.TIME: "time_ms",
    Column.INGESTED_AT: "recorded_ms",
    Column.STORED_AT: "append_ms",
}
_COMPARE: Final = {
    Op.EQ: "{text} = {operand}",
    Op.NE: "{text} != {operand}",
    Op.GT: "{text} > {operand}",
    Op.GTE: "{text} >= {operand}",
    Op.LT: "{text} < {operand}",
    Op.LTE: "{text} <= {operand}",
    Op.IN: "{text} IN {operand}",
    Op.NIN: "{text} NOT IN {operand}",
    Op.CONTAINS: "position(lowerUTF8({text}), lowerUTF8({operand})) > 0",
    Op.LIKE: "{text} LIKE {operand}",
    Op.NLIKE: "{text} NOT LIKE {operand}",
    Op.ILIKE: "lowerUTF8({text}) LIKE lowerUTF8({operand})",
    Op.NILIKE: "lowerUTF8({text}) NOT LIKE lowerUTF8({operand})",
}
_PATTERNS: Final = (Op.LIKE, Op.NLIKE, Op.ILIKE, Op.NILIKE)
_SHOWN: Final = (
    f"{IDENTITY}, append_ms, namespace, type, subject, source, id, time_ms, recorded_ms, text"
)
_WHOLE: Final = {
    "events": f"SELECT {_SHOWN}, 'new', toInt64(-1), '', ''",
    "rejects": f"SELECT {_SHOWN}, kind, first, field, reason",
}


class Span(NamedTuple):
    """A part of the list: from this instant up to before that one; None: no border."""

    first_ms: int | None
    end_ms: int | None


def tables_of(query: EventQuery) -> list[str]:
    """The tables that hold events with the verdicts asked for."""
    tables = ["events"] if Verdict.NEW in query.verdicts else []
    return [*tables, "rejects"] if query.verdicts - {Verdict.NEW} else tables


def places_statement(
    query: EventQuery, table: str, span: Span, rows_max: int
) -> tuple[str, dict[str, object]]:
    """The first places (instant, log, partition, offset, place) in a span, at most `rows_max`."""
    statement = Statement()
    at = _COLUMNS[query.order.by]
    direction = "DESC" if query.order.descending else "ASC"
    parts = [_owner(query, table, statement)]
    if table == "rejects":
        parts.append(f"kind IN {statement.bind(sorted(query.verdicts), 'Array(String)')}")
    parts += [_on(column, condition, statement) for column, condition in query.conditions]
    parts += _keyset(query, at, statement)
    for sign, at_ms in ((">=", span.first_ms), ("<", span.end_ms)):
        if at_ms is not None:
            parts.append(f"{at} {sign} {statement.bind(at_ms, 'Int64')}")
    order = ", ".join(f"{name} {direction}" for name in (at, *IDENTITY.split(", ")))
    sql = f"""
SELECT {at}, {IDENTITY}
FROM {table}
WHERE {" AND ".join(parts)}
ORDER BY {order}
LIMIT {rows_max}"""  # noqa: S608 - values are bound, names come from this module
    return sql, statement.parameters


def subjects_statement(query: SubjectQuery) -> tuple[str, dict[str, object]]:
    """A page of subjects, each with the first and the last `time` of its events: the same, however
    often a row is there.
    """
    statement = Statement()
    parts = [f"namespace = {statement.bind(query.namespace, 'String')}"]
    parts += [_on(column, condition, statement) for column, condition in query.conditions]
    if query.after is not None:
        parts.append(f"subject > {statement.bind(query.after, 'String')}")
    sql = f"""
SELECT subject, min(time_ms), max(time_ms)
FROM events
WHERE {" AND ".join(parts)}
GROUP BY subject
ORDER BY subject
LIMIT {query.limit}"""  # noqa: S608 - values are bound, names come from this module
    return sql, statement.parameters


def whole_statement(
    table: str, positions: Sequence[tuple[int, ...]]
) -> tuple[str, dict[str, object]]:
    """The rows at these (log, partition, offset, place), as `ListedEvent` has its values."""
    statement = Statement()
    tuples = statement.bind(list(positions), "Array(Tuple(UInt16, UInt16, UInt64, UInt16))")
    sql = f"""
{_WHOLE[table]}
FROM {table}
WHERE ({IDENTITY}) IN {tuples}
LIMIT 1 BY {IDENTITY}"""
    return sql, statement.parameters


def _owner(query: EventQuery, table: str, statement: Statement) -> str:
    """Whose events. Namespaces are walls; what is nobody's is shown only where asked for."""
    own = f"namespace = {statement.bind(query.namespace, 'String')}"
    return f"({own} OR namespace = '')" if query.unowned and table == "rejects" else own


def _keyset(query: EventQuery, at: str, statement: Statement) -> list[str]:
    if query.after is None:
        return []
    sign = "<" if query.order.descending else ">"
    kinds = ("Int64", "UInt16", "UInt16", "UInt64", "UInt16")
    names = list(map(statement.bind, query.after, kinds))
    # the first alone: the index of the column can use it
    return [f"{at} {sign}= {names[0]}", f"({at}, {IDENTITY}) {sign} ({', '.join(names)})"]


def _on(column: Column, condition: Condition, statement: Statement) -> str:
    if column in INSTANTS:
        return _condition(_COLUMNS[column], condition, statement, "Int64")
    return _condition(column.value, condition, statement, "String")


def _condition(text: str, condition: Condition, statement: Statement, kind: str) -> str:
    match condition.op:
        case Op.AND | Op.OR:
            parts = [_condition(text, part, statement, kind) for part in condition.parts]
            nothing = "1" if condition.op is Op.AND else "0"
            return f"({f' {condition.op.upper()} '.join(parts) or nothing})"
        case Op.EXISTS | Op.NEXISTS:
            return f"{text} {'!=' if condition.op is Op.EXISTS else '='} ''"
        case Op.IN | Op.NIN:
            operand = statement.bind(list(condition.values), f"Array({kind})")
        case op:
            value = condition.values[0]
            bound = _pattern(str(value)) if op in _PATTERNS else value
            operand = statement.bind(bound, kind)
    return _COMPARE[condition.op].format(text=text, operand=operand)


def _pattern(pattern: str) -> str:
    """The pattern as the engine reads it: there, a backslash may not stand for itself."""
    return "".join("\\\\" if part == "\\" else part for part in like_parts(pattern))
