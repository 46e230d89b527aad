"""The judgement on erasures: what is left of a subject, and what must be counted of it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from meterline.event import is_erased
from meterline.meter import decode_groups
from meterline.usage import Erasure
from tests.simulation.oracle import Read
from tests.simulation.world import World

_WITH_PAYLOAD = ("events", "rejects", "rejected")
_CELLS = ("tallies", "members", "late_tallies", "late_members")


def left(world: World, name: str) -> Iterator[str]:
    """What is still there of a subject whose erasure is told as done."""
    erasure, subject = world.erasures.records[name], world.erasures.names[name]
    if erasure.subject is not None:
        yield "its record knows the name"
    for table in (*_WITH_PAYLOAD, *_CELLS):
        for identity, row in world.usage.tables[table].items():
            if row.slice >= erasure.ends.get(row.partition, 0):
                continue
            groups = decode_groups(getattr(row, "groups", "[]"))
            if row.subject == subject or (row.subject == erasure.pseudonym and subject in groups):
                yield f"{table} has the name: {row}"
            was = world.usage.whole.tables[table].get(identity)
            if was is not None and was.subject == subject and _tells(table, row, subject):
                yield f"{table} tells of it: {row}"
    for number, rows in world.blocks.rows.items():
        named = [row for row in rows if row.cell.subject == subject]
        old = number in world.erasures.blocks_before[name] and not world.profile.wild_clocks
        if named and old:
            yield f"block {number} has the name: {named[0]}"
    yield from _logged(world, erasure)


def _tells(table: str, row: object, subject: str) -> bool:
    if table not in _WITH_PAYLOAD:
        return False
    if table == "rejected":
        return bool(getattr(row, "value", ""))
    text: bytes = getattr(row, "text", b"")
    named = subject in getattr(row, "source", "") or subject.encode() in text
    return named or (bool(text) and not is_erased(text))


def _logged(world: World, erasure: Erasure) -> Iterator[str]:
    for number, kept in enumerate(world.log.partitions):
        there = [it for it in kept.records if it.offset < erasure.ends.get(number, 0)]
        if there:
            yield f"the log still has {there[0]}"


def seen_by(world: World, events: Iterable[Read], revision: int) -> list[Read]:
    """Events as a revision must have counted them."""
    if not world.profile.erases_s:
        return list(events)
    rows = world.usage.whole.tables["events"]
    slices = {key[1:3]: row.slice for key, row in rows.items()}
    return [_seen(world, slices, event, revision) for event in events]


def _seen(world: World, slices: Mapping[tuple[int, int], int], event: Read, revision: int) -> Read:
    slice_ = slices.get((event.partition, event.offset))
    if slice_ is None:
        return event
    shown = world.erasures.shown_as(event.subject, event.partition, slice_)
    if shown == event.subject:
        return event
    if world.erasures.erased_for(revision, shown):
        return replace(event, subject=shown, data=None)
    data = event.data
    if isinstance(data, dict):
        data = {key: shown if it == event.subject else it for key, it in data.items()}
    return replace(event, subject=shown, data=data)
