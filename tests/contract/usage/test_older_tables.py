"""Tables that an older build made: they get the settings that they lack, and what is there stays
readable.
"""

from typing import Final
from uuid import uuid4

import pytest

from meterline.backends.clickhouse.connection import Connection
from meterline.backends.clickhouse.named_sql import QUERIES, TABLES
from meterline.backends.clickhouse.schema import create_database, missing
from meterline.backends.clickhouse.store import ClickHouseUsageStore

SIDE_BY_SIDE: Final = ", min_bytes_for_wide_part"
NAMES: Final = tuple(name for name, text in TABLES.items() if f"{SIDE_BY_SIDE} = " in text)
BY_COLUMN: Final = ", vertical_merge_algorithm_min_columns_to_activate = 1"
MERGED_BY_COLUMN: Final = ("events", "rejects", "tallies", "late_tallies")
ROWS: Final = 200_000  # so many that the engine would give each column a file


@pytest.mark.parametrize("name", NAMES)
async def test_parts_that_are_added_to_an_older_table_are_of_one_file(
    clickhouse: str, name: str
) -> None:
    url = f"{clickhouse}/made{uuid4().hex[:8]}"
    await create_database(url)
    store = ClickHouseUsageStore(Connection(url))
    await store.connection.execute(TABLES[name].partition(SIDE_BY_SIDE)[0])
    await _add(store, name, 1)
    await store.create_tables()
    assert missing(await store.connection.query(QUERIES["schema"], {})) == []
    await _add(store, name, 2)
    parts = (
        "SELECT partition, part_type, rows FROM system.parts WHERE active AND table = {name:String}"
        " AND database = currentDatabase() ORDER BY partition"
    )
    found = await store.connection.query(parts, {"name": name})
    assert [tuple(row) for row in found] == [("1", "Wide", ROWS), ("2", "Compact", ROWS)]
    sums = f"SELECT block, count(), min(revision), max(revision) FROM {name} GROUP BY 1 ORDER BY 1"
    whole = [(block, ROWS, 7, 7) for block in (1, 2)]
    assert [tuple(row) for row in await store.connection.query(sums, {})] == whole
    await store.close()


@pytest.mark.parametrize("name", MERGED_BY_COLUMN)
async def test_an_older_table_is_merged_by_column_too(clickhouse: str, name: str) -> None:
    url = f"{clickhouse}/made{uuid4().hex[:8]}"
    await create_database(url)
    store = ClickHouseUsageStore(Connection(url))
    assert BY_COLUMN in TABLES[name]
    await store.connection.execute(TABLES[name].replace(BY_COLUMN, ""))
    made = "SELECT create_table_query FROM system.tables WHERE name = {name:String}"
    made += " AND database = currentDatabase()"
    ((text,),) = await store.connection.query(made, {"name": name})
    assert BY_COLUMN not in text
    await store.create_tables()
    assert missing(await store.connection.query(QUERIES["schema"], {})) == []
    ((text,),) = await store.connection.query(made, {"name": name})
    assert BY_COLUMN in text
    await store.close()


async def _add(store: ClickHouseUsageStore, name: str, block: int) -> None:
    columns = "block, revision, subject, groups"
    values = f"SELECT {block}, 7, toString(rand(number) % 5000), [repeat('x', 50)]"
    await store.connection.execute(
        f"INSERT INTO {name} ({columns}) {values} FROM numbers({ROWS})"
        " SETTINGS max_block_size = 1000000, min_insert_block_size_rows = 1000000"
    )
