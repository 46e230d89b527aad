"""The events behind usage (API v3): which a row of a query or an entry of a delivery counts."""

import asyncio
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Any, Final, NotRequired

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import Handlers, Operation
from control.kept import check_events_kept
from control.shapes.pages import CursorMetaShown, cursor_page, cursors, parts_after
from control.stores import Ledger, Stores
from control.usage.admission import Asks
from meterline.access import Scope
from meterline.audit import Behind, Position, UsageEntry, checksum
from meterline.http import json_response
from meterline.http.operation import Answer, Call
from meterline.http.shapes import CursorPage, Instant, InstantShown, Parameters, Text
from meterline.limits import (
    ATTRIBUTE_CHARS_MAX,
    BACKFILL_YIELD_EVENTS,
    USAGE_EVENTS_MAX,
    USAGE_EVENTS_READ,
    USAGE_SLICES_SHOWN,
)
from meterline.meter import DIMENSION_PATTERN, Meter, dimensions_ever
from meterline.problem import Fault, invalid
from meterline.usage import EventRow
from meterline.window import rfc3339

_CURSOR: Final = re.compile(r"([0-9]{1,5})\.([0-9]{1,5})\.([0-9]{1,18})\.([0-9]{1,5})", re.ASCII)


class UsageEventsParameters(Parameters):
    """Which usage, and which page. Without `subject`, and for dimensions that are not named, it is
    not split by them.
    """

    from_: Annotated[Instant, Field(alias="from", description="Start of the window.")]
    to: Annotated[Instant, Field(description="End of the window.")]
    subject: Annotated[
        Text | None,
        Field(max_length=ATTRIBUTE_CHARS_MAX, description="Of this subject; else of all of them."),
    ] = None
    dimensions: Annotated[
        dict[str, str],
        Field(
            description="Values of dimensions, as the entry has them; missing ones are empty.",
            json_schema_extra={"propertyNames": {"pattern": f"^{DIMENSION_PATTERN}$"}},
        ),
    ] = {}
    page: CursorPage = CursorPage()


class UsageEventShown(TypedDict):
    """An event that counts there."""

    id: str
    source: str
    subject: str
    time: Annotated[InstantShown, Field(description="When it counts.")]
    ingested_at: InstantShown
    position: Annotated[str, Field(description="Where it lies: log.partition.offset.place.")]


Checksum = Annotated[
    str,
    Field(
        pattern="^[0-9a-f]{32}$",
        description="Sum of the events' keys modulo 2^128, in whatever order: a key is the "
        "BLAKE2b hash of 16 bytes of the identity.",
    ),
]


class UsageSliceShown(TypedDict):
    """A slice of the log that events of the entry were counted in."""

    slice: Annotated[str, Field(description="log.partition.slice, as `audit-span` names it.")]
    events: Annotated[int, Field(ge=1, description="Events of the entry in it.")]
    checksum: Checksum
    stored_at: Annotated[InstantShown, Field(description="When the log took in the first of them.")]


class UsageEventsTotalShown(TypedDict):
    """Of all pages."""

    events: Annotated[int, Field(ge=0, description="As many as the entry counted.")]
    checksum: Checksum
    slices_total: Annotated[int, Field(ge=0, description="Slices that the events lie in.")]
    slices: Annotated[
        list[UsageSliceShown],
        Field(
            max_length=USAGE_SLICES_SHOWN,
            description="The first of them, along the log. Their checksums add up to that of all "
            "events, if all are listed.",
        ),
    ]


class UsageEventPageShown(TypedDict):
    """A page of events, by position. `total` is on the first page."""

    data: list[UsageEventShown]
    meta: CursorMetaShown
    total: NotRequired[UsageEventsTotalShown]


_EXAMPLE: Final[Any] = {
    "data": [
        {
            "id": "r-1001",
            "source": "chat-api",
            "subject": "customer-1",
            "time": "2026-01-31T10:00:00Z",
            "ingested_at": "2026-01-31T10:00:01.250Z",
            "position": "1.0.12.3",
        }
    ],
    "meta": cursors(20, ["1.0.12.3"], more=False),
    "total": {
        "events": 1,
        "checksum": "0f343b0931126a20f133d67c2b018a3b",
        "slices_total": 1,
        "slices": [
            {
                "slice": "1.0.12",
                "events": 1,
                "checksum": "0f343b0931126a20f133d67c2b018a3b",
                "stored_at": "2026-01-31T10:00:01.262Z",
            }
        ],
    },
}


class V3UsageEvents(Handlers, tag="Meters"):
    """The handler of the list."""

    def __init__(self, stores: Stores, ledger: Ledger) -> None:
        self._stores = stores
        self._ledger = ledger

    @Operation(
        id="list-usage-events",
        route="GET /meters/{meterId}/events",
        summary="List the events behind usage",
        description=(
            "The events that count in a row of a query or an entry of a delivery, named by its "
            "window, subject and dimensions; by the meter as it is now. Events without a usable "
            f"value are not among them. At most {USAGE_EVENTS_MAX} events can stand behind an "
            "entry."
        ),
        scope=Scope.EVENTS_READ,
        asks=Asks.SEARCH,
        parameters=UsageEventsParameters,
        answer=Answer(200, "A page of events.", UsageEventPageShown, example=_EXAMPLE),
    )
    async def list(self, call: Call[UsageEventsParameters, None]) -> web.Response:
        """One page by position; the first with the number and checksum of all."""
        asked, page = call.parameters, call.parameters.page
        after = _after(page)
        meter = await self._stores.meter(call.namespace, call.names["meterId"])
        entry = _entry(meter, asked)
        most = None if after is None else page.size + 1
        await check_events_kept(self._stores, asked.from_, "query")
        found = await self._behind(entry, after, most)
        answer = cursor_page(found, page, _shown, _cursor)
        if after is None:
            answer["total"] = _total(found)
        return json_response(answer)

    async def _behind(
        self, entry: UsageEntry, after: Position | None, most: int | None
    ) -> Sequence[EventRow]:
        """Events that count in the entry, by position: all, or at least `most`. Raises `Problem`
        where there are too many.
        """
        behind = Behind(entry)
        found: list[EventRow] = []
        while most is None or len(found) < most:
            rows = await self._ledger.events.events_of(entry, after, USAGE_EVENTS_READ)
            for count, row in enumerate(rows):
                if count % BACKFILL_YIELD_EVENTS == 0:
                    await asyncio.sleep(0)
                if behind.counts(row):
                    # what only the text tells is not needed any more
                    found.append(row._replace(text=b""))
            if len(found) > USAGE_EVENTS_MAX:
                message = f"over {USAGE_EVENTS_MAX} events stand behind it; ask for a shorter span"
                raise invalid(Fault("from", message, "minimum", "query"))
            if len(rows) < USAGE_EVENTS_READ:
                break
            after = rows[-1][:4]
        return found


def _entry(meter: Meter, asked: UsageEventsParameters) -> UsageEntry:
    """The entry that is asked about. Raises `Problem` with every fault."""
    faults = []
    if asked.from_ >= asked.to:
        message = f"{rfc3339(asked.from_)} must be before to, {rfc3339(asked.to)}"
        faults.append(Fault("from", message, "maximum", "query"))
    known = dimensions_ever(meter)
    listed = ", ".join(known) or "none"
    faults += [
        Fault(
            f"dimensions[{name}]",
            f"is not a dimension of meter {meter.key}; it has {listed}",
            "enum",
            "query",
        )
        for name in asked.dimensions
        if name not in known
    ]
    if faults:
        raise invalid(*faults)
    dimensions = tuple(sorted(asked.dimensions.items()))
    return UsageEntry(meter, asked.from_, asked.to, asked.subject, dimensions)


def _after(page: CursorPage) -> Position | None:
    found = parts_after(page, _CURSOR)
    if found is None:
        return None
    log, partition, offset, place = map(int, found.groups())
    return log, partition, offset, place


def _cursor(row: EventRow) -> str:
    return f"{row.log}.{row.partition}.{row.offset}.{row.place}"


def _total(found: Sequence[EventRow]) -> UsageEventsTotalShown:
    """What all events come to, and the slices that they lie in; they are ordered along the log."""
    slices = [
        (name, list(rows)) for name, rows in groupby(found, lambda row: (row[0], row[1], row.slice))
    ]
    return {
        "events": len(found),
        "checksum": checksum(row.key for row in found),
        "slices_total": len(slices),
        "slices": [
            {
                "slice": ".".join(map(str, name)),
                "events": len(rows),
                "checksum": checksum(row.key for row in rows),
                "stored_at": rfc3339(min(row.append_ms for row in rows)),
            }
            for name, rows in slices[:USAGE_SLICES_SHOWN]
        ],
    }


def _shown(row: EventRow) -> UsageEventShown:
    return {
        "id": row.id,
        "source": row.source,
        "subject": row.subject,
        "time": rfc3339(row.time_ms),
        "ingested_at": rfc3339(row.recorded_ms),
        "position": _cursor(row),
    }
