"""Two servers answer as one does: the same slices are written to both stores, and asked for."""

import asyncio
import random
import re
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from meterline.backends.clickhouse.blocks.store import ClickHouseBlockRows
from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.holdings import ClickHouseHoldings
from meterline.backends.clickhouse.named_sql import TABLES
from meterline.backends.clickhouse.several.sharded import ShardedConnection
from meterline.backends.clickhouse.store import ClickHouseUsageStore
from meterline.backends.control_store.engine import open_database
from meterline.backends.control_store.progress.partitions.shards import SqlShards
from meterline.backends.control_store.progress.seal_ledger import SqlSealLedger
from meterline.meter import Aggregation, Meter
from meterline.ports import StoreLost, Unavailable, Unsuitable
from meterline.runtime.commands.doctor.finding import Finding, Level
from meterline.runtime.commands.doctor.servers import look_at_clickhouse
from meterline.runtime.settings.reading import Settings
from meterline.runtime.wiring.usage_servers import place_partitions
from meterline.usage import (
    Block,
    CheckedUsageStore,
    Filter,
    Flush,
    Operator,
    SliceId,
    Stretch,
    UsageIntegrity,
    UsageQuery,
    block_number,
    differences,
)
from meterline.window import HOUR_MS, WindowSize, parse_instant, rfc3339
from tests.contract.usage.sharded import PARTITIONS, opened
from tests.contract.usage.slices import event, folded, meter
from tests.services.shards import CLUSTER, Shards

START_MS: Final = parse_instant("2026-03-01T00:00:00Z")
SLICES: Final = 3


@pytest.fixture
async def alone(two_servers: Shards) -> AsyncIterator[ClickHouseUsageStore]:
    """A store of one server, for comparison."""
    url = f"{two_servers.servers[0].url}/default"
    made = ClickHouseUsageStore(Connection(url))
    await made.create_tables()
    yield made
    await made.close()


def flushes(log: int, meters: list[Meter]) -> Iterator[Flush]:
    """Slices of all partitions, whose events share cells, values and subjects."""
    rng = random.Random(log)
    for at in range(SLICES):
        for partition in range(PARTITIONS):
            events = [
                event(
                    rng.choice(meters),
                    1_000 * at + 100 * partition + number,
                    rfc3339(START_MS + rng.randrange(3 * HOUR_MS)),
                    {"v": rng.choice([-3, 1, 2, None, "7.25"]), "g": rng.choice("xyz")},
                    f"s{rng.randrange(4)}",
                )
                for number in range(12)
            ]
            yield folded(log, meters, events, at * 10, partition).take()


def questions(of: Meter) -> Iterator[UsageQuery]:
    whole = UsageQuery(of)
    cut = replace(whole, from_ms=START_MS + 90_001, to_ms=START_MS + 2 * HOUR_MS + 31_000)
    for query in (whole, cut):
        for window in (None, WindowSize.HOUR):
            yield replace(query, window=window)
            yield replace(query, window=window, group_by=("subject", "g"))
    some = Filter(Operator.IN, ("s1", "s2"))
    yield replace(cut, filters=(("subject", some),), group_by=("g",))


async def test_two_servers_answer_as_one(
    usage_store: ClickHouseUsageStore, alone: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log = next(fresh_numbers)
    meters = [meter(next(fresh_numbers), kind, groups=("g",)) for kind in Aggregation]
    for flush in flushes(log, meters):
        await asyncio.gather(usage_store.write(flush), alone.write(flush))
        await usage_store.write(flush)  # once more: it changes nothing
    for of in meters:
        for query in questions(of):
            assert await usage_store.usage(query) == await alone.usage(query), query
        both = replace(
            UsageQuery(of, group_by=("subject",)), from_ms=START_MS, to_ms=START_MS + 2 * HOUR_MS
        )
        assert await usage_store.usage_sum(both) == await alone.usage_sum(both)
        assert await usage_store.usage_values(both, 3, 1) == await alone.usage_values(both, 3, 1)
        assert await usage_store.rejected(of, 50, None) == await alone.rejected(of, 50, None)
        portions = [part async for part in usage_store.usage_by_subject(both, 2)]
        assert portions == [part async for part in alone.usage_by_subject(both, 2)]
    assert await usage_store.accounts(log) == await alone.accounts(log)
    everywhere = [len(await server.query(f"SELECT 1 FROM events WHERE log = {log}", {}))
                  for server in usage_store.connection.servers]  # fmt: skip
    assert min(everywhere) > 0, "the partitions are on both"


async def test_blocks_of_two_servers_are_those_of_one(
    usage_store: ClickHouseUsageStore, alone: ClickHouseUsageStore, fresh_numbers: Iterator[int]
) -> None:
    log = next(fresh_numbers)
    kinds = (Aggregation.SUM, Aggregation.UNIQUE_COUNT)
    meters = [meter(next(fresh_numbers), kind, groups=("g",)) for kind in kinds]
    for flush in flushes(log, meters):
        await asyncio.gather(usage_store.write(flush), alone.write(flush))
    stretches = tuple(Stretch(partition, 0, 10 * SLICES) for partition in range(PARTITIONS))
    upto = meters[-1].revision
    block = Block(block_number(START_MS, log), log, stretches, 0, upto, 0)
    merged = replace(block, number=block_number(START_MS, log + 50_000))
    found = []
    for store in (usage_store, alone):
        rows = ClickHouseBlockRows(store.connection)
        await rows.make(block, ())
        due, held = await rows.due(block, ()), await rows.held(block.number)
        assert differences(due, held) == []
        assert await rows.recount(block) == {name: one.digest for name, one in held.items()}
        await rows.make(merged, (block.number,))
        assert await rows.held(merged.number) == held
        counts = await rows.counts()
        found.append((due, held, counts[block.number], counts[merged.number]))
        await rows.drop([block.number, merged.number])
        assert not {block.number, merged.number} & (await rows.counts()).keys()
    assert found[0] == found[1]


async def test_a_server_that_is_away_is_told_and_nothing_less_is_answered(
    two_servers: Shards, fresh_numbers: Iterator[int]
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers))
    store = await opened(two_servers.urls(f"away_{uuid4().hex}"))
    for partition in range(2):
        made = [event(of, partition, "2026-03-01T00:00:00Z", {"v": 1})]
        await store.write(folded(log, [of], made, 0, partition).take())
    (row,) = await store.usage(UsageQuery(of))
    second = two_servers.servers[1]
    await asyncio.to_thread(second.kill)
    try:
        with pytest.raises(Unavailable, match="a server of the usage store does not answer"):
            await store.usage(UsageQuery(of))
        with pytest.raises(Unavailable):
            await ClickHouseHoldings(store.connection).holdings(log, {}, {})
        with pytest.raises(Unavailable):
            await store.count_back(SliceId(log, 0, 0), [of.revision])
        assert await store.account(SliceId(log, 1, 0)), "the first has it"
    finally:
        await asyncio.to_thread(second.start)
    assert await store.usage(UsageQuery(of)) == [row]
    await store.close()


@pytest.mark.parametrize("cluster", ["one", "twice"])
async def test_a_cluster_that_is_not_these_servers_is_told(
    two_servers: Shards, cluster: str
) -> None:
    store = await opened(two_servers.urls(f"{cluster}_{uuid4().hex}"), cluster)
    holdings = ClickHouseHoldings(store.connection)
    await holdings.adopt("a")
    with pytest.raises(Unavailable, match=f"cluster {cluster} of the first server"):
        await holdings.holdings(1, {}, {})
    await store.close()


async def test_a_server_is_added(two_servers: Shards, fresh_numbers: Iterator[int]) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers))
    urls = two_servers.urls(f"grown_{uuid4().hex}")
    before = ClickHouseUsageStore(Connection(urls[0]))
    await opened(urls)  # it makes the databases
    await before.create_tables()
    old = ClickHouseHoldings(before.connection)
    await old.adopt("a")
    made = folded(log, [of], [event(of, 1, "2026-03-01T00:00:00Z", {"v": 1})])
    await before.write(made.take())
    store = await opened(urls)
    assert isinstance(store.connection, ShardedConnection)
    assert await store.connection.held() == {0: 0}
    new = ClickHouseHoldings(store.connection)
    assert (await new.holdings(log, {}, {})).ids == ("a",)
    await new.name_servers("a")
    assert (await new.holdings(log, {}, {})).ids == ("a",)
    assert (await old.holdings(log, {}, {})).ids == ("a 1 of 2",), "who knows of one stops"
    turned = await opened(urls[::-1])
    assert len((await ClickHouseHoldings(turned.connection).holdings(log, {}, {})).ids) == 2
    for one in (before, store, turned):
        await one.close()


async def test_who_does_not_know_of_a_new_server_begins_no_partition(
    two_servers: Shards,
    fresh_logs: Iterator[int],
    fresh_numbers: Iterator[int],
    tmp_path: Path,
    migrated: Path,
) -> None:
    log, of = next(fresh_logs), meter(next(fresh_numbers))
    urls = two_servers.urls(f"late_{uuid4().hex}")
    store = await opened(urls)
    shutil.copy(migrated, tmp_path / "control.db")
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    old = ClickHouseUsageStore(Connection(urls[0]))  # of a process that knows one server
    integrity = UsageIntegrity(
        SqlSealLedger(database), ClickHouseHoldings(old.connection), log, PARTITIONS
    )
    await integrity.begin("a", None)
    checked = CheckedUsageStore(old, integrity)
    seen = [event(of, 1, "2026-03-01T00:00:00Z", {"v": 1})]
    await checked.write(folded(log, [of], seen, 0, 0).take())
    await ClickHouseHoldings(store.connection).name_servers("a")
    with pytest.raises(StoreLost, match="a 1 of 2"):
        await checked.write(folded(log, [of], seen, 0, 1).take())
    assert isinstance(store.connection, ShardedConnection)
    assert await store.connection.held() == {0: 0}, "not one row of partition 1"
    for closed in (old, store, database):
        await closed.close()


async def test_a_disk_that_is_full_while_servers_are_named_loses_no_id(two_servers: Shards) -> None:
    urls = two_servers.urls(f"full_{uuid4().hex}")
    store = await opened(urls)
    first, second = store.connection.servers
    await ClickHouseHoldings(first).adopt("a")
    holdings = ClickHouseHoldings(store.connection)
    for server, then in ((second, [["a"], []]), (first, [["a"], ["a 2 of 2"]])):
        await server.execute("ALTER TABLE installation ADD CONSTRAINT full CHECK id = ''")
        with pytest.raises(Unavailable, match="full"):
            await holdings.name_servers("a")
        assert await _ids(store) == then
        assert (await holdings.holdings(1, {}, {})).ids == ("a",), "nothing is taken for lost"
        await server.execute("ALTER TABLE installation DROP CONSTRAINT full")
    await first.insert("installation", ("id",), [("a 1 of 2",)])  # the older one did not go
    assert (await holdings.holdings(1, {}, {})).ids == ("a",)
    for _ in range(2):
        await holdings.name_servers("a")
        assert await _ids(store) == [["a 1 of 2"], ["a 2 of 2"]]
    await store.close()


async def _ids(store: ClickHouseUsageStore) -> list[list[str]]:
    asked = [await one.query("SELECT id FROM installation", {}) for one in store.connection.servers]
    return [[str(one) for (one,) in rows] for rows in asked]


async def test_a_server_whose_periods_have_other_names_is_refused(two_servers: Shards) -> None:
    urls = two_servers.urls(f"older_{uuid4().hex}")
    await opened(urls)
    connection = ShardedConnection(urls, CLUSTER)
    store, by_month = (
        ClickHouseUsageStore(connection),
        TABLES["seen"].replace("toMonday", "toYYYYMM"),
    )
    for server, is_refused in zip(connection.servers, (True, False), strict=True):
        await server.execute("DROP TABLE seen")
        await server.execute(by_month)
        if not is_refused:  # an older build made both
            await store.create_tables()
            continue
        with pytest.raises(Unsuitable, match="table seen of server 2 is partitioned by toMonday"):
            await store.create_tables()
        settings = Settings(usage_url=urls[0], usage_shards=urls[1:], usage_cluster=CLUSTER)
        *_, last = [one async for one in look_at_clickhouse(settings)]
        assert last.level is Level.FAULT
        assert "`meterline export` the store" in last.text
    await store.close()


class OfALaterRelease(ShardedConnection):
    """It needs a setting that these servers do not know."""

    @property
    def always(self) -> Mapping[str, Any]:
        return {**super().always, "a_later_setting": 0}


async def test_servers_of_an_older_release_are_refused(two_servers: Shards) -> None:
    urls = two_servers.urls(f"release_{uuid4().hex}")
    await (await opened(urls)).close()
    store = ClickHouseUsageStore(OfALaterRelease(urls, CLUSTER))
    with pytest.raises(Unsuitable, match="server 1 does not know the setting a_later_setting"):
        await store.create_tables()
    await store.close()


async def test_rows_on_the_wrong_server_are_told_by_each_start_and_the_doctor(
    two_servers: Shards, fresh_numbers: Iterator[int], tmp_path: Path, migrated: Path
) -> None:
    log, of = next(fresh_numbers), meter(next(fresh_numbers))
    urls = two_servers.urls(f"stray_{uuid4().hex}")
    store = await opened(urls)
    await ClickHouseHoldings(store.connection).adopt("a")
    shutil.copy(migrated, tmp_path / "control.db")
    url = f"sqlite:///{tmp_path / 'control.db'}"
    database = open_database(url)
    shards = SqlShards(database)
    await shards.place({}, range(2), 2)
    settings = Settings(usage_url=urls[0], usage_shards=urls[1:], usage_cluster=CLUSTER)
    settings = settings.model_copy(update={"control_url": url})
    words = "partition 1 of the log is on server 2 .* server 1 has rows of it, too"
    one_event = [event(of, 1, "2026-03-01T00:00:00Z", {"v": 1})]
    old = ClickHouseUsageStore(Connection(urls[0]))  # of a process that knows one server
    for partition in range(2):
        await old.write(folded(log, [of], one_event, 0, partition).take())
    with pytest.raises(Unsuitable, match=words):
        await place_partitions(store.connection, shards, 2)
    *_, last = [one async for one in look_at_clickhouse(settings)]
    assert last.level is Level.FAULT
    assert re.search(words, last.text)
    for table in ("accounts", "events", "rejects", "seen"):  # as docs/operations.md says
        await old.connection.execute(
            f"ALTER TABLE {table} DELETE WHERE partition = 1 SETTINGS mutations_sync = 2"
        )
    await place_partitions(store.connection, shards, 2)
    *_, last = [one async for one in look_at_clickhouse(settings)]
    assert last == Finding("ClickHouse", Level.OK, "each partition of the log is on one server")
    for closed in (old, store, database):
        await closed.close()


async def test_tables_that_are_read_together_are_made_once(two_servers: Shards) -> None:
    urls = two_servers.urls(f"made_{uuid4().hex}")
    store = await opened(urls)
    asked = "SELECT uuid FROM system.tables WHERE database = currentDatabase() ORDER BY name"
    tables = await store.connection.query(asked, {})
    await store.create_tables()
    assert await store.connection.query(asked, {}) == tables
    await store.connection.servers[0].execute("ALTER TABLE events ADD COLUMN more UInt8")
    await store.connection.servers[1].execute("ALTER TABLE events ADD COLUMN more UInt8")
    await store.create_tables()
    assert await store.connection.query("SELECT max(more) FROM events", {}) == [(0,)]
    await store.close()


async def test_the_doctor_looks_at_each_server_and_at_the_cluster(two_servers: Shards) -> None:
    first, second = two_servers.urls(f"doctor_{uuid4().hex}")
    settings = Settings(usage_url=first, usage_shards=[second], usage_cluster=CLUSTER)
    store = await opened([first, second])
    await ClickHouseHoldings(store.connection).adopt("a")
    found = [one async for one in look_at_clickhouse(settings)]
    assert {one.part for one in found} == {"ClickHouse", "ClickHouse 2"}
    assert {one.level for one in found} == {Level.OK}
    assert found[-2].text == f"cluster {CLUSTER} reads 2 servers as one"
    for name, words in (
        ("one", "has 1 shards, and there are 2 servers"),
        ("none", "has 0 shards"),
        ("replicas", "has 3 replicas in its shards, and there are 2 servers"),
    ):
        given = settings.model_copy(update={"usage_cluster": name})
        *_, last = [one async for one in look_at_clickhouse(given)]
        assert last.level is Level.FAULT
        assert words in last.text
    await store.close()
