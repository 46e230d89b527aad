"""Many rows of texts, integers and bytes: asked for in one step of SQLite, changed in a few.

With each step Python's lock is given up and asked for again, and the loop, which works on, waits
for it in turn: for a batch of deliveries these changes of threads cost more than SQLite. The driver
of PostgreSQL takes and gives all rows at once by itself.
"""

from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

import msgspec
from sqlalchemy import (
    Integer,
    LargeBinary,
    Select,
    Table,
    Text,
    bindparam,
    case,
    func,
    select,
    update,
)
from sqlalchemy.sql import ColumnElement

from meterline.backends.control_store.connection import Connection

# How many rows a step changes. There are two texts, for the driver keeps what SQLite made of the
# last 128 of them, and a text for each number of rows would be hundreds of MiB.
_FEW: Final = 8
_MANY: Final = 64


class Question:
    """A question whose rows are few enough for one text. Its order holds for PostgreSQL only: who
    needs one sorts the rows.
    """

    def __init__(self, question: Select[Any]) -> None:
        self._question = question
        columns = question.subquery("those").c
        _of_known_types(columns)
        shown = [_shown(column) for column in columns]
        self._together = select(func.json_group_array(func.json_array(*shown)))
        self._bytes = [place for place, it in enumerate(columns) if _is_bytes(it)]
        self._row: Any = namedtuple("Row", columns.keys())  # type: ignore[misc] # noqa: PYI024 - names come from the question

    async def rows(self, connection: Connection, asked: Mapping[str, object]) -> list[Any]:
        """Its rows, with members by the names of its columns."""
        if connection.dialect.name != "sqlite":
            return list(await connection.execute(self._question, asked))
        result = (await connection.execute(self._together, asked)).scalar_one()
        rows: list[list[Any]] = msgspec.json.decode(result)
        for place in self._bytes:
            for row in rows:
                row[place] = None if row[place] is None else bytes.fromhex(row[place])
        return [self._row._make(row) for row in rows]


def _of_known_types(columns: Iterable[ColumnElement[Any]]) -> None:
    """Others change on their way: JSON of SQLite has 15 digits of a float, and no booleans."""
    for column in columns:
        assert isinstance(column.type, Text | Integer | LargeBinary), f"{column} is {column.type}"


def _is_bytes(column: ColumnElement[Any]) -> bool:
    return isinstance(column.type, LargeBinary)


def _shown(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """JSON has no bytes."""
    if not _is_bytes(column):
        return column
    return case((column.is_not(None), func.hex(column)))


class Change:
    """A change of rows by their keys, each to values of its own."""

    def __init__(self, table: Table, keys: Sequence[str], values: Sequence[str]) -> None:
        self._names = [f"of_{name}" for name in keys] + list(values)
        self._statement = (
            update(table)
            .where(*(table.c[name] == bindparam(f"of_{name}") for name in keys))
            .values({name: bindparam(name) for name in values})
        )
        _of_known_types(table.c[name] for name in (*keys, *values))
        places = enumerate(values, start=len(keys) + 1)
        puts = ", ".join(f'"{name}" = those.column{place}' for place, name in places)
        finds = " AND ".join(
            f'"{table.name}"."{name}" = those.column{place}'
            for place, name in enumerate(keys, start=1)
        )
        marks = f"({', '.join('?' * len(self._names))})"
        self._texts = {
            size: f'UPDATE "{table.name}" SET {puts} FROM (VALUES {", ".join([marks] * size)})'  # noqa: S608 - names of our own columns
            f" AS those WHERE {finds}"
            for size in (_FEW, _MANY)
        }

    async def make(self, connection: Connection, rows: Sequence[Sequence[object]]) -> None:
        """Change rows: the values of each, after its keys. No key comes twice."""
        if not rows:
            return
        if connection.dialect.name != "sqlite":
            named = [dict(zip(self._names, row, strict=True)) for row in rows]
            await connection.execute(self._statement, named)
            return
        size = _FEW if len(rows) <= _FEW else _MANY
        steps = [tuple(chain.from_iterable(step)) for step in _steps(rows, size)]
        await connection.exec_driver_sql(self._texts[size], steps)


def _steps(rows: Sequence[Sequence[object]], size: int) -> Iterator[list[Sequence[object]]]:
    """So many at a time. The last of them comes again until they are: it changes nothing more."""
    left = iter(rows)
    while step := list(islice(left, size)):
        yield step + step[-1:] * (size - len(step))
