"""Listed events with what became of them, however an API version shows it: read from the store,
judged by the meters that there are now, each as it answers for the event's time, by the rule of
the fold.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from control.stores import Stores
from meterline.event import (
    EventQuery,
    ListedEvent,
    Log,
    Verdict,
    decode_event,
    index_of,
    instant_of,
    is_erased,
    offset_of,
)
from meterline.meter import Difference, Judges, Outcome, conflicting_members
from meterline.usage import NO_POSITION
from meterline.window import rfc3339

_OURS = ("namespace", "recordedtime")  # what the gateway added
_sent = msgspec.json.Decoder(dict[str, msgspec.Raw])
# An instant as all readers of RFC 3339 take it. One that they do not would cost them the page.
_STRICT: Final = re.compile(
    rb'null|"\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"'
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A listed event. `outcomes` are those of a new one; `first` is what a duplicate or a conflict
    came after, where it is still kept; `of` is the position of that, and `differs` names members in
    which a conflict differs from it.
    """

    listed: ListedEvent
    outcomes: tuple[Outcome, ...] = ()
    first: ListedEvent | None = None
    of: str | None = None
    differs: tuple[Difference, ...] = ()

    @property
    def sent(self) -> dict[str, msgspec.Raw] | None:
        """The event as it was sent, member by member; None for what could not be read."""
        if self.listed.verdict is Verdict.INVALID:
            return None
        return sent_members(self.listed.text)

    @property
    def problems(self) -> list[tuple[str, dict[str, str]]]:
        """Why the event does not count, wholly or somewhere: in words, and by attributes."""
        listed = self.listed
        match listed.verdict:
            case Verdict.DUPLICATE:
                return []
            case Verdict.CONFLICT | Verdict.INVALID:
                return [(listed.reason, {"field": listed.field} if listed.field else {})]
            case Verdict.NEW if is_erased(listed.text):
                return [("its subject was erased, and its payload with it", {})]
            case Verdict.NEW if not self.outcomes:
                return [(f"no meter counts events of type {listed.type}", {"type": listed.type})]
            case Verdict.NEW:
                return [_problem(one) for one in self.outcomes if not one.counted]


def sent_members(text: bytes) -> dict[str, msgspec.Raw]:
    """The members of an event in the log, as it was sent; but its time, where that is accepted and
    no strict RFC 3339, as it is written here.
    """
    members = _sent.decode(text)
    time = bytes(members.get("time", b"null"))
    if not _STRICT.fullmatch(time):
        at_ms = instant_of(msgspec.json.decode(time, type=str))
        members["time"] = msgspec.Raw(msgspec.json.encode(rfc3339(at_ms)))
    return {name: value for name, value in members.items() if name not in _OURS}


def _problem(outcome: Outcome) -> tuple[str, dict[str, str]]:
    attributes = {
        "meter": outcome.meter.key,
        "field": outcome.field,
        "reason": outcome.reason,
        "value": outcome.value,
    }
    message = f"meter {outcome.meter.key} does not count it: {outcome.field} is {outcome.reason}"
    return message, {name: text for name, text in attributes.items() if text}


async def judged(stores: Stores, query: EventQuery) -> list[Judged]:
    """The events of a page, judged. Raises `Problem` as the store does."""
    return await judged_events(stores, query.namespace, await stores.usage.listed_events(query))


async def judged_events(
    stores: Stores, namespace: str, listed: Sequence[ListedEvent]
) -> list[Judged]:
    """These events of a namespace, judged."""
    types = {one.type for one in listed if one.verdict is Verdict.NEW}
    meters = await stores.catalogue.meters(namespace, event_types=types) if types else []
    judges = Judges(meters)
    firsts = await _firsts(stores, listed)
    found = []
    for one in listed:
        await asyncio.sleep(0)  # events may be large and meters many: others get their turn
        if one.verdict is Verdict.NEW:
            made = judges.outcomes(decode_event(one.text))
            found.append(Judged(one, outcomes=tuple(made)))
        else:
            first = firsts.get(_first_of(stores.log, one))
            found.append(_passed_over(one, first, _position_of_first(stores.log, one)))
    return found


def _first_of(log: Log, one: ListedEvent) -> tuple[int, int, int, int]:
    offset, partition = offset_of(one.first), one.partition
    if one.log == log.number:  # the log may have got the partition since then
        partition = log.home(partition, offset)
    return one.log, partition, offset, index_of(one.first)


def _position_of_first(log: Log, one: ListedEvent) -> str | None:
    """Where the new event with the same identity lies, as it is shown."""
    if one.first == NO_POSITION:
        return None
    return ".".join(str(part) for part in _first_of(log, one))


async def _firsts(
    stores: Stores, listed: Sequence[ListedEvent]
) -> dict[tuple[int, int, int, int], ListedEvent]:
    positions = {_first_of(stores.log, one) for one in listed if one.first != NO_POSITION}
    rows = await stores.usage.new_events(sorted(positions)) if positions else []
    return {(row.log, row.partition, row.offset, row.place): row for row in rows}


def _passed_over(one: ListedEvent, first: ListedEvent | None, of: str | None) -> Judged:
    if first is None or one.verdict is not Verdict.CONFLICT:
        return Judged(one, first=first, of=of)
    differs = conflicting_members(decode_event(one.text), decode_event(first.text))
    return Judged(one, first=first, of=of, differs=differs)
