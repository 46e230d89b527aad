"""Accounts, traces and refusals of a usage store that lost something are not given out."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from meterline.audit import CheckedAccounts, CheckedLineage, CheckedRefusals, UsageEntry
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.events.lineage import ClickHouseEventLineage
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.clickhouse.usage.accounts import ClickHouseAccounts
from meterline.ports import StoreLost
from meterline.usage import AccountQuery, UsageIntegrity
from tests.contract.usage.slices import meter

HOUR_MS = 3_600_000


class Lost(UsageIntegrity):
    """Of a store that has lost something once it was told so."""

    def __init__(self) -> None:
        self.lost = False

    async def check(self) -> None:
        if self.lost:
            raise StoreLost("the usage store has lost what was counted")


@pytest.fixture
async def connection(chdb_url: str) -> AsyncIterator[Connection]:
    store = ClickHouseUsageStore(Connection(chdb_url))
    await store.create_tables()
    yield store.connection
    await store.close()


async def test_no_reader_answers_from_a_store_that_lost_something(connection: Connection) -> None:
    integrity, asked = Lost(), AccountQuery("default", 0, HOUR_MS)
    accounts = CheckedAccounts(ClickHouseAccounts(connection), integrity)
    traces = CheckedLineage(ClickHouseEventLineage(connection), integrity)
    refusals = CheckedRefusals(ClickHouseUsageStore(connection), integrity)
    entry = UsageEntry(meter(1), 0, HOUR_MS)
    asks: list[Callable[[], Awaitable[Sequence[object]]]] = [
        lambda: accounts.account_lines(asked),
        lambda: accounts.meter_accounts(asked),
        lambda: traces.events_of(entry, None, 10),
        lambda: refusals.refused_at([(9_999, 0, 0, 0)]),
    ]
    for ask in asks:
        integrity.lost = False
        assert await ask() == []
        integrity.lost = True
        with pytest.raises(StoreLost):
            await ask()
