"""Contract of `Shards`, over both databases: the first server that a partition was given stays."""

import asyncio

from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.progress.partitions.shards import SqlShards


async def test_a_partition_stays_where_it_was_put(control_database: Database) -> None:
    shards = SqlShards(control_database)
    assert await shards.known() == {}
    assert await shards.place({2: 0, 9: 1}, range(4), 2) == {0: 1, 1: 0, 2: 0, 3: 1}
    assert await shards.place({0: 0}, range(6), 3) == {0: 1, 1: 0, 2: 0, 3: 1, 4: 2, 5: 2}
    assert await shards.known() == {0: 1, 1: 0, 2: 0, 3: 1, 4: 2, 5: 2}


async def test_processes_that_ask_at_once_are_told_the_same(control_database: Database) -> None:
    shards = SqlShards(control_database)
    asked = [shards.place({}, range(first, 9), 3) for first in (0, 4, 8, 2)]
    found = await asyncio.gather(*asked)
    known = await shards.known()
    assert known.keys() == set(range(9))
    assert all(known[partition] == server for one in found for partition, server in one.items())
