"""Laws of verdicts, slices and the fold."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from aggregator.slice.border import opened
from aggregator.slice.open_slice import OpenSlice
from aggregator.slice.verdict import judged
from meterline.event import (
    Event,
    Record,
    RecordKind,
    Refusal,
    Unreadable,
    Verdict,
    decode_event,
    decode_record,
    encode_pack,
    encode_refusal,
    position,
)
from meterline.limits import SLICE_EVENTS_MAX, SLICE_SPAN_MS
from meterline.meter import (
    Aggregation,
    Catalogue,
    Cell,
    Latest,
    Measures,
    Meter,
    decode_groups,
    measures_of,
    member_of,
)
from meterline.meter.measure import encode_groups
from meterline.number import UNIT
from meterline.usage import NO_POSITION, Flush, SliceId, TallyRow

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

NO_LATEST = Latest(0, 0, bytes(16), 0)
TIMES = ("0:00", "0:00.001", "0:30", "0:59.999", "1:00", "1:59.999", "2:00")
values: st.SearchStrategy[object] = st.one_of(
    st.integers(-(10**21), 10**21),
    st.decimals(
        allow_nan=False, allow_infinity=False, places=20, min_value=-(10**9), max_value=10**9
    ),
    st.sampled_from([None, True, "1.5", "x", "-0", [], {"a": 1}]),
)


@st.composite
def events(draw: st.DrawFn, types: Sequence[str] = ("t",)) -> Event:
    document = {
        "specversion": "1.0",
        "id": draw(st.sampled_from("abcdefgh")),
        "source": "s",
        "type": draw(st.sampled_from(types)),
        "subject": draw(st.sampled_from(["x", "y"])),
        "time": f"2026-01-01T00:0{draw(st.sampled_from(TIMES))}Z",
        "data": {"v": draw(values), "g": draw(st.sampled_from(["p", 1, None]))},
        "namespace": "default",
        "recordedtime": f"2026-01-01T00:0{draw(st.sampled_from(TIMES))}Z",
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
    expected = sum((_fraction(row.text) or 0 for row in flush.events), Fraction(0))
    total = sum(row.total for row in flush.tallies if row.revision == sums)
    assert Fraction(total, UNIT) == expected


def _fraction(text: bytes) -> Fraction | None:
    """An oracle of its own: what a value is worth after rounding to 18 digits, if it is any."""
    value: object = json.loads(text, parse_float=Decimal)["data"]["v"]
    if isinstance(value, str) and value in ("1.5", "-0"):
        value = Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    exact = Fraction(value)
    if abs(exact) >= 10**20:
        return None
    return Fraction(round(exact * 10**18), 10**18)  # rounds half to even


def _first_of_each(packs: list[list[Event]]) -> dict[int, Event]:
    """The events that count, by position."""
    found: dict[bytes, int] = {}
    whole = {position(at, n): event for at, p in enumerate(packs) for n, event in enumerate(p)}
    for at, event in whole.items():
        found.setdefault(event.key, at)
    return {at: whole[at] for at in found.values()}


def _tallied(aggregation: Aggregation, found: dict[int, Event]) -> tuple[int | Latest, ...]:
    """An oracle of its own: version, total, counted, rejected, extremes and latest of a cell."""
    usable = {at: _usable(aggregation, event) for at, event in found.items()}
    worth = {at: value for at, value in usable.items() if value is not None}
    values, latest = sorted(worth.values()), NO_LATEST
    if aggregation is Aggregation.LATEST and worth:
        one = max((found[at] for at in worth), key=lambda e: (e.time_ms, e.recorded_ms, e.key))
        (value,) = (value for at, value in worth.items() if found[at] is one)
        latest = Latest(one.time_ms, one.recorded_ms, one.key, value)
    extremes = (0, 0)
    if aggregation in (Aggregation.MIN, Aggregation.MAX) and values:
        extremes = (values[0], values[-1])
    total = sum(values) if aggregation in (Aggregation.SUM, Aggregation.AVG) else 0
    return (max(found), total, len(worth), len(found) - len(worth), *extremes, latest)


def _usable(aggregation: Aggregation, event: Event) -> int | None:
    if aggregation is Aggregation.COUNT:
        return 0
    if aggregation is Aggregation.UNIQUE_COUNT:
        return None if _member(event) is None else 0
    worth = _fraction(event.text)
    return None if worth is None else int(worth * UNIT)


def _member(event: Event) -> bytes | None:
    assert isinstance(event.data, dict), "it is made so"
    return member_of(event.data["v"])


@given(st.lists(st.lists(events(), max_size=6), max_size=6))
def test_each_cell_is_what_its_events_say_one_by_one(packs: list[list[Event]]) -> None:
    cells: dict[Cell, dict[int, Event]] = {}
    for at, event in _first_of_each(packs).items():
        said = json.loads(event.text)
        minute = int(datetime.fromisoformat(said["time"]).timestamp()) // 60
        groups = json.dumps([str(said["data"]["g"] or "")])
        for revision in range(len(Aggregation)):
            cells.setdefault((revision, said["subject"], groups, minute), {})[at] = event
    _, flush = folded(packs, set())
    kinds = tuple(Aggregation)
    rows = {row[:4]: (*row[7:13], Latest(*row[13:])) for row in flush.tallies}
    assert rows == {cell: _tallied(kinds[cell[0]], found) for cell, found in cells.items()}
    each = [(cell, at, event) for cell, found in cells.items() for at, event in found.items()]
    unique = kinds.index(Aggregation.UNIQUE_COUNT)
    members = {(*cell, _member(event)) for cell, _, event in each if cell[0] == unique}
    assert Counter(row[:5] for row in flush.members) == Counter(m for m in members if m[-1])
    rejected = sorted((r.revision, position(r.offset, r.place), r.window) for r in flush.rejected)
    assert rejected == sorted(
        (cell[0], at, cell[3]) for cell, at, e in each if _usable(kinds[cell[0]], e) is None
    )


def test_a_value_that_comes_again_counts_each_time_and_is_one_member() -> None:
    document = {
        "specversion": "1.0", "source": "s", "type": "t", "subject": "x", "namespace": "default",
        "time": "2026-01-01T00:00:00Z", "recordedtime": "2026-01-01T00:00:00Z", "data": {"v": "a"},
    }  # fmt: skip
    packs = [[decode_event(msgspec.json.encode({**document, "id": id_}))] for id_ in "pqr"]
    unique = tuple(Aggregation).index(Aggregation.UNIQUE_COUNT)
    for flush_after in (set[int](), {0, 1}):
        _, flush = folded(packs, flush_after)
        (row,) = (row for row in flush.tallies if row.revision == unique)
        assert (row.counted, row.rejected, len(flush.members)) == (3, 0, 1)


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


def test_a_slice_has_so_many_events_five_minutes_and_nothing_behind_an_empty_record() -> None:
    first_ms = SLICE_SPAN_MS * 7 + 3
    last_ms = SLICE_SPAN_MS * 8 - 1
    border = opened(first_ms).grown(1).grown(SLICE_EVENTS_MAX - 3)
    assert not border.ends_before(2, last_ms)
    assert border.ends_before(3, last_ms)
    assert border.ends_before(2, last_ms + 1)
    assert opened(first_ms).grown(0).ends_before(1, first_ms)


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
