"""Parts of chDB that are damaged on disk although it acknowledged their insert."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from meterline.backends.clickhouse.chdb.parts import PartWatch
from meterline.backends.clickhouse.connection import Connection
from meterline.ports import Unavailable, Unsuitable

TABLE = "watched"
PARTS = "SELECT path FROM system.parts WHERE active AND table = 'watched'"
COUNT = "SELECT count() FROM watched"


@pytest.fixture
async def connection(chdb_url: str) -> AsyncIterator[Connection]:
    """With a table of its own."""
    made = Connection(chdb_url)
    await made.execute(f"CREATE TABLE {TABLE} (n UInt64) ENGINE = MergeTree ORDER BY n")
    yield made
    await made.execute(f"DROP TABLE {TABLE} SYNC")
    await made.close()


async def folders(connection: Connection) -> list[Path]:
    return [Path(path) for (path,) in await connection.query(PARTS, {})]


async def inserted(connection: Connection, number: int) -> Path:
    """Insert a row; the folder of its part."""
    before = await folders(connection)
    await connection.insert(TABLE, ("n",), [(number,)])
    (made,) = set(await folders(connection)) - set(before)
    return made


@pytest.mark.parametrize(
    "name", ["columns.txt", "checksums.txt", "metadata_version.txt", "count.txt", "data.bin"]
)
async def test_an_insert_that_is_not_whole_on_disk_is_taken_back(
    connection: Connection, name: str
) -> None:
    watch = PartWatch(connection, {TABLE})
    before = await watch.begin()
    await inserted(connection, 1)
    await watch.end(before)
    damaged = await inserted(connection, 2) / name
    damaged.write_bytes(b"")
    other = await watch.begin()  # of a writer beside it
    with pytest.raises(Unavailable, match="the disk lost a write"):
        await watch.end(before)
    with pytest.raises(Unavailable, match="the disk lost a write"):
        await watch.end(other)
    assert await connection.query(COUNT, {}) == [(1,)]
    await inserted(connection, 2)
    await watch.end(await watch.begin())
    assert await connection.query(COUNT, {}) == [(2,)]


async def test_where_nothing_was_at_first_what_was_seen_is_known(connection: Connection) -> None:
    watch = PartWatch(connection, {TABLE})
    before = await watch.begin()
    first = await inserted(connection, 1) / "count.txt"
    await watch.end(before)
    content = first.read_bytes()
    first.write_bytes(b"")  # later: it is not taken for an insert of now
    await watch.end(before)
    first.write_bytes(content)
    assert await connection.query(COUNT, {}) == [(1,)]


async def test_a_file_that_is_not_known_is_no_damage(connection: Connection) -> None:
    watch = PartWatch(connection, {TABLE})
    before = await watch.begin()
    (await inserted(connection, 1) / "unheard_of.txt").write_text("x")
    await watch.end(before)


async def test_a_part_that_was_merged_and_is_not_whole_ends_the_process(
    connection: Connection,
) -> None:
    watch = PartWatch(connection, {TABLE})
    before = await watch.begin()
    for number in range(2):
        await inserted(connection, number)
    await watch.end(before)
    await connection.execute(f"OPTIMIZE TABLE {TABLE} FINAL")
    (merged,) = await folders(connection)
    whole = (merged / "columns.txt").read_bytes()
    (merged / "columns.txt").write_bytes(b"")
    with pytest.raises(Unsuitable, match=r"columns.txt is empty.*start again within eight minutes"):
        await watch.end(before)
    assert await connection.query(COUNT, {}) == [(2,)], "nothing of it is dropped"
    (merged / "columns.txt").write_bytes(whole)
    await watch.end(before)
