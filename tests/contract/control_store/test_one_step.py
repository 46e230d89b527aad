"""What `Question` and `Change` promise, on SQLite and PostgreSQL: of texts, integers and bytes, the
same as a statement a row.
"""

from typing import Any, Final

import pytest
from sqlalchemy import Column, Float, Integer, LargeBinary, MetaData, Table, Text, bindparam, select

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database
from meterline.backends.control_store.one_step import Change, Question

_things: Final = Table(
    "things",
    MetaData(),
    Column("kind", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("words", Text),
    Column("bytes", LargeBinary),
)
_QUESTION: Final = Question(
    select(_things).where(_things.c.number.in_(bindparam("numbers", expanding=True)))
)
_CHANGE: Final = Change(_things, ("kind", "number"), ("words", "bytes"))
MANY: Final = 9_000


@pytest.fixture
async def database(control_database: Database) -> Database:
    async def act(connection: Connection) -> None:
        await connection.run_sync(_things.metadata.create_all)

    await control_database.write(act)
    return control_database


async def put(database: Database, rows: list[tuple[Any, ...]]) -> None:
    names = [column.name for column in _things.c]

    async def act(connection: Connection) -> None:
        values = [dict(zip(names, row, strict=True)) for row in rows]
        await connection.execute(_things.insert(), values)

    await database.write(act)


async def found(database: Database, numbers: list[int]) -> list[tuple[Any, ...]]:
    rows = await database.read(lambda it: _QUESTION.rows(it, {"numbers": numbers}))
    return sorted((row.kind, row.number, row.words, row.bytes) for row in rows)


async def change(database: Database, rows: list[tuple[Any, ...]]) -> None:
    async def act(connection: Connection) -> None:
        await _CHANGE.make(connection, rows)

    await database.write(act)


async def test_rows_come_as_they_were_put(database: Database) -> None:
    rows = [
        ("a", 1, 'quotes " \\ and \n lines', b"\x00\xff'\""),
        ("b", 2, "", b""),
        ("c", 3, None, None),
        ("d", 2**31 - 1, "naïve ☃ \U0001f600", bytes(range(256))),
    ]
    await put(database, rows)
    assert await found(database, [row[1] for row in rows]) == rows
    assert await found(database, [2]) == [rows[1]]
    assert await found(database, [9]) == []


async def test_each_row_is_changed_to_its_own_values_and_no_other(database: Database) -> None:
    before = [("a", 1, "a1", b"1"), ("a", 2, "a2", b"2"), ("b", 1, "b1", b"3")]
    await put(database, before)
    await change(
        database, [("a", 2, None, b"\xff"), ("b", 1, "it's ?", None), ("z", 1, "nobody", b"")]
    )
    after = [("a", 1, "a1", b"1"), ("a", 2, None, b"\xff"), ("b", 1, "it's ?", None)]
    assert await found(database, [1, 2]) == after


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 63, 64, 65, 130, MANY])
async def test_as_many_as_there_are_are_changed_and_no_more(database: Database, count: int) -> None:
    before = [("a", number, None, None) for number in range(count + 2)]
    await put(database, before)
    rows = [("a", number, f"w{number}", number.to_bytes(4, "big")) for number in range(count)]
    await change(database, rows)
    assert await found(database, list(range(count + 2))) == rows + before[count:]


def test_rows_of_other_types_are_refused() -> None:
    others = Table("others", MetaData(), Column("id", Text, primary_key=True), Column("x", Float))
    for make in (lambda: Question(select(others)), lambda: Change(others, ("id",), ("x",))):
        with pytest.raises(AssertionError, match="x is FLOAT"):
            make()
