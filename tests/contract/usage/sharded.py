"""A usage store of two servers, for the contract suites."""

from collections.abc import Mapping
from typing import Final

from meterline.backends.clickhouse.schema import create_database
from meterline.backends.clickhouse.several.sharded import ShardedConnection, together_url
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from tests.services.shards import CLUSTER

PARTITIONS: Final = 8
# Whatever holds for one server holds for two: of these modules each test is run over them, too.
ALSO_SHARDED: Final = frozenset(
    {
        "test_accounts",
        "test_block_reads",
        "test_block_rows",
        "test_erased_rows",
        "test_evidence",
        "test_periods",
        "test_recount",
        "test_seen_keys",
        "test_store",
        "test_values",
        "test_whole",
    }
)


async def place(partition: int) -> Mapping[int, int]:
    """Partition 0 is on the second server: what is asked of the first is read from another."""
    return {one: (one + 1) % 2 for one in range(max(PARTITIONS, partition + 1))}


def connected(urls: list[str], cluster: str = CLUSTER) -> ClickHouseUsageStore:
    """A store on these servers."""
    connection = ShardedConnection(urls, cluster)
    connection.places.place = place
    return ClickHouseUsageStore(connection)


async def opened(urls: list[str], cluster: str = CLUSTER) -> ClickHouseUsageStore:
    """The same, with its tables."""
    for url in (*urls, together_url(urls[0])):
        await create_database(url)
    store = connected(urls, cluster)
    await store.create_tables()
    return store
