"""The world of the aggregator's tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.sql.migrate import migrate
from meterline.backends.sqlite_log import open_sqlite_log
from tests.unit.aggregator.world import PARTITIONS, Hands, World


@pytest.fixture
async def world(
    tmp_path: Path, chdb_url: str, fresh_numbers: Iterator[int]
) -> AsyncIterator[World]:
    usage = ClickHouseUsageStore(Connection(chdb_url))
    await usage.create_tables()
    clock = Hands()
    log = open_sqlite_log(tmp_path / "log", PARTITIONS, clock)
    log.number = next(fresh_numbers)
    made = World(tmp_path, log, usage, clock)
    await migrate(made.database)
    yield made
    await log.close()
    await usage.close()
    await made.database.close()
