"""What is in a refusal: texts, and the two payloads of a conflict with what they differ in."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from control.event_judgement import sent_members
from control.refusals.difference import Difference, differences
from control.refusals.service import Refusal
from control.stores import Stores
from meterline.event import ListedEvent, Log, RefusalKind, Unreadable, decode_record, is_whole
from meterline.limits import DIFFERENCES_MAX
from meterline.ports import Unavailable

Members = Mapping[str, msgspec.Raw]


@dataclass(frozen=True, slots=True)
class Sides:
    """Two payloads of one identity, each as it was sent, and where they differ; `more`: in more
    than is listed.
    """

    accepted: Members
    refused: Members
    differences: list[Difference]
    more: bool


def sides(refusal: Refusal) -> Sides | None:
    """Both payloads of a conflict; None where the accepted one is not kept any more."""
    first = refusal.judged.first if refusal.judged else None
    if first is None or refusal.kind is not RefusalKind.CONFLICT:
        return None
    accepted, refused = sent_members(first.text), sent_members(refusal.listed.text)
    texts = msgspec.json.encode(accepted), msgspec.json.encode(refused)
    return Sides(accepted, refused, *differences(*texts, DIFFERENCES_MAX))


async def kept_text(stores: Stores, refusal: Refusal) -> tuple[bytes, bool]:
    """The text of what could not be read, and whether that is all of it, byte for byte.

    The usage store keeps the beginning, with anything that is no UTF-8 replaced. As long as the log
    still has the record, what lies in a pack is read from there.
    """
    listed = refusal.listed
    if is_whole(listed.text):
        return listed.text, True
    if refusal.kind is RefusalKind.UNREADABLE and listed.log == stores.log.number:
        exact = await _in_log(stores.log, listed)
        if exact is not None:
            return exact, True
    return listed.text, False


async def _in_log(log: Log, listed: ListedEvent) -> bytes | None:
    try:
        records = await log.read(listed.partition, listed.offset, 1)
    except Unavailable:
        return None
    for record in records:
        if record.offset == listed.offset:
            for item in decode_record(record):
                if isinstance(item, Unreadable) and item.index == listed.place:
                    return item.text
    return None
