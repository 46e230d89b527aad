"""All tables of a control store, out and in again, between both databases."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Boolean, Integer, LargeBinary, Table, func, select
from sqlalchemy.types import TypeEngine

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database, open_database
from meterline.backends.control_store.migrate import migrate, migrate_to, newest, number_of
from meterline.backends.control_store.tables import whole
from meterline.backends.control_store.tables.access import changes
from meterline.backends.control_store.tables.columns import metadata
from meterline.backends.control_store.tables.meters import logs, seal_sums, seals
from meterline.limits import ARCHIVE_ROWS
from tests.contract.conftest import DATABASES, fresh_database

Pages = dict[str, tuple[whole.Columns, list[Sequence[Any]]]]
OF_THE_MOMENT = {"completeness", "flushed", "sessions"}
MANY = ARCHIVE_ROWS * 2 + 1
PAIRS = [(one, other) for one in DATABASES for other in DATABASES]


@pytest.fixture(params=PAIRS, ids="-to-".join)
async def pair(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Database, Database]]:
    """A store that is migrated, and another one without any tables."""
    async with AsyncExitStack() as stack:
        opened = []
        for number, kind in enumerate(request.param):
            url = f"sqlite:///{tmp_path / f'{number}.db'}"
            if kind == "postgresql":
                server = request.getfixturevalue("postgres")
                url = await stack.enter_async_context(fresh_database(server))
            database = open_database(url)
            stack.push_async_callback(database.close)
            opened.append(database)
        await migrate(opened[0])
        yield opened[0], opened[1]


def value(kind: TypeEngine[Any]) -> object:
    """A value of a column; equal in all tables, so that rows refer to each other."""
    if isinstance(kind, Boolean):
        return True
    if isinstance(kind, Integer):
        return 1
    return b"\0\xff\n" if isinstance(kind, LargeBinary) else "é\t\n\\N'"


def row(table: Table, **given: object) -> dict[str, object]:
    return {one.name: value(one.type) for one in table.columns} | given


async def fill(connection: Connection) -> None:
    """A row in every table, with the least columns NULL; and many in one."""
    await whole.clear(connection)
    for table in metadata.sorted_tables:
        await connection.execute(table.insert(), [row(table)])
    many = [row(changes, id=f"{number:06d}", name="") for number in range(MANY)]
    await connection.execute(changes.insert(), many)


async def read(database: Database) -> Pages:
    found: Pages = {}

    def page(table: str, columns: whole.Columns, rows: Sequence[Sequence[Any]]) -> None:
        assert len(rows) <= ARCHIVE_ROWS
        found.setdefault(table, (columns, []))[1].extend(tuple(one) for one in rows)

    async def ask(connection: Connection) -> None:
        found.clear()
        await whole.read_all(connection, page)

    await database.read(ask)
    return found


async def put(database: Database, pages: Pages) -> None:
    async def act(connection: Connection) -> None:
        await whole.clear(connection)
        for table in metadata.sorted_tables:
            columns, rows = pages[table.name]
            await whole.put(connection, table.name, columns, rows)

    await database.write(act)


async def test_every_row_of_every_table_comes_back(pair: tuple[Database, Database]) -> None:
    source, target = pair
    await source.write(fill)
    pages = await read(source)
    assert set(pages) == set(metadata.tables)
    sizes = {name: len(rows) for name, (_, rows) in pages.items()}
    assert {name for name, size in sizes.items() if not size} == OF_THE_MOMENT
    assert sizes["changes"] == MANY + 1
    assert len({tuple(one) for one in pages["changes"][1]}) == MANY + 1

    await migrate_to(target, newest())
    await put(target, pages)
    assert await number_of(target) == newest()
    again = await read(target)
    assert {n: (c, sorted(r, key=repr)) for n, (c, r) in again.items()} == {
        n: (c, sorted(r, key=repr)) for n, (c, r) in pages.items()
    }


async def test_rows_of_an_older_build_are_brought_on(pair: tuple[Database, Database]) -> None:
    source, target = pair
    await source.write(fill)
    pages = await read(source)
    columns, rows = pages["logs"]
    old = [name for name, _ in columns].index("firsts")
    pages["logs"] = (
        [one for at, one in enumerate(columns) if at != old],
        [[it for at, it in enumerate(one) if at != old] for one in rows],
    )
    await migrate_to(target, 27)
    await put(target, pages)
    await migrate(target)
    assert await number_of(target) == newest()
    found = await read(target)
    assert found["logs"][1] == [(1, value(logs.c.id.type), 1, None)]


async def test_a_store_is_used_once_it_holds_anything(control_database: Database) -> None:
    assert not await control_database.read(whole.is_used)
    await control_database.write(fill)
    assert await control_database.read(whole.is_used)
    await control_database.write(whole.clear)
    assert not await control_database.read(whole.is_used)


async def test_a_moment_says_how_far_the_log_is_sealed(control_database: Database) -> None:
    async def seal(connection: Connection) -> None:
        await fill(connection)
        for of, partition, slice_, end in (
            (seals, 0, 40, 50),
            (seals, 0, 50, 60),
            (seal_sums, 0, 0, 40),
            (seal_sums, 2, 0, 7),
        ):
            place = {"log": 2, "partition": partition, "slice": slice_, "offset_end": end}
            await connection.execute(of.insert(), [row(of, **place)])

    await control_database.write(seal)
    moment = await control_database.read(lambda it: whole.moment(it, 2))
    assert moment.sealed == {0: 60, 2: 7}
    assert (moment.log, moment.revision, moment.blocks) == (2, 1, [])
    assert moment.usage_id == value(logs.c.id.type)
    assert moment.erasures == whole.Erasing(1, 0)


async def test_a_restored_log_goes_on_under_its_number(control_database: Database) -> None:
    await control_database.write(fill)

    async def goes_on(connection: Connection) -> None:
        await whole.become(connection, 1, "another", msgspec.json.encode([4, 0]).decode())

    await control_database.write(goes_on)
    found: dict[str, list[Any]] = defaultdict(list)

    async def ask(connection: Connection) -> None:
        found["rows"] = [tuple(it) for it in await connection.execute(select(logs))]
        found["count"] = [(await connection.execute(select(func.count(logs.c.id)))).scalar_one()]

    await control_database.read(ask)
    assert found == {"rows": [(1, "another", 1, "[4,0]")], "count": [1]}
