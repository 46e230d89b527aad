"""Filters of the list of events in API v3, as in OpenMeter, and what they ask for."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from control.shapes.refused_parameters import Customers
from control.shapes.text_filter import TextConditions, items
from meterline.event import Column, Condition, Op, Verdict
from meterline.http.shapes import Instant, Parameters

_SEPARATOR: Final = ","
_VERDICTS: Final = "|".join(Verdict)
_VERDICT_LIST: Final = rf"^({_VERDICTS})(,({_VERDICTS})){{0,{len(Verdict) - 1}}}$"
VerdictName = Literal["new", "duplicate", "conflict", "invalid"]
Flag = Literal["true", "false"]
_FLAGS: Final = frozenset({"exists", "nexists"})


class EventTextFilter(TextConditions):
    """Conditions on a text, joined by and: `filter[subject][eq]=customer-1`. Without an operator,
    `filter[subject]=customer-1`, it is `eq`; without a value as well, `exists`.
    """

    exists: Annotated[Flag | None, Field(description="Whether it is not empty.")] = None
    nexists: Annotated[Flag | None, Field(description="Whether it is empty.")] = None

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, sent: Any) -> Any:
        if isinstance(sent, str):
            return {"eq": sent} if sent else {"exists": "true"}
        if isinstance(sent, dict):  # `filter[subject][exists]` needs no value
            return {name: (it or "true") if name in _FLAGS else it for name, it in sent.items()}
        return sent

    def conditions(self) -> list[Condition]:
        """What is asked for."""
        found = []
        for name in _ONE:
            operand = getattr(self, name)
            if operand is not None:
                found.append(Condition(_ONE[name], (operand,)))
        if self.oeq is not None:
            found.append(Condition(Op.IN, tuple(items(self.oeq))))
        if self.ocontains is not None:
            parts = tuple(Condition(Op.CONTAINS, (item,)) for item in items(self.ocontains))
            found.append(Condition(Op.OR, parts=parts))
        if self.exists is not None:
            found.append(Condition(Op.EXISTS if self.exists == "true" else Op.NEXISTS))
        if self.nexists is not None:
            found.append(Condition(Op.NEXISTS if self.nexists == "true" else Op.EXISTS))
        return found


_ONE: Final = {
    "eq": Op.EQ,
    "neq": Op.NE,
    "contains": Op.CONTAINS,
    "gt": Op.GT,
    "gte": Op.GTE,
    "lt": Op.LT,
    "lte": Op.LTE,
}


class EventTimeFilter(Parameters):
    """Conditions on an instant, joined by and: `filter[time][gte]=2026-01-31T10:00:00Z`. Without an
    operator it is `eq`.
    """

    eq: Instant | None = None
    lt: Instant | None = None
    lte: Instant | None = None
    gt: Instant | None = None
    gte: Instant | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, sent: Any) -> Any:
        return {"eq": sent} if isinstance(sent, str) else sent

    def conditions(self) -> list[Condition]:
        """What is asked for."""
        operands = {op: getattr(self, op.value) for op in (Op.EQ, Op.LT, Op.LTE, Op.GT, Op.GTE)}
        return [Condition(op, (at_ms,)) for op, at_ms in operands.items() if at_ms is not None]


class EventVerdictFilter(Parameters):
    """Which verdicts are listed; without one, only `new`. `filter[verdict]=conflict` is `eq`."""

    eq: VerdictName | None = None
    oeq: Annotated[
        str | None,
        Field(pattern=_VERDICT_LIST, description="One of these, with commas between them."),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, sent: Any) -> Any:
        return {"eq": sent} if isinstance(sent, str) else sent

    def verdicts(self) -> frozenset[Verdict]:
        """What is asked for."""
        found = frozenset(Verdict)
        if self.eq is not None:
            found &= {Verdict(self.eq)}
        if self.oeq is not None:
            found &= {Verdict(name) for name in self.oeq.split(_SEPARATOR)}
        return found if self.eq or self.oeq else frozenset({Verdict.NEW})


class EventFilter(Parameters):
    """Conditions on events, joined by and."""

    id: EventTextFilter | None = None
    source: EventTextFilter | None = None
    subject: EventTextFilter | None = None
    type: EventTextFilter | None = None
    time: EventTimeFilter | None = None
    ingested_at: EventTimeFilter | None = None
    stored_at: EventTimeFilter | None = None
    verdict: EventVerdictFilter | None = None
    customer_id: Customers = None

    def verdicts(self) -> frozenset[Verdict]:
        """The verdicts asked for."""
        return frozenset({Verdict.NEW}) if self.verdict is None else self.verdict.verdicts()

    def conditions(self) -> tuple[tuple[Column, Condition], ...]:
        """What is asked for, but for verdicts."""
        found: list[tuple[Column, Condition]] = []
        for column in Column:
            asked: EventTextFilter | EventTimeFilter | None = getattr(self, column.value)
            if asked is not None:
                found += [(column, condition) for condition in asked.conditions()]
        return tuple(found)
