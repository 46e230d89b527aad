"""What the stores of this folder have in common: their methods are transactions, and rows become
values by the names of their columns.

A method under `reads` or `writes` is called without the connection: it gets that of a transaction
of its own. It may run more than once (`engine`).
"""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import fields
from functools import cache
from threading import Lock
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import msgspec
from sqlalchemy import Row, Select, Table

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database

_P = ParamSpec("_P")
_T = TypeVar("_T")
_LEARNING: Final = Lock()


class SqlStore:
    """A store in a control store's database."""

    def __init__(self, database: Database) -> None:
        self.database = database


_S = TypeVar("_S", bound=SqlStore)
_Asked = Coroutine[Any, Any, _T]


def reads(
    method: Callable[Concatenate[_S, Connection, _P], Awaitable[_T]],
) -> Callable[Concatenate[_S, _P], _Asked[_T]]:
    """A method as one transaction that only reads."""

    async def run(store: _S, /, *args: _P.args, **named: _P.kwargs) -> _T:
        return await store.database.read(lambda given: method(store, given, *args, **named))

    return run


def writes(
    method: Callable[Concatenate[_S, Connection, _P], Awaitable[_T]],
) -> Callable[Concatenate[_S, _P], _Asked[_T]]:
    """A method as one transaction that writes; what it did is durable on return."""

    async def run(store: _S, /, *args: _P.args, **named: _P.kwargs) -> _T:
        return await store.database.write(lambda given: method(store, given, *args, **named))

    return run


def read_by(
    function: Callable[Concatenate[Connection, _P], Awaitable[_T]],
) -> Callable[Concatenate[SqlStore, _P], _Asked[_T]]:
    """A method that is one transaction: a function which only reads."""

    async def run(store: SqlStore, /, *args: _P.args, **named: _P.kwargs) -> _T:
        return await store.database.read(lambda given: function(given, *args, **named))

    return run


def written_by(
    function: Callable[Concatenate[Connection, _P], Awaitable[_T]],
) -> Callable[Concatenate[SqlStore, _P], _Asked[_T]]:
    """A method that is one transaction: a function which writes."""

    async def run(store: SqlStore, /, *args: _P.args, **named: _P.kwargs) -> _T:
        return await store.database.write(lambda given: function(given, *args, **named))

    return run


async def fetch_one(
    connection: Connection, question: Select[Any], made: Callable[[Row[Any]], _T]
) -> _T | None:
    """What is made of the only row of a question; None where there is none."""
    row = (await connection.execute(question)).one_or_none()
    return None if row is None else made(row)


async def fetch_int(connection: Connection, question: Select[Any]) -> int:
    """The one number that a question asks for, such as a count."""
    return int((await connection.execute(question)).scalar_one())


def value_of(kind: type[_T], row: Row[*tuple[Any, ...]], **others: object) -> _T:
    """The value in a row: each member from the column of its name, as the type of the member says,
    such as an enum from its text. `others` are the members that no column holds as they are.
    """
    members = {str(name): value for name, value in row._asdict().items()}  # names may be quoted
    _learn(kind)  # type: ignore[arg-type] # it is hashable, as every type
    return msgspec.convert({**members, **others}, kind)


@cache
def _learn(kind: type[Any]) -> None:
    """Have msgspec learn a type, and those of its members, before they are used.

    It learns a type when it first meets it, and others see what it knows so far: a thread that uses
    the type meanwhile reads what is not there yet, and the process crashes.
    """
    with _LEARNING:
        msgspec.json.Decoder(kind)


def row_of(value: Any, table: Table, **others: object) -> dict[str, Any]:
    """The row of a dataclass: each member that a column has the name of. `others` are the columns
    that no member holds as they are.
    """
    named = {it.name: getattr(value, it.name) for it in fields(value) if it.name in table.c}
    return {**named, **others}


def json_text(value: object) -> str:
    """A value as a column of JSON holds it."""
    return msgspec.json.encode(value).decode()
