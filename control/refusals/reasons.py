"""Why a refusal cannot be sent anew so, in words that say what to do instead."""

from collections.abc import Mapping, Sequence
from typing import Final

from meterline.event import RefusalKind, RefusalState, Settlement
from meterline.meter import Outcome

AS_IT_IS: Final[Mapping[RefusalKind, str]] = {
    RefusalKind.CONFLICT: (
        "An event with this source and id counts already, so as it is this one would be a conflict "
        "again. Send what shall count as `event`, with another id, or dismiss it."
    ),
    RefusalKind.INBOX: (
        "Not all of the record is kept as it was: it is too long, or no UTF-8. Send the whole event"
        " as `event`; its record lies in the topic."
    ),
    RefusalKind.UNREADABLE: (
        "What lies in the log is no event, and will not become one. Send the event as `event`."
    ),
    RefusalKind.VALUE: (
        "The event was accepted, so as it is it would be a duplicate. Send the mended one as "
        "`event`, with another id."
    ),
}
NEEDS_ANOTHER: Final[Mapping[RefusalKind, str]] = {
    RefusalKind.CONFLICT: (
        "An event with this source and id counts already, so this one would not. Give it another "
        "id."
    ),
    RefusalKind.VALUE: (
        "An event with this source and id was accepted already, so this one would not count. Give "
        "it another id."
    ),
}


def counted_words(outcomes: Sequence[Outcome]) -> str:
    """Of an event that some meters could not use, and others count."""
    counting = ", ".join(one.meter.key for one in outcomes if one.counted)
    others = ", ".join(one.meter.key for one in outcomes if not one.counted)
    return (
        f"The event counts in {counting}: a second one would count there twice. Change what "
        f"{others} reads instead: a new revision counts the events that are there."
    )


def sent_words(stands: Settlement) -> str:
    """Of a refusal for which another event was put down."""
    event = f"source {stands.source!r} and id {stands.id!r}"
    if stands.state is RefusalState.REDRIVEN:
        return f"An event was sent for it already, of {event}."
    return (
        f"An event is being sent for it, of {event}, and may be in. Ask for that again, with the "
        "same event or with none: it counts once."
    )
