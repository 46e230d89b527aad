"""What is told of an error of the engine, of one server and of several."""

from collections.abc import Mapping

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.several.sharded import Places, ShardedConnection
from meterline.ports import Unavailable

SHORT = (
    "Code: 32. DB::Exception: Attempt to read after eof: (while reading column text): (while"
    " reading from part /var/lib/clickhouse/store/all_1_1_0/ in table meterline.events (0a) located"
    " on disk default): While executing MergeTreeSelect. (ATTEMPT_TO_READ_AFTER_EOF)"
)
GONE = "Code: 32. DB::Exception: Attempt to read after eof. (ATTEMPT_TO_READ_AFTER_EOF)"
REFUSED = "Code: 279. DB::Exception: All connection tries failed. (ALL_CONNECTION_TRIES_FAILED)"
AWAY = "a server of the usage store does not answer, and nothing less is told without it"
ONE, SEVERAL = Connection("http://a/b"), ShardedConnection(["http://a/b", "http://c/b"], "both")


@pytest.mark.parametrize("connection", [ONE, SEVERAL])
def test_a_part_that_is_short_is_named(connection: Connection) -> None:
    assert "(table events, part all_1_1_0)" in connection.message_of(DatabaseError(SHORT))


@pytest.mark.parametrize("text", [GONE, REFUSED])
def test_a_server_that_is_away_is_told_only_of_several(text: str) -> None:
    assert SEVERAL.message_of(DatabaseError(text)) == AWAY
    assert text.startswith(ONE.message_of(DatabaseError(text)))


async def test_a_partition_on_a_server_that_was_added_meanwhile_is_told() -> None:
    async def place(partition: int) -> Mapping[int, int]:
        return {partition: 2}

    connection = ShardedConnection(["http://a/b", "http://c/b"], "both", places=Places(place))
    words = "partition 7 of the log is on server 3, and usage_url and usage_shards name 2"
    with pytest.raises(Unavailable, match=words):
        await connection.at(7)
    with pytest.raises(Unavailable, match=words):
        await connection.by_server([7], lambda one: one)
