"""Slices of events that are written as they come, and an oracle that knows what is to be listed."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec

from aggregator.slice.open_slice import OpenSlice
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.event import (
    Column,
    Condition,
    Event,
    EventQuery,
    ListedEvent,
    Op,
    Record,
    RecordKind,
    Unreadable,
    Verdict,
    decode_event,
)
from meterline.meter import Measures
from meterline.usage import NO_POSITION, SliceId
from meterline.window import rfc3339

BEGIN_MS: Final = 1_767_225_600_000  # 2026-01-01T00:00:00Z
HOUR_MS: Final = 3_600_000
HORIZON_MS: Final = 35 * 24 * HOUR_MS
EVERY: Final = frozenset(Verdict)
NASTY: Final = "é'\"|\\\n\t%_"
TEXTS: Final = ("alice", "Bob", "BOB", "bob%", "b_b", "", "zoë", "ZOË", NASTY, "100%", "a\\b")
SHIFTS_MS: Final = (0, 1, 999, 60_000, HOUR_MS, 30 * HOUR_MS, 800 * HOUR_MS, -2 * HOUR_MS)


def event(namespace: str, number: int, rng: random.Random) -> Event:
    """An event of any subject, type and source, some without a time."""
    recorded_ms = BEGIN_MS + rng.randrange(50) * 60_000
    document = {
        "specversion": "1.0",
        "id": f"e{number}",
        "source": rng.choice(TEXTS) + "s",
        "type": rng.choice(TEXTS) + "t",
        "subject": rng.choice(TEXTS),
        "data": {"v": rng.randrange(3)},
        "namespace": namespace,
        "recordedtime": rfc3339(recorded_ms),
    }
    if rng.random() < 0.8:
        document["time"] = rfc3339(recorded_ms + rng.choice(SHIFTS_MS))
    return decode_event(msgspec.json.encode(document))


class Feed:
    """Slices of one log that are written as they come, and what the list must then hold."""

    def __init__(self, store: ClickHouseUsageStore, log: int, namespace: str) -> None:
        self.store = store
        self.log = log
        self.namespace = namespace
        self.known: list[ListedEvent] = []
        self._first: dict[bytes, tuple[int, bytes]] = {}
        self._offset = 0

    async def add(self, items: list[Event | Unreadable], append_ms: int, partition: int) -> None:
        """A slice of one record, written twice as after a crash; and what is to be listed of it."""
        slice_ = OpenSlice(SliceId(self.log, partition, self._offset), append_ms, _NOTHING)
        record = Record(partition, self._offset, append_ms, RecordKind.PACK, b"", "")
        stored = {key: (at, append_ms, check) for key, (at, check) in self._first.items()}
        slice_.absorb(record, append_ms, items, stored, HORIZON_MS)
        flush = slice_.take()
        await self.store.write(flush)
        await self.store.write(flush)
        assert await self.store.count_back(slice_.id, []) == slice_.counted()
        for place, item in enumerate(items):
            self.known.append(self._listed(item, append_ms, partition, place))
        self._offset += 1

    def _listed(
        self, item: Event | Unreadable, append_ms: int, partition: int, place: int
    ) -> ListedEvent:
        where = (self.log, partition, self._offset, place, append_ms)
        if isinstance(item, Unreadable):
            head = (*where, item.namespace, "", "", item.source, item.id, append_ms, append_ms)
            return ListedEvent(
                *head, item.text, Verdict.INVALID, NO_POSITION, item.field, item.reason
            )
        position = self._offset << 10 | place
        first, check = self._first.setdefault(item.key, (position, item.check))
        verdict, field, reason = Verdict.NEW, "", ""
        if first != position:
            verdict = Verdict.DUPLICATE if check == item.check else Verdict.CONFLICT
        if verdict is Verdict.CONFLICT:
            field = "id"
            reason = "the same source and id came before with another type, subject, time or data"
        return ListedEvent(
            *where, item.namespace, item.type, item.subject, item.source, item.id, item.time_ms,
            item.recorded_ms, item.text, verdict, NO_POSITION if first == position else first,
            field, reason,
        )  # fmt: skip

    async def many(self, count: int, rng: random.Random) -> None:
        """Events over hours and partitions, some of them sent again, some changed, some broken."""
        events = [event(self.namespace, number, rng) for number in range(count)]
        for at in range(0, count, 10):
            items: list[Event | Unreadable] = [*events[at : at + 10]]
            items += [self._again(rng.choice(events[: at + 10]), rng) for _ in range(3)]
            rng.shuffle(items)
            # An identity stays in one partition, as it does in a log.
            for partition in (0, 1):
                part = [i for i in items if isinstance(i, Event) and i.key[0] % 2 == partition]
                broken = Unreadable(len(part), "id", "is empty", b"{}", self.namespace, "t", "0/1")
                append_ms = BEGIN_MS + at * 7 * 60_000
                sent: list[Event | Unreadable] = [*part, broken]
                await self.add(sent[: rng.choice([99, len(part)])], append_ms, partition)

    def _again(self, found: Event, rng: random.Random) -> Event:
        """The event again; at times with other data."""
        document = msgspec.json.decode(found.text)
        document["recordedtime"] = rfc3339(found.recorded_ms + 60_000)
        document.setdefault("time", rfc3339(found.time_ms))
        if rng.random() < 0.5:
            document["data"] = {"v": "other"}
        return decode_event(msgspec.json.encode(document))


def _like(value: str, pattern: str) -> bool:
    """An oracle of its own, character by character."""
    if not pattern:
        return not value
    if pattern[0] == "\\" and pattern[1:2] in ("%", "_", "\\") and pattern[1:2]:
        return value[:1] == pattern[1] and _like(value[1:], pattern[2:])
    if pattern[0] == "%":
        return any(_like(value[at:], pattern[1:]) for at in range(len(value) + 1))
    return bool(value) and pattern[0] in ("_", value[0]) and _like(value[1:], pattern[1:])


_NOTHING: Measures = {}
_VALUES: Final[dict[Column, Callable[[ListedEvent], str | int]]] = {
    Column.ID: lambda e: e.id,
    Column.SOURCE: lambda e: e.source,
    Column.SUBJECT: lambda e: e.subject,
    Column.TYPE: lambda e: e.type,
    Column.TIME: lambda e: e.time_ms,
    Column.INGESTED_AT: lambda e: e.recorded_ms,
    Column.STORED_AT: lambda e: e.append_ms,
}
_SAID: Final[dict[Op, Callable[..., bool]]] = {
    Op.EQ: lambda value, operand: value == operand,
    Op.NE: lambda value, operand: value != operand,
    Op.GT: lambda value, operand: value > operand,
    Op.GTE: lambda value, operand: value >= operand,
    Op.LT: lambda value, operand: value < operand,
    Op.LTE: lambda value, operand: value <= operand,
    Op.CONTAINS: lambda value, operand: operand.lower() in value.lower(),
    Op.LIKE: _like,
    Op.NLIKE: lambda value, operand: not _like(value, operand),
    Op.ILIKE: lambda value, operand: _like(value.lower(), operand.lower()),
    Op.NILIKE: lambda value, operand: not _like(value.lower(), operand.lower()),
}


def accepts(condition: Condition, value: str | int) -> bool:
    """What a condition says of a value."""
    match condition.op:
        case Op.AND:
            return all(accepts(part, value) for part in condition.parts)
        case Op.OR:
            return any(accepts(part, value) for part in condition.parts)
        case Op.IN:
            return value in condition.values
        case Op.NIN:
            return value not in condition.values
        case Op.EXISTS:
            return value != ""
        case Op.NEXISTS:
            return value == ""
        case op:
            return _SAID[op](value, condition.values[0])


def expected(feed: Feed, query: EventQuery) -> list[ListedEvent]:
    """The whole list, in order."""
    owners = {query.namespace, ""} if query.unowned else {query.namespace}
    found = [
        e
        for e in feed.known
        if e.namespace in owners
        and e.verdict in query.verdicts
        and all(accepts(condition, _VALUES[c](e)) for c, condition in query.conditions)
    ]
    return sorted(found, key=lambda e: e.place_by(query.order), reverse=query.order.descending)


async def pages(
    store: ClickHouseUsageStore, query: EventQuery, pages_max: int = 1_000
) -> list[ListedEvent]:
    """The list, page by page."""
    found: list[ListedEvent] = []
    after = query.after
    for _ in range(pages_max):
        page = await store.listed_events(replace(query, after=after))
        found += page
        if len(page) < query.limit:
            break
        after = page[-1].place_by(query.order)
    return found
