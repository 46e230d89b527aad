"""What is checked when a set-up is put together."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from meterline import limits
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.control_store.migrate import migrate
from meterline.delivery import AttemptOutcome
from meterline.meter import Aggregation, MeterDraft
from meterline.ports import Unsuitable
from meterline.report import Interval, Report, Schedule
from meterline.runtime.secret_key import secret_box
from meterline.runtime.settings.reading import Settings, SettingsError
from meterline.runtime.wiring import adapters, reports
from meterline.usage import AccountRow, Flush


async def opened(settings: Settings, stack: AsyncExitStack, usage_url: str) -> adapters.Opened:
    log = await adapters.open_log(settings, stack)
    database = adapters.open_control_database(settings, stack)
    await migrate(database)
    usage = ClickHouseUsageStore(Connection(usage_url))
    stack.push_async_callback(usage.close)
    await usage.create_tables()
    for table in ("installation", "accounts", "tallies"):  # all tests share this store
        await usage.connection.execute(f"TRUNCATE TABLE {table}")
    return await adapters.open_all(settings, database, usage, log)


async def test_a_log_made_anew_is_refused_until_someone_accepts_it(
    tmp_path: Path, chdb_url: str
) -> None:
    settings = Settings(data_dir=tmp_path)
    async with AsyncExitStack() as stack:
        first = await opened(settings, stack, chdb_url)
        assert first.log.number == 1
        first_id = first.log.id
    (tmp_path / "log").rename(tmp_path / "gone")
    async with AsyncExitStack() as stack:
        with pytest.raises(Unsuitable, match="created again") as refused:
            await opened(settings, stack, chdb_url)
    new_id = str(refused.value).split("than this one (")[1].split(")")[0]
    assert new_id != first_id
    accepting = Settings(data_dir=tmp_path, log_accepted=new_id)
    async with AsyncExitStack() as stack:
        assert (await opened(accepting, stack, chdb_url)).log.number == 2


async def test_a_control_store_that_forgot_what_was_counted_is_refused(
    tmp_path: Path, chdb_url: str
) -> None:
    async def again(settings: Settings) -> adapters.Opened:
        return await adapters.open_all(settings, made.database, made.usage, made.log)

    settings = Settings(data_dir=tmp_path)
    async with AsyncExitStack() as stack:
        made = await opened(settings, stack, chdb_url)
        rows = [AccountRow(1, 0, slice_, 1, 4, 1, 1, 1, 1) for slice_ in range(0, 50, 10)]
        await made.usage.write(Flush(accounts=rows[:4]))
        known = (await again(settings)).integrity.store_id
        await made.usage.write(Flush(accounts=rows))
        with pytest.raises(Unsuitable, match=r"older than the usage store.*usage_lost to") as told:
            await again(settings)
        assert f"usage_lost to {known}:" in str(told.value)
        accepting = Settings(data_dir=tmp_path, usage_lost=known)
        with pytest.raises(Unsuitable, match="older than the usage store"):
            await again(accepting)  # what is there is not lost
        await made.usage.connection.execute("TRUNCATE TABLE accounts")
        await again(accepting)


async def test_who_no_longer_needs_usage_lost_is_told_to_remove_it(
    tmp_path: Path, chdb_url: str
) -> None:
    settings = Settings(data_dir=tmp_path)
    async with AsyncExitStack() as stack:
        made = await opened(settings, stack, chdb_url)
        known = made.integrity.store_id

        async def told(lost: str) -> str:
            accepting = Settings(data_dir=tmp_path, usage_lost=lost)
            with capture_logs() as lines:
                again = await adapters.open_all(accepting, made.database, made.usage, made.log)
            assert again.integrity.store_id == known, "nothing was given up"
            ((event, hint),) = [(line["event"], line["hint"]) for line in lines]
            assert event == "usage_lost"
            return str(hint)

        assert "in use, which lacks nothing. Remove the setting" in await told(known)
        assert "a store (before) that is not counted into any more" in await told("before")
        with capture_logs() as lines:
            await adapters.open_all(settings, made.database, made.usage, made.log)
        assert not lines


async def test_meters_of_the_settings_file_are_made_and_faults_are_named(
    tmp_path: Path, chdb_url: str
) -> None:
    meter: dict[str, object] = {"key": "calls", "aggregation": "count", "event_type": "call"}
    async with AsyncExitStack() as stack:
        made = await opened(Settings(data_dir=tmp_path), stack, chdb_url)
        await adapters.put_meters(Settings(data_dir=tmp_path, meters=[meter]), made)
        (stored,) = await made.stores.catalogue.meters("default")
        assert (stored.key, stored.from_settings) == ("calls", True)
        for change, said in [
            ({"value_property": "$.x"}, r"meters\[0\] \(calls\): value_property"),
            ({"aggregation": "median"}, r"meters\[0\] \(calls\): aggregation"),
            ({"colour": "red"}, r"meters\[0\] \(calls\): colour"),
        ]:
            faulty = Settings(data_dir=tmp_path, meters=[{**meter, **change}])
            with pytest.raises(SettingsError, match=said):
                await adapters.put_meters(faulty, made)
        await adapters.put_meters(Settings(data_dir=tmp_path), made)
        (left,) = await made.stores.catalogue.meters("default")
        assert (left.id, left.from_settings) == (stored.id, False)


async def test_a_test_delivery_waits_for_no_delivery(tmp_path: Path, chdb_url: str) -> None:
    ended, came = asyncio.Event(), asyncio.Semaphore(0)

    async def hang(request: web.Request) -> web.Response:
        await request.read()
        came.release()
        await ended.wait()
        return web.Response()

    async def take(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    settings = Settings(data_dir=tmp_path, delivery_timeout_s=limits.DELIVERY_LEASE_S / 2)
    application = web.Application()
    application.add_routes([web.post("/hang", hang), web.post("/take", take)])
    async with TestServer(application) as server, AsyncExitStack() as stack:
        made = await opened(settings, stack, chdb_url)
        draft = MeterDraft("calls", "Calls", Aggregation.COUNT, "call")
        meter = await made.stores.catalogue.create_meter("default", draft, 0)
        box = await secret_box(settings, made.reports)
        deliveries = reports.webhook_sender(settings, stack)
        rig = reports.report_service(settings, made, box, stack, lambda: None)
        report = Report(
            id="01R",
            namespace="default",
            slug="calls",
            meter_id=meter.id,
            schedule=Schedule(Interval.MINUTE, 0),
            group_by=(),
            endpoint=str(server.make_url("/take")),
            signing_secret_sealed=box.seal(f"whsec_{'eA' * 16}"),
            created_at_ms=0,
            updated_at_ms=0,
        )
        url = str(server.make_url("/hang"))
        async with asyncio.TaskGroup() as group:
            for _ in range(limits.DELIVERIES_IN_FLIGHT_MAX):
                group.create_task(deliveries.send(url, b"{}", {}))
                await came.acquire()
            async with asyncio.timeout(settings.delivery_timeout_s / 2):
                sent_test = await rig.tester.try_out(report, meter, "test_1")
            ended.set()
    assert sent_test.answer.outcome is AttemptOutcome.DELIVERED
