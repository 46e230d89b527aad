"""Deliveries in API v3: what was sent to whom, every attempt, the exact bytes, and once more."""

import re
from typing import Annotated, Final

from aiohttp import web
from pydantic import Field

from control.handlers import OfReports, Operation
from control.openapi.report_message import EXAMPLE, ReportMessageShown
from control.shapes.pages import cursor_page, page_answer, parts_after
from control.shapes.run import RUN_PATTERN, WindowEndFilter, WindowStartFilter
from control.v3.reports.run_shapes import (
    ATTEMPTS_EXAMPLE,
    DELIVERY_EXAMPLE,
    DELIVERY_PAGE,
    DeliveryShown,
    DeliveryWithAttemptsShown,
    delivery_shown,
    with_attempts,
)
from meterline.access import Scope
from meterline.delivery import Delivery, DeliveryPlace, DeliveryQuery, DeliveryState
from meterline.http import json_response
from meterline.http.operation import JSON, Answer, Call
from meterline.http.shapes import CursorPage, NoParameters, Parameters, Text
from meterline.limits import ATTRIBUTE_CHARS_MAX, REPORT_SLUG_CHARS_MAX
from meterline.problem import Problem, ProblemType, not_found

_STATE: Final = f"({'|'.join(DeliveryState)})"
_CURSOR: Final = re.compile(rf"([0-9]{{1,15}})\.({RUN_PATTERN})\.([0-9]{{1,9}})", re.ASCII)


class DeliveryFilter(Parameters):
    """Conditions on deliveries, joined by and."""

    report: Annotated[
        str | None,
        Field(
            pattern=rf"^[A-Za-z0-9_-]{{1,{REPORT_SLUG_CHARS_MAX}}}$",
            description="Id or slug of a report; of a deleted one, its id.",
        ),
    ] = None
    run: Annotated[str | None, Field(pattern=f"^{RUN_PATTERN}$", description="Id of a run.")] = None
    subject: Annotated[Text | None, Field(max_length=ATTRIBUTE_CHARS_MAX)] = None
    state: Annotated[
        str | None,
        Field(
            pattern=f"^{_STATE}(,{_STATE})*$",
            description="One state, or several with commas between them.",
            examples=["failed,cancelled"],
        ),
    ] = None
    from_: Annotated[WindowStartFilter, Field(alias="from")] = WindowStartFilter()
    to: WindowEndFilter = WindowEndFilter()


class DeliveryListParameters(Parameters):
    """Which deliveries, which page."""

    page: CursorPage = CursorPage()
    filter: DeliveryFilter = DeliveryFilter()


class V3Deliveries(OfReports, tag="Deliveries"):
    """Handlers of deliveries."""

    @Operation(
        id="list-deliveries",
        route="GET /deliveries",
        summary="List deliveries",
        description="List deliveries: the newest final run first, within a run by number. "
        "Deliveries of deleted reports are listed too.",
        scope=Scope.REPORTS_READ,
        parameters=DeliveryListParameters,
        answer=page_answer(
            "A page of deliveries.",
            DELIVERY_PAGE,
            DELIVERY_EXAMPLE,
            f"1769904060733.{DELIVERY_EXAMPLE['run_id']}.1",
        ),
    )
    async def list(self, call: Call[DeliveryListParameters, None]) -> web.Response:
        """One page of those that are asked for."""
        service, page = self._service, call.parameters.page
        after = _after(page)
        query = await self._query(call.namespace, call.parameters.filter)
        found = await service.reports.listed_deliveries(call.namespace, query, page.size + 1, after)
        return json_response(cursor_page(found, page, delivery_shown, _cursor))

    @Operation(
        id="get-delivery",
        route="GET /deliveries/{deliveryId}",
        summary="Get a delivery with its attempts",
        scope=Scope.REPORTS_READ,
        answer=Answer(
            200,
            "The delivery, with every attempt.",
            DeliveryWithAttemptsShown,
            example=ATTEMPTS_EXAMPLE,
        ),
    )
    async def get(self, call: Call[NoParameters, None]) -> web.Response:
        """The delivery with its attempts."""
        name = call.names["deliveryId"]
        delivery = await self._service.reports.delivery(call.namespace, name)
        if delivery is None:
            raise not_found("delivery", name)
        attempts = await self._service.reports.attempts([delivery.id])
        return json_response(with_attempts(delivery, attempts))

    @Operation(
        id="get-delivery-body",
        route="GET /deliveries/{deliveryId}/body",
        summary="Get the body of a delivery",
        description="The exact bytes that are signed and sent, the same in every attempt. "
        "`digest` of the delivery is their blake2b-256.",
        scope=Scope.REPORTS_READ,
        answer=Answer(200, "The bytes.", ReportMessageShown, example=EXAMPLE),
    )
    async def body(self, call: Call[NoParameters, None]) -> web.Response:
        """The bytes as they are stored."""
        name = call.names["deliveryId"]
        stored = await self._service.reports.delivery_body(call.namespace, name)
        if stored is None:
            raise await self._no_body(call.namespace, name)
        return web.Response(body=stored, content_type=JSON)

    async def _no_body(self, namespace: str, name: str) -> Problem:
        delivery = await self._service.reports.delivery(namespace, name)
        if delivery is None:
            return not_found("delivery", name)
        if delivery.failure is not None:
            detail = f"Delivery {name} has no body. {delivery.failure}"
            return Problem(ProblemType.NOT_FOUND, detail)
        detail = f"The body of delivery {name} was removed; only its digest is kept."
        return Problem(ProblemType.NOT_FOUND, detail)

    @Operation(
        id="replay-delivery",
        route="POST /deliveries/{deliveryId}/replay",
        summary="Send a delivery again",
        description="Send a delivery again, whatever its state: the same bytes under the same id, "
        "to the current URL of its report, with all retries. A receiver recognizes it by its id. "
        "The state of its run follows. A delivery that waits for its first attempt stays as it "
        "is. 409 if it is being sent, or has a `failure` and so no body.",
        scope=Scope.REPORTS_WRITE,
        answer=Answer(
            202,
            "The delivery, which will be sent.",
            DeliveryShown,
            example={
                **{name: it for name, it in DELIVERY_EXAMPLE.items() if name != "ended_at"},
                "state": "pending",
                "next_attempt_at": "2026-02-02T09:00:00Z",
                "replayed_at": "2026-02-02T09:00:00Z",
            },
        ),
        problems=(ProblemType.CONFLICT,),
    )
    async def replay(self, call: Call[NoParameters, None]) -> web.Response:
        """202 with the delivery; 409 while it is being sent, or if its report is gone."""
        service = self._service
        delivery = await service.reports.replay(
            call.namespace, call.names["deliveryId"], service.now_ms, author=call.author
        )
        service.wake()
        return json_response(delivery_shown(delivery), 202)

    async def _query(self, namespace: str, asked: DeliveryFilter) -> DeliveryQuery:
        report_id = asked.report
        if report_id is not None:
            report_id = await self._service.report_id(namespace, report_id)
        states = () if asked.state is None else tuple(map(DeliveryState, asked.state.split(",")))
        return DeliveryQuery(
            report_id=report_id,
            run_id=asked.run,
            subject=asked.subject,
            states=states,
            from_min_ms=asked.from_.gte,
            to_max_ms=asked.to.lte,
        )


def _cursor(delivery: Delivery) -> str:
    return f"{delivery.created_at_ms}.{delivery.run_id}.{delivery.number}"


def _after(page: CursorPage) -> DeliveryPlace | None:
    found = parts_after(page, _CURSOR)
    return None if found is None else DeliveryPlace(int(found[1]), found[2], int(found[3]))
