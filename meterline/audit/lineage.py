"""The trace: from usage to the events behind it, and from an event to where it was reported."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from meterline.delivery import Delivery
from meterline.event import KEY_BYTES, Event, decode_event
from meterline.meter import Judges, Meter, Outcome
from meterline.usage import EventRow

Position = tuple[int, int, int, int]  # log, partition, offset, place


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """What usage was shown of: a meter in [from_ms, to_ms), and where it was split, which part.
    `subject` None: of all subjects.
    """

    meter: Meter
    from_ms: int
    to_ms: int
    subject: str | None = None
    dimensions: tuple[tuple[str, str], ...] = ()


class Behind:
    """Tells which events are behind an entry, by the rule of the fold."""

    def __init__(self, entry: UsageEntry) -> None:
        self._entry = entry
        self._judges = Judges((entry.meter,))

    def counts(self, row: EventRow) -> bool:
        """Whether the event counts in the entry: it is of the meter, has a usable value and the
        values of the entry's dimensions.
        """
        entry = self._entry
        if entry.subject is not None and row.subject != entry.subject:
            return False
        if not entry.from_ms <= row.time_ms < entry.to_ms:
            return False
        event = decode_event(row.text)
        return any(_within(one, entry.dimensions) for one in self._judges.outcomes(event))


def _within(outcome: Outcome, dimensions: Sequence[tuple[str, str]]) -> bool:
    values = dict(outcome.groups)
    return outcome.counted and all(values.get(name, "") == own for name, own in dimensions)


def checksum(keys: Iterable[bytes]) -> str:
    """32 hex digits over a set of events, in whatever order and parts they come: the sum of their
    keys as numbers, modulo 2**128. The key of an event is `meterline.event.identity_key`.
    """
    total = sum(int.from_bytes(key, "big") for key in keys)
    return f"{total % (1 << 8 * KEY_BYTES):032x}"


@dataclass(frozen=True, slots=True)
class ReportedDelivery:
    """A delivery of a run whose window an event lies in, with the usage that its body tells."""

    delivery: Delivery
    meter_id: str
    meter_revision: int
    decided_at_ms: int
    complete_until_ms: int
    group_by: tuple[str, ...]
    usage: tuple[tuple[Mapping[str, str], str], ...]  # groups and value of each entry


@dataclass(frozen=True, slots=True)
class Reported:
    """An event's entry in a delivery. `certain`: the run waited for it; else it arrived between
    that and the making of the run, or was counted by another revision of the meter.
    """

    by: ReportedDelivery
    groups: Mapping[str, str]
    value: str
    certain: bool


def reported(
    event: Event, append_ms: int, counted: Sequence[Outcome], by: ReportedDelivery
) -> Reported | None:
    """The entry of an event in a delivery; None where it is not in."""
    outcome = next((it for it in counted if it.counted and it.meter.id == by.meter_id), None)
    if outcome is None or append_ms > by.decided_at_ms:
        return None
    values = dict(outcome.groups)
    own = {name: values.get(name, "") for name in by.group_by}
    for groups, value in by.usage:
        if dict(groups) == own:
            waited_for = event.recorded_ms <= by.complete_until_ms
            counted_alike = by.meter_revision in (outcome.meter.revision, outcome.in_force)
            certain = waited_for and counted_alike
            return Reported(by, own, value, certain)
    return None
