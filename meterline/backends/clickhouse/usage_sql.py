"""The SQL of a usage query over whole minutes (pure): parts of text with server-bound parameters.

Only identity columns are filtered under FINAL. Group values are read out of the JSON array that
holds them.
"""

from dataclasses import dataclass, field
from typing import Any

from meterline.limits import QUERY_ROWS_MAX
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
class Minutes:
    """Whole minutes [first, end) and, unless a row is a minute or everything, the starts of windows
    in minutes.
    """

    first: int
    end: int
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


def _keys(query: UsageQuery, minutes: Minutes, statement: Statement) -> list[str]:
    subject = "subject" if query.by_subject else "''"
    groups = [_text_of(query, name) for name in query.dimensions]
    return [_bucket(query, minutes, statement), subject, *groups]


def _bucket(query: UsageQuery, minutes: Minutes, statement: Statement) -> str:
    if query.window is None:
        return "toUInt32(0)"
    if query.window is WindowSize.MINUTE:
        return "window"
    starts = statement.bind(list(minutes.starts))
    return f"toUInt32(roundDown(window, {{{starts}:Array(UInt32)}}))"


def _text_of(query: UsageQuery, name: str) -> str:
    if name == "subject":
        return "subject"
    place = query.meter.dimension_names.index(name) + 1
    return f"JSONExtractString(groups, {place})"


def _where(query: UsageQuery, minutes: Minutes, statement: Statement) -> str:
    revision = statement.bind(query.meter.revision)
    first = statement.bind(minutes.first)
    end = statement.bind(minutes.end)
    parts = [
        f"revision = {{{revision}:UInt32}}",
        f"window >= {{{first}:UInt32}}",
        f"window < {{{end}:UInt32}}",
    ]
    parts += [_condition(_text_of(query, name), f, statement) for name, f in query.filters]
    return " AND ".join(parts)


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
