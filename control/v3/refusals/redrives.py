"""Sending anew what was refused, in API v3: one with a fixed event, or many as they are."""

from typing import Final

import msgspec
from aiohttp import web

from control.handlers import Handlers, Operation
from control.refusals.service import (
    ORDER,
    Refusal,
    RefusalQuery,
    RefusalService,
    Sending,
    conflict,
    taken,
)
from control.shapes.event import EVENT_EXAMPLE
from control.shapes.optional_members import present
from control.v3.refusals.operations import asked_for, place_of, reading_too
from control.v3.refusals.shapes import (
    REFUSAL_EXAMPLE,
    RedriveBody,
    RedrivesBody,
    RedrivesShown,
    RefusalShown,
    RefusedAgainShown,
    refusal_shown,
)
from meterline.access import Scope
from meterline.event import RefusalKind, RefusalState, Settlement, encode_cursor
from meterline.http import json_response
from meterline.http.operation import Answer, Call, json_body
from meterline.http.shapes import NoParameters
from meterline.limits import REDRIVE_BYTES
from meterline.problem import Problem, ProblemType

_EVENT: Final = {**EVENT_EXAMPLE, "time": "2026-01-31T10:00:00Z"}
_OUTSTANDING: Final = frozenset({RefusalState.OPEN, RefusalState.REDRIVING})


class _Sent(msgspec.Struct):
    event: msgspec.Raw


_sent: Final = msgspec.json.Decoder(_Sent)


class V3RefusalRedrives(Handlers, tag="Refusals"):
    """The handlers."""

    def __init__(self, service: RefusalService) -> None:
        self._service = service

    @Operation(
        id="redrive-refusals",
        route="POST /refusal-redrives",
        summary="Redrive refused inbox records unchanged",
        description=(
            "Send open inbox records again unchanged, newest first, for example after you changed "
            "the setting that refused them. With `dry_run` it only says which would be accepted, "
            "and why others would not. Send `next` as `after` until it is null. Also needs "
            "`events:read`."
        ),
        scope=Scope.EVENTS_WRITE,
        body=json_body(RedrivesBody, {"filter": {"source": "orders"}, "dry_run": True}),
        answer=Answer(
            200,
            "What became of them.",
            RedrivesShown,
            example={
                "dry_run": True,
                "found": 12,
                "accepted": 11,
                "refused": [{"id": "1.0.12.3", "field": "subject", "reason": "is required"}],
                "next": None,
            },
        ),
    )
    async def many(self, call: Call[NoParameters, RedrivesBody]) -> web.Response:
        """How many were accepted, and why others were not."""
        service, body = self._service, call.body
        page = await service.page(
            RefusalQuery(
                namespace=call.namespace,
                now_ms=service.stores.now_ms,
                limit=body.limit,
                kinds=frozenset({RefusalKind.INBOX}),
                states=_OUTSTANDING,
                conditions=body.filter.conditions(),
                after=place_of(body.after, "after", "body"),
            )
        )
        if page.refusals:
            reading_too(call)
        refused: list[RefusedAgainShown] = []
        sendings = await self._admitted(call.namespace, page.refusals, refused)
        accepted = len(sendings)
        if not body.dry_run:
            accepted = await self._sent(call, sendings, refused)
        answer: RedrivesShown = {
            "dry_run": body.dry_run,
            "found": len(page.refusals),
            "accepted": accepted,
            "refused": refused,
            "next": None if page.following is None else encode_cursor(ORDER, page.following),
        }
        return json_response(answer)

    @Operation(
        id="redrive-refusal",
        route="POST /refusals/{refusalId}/redrive",
        summary="Redrive a refusal with an event",
        description=(
            "Send a fixed event for a refusal. It is validated and counted like any other event. "
            "A repeated request with the same event has no further effect. Without `event` the "
            "text of an inbox record is sent unchanged. After 503 repeat the request. Also needs "
            "`events:read`."
        ),
        scope=Scope.EVENTS_WRITE,
        body=json_body(RedriveBody, {"event": _EVENT}),
        answer=Answer(202, "The event is durable.", RefusalShown, example=REFUSAL_EXAMPLE),
        problems=(ProblemType.CONFLICT, ProblemType.INVALID_EVENT),
    )
    async def one(self, call: Call[NoParameters, RedriveBody]) -> web.Response:
        """202 once the event is durable."""
        service = self._service
        refusal = await asked_for(service, call)
        reading_too(call)
        fixed: bytes | None = None
        if call.body.event is not None:
            fixed = bytes(_sent.decode(call.sent).event)
        sending = service.sending(refusal, call.namespace, fixed)
        checks = await service.counting(call.namespace, [sending.event])
        if (message := taken(sending, checks)) is not None:
            raise conflict(message)
        service.gateway.take(call.request, call.principal, 1)
        (sent,) = await service.send([sending], call.principal)
        if sent.why_not:
            raise conflict(sent.why_not)
        return json_response(refusal_shown(_with(refusal, sent.settlement)), 202)

    async def _admitted(
        self, namespace: str, refusals: list[Refusal], refused: list[RefusedAgainShown]
    ) -> list[Sending]:
        """Those that would be let in; the others are told with their reasons."""
        found: list[Sending] = []
        for one in refusals:
            try:
                found.append(self._service.sending(one, namespace, None))
            except Problem as problem:
                refused.append(_again(one, problem))
        checks = await self._service.counting(namespace, [one.event for one in found])
        free = []
        for sending in found:
            message = taken(sending, checks)
            if message is None:
                free.append(sending)
            else:
                refused.append({"id": sending.refusal.name, "field": "id", "reason": message})
        return free

    async def _sent(
        self,
        call: Call[NoParameters, RedrivesBody],
        sendings: list[Sending],
        refused: list[RefusedAgainShown],
    ) -> int:
        self._service.gateway.take(call.request, call.principal, len(sendings))
        accepted = 0
        for some in _portions(sendings):
            for one, sent in zip(some, await self._service.send(some, call.principal), strict=True):
                if sent.why_not:
                    refused.append({"id": one.refusal.name, "reason": sent.why_not})
                else:
                    accepted += 1
        return accepted


def _portions(sendings: list[Sending]) -> list[list[Sending]]:
    """Parts of bounded size, so that what breaks off has finished the ones before."""
    portions: list[list[Sending]] = []
    size = REDRIVE_BYTES
    for one in sendings:
        size += len(one.text)
        if size > REDRIVE_BYTES:
            portions.append([])
            size = len(one.text)
        portions[-1].append(one)
    return portions


def _again(one: Refusal, problem: Problem) -> RefusedAgainShown:
    if not problem.faults:
        return {"id": one.name, "reason": problem.detail}
    first = problem.faults[0]
    shown: RefusedAgainShown = {
        "id": one.name,
        "reason": first.reason,
        "field": first.field or None,
    }
    return present(shown)


def _with(refusal: Refusal, settlement: Settlement) -> Refusal:
    return Refusal(refusal.kind, refusal.listed, settlement, refusal.judged)
