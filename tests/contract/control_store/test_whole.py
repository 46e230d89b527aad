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
from meterline.backends.control_store.migrate import migrate, migrate_within
from meterline.backends.control_store.migrations.migrated import newest, number_of
from meterline.backends.control_store.tables import whole
from meterline.backends.control_store.tables.access import changes
from meterline.backends.control_store.tables.blocks import blocks
from meterline.backends.control_store.tables.columns import metadata
from meterline.backends.control_store.tables.meters import (
    log_growths,
    log_marks,
    logs,
    meters,
    seal_sums,
    seals,
    usage_store,
)
from meterline.backends.control_store.tables.reports import reports
from meterline.backends.control_store.tables.retention import retention_notices
from meterline.limits import ARCHIVE_ROWS
from tests.contract.conftest import DATABASES, fresh_database

Pages = dict[str, tuple[whole.Columns, list[Sequence[Any]]]]
OF_THE_MOMENT = {"completeness", "flushed", "sessions", "usage_shards"}
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


async def put(database: Database, pages: Pages, migration: int) -> None:
    async def act(connection: Connection) -> None:
        await migrate_within(connection, migration)
        await whole.clear(connection)
        for table in metadata.sorted_tables:
            if table.name not in pages:  # an older build has not got it
                continue
            columns, rows = pages[table.name]
            await whole.put(connection, table.name, columns, rows)
        await migrate_within(connection)

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

    await put(target, pages, newest())
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
    for newer in (log_growths, log_marks):
        del pages[newer.name]
    await put(target, pages, 27)
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


async def test_minutes_whose_drop_has_begun_are_of_the_moment(control_database: Database) -> None:
    async def notice(connection: Connection) -> None:
        await whole.clear(connection)
        rows = [row(retention_notices, period=name) for name in ("202601", "202602")]
        rows[1]["begun_at_ms"] = None
        await connection.execute(retention_notices.insert(), rows)

    await control_database.write(notice)
    moment = await control_database.read(lambda it: whole.moment(it, 2))
    assert moment.minutes == {(value(retention_notices.c.table_name.type), "202601")}


async def test_only_blocks_that_are_read_are_of_the_moment(control_database: Database) -> None:
    states = dict(enumerate(["making", "readable", "replaced", "gone"], start=1))

    async def act(connection: Connection) -> None:
        await fill(connection)
        await connection.execute(blocks.delete())
        rows = [row(blocks, number=number, state=state) for number, state in states.items()]
        await connection.execute(blocks.insert(), rows)

    async def found(connection: Connection) -> dict[int, str]:
        rows = await connection.execute(select(blocks.c.number, blocks.c.state))
        return {int(number): str(state) for number, state in rows}

    await control_database.write(act)
    assert (await control_database.read(lambda it: whole.moment(it, 1))).blocks == [2]
    assert await control_database.read(whole.kept_blocks) == [2, 3]
    await control_database.write(lambda it: whole.become(it, 1, "log", None, "usage"))
    assert await control_database.read(found) == states | {3: "gone"}, "its rows are not there"


async def test_all_reports_are_paused(control_database: Database) -> None:
    given = {
        "a": ("active", "", None),
        "b": ("parked", "the endpoint answered 410", None),
        "c": ("paused", "by hand", None),
        "d": ("active", "", 5),
    }

    async def act(connection: Connection) -> None:
        await whole.clear(connection)
        await connection.execute(meters.insert(), [row(meters)])
        rows = [
            row(reports, id=id_, slug=id_, state=state, state_reason=reason, deleted_at_ms=deleted)
            for id_, (state, reason, deleted) in given.items()
        ]
        await connection.execute(reports.insert(), rows)

    async def found(connection: Connection) -> dict[str, tuple[str, str]]:
        asked = select(reports.c.id, reports.c.state, reports.c.state_reason)
        return {id_: (state, reason) for id_, state, reason in await connection.execute(asked)}

    await control_database.write(act)
    assert await control_database.write(lambda it: whole.pause_reports(it, "restored")) == 2
    assert await control_database.read(found) == {
        "a": ("paused", "restored"),
        "b": ("paused", "restored. Before: the endpoint answered 410"),
        "c": ("paused", "by hand"),
        "d": ("active", ""),
    }


async def test_a_restored_log_goes_on_under_its_number(control_database: Database) -> None:
    await control_database.write(fill)

    async def goes_on(connection: Connection) -> None:
        firsts = msgspec.json.encode([4, 0]).decode()
        await whole.become(connection, 1, "another", firsts, "a usage store")

    await control_database.write(goes_on)
    found: dict[str, list[Any]] = defaultdict(list)

    async def ask(connection: Connection) -> None:
        found["rows"] = [tuple(it) for it in await connection.execute(select(logs))]
        found["usage"] = list((await connection.execute(select(usage_store.c.id))).scalars())
        found["count"] = [(await connection.execute(select(func.count(logs.c.id)))).scalar_one()]

    await control_database.read(ask)
    assert found == {
        "rows": [(1, "another", 1, "[4,0]")],
        "usage": ["a usage store"],
        "count": [1],
    }
