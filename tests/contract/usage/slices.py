"""Meters, events and slices for the contract suites of the usage store."""

import msgspec

from aggregator.slice.open_slice import OpenSlice
from meterline.event import Event, Record, RecordKind, decode_event
from meterline.meter import Aggregation, Catalogue, Meter, measures_of
from meterline.usage import SliceId

HORIZON_MS = 35 * 86_400_000


def meter(
    revision: int, aggregation: Aggregation = Aggregation.SUM, *, groups: tuple[str, ...] = ()
) -> Meter:
    return Meter(
        id=f"m{revision}",
        revision=revision,
        namespace="default",
        key=f"meter_{revision}",
        name="",
        description="",
        aggregation=aggregation,
        event_type=f"type{revision}",
        value_property=None if aggregation is Aggregation.COUNT else "$.v",
        dimensions=tuple((name, f"$.{name}") for name in sorted(groups)),
        created_at_ms=0,
        updated_at_ms=0,
    )


def event(
    of: Meter, number: int, at: str, data: dict[str, object], subject: str = "alice"
) -> Event:
    document = {
        "specversion": "1.0",
        "id": f"e{number}",
        "source": "test",
        "type": of.event_type,
        "subject": subject,
        "time": at,
        "data": data,
        "namespace": "default",
        "recordedtime": "2026-01-01T00:00:00Z",
    }
    return decode_event(msgspec.json.encode(document))


def folded(
    log: int, meters: list[Meter], events: list[Event], offset: int = 0, partition: int = 0
) -> OpenSlice:
    """A slice of one record with these events."""
    measures = measures_of(Catalogue(1, tuple(meters)))
    open_slice = OpenSlice(SliceId(log, partition, offset), 0, measures)
    record = Record(partition, offset, 1000, RecordKind.PACK, b"", "log")
    open_slice.absorb(record, 1000, events, {}, HORIZON_MS)
    return open_slice
