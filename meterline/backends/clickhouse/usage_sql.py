"""The SQL of a usage query over whole minutes (pure): parts of text with server-bound parameters.

Only identity columns are filtered under FINAL. Group values are read out of the JSON array that
holds them. Where several revisions of a meter answer, each its own minutes, one statement asks them
all, so that the store merges what lies on both sides of a border: distinct values, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from meterline.limits import QUERY_ROWS_MAX
from meterline.meter import Meter
from meterline.usage import Filter, Operator, UsageQuery
from meterline.window import WindowSize

_COMPARE = {
    Operator.EQ: "{text} = {{{name}:String}}",
    Operator.NEQ: "{text} != {{{name}:String}}",
    Operator.CONTAINS: "position({text}, {{{name}:String}}) > 0",
    Operator.NCONTAINS: "position({text}, {{{name}:String}}) = 0",
}


@dataclass(slots=True)
class Statement:
    """SQL under construction and its parameters."""

    parameters: dict[str, Any] = field(default_factory=dict)

    def bind(self, value: object) -> str:
        """A fresh name for a parameter."""
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return name


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


def tallies_statement(query: UsageQuery, minutes: Minutes) -> tuple[str, dict[str, Any]]:
    """Rows (bucket, subject, values of the dimensions asked for, aggregates...), merged over
    partitions and slices.
    """
    statement = Statement()
    keys = _keys(query, minutes, statement)
    sql = f"""
SELECT {", ".join(f"{text} AS k{i}" for i, text in enumerate(keys))},
    sum(total), sum(counted), sum(rejected),
    minIf(minimum, counted > 0), maxIf(maximum, counted > 0),
    maxIf(tuple(latest_time_ms, latest_recorded_ms, latest_key, latest), counted > 0)
FROM tallies FINAL
WHERE {_where(query, minutes, statement)}
GROUP BY {", ".join(f"k{i}" for i in range(len(keys)))}
LIMIT {QUERY_ROWS_MAX + 1}"""  # noqa: S608 - values are bound, names come from this module
    return sql, statement.parameters


def members_statement(
    query: UsageQuery, minutes: Minutes, *, whole: bool
) -> tuple[str, dict[str, Any]]:
    """Rows (bucket, subject, dimensions..., distinct count); with `whole` the members themselves
    instead.
    """
    statement = Statement()
    keys = _keys(query, minutes, statement)
    counted = "groupUniqArray(member)" if whole else "uniqExact(member)"
    sql = f"""
SELECT {", ".join(f"{text} AS k{i}" for i, text in enumerate(keys))}, {counted}
FROM members
WHERE {_where(query, minutes, statement)}
GROUP BY {", ".join(f"k{i}" for i in range(len(keys)))}
LIMIT {QUERY_ROWS_MAX + 1}"""  # noqa: S608 - values are bound, names come from this module
    return sql, statement.parameters


def rejected_statement(
    parts: Sequence[Part], after: tuple[int, int, int, int], rows_max: int
) -> tuple[str, dict[str, Any]]:
    """Rejected values of the revisions that answer, by position, after one."""
    statement = Statement()
    kinds = ("UInt16", "UInt16", "UInt64", "Int32")
    cursor = ", ".join(
        f"{{{statement.bind(value)}:{kind}}}" for value, kind in zip(after, kinds, strict=True)
    )
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
    starts = statement.bind(list(minutes.starts))
    return f"toUInt32(roundDown(window, {{{starts}:Array(UInt32)}}))"


def _key_of(minutes: Minutes, name: str, statement: Statement) -> str:
    """The value of a dimension, wherever the revision of a row has it."""
    texts = [_text_of(part.meter, name) for part in minutes.parts]
    if len(set(texts)) == 1:
        return texts[0]
    cases = [
        f"revision = {{{statement.bind(part.meter.revision)}:UInt32}}, {text}"
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
    return " AND ".join(texts)


def of_minutes(part: Part, statement: Statement) -> str:
    """The condition that a row is of a revision and in its minutes."""
    revision = statement.bind(part.meter.revision)
    first = statement.bind(part.first)
    end = statement.bind(part.end)
    return (
        f"revision = {{{revision}:UInt32}} AND window >= {{{first}:UInt32}}"
        f" AND window < {{{end}:UInt32}}"
    )


def _condition(text: str, condition: Filter, statement: Statement) -> str:
    match condition.operator:
        case Operator.AND | Operator.OR:
            word = f" {condition.operator.upper()} "
            return f"({word.join(_condition(text, p, statement) for p in condition.parts)})"
        case Operator.IN | Operator.NIN:
            name = statement.bind(list(condition.values))
            word = "IN" if condition.operator is Operator.IN else "NOT IN"
            return f"{text} {word} {{{name}:Array(String)}}"
        case Operator.EXISTS:
            return f"{text} {'!=' if condition.values[0] == 'true' else '='} ''"
        case operator:
            name = statement.bind(condition.values[0])
            return _COMPARE[operator].format(text=text, name=name)
