"""A statement under construction: its parameters, the parts of time it asks for, its conditions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from meterline.meter import Meter
from meterline.usage import (
    LISTS,
    Comparison,
    Condition,
    Coverage,
    Filter,
    Operator,
    UsageQuery,
)

_COMPARE = {
    Operator.EQ: "{text} = {operand}",
    Operator.NEQ: "{text} != {operand}",
    Operator.CONTAINS: "position({text}, {operand}) > 0",
    Operator.NCONTAINS: "position({text}, {operand}) = 0",
}

_SIGNS: Final = {
    Comparison.GT: ">",
    Comparison.GTE: ">=",
    Comparison.LT: "<",
    Comparison.LTE: "<=",
    Comparison.EQ: "=",
    Comparison.NE: "!=",
}


Sql = tuple[str, dict[str, Any]]  # a statement and its parameters


class Kind(Enum):
    """What rows are read from."""

    BLOCKS = "blocks"
    MINUTES = "minutes"


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

    With `runs` of blocks, the rows of each run are told apart from those of others, and from those
    of minutes.
    """

    parts: tuple[Part, ...]
    starts: tuple[int, ...] = ()
    coverage: Coverage | None = None  # what blocks answer; None: nothing
    runs: tuple[tuple[int, ...], ...] = ()


TextOf = Callable[[Meter, str], str]


def conditions_of(
    query: UsageQuery, meter: Meter, texts: TextOf, statement: Statement
) -> list[str]:
    """The conditions of a query on subject and groups of a row; `texts` says where these stand."""
    found = [condition(texts(meter, name), f, statement) for name, f in query.filters]
    if query.subjects:
        met = " AND ".join(_of_subject(it, statement) for it in query.subjects)
        found.append(f"NOT ({met})" if query.other_subjects else met)
    return found


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


def condition(text: str, asked: Filter, statement: Statement) -> str:
    """The condition of a filter on a text of a row."""
    match asked.operator:
        case Operator.AND | Operator.OR:
            word = f" {asked.operator.upper()} "
            return f"({word.join(condition(text, p, statement) for p in asked.parts)})"
        case Operator.IN | Operator.NIN:
            word = "IN" if asked.operator is Operator.IN else "NOT IN"
            return f"{text} {word} {statement.bind(list(asked.values), 'Array(String)')}"
        case Operator.EXISTS:
            return f"{text} {'!=' if asked.values[0] == 'true' else '='} ''"
        case operator:
            operand = statement.bind(asked.values[0], "String")
            return _COMPARE[operator].format(text=text, operand=operand)
