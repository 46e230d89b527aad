"""Why a refusal cannot be sent anew so, in words that say what to do instead."""

from collections.abc import Mapping, Sequence
from typing import Final

from meterline.event import RefusalKind, RefusalState, Settlement
from meterline.meter import Outcome

AS_IT_IS: Final[Mapping[RefusalKind, str]] = {
    RefusalKind.CONFLICT: (
        "An event with this source and id already counts, so sending this one again would be a "
        "conflict again. Send it as `event` with another id, or dismiss the refusal."
    ),
    RefusalKind.INBOX: (
        "The record was not stored completely: it is too long, or not UTF-8. Send the whole event"
        " as `event`. The record is still in its topic."
    ),
    RefusalKind.UNREADABLE: ("The record in the log is not an event. Send the event as `event`."),
    RefusalKind.VALUE: (
        "The event was accepted, so sending it unchanged would be a duplicate. Fix it, and send it "
        "as `event` with another id."
    ),
}
NEEDS_ANOTHER: Final[Mapping[RefusalKind, str]] = {
    RefusalKind.CONFLICT: (
        "An event with this source and id already counts, so this one would not. Use another id."
    ),
    RefusalKind.VALUE: (
        "An event with this source and id was already accepted, so this one would not count. Use "
        "another id."
    ),
}


def counted_message(outcomes: Sequence[Outcome]) -> str:
    """Of an event that some meters could not use, and others count."""
    counting = ", ".join(one.meter.key for one in outcomes if one.counted)
    others = ", ".join(one.meter.key for one in outcomes if not one.counted)
    return (
        f"The event counts in {counting}. A second event would count there twice. Instead, change "
        f"what {others} reads: its new revision counts the existing event."
    )


def sent_message(stands: Settlement) -> str:
    """Of a refusal for which another event was put down."""
    event = f"source {stands.source!r} and id {stands.id!r}"
    if stands.state is RefusalState.REDRIVEN:
        return f"It was already redriven with the event of {event}."
    return (
        f"It is being redriven with the event of {event}, which may be in the log. Send the same "
        "event again, or {}: it counts once."
    )


def doubt_message(stands: Settlement) -> str:
    """Of a refusal whose event was sent so long ago that a copy of it would count again."""
    return (
        f"It was redriven longer ago than duplicates are detected (horizon_days), with the event of"
        f" source {stands.source!r} and id {stands.id!r}. Whether that event counted is not known,"
        " so it is not sent again: it could count twice. Look at the usage of its subject at its"
        " time. If it is missing there, send the event as a new one."
    )
