"""The filter of a report (contract 2.2): which usage entries of a run are reported.

Conditions are joined by and, and are judged per entry. Usage is compared as
scaled integers, so exactly; subjects are compared as text by code points.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import msgspec

from meterline.limits import ATTRIBUTE_CHARS_MAX, REPORT_FILTER_VALUES_MAX
from meterline.number import scaled, text
from meterline.problem import Fault
from meterline.usage import LISTS, Comparison, Condition, Operand


@dataclass(frozen=True, slots=True)
class ReportFilter:
    """Conditions on the usage (scaled integers) and on the subject of an entry; none accepts
    everything.
    """

    usage: tuple[Condition[int], ...] = ()
    subject: tuple[Condition[str], ...] = ()

    def accepts(self, subject: str, value: int) -> bool:
        """Whether an entry with this subject and scaled value is reported."""
        return all(c.accepts(subject) for c in self.subject) and all(
            c.accepts(value) for c in self.usage
        )


EVERYTHING: Final = ReportFilter()


def subjects_asked(filter_: ReportFilter, bytes_max: int) -> tuple[Condition[str], ...]:
    """The conditions on subjects that a store is asked with: as many as name no more than so many
    bytes of subjects. The others are judged when rows come; so may all of them be.
    """
    asked, size = [], 0
    for condition in filter_.subject:
        size += sum(len(subject.encode()) for subject in condition.operands)
        if size > bytes_max:
            break
        asked.append(condition)
    return tuple(asked)


def parse_filter(document: object) -> tuple[ReportFilter, list[Fault]]:
    """The filter in a decoded JSON value (numbers as int or Decimal), and all that is wrong with
    it.
    """
    faults: list[Fault] = []
    if document is None:
        return EVERYTHING, faults
    if not isinstance(document, dict):
        return EVERYTHING, [Fault("filter", "must be an object", rule="type")]
    for name in document:
        if name not in ("usage", "subject"):
            reason = "a filter has the members usage and subject"
            faults.append(Fault(f"filter.{name}", reason, rule="unknown_property"))
    usage = _conditions("filter.usage", document.get("usage"), _usage_operand, faults)
    subject = _conditions("filter.subject", document.get("subject"), _subject_operand, faults)
    return ReportFilter(usage, subject), faults


def filter_document(filter_: ReportFilter) -> dict[str, object]:
    """The filter as a JSON value that `msgspec.json` writes exactly; members without conditions
    are left out.
    """
    document: dict[str, object] = {}
    if filter_.usage:
        document["usage"] = _members(filter_.usage, lambda value: msgspec.Raw(text(value).encode()))
    if filter_.subject:
        document["subject"] = _members(filter_.subject, lambda value: value)
    return document


def _members(
    conditions: tuple[Condition[Operand], ...], show: Callable[[Operand], object]
) -> dict[str, object]:
    return {
        c.comparison.value: [show(operand) for operand in c.operands]
        if c.comparison in LISTS
        else show(c.operands[0])
        for c in conditions
    }


def _conditions(
    field: str,
    document: object,
    read: Callable[[object], Operand],
    faults: list[Fault],
) -> tuple[Condition[Operand], ...]:
    if document is None:
        return ()
    if not isinstance(document, dict):
        faults.append(Fault(field, "must be an object of operators, such as $gt", rule="type"))
        return ()
    conditions: list[Condition[Operand]] = []
    for name, value in document.items():
        condition = _condition(f"{field}.{name}", str(name), value, read, faults)
        if condition is not None:
            conditions.append(condition)
    return tuple(conditions)


def _condition(
    field: str,
    name: str,
    value: object,
    read: Callable[[object], Operand],
    faults: list[Fault],
) -> Condition[Operand] | None:
    try:
        comparison = Comparison(name)
    except ValueError:
        reason = f"no such operator; one of {', '.join(Comparison)}"
        faults.append(Fault(field, reason, rule="enum"))
        return None
    values: list[object] = [value]
    if comparison in LISTS:
        if not isinstance(value, list):
            faults.append(Fault(field, "takes an array", rule="type"))
            return None
        values = value
    if len(values) > REPORT_FILTER_VALUES_MAX:
        reason = f"at most {REPORT_FILTER_VALUES_MAX} values"
        faults.append(Fault(field, reason, rule="max_items"))
        return None
    return _read_all(field, comparison, values, read, faults)


def _read_all(
    field: str,
    comparison: Comparison,
    values: list[object],
    read: Callable[[object], Operand],
    faults: list[Fault],
) -> Condition[Operand] | None:
    operands: list[Operand] = []
    for place, value in enumerate(values):
        try:
            operands.append(read(value))
        except (TypeError, ValueError) as error:
            where = f"{field}.{place}" if comparison in LISTS else field
            faults.append(Fault(where, str(error), rule="type"))
            return None
    return Condition(comparison, tuple(operands))


def _usage_operand(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        message = "usage is compared with a number"
        raise TypeError(message)
    number = scaled(value)
    # Rounding an operand would move a boundary that someone is billed by, so it is refused.
    if number is None or Decimal(value) != Decimal(text(number)):
        message = "a number has at most 20 digits before the point and 18 behind it"
        raise ValueError(message)
    return number


def _subject_operand(value: object) -> str:
    if not isinstance(value, str) or len(value) > ATTRIBUTE_CHARS_MAX:
        message = f"the subject is compared with a text of at most {ATTRIBUTE_CHARS_MAX} characters"
        raise ValueError(message)
    return value
