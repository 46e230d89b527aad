"""What a meter matched and could not count (API v3): every such value is listed, none becomes a 0.

A row of usage says how many of its events were rejected; where nothing counted there is no row, and
this list is the place to look.
"""

import re
from typing import Annotated, Final

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from control.shapes.pages import CursorMetaShown, cursors
from control.shapes.path_names import METER_NAMES
from control.stores import Stores
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
from meterline.http.operation import NO_BODY, Answer, Bound, Call, Operation, bind
from meterline.http.shapes import CursorPage, InstantShown, Parameters
from meterline.meter import Meter, decode_groups, revision_at
from meterline.problem import Fault, invalid
from meterline.usage import RejectedRow
from meterline.window import MINUTE_MS, rfc3339

_CURSOR: Final = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,18}\.[0-9]{1,9}", re.ASCII)


class RejectedParameters(Parameters):
    """Which page."""

    page: CursorPage = CursorPage()


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


class RejectedPageShown(TypedDict):
    """A page of rejected values, by position in the log."""

    data: list[RejectedValueShown]
    meta: CursorMetaShown


LIST_REJECTED: Final = Operation(
    id="list-rejected-values",
    method="GET",
    path="/meters/{meterId}/rejected",
    tag="Meters",
    summary="List the values that a meter could not count",
    scope=Scope.EVENTS_READ,
    names=METER_NAMES,
    parameters=RejectedParameters,
    body=NO_BODY,
    answers=(
        Answer(
            200,
            "A page of rejected values.",
            RejectedPageShown,
            example={
                "data": [
                    {
                        "position": "1.0.12.3",
                        "state": "open",
                        "subject": "customer-1",
                        "dimensions": {"model": "small"},
                        "from": "2026-01-31T10:00:00Z",
                        "to": "2026-01-31T10:01:00Z",
                        "reason": "not_a_number",
                        "value": '"many"',
                    }
                ],
                "meta": {
                    "page": {
                        "size": 20,
                        "next": None,
                        "previous": None,
                        "first": "1.0.12.3",
                        "last": "1.0.12.3",
                    }
                },
            },
        ),
    ),
)


class V3Rejected:
    """The handler of the list."""

    def __init__(self, stores: Stores, settlements: SettlementStore) -> None:
        self._stores = stores
        self._settlements = settlements

    def bound(self) -> list[Bound]:
        """What it answers."""
        return [bind(LIST_REJECTED, self.list)]

    async def list(self, call: Call[RejectedParameters, None]) -> web.Response:
        """One page, by position in the log; `meta.page.next` leads to the next, or is null."""
        size, after = call.parameters.page.size, call.parameters.page.after
        if after is not None and not _CURSOR.fullmatch(after):
            reason = "is no cursor; take it from meta.page.next of the page before"
            raise invalid(Fault("page[after]", reason, "matches_regex", "query"))
        meter = await self._stores.meter(call.namespace, call.names["meterId"])
        # one more than asked for tells whether there is a following page
        rows = await self._stores.usage.rejected(meter, size + 1, after)
        shown = rows[:size]
        settled = await self._settlements.settlements([_position(row) for row in shown])
        page: RejectedPageShown = {
            "data": [_entry(meter, row, settled.get(_position(row))) for row in shown],
            "meta": cursors(size, [_cursor(row) for row in shown], more=len(rows) > size),
        }
        return json_response(page)


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
