"""Pulling deliveries in API v3: what a receiver was or will be sent, to be verified likewise."""

import asyncio
import re
from typing import Annotated, Final, NotRequired, cast

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import OfReports, Operation
from control.shapes.pages import cursors, page_shape, parts_after
from control.shapes.run import DeliveryId
from control.v3.reports.run_shapes import DELIVERY_EXAMPLE, DeliveryShown, delivery_shown
from meterline.access import Scope
from meterline.delivery import Pulled, PullPlace
from meterline.http import json_response
from meterline.http.operation import Answer, Call
from meterline.http.shapes import CursorPage, Instant, Parameters
from meterline.limits import PULL_BYTES_MAX
from meterline.problem import Fault, invalid
from meterline.report import Report

_CURSOR: Final = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})\.([0-9]{1,9})\.([0-9]{1,9})", re.ASCII)


class PullParameters(Parameters):
    """Which windows, which page."""

    from_: Annotated[
        Instant | None, Field(alias="from", description="Their windows begin then or later.")
    ] = None
    to: Annotated[Instant | None, Field(description="Their windows end then or earlier.")] = None
    page: CursorPage = CursorPage()


SignatureHeadersShown = TypedDict(
    "SignatureHeadersShown",
    {
        "svix-id": str,
        "svix-timestamp": str,
        "svix-signature": str,
        "webhook-id": str,
        "webhook-timestamp": str,
        "webhook-signature": str,
    },
)
SignatureHeadersShown.__doc__ = "The headers that a push has, made when this was asked."


class PulledShown(DeliveryShown):
    """A delivery, with all that verifying and booking it needs."""

    superseded_by: NotRequired[
        Annotated[
            DeliveryId, Field(description="The delivery that replaces its figures: book that one.")
        ]
    ]
    reason: NotRequired[
        Annotated[str, Field(description="In words, what went wrong with its last attempt.")]
    ]
    body: NotRequired[
        Annotated[
            str,
            Field(
                description="The exact bytes that are signed and sent, as text: UTF-8 makes the "
                "bytes of it. Absent where they are not kept any more, and of a delivery with a "
                "`failure`."
            ),
        ]
    ]
    headers: NotRequired[SignatureHeadersShown]


_PAGE: Final = page_shape(
    "PullPageShown", PulledShown, "A page of deliveries by window, the earliest first."
)
_NOT_STORED: Final = {"Cache-Control": "no-store"}
_NOT_STORED_HEADERS: Final = {"Cache-Control": "Always no-store: signatures expire after minutes."}
_SIGNATURE: Final = "v1,YlDw9WPMhDYWSSNbATHqdOA+xSJmuzmRngpa3c1PypQ="
_EXAMPLE: Final[dict[str, object]] = {
    **DELIVERY_EXAMPLE,
    "body": '{"type":"report.meter","timestamp":"2026-02-01T00:00:00.000Z"}',
    "headers": {
        "svix-id": DELIVERY_EXAMPLE["id"],
        "svix-timestamp": "1795285691",
        "svix-signature": _SIGNATURE,
        "webhook-id": DELIVERY_EXAMPLE["id"],
        "webhook-timestamp": "1795285691",
        "webhook-signature": _SIGNATURE,
    },
}


class V3Pull(OfReports, tag="Deliveries"):
    """The handler of the pull."""

    @Operation(
        id="pull-deliveries",
        route="GET /reports/{reportId}/pull",
        summary="Pull the deliveries of a report",
        description="Get deliveries by window, in any state, to catch up after an outage or to "
        "compare with what was booked. Each has the exact bytes of the webhook. Its headers are "
        "signed now with the same secrets and expire after five minutes, so the code of a "
        "receiver can verify them. `superseded_by` names the delivery that replaces its figures. "
        "A pull changes nothing: deliveries are still sent. A page may have fewer entries than "
        "`page[size]`.",
        scope=Scope.REPORTS_READ,
        parameters=PullParameters,
        answer=Answer(
            200,
            "A page of deliveries, by window, revision and number.",
            _PAGE,
            example={
                "data": [_EXAMPLE],
                "meta": cursors(20, ["1769904000000.1769817600000.1.1"], more=False),
            },
            headers=_NOT_STORED_HEADERS,
        ),
    )
    async def pull(self, call: Call[PullParameters, None]) -> web.Response:
        """One page, bounded in bytes too."""
        service, asked = self._service, call.parameters
        if asked.from_ is not None and asked.to is not None and asked.from_ >= asked.to:
            raise invalid(Fault("from", "must be before `to`", "maximum", "query"))
        report = await self._found(call)
        after = _after(asked.page)
        window = (asked.from_, asked.to)
        pulled, more = await service.pulls.pulled(
            report.id, window, asked.page.size, PULL_BYTES_MAX, after
        )
        secrets = await self._secrets(report)
        answer = {
            # in a thread: thousands of signatures, and the library takes a while to import
            "data": await asyncio.to_thread(self._shown, pulled, secrets),
            "meta": cursors(asked.page.size, [_cursor(it.place) for it in pulled], more=more),
        }
        return json_response(answer, headers=_NOT_STORED)

    async def _secrets(self, report: Report) -> list[str]:
        """Those that sign a push, in the same order."""
        service = self._service
        retired = await service.reports.retired_secrets(report.id, service.now_ms)
        sealed = [report.signing_secret_sealed, *(it.sealed for it in retired)]
        return [service.opened(one) for one in sealed]

    def _shown(self, pulled: list[Pulled], secrets: list[str]) -> list[PulledShown]:
        now_ms = self._service.now_ms
        return [self._one_shown(it, secrets, now_ms) for it in pulled]

    def _one_shown(self, pulled: Pulled, secrets: list[str], now_ms: int) -> PulledShown:
        # it has all that is required; what may be there follows
        shown = cast("PulledShown", delivery_shown(pulled.delivery))
        if pulled.superseded_by is not None:
            shown["superseded_by"] = pulled.superseded_by
        if pulled.reason:
            shown["reason"] = pulled.reason
        if pulled.body is not None:
            signed = self._service.sign(pulled.delivery.id, secrets, pulled.body, now_ms)
            shown["body"] = pulled.body.decode()
            shown["headers"] = {
                "svix-id": signed["svix-id"],
                "svix-timestamp": signed["svix-timestamp"],
                "svix-signature": signed["svix-signature"],
                "webhook-id": signed["webhook-id"],
                "webhook-timestamp": signed["webhook-timestamp"],
                "webhook-signature": signed["webhook-signature"],
            }
        return shown


def _cursor(place: PullPlace) -> str:
    return f"{place.to_ms}.{place.from_ms}.{place.revision}.{place.number}"


def _after(page: CursorPage) -> PullPlace | None:
    found = parts_after(page, _CURSOR)
    return None if found is None else PullPlace(*map(int, found.groups()))
