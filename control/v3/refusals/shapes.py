"""What of a refusal is asked for and shown in v3."""

from typing import Annotated, Any, Final, NotRequired

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from control.refusals.service import LISTED_KINDS, Refusal
from control.shapes.event import EVENT_EXAMPLE, EventShown
from control.shapes.optional_members import Maybe, present
from control.shapes.pages import KeptMetaShown, page_shape
from control.v3.events.conditions import EventTimeFilter
from control.v3.events.operations import MeterVerdictShown
from meterline.event import (
    Column,
    Condition,
    Op,
    RefusalKind,
    RefusalState,
    Settlement,
    Way,
    inbox_record,
)
from meterline.http.shapes import (
    Closed,
    Cursor,
    CursorPage,
    Instant,
    InstantShown,
    NoNul,
    Parameters,
)
from meterline.limits import (
    ATTRIBUTE_CHARS_MAX,
    CHANGE_DETAIL_CHARS_MAX,
    DIFFERENCES_MAX,
    REDRIVES,
    REDRIVES_MAX,
)
from meterline.meter import Difference as Differing
from meterline.window import rfc3339

Attribute = Annotated[str, Field(max_length=ATTRIBUTE_CHARS_MAX), NoNul]
Note = Annotated[
    str, Field(max_length=CHANGE_DETAIL_CHARS_MAX, description="For people: why."), NoNul
]


class RefusalFilter(Parameters):
    """Conditions on refusals, joined by and."""

    kind: Annotated[
        RefusalKind | None, Field(description="Of this kind; `value` is none here.")
    ] = None
    state: Annotated[RefusalState | None, Field(description="About which this was done.")] = None
    source: Annotated[
        Attribute | None, Field(description="Of the event; of a record of the inbox, its topic.")
    ] = None
    type: Attribute | None = None
    subject: Attribute | None = None
    stored_at: EventTimeFilter | None = None

    @property
    def kinds(self) -> frozenset[RefusalKind]:
        """The kinds asked for."""
        return LISTED_KINDS if self.kind is None else frozenset({self.kind})

    @property
    def states(self) -> frozenset[RefusalState]:
        """The states asked for."""
        return frozenset(RefusalState if self.state is None else {self.state})

    def conditions(self) -> tuple[tuple[Column, Condition], ...]:
        """What else is asked for."""
        found = _equal({"source": self.source, "type": self.type, "subject": self.subject})
        if self.stored_at is not None:
            found += [(Column.STORED_AT, one) for one in self.stored_at.conditions()]
        return tuple(found)


class RefusalsParameters(Parameters):
    """Which refusals, which page."""

    filter: RefusalFilter = RefusalFilter()
    page: CursorPage = CursorPage()


def _equal(wanted: dict[str, str | None]) -> list[tuple[Column, Condition]]:
    return [
        (Column(name), Condition(Op.EQ, (text,)))
        for name, text in wanted.items()
        if text is not None
    ]


class DismissalBody(Closed):
    """Why nothing is to be done."""

    note: Note


class RedriveBody(Closed):
    """The event to send. Without it the record's own text is sent."""

    event: Annotated[
        Maybe[dict[str, JsonValue]],
        Field(description="A whole event, as `ingest-metering-events` takes it."),
    ] = None


class RedrivesFilterBody(Closed):
    """Which refused records of the inbox."""

    source: Annotated[Maybe[Attribute], Field(description="Of this topic.")] = None
    stored_from: Annotated[
        Maybe[Instant], Field(description="Taken in by the log at or after this.")
    ] = None
    stored_to: Annotated[Maybe[Instant], Field(description="Taken in by the log before this.")] = (
        None
    )

    def conditions(self) -> tuple[tuple[Column, Condition], ...]:
        """What is asked for."""
        found = _equal({"source": self.source})
        for op, at_ms in ((Op.GTE, self.stored_from), (Op.LT, self.stored_to)):
            if at_ms is not None:
                found.append((Column.STORED_AT, Condition(op, (at_ms,))))
        return tuple(found)


class RedrivesBody(Closed):
    """Which refusals to send anew, as they are."""

    filter: RedrivesFilterBody = RedrivesFilterBody()
    dry_run: Annotated[bool, Field(description="Only say what would happen.")] = False
    limit: Annotated[int, Field(ge=1, le=REDRIVES_MAX, description="At most so many.")] = REDRIVES
    after: Annotated[Maybe[Cursor], Field(description="From `next` of the answer before.")] = None


class InboxRecordShown(TypedDict):
    """Where the record lies that the inbox refused."""

    topic: str
    partition: int
    offset: Annotated[str, Field(description="A whole number.")]


class EventIdentityShown(TypedDict):
    """What makes an event itself."""

    source: str
    id: str


class RedriveShown(TypedDict):
    """The event that was sent. What became of it: `get-event-trace`."""

    event: EventIdentityShown
    author: str
    at: InstantShown


class DismissalShown(TypedDict):
    """Who said that nothing is to be done."""

    note: Note
    author: str
    at: InstantShown


class RefusalShown(TypedDict):
    """What was refused, why, and what was done about it."""

    id: Annotated[str, Field(description="Where it lies: log.partition.offset.place.")]
    kind: Annotated[
        RefusalKind,
        Field(
            description="An event with an identity that came before with other contents; a record "
            "of an inbox topic that is no event; something in the log that is none (shown to "
            "`operate` only); an event with a value that a meter could not use."
        ),
    ]
    state: RefusalState
    ingested_at: Annotated[InstantShown, Field(description="When it was received.")]
    stored_at: Annotated[InstantShown, Field(description="When the log took it in.")]
    reason: Annotated[str, Field(description="Why it was refused.")]
    field: NotRequired[Annotated[Maybe[str], Field(description="What the reason is about.")]]
    record: NotRequired[Maybe[InboxRecordShown]]
    event: NotRequired[
        Annotated[
            Maybe[EventIdentityShown], Field(description="The event, where it could be read.")
        ]
    ]
    type: NotRequired[Maybe[str]]
    subject: NotRequired[Maybe[str]]
    redrive: NotRequired[Maybe[RedriveShown]]
    dismissal: NotRequired[Maybe[DismissalShown]]


class AcceptedEventShown(TypedDict):
    """The event that counts, as it was sent."""

    event: EventShown
    position: str
    ingested_at: InstantShown
    stored_at: InstantShown


class DifferenceShown(TypedDict):
    """A value that is another one in the refused event; one is absent where only the other has
    any.
    """

    path: Annotated[str, Field(description="JSONPath from the event's root.")]
    accepted: NotRequired[Maybe[JsonValue]]
    refused: NotRequired[Maybe[JsonValue]]


class RefusalContentsShown(RefusalShown):
    """A refusal with all that is kept of it."""

    redrivable: Annotated[
        Way, Field(description="How it can be sent anew: as it is too, as a fixed event, not.")
    ]
    not_redrivable: NotRequired[
        Annotated[Maybe[str], Field(description="Why not, and what to do.")]
    ]
    text: NotRequired[
        Annotated[Maybe[str], Field(description="Of what is no event: what was sent.")]
    ]
    base64: NotRequired[Annotated[Maybe[str], Field(description="The same where it is no UTF-8.")]]
    whole: NotRequired[
        Annotated[Maybe[bool], Field(description="Whether that is all of it, byte for byte.")]
    ]
    refused: NotRequired[
        Annotated[Maybe[EventShown], Field(description="The event, as it was sent.")]
    ]
    accepted: NotRequired[Maybe[AcceptedEventShown]]
    differs: NotRequired[
        Annotated[Maybe[list[Differing]], Field(description="In what of that which counts.")]
    ]
    differences: NotRequired[
        Annotated[Maybe[list[DifferenceShown]], Field(max_length=DIFFERENCES_MAX)]
    ]
    more_differences: NotRequired[Maybe[bool]]
    meters: NotRequired[
        Annotated[Maybe[list[MeterVerdictShown]], Field(description="What each meter made of it.")]
    ]


REFUSAL_PAGE: Final = page_shape(
    "RefusalPageShown",
    RefusalShown,
    "A page of refusals; it may have fewer entries than asked for and still lead on.",
    KeptMetaShown,
)


class RefusedAgainShown(TypedDict):
    """One that was not sent, and why."""

    id: str
    reason: str
    field: NotRequired[Maybe[str]]


class RedrivesShown(TypedDict):
    """What became of refusals that were to be sent anew."""

    dry_run: bool
    found: Annotated[int, Field(description="So many were looked at.")]
    accepted: Annotated[int, Field(description="So many were sent, or would be.")]
    refused: Annotated[list[RefusedAgainShown], Field(description="The others: they stay open.")]
    next: Annotated[str | None, Field(description="For `after`, to go on; null at the end.")]


REFUSAL_EXAMPLE: Final[RefusalShown] = {
    "id": "1.0.12.3",
    "kind": RefusalKind.INBOX,
    "state": RefusalState.REDRIVEN,
    "ingested_at": "2026-01-31T10:00:01.250Z",
    "stored_at": "2026-01-31T10:00:01.262Z",
    "reason": "is required",
    "field": "subject",
    "record": {"topic": "orders", "partition": 3, "offset": "17"},
    "redrive": {
        "event": {"source": "api-gateway", "id": "5c10fade-1c9e-4d6c-8275-c52c36731d3c"},
        "author": "key:01M7ZM1111111111111111111A",
        "at": "2026-01-31T11:00:00Z",
    },
}
CONFLICT_EXAMPLE: Final[Any] = {
    "id": "1.0.12.3",
    "kind": "conflict",
    "state": "open",
    "ingested_at": "2026-01-31T10:00:01.250Z",
    "stored_at": "2026-01-31T10:00:01.262Z",
    "reason": "the same source and id came before with another type, subject, time or data",
    "field": "id",
    "event": {"source": "api-gateway", "id": "5c10fade-1c9e-4d6c-8275-c52c36731d3c"},
    "type": "request",
    "subject": "customer-1",
    "redrivable": "fixed",
    "refused": {**EVENT_EXAMPLE, "data": {"tokens": "1250", "model": "small"}},
    "accepted": {
        "event": EVENT_EXAMPLE,
        "position": "1.0.11.0",
        "ingested_at": "2026-01-31T10:00:00.003Z",
        "stored_at": "2026-01-31T10:00:00.012Z",
    },
    "differs": ["data"],
    "differences": [{"path": "$.data.tokens", "accepted": "1234", "refused": "1250"}],
}


def refusal_shown(one: Refusal) -> RefusalShown:
    """A refusal as v3 shows it."""
    listed, read = one.listed, one.listed.type != ""
    record = inbox_record(listed)
    shown: RefusalShown = {
        "id": one.name,
        "kind": one.kind,
        "state": one.state,
        "ingested_at": rfc3339(listed.recorded_ms),
        "stored_at": rfc3339(listed.append_ms),
        "reason": listed.reason or _first_reason(one),
        "field": listed.field or None,
        "record": None if record is None else _record_shown(*record),
        "event": {"source": listed.source, "id": listed.id} if read else None,
        "type": listed.type if read else None,
        "subject": listed.subject if read else None,
        "redrive": _redrive_shown(one.settlement),
        "dismissal": _dismissal_shown(one.settlement),
    }
    return present(shown)


def _record_shown(topic: str, partition: int, offset: int) -> InboxRecordShown:
    return {"topic": topic, "partition": partition, "offset": str(offset)}


def _redrive_shown(done: Settlement | None) -> RedriveShown | None:
    if done is None or done.state is RefusalState.DISMISSED:
        return None
    event: EventIdentityShown = {"source": done.source, "id": done.id}
    return {"event": event, "author": done.author, "at": rfc3339(done.at_ms)}


def _dismissal_shown(done: Settlement | None) -> DismissalShown | None:
    if done is None or done.state is not RefusalState.DISMISSED:
        return None
    return {"note": done.note, "author": done.author, "at": rfc3339(done.at_ms)}


def _first_reason(one: Refusal) -> str:
    """Of an event that was accepted: why a meter could not use it."""
    for outcome in one.outcomes:
        if not outcome.counted:
            return f"{outcome.meter.key}: {outcome.field} is {outcome.reason}"
    return "no meter takes it now"
