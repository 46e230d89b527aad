"""What became of an event in each meter, by the rule of the fold: counted where, or why not."""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from meterline.event import Event, payload_check
from meterline.meter.measure import Measure, Measures, decode_groups, measures_of
from meterline.meter.meter import Aggregation, Catalogue, Meter
from meterline.meter.revision import revision_at, timeline
from meterline.meter.tally import Tally
from meterline.window import MINUTE_MS

BEFORE_START: Final = "before_events_from"
Difference = Literal["type", "subject", "time", "data"]


class Outcome(NamedTuple):
    """One meter that takes events of this type.

    Where it did not count, `reason` says why in a word, `field` what it is about (the JSON path to
    the value, or `time`), and `value` what stands there, as JSON text, cut; all "" where it
    counted.
    """

    meter: Meter
    window: int  # minutes since 1970 UTC
    groups: tuple[tuple[str, str], ...]  # (dimension, value)
    field: str
    reason: str
    value: str
    in_force: int = 0  # revision of the meter in force, where `meter` answers what is earlier

    @property
    def counted(self) -> bool:
        """Whether it counted."""
        return not self.reason


def outcomes(event: Event, measures: Measures) -> list[Outcome]:
    """What each meter of the event's namespace and type makes of it; empty where there is none."""
    matching = measures.get((event.namespace, event.type), ())
    return [_outcome(event, measure) for measure in matching]


class Judges:
    """Meters as they answer: an event is judged by the revision that answers its time."""

    def __init__(self, meters: Iterable[Meter]) -> None:
        self._meters = {meter.id: meter for meter in meters}
        parts = [part for meter in self._meters.values() for part in timeline(meter)]
        self._measures = measures_of(Catalogue(0, tuple(parts)))

    def outcomes(self, event: Event) -> list[Outcome]:
        """What each meter that takes the event then makes of it."""
        found = []
        for one in outcomes(event, self._measures):
            meter = self._meters[one.meter.id]
            if revision_at(meter, event.time_ms).revision == one.meter.revision:
                found.append(one._replace(in_force=meter.revision))
        return found


def _outcome(event: Event, measure: Measure) -> Outcome:
    meter = measure.meter
    values = decode_groups(measure.groups(event.data))
    groups = tuple(zip(meter.dimension_names, values, strict=True))
    return Outcome(meter, event.time_ms // MINUTE_MS, groups, *_why_not(event, measure))


def _why_not(event: Event, measure: Measure) -> tuple[str, str, str]:
    """Field, reason and value; empty where it counts."""
    meter = measure.meter
    if meter.events_from_ms is not None and event.time_ms < meter.events_from_ms:
        return "time", BEFORE_START, ""
    if measure.aggregation is Aggregation.UNIQUE_COUNT:
        usable = measure.member(event.data) is not None
    else:
        usable = measure.add(Tally(), event)
    if usable:
        return "", "", ""
    return (meter.value_property or "", *measure.rejection(event.data))


def conflicting_members(event: Event, first: Event) -> tuple[Difference, ...]:
    """In which members a conflicting event differs from the first of its identity."""
    found: list[Difference] = []
    if event.type != first.type:
        found.append("type")
    if event.subject != first.subject:
        found.append("subject")
    if _own_time(event) != _own_time(first):
        found.append("time")
    if _data(event) != _data(first):
        found.append("data")
    return tuple(found)


def _own_time(event: Event) -> int | None:
    """The time that it was sent with; the check tells whether there was one."""
    with_time = payload_check(event.type, event.subject, event.time_ms, event.data)
    return event.time_ms if event.check == with_time else None


def _data(event: Event) -> bytes:
    return payload_check("", "", None, event.data)
