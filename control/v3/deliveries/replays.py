"""Replays of many deliveries in API v3: counted first, then worked off at a pace."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, NotRequired, cast

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict
from ulid import ULID

from control.handlers import OfReports, Operation
from control.shapes.optional_members import Maybe, instant, present
from control.shapes.pages import cursor_page, id_after, page_answer, page_shape
from control.shapes.run import RUN_PATTERN, RunId
from control.v3.reports.run_shapes import RUN_EXAMPLE
from meterline.access import Scope
from meterline.delivery import DeliveryQuery, DeliveryState, Replay
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import (
    Closed,
    CursorPage,
    Instant,
    InstantShown,
    NoParameters,
    Parameters,
    Text,
    Ulid,
)
from meterline.limits import (
    ATTRIBUTE_CHARS_MAX,
    REPLAY_PER_SECOND,
    REPLAY_PER_SECOND_MAX,
    REPORT_SLUG_CHARS_MAX,
)
from meterline.problem import Fault, ProblemType, invalid, not_found
from meterline.window import rfc3339

_EXAMPLE_ID: Final = "01M7ZMF4YA7D2SQ292V0W9JPT8"


class ReplayBody(Closed):
    """Which deliveries, by conditions joined by and, of which at least one is there."""

    report: Annotated[
        str | None,
        Field(
            pattern=rf"^[A-Za-z0-9_-]{{1,{REPORT_SLUG_CHARS_MAX}}}$",
            description="Those of the report with this id or slug.",
        ),
    ] = None
    run: Annotated[
        str | None, Field(pattern=f"^{RUN_PATTERN}$", description="Those of this run.")
    ] = None
    subject: Annotated[Text | None, Field(max_length=ATTRIBUTE_CHARS_MAX)] = None
    from_: Annotated[
        Instant | None, Field(alias="from", description="Their windows begin then or later.")
    ] = None
    to: Annotated[Instant | None, Field(description="Their windows end then or earlier.")] = None
    failed_since: Annotated[
        Instant | None, Field(description="They failed then or later, and have not arrived since.")
    ] = None
    dry_run: Annotated[bool, Field(description="Only count them, and change nothing.")] = False
    per_second: Annotated[
        int,
        Field(ge=1, le=REPLAY_PER_SECOND_MAX, description="How many are sent again in a second."),
    ] = REPLAY_PER_SECOND


class ReplayFilter(Parameters):
    """Conditions on replays."""

    report: Annotated[
        str | None,
        Field(
            pattern=rf"^[A-Za-z0-9_-]{{1,{REPORT_SLUG_CHARS_MAX}}}$",
            description="Those asked for deliveries of the report with this id or slug; of a "
            "deleted one, its id.",
        ),
    ] = None


class ReplayListParameters(Parameters):
    """Which replays, which page."""

    page: CursorPage = CursorPage()
    filter: ReplayFilter = ReplayFilter()


class StateCountsShown(TypedDict):
    """How many deliveries are in each state."""

    pending: int
    sending: int
    retrying: int
    delivered: int
    failed: int
    cancelled: int


class ReplayCountShown(TypedDict):
    """What a replay would come to."""

    dry_run: Literal[True]
    counted: Annotated[int, Field(description="Deliveries that are asked for.")]
    by_state: Annotated[
        StateCountsShown,
        Field(
            description="Those `pending` or `sending` are on their way, and would be left alone."
        ),
    ]


ReplayedShown = TypedDict(
    "ReplayedShown",
    {
        "report_id": NotRequired[Maybe[Ulid]],
        "run_id": NotRequired[Maybe[RunId]],
        "subject": NotRequired[Maybe[str]],
        "from": NotRequired[Maybe[InstantShown]],
        "to": NotRequired[Maybe[InstantShown]],
        "failed_since": NotRequired[Maybe[InstantShown]],
    },
)
ReplayedShown.__doc__ = "Which deliveries a replay is asked for."


class ReplayShown(TypedDict):
    """A replay of many deliveries."""

    id: Ulid
    state: Annotated[
        Literal["running", "done", "cancelled"],
        Field(description="`done`: all deliveries were queued. Some may not have arrived yet."),
    ]
    asked: ReplayedShown
    per_second: int
    created_at: InstantShown
    ended_at: NotRequired[Maybe[InstantShown]]
    counted: Annotated[int, Field(description="Deliveries that were asked for when it began.")]
    replayed: Annotated[int, Field(description="Have been made ready to be sent again so far.")]
    in_flight: Annotated[
        int, Field(description="Were on their way when their turn came, and were left alone.")
    ]
    refused: Annotated[
        int,
        Field(
            description="Cannot be sent again: their report was deleted, or their bytes are not "
            "kept any more."
        ),
    ]


_PAGE: Final = page_shape("ReplayPageShown", ReplayShown, "A page of replays, the newest first.")
_RUNNING: Final[ReplayShown] = {
    "id": _EXAMPLE_ID,
    "state": "running",
    "asked": {"report_id": RUN_EXAMPLE["report_id"], "failed_since": "2026-02-01T00:00:00Z"},
    "per_second": 20,
    "created_at": "2026-02-02T09:00:00Z",
    "counted": 1200,
    "replayed": 0,
    "in_flight": 0,
    "refused": 0,
}
_COUNTS: Final[StateCountsShown] = {
    "pending": 0,
    "sending": 0,
    "retrying": 1,
    "delivered": 0,
    "failed": 2,
    "cancelled": 0,
}
_DONE: Final[ReplayShown] = {
    **_RUNNING,
    "state": "done",
    "replayed": 1198,
    "in_flight": 2,
    "ended_at": "2026-02-02T09:01:00Z",
}


class V3Replays(OfReports, tag="Deliveries"):
    """Handlers of replays of many deliveries."""

    @Operation(
        id="create-replay",
        route="POST /replays",
        summary="Send many deliveries again",
        description="Send all matching deliveries again, as `replay-delivery` does: the same "
        "bytes under the same id. Only deliveries of runs that are final by now match. With "
        "`dry_run` they are only counted. The replay sends `per_second` deliveries, continues "
        "after restarts, and does not wait for receivers. Deliveries that are being sent already "
        "are left alone.",
        scope=Scope.REPORTS_WRITE,
        body=json_body(
            ReplayBody, {"report": "daily-tokens", "failed_since": "2026-02-01T00:00:00Z"}
        ),
        answer=(
            Answer(
                200,
                "What it would come to (`dry_run`).",
                ReplayCountShown,
                example={"dry_run": True, "counted": 3, "by_state": _COUNTS},
            ),
            Answer(201, "The replay, which has begun.", ReplayShown, example=_RUNNING),
        ),
        problems=(ProblemType.CONFLICT, ProblemType.NOT_FOUND),
    )
    async def create(self, call: Call[NoParameters, ReplayBody]) -> web.Response:
        """200 with counts, or 201 with a replay that has begun."""
        service, body = self._service, call.body
        now_ms = service.now_ms
        query = await self._query(call.namespace, body, now_ms)
        if body.dry_run:
            counts = await service.replays.counts(call.namespace, query)
            answer: ReplayCountShown = {
                "dry_run": True,
                "counted": sum(counts.values()),
                "by_state": _by_state(counts),
            }
            return json_response(answer)
        name = str(ULID.from_timestamp(now_ms))
        replay = await service.replays.create_replay(
            Replay(name, call.namespace, query, body.per_second, now_ms), author=call.author
        )
        return json_response(replay_shown(replay), 201)

    @Operation(
        id="list-replays",
        route="GET /replays",
        summary="List replays of many deliveries",
        scope=Scope.REPORTS_READ,
        parameters=ReplayListParameters,
        answer=page_answer("A page of replays, the newest first.", _PAGE, _DONE, _EXAMPLE_ID),
    )
    async def list(self, call: Call[ReplayListParameters, None]) -> web.Response:
        """One page, the newest first."""
        service, page, report = self._service, call.parameters.page, call.parameters.filter.report
        report_id = None if report is None else await service.report_id(call.namespace, report)
        found = await service.replays.replays(
            call.namespace, page.size + 1, id_after(page), report_id=report_id
        )
        return json_response(cursor_page(found, page, replay_shown, lambda it: it.id))

    @Operation(
        id="get-replay",
        route="GET /replays/{replayId}",
        summary="Get a replay",
        scope=Scope.REPORTS_READ,
        answer=Answer(200, "The replay as it is.", ReplayShown, example=_DONE),
    )
    async def get(self, call: Call[NoParameters, None]) -> web.Response:
        """The replay."""
        name = call.names["replayId"]
        replay = await self._service.replays.replay(call.namespace, name.upper())
        if replay is None:
            raise not_found("replay", name)
        return json_response(replay_shown(replay))

    @Operation(
        id="cancel-replay",
        route="POST /replays/{replayId}/cancel",
        summary="Cancel a replay",
        description="End a replay. Deliveries that are already queued are still sent. A replay "
        "that has ended stays as it is.",
        scope=Scope.REPORTS_WRITE,
        answer=Answer(
            200,
            "The replay as it ended.",
            ReplayShown,
            example={**_DONE, "state": "cancelled", "replayed": 340, "in_flight": 0},
        ),
    )
    async def cancel(self, call: Call[NoParameters, None]) -> web.Response:
        """The replay, which goes no further."""
        service = self._service
        replay = await service.replays.cancel_replay(
            call.namespace, call.names["replayId"].upper(), service.now_ms, author=call.author
        )
        return json_response(replay_shown(replay))

    async def _query(self, namespace: str, body: ReplayBody, now_ms: int) -> DeliveryQuery:
        conditions = (body.report, body.run, body.subject, body.from_, body.to, body.failed_since)
        if all(condition is None for condition in conditions):
            names = "report, run, subject, from, to or failed_since"
            raise invalid(Fault("", f"does not select deliveries: give {names}", "required"))
        if body.from_ is not None and body.to is not None and body.from_ >= body.to:
            raise invalid(Fault("from", "must be before `to`", "maximum"))
        report_id = None
        if body.report is not None:
            report_id = (await self._service.report(namespace, body.report)).id
        return DeliveryQuery(
            report_id=report_id,
            run_id=body.run,
            subject=body.subject,
            from_min_ms=body.from_,
            to_max_ms=body.to,
            failed_since_ms=body.failed_since,
            decided_max_ms=now_ms,  # what is decided later is on its way by itself
        )


def _by_state(counts: Mapping[DeliveryState, int]) -> StateCountsShown:
    by_state = {state.value: counts.get(state, 0) for state in DeliveryState}
    return cast("StateCountsShown", by_state)


def replay_shown(replay: Replay) -> ReplayShown:
    """The replay as v3 shows it; what it does not have is left out."""
    query = replay.query
    asked: ReplayedShown = {
        "report_id": query.report_id,
        "run_id": query.run_id,
        "subject": query.subject,
        "from": instant(query.from_min_ms),
        "to": instant(query.to_max_ms),
        "failed_since": instant(query.failed_since_ms),
    }
    shown: ReplayShown = {
        "id": replay.id,
        "state": replay.state.value,
        "asked": present(asked),
        "per_second": replay.per_second,
        "created_at": rfc3339(replay.created_at_ms),
        "counted": replay.counted,
        "replayed": replay.replayed,
        "in_flight": replay.in_flight,
        "refused": replay.refused,
        "ended_at": instant(replay.ended_at_ms),
    }
    return present(shown)
