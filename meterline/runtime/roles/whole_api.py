"""The whole API, as the roles serve it that have it."""

from functools import partial

from aiohttp import web

from control import front
from control.health import Check, checks_of
from control.openapi import published
from control.reports.service import ReportService
from control.routes import Api, bound_v1, bound_v3
from control.routes import routes as control_routes
from ingest.gateway import Gateway
from ingest.gateway import routes as event_routes
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.runtime.commands import documents
from meterline.runtime.drain import Drain
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring import adapters
from meterline.runtime.wiring.access import OpenGate
from meterline.runtime.wiring.adapters import Opened, OpenLog
from meterline.runtime.wiring.telemetry import Telemetry


def whole_api(
    settings: Settings,
    opened: Opened,
    service: ReportService,
    gate: OpenGate,
    gateway: Gateway,
    checks: dict[str, Check],
) -> list[web.RouteDef]:
    """Its routes, with the documents that describe them."""
    api = Api(
        opened.stores,
        service,
        SqlAccessStore(opened.database),
        settings.plans,
        adapters.ledger(settings, opened),
        adapters.refusal_service(settings, opened, gateway),
        gate.catch_up,
        console=front.read_console(),
        sessions=gate.sessions,
        recorder=opened.recorder,
    )
    routes = event_routes(gateway, gate.gate) + control_routes(api, gate.gate, checks)
    v3, v1 = gateway.v3() + bound_v3(api), gateway.v1() + bound_v1(api)
    routes += published.routes(documents.v3(v3), published.V3_PLACES)
    return routes + published.routes(documents.v1(v1), published.V1_PLACES)


def checks_of_api(
    settings: Settings, opened: Opened, gate: OpenGate, drain: Drain
) -> dict[str, Check]:
    """What a process with the whole API needs."""
    checks = {**checks_of(opened.stores), **gate.checks, "process": drain.check}
    if not settings.kafka_servers:
        checks["log"] = partial(_ask_log, settings, opened.log)
    return checks


def measure_stores(measured: Telemetry, opened: Opened) -> None:
    """What is told of the whole installation."""
    measured.of_progress(opened)
    measured.of_reports(opened)


async def _ask_log(settings: Settings, log: OpenLog) -> None:
    """Whether the log in the data folder takes events."""
    await adapters.check_disk(settings)
    await log.end(0)
