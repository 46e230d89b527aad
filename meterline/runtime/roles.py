"""The roles: what each process of either set-up is made of."""

import asyncio
from contextlib import AsyncExitStack

import structlog
from aiohttp import web

from control.health import Check, Health, checks_of
from control.routes import routes as control_routes
from control.v1_reports import V1Reports
from dispatcher.worker import Dispatcher
from ingest.gateway import routes as ingest_routes
from meterline.backends.secrets import FernetSecretBox
from meterline.backends.sql.migrate import check_migrated, migrate
from meterline.runtime import wiring
from meterline.runtime.process import patiently, serve
from meterline.runtime.settings import Settings
from meterline.runtime.wiring import CLOCK, Opened, OpenLog, Worker

logger = structlog.get_logger()


async def up(settings: Settings, stop: asyncio.Event) -> None:
    """All roles in one process and one folder."""
    async with AsyncExitStack() as stack:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        log = await wiring.open_log(settings, stack)
        database = wiring.open_control_database(settings, stack)
        await migrate(database)
        usage = await wiring.open_usage(settings, stack)
        opened = await wiring.open_all(settings, database, usage, log)
        await wiring.put_meters(settings, opened)
        box = wiring.secret_box(settings)
        worker = wiring.aggregation_worker(settings, opened, wiring.inbox_watch(settings, stack))
        dispatcher, sender = wiring.dispatcher(settings, opened, box)
        stack.push_async_callback(sender.close)
        routes = await _events(settings, log, stack, with_inbox=True)
        routes += _whole_api(opened, box, dispatcher)
        port = await serve(stack, routes, settings.host, settings.port, CLOCK)
        logger.info(
            "ready", role="all", url=f"http://{settings.host}:{port}", data=str(settings.data_dir)
        )
        await _until_stopped(stop, worker, dispatcher)


async def ingest(settings: Settings, stop: asyncio.Event) -> None:
    """The door alone: it needs the log and nothing else."""
    async with AsyncExitStack() as stack:
        log = await patiently("log", stop, lambda: wiring.open_log(settings, stack))
        health = Health({"log": lambda: log.end(0)})
        routes = await _events(settings, log, stack, with_inbox=True) + health.routes()
        port = await serve(stack, routes, settings.host, settings.port, CLOCK)
        logger.info("ready", role="ingest", url=f"http://{settings.host}:{port}")
        await stop.wait()


async def aggregate(settings: Settings, stop: asyncio.Event) -> None:
    """Counting alone."""
    async with AsyncExitStack() as stack:
        opened = await _opened(settings, stop, stack)
        worker = wiring.aggregation_worker(settings, opened, wiring.inbox_watch(settings, stack))
        await _serve_health(stack, settings, "aggregate", checks_of(opened.stores))
        await worker.run(stop)


async def dispatch(settings: Settings, stop: asyncio.Event) -> None:
    """Reports alone."""
    async with AsyncExitStack() as stack:
        opened = await _opened(settings, stop, stack)
        dispatcher, sender = wiring.dispatcher(settings, opened, wiring.secret_box(settings))
        stack.push_async_callback(sender.close)
        await _serve_health(stack, settings, "dispatch", checks_of(opened.stores))
        await _until_stopped(stop, None, dispatcher)


async def control(settings: Settings, stop: asyncio.Event) -> None:
    """The whole API, events included; no counting and no sending."""
    async with AsyncExitStack() as stack:
        opened = await _opened(settings, stop, stack)
        await patiently("control", stop, lambda: wiring.put_meters(settings, opened))
        box = wiring.secret_box(settings)
        routes = await _events(settings, opened.log, stack) + _whole_api(opened, box, None)
        port = await serve(stack, routes, settings.host, settings.port, CLOCK)
        logger.info("ready", role="control", url=f"http://{settings.host}:{port}")
        await stop.wait()


async def migrate_all(settings: Settings, stop: asyncio.Event) -> None:
    """Bring every store to this release: topic, tables, control store."""
    async with AsyncExitStack() as stack:
        database = wiring.open_control_database(settings, stack)
        await patiently("control", stop, lambda: migrate(database))
        await patiently("usage", stop, lambda: wiring.open_usage(settings, stack))
        await patiently("log", stop, lambda: wiring.open_log(settings, stack))
        logger.info("migrated")


async def _opened(settings: Settings, stop: asyncio.Event, stack: AsyncExitStack) -> Opened:
    log = await patiently("log", stop, lambda: wiring.open_log(settings, stack))
    database = wiring.open_control_database(settings, stack)
    await patiently("control", stop, lambda: check_migrated(database))
    usage = await patiently("usage", stop, lambda: wiring.open_usage(settings, stack))
    return await patiently("control", stop, lambda: wiring.open_all(settings, database, usage, log))


async def _events(
    settings: Settings, log: OpenLog, stack: AsyncExitStack, *, with_inbox: bool = False
) -> list[web.RouteDef]:
    """The door's routes; with the inbox, its reader runs until the stack is closed."""
    publisher = wiring.publisher(settings, log)
    stack.push_async_callback(publisher.close)
    inbox = wiring.inbox(settings, publisher, log, stack) if with_inbox else None
    if inbox is not None:
        reading = asyncio.create_task(inbox.run())
        stack.push_async_callback(_ended, reading)
    return ingest_routes(
        publisher,
        wiring.admission_rules(settings, log),
        CLOCK,
        body_bytes_max=settings.body_bytes_max,
    )


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _whole_api(
    opened: Opened, box: FernetSecretBox, dispatcher: Dispatcher | None
) -> list[web.RouteDef]:
    def wake() -> None:
        if dispatcher is not None:
            dispatcher.wake()

    reports = V1Reports(opened.stores, opened.reports, box, wake)
    return control_routes(opened.stores) + reports.routes()


async def _serve_health(
    stack: AsyncExitStack, settings: Settings, role: str, checks: dict[str, Check]
) -> None:
    port = await serve(stack, Health(checks).routes(), settings.host, settings.port, CLOCK)
    logger.info("ready", role=role, url=f"http://{settings.host}:{port}")


async def _until_stopped(
    stop: asyncio.Event, worker: Worker | None, dispatcher: Dispatcher
) -> None:
    """Run until `stop`; a worker that fails ends the others, and its error is raised."""

    async def stop_dispatcher() -> None:
        await stop.wait()
        dispatcher.stop()

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
