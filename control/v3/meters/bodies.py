"""What defines and changes a meter in API v3, as it is sent (OpenMeter's v3)."""

import re
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, ModelWrapValidatorHandler, model_validator
from pydantic_core import PydanticCustomError

from control.shapes.meter import (
    VALUE_DESCRIPTION,
    Dimensions,
    JsonPath,
    MeterKey,
    MeterName,
    disagreements_of,
    judged_whole,
    pairs,
)
from control.shapes.optional_members import Maybe
from meterline.http.shapes import Closed, Description, EventType, Instant
from meterline.limits import LABELS_MAX
from meterline.meter import Aggregation, MeterChange, MeterDraft, instant_fault
from meterline.problem import Fault

LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"


def _label(name: str) -> str:
    if not re.fullmatch(LABEL, name):
        raise PydanticCustomError("matches_regex", "is not a valid name of a label, such as team")
    return name


Labels = Annotated[
    dict[Annotated[str, AfterValidator(_label)], Annotated[str, Field(pattern=f"^{LABEL}$")]],
    Field(
        max_length=LABELS_MAX,
        description="For finding meters again.",
        examples=[{"team": "a"}],
        json_schema_extra={"propertyNames": {"pattern": f"^{LABEL}$"}},
    ),
]
MeasuredType = Annotated[EventType, Field(description="`type` of the events that it measures.")]
EventsFrom = Annotated[Maybe[Instant], Field(description="Events of before are not counted.")]
ValueProperty = Annotated[Maybe[JsonPath], Field(description=VALUE_DESCRIPTION)]


def _whole_minute(at_ms: int) -> int:
    if (message := instant_fault(at_ms)) is not None:
        raise PydanticCustomError("is_date_time", "{message}", {"message": message})
    return at_ms


EffectiveFrom = Annotated[
    Maybe[Annotated[Instant, AfterValidator(_whole_minute)]],
    Field(
        description="First instant, a whole minute, of what is measured anew: what is earlier is "
        "answered as before. All times where it is absent."
    ),
]


class MeterBody(Closed):
    """What defines a meter."""

    key: MeterKey
    name: MeterName
    aggregation: Aggregation
    event_type: MeasuredType
    description: Annotated[Description, Field(description="For people.")] = ""
    labels: Labels = {}
    events_from: EventsFrom = None
    value_property: ValueProperty = None
    dimensions: Dimensions = {}

    @model_validator(mode="wrap")
    @classmethod
    def _whole(cls, sent: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return judged_whole(handler, sent, _disagreements(sent))

    def draft(self) -> MeterDraft:
        """The definition."""
        return MeterDraft(
            key=self.key,
            name=self.name,
            aggregation=self.aggregation,
            event_type=self.event_type,
            value_property=self.value_property,
            description=self.description,
            dimensions=tuple(sorted(self.dimensions.items())),
            events_from_ms=self.events_from,
            labels=tuple(sorted(self.labels.items())),
        )


class MeterUpdateBody(Closed):
    """What an update gives anew; what it leaves out stays. `""` and `{}` empty a member."""

    name: Maybe[MeterName] = None
    description: Annotated[Maybe[Description], Field(description="For people.")] = None
    labels: Maybe[Labels] = None
    event_type: Maybe[MeasuredType] = None
    value_property: ValueProperty = None
    dimensions: Maybe[Dimensions] = None
    effective_from: EffectiveFrom = None

    def change(self) -> MeterChange:
        """The change that it asks for."""
        return MeterChange(
            name=self.name,
            description=self.description,
            labels=pairs(self.labels),
            event_type=self.event_type,
            value_property=self.value_property,
            dimensions=pairs(self.dimensions),
            effective_from_ms=self.effective_from,
        )


class MeterRevisionBody(Closed):
    """What a revision measures otherwise; what it leaves out is as in the meter."""

    event_type: Maybe[MeasuredType] = None
    value_property: ValueProperty = None
    dimensions: Maybe[Dimensions] = None

    def change(self) -> MeterChange:
        """The change that it asks for."""
        return MeterChange(
            event_type=self.event_type,
            value_property=self.value_property,
            dimensions=pairs(self.dimensions),
        )


class MeterSwitchBody(Closed):
    """When a revision takes over."""

    effective_from: EffectiveFrom = None


class PreviewMeterBody(Closed):
    """What defines a meter, as far as it decides what is measured."""

    aggregation: Aggregation
    event_type: MeasuredType
    value_property: ValueProperty = None
    dimensions: Dimensions = {}
    events_from: EventsFrom = None

    @model_validator(mode="wrap")
    @classmethod
    def _whole(cls, sent: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return judged_whole(handler, sent, _disagreements(sent))

    def draft(self) -> MeterDraft:
        """The definition, under a name that says what it is for."""
        return MeterDraft(
            key="preview",
            name="Preview",
            aggregation=self.aggregation,
            event_type=self.event_type,
            value_property=self.value_property,
            dimensions=tuple(sorted(self.dimensions.items())),
            events_from_ms=self.events_from,
        )


def _disagreements(sent: Any) -> list[Fault]:
    """What is wrong between members that are sent."""
    if not isinstance(sent, dict) or sent.get("value_property", "") is None:
        return []
    value = sent.get("value_property")
    return disagreements_of(sent.get("aggregation"), value, sent.get("dimensions"))
