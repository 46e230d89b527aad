"""All routes of the control API but those of reports, for the composition root to mount."""

from collections.abc import Mapping

from aiohttp import web

from control.health import Check, Health, checks_of
from control.status import V3Status
from control.stores import Stores
from control.v1_meters import V1Meters
from control.v1_query import V1Query
from control.v3_meters import V3Meters
from control.v3_query import V3Query
from control.v3_rejected import V3Rejected


def routes(stores: Stores, checks: Mapping[str, Check] | None = None) -> list[web.RouteDef]:
    """Meters and usage in v3 and v1, status, probes and front page.

    `checks` are what `/readyz` asks, by name; without them, the stores of this API. The application
    uses `meterline.http.problem_middleware` and is served with its `SERVER_OPTIONS`.
    """
    parts = (V3Meters, V3Query, V3Rejected, V3Status, V1Meters, V1Query)
    mounted = [route for part in parts for route in part(stores).routes()]
    return mounted + Health(checks_of(stores) if checks is None else checks).routes()
