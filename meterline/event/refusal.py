"""Refusals: what was refused and counts nowhere, and what was done about it (pure).

A refusal is named by the position of what was refused. It is settled once: by sending an event anew
(re-driving), or by saying that nothing is to be done (dismissing). A re-driven event is an event
like any other; its identity is what makes it count once, however often it is sent.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from meterline.event.listing import ListedEvent
from meterline.event.verdict import Verdict
from meterline.limits import REJECT_TEXT_BYTES_MAX
from meterline.window import rfc3339_ms

Position = tuple[int, int, int, int]  # log, partition, offset, place
POSITION_PATTERN: Final = r"[0-9]{1,5}\.[0-9]{1,5}\.[0-9]{1,18}\.[0-9]{1,5}"
_SMALL: Final = 1 << 16  # log, partition and place are 16 bits wide
_REPLACED: Final = "\ufffd"
_RECORD: Final = re.compile(r"([0-9]{1,10})/([0-9]{1,19})", re.ASCII)
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class RefusalKind(StrEnum):
    """Why something counts nowhere."""

    CONFLICT = "conflict"  # an event whose identity came before with another payload
    INBOX = "inbox"  # a record of an inbox topic that is no event
    UNREADABLE = "unreadable"  # what lies in the log and is no event; of no namespace
    VALUE = "value"  # an event that was accepted, whose value some meter could not use


class RefusalState(StrEnum):
    """What was done about a refusal."""

    OPEN = "open"
    REDRIVING = "redriving"  # an event was to be sent anew; it is not known whether it is in
    REDRIVEN = "redriven"
    DISMISSED = "dismissed"


class Way(StrEnum):
    """How a refusal can be re-driven."""

    AS_IT_IS = "as_it_is"  # its own text, or a fixed event
    FIXED = "fixed"  # an event that is sent with the request
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Settlement:
    """What was done about the refusal at a position.

    `owner` is whose refusal it is ("": nobody's), `append_ms` when the log took it in. `namespace`
    is that of `author`; a re-driven event is one of it. Of the event there are its identity and its
    check, and until it is known to be in, its text as sent.
    """

    position: Position
    owner: str
    kind: RefusalKind
    append_ms: int
    state: RefusalState
    namespace: str
    author: str
    at_ms: int
    note: str = ""
    source: str = ""
    id: str = ""
    check: bytes = b""
    text: bytes | None = field(default=None, repr=False)

    def same_event(self, other: "Settlement") -> bool:
        """Whether the other one sends this event too: by its identity and what it says."""
        mine = (self.namespace, self.source, self.id, self.check)
        return bool(self.check) and mine == (other.namespace, other.source, other.id, other.check)


def begun(there: Settlement | None, wanted: Settlement) -> Settlement:
    """What stands once `wanted` is to be re-driven: that, unless an event was sent already."""
    return wanted if there is None or there.state is RefusalState.DISMISSED else there


def dismissed(there: Settlement | None, wanted: Settlement) -> Settlement:
    """What stands once `wanted` is to be dismissed: that, unless an event was sent, or all of it is
    said already.
    """
    if there is None:
        return wanted
    same = (there.note, there.author) == (wanted.note, wanted.author)
    return wanted if there.state is RefusalState.DISMISSED and not same else there


def state_of(settlement: Settlement | None) -> RefusalState:
    """Of a refusal about which this was done."""
    return RefusalState.OPEN if settlement is None else settlement.state


def kind_of(listed: ListedEvent) -> RefusalKind | None:
    """The kind of refusal that an event in the log is by its verdict alone; None: it is none."""
    if listed.verdict is Verdict.CONFLICT:
        return RefusalKind.CONFLICT
    if listed.verdict is Verdict.INVALID:
        return RefusalKind.INBOX if listed.namespace else RefusalKind.UNREADABLE
    return None


def position_of(listed: ListedEvent) -> Position:
    """Where it lies."""
    return listed.log, listed.partition, listed.offset, listed.place


def position_text(position: Position) -> str:
    """The position as it is shown: the id of a refusal."""
    return ".".join(map(str, position))


def parse_position(text: str) -> Position | None:
    """The position with this id; None where nothing can lie there."""
    if not re.fullmatch(POSITION_PATTERN, text, re.ASCII):
        return None
    log, partition, offset, place = (int(part) for part in text.split("."))
    if max(log, partition, place) >= _SMALL:
        return None
    return log, partition, offset, place


def inbox_record(listed: ListedEvent) -> tuple[str, int, int] | None:
    """Topic, partition and offset of the record that the inbox refused."""
    found = _RECORD.fullmatch(listed.id) if kind_of(listed) is RefusalKind.INBOX else None
    return None if found is None else (listed.source, int(found[1]), int(found[2]))


def is_whole(text: bytes) -> bool:
    """Whether the kept text of what could not be read is all that was sent: neither cut, nor with
    anything in the place of bytes that were no UTF-8.
    """
    return len(text) < REJECT_TEXT_BYTES_MAX and _REPLACED not in text.decode(errors="replace")


def timed(text: bytes, received_ms: int) -> bytes:
    """The text of an event that was received at an instant: where it says no time of its own, it is
    given that one, for without it would count when it is sent anew.
    """
    members = _members.decode(text)
    own = members.get("time")
    if own is not None and bytes(own) != b"null":
        return text
    members["time"] = msgspec.Raw(msgspec.json.encode(rfc3339_ms(received_ms)))
    return msgspec.json.encode(members)
