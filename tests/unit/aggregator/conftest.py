"""The world of the aggregator's tests."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.sqlite_log import open_sqlite_log
from meterline.limits import SLICE_SPAN_MS
from meterline.meter import Aggregation
from tests.unit.aggregator.dropping import NUMBERS, Dropping
from tests.unit.aggregator.held import Held
from tests.unit.aggregator.minutes import Minutes
from tests.unit.aggregator.world import PARTITIONS, Hands, Meters, World, numbered


@pytest.fixture
async def world(
    tmp_path: Path,
    usage_store: ClickHouseUsageStore,
    fresh_logs: Iterator[int],
    migrated: Path,
) -> AsyncIterator[World]:
    clock = Hands()
    log = open_sqlite_log(tmp_path / "log", PARTITIONS, clock)
    log.number = next(fresh_logs)
    shutil.copy(migrated, tmp_path / "control.db")
    made = World(tmp_path, log, usage_store, clock)
    yield made
    await log.close()
    await made.database.close()


@pytest.fixture
async def minutes(world: World, fresh_numbers: Iterator[int]) -> AsyncIterator[Minutes]:
    base, *_ = [next(fresh_numbers) for _ in range(NUMBERS)]
    dropping = Dropping(world, base)
    await dropping.begin()
    made = Minutes(dropping, base)
    await made.begin()
    yield made
    world.usage.read_blocks(None)


@pytest.fixture
async def held(world: World, fresh_numbers: Iterator[int]) -> AsyncIterator[Held]:
    meters = Meters(0)
    meter = meters.add(Aggregation.SUM, next(fresh_numbers))
    await world.send(numbered(0, 60))
    world.clock.at_ms += SLICE_SPAN_MS
    await world.send(numbered(0, 30))  # copies of what is not sealed
    await world.send(numbered(60, 90))
    made = Held(world, meters, meter)
    yield made
    made.may.set()
    await made.worker.close_all()
