"""Laws of verdicts, slices and the fold."""

import json
import random
from decimal import Decimal
from fractions import Fraction

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from aggregator.open_slice import OpenSlice
from aggregator.slice import opened
from aggregator.verdict import judged
from meterline.event import Event, decode_event
from meterline.limits import SLICE_EVENTS_MAX, SLICE_SPAN_MS
from meterline.measure import Measures, decode_groups, encode_groups, measures_of
from meterline.meter import Aggregation, Catalogue, Meter
from meterline.number import UNIT
from meterline.pack import (
    Record,
    RecordKind,
    Refusal,
    Unreadable,
    decode_record,
    encode_pack,
    encode_refusal,
    position,
)
from meterline.rows import NO_POSITION, Flush, SliceId, TallyRow, Verdict

HORIZON_MS = 1_000_000
ID = SliceId(1, 0, 0)


def meter(revision: int, aggregation: Aggregation) -> Meter:
    value = None if aggregation is Aggregation.COUNT else "$.v"
    return Meter(
        str(revision), revision, "default", f"m{revision}", "", "", aggregation, "t", value,
        (("g", "$.g"),), 0, 0,
    )  # fmt: skip


MEASURES: Measures = measures_of(
    Catalogue(1, tuple(meter(i, aggregation) for i, aggregation in enumerate(Aggregation)))
)

values: st.SearchStrategy[object] = st.one_of(
    st.integers(-(10**21), 10**21),
    st.decimals(
        allow_nan=False, allow_infinity=False, places=20, min_value=-(10**9), max_value=10**9
    ),
    st.sampled_from([None, True, "1.5", "x", "-0", [], {"a": 1}]),
)


@st.composite
def events(draw: st.DrawFn) -> Event:
    document = {
        "specversion": "1.0",
        "id": draw(st.sampled_from("abcdefgh")),
        "source": "s",
        "type": "t",
        "subject": draw(st.sampled_from(["x", "y"])),
        "time": f"2026-01-01T00:00:{draw(st.integers(0, 59)):02d}Z",
        "data": {"v": draw(values), "g": draw(st.sampled_from(["p", 1, None]))},
        "namespace": "default",
        "recordedtime": "2026-01-01T00:00:00Z",
    }
    return decode_event(msgspec.json.Encoder(decimal_format="number").encode(document))


def records(packs: list[list[Event]]) -> list[tuple[Record, list[Event | Unreadable]]]:
    return [
        (Record(0, offset, offset, RecordKind.PACK, b"", "log"), list(pack))
        for offset, pack in enumerate(packs)
    ]


def folded(packs: list[list[Event]], flush_after: set[int]) -> tuple[OpenSlice, Flush]:
    """All packs in one slice; what is left when every flush is merged as the store merges."""
    open_slice = OpenSlice(ID, 0, MEASURES)
    whole = Flush()
    for record, items in records(packs):
        open_slice.absorb(record, record.append_ms, items, {}, HORIZON_MS)
        if record.offset in flush_after:
            whole.extend(open_slice.take())
    whole.extend(open_slice.take())
    newest: dict[tuple[int | str, ...], TallyRow] = {}
    for row in whole.tallies:
        if newest.get(row[:7]) is None or newest[row[:7]].version <= row.version:
            newest[row[:7]] = row
    whole.tallies = sorted(newest.values())
    return open_slice, whole


@given(st.lists(st.lists(events(), max_size=6), max_size=6), st.sets(st.integers(0, 5)))
def test_a_slice_folded_in_parts_is_the_slice_folded_at_once(
    packs: list[list[Event]], flush_after: set[int]
) -> None:
    one, at_once = folded(packs, set())
    other, in_parts = folded(packs, flush_after)
    assert in_parts.tallies == at_once.tallies
    assert in_parts.events == at_once.events
    assert sorted(in_parts.members) == sorted(at_once.members)
    assert in_parts.rejected == at_once.rejected
    assert in_parts.rejects == at_once.rejects
    assert other.counted() == one.counted()
    assert other.account() == one.account()


@given(st.lists(events(), max_size=12, unique_by=lambda e: e.key), st.randoms())
def test_the_order_of_events_does_not_matter(found: list[Event], rng: random.Random) -> None:
    shuffled = found.copy()
    rng.shuffle(shuffled)

    def without_version(flush: Flush) -> list[TallyRow]:
        return [row._replace(version=0) for row in flush.tallies]

    _, one = folded([found], set())
    _, other = folded([shuffled], set())
    assert without_version(one) == without_version(other)
    assert sorted(one.members) == sorted(other.members)


@given(st.lists(st.lists(events(), max_size=6), max_size=6))
def test_the_account_holds_and_sums_are_those_of_fractions(packs: list[list[Event]]) -> None:
    open_slice, flush = folded(packs, set())
    account = open_slice.account()
    assert account.received == sum(len(pack) for pack in packs)
    assert account.received == account.new + account.duplicate + account.conflict + account.invalid
    assert (
        account.new
        == len(flush.events)
        == len(flush.seen)
        == len({e.key for p in packs for e in p})
    )
    sums = list(Aggregation).index(Aggregation.SUM)
    matched = sum(row.counted + row.rejected for row in flush.tallies if row.revision == sums)
    assert matched == account.new
    expected = sum((_fraction(row.text) for row in flush.events), Fraction(0))
    total = sum(row.total for row in flush.tallies if row.revision == sums)
    assert Fraction(total, UNIT) == expected


def _fraction(text: bytes) -> Fraction:
    """An oracle of its own: what a value is worth after rounding to 18 digits."""
    value: object = json.loads(text, parse_float=Decimal)["data"]["v"]
    if isinstance(value, str) and value in ("1.5", "-0"):
        value = Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return Fraction(0)
    exact = Fraction(value)
    if abs(exact) >= 10**20:
        return Fraction(0)
    return Fraction(round(exact * 10**18), 10**18)  # rounds half to even


def test_what_cannot_be_read_is_invalid_and_stalls_nothing() -> None:
    open_slice = OpenSlice(ID, 0, MEASURES)
    record = Record(0, 0, 0, RecordKind.PACK, b"x", "log")
    open_slice.absorb(record, 0, [Unreadable(0, "data", "is broken", b"\xff\x00")], {}, HORIZON_MS)
    (reject,) = open_slice.take().rejects
    assert (reject.kind, reject.field, reject.reason) == ("invalid", "data", "is broken")
    assert (reject.namespace, reject.first, reject.text) == ("", NO_POSITION, "\ufffd\0".encode())
    assert open_slice.account()[4:] == (1, 0, 0, 0, 1)


def test_what_the_inbox_refused_is_kept_under_its_namespace() -> None:
    refusal = Refusal("acme", "usage", 3, 41, "id", "must not be empty", "{}")
    record = Record(0, 7, 900, RecordKind.REFUSAL, encode_refusal(refusal), "log")
    open_slice = OpenSlice(SliceId(1, 0, 7), 1_000, MEASURES)
    open_slice.absorb(record, 1_000, decode_record(record), {}, HORIZON_MS)
    (reject,) = open_slice.take().rejects
    assert (reject.namespace, reject.source, reject.id) == ("acme", "usage", "3/41")
    assert (reject.time_ms, reject.recorded_ms, reject.append_ms) == (1_000, 1_000, 1_000)
    assert (reject.kind, reject.field, reject.text) == ("invalid", "id", b"{}")


def test_verdicts() -> None:
    seen = (5, 100, b"checksum")
    same, other = b"checksum", b"another!"
    assert judged(None, 7, 100, same, HORIZON_MS) is Verdict.NEW
    assert judged(seen, 5, 100, other, HORIZON_MS) is Verdict.NEW, "this very event, read again"
    assert judged(seen, 7, 100, same, HORIZON_MS) is Verdict.DUPLICATE
    assert judged(seen, 7, 100 + HORIZON_MS, same, HORIZON_MS) is Verdict.DUPLICATE
    assert judged(seen, 7, 101 + HORIZON_MS, same, HORIZON_MS) is Verdict.NEW
    assert judged(seen, 7, 100, other, HORIZON_MS) is Verdict.CONFLICT


def test_a_copy_within_the_slice_and_one_from_before_are_duplicates() -> None:
    document = {
        "specversion": "1.0", "id": "a", "source": "s", "type": "t", "subject": "x",
        "namespace": "default", "recordedtime": "2026-01-01T00:00:00Z", "data": {"v": 1},
    }  # fmt: skip
    first = decode_event(msgspec.json.encode(document))
    document["recordedtime"] = "2026-01-01T00:09:00Z"
    again = decode_event(msgspec.json.encode(document))
    document["data"] = {"v": 2}
    conflict = decode_event(msgspec.json.encode(document))
    open_slice = OpenSlice(ID, 0, MEASURES)
    record = Record(0, 0, 0, RecordKind.PACK, b"", "log")
    open_slice.absorb(record, 0, [first, again, conflict], {}, HORIZON_MS)
    assert open_slice.account()[4:] == (3, 1, 1, 1, 0)
    duplicate, differing = open_slice.take().rejects
    assert (duplicate.kind, duplicate.place, duplicate.first) == ("duplicate", 1, position(0, 0))
    assert (duplicate.text, duplicate.recorded_ms) == (again.text, again.recorded_ms)
    assert (duplicate.field, duplicate.reason) == ("", "")
    assert (differing.kind, differing.place, differing.first) == ("conflict", 2, position(0, 0))
    assert (differing.id, differing.source, differing.subject) == ("a", "s", "x")
    assert differing.reason
    later = OpenSlice(SliceId(1, 0, 9), 0, MEASURES)
    record = Record(0, 9, 0, RecordKind.PACK, b"", "log")
    later.absorb(record, 0, [again], {first.key: (position(3, 2), 0, first.check)}, HORIZON_MS)
    assert later.account()[4:] == (1, 0, 1, 0, 0)
    (copied,) = later.take().rejects
    assert (copied.kind, copied.first) == ("duplicate", position(3, 2))


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 90_000)), min_size=1, max_size=400),
    st.integers(0, 399),
)
def test_borders_follow_from_the_log_wherever_reading_began(
    log: list[tuple[int, int]], drop: int
) -> None:
    instants = []
    now = 0
    for _, step in log:
        now += step
        instants.append(now)

    def borders(first: int) -> list[int]:
        found, border = [first], opened(instants[first])
        for at in range(first, len(log)):
            if at > first and border.ends_before(log[at][0], instants[at]):
                found.append(at)
                border = opened(instants[at])
            border = border.grown(log[at][0])
            assert border.events <= SLICE_EVENTS_MAX
            assert instants[at] // SLICE_SPAN_MS == border.span
        return found

    whole = borders(0)
    again = [b for b in whole if b <= drop][-1]
    assert borders(again) == [b for b in whole if b >= again]
    for begun in whole[:-1]:
        if not log[begun][
            0
        ]:  # without events: its record may expire, and who comes then cuts alike
            assert borders(begun + 1) == [b for b in whole if b > begun]


@given(st.lists(st.text(), max_size=5))
def test_groups_come_back(texts: list[str]) -> None:
    usable = [t.encode("utf-8", "replace").decode() for t in texts]
    assert decode_groups(encode_groups(usable)) == usable


def test_a_time_that_no_window_holds_is_invalid() -> None:
    document = {
        "specversion": "1.0",
        "id": "a",
        "source": "s",
        "type": "t",
        "subject": "x",
        "time": "1969-12-31T23:59:59.9999999Z",
        "namespace": "default",
        "recordedtime": "2026-01-01T00:00:00Z",
    }
    value = encode_pack([msgspec.json.encode(document)])
    (item,) = decode_record(Record(0, 0, 0, RecordKind.PACK, value, "log"))
    assert isinstance(item, Unreadable)
    assert "1970" in item.reason
