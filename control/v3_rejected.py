"""What a meter matched and could not count (API v3): every such value is listed, none becomes a 0.

A row of usage says how many of its events were rejected; where nothing counted there is no row, and
this list is the place to look.
"""

import re
from typing import Final

from aiohttp import web

from control.edge import integer_parameter, parameters_of, path_name
from control.stores import Stores
from control.v3_meters import PREFIXES
from meterline.http import json_response
from meterline.limits import PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX
from meterline.measure import decode_groups
from meterline.meter import Meter
from meterline.problem import Fault, invalid
from meterline.rows import RejectedRow
from meterline.window import MINUTE_MS, rfc3339

_CURSOR: Final = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,18}\.[0-9]{1,9}", re.ASCII)


class V3Rejected:
    """The handler of the list."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def routes(self) -> list[web.RouteDef]:
        """Where it is mounted."""
        return [
            web.get(f"{prefix}/meters/{{id_or_key}}/rejected", self.list) for prefix in PREFIXES
        ]

    async def list(self, request: web.Request) -> web.Response:
        """One page, by position in the log; `meta.page.next` leads to the next, or is null."""
        parameters = parameters_of(request, ("page[size]", "page[after]"))
        size = integer_parameter(parameters, "page[size]", PAGE_SIZE_DEFAULT, 1, PAGE_SIZE_MAX)
        after = parameters.get("page[after]")
        if after is not None and not _CURSOR.fullmatch(after):
            reason = "is no cursor; take it from meta.page.next of the page before"
            raise invalid(Fault("page[after]", reason, "matches_regex", "query"))
        meter = await self._stores.meter(path_name(request))
        # one more than asked for tells whether there is a following page
        rows = await self._stores.usage.rejected(meter.revision, size + 1, after)
        shown = rows[:size]
        page: dict[str, object] = {"size": size, "next": None, "previous": None}
        if shown:
            page |= {"first": _cursor(shown[0]), "last": _cursor(shown[-1])}
        if len(rows) > size:
            page["next"] = _cursor(shown[-1])
        data = [_entry(meter, row) for row in shown]
        return json_response({"data": data, "meta": {"page": page}})


def _cursor(row: RejectedRow) -> str:
    return f"{row.log}.{row.partition}.{row.offset}.{row.place}"


def _entry(meter: Meter, row: RejectedRow) -> dict[str, object]:
    values = decode_groups(row.groups)
    return {
        "position": _cursor(row),
        "subject": row.subject,
        "dimensions": dict(zip(meter.dimension_names, values, strict=True)),
        "from": rfc3339(row.window * MINUTE_MS),
        "to": rfc3339((row.window + 1) * MINUTE_MS),
        "reason": row.reason,
        "value": row.value,
    }
