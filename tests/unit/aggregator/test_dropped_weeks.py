"""Weeks of counting over the embedded adapters, whose old events are dropped: nothing that is kept
depends on them.
"""

import shutil
from collections.abc import Iterator
from functools import partial

import pytest

from aggregator.completeness import Completeness
from aggregator.housekeeping import Housekeeping
from aggregator.retention import Retention
from meterline.backends.clickhouse.holdings import ClickHouseHoldings, ClickHousePeriods
from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import insert
from meterline.backends.control_store.progress.retention import SqlRetention
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.backends.control_store.tables.meters import logs
from meterline.event import Log
from meterline.limits import RETENTION_INTERVAL_MS, RETENTION_NOTICE_MS
from meterline.meter import Aggregation
from meterline.ports import StoreLost
from meterline.usage import EVENTS, Period, RetentionTerms, UsageIntegrity, counted_from
from meterline.window import DAY_MS
from tests.unit.aggregator.world import AT_ONCE, PARTITIONS, Meters, World, numbered, taken_on

WEEK_MS = 7 * DAY_MS
WEEKS, EACH = 12, 30
TERMS = RetentionTerms(6 * WEEK_MS, 6 * WEEK_MS, 7 * WEEK_MS)
FAR_MS = 3_786_912_000_000  # 2090: no other test of this store writes there


class Weeks(ClickHousePeriods):
    """Only those of this test: the usage store is shared."""

    async def periods(self) -> list[Period]:
        return [one for one in await super().periods() if one.from_ms >= FAR_MS - 9 * WEEK_MS]


async def integrity_of(world: World) -> UsageIntegrity:
    holdings = ClickHouseHoldings(world.usage.connection)
    made = UsageIntegrity(SqlSealLedger(world.database), holdings, world.log.number, PARTITIONS)
    made.store_id = "a"
    await SqlSealLedger(world.database).bind("a")
    await holdings.adopt("a")
    return made


async def registered(connection: Connection, log: Log) -> None:
    """The log has the number that the world gave it."""
    row = {"number": log.number, "id": log.id, "partitions": PARTITIONS}
    await connection.execute(insert(connection, logs).values(row))


async def events_kept(world: World) -> int:
    question = "SELECT count() FROM (SELECT DISTINCT offset, partition, place FROM events"
    log = world.log.number
    rows = await world.usage.connection.query(f"{question} WHERE log = {log})", {})
    return int(rows[0][0])


async def test_old_weeks_are_dropped_and_nothing_that_is_kept_needs_them(
    world: World, fresh_numbers: Iterator[int]
) -> None:
    meters = Meters(0)
    total = meters.add(Aggregation.SUM, next(fresh_numbers))
    world.clock.at_ms = FAR_MS
    await world.database.write(partial(registered, log=world.log))
    worker = world.worker(meters)
    for week in range(WEEKS):
        await world.send(numbered(week * EACH, (week + 1) * EACH))
        world.clock.at_ms += WEEK_MS
    await world.run(worker, seal=True)
    integrity = await integrity_of(world)
    await integrity.check()
    assert await events_kept(world) == WEEKS * EACH
    retention = Retention(
        Weeks(world.usage.connection), SqlRetention(world.database), TERMS, world.log.number
    )
    keeping = Housekeeping(worker, Completeness(worker, 0), AT_ONCE, retention)
    for _ in range(RETENTION_NOTICE_MS // RETENTION_INTERVAL_MS + 1):
        await keeping.claim(world.clock.at_ms)
        await integrity.check()
        world.clock.at_ms += RETENTION_INTERVAL_MS
    left = await events_kept(world)
    assert 5 * EACH <= left <= 7 * EACH
    await world.check(total)

    # A meter that is made now counts what is kept, and it is known from when on.
    count = meters.add(Aggregation.COUNT, next(fresh_numbers))
    await taken_on(worker)
    await world.fill(worker)
    assert await world.value(count) == left
    notices = await SqlRetention(world.database).notices()
    since_ms = counted_from(notices, count.revision)
    assert FAR_MS + 4 * WEEK_MS < since_ms < FAR_MS + 7 * WEEK_MS
    assert counted_from(notices, total.revision) in (0, since_ms)
    await worker.close_all()

    # The seen store is lost: what may still be repeated is known from what is kept.
    shutil.rmtree(world.folder / "seen")
    worker = world.worker(meters)
    await world.send(numbered((WEEKS - 4) * EACH, WEEKS * EACH))
    await world.run(worker, seal=True)
    await world.check(total)
    await integrity.check()

    # Whatever else goes is missed, at once: rows are counted as they are stored, and copies that
    # are not merged yet would stand in for them.
    connection = world.usage.connection
    weeks = sorted(one for one in await Weeks(connection).periods() if one.table == EVENTS)
    for one in weeks:
        await connection.execute(f"OPTIMIZE TABLE {EVENTS} PARTITION ID '{one.name}' FINAL")
    await ClickHousePeriods(connection).drop(weeks[-1])
    with pytest.raises(StoreLost, match="table events has"):
        await integrity.check()
    await worker.close_all()
