"""The roles: what each process of either set-up is made of."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from control import front
from control.health import Check, Health, checks_of
from control.openapi import published
from control.reports.service import ReportService
from control.routes import Api, bound_v1, bound_v3
from control.routes import routes as control_routes
from dispatcher.replayer import Replayer
from dispatcher.worker import Dispatcher
from ingest.gateway import Gateway
from ingest.gateway import routes as event_routes
from meterline.backends.control_store.access.keys import SqlAccessStore
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.migrate import check_migrated, migrate
from meterline.backends.secrets import FernetSecretBox
from meterline.http.gate import Gate
from meterline.http.scrape import measuring
from meterline.http.tracing import tracing
from meterline.ports import SILENT, Recorder
from meterline.runtime.allocator import trim_for_ever
from meterline.runtime.archive.making import make_backup
from meterline.runtime.archive.serving import serve_backups
from meterline.runtime.commands import documents
from meterline.runtime.drain import Drain, draining
from meterline.runtime.process import serve
from meterline.runtime.secret_key import secret_box
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience
from meterline.runtime.wiring import adapters, counting, reports
from meterline.runtime.wiring.access import OpenGate, host_guard, open_gate, session_guard
from meterline.runtime.wiring.adapters import CLOCK, Opened, OpenLog
from meterline.runtime.wiring.adapters import Worker as Shell
from meterline.runtime.wiring.layout_watch import follow_layout, follow_routes
from meterline.runtime.wiring.telemetry import Telemetry, joined, telemetry
from meterline.runtime.workers.worker import Worker, from_environment

logger = structlog.get_logger()


async def up(settings: Settings, stop: asyncio.Event) -> None:
    """All roles in one process and one folder."""
    adapters.check_room(settings)
    patience = Patience(settings, stop)
    async with AsyncExitStack() as stack:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        log = await patience.wait("log", lambda: adapters.open_log(settings, stack))
        measured = telemetry(settings, "up", stack)
        recorder = measured.recorder
        database = adapters.open_control_database(settings, stack, recorder)
        await patience.wait("control", lambda: migrate(database))
        opened = await _gathered(settings, patience, stack, database, log, recorder)
        await adapters.put_meters(settings, opened)
        box = await _box(settings, patience, opened)
        counted = counting.aggregation_worker(
            settings, opened, adapters.inbox_watch(settings, stack)
        )
        measured.of_counting(counted.step, counted.standing)
        _measure_stores(measured, opened)
        sender = reports.webhook_sender(settings, stack)
        dispatcher = reports.dispatcher(settings, opened, box, sender, measured.tracer)
        gate = await open_gate(settings, database, stack, CLOCK)
        gateway = await _gateway(settings, log, gate.gate, stack, measured, with_inbox=True)
        service = reports.report_service(settings, opened, box, stack, dispatcher.wake)
        drain = draining(stack, stop, settings.drain_s)
        checks = {**_checks(settings, opened, gate, drain), "counting": counted.check}
        api = _whole_api(settings, opened, service, gate, gateway, checks)
        measured.of_health(Health(checks))
        guards = session_guard(gate)
        data = str(settings.data_dir)
        await _serve(stack, settings, "all", api, measured, drain, guards, data=data)
        await serve_backups(
            stack, settings.data_dir, lambda to, tell: make_backup(to, settings, opened, tell)
        )
        replayer = reports.replayer(opened, dispatcher)
        await _until_stopped(drain.ended, counted.worker, dispatcher, replayer)


async def ingest(settings: Settings, stop: asyncio.Event) -> None:
    """The gateway alone: it needs the log and nothing else. It may be one of several workers."""
    patience = Patience(settings, stop)
    async with AsyncExitStack() as stack:
        worker = await from_environment(stack)
        measured = telemetry(settings, "ingest", stack)
        if worker is not None:  # first: its parent may tell it to stop while it waits
            joined(stack, worker, measured, stop)
        log = await patience.wait("log", lambda: adapters.open_log(settings, stack))
        # asked for keys only
        database = adapters.open_control_database(settings, stack, measured.recorder)
        # each worker grants its part of a limit
        shared = {"limit_shares": settings.limit_shares * settings.workers}
        gate = await open_gate(settings.model_copy(update=shared), database, stack, CLOCK)
        gateway = await _gateway(settings, log, gate.gate, stack, measured, with_inbox=True)
        retire = None if worker is None else worker.retire
        drain = draining(stack, stop, settings.drain_s, retire)
        checks = {"log": lambda: log.end(0), **gate.checks, "process": drain.check}
        health = Health(checks)
        measured.of_health(health)
        routes = event_routes(gateway, gate.gate) + health.routes() + front.routes(None)
        await _serve(stack, settings, "ingest", routes, measured, drain, worker=worker)
        await drain.ended.wait()


async def aggregate(settings: Settings, stop: asyncio.Event) -> None:
    """Counting alone."""
    adapters.check_room(settings)
    patience = Patience(settings, stop)
    async with AsyncExitStack() as stack:
        measured = telemetry(settings, "aggregate", stack)
        opened = await _opened(settings, patience, stack, measured)
        counted = counting.aggregation_worker(
            settings, opened, adapters.inbox_watch(settings, stack)
        )
        checks = {**checks_of(opened.stores), "counting": counted.check}
        checks["disk"] = partial(adapters.check_disk, settings)
        health = Health(checks)
        measured.of_counting(counted.step, counted.standing)
        measured.of_progress(opened)
        measured.of_health(health)
        routes = health.routes() + front.routes(None)
        await _serve(stack, settings, "aggregate", routes, measured)
        await counted.worker.run(stop)


async def dispatch(settings: Settings, stop: asyncio.Event) -> None:
    """Reports alone."""
    patience = Patience(settings, stop)
    async with AsyncExitStack() as stack:
        measured = telemetry(settings, "dispatch", stack)
        opened = await _opened(settings, patience, stack, measured)
        sender = reports.webhook_sender(settings, stack)
        box = await _box(settings, patience, opened)
        dispatcher = reports.dispatcher(settings, opened, box, sender, measured.tracer)
        health = Health(checks_of(opened.stores))
        measured.of_reports(opened)
        measured.of_health(health)
        routes = health.routes() + front.routes(None)
        await _serve(stack, settings, "dispatch", routes, measured)
        await _until_stopped(stop, None, dispatcher, reports.replayer(opened, dispatcher))


async def control(settings: Settings, stop: asyncio.Event) -> None:
    """The whole API, events included; no counting and no sending."""
    patience = Patience(settings, stop)
    async with AsyncExitStack() as stack:
        measured = telemetry(settings, "control", stack)
        opened = await _opened(settings, patience, stack, measured)
        await patience.wait("control", lambda: adapters.put_meters(settings, opened))
        box = await _box(settings, patience, opened)
        gate = await open_gate(settings, opened.database, stack, CLOCK)
        gateway = await _gateway(settings, opened.log, gate.gate, stack, measured)
        # a dispatcher of another process finds by itself what there is to do
        service = reports.report_service(settings, opened, box, stack, lambda: None)
        drain = draining(stack, stop, settings.drain_s)
        checks = _checks(settings, opened, gate, drain)
        api = _whole_api(settings, opened, service, gate, gateway, checks)
        _measure_stores(measured, opened)
        measured.of_health(Health(checks))
        await _serve(stack, settings, "control", api, measured, drain, session_guard(gate))
        await drain.ended.wait()


async def migrate_all(settings: Settings, stop: asyncio.Event) -> None:
    """Bring every store to this release: topic, tables, control store."""
    adapters.check_room(settings)
    patience = Patience(settings, stop)
    async with AsyncExitStack() as stack:
        database = adapters.open_control_database(settings, stack)
        await patience.wait("control", lambda: migrate(database))
        log = await patience.wait("log", lambda: adapters.open_log(settings, stack))
        # They know each other from here on: one that is lost later is noticed.
        await _gathered(settings, patience, stack, database, log)
        logger.info("migrated")


async def _opened(
    settings: Settings, patience: Patience, stack: AsyncExitStack, measured: Telemetry
) -> Opened:
    log = await patience.wait("log", lambda: adapters.open_log(settings, stack))
    recorder = measured.recorder
    database = adapters.open_control_database(settings, stack, recorder)
    await patience.wait("control", lambda: check_migrated(database))
    opened = await _gathered(settings, patience, stack, database, log, recorder)
    following = asyncio.create_task(follow_layout(opened))
    stack.push_async_callback(_ended, following)
    return opened


def _measure_stores(measured: Telemetry, opened: Opened) -> None:
    measured.of_progress(opened)
    measured.of_reports(opened)


async def _box(settings: Settings, patience: Patience, opened: Opened) -> FernetSecretBox:
    return await patience.wait("control", lambda: secret_box(settings, opened.reports))


async def _gathered(
    settings: Settings,
    patience: Patience,
    stack: AsyncExitStack,
    database: Database,
    log: OpenLog,
    recorder: Recorder = SILENT,
) -> Opened:
    usage = await patience.wait("usage", lambda: adapters.open_usage(settings, stack, recorder))
    return await patience.wait(
        "stores", lambda: adapters.open_all(settings, database, usage, log, recorder)
    )


async def _gateway(
    settings: Settings,
    log: OpenLog,
    gate: Gate,
    stack: AsyncExitStack,
    measured: Telemetry,
    *,
    with_inbox: bool = False,
) -> Gateway:
    """The gateway; with the inbox, its reader runs until the stack is closed."""
    publisher = adapters.publisher(settings, log, measured.recorder)
    measured.of_gateway(publisher)
    stack.push_async_callback(publisher.close)
    following = asyncio.create_task(follow_routes(log))
    stack.push_async_callback(_ended, following)
    inbox = adapters.inbox(settings, publisher, log, stack) if with_inbox else None
    if inbox is not None:
        reading = asyncio.create_task(inbox.run())
        stack.push_async_callback(_ended, reading)
    rules = adapters.admission_rules(settings, log)
    return Gateway(publisher, rules, CLOCK, gate, settings.body_bytes_max, measured.recorder)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _whole_api(
    settings: Settings,
    opened: Opened,
    service: ReportService,
    gate: OpenGate,
    gateway: Gateway,
    checks: dict[str, Check],
) -> list[web.RouteDef]:
    api = Api(
        opened.stores,
        service,
        SqlAccessStore(opened.database),
        settings.plans,
        adapters.ledger(settings, opened),
        adapters.refusal_service(opened, gateway),
        gate.catch_up,
        console=front.read_console(),
        sessions=gate.sessions,
        recorder=opened.recorder,
    )
    routes = event_routes(gateway, gate.gate) + control_routes(api, gate.gate, checks)
    v3, v1 = gateway.v3() + bound_v3(api), gateway.v1() + bound_v1(api)
    routes += published.routes(documents.v3(v3), published.V3_PLACES)
    return routes + published.routes(documents.v1(v1), published.V1_PLACES)


def _checks(settings: Settings, opened: Opened, gate: OpenGate, drain: Drain) -> dict[str, Check]:
    """What a process with the whole API needs."""
    checks = {**checks_of(opened.stores), **gate.checks, "process": drain.check}
    if not settings.kafka_servers:
        checks["log"] = partial(_ask_log, settings, opened.log)
    return checks


async def _serve(
    stack: AsyncExitStack,
    settings: Settings,
    role: str,
    routes: list[web.RouteDef],
    measured: Telemetry,
    drain: Drain | None = None,
    guards: Sequence[Middleware] = (),
    worker: Worker | None = None,
    **more: str,
) -> None:
    """Answer requests, and scrapes of metrics; a line of the log tells where."""
    stack.push_async_callback(_ended, asyncio.create_task(trim_for_ever()))
    stack.push_async_callback(measured.scrape.close)
    hosts, outermost = host_guard(settings), [measuring(measured.recorder)]
    if measured.tracer.on:
        outermost.append(tracing(measured.tracer))
    outermost += () if drain is None else drain.middlewares()
    routes, scraped = list(routes), measured.scrape.routes()
    if settings.metrics_port is None:
        routes += scraped
    else:
        of_metrics = None if worker is None else worker.metrics
        place = of_metrics or (settings.host, settings.metrics_port)
        await serve(stack, scraped, place, CLOCK, hosts)
    address = (settings.host, settings.port) if worker is None else worker.api
    inner = [*hosts, *guards]
    served = await serve(stack, routes, address, CLOCK, inner, outermost)
    if drain is not None:
        drain.serving = served
    if worker is not None:
        worker.ready()
        more["worker"] = str(worker.number)
    logger.info("ready", role=role, url=f"http://{settings.host}:{served.port}", **more)


async def _ask_log(settings: Settings, log: OpenLog) -> None:
    """Whether the log in the data folder takes events."""
    await adapters.check_disk(settings)
    await log.end(0)


async def _until_stopped(
    stop: asyncio.Event, worker: Shell | None, dispatcher: Dispatcher, replayer: Replayer
) -> None:
    """Run until `stop`; a worker that fails ends the others, and its error is raised."""

    async def stop_dispatcher() -> None:
        await stop.wait()
        dispatcher.stop()
        replayer.stop()

    async def count() -> None:
        if worker is not None:
            try:
                await worker.run(stop)
            finally:
                stop.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(count())
        group.create_task(stop_dispatcher())
        group.create_task(dispatcher.run())
        group.create_task(replayer.run())
