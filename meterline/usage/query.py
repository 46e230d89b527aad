"""Usage: what a query asks, the rows that answer it, and how an aggregate becomes one number
(OpenMeter's v3).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from meterline.meter import Aggregate, Aggregation, Meter
from meterline.number import UNIT, divided
from meterline.usage.condition import Condition
from meterline.window import WindowSize

UTC: Final = ZoneInfo("UTC")


class Operator(StrEnum):
    """Operators of a filter on a dimension or on the subject (v3 spelling)."""

    EQ = "eq"
    NEQ = "neq"
    IN = "in"
    NIN = "nin"
    CONTAINS = "contains"
    NCONTAINS = "ncontains"
    EXISTS = "exists"  # values ("true",) or ("false",); a missing value is ""
    AND = "and"
    OR = "or"


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one text; `and` and `or` have `parts`, `in` and `nin` any number of values,
    the rest one.
    """

    operator: Operator
    values: tuple[str, ...] = ()
    parts: tuple["Filter", ...] = ()

    def accepts(self, text: str) -> bool:
        """Whether a text passes; the store's SQL gives the same answers."""
        match self.operator:
            case Operator.EQ | Operator.IN:
                return text in self.values
            case Operator.NEQ | Operator.NIN:
                return text not in self.values
            case Operator.CONTAINS:
                return self.values[0] in text
            case Operator.NCONTAINS:
                return self.values[0] not in text
            case Operator.EXISTS:
                return (text != "") == (self.values[0] == "true")
            case Operator.AND:
                return all(part.accepts(text) for part in self.parts)
            case Operator.OR:
                return any(part.accepts(text) for part in self.parts)


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """Usage of a meter in [from_ms, to_ms), either end open: each part of it is answered by the
    revision of the meter's timeline that is the one of then (`meter_revision.pieces`).

    `group_by` names dimensions and may hold `subject`; `filters` are (dimension or `subject`,
    condition), joined by and. The value of a dimension that a revision has not is "". With
    `rejected_too` there are rows also where nothing counted but something was rejected; their value
    is 0. `subjects` are conditions of a report, joined by and; with `other_subjects` rows are those
    of the subjects that do not meet them.
    """

    meter: Meter
    from_ms: int | None = None
    to_ms: int | None = None
    window: WindowSize | None = None
    zone: ZoneInfo = UTC
    group_by: tuple[str, ...] = ()
    filters: tuple[tuple[str, Filter], ...] = ()
    rejected_too: bool = False
    subjects: tuple[Condition[str], ...] = ()
    other_subjects: bool = False

    def has_subject(self, subject: str) -> bool:
        """Whether a subject meets the conditions of the report; the store's SQL says the same."""
        if not self.subjects:
            return True
        return all(c.accepts(subject) for c in self.subjects) is not self.other_subjects

    def asks_for(self, subject: str) -> bool:
        """Whether usage of a subject may be in the answer."""
        named = (condition for name, condition in self.filters if name == "subject")
        return self.has_subject(subject) and all(it.accepts(subject) for it in named)

    @property
    def by_subject(self) -> bool:
        """Whether rows are split by subject."""
        return "subject" in self.group_by

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Dimensions that rows are split by, in the order asked for."""
        return tuple(name for name in self.group_by if name != "subject")


class UsageRow(msgspec.Struct, frozen=True, gc=False):  # made by the million
    """One row of an answer; `value` is a scaled integer. Rows are ordered by window, subject,
    groups.
    """

    from_ms: int
    to_ms: int
    subject: str | None
    groups: tuple[tuple[str, str], ...]
    value: int
    count: int
    rejected: int


def value_of(aggregation: Aggregation, aggregate: Aggregate) -> int | None:
    """The scaled value of an aggregate; None where nothing counted, and then there is no row.

    An average is divided here, half-even to 18 digits: the store's own would be a double.
    """
    if not aggregate.count:
        return None
    match aggregation:
        case Aggregation.SUM:
            return aggregate.total
        case Aggregation.COUNT:
            return aggregate.count * UNIT
        case Aggregation.AVG:
            return divided(aggregate.total, aggregate.count)
        case Aggregation.MIN:
            return aggregate.minimum
        case Aggregation.MAX:
            return aggregate.maximum
        case Aggregation.UNIQUE_COUNT:
            return aggregate.distinct * UNIT
        case Aggregation.LATEST:
            return None if aggregate.latest is None else aggregate.latest.value
