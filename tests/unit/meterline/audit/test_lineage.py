"""The events behind usage are those that the fold counted; checksums know no order."""

import random
from collections import defaultdict
from dataclasses import replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from aggregator.slice.open_slice import OpenSlice
from meterline.audit import Behind, ReportedDelivery, UsageEntry, checksum, reported
from meterline.delivery import Delivery, DeliveryState
from meterline.event import Record, RecordKind, decode_event, identity_key
from meterline.meter import (
    Aggregation,
    Catalogue,
    Meter,
    decode_groups,
    measures_of,
    outcomes,
    switched,
)
from meterline.usage import EventRow, SliceId, TallyRow
from meterline.window import MINUTE_MS

METER = Meter(
    "m", 1, "default", "m", "", "", Aggregation.SUM, "t", "$.v", (("a", "$.a"), ("b", "$.b")), 0, 0
)
BEGIN_MS = 1_767_225_600_000
KEYS = st.binary(min_size=16, max_size=16)


def _rows(rng: random.Random, meter: Meter) -> tuple[list[EventRow], list[TallyRow]]:
    events = []
    for number in range(200):
        document = {
            "id": str(number), "source": "s", "type": rng.choice("tttu"),
            "subject": rng.choice("xyz"), "time": f"2026-01-01T00:0{rng.randrange(5)}:30Z",
            "namespace": "default", "recordedtime": "2026-01-01T00:00:00Z",
            "data": {"v": rng.choice([1, 2.5, "x"]), "a": rng.choice([1, "1", None]), "b": True},
        }  # fmt: skip
        events.append(decode_event(msgspec.json.encode(document)))
    made = OpenSlice(SliceId(1, 0, 0), 0, measures_of(Catalogue(1, (meter,))))
    made.absorb(Record(0, 0, 0, RecordKind.PACK, b"", ""), 0, events, {}, 1)
    flush = made.take()
    return flush.events, flush.tallies


def test_behind_each_cell_stand_as_many_events_as_it_counted() -> None:
    rows, tallies = _rows(random.Random(1), METER)
    assert len(tallies) > 10
    for tally in tallies:
        groups = tuple(zip(("a", "b"), decode_groups(tally.groups), strict=True))
        start = tally.window * MINUTE_MS
        behind = Behind(UsageEntry(METER, start, start + MINUTE_MS, tally.subject, groups))
        assert sum(behind.counts(row) for row in rows) == tally.counted


def test_what_an_entry_is_not_split_by_is_all_of_it() -> None:
    rows, tallies = _rows(random.Random(2), METER)
    by_a: dict[str, int] = defaultdict(int)
    for tally in tallies:
        by_a[decode_groups(tally.groups)[0]] += tally.counted
    for value, counted in by_a.items():
        behind = Behind(UsageEntry(METER, 0, 2 * BEGIN_MS, None, (("a", value),)))
        assert sum(behind.counts(row) for row in rows) == counted
    start_ms = BEGIN_MS + 3 * MINUTE_MS
    later = replace(METER, events_from_ms=start_ms)
    behind = Behind(UsageEntry(later, 0, 2 * BEGIN_MS))
    expected = sum(t.counted for t in tallies if t.window * MINUTE_MS >= start_ms)
    assert sum(behind.counts(row) for row in rows) == expected


def test_behind_an_entry_across_a_border_stand_the_events_of_both_sides() -> None:
    rows, tallies = _rows(random.Random(3), METER)
    border_ms = BEGIN_MS + 2 * MINUTE_MS
    other = replace(METER, revision=METER.revision + 1, event_type="u", dimensions=())
    meter = switched(METER, other, border_ms)
    both = Behind(UsageEntry(meter, 0, 2 * BEGIN_MS, None, (("a", ""),)))
    empty = [t for t in tallies if decode_groups(t.groups)[0] == ""]
    before = sum(t.counted for t in empty if t.window * MINUTE_MS < border_ms)
    after = [row for row in rows if row.type == "u" and row.time_ms >= border_ms]
    usable = [row for row in after if Behind(UsageEntry(other, 0, 2 * BEGIN_MS)).counts(row)]
    assert usable
    assert sum(both.counts(row) for row in rows) == before + len(usable)


@given(st.lists(KEYS), st.randoms())
def test_a_checksum_depends_on_no_order(keys: list[bytes], rng: random.Random) -> None:
    shuffled = keys[:]
    rng.shuffle(shuffled)
    assert checksum(shuffled) == checksum(keys)


@given(st.lists(KEYS, min_size=1), st.integers(min_value=0))
def test_one_event_more_or_less_shows(keys: list[bytes], at: int) -> None:
    less = keys[: at % len(keys)] + keys[at % len(keys) + 1 :]
    assert (checksum(less) == checksum(keys)) == (not any(keys[at % len(keys)]))


def test_a_checksum_can_be_made_of_ids_alone() -> None:
    keys = [identity_key("default", "s", name) for name in ("1", "2")]
    total = (int(keys[0].hex(), 16) + int(keys[1].hex(), 16)) % 2**128
    assert checksum(keys) == f"{total:032x}"


def _delivery(**more: object) -> ReportedDelivery:
    delivery = Delivery(
        "dlv", "run", "r", "slug", BEGIN_MS, BEGIN_MS + 10 * MINUTE_MS, "x", 1, 1, 1,
        DeliveryState.DELIVERED, 1, b"", BEGIN_MS,
    )  # fmt: skip
    usage = (({"a": "1"}, "7"), ({"a": ""}, "2"))
    made = ReportedDelivery(delivery, "m", 1, 2_000, 1_000, ("a",), usage)
    return replace(made, **more)  # type: ignore[arg-type]


def test_an_event_is_in_the_entry_of_its_groups() -> None:
    document = {
        "id": "1", "source": "s", "type": "t", "subject": "x", "time": "2026-01-01T00:00:30Z",
        "namespace": "default", "recordedtime": "1970-01-01T00:00:01Z",
        "data": {"v": 1, "a": 1, "b": 2},
    }  # fmt: skip
    event = decode_event(msgspec.json.encode(document))
    counted = outcomes(event, measures_of(Catalogue(1, (METER,))))
    found = reported(event, 1_500, counted, _delivery())
    assert found is not None
    assert (found.groups, found.value, found.certain) == ({"a": "1"}, "7", True)
    for by, certain in (
        (_delivery(complete_until_ms=999), False),
        (_delivery(meter_revision=2), False),
        (_delivery(group_by=(), usage=(({}, "9"),)), True),
    ):
        found = reported(event, 1_500, counted, by)
        assert found is not None
        assert found.certain is certain
    assert reported(event, 2_001, counted, _delivery()) is None, "it came after the run was made"
    assert reported(event, 1_500, counted, _delivery(usage=())) is None, "its entry was filtered"
    assert reported(event, 1_500, counted, _delivery(meter_id="other")) is None
    assert reported(event, 1_500, [], _delivery()) is None
