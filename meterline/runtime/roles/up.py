"""All roles in one process."""

import asyncio
from contextlib import AsyncExitStack

from control.health import Health
from meterline.backends.control_store.migrate import migrate
from meterline.runtime.archive.making import make_backup
from meterline.runtime.archive.serving import serve_backups
from meterline.runtime.drain import draining
from meterline.runtime.process import tell_crashes
from meterline.runtime.roles.gateway import open_gateway
from meterline.runtime.roles.reporting import run_until_stopped, secrets_of
from meterline.runtime.roles.serving import serve_role
from meterline.runtime.roles.stores import gathered
from meterline.runtime.roles.whole_api import checks_of_api, measure_stores, whole_api
from meterline.runtime.settings.reading import Settings
from meterline.runtime.start_timeout import Patience
from meterline.runtime.wiring import adapters, counting, reports
from meterline.runtime.wiring.access import open_gate, session_guard
from meterline.runtime.wiring.adapters import CLOCK
from meterline.runtime.wiring.inbox_agreement import agreed_inbox
from meterline.runtime.wiring.telemetry import telemetry


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
        opened = await gathered(settings, patience, stack, database, log, recorder)
        tell_crashes()  # the engine had taken their signals
        await adapters.put_meters(settings, opened)
        box = await secrets_of(settings, patience, opened)
        drained = await agreed_inbox(settings, stack)
        counted = counting.aggregation_worker(settings, opened, drained)
        measured.of_counting(counted.step, counted.standing, counted.seen_cached)
        measure_stores(measured, opened)
        sender = reports.webhook_sender(settings, stack)
        dispatcher = reports.dispatcher(settings, opened, box, sender, measured.tracer)
        gate = await open_gate(settings, database, stack, CLOCK)
        gateway = await open_gateway(settings, log, gate.gate, stack, measured, with_inbox=True)
        service = reports.report_service(settings, opened, box, stack, dispatcher.wake)
        drain = draining(stack, stop, settings.drain_s)
        checks = {**checks_of_api(settings, opened, gate, drain), "counting": counted.check}
        api = whole_api(settings, opened, service, gate, gateway, checks)
        measured.of_health(Health(checks))
        guards = session_guard(gate)
        data = str(settings.data_dir.absolute())
        await serve_role(stack, settings, "all", api, measured, drain, guards, data=data)
        await serve_backups(
            stack, settings.data_dir, lambda to, tell: make_backup(to, settings, opened, tell)
        )
        replayer = reports.replayer(opened, dispatcher)
        await run_until_stopped(drain.ended, counted.worker, dispatcher, replayer)
