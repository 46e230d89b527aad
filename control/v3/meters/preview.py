"""A meter tried on real history before it is made (API v3): the events that are kept are folded by
the rule of the aggregator, and nothing is stored.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import Handlers, Operation
from control.kept import check_events_kept
from control.shapes.optional_members import instant
from control.stores import Ledger, Stores
from control.usage.admission import Asks
from control.usage.answers import Answers
from control.usage.form import opening
from control.usage.query import query_of
from control.v3.meters.bodies import PreviewMeterBody
from control.v3.usage.query import QueryBody, UsageRowShown, rows_form
from meterline.access import Scope
from meterline.audit import UsageEntry
from meterline.event import decode_event
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import Instant, InstantShown, NoParameters
from meterline.limits import (
    BACKFILL_YIELD_EVENTS,
    PREVIEW_DAYS_MAX,
    PREVIEW_EVENTS_MAX,
    PREVIEW_EVENTS_READ,
    PREVIEW_HELD_MAX,
    PREVIEW_REJECTED_SHOWN,
    PREVIEW_ROWS_RENDERED,
)
from meterline.meter import Measure, Meter, MeterDraft
from meterline.problem import Fault, invalid
from meterline.usage import (
    EventFold,
    EventRow,
    UsageQuery,
    UsageRow,
    minutes_of,
    rows_of,
    starts_of,
)
from meterline.window import DAY_MS, rfc3339


class PreviewBody(QueryBody):
    """A meter that is not there, and what is asked of it."""

    meter: PreviewMeterBody
    from_: Annotated[
        Instant,
        Field(
            alias="from",
            description=f"Usage of then or later, to the millisecond; at most {PREVIEW_DAYS_MAX} "
            "days before to.",
        ),
    ]
    to: Annotated[Instant, Field(description="Usage of earlier than then.")]


class PreviewRejectedShown(TypedDict):
    """An event that the meter would match and could not count."""

    position: Annotated[str, Field(description="Where it lies in the log.")]
    id: str
    source: str
    subject: str
    time: InstantShown
    reason: Annotated[str, Field(description="Why it could not be counted.")]
    value: Annotated[str, Field(description="The value as it was sent, its start.")]


PreviewShown = TypedDict(  # a class cannot have a member called `from`
    "PreviewShown",
    {
        "from": InstantShown,
        "to": InstantShown,
        "complete_until": Annotated[
            InstantShown | None,
            Field(description="Everything recorded up to then is included. Null: not known."),
        ],
        "matched": Annotated[int, Field(ge=0, description="Events that pass the filters.")],
        "counted": Annotated[int, Field(ge=0, description="Those that have a usable value.")],
        "rejected": Annotated[int, Field(ge=0, description="Those that have none.")],
        "rejected_examples": Annotated[
            list[PreviewRejectedShown],
            Field(max_length=PREVIEW_REJECTED_SHOWN, description="The first of them."),
        ],
        "data": list[UsageRowShown],
    },
)

_ASKED: Final[Any] = {
    "meter": {"aggregation": "sum", "event_type": "prompt", "value_property": "$.tokens"},
    "from": "2026-01-01T00:00:00Z",
    "to": "2026-02-01T00:00:00Z",
    "granularity": "P1M",
    "group_by_dimensions": ["subject"],
}
_ANSWERED: Final[Any] = {
    "from": "2026-01-01T00:00:00Z",
    "to": "2026-02-01T00:00:00Z",
    "complete_until": "2026-01-31T18:27:37.218Z",
    "matched": 18,
    "counted": 17,
    "rejected": 1,
    "rejected_examples": [
        {
            "position": "1.0.12.3",
            "id": "r-1001",
            "source": "chat-api",
            "subject": "customer-1",
            "time": "2026-01-31T10:00:00Z",
            "reason": "not_a_number",
            "value": '"many"',
        }
    ],
    "data": [
        {
            "value": "1234.5",
            "from": "2026-01-01T00:00:00Z",
            "to": "2026-02-01T00:00:00Z",
            "dimensions": {"subject": "customer-1"},
            "counted": 17,
            "rejected": 1,
        }
    ],
}


@dataclass(slots=True)
class _Tried:
    """What was folded so far."""

    fold: EventFold
    read: int = 0
    examples: list[PreviewRejectedShown] = field(default_factory=list)


class V3MeterPreview(Handlers, tag="Meters"):
    """The handler of the preview."""

    def __init__(self, stores: Stores, ledger: Ledger, answers: Answers) -> None:
        self._stores = stores
        self._answers = answers
        self._ledger = ledger

    @Operation(
        id="preview-meter",
        route="POST /meter-preview",
        summary="Preview a meter on stored events",
        description=(
            "What a meter would answer if you created it. It is computed from stored events: at "
            f"most {PREVIEW_EVENTS_MAX:,} of its event type in at most {PREVIEW_DAYS_MAX} days. "
            "Nothing is created."
        ),
        scope=Scope.USAGE_READ,
        asks=Asks.MUCH,
        body=json_body(PreviewBody, _ASKED),
        answer=Answer(200, "Usage, as query-meter answers.", PreviewShown, example=_ANSWERED),
    )
    async def preview(self, call: Call[NoParameters, PreviewBody]) -> web.StreamResponse:
        """200 with rows like those of a query."""
        body = call.body
        query = query_of(_meter(call.namespace, body.meter.draft()), body.question())
        assert query.from_ms is not None, "the body has it"
        assert query.to_ms is not None, "the body has it"
        span = (query.from_ms, query.to_ms)
        if span[1] - span[0] > PREVIEW_DAYS_MAX * DAY_MS:
            message = f"a preview reads at most {PREVIEW_DAYS_MAX} days; ask for a shorter span"
            raise invalid(Fault("from", message, "minimum"))
        await check_events_kept(self._stores, span[0], "body")
        log = self._stores.log
        # by whatever catalogue: an event is stored before any meter counts it
        until_ms = await self._stores.progress.complete_until(log.number, log.partitions, 0)
        starts = starts_of(query, *span)
        tried = await self._tried(query, span, starts)
        head = _head(query, until_ms, tried)
        rows = rows_of(query, starts, span, tried.fold.found())
        return await self._answers.send(call, rows_form(head, {}), partial(_blocks, rows))

    async def _tried(self, query: UsageQuery, span: tuple[int, int], starts: list[int]) -> _Tried:
        """Fold the events of a span, a part of them at a time. Raises `Problem` where there are too
        many of them, or too many groups and values.
        """
        measure = Measure(query.meter)
        tried = _Tried(EventFold(query, measure, minutes_of(starts)))
        entry = UsageEntry(query.meter, *span)
        after = None
        while True:
            rows = await self._ledger.events.events_of(entry, after, PREVIEW_EVENTS_READ)
            for count, row in enumerate(rows):
                if count % BACKFILL_YIELD_EVENTS == 0:
                    await asyncio.sleep(0)
                _take(tried, measure, row)
            tried.read += len(rows)
            if tried.read > PREVIEW_EVENTS_MAX:
                message = f"over {PREVIEW_EVENTS_MAX:,} events of the type are of that time"
                raise invalid(Fault("from", f"{message}; ask for a shorter span", "minimum"))
            if tried.fold.held > PREVIEW_HELD_MAX:
                message = f"there are over {PREVIEW_HELD_MAX:,} groups and distinct values"
                raise invalid(Fault("from", f"{message}; ask for less", "minimum"))
            if len(rows) < PREVIEW_EVENTS_READ:
                return tried
            after = rows[-1][:4]


async def _blocks(rows: list[UsageRow]) -> AsyncGenerator[list[UsageRow], None]:
    for first in range(0, len(rows), PREVIEW_ROWS_RENDERED):
        yield rows[first : first + PREVIEW_ROWS_RENDERED]


def _take(tried: _Tried, measure: Measure, row: EventRow) -> None:
    event = decode_event(row.text)
    if tried.fold.add(event) or len(tried.examples) >= PREVIEW_REJECTED_SHOWN:
        return
    reason, value = measure.rejection(event.data)
    tried.examples.append(
        {
            "position": ".".join(str(part) for part in row[:4]),
            "id": row.id,
            "source": row.source,
            "subject": row.subject,
            "time": rfc3339(row.time_ms),
            "reason": reason,
            "value": value,
        }
    )


def _meter(namespace: str, draft: MeterDraft) -> Meter:
    """A meter that no store knows."""
    return Meter(
        id="",
        revision=0,
        namespace=namespace,
        key=draft.key,
        name=draft.name,
        description="",
        aggregation=draft.aggregation,
        event_type=draft.event_type,
        value_property=draft.value_property,
        dimensions=draft.dimensions,
        created_at_ms=0,
        updated_at_ms=0,
        events_from_ms=draft.events_from_ms,
    )


def _head(query: UsageQuery, until_ms: int | None, tried: _Tried) -> bytes:
    assert query.from_ms is not None, "the body has it"
    assert query.to_ms is not None, "the body has it"
    fold = tried.fold
    members = {
        "from": rfc3339(query.from_ms),
        "to": rfc3339(query.to_ms),
        "complete_until": instant(until_ms),
        "matched": fold.matched,
        "counted": fold.counted,
        "rejected": fold.matched - fold.counted,
        "rejected_examples": tried.examples,
    }
    return opening(members)
