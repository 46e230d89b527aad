"""What was refused, in API v3: listed, shown with all that is kept of it, dismissed."""

import base64
from typing import Any, Final, cast

import msgspec
from aiohttp import web

from control.handlers import Handlers, Operation
from control.kept import with_kept
from control.refusals.contents import Sides, kept_text, sides
from control.refusals.difference import Absent, Difference
from control.refusals.reasons import counted_message
from control.refusals.service import ORDER, Refusal, RefusalQuery, RefusalService
from control.shapes.pages import cursors, page_answer
from control.v3.events.operations import meter_verdict_shown
from control.v3.refusals.shapes import (
    CONFLICT_EXAMPLE,
    REFUSAL_EXAMPLE,
    REFUSAL_PAGE,
    DifferenceShown,
    DismissalBody,
    RefusalContentsShown,
    RefusalShown,
    RefusalsParameters,
    refusal_shown,
)
from meterline.access import Scope
from meterline.event import Place, RefusalKind, Way, decode_cursor, encode_cursor
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import NoParameters
from meterline.problem import Fault, Problem, ProblemType, invalid
from meterline.usage import REJECTS
from meterline.window import rfc3339

_DISMISSED: Final[RefusalShown] = {
    **{key: value for key, value in REFUSAL_EXAMPLE.items() if key != "redrive"},  # type: ignore[typeddict-item]
    "state": "dismissed",
    "dismissal": {"note": "A test of ours.", "author": "anonymous", "at": "2026-01-31T11:00:00Z"},
}


class V3Refusals(Handlers, tag="Refusals"):
    """The handlers."""

    def __init__(self, service: RefusalService) -> None:
        self._service = service

    @Operation(
        id="list-refusals",
        route="GET /refusals",
        summary="List refusals",
        description=(
            "List events that were received but do not count, newest first, with the state of "
            "each: conflicts, records of inbox topics that are not events, and unreadable "
            "records. Events that were refused with an HTTP error are not listed, nor are "
            "duplicates. Values that a meter could not use are listed by `list-rejected-values`."
        ),
        scope=Scope.EVENTS_READ,
        parameters=RefusalsParameters,
        answer=page_answer("A page of refusals.", REFUSAL_PAGE, REFUSAL_EXAMPLE),
    )
    async def list(self, call: Call[RefusalsParameters, None]) -> web.Response:
        """One page; `meta.page.next` leads to the next, or is null."""
        page, only = call.parameters.page, call.parameters.filter
        if only.kind is RefusalKind.VALUE:
            message = "values that a meter could not use are listed by list-rejected-values"
            raise invalid(Fault("filter[kind]", message, "enum", "query"))
        found = await self._service.page(
            RefusalQuery(
                namespace=call.namespace,
                now_ms=self._service.stores.now_ms,
                limit=page.size,
                unowned=operates(call),
                kinds=only.kinds,
                states=only.states,
                conditions=only.conditions(),
                after=place_of(page.after, "page[after]", "query"),
            )
        )
        places = [encode_cursor(ORDER, one.listed.place_by(ORDER)) for one in found.refusals]
        meta = cursors(page.size, places, more=False)
        if found.following is not None:  # not of the last one shown: others were looked at
            meta["page"]["next"] = encode_cursor(ORDER, found.following)
        listed = {"data": [*map(refusal_shown, found.refusals)], "meta": meta}
        return json_response(await with_kept(self._service.stores, REJECTS, listed))

    @Operation(
        id="get-refusal",
        route="GET /refusals/{refusalId}",
        summary="Get a refusal with its contents",
        description=(
            "A conflict has both payloads and their differences. A record that is not an event "
            "has its text. For a rejected value (use its `position` as the id) it shows which "
            "other meters count the event."
        ),
        scope=Scope.EVENTS_READ,
        answer=Answer(200, "The refusal.", RefusalContentsShown, example=CONFLICT_EXAMPLE),
    )
    async def get(self, call: Call[NoParameters, None]) -> web.Response:
        """Everything that is kept of it."""
        one = await asked_for(self._service, call)
        shown = cast("RefusalContentsShown", {**refusal_shown(one), "redrivable": one.way})
        if one.way is Way.NONE:
            shown["not_redrivable"] = counted_message(one.outcomes)
        if one.kind in (RefusalKind.INBOX, RefusalKind.UNREADABLE):
            text, whole = await kept_text(self._service.stores, one)
            shown["whole"] = whole
            try:
                shown["text"] = text.decode()
            except UnicodeDecodeError:
                shown["base64"] = base64.b64encode(text).decode()
            return json_response(shown)
        if one.judged is not None and one.judged.sent is not None:
            shown["refused"] = cast("Any", one.judged.sent)
        if one.kind is RefusalKind.VALUE:
            shown["meters"] = [meter_verdict_shown(outcome) for outcome in one.outcomes]
        elif (both := sides(one)) is not None:
            _show_sides(shown, one, both)
        return json_response(shown)

    @Operation(
        id="dismiss-refusal",
        route="POST /refusals/{refusalId}/dismiss",
        summary="Dismiss a refusal",
        description="Mark a refusal as settled. It can still be redriven. Also needs "
        "`events:read`.",
        scope=Scope.EVENTS_WRITE,
        body=json_body(DismissalBody, {"note": "A test of ours."}),
        answer=Answer(200, "The refusal.", RefusalShown, example=_DISMISSED),
        problems=(ProblemType.CONFLICT,),
    )
    async def dismiss(self, call: Call[NoParameters, DismissalBody]) -> web.Response:
        """The refusal as dismissed."""
        one = await asked_for(self._service, call)
        reading_too(call)
        one = await self._service.dismiss(one, call.principal, call.body.note)
        return json_response(refusal_shown(one))


def operates(call: Call[Any, Any]) -> bool:
    """Whether the caller may see what belongs to no namespace."""
    return Scope.OPERATE in call.principal.scopes


async def asked_for(service: RefusalService, call: Call[Any, Any]) -> Refusal:
    """The refusal that the path names. Raises `Problem` (not found)."""
    return await service.refusal(call.namespace, call.names["refusalId"], unowned=operates(call))


def reading_too(call: Call[Any, Any]) -> None:
    """What is done about a refusal tells of it. Raises `Problem` (forbidden)."""
    if Scope.EVENTS_READ not in call.principal.scopes:
        detail = f"The key lacks the scope {Scope.EVENTS_READ.value}, which this asks for as well."
        raise Problem(ProblemType.FORBIDDEN, detail)


def place_of(cursor: str | None, field: str, source: str) -> Place | None:
    """The place that a cursor names. Raises `Problem`."""
    if cursor is None:
        return None
    try:
        return decode_cursor(cursor, ORDER)
    except ValueError as error:
        raise invalid(Fault(field, str(error), "matches_regex", source)) from error


def _show_sides(shown: RefusalContentsShown, one: Refusal, both: Sides) -> None:
    first = one.judged.first if one.judged else None
    assert first is not None, "there are two sides"
    shown["accepted"] = {
        "event": cast("Any", both.accepted),
        "position": first.position,
        "ingested_at": rfc3339(first.recorded_ms),
        "stored_at": rfc3339(first.append_ms),
    }
    shown["differs"] = list(one.judged.differs) if one.judged else []
    shown["differences"] = [_difference(it) for it in both.differences]
    if both.more:
        shown["more_differences"] = True


def _difference(one: Difference) -> DifferenceShown:
    shown: DifferenceShown = {"path": one.path_text}
    if not isinstance(one.one, Absent):
        shown["accepted"] = cast("Any", msgspec.Raw(one.one))
    if not isinstance(one.other, Absent):
        shown["refused"] = cast("Any", msgspec.Raw(one.other))
    return shown
