"""What a meter matched and could not count (API v3): every such value is listed, none becomes a 0.

A row of usage says how many of its events were rejected; where nothing counted there is no row, and
this list is the place to look.
"""

import re
from typing import Annotated, Final

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.handlers import Handlers, Operation
from control.shapes.pages import PageParameters, cursor_page, page_answer, page_shape, parts_after
from control.stores import Stores
from control.usage.admission import Asks
from meterline.access import Scope
from meterline.event import (
    Position,
    RefusalState,
    Settlement,
    SettlementStore,
    position_text,
    state_of,
)
from meterline.http import json_response
from meterline.http.operation import Call
from meterline.http.shapes import InstantShown
from meterline.meter import Meter, decode_groups, revision_at
from meterline.usage import RejectedRow
from meterline.window import MINUTE_MS, rfc3339

_CURSOR: Final = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,18}\.[0-9]{1,9}", re.ASCII)


RejectedValueShown = TypedDict(  # a class cannot have a member called `from`
    "RejectedValueShown",
    {
        "position": Annotated[
            str, Field(description="Where it lies in the log; its id as a refusal.")
        ],
        "state": Annotated[RefusalState, Field(description="What was done about it.")],
        "subject": str,
        "dimensions": dict[str, str],
        "from": Annotated[InstantShown, Field(description="Start of the window.")],
        "to": Annotated[InstantShown, Field(description="End of the window.")],
        "reason": Annotated[str, Field(description="Why it could not be counted.")],
        "value": Annotated[str, Field(description="The value as it was sent, its start.")],
    },
)


_PAGE: Final = page_shape(
    "RejectedPageShown", RejectedValueShown, "A page of rejected values, by position in the log."
)
_EXAMPLE: Final[RejectedValueShown] = {
    "position": "1.0.12.3",
    "state": RefusalState.OPEN,
    "subject": "customer-1",
    "dimensions": {"model": "small"},
    "from": "2026-01-31T10:00:00Z",
    "to": "2026-01-31T10:01:00Z",
    "reason": "not_a_number",
    "value": '"many"',
}


class V3Rejected(Handlers, tag="Meters"):
    """The handler of the list."""

    def __init__(self, stores: Stores, settlements: SettlementStore) -> None:
        self._stores = stores
        self._settlements = settlements

    @Operation(
        id="list-rejected-values",
        route="GET /meters/{meterId}/rejected",
        summary="List the values that a meter could not count",
        scope=Scope.EVENTS_READ,
        asks=Asks.USAGE,
        parameters=PageParameters,
        answer=page_answer("A page of rejected values.", _PAGE, _EXAMPLE, _EXAMPLE["position"]),
    )
    async def list(self, call: Call[PageParameters, None]) -> web.Response:
        """One page, by position in the log; `meta.page.next` leads to the next, or is null."""
        page = call.parameters.page
        parts_after(page, _CURSOR)
        meter = await self._stores.meter(call.namespace, call.names["meterId"])
        rows = await self._stores.usage.rejected(meter, page.size + 1, page.after)
        settled = await self._settlements.settlements([_position(row) for row in rows])
        return json_response(
            cursor_page(
                rows, page, lambda it: _entry(meter, it, settled.get(_position(it))), _cursor
            )
        )


def _position(row: RejectedRow) -> Position:
    return row.log, row.partition, row.offset, row.place


def _cursor(row: RejectedRow) -> str:
    return position_text(_position(row))


def _entry(meter: Meter, row: RejectedRow, settled: Settlement | None) -> RejectedValueShown:
    names = revision_at(meter, row.window * MINUTE_MS).dimension_names
    values = decode_groups(row.groups)
    return {
        "position": _cursor(row),
        "state": state_of(settled),
        "subject": row.subject,
        "dimensions": dict(zip(names, values, strict=True)),
        "from": rfc3339(row.window * MINUTE_MS),
        "to": rfc3339((row.window + 1) * MINUTE_MS),
        "reason": row.reason,
        "value": row.value,
    }
