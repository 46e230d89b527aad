"""The filter of a report as it is sent and shown in v3 (contract 2.2 and 2.4)."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Annotated, Any, Final, Generic, NotRequired, TypeVar, cast

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from control.shapes.optional_members import Maybe
from meterline.http.shapes import Closed, Text
from meterline.limits import (
    ATTRIBUTE_CHARS_MAX,
    INTEGER_DIGITS_MAX,
    REPORT_FILTER_VALUES_MAX,
    SCALE,
)
from meterline.number import text
from meterline.report import ReportFilter, parse_filter
from meterline.usage import LISTS, Condition

DECIMAL: Final = rf"^-?[0-9]{{1,{INTEGER_DIGITS_MAX}}}(\.[0-9]{{1,{SCALE}}})?$"

Decimals = Annotated[str, Field(pattern=DECIMAL, examples=["100"])]
Subject = Annotated[Text, Field(max_length=ATTRIBUTE_CHARS_MAX)]
Operand = TypeVar("Operand")
Operands = Annotated[list[Operand], Field(max_length=REPORT_FILTER_VALUES_MAX)]


class _Conditions(Closed, Generic[Operand]):
    """The operators of the contract (2.4)."""

    model_config = ConfigDict(alias_generator=lambda name: f"${name.rstrip('_')}")

    gt: Maybe[Operand] = None
    gte: Maybe[Operand] = None
    lt: Maybe[Operand] = None
    lte: Maybe[Operand] = None
    eq: Maybe[Operand] = None
    ne: Maybe[Operand] = None
    in_: Maybe[Operands[Operand]] = None
    nin: Maybe[Operands[Operand]] = None


class UsageConditionsBody(_Conditions[Decimals]):
    """Conditions on the value of an entry, joined by and. Decimals, compared exactly."""


class SubjectConditionsBody(_Conditions[Subject]):
    """Conditions on the subject of an entry, joined by and. Texts, compared by code points."""


class ReportFilterBody(Closed):
    """Which entries are reported. Without conditions, all are."""

    usage: Maybe[UsageConditionsBody] = None
    subject: Maybe[SubjectConditionsBody] = None

    def filter(self) -> ReportFilter:
        """The filter as a value."""
        sent = self.model_dump(by_alias=True, exclude_unset=True)
        if "usage" in sent:
            sent["usage"] = {
                name: [Decimal(one) for one in value] if isinstance(value, list) else Decimal(value)
                for name, value in sent["usage"].items()
            }
        made, faults = parse_filter(sent)
        assert not faults, "the model takes what the filter takes"
        return made


UsageConditionsShown = TypedDict(
    "UsageConditionsShown",
    {
        "$gt": NotRequired[str],
        "$gte": NotRequired[str],
        "$lt": NotRequired[str],
        "$lte": NotRequired[str],
        "$eq": NotRequired[str],
        "$ne": NotRequired[str],
        "$in": NotRequired[list[str]],
        "$nin": NotRequired[list[str]],
    },
)


class SubjectConditionsShown(UsageConditionsShown):  # noqa: D101 - the same members, of texts
    pass


class ReportFilterShown(TypedDict):
    """Which entries are reported."""

    usage: NotRequired[UsageConditionsShown]
    subject: NotRequired[SubjectConditionsShown]


def filter_shown(filter_: ReportFilter) -> ReportFilterShown:
    """A filter, as it was sent."""
    shown: ReportFilterShown = {}
    if filter_.usage:
        usage = _conditions(filter_.usage, text)
        shown["usage"] = cast("UsageConditionsShown", usage)
    if filter_.subject:
        subject = _conditions(filter_.subject, str)
        shown["subject"] = cast("SubjectConditionsShown", subject)
    return shown


def _conditions(
    conditions: Iterable[Condition[Any]], show: Callable[[Any], str]
) -> dict[str, str | list[str]]:
    return {
        one.comparison.value: [show(operand) for operand in one.operands]
        if one.comparison in LISTS
        else show(one.operands[0])
        for one in conditions
    }
