"""What the stores of this folder have in common: their methods are transactions.

A method under `reads` or `writes` is called without the connection: it gets that of a transaction
of its own. It may run more than once (`engine`).
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from meterline.backends.control_store.connection import Connection
from meterline.backends.control_store.engine import Database

_P = ParamSpec("_P")
_T = TypeVar("_T")


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
