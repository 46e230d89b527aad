"""What can be tested of replicas without Keeper, on real servers: statements, settings, refusals,
and which server is asked. No replica is active here (docs/guarantees.md).
"""

from collections.abc import AsyncIterator, Callable
from collections.abc import Set as AbstractSet
from uuid import uuid4

import pytest
from clickhouse_connect.driver.client import Client

from meterline.backends.clickhouse.clients.lanes import COUNTING
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.named_sql import TABLES
from meterline.backends.clickhouse.schema import create_database
from meterline.backends.clickhouse.several.replicated import Replica, ReplicatedConnection
from meterline.backends.clickhouse.several.replicated_tables import replicated, settings_of
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.ports import Unavailable, Unsuitable
from meterline.runtime.commands.doctor.finding import Level
from meterline.runtime.commands.doctor.servers import look_at_clickhouse
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring.usage_servers import make_databases
from tests.services.local import nobody_at
from tests.services.shards import Shards


@pytest.fixture
async def urls(two_servers: Shards) -> list[str]:
    """An empty database on each of two servers."""
    found = two_servers.urls(f"replicas_{uuid4().hex}")
    for url in found:
        await create_database(url)
    return found


@pytest.fixture
async def server(urls: list[str]) -> AsyncIterator[Connection]:
    """The first of them, as one server."""
    connection = Connection(urls[0])
    yield connection
    await connection.close()


async def test_the_engine_knows_each_statement_and_setting(server: Connection) -> None:
    for text in TABLES.values():
        explain = f"EXPLAIN AST {replicated(text, 'm', 2)}"
        found = await server.run(_answered(explain))
        assert found.startswith((b"CreateQuery", b"AlterQuery"))
    asked = "SELECT count() FROM system.settings WHERE name IN {names:Array(String)}"
    names = list(settings_of(2))
    assert await server.query(asked, {"names": names}) == [(len(names),)]
    of_tables = (
        "SELECT count() FROM system.replicated_merge_tree_settings WHERE name = {name:String}"
    )
    asked_for = {"name": "min_compressed_bytes_to_fsync_after_fetch"}
    assert await server.query(of_tables, asked_for) == [(1,)]


async def test_each_kind_of_statement_waits_for_all_replicas(urls: list[str]) -> None:
    replica = Replica(urls[0], 2)
    quorum = "getSetting('insert_quorum')"
    await replica.execute(
        f"CREATE TABLE waits (a Int32, n UInt64 DEFAULT {quorum}) ENGINE = MergeTree ORDER BY a"
    )
    await replica.insert("waits", ("a",), [(1,)])
    await replica.insert_packed("waits", ("a",), [b"\2\0\0\0"])
    await replica.insert_selected(f"INSERT INTO waits SELECT 3, {quorum}", {}, {})
    await replica.run(lambda client: client.command(f"INSERT INTO waits SELECT 4, {quorum}"))
    rows = await replica.query("SELECT * FROM waits ORDER BY a", {})
    assert rows == [(1, 2), (2, 2), (3, 2), (4, 2)]
    await replica.close()


async def test_a_server_without_keeper_is_refused_with_words(urls: list[str]) -> None:
    store = ClickHouseUsageStore(ReplicatedConnection(urls))
    with pytest.raises(
        Unsuitable, match=r"server 1 of .* cannot replicate .* Name ClickHouse Keep"
    ):
        await store.create_tables()
    await store.close()


async def test_tables_that_are_not_replicated_are_refused_and_not_asked(
    urls: list[str], server: Connection
) -> None:
    await ClickHouseUsageStore(server).create_tables()
    store = ClickHouseUsageStore(ReplicatedConnection(urls))
    with pytest.raises(Unsuitable, match=r"table accounts of server 1 .* `meterline export`"):
        await store.create_tables()
    with pytest.raises(Unavailable, match="may lack rows of table accounts, so it is not asked"):
        await store.accounts(1)
    settings = Settings(usage_url=urls[0], usage_replicas=urls[1:])
    found = [one async for one in look_at_clickhouse(settings)]
    faults = [(one.part, one.text[:14]) for one in found if one.level is Level.FAULT]
    assert ("ClickHouse", "may lack rows ") in faults
    assert ("ClickHouse 2", "may lack rows ") in faults
    await store.close()


def _answered(statement: str) -> Callable[[Client], bytes]:
    return lambda client: bytes(client.raw_query(statement))


class Whole(Replica):
    """One of which it is known that it lacks nothing."""

    async def lacking(self) -> AbstractSet[str]:
        return frozenset()


async def test_the_next_replica_is_asked_where_one_does_not_answer(urls: list[str]) -> None:
    tables = "SELECT count() FROM system.tables WHERE database = currentDatabase()"
    with nobody_at() as port:
        every = [f"http://127.0.0.1:{port}/m", *urls]
        connection = ReplicatedConnection(every)
        lane = connection.lane(COUNTING._replace(name="other"))
        assert isinstance(lane, ReplicatedConnection)
        for one in (connection, lane):
            one.replicas = tuple(Whole(url, 3) for url in every)
        with pytest.raises(Unavailable, match="no connection"):
            await connection.query(tables, {})
        await lane.execute("CREATE TABLE one (a Int32) ENGINE = MergeTree ORDER BY a")
        with pytest.raises(Unavailable, match="Code: 47"):  # its own fault: the replica stays
            await connection.query("SELECT nobody", {})
        assert await connection.query(tables, {}) == [(1,)], "all lanes ask the same"
        pieces = [it async for it in connection.stream("SELECT 1 AS a", {}, {}, bytes)]
        assert b"".join(pieces) == b'{"a":1}\n'
        with pytest.raises(Unavailable, match="Code: 60"):
            await connection.insert("two", ("a",), [(1,)])
        assert await lane.query(tables, {}) == [(0,)], "the third has no table"
        await connection.close()


async def test_a_replica_that_is_away_holds_up_no_start_but_the_first(
    urls: list[str], server: Connection
) -> None:
    with nobody_at() as port:
        away = f"http://127.0.0.1:{port}/{urls[0].rpartition('/')[2]}"
        settings = Settings(usage_url=urls[0], usage_replicas=[away])
        await make_databases(settings)
        connection = ReplicatedConnection([urls[0], away])
        with pytest.raises(Unavailable, match="no connection"):
            await connection.make_tables()
        await ClickHouseUsageStore(server).create_tables()  # they only stand for a whole replica
        with pytest.raises(Unsuitable, match="is not replicated"):
            await connection.make_tables()
        await connection.close()
