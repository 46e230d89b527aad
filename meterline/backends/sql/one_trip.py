"""SQLite for SQLAlchemy's asyncio, with one trip to the connection's thread for each statement.

The dialect's own cursor goes there four times: to be made, to execute, to fetch, to be closed. Each
is a change of threads, and these, not SQLite, are what a small transaction takes its time with.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import aiosqlite
from sqlalchemy.connectors.asyncio import AsyncIODBAPIConnection, AsyncIODBAPICursor
from sqlalchemy.dialects.sqlite.aiosqlite import (
    AsyncAdapt_aiosqlite_connection,
    AsyncAdapt_aiosqlite_cursor,
    AsyncAdapt_aiosqlite_dbapi,
)


class _Statement:
    """What SQLAlchemy takes for a cursor: its rows are here before they are asked for."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection
        # private, but what all of aiosqlite and of the dialect goes through
        self._there: Callable[..., Awaitable[None]] = connection._execute  # noqa: SLF001
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1

    async def execute(self, sql: str, parameters: Sequence[Any] = ()) -> "_Statement":
        """Execute a statement, and fetch all of its rows."""
        await self._there(self._done, sql, parameters)
        return self

    async def executemany(self, sql: str, parameters: Sequence[Sequence[Any]]) -> "_Statement":
        """Execute a statement that has no rows, with each of the parameters."""
        await self._there(self._done_many, sql, parameters)
        return self

    async def fetchall(self) -> list[Any]:
        """The rows."""
        return self._rows

    def close(self) -> None:
        """Nothing is open."""

    def _done(self, sql: str, parameters: Sequence[Any]) -> None:
        self._keep(self._connection._conn.execute(sql, parameters))  # noqa: SLF001 - in its thread

    def _done_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None:
        self._keep(self._connection._conn.executemany(sql, parameters))  # noqa: SLF001 - as above

    def _keep(self, cursor: sqlite3.Cursor) -> None:
        self.description = cursor.description
        self._rows = cursor.fetchall() if cursor.description else []
        self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid
        cursor.close()


class _Cursor(AsyncAdapt_aiosqlite_cursor):
    __slots__ = ()

    _awaitable_cursor_close = False

    def _make_new_cursor(self, connection: AsyncIODBAPIConnection) -> AsyncIODBAPICursor:
        return cast("AsyncIODBAPICursor", _Statement(cast("aiosqlite.Connection", connection)))

    def _aenter_cursor(self, cursor: AsyncIODBAPICursor) -> AsyncIODBAPICursor:
        return cursor


class _Connection(AsyncAdapt_aiosqlite_connection):
    __slots__ = ()

    _cursor_cls = _Cursor


class OneTripSqlite(AsyncAdapt_aiosqlite_dbapi):
    """The `module` of an engine: aiosqlite as the dialect has it, but for the cursor."""

    def __init__(self) -> None:
        super().__init__(aiosqlite, sqlite3)

    def connect(self, *args: Any, **options: Any) -> AsyncAdapt_aiosqlite_connection:
        """A connection, with a thread of its own."""
        made = super().connect(*args, **options)
        return _Connection(self, made.driver_connection)
